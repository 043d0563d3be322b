// A change of the catalog: locks, evaluation, one log entry.
#include "configsvr/commit.h"

#include "common/bson/doc.h"
#include "common/repl/write.h"
#include "common/sharding/changelog.h"
#include "configsvr/setup.h"

enum { COMMIT_TIMEOUT_MS = 60000 }; // where the request has no deadline of its own

// false without an error: one was not free.
static bool lock_all(struct write *w, const char *const *namespaces, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (!write_lock_namespace(w, namespaces[i], true)) return false;
  }
  return true;
}

// Locks are there, nothing yields until the commit. *again is set when a lock was refused.
static bool evaluate(struct commit *c, const char *const *namespaces, size_t n, commit_fn fn, void *args, bool *again,
                     struct error *err) {
  *again = !lock_all(c->write, namespaces, n);
  if (*again) return true;
  if (!repl_is_primary(c->cs->node.repl)) return error_set(err, ERR_NotWritablePrimary, "not primary");
  write_atomic(c->write);
  c->now = cluster_clock_tick(&c->cs->node.clock);
  return fn(c, args, err);
}

// What fn refused, or found done already, was read from applied state: is it the newest?
static bool confirm(struct operation *op, struct config_server *cs, struct error *err) {
  struct error stale = {0};
  if (repl_barrier(op, cs->node.repl, &stale)) return true;
  *err = stale;
  return false;
}

static bool run(struct operation *op, struct config_server *cs, const char *const *namespaces, size_t n, commit_fn fn,
                void *args, struct error *err) {
  if (!setup_wait(op, cs, err)) return false;
  struct commit c = {.cs = cs, .arena = op->arena, .write = write_begin(op, cs->node.repl)};
  for (;;) { // each turn waits for a holder's entry; the operation's deadline ends it
    bool again;
    if (!evaluate(&c, namespaces, n, fn, args, &again, err)) {
      write_abandon(c.write);
      (void)confirm(op, cs, err);
      return false;
    }
    if (again) {
      if (!write_wait(op, c.write, err)) return false;
      continue;
    }
    if (!write_is_empty(c.write)) return write_commit(op, c.write, err);
    write_abandon(c.write);
    return confirm(op, cs, err);
  }
}

bool commit_run(struct operation *op, struct config_server *cs, const char *const *namespaces, size_t n, commit_fn fn,
                void *args, struct error *err) {
  int64_t deadline = op->deadline_ms;
  int32_t code = op->deadline_code;
  if (deadline == OPERATION_NO_DEADLINE) op_deadline_in(op, COMMIT_TIMEOUT_MS, ERR_ExceededTimeLimit);
  bool ok = run(op, cs, namespaces, n, fn, args, err);
  op->deadline_ms = deadline;
  op->deadline_code = code;
  return ok;
}

bool commit_put(struct commit *c, const char *ns, const bson_t *doc, struct error *err) {
  return local_put(&c->cs->node, c->write, ns, doc, err);
}

bool commit_delete(struct commit *c, const char *ns, const bson_value_t *id, struct error *err) {
  return local_delete(&c->cs->node, c->write, ns, id, err);
}

bool commit_delete_str(struct commit *c, const char *ns, const char *id, struct error *err) {
  bson_value_t v = value_str(id);
  return commit_delete(c, ns, &v, err);
}

bool commit_delete_oid(struct commit *c, const char *ns, const bson_oid_t *id, struct error *err) {
  bson_value_t v = {.value_type = BSON_TYPE_OID};
  v.value.v_oid = *id;
  return commit_delete(c, ns, &v, err);
}

bool commit_log(struct commit *c, const char *what, const char *ns, const bson_t *details, struct error *err) {
  const bson_t *row = changelog_row(c->arena, c->cs->node.host_port, "config", what, ns, details);
  return commit_put(c, changelog_is_action(what) ? "config.actionlog" : "config.changelog", row, err);
}

bool commit_placement(struct commit *c, const char *ns, const uint8_t *uuid, const char *const *shards, size_t n,
                      struct error *err) {
  bson_t *row = arena_bson(c->arena), array;
  bson_oid_t id;
  bson_oid_init(&id, NULL);
  bson_append_oid(row, "_id", -1, &id);
  bson_append_utf8(row, "nss", -1, ns, -1);
  if (uuid) doc_append_uuid(row, "uuid", uuid);
  doc_append_ts(row, "timestamp", c->now);
  bson_append_array_begin(row, "shards", -1, &array);
  for (size_t i = 0; i < n; i++) bson_append_utf8(&array, arena_printf(c->arena, "%zu", i), -1, shards[i], -1);
  bson_append_array_end(row, &array);
  return commit_put(c, "config.placementHistory", row, err);
}
