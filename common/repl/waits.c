// Waiting for what is applied: barriers, times, write concerns.
#include "common/base/clock.h"
#include "common/bson/doc.h"
#include "common/repl/repl_internal.h"
#include "common/repl/transport.h"

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

// One barrier at a time is under way; whoever comes meanwhile waits for the next one, together.
bool repl_barrier(struct operation *op, struct repl *r, struct error *err) {
  if (!repl_is_primary(r)) return not_primary(r, err);
  if (consensus_alone(r->consensus)) return op_check(op, err); // the only voter cannot have been replaced
  uint64_t term = r->leading, wanted = r->barriers_begun + 1;
  for (;;) {
    if (r->leading != term || !repl_is_primary(r)) return not_primary(r, err);
    if (r->barrier_index && r->applied >= r->barrier_index) {
      r->barrier_index = 0;
      r->barriers_finished = r->barriers_begun;
    }
    if (r->barriers_finished >= wanted) return true;
    if (!r->barrier_index && !begin_barrier(r)) return not_primary(r, err);
    if (!event_wait(op, &r->progressed, err)) return false;
  }
}

static bool propose_noop(struct repl *r) {
  struct change_list list;
  changes_init(&list);
  change_noop(&list);
  const bson_t *doc = changes_finish(&list, cluster_clock_tick(r->clock), clock_wall_ms());
  struct entry *e = entry_new(ENTRY_COMMAND, 0, bson_get_data(doc), doc->len);
  uint64_t index = consensus_propose(r->consensus, drive_now(), e);
  entry_unref(e);
  changes_cleanup(&list);
  return index != 0;
}

bool repl_wait_applied(struct operation *op, struct repl *r, uint64_t ts, struct error *err) {
  if (!r->consensus) return not_primary(r, err);
  bool proposed = false;
  while (r->last.ts < ts) {
    // A time that another shard gave out: an idle primary gets there with an entry that does nothing.
    if (!proposed && repl_is_primary(r)) {
      cluster_clock_advance(r->clock, ts);
      proposed = propose_noop(r);
    }
    if (!event_wait(op, &r->progressed, err)) return false;
  }
  return op_check(op, err);
}

// How many members have applied what is at `index`, as they told last.
static size_t members_with(const struct repl *r, uint64_t index) {
  const struct members *m = consensus_members(r->consensus);
  size_t n = r->applied >= index;
  for (size_t i = 0; i < m->n; i++) {
    const struct report *told = m->list[i].id == r->id ? NULL : transport_report(r->transport, m->list[i].id);
    n += told && told->applied >= index;
  }
  return n;
}

static bool wait_for_members(struct operation *op, struct repl *r, uint64_t index, int64_t w, int64_t timeout_ms,
                             struct error *err) {
  int64_t end = timeout_ms > 0 ? loop_now_ms(op->loop) + timeout_ms : OPERATION_NO_DEADLINE;
  while ((int64_t)members_with(r, index) < w) {
    bool timed_out = false;
    int64_t left = end == OPERATION_NO_DEADLINE ? HEARTBEAT_MS : end - loop_now_ms(op->loop);
    if (left <= 0) return error_set(err, ERR_WriteConcernFailed, "waiting for replication timed out");
    if (!event_wait_for(op, &r->progressed, left < HEARTBEAT_MS ? left : HEARTBEAT_MS, &timed_out, err) && !timed_out)
      return false;
    if (r->stopping) return not_primary(r, err);
  }
  return true;
}

bool repl_wait_write_concern(struct operation *op, struct repl *r, uint64_t index, const bson_t *write_concern,
                             struct error *err) {
  bson_value_t w;
  if (!r->consensus || !doc_value(write_concern, "w", &w)) return true;
  if (w.value_type == BSON_TYPE_UTF8) {
    if (!strcmp(w.value.v_utf8.str, "majority")) return true; // what is applied is committed
    return error_set(err, ERR_UnknownReplWriteConcern,
                     "No write concern mode named '%s' found in replica set configuration", w.value.v_utf8.str);
  }
  if (!value_is_number(&w)) return error_set(err, ERR_FailedToParse, "w has to be a number or a string");
  int64_t n = value_i64(&w);
  if (n <= 1) return true;
  if (n > (int64_t)config_members(r->config))
    return error_set(err, ERR_UnsatisfiableWriteConcern, "Not enough data-bearing nodes");
  return wait_for_members(op, r, index, n, doc_i64(write_concern, "wtimeout", 0), err);
}

struct optime repl_last_applied(const struct repl *r) {
  return r->last;
}
