// Commands to other shards and to the config server.
#ifndef SHARDLET_SHARDD_PEER_H
#define SHARDLET_SHARDD_PEER_H

#include "shardd/shard.h"

enum { PEER_TIMEOUT_MS = 30000 }; // an answer takes this long at most, unless said otherwise

// On the primary of a shard, in database `db`. idempotent: sent again after network and not-primary errors. *reply is
// in op's arena; reply may be NULL. err: what the other side said, or what kept it from answering.
bool peer_call(struct operation *op, struct shard *sh, const char *shard, const char *db, const bson_t *body,
               int64_t timeout_ms, bool idempotent, const bson_t **reply, struct error *err);

// On the config server's primary, in admin; sent again until it answers (its commands are idempotent).
bool config_call(struct operation *op, struct shard *sh, const bson_t *body, const bson_t **reply, struct error *err);

#endif
