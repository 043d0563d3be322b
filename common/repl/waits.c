// Waiting for what is applied: barriers and times.
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/bson/doc.h"
#include "common/repl/repl_internal.h"

enum {
  REPLICATION_MS = 5, // what a secondary may be behind under load: nobody is asked before
  ASK_AGAIN_MS = 500,
  ASK_TIMEOUT_MS = 2000,
};

static bool not_primary(const struct repl *r, struct error *err) {
  if (r->stopping) return error_set(err, ERR_ShutdownInProgress, "this member is shutting down");
  return error_set(err, ERR_NotWritablePrimary, "not primary");
}

uint64_t waits_propose_barrier(struct repl *r) {
  struct entry *e = entry_new(ENTRY_BARRIER, 0, "", 1);
  uint64_t index = consensus_propose(r->consensus, drive_now(), e);
  entry_unref(e);
  return index;
}

static bool begin_barrier(struct repl *r) {
  r->barrier_index = waits_propose_barrier(r);
  if (r->barrier_index) r->barriers_begun++;
  return r->barrier_index != 0;
}

static void finish_barrier(struct repl *r) {
  if (!r->barrier_index || r->applied < r->barrier_index) return;
  r->barrier_index = 0;
  r->barriers_finished = r->barriers_begun;
}

// One barrier at a time is under way; whoever comes meanwhile waits for the next one, together.
bool repl_barrier(struct operation *op, struct repl *r, struct error *err) {
  if (!repl_is_primary(r)) return not_primary(r, err);
  if (consensus_alone(r->consensus)) return op_check(op, err); // the only voter cannot have been replaced
  uint64_t term = r->leading, wanted = r->barriers_begun + 1;
  for (;;) {
    if (r->leading != term || !repl_is_primary(r)) return not_primary(r, err);
    finish_barrier(r);
    if (r->barriers_finished >= wanted) return true;
    if (!r->barrier_index && !begin_barrier(r)) return not_primary(r, err);
    if (!event_wait(op, &r->progressed, err)) return false;
  }
}

uint64_t waits_propose_noop(struct repl *r) {
  struct change_list list;
  changes_init(&list);
  change_noop(&list);
  const bson_t *doc = changes_finish(&list, cluster_clock_tick(r->clock), clock_wall_ms());
  struct entry *e = entry_new(ENTRY_COMMAND, 0, bson_get_data(doc), doc->len);
  uint64_t index = consensus_propose(r->consensus, drive_now(), e);
  entry_unref(e);
  changes_cleanup(&list);
  return index;
}

// A secondary's primary may be idle and never get to a time that another set gave out: it is told of it.
static void ask_for_time(struct operation *op, struct repl *r, uint64_t ts) {
  const char *primary = status_primary(r);
  if (!primary || !r->remotes) return;
  bson_t body = BSON_INITIALIZER, data;
  BSON_APPEND_INT32(&body, "appendOplogNote", 1);
  doc_append_ts(&body, "maxClusterTime", ts);
  BSON_APPEND_DOCUMENT_BEGIN(&body, "data", &data);
  BSON_APPEND_UTF8(&data, "reason", "a read waits for this time");
  bson_append_document_end(&body, &data);
  struct remote_command cmd = {.db = "admin", .body = &body, .timeout_ms = ASK_TIMEOUT_MS};
  const bson_t *reply;
  struct error err;
  const char *host = arena_strdup(op->arena, primary);
  if (!remote_call(op, r->remotes, host, &cmd, &reply, &err) && r->last.ts < ts)
    log_debug("REPL", "The primary did not take a time over", "host:s error:e", host, &err);
  bson_destroy(&body);
}

bool repl_wait_applied(struct operation *op, struct repl *r, uint64_t ts, struct error *err) {
  if (!r->consensus) return not_primary(r, err);
  int64_t ask_at = loop_now_ms(op->loop) + REPLICATION_MS;
  bool proposed = false;
  while (r->last.ts < ts) {
    bool primary = repl_is_primary(r), timed_out = false;
    if (primary && !proposed) {
      cluster_clock_advance(r->clock, ts);
      proposed = waits_propose_noop(r) != 0;
    }
    if (!primary && loop_now_ms(op->loop) >= ask_at) {
      ask_for_time(op, r, ts);
      ask_at = loop_now_ms(op->loop) + ASK_AGAIN_MS;
      if (!op_check(op, err)) return false;
      continue;
    }
    if (r->stopping) return not_primary(r, err);
    int64_t wait = primary ? ASK_AGAIN_MS : ask_at - loop_now_ms(op->loop);
    if (!event_wait_for(op, &r->progressed, wait, &timed_out, err) && !timed_out) return false;
  }
  return op_check(op, err);
}

bool repl_reach_time(struct operation *op, struct repl *r, uint64_t ts, struct error *err) {
  if (!repl_is_primary(r)) return not_primary(r, err);
  if (r->last.ts < ts) return repl_wait_applied(op, r, ts, err);
  // The member that asks has the entry, but has not heard yet that it is committed: it hears that with the next entry,
  // which may be a heartbeat away.
  finish_barrier(r);
  if (!r->barrier_index && !consensus_alone(r->consensus)) (void)begin_barrier(r);
  return true;
}

struct optime repl_last_applied(const struct repl *r) {
  return r->last;
}
