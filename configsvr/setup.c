// The catalog's beginning (config.version, indexes) and its upkeep: one operation while this member is primary.
#include "configsvr/setup.h"

#include "common/base/log.h"
#include "common/bson/doc.h"
#include "common/repl/write.h"
#include "configsvr/balancer.h"
#include "configsvr/trim.h"

enum {
  RETRY_MS = 200, // after a setup that failed (no majority yet)
  TRIM_INTERVAL_MS = 60000,
};

const char setup_operation[] = "ConfigUpkeep";

struct index_spec {
  const char *ns;
  const char *fields[4]; // "-x" = descending
  bool unique;
};

// reference/sharding.md 1.1. Naming a collection here also creates it.
static const struct index_spec indexes[] = {
    {"config.chunks", {"uuid", "min"}, true},
    {"config.chunks", {"uuid", "shard", "min"}, true},
    {"config.chunks", {"uuid", "lastmod"}, true},
    {"config.chunks", {"uuid", "shard", "onCurrentShardSince"}, false},
    {"config.shards", {"host"}, true},
    {"config.tags", {"ns", "min"}, true},
    {"config.tags", {"ns", "tag"}, false},
    {"config.placementHistory", {"nss", "-timestamp"}, true},
};

static bool ensure_index(struct config_server *cs, struct write *w, const struct index_spec *s, struct error *err) {
  bson_t key = BSON_INITIALIZER;
  for (size_t i = 0; i < 4 && s->fields[i]; i++) {
    bool descending = s->fields[i][0] == '-';
    bson_append_int32(&key, s->fields[i] + descending, -1, descending ? -1 : 1);
  }
  bool ok = local_ensure_index(&cs->node, w, s->ns, &key, s->unique, err);
  bson_destroy(&key);
  return ok;
}

static bool find_version(struct config_server *cs, struct arena *a, const bson_t **doc) {
  bson_t filter = BSON_INITIALIZER;
  bson_append_int32(&filter, "_id", -1, 1);
  bool found = local_find_one(&cs->node, a, "config.version", &filter, doc);
  bson_destroy(&filter);
  return found;
}

bool setup_cluster_id(struct config_server *cs, bson_oid_t *id) {
  struct arena *a = arena_new();
  const bson_t *doc;
  bool ok = find_version(cs, a, &doc) && doc_oid(doc, "clusterId", id);
  arena_free(a);
  return ok;
}

static bool ensure_version(struct operation *op, struct config_server *cs, struct write *w, struct error *err) {
  const bson_t *doc;
  if (find_version(cs, op->arena, &doc)) return true;
  bson_t *version = arena_bson(op->arena);
  bson_oid_t id;
  bson_oid_init(&id, NULL);
  bson_append_int32(version, "_id", -1, 1);
  bson_append_oid(version, "clusterId", -1, &id);
  return local_put(&cs->node, w, "config.version", version, err);
}

static bool set_up(struct operation *op, struct config_server *cs, struct error *err) {
  struct write *w = write_begin(op, cs->node.repl);
  while (!write_lock_namespace(w, "config.version", true)) {
    if (!write_wait(op, w, err)) return false;
  }
  write_atomic(w);
  bool ok = true;
  for (size_t i = 0; ok && i < sizeof indexes / sizeof *indexes; i++) ok = ensure_index(cs, w, &indexes[i], err);
  ok = ok && ensure_version(op, cs, w, err);
  if (!ok) {
    write_abandon(w);
    return false;
  }
  if (!write_is_empty(w)) return write_commit(op, w, err);
  write_abandon(w); // complete already
  return true;
}

static bool still(const struct config_server *cs, int64_t term) {
  return repl_is_primary(cs->node.repl) && repl_term(cs->node.repl) == term;
}

static void upkeep(struct operation *op, void *arg) {
  struct config_server *cs = arg;
  int64_t term = cs->upkeep_term;
  struct error err = {0};
  while (still(cs, term) && !set_up(op, cs, &err)) {
    log_warn("SHARDING", "The config server could not complete its catalog, trying again", "error:e", &err);
    if (!op_sleep(op, RETRY_MS, &err)) break;
  }
  if (still(cs, term) && op_check(op, &err)) {
    cs->ready_term = term;
    event_signal(&cs->became_ready);
    balancer_start(cs->balancer, term, config_connection_string(op->arena, cs));
  }
  while (op_sleep(op, TRIM_INTERVAL_MS, &err) && still(cs, term)) trim_logs(op, cs);
  if (cs->upkeep == op) cs->upkeep = NULL;
}

void setup_role_changed(struct config_server *cs, bool primary, int64_t term) {
  if (cs->upkeep) operation_kill(cs->upkeep, ERR_InterruptedDueToReplStateChange);
  cs->upkeep = NULL;
  balancer_stop(cs->balancer);
  event_signal(&cs->became_ready); // those that wait look again
  if (!primary) return;
  cs->upkeep_term = term;
  cs->upkeep = operation_start(cs->loop, setup_operation, upkeep, cs);
}

bool setup_wait(struct operation *op, struct config_server *cs, struct error *err) {
  for (;;) {
    if (!repl_is_primary(cs->node.repl)) return error_set(err, ERR_NotWritablePrimary, "not primary");
    if (cs->ready_term == repl_term(cs->node.repl)) return true;
    if (!event_wait(op, &cs->became_ready, err)) return false;
  }
}
