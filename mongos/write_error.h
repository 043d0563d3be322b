// The errors of single statements in a shard's reply.
#ifndef SHARDLET_MONGOS_WRITE_ERROR_H
#define SHARDLET_MONGOS_WRITE_ERROR_H

#include "common/base/arena.h"
#include "common/base/error.h"

// One element of writeErrors: the error with its extra fields, copied into `a`. *index: the child's number, -1 = none.
void write_error_parse(struct arena *a, const bson_t *entry, int64_t *index, struct error *err);
// The reply's first one. false: there is none.
bool write_error_first(struct arena *a, const bson_t *reply, struct error *err);

#endif
