// Bodies on their way to a shard or a config server, and replies on their way back.
#ifndef SHARDLET_MONGOS_FORWARD_H
#define SHARDLET_MONGOS_FORWARD_H

#include "mongos/router.h"

// Appends the fields of `body` to *to, without those that belong to the hop it arrived on ($db, gossip, versions) and
// without those named in `drop` (ends with NULL; may be NULL itself).
void forward_fields(bson_t *to, const bson_t *body, const char *const *drop);

// The request's body as a new document that can take more fields, in the request's arena.
bson_t *forward_body(const struct request *r, const char *const *drop);

// The same with another command name (and value, when not NULL) in the place of the first field.
bson_t *forward_renamed(const struct request *r, const char *name, const bson_value_t *value, const char *const *drop);

// Appends the fields of a daemon's reply to *to, without ok and gossip.
void forward_reply(bson_t *to, const bson_t *reply);

// Keeps the reply's operationTime for the answer to the client, if it is the latest so far.
void note_operation_time(struct request *r, const bson_t *reply);

// writeConcern as commands that change metadata forward it: at least majority, wtimeout at least a minute.
void append_majority_concern(bson_t *to, const struct request *r);

#endif
