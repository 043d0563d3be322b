// The shards as replica sets to talk to, from this member's own config.shards.
#ifndef SHARDLET_CONFIGSVR_SHARD_SETS_H
#define SHARDLET_CONFIGSVR_SHARD_SETS_H

#include "common/net/replica_set.h"
#include "configsvr/config_server.h"

void shard_sets_init(struct config_server *cs);
void shard_sets_free(struct config_server *cs);
// NULL with ShardNotFound when there is no such shard.
struct replica_set *shard_set(struct operation *op, struct config_server *cs, const char *shard, struct error *err);
// Runs a command on the shard's primary. idempotent: may be sent again after a failure that leaves its outcome open.
bool shard_call(struct operation *op, struct config_server *cs, const char *shard, const char *db, const bson_t *body,
                bool idempotent, const bson_t **reply, struct error *err);
// The same, idempotent, for at most this long.
bool shard_call_for(struct operation *op, struct config_server *cs, const char *shard, const char *db,
                    const bson_t *body, int64_t timeout_ms, const bson_t **reply, struct error *err);

#endif
