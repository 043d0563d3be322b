// explain: the shards' answers put together (reference/sharding.md 6.4).
#ifndef SHARDLET_MONGOS_EXPLAIN_H
#define SHARDLET_MONGOS_EXPLAIN_H

#include "mongos/aggregate.h"
#include "mongos/shard_call.h"

// Of find, count, distinct, findAndModify, update and delete. stage: SINGLE_SHARD, SHARD_MERGE, ...
void explain_append_query(struct request *r, const char *stage, const struct shard_call *calls, size_t n,
                          int64_t millis, bson_t *reply);
// Of aggregate. plan NULL: the whole pipeline went to one shard.
void explain_append_pipeline(struct request *r, const struct aggregate_plan *plan, const struct shard_call *calls,
                             size_t n, bson_t *reply);
// serverInfo, serverParameters and command, which end every explain.
void explain_append_common(struct request *r, const bson_t *inner, bson_t *reply);

#endif
