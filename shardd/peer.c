// Commands to other shards and to the config server.
#include "shardd/peer.h"

#include <string.h>

bool peer_call(struct operation *op, struct shard *sh, const char *shard, const char *db, const bson_t *body,
               int64_t timeout_ms, bool idempotent, const bson_t **reply, struct error *err) {
  struct replica_set *set = shard_registry_get(op, sh->shards, shard, err);
  if (!set) return false;
  struct remote_command cmd = {.db = db, .body = body, .timeout_ms = timeout_ms};
  const bson_t *answer = NULL;
  const char *host = NULL;
  bool ok = replica_set_call(op, set, READ_PRIMARY, NULL, idempotent, &cmd, &answer, &host, err);
  if (reply) *reply = answer;
  return ok;
}

bool config_call(struct operation *op, struct shard *sh, const bson_t *body, const bson_t **reply, struct error *err) {
  struct remote_command cmd = {.db = "admin", .body = body, .timeout_ms = PEER_TIMEOUT_MS};
  const bson_t *answer = NULL;
  const char *host = NULL;
  bool ok = replica_set_call(op, sh->config, READ_PRIMARY, NULL, true, &cmd, &answer, &host, err);
  if (reply) *reply = answer;
  return ok;
}

void append_majority(bson_t *body) {
  bson_t child;
  BSON_APPEND_DOCUMENT_BEGIN(body, "writeConcern", &child);
  BSON_APPEND_UTF8(&child, "w", "majority");
  BSON_APPEND_INT32(&child, "wtimeout", 60000);
  bson_append_document_end(body, &child);
}
