// Commands to other shards and to the config server.
#include "shardd/peer.h"

#include <string.h>

bool peer_call(struct operation *op, struct shard *sh, const char *shard, const char *db, const bson_t *body,
               int64_t timeout_ms, bool idempotent, const bson_t **reply, struct error *err) {
  struct replica_set *set = shard_registry_get(op, sh->shards, shard, err);
  return set && replica_set_call_primary(op, set, db, body, timeout_ms, idempotent, reply, err);
}

bool config_call(struct operation *op, struct shard *sh, const bson_t *body, const bson_t **reply, struct error *err) {
  return replica_set_call_primary(op, sh->config, "admin", body, PEER_TIMEOUT_MS, true, reply, err);
}
