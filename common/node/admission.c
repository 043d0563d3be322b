// What the dispatcher asks before a command runs (member state) and adds to every reply ($clusterTime,
// operationTime, errorLabels).
#include "common/node/internal.h"

#include <string.h>

#include "common/bson/doc.h"

// A member that is neither primary nor secondary (starting, recovering, removed) serves no data.
static bool state_allows(struct node *n, const struct request *r, struct error *err) {
  unsigned flags = r->command->flags;
  if (!(flags & (CMD_READ | CMD_WRITE)) || (flags & CMD_ANY_STATE)) return true;
  if (repl_is_primary(n->repl)) return true;
  if (flags & CMD_WRITE) return error_set(err, ERR_NotWritablePrimary, "not primary");
  if (r->read_mode == READ_PRIMARY) {
    return error_set(err, ERR_NotPrimaryNoSecondaryOk, "not primary and secondaryOk=false");
  }
  enum member_state state = repl_state(n->repl);
  if (state == MEMBER_SECONDARY) return true;
  return error_set(err, ERR_NotPrimaryOrSecondary, "%s",
                   state == MEMBER_RECOVERING ? "node is recovering" : "node is not in primary or recovering state");
}

static bool has_own_counter(const char *command) {
  static const char *const names[] = {"insert", "find", "update", "delete", "getMore"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    if (!strcmp(command, names[i])) return true;
  }
  return false;
}

bool node_admit(void *daemon, struct request *r, struct error *err) {
  struct node *n = daemon;
  unsigned flags = r->command->flags;
  cluster_clock_read(&n->clock, r->body);
  if (n->own->stopping && !(flags & CMD_ANY_STATE)) {
    return error_set(err, ERR_InterruptedAtShutdown, "interrupted at shutdown");
  }
  if (!has_own_counter(r->command->name)) n->own->ops.command++;
  rw_defaults_apply(n, r);
  return state_allows(n, r, err);
}

// The code that decides about a label: the command's, else its write concern error's.
static int32_t code_of_reply(const bson_t *reply, const struct error *err) {
  if (err) return err->code;
  bson_iter_t it, code;
  if (!doc_get(reply, "writeConcernError", &it) || !BSON_ITER_HOLDS_DOCUMENT(&it)) return 0;
  bson_iter_recurse(&it, &code);
  return bson_iter_find(&code, "code") && BSON_ITER_HOLDS_INT32(&code) ? bson_iter_int32(&code) : 0;
}

// sharding.md section 10: retryable writes are retried by drivers only when the server says so.
static void append_labels(struct node *n, const struct request *r, bson_t *reply, const struct error *err) {
  if (!r->has_txn_number || r->autocommit_given || doc_has(reply, "errorLabels")) return;
  int32_t code = code_of_reply(reply, err);
  bool retry = error_is_retriable(code) || (code == ERR_CallbackCanceled && n->own->stopping) ||
               (code == ERR_StaleConfig && !r->has_shard_version);
  if (!retry) return;
  bson_t labels;
  BSON_APPEND_ARRAY_BEGIN(reply, "errorLabels", &labels);
  BSON_APPEND_UTF8(&labels, "0", "RetryableWriteError");
  bson_append_array_end(reply, &labels);
}

void node_finish(void *daemon, struct request *r, bson_t *reply, const struct error *err) {
  struct node *n = daemon;
  if (err && err->code == ERR_StaleConfig && n->hooks.stale_config_seen) n->hooks.stale_config_seen(n->hooks.ctx);
  append_labels(n, r, reply, err);
  if (err && (error_is_not_primary(err->code) || err->code == ERR_ShutdownInProgress) && r->conn) {
    // A client that knows this topology version already does not take the error for news.
    node_topology_check(n);
    topology_append(&n->own->topology, reply);
  }
  if (!repl_config(n->repl)) return; // no clock before the set is initiated
  cluster_clock_append(&n->clock, reply);
  uint64_t ts = r->operation_time ? r->operation_time : repl_last_applied(n->repl).ts;
  if (ts) doc_append_ts(reply, "operationTime", ts);
}
