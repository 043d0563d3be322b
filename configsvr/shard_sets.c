// The shards as replica sets to talk to. Watched from the first use on; there are few, and they go with the daemon.
#include "configsvr/shard_sets.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "configsvr/catalog_read.h"

struct shard_entry {
  char *host;
  struct replica_set *set;
};

static void entry_free(void *value) {
  struct shard_entry *e = value;
  replica_set_unwatch(e->set);
  free(e->host);
  free(e);
}

void shard_sets_init(struct config_server *cs) {
  cs->shard_sets = map_new();
}

void shard_sets_free(struct config_server *cs) {
  map_free(cs->shard_sets, entry_free);
  cs->shard_sets = NULL;
}

struct replica_set *shard_set(struct operation *op, struct config_server *cs, const char *shard, struct error *err) {
  struct shard_type s;
  if (!cs->shard_sets) {
    error_set(err, ERR_ShutdownInProgress, "The config server is shutting down");
    return NULL;
  }
  if (!catalog_need_shard(cs, op->arena, shard, &s, err)) return NULL;
  struct shard_entry *e = map_gets(cs->shard_sets, shard);
  if (e && strcmp(e->host, s.host) == 0) return e->set;
  struct replica_set *set = replica_set_watch(cs->loop, cs->node.remotes, s.host, err);
  if (!set) return NULL;
  struct shard_entry *fresh = calloc(1, sizeof *fresh);
  if (!fresh) log_fatal("SHARDING", "Out of memory", NULL);
  fresh->host = strdup(s.host);
  fresh->set = set;
  e = map_puts(cs->shard_sets, shard, fresh);
  if (e) entry_free(e);
  return set;
}

static bool call(struct operation *op, struct config_server *cs, const char *shard, const char *db, const bson_t *body,
                 int64_t timeout_ms, bool idempotent, const bson_t **reply, struct error *err) {
  struct replica_set *set = shard_set(op, cs, shard, err);
  return set && replica_set_call_primary(op, set, db, body, timeout_ms, idempotent, reply, err);
}

bool shard_call(struct operation *op, struct config_server *cs, const char *shard, const char *db, const bson_t *body,
                bool idempotent, const bson_t **reply, struct error *err) {
  return call(op, cs, shard, db, body, 0, idempotent, reply, err);
}

bool shard_call_for(struct operation *op, struct config_server *cs, const char *shard, const char *db,
                    const bson_t *body, int64_t timeout_ms, const bson_t **reply, struct error *err) {
  return call(op, cs, shard, db, body, timeout_ms, true, reply, err);
}
