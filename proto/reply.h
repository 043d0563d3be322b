// Replies: how every command answers.
#ifndef SHARDLET_PROTO_REPLY_H
#define SHARDLET_PROTO_REPLY_H

#include <bson/bson.h>

#include "common/base/error.h"

void reply_ok(bson_t *reply); // appends ok: 1.0
// ok: 0.0, errmsg, code, codeName, then err's extra fields. What *reply held before is dropped.
void reply_error(bson_t *reply, const struct error *err);
// ok: 0.0 with a text and without a code: how commands of the older style complain. Returns true, as their handlers do.
bool reply_errmsg_only(bson_t *reply, const char *text);
// Reads a reply: true when ok is 1; else fills err with code, message and extra (all fields but ok/errmsg/code/codeName
// and gossip; allocated from a).
bool reply_check(const bson_t *reply, struct arena *a, struct error *err);
// One element of writeErrors: {index, code, errmsg, ...extra}.
void reply_append_write_error(bson_t *array, uint32_t at, int32_t index, const struct error *err);

#endif
