// Keeping the log short: snapshots when enough was written, and what is read from the log by others.
//
// A snapshot is the store's: everything up to an index is in its files and on disk. Only then entries are removed, but
// for a tail that members which are a little behind, change capture and local.oplog.rs still read.
#include "common/base/log.h"
#include "common/bson/doc.h"
#include "common/repl/repl_internal.h"

enum {
  CHECK_MS = 1000,
  READ_ENTRIES = 256,
  READ_BYTES = 1 << 20,
};
// What is not in a snapshot is applied again after a crash: about a second for this much.
static const uint64_t snapshot_bytes = 32 << 20;
// Kept behind a snapshot; read back at every start, at 3 us an entry.
static const uint64_t tail_bytes = 32 << 20, tail_bytes_alone = 8 << 20;

// Which entry a snapshot ends with is noted beside it: a member that starts from there knows the time that it has
// reached.
static void note_position(struct operation *op, struct repl *r, uint64_t index) {
  struct entry *e = raft_log_get(r->log, index);
  if (e)
    e = entry_ref(e);
  else if (raft_log_read(op, r->log, index, 1, 1, &e) != 1)
    return;
  if (e->type == ENTRY_COMMAND) {
    bson_t doc, note = BSON_INITIALIZER;
    bson_iter_t it;
    entry_doc(e, &doc);
    BSON_APPEND_INT64(&note, "index", (int64_t)index);
    BSON_APPEND_INT64(&note, "term", (int64_t)e->term);
    doc_append_ts(&note, "ts", entry_ts(&doc));
    if (bson_iter_init_find(&it, &doc, "wall")) BSON_APPEND_DATE_TIME(&note, "wall", bson_iter_date_time(&it));
    raft_log_note(r->log, "position", &note, NULL, NULL);
    bson_destroy(&note);
  }
  entry_unref(e);
}

bool pacing_snapshot(struct operation *op, struct repl *r) {
  uint64_t index = store_snapshot(op, r->store);
  if (!index) return false;
  if (index > r->applied) index = r->applied;
  note_position(op, r, index);
  uint64_t tail = raft_log_tail(r->log, consensus_alone(r->consensus) ? tail_bytes_alone : tail_bytes),
           trailing = tail < index ? index - tail : 0;
  if (!consensus_snapshot(r->consensus, drive_now(), index, trailing)) return false;
  raft_log_mark(r->log, consensus_last_snapshot(r->consensus), consensus_first(r->consensus));
  log_debug("REPL", "Snapshot", "index:l first:l last:l", (int64_t)index, (int64_t)raft_log_first(r->log),
            (int64_t)raft_log_last(r->log));
  return true;
}

static void pacing_fiber(struct operation *op, void *arg) {
  struct repl *r = arg;
  while (op_sleep(op, CHECK_MS, NULL)) {
    uint64_t since = raft_log_bytes_after(r->log, consensus_last_snapshot(r->consensus)->index);
    if (since > snapshot_bytes && !r->replay_target) (void)pacing_snapshot(op, r);
  }
  if (!r->stopping) pacing_start(r); // somebody killed the operation
}

void pacing_start(struct repl *r) {
  (void)repl_job(r, "replSnapshots", pacing_fiber, r);
}

void repl_log_bounds(const struct repl *r, uint64_t *first, uint64_t *last) {
  *first = raft_log_first(r->log);
  *last = r->applied;
}

// Calls fn for one entry. false: fn wants no more.
static bool give(const struct entry *e, uint64_t index, bool (*fn)(void *ctx, uint64_t index, const bson_t *entry),
                 void *ctx) {
  if (e->type != ENTRY_COMMAND) return true;
  bson_t doc;
  entry_doc(e, &doc);
  return fn(ctx, index, &doc);
}

bool repl_read_log(struct operation *op, struct repl *r, uint64_t from,
                   bool (*fn)(void *ctx, uint64_t index, const bson_t *entry), void *ctx, struct error *err) {
  struct entry **entries = arena_alloc(op->arena, READ_ENTRIES * sizeof(struct entry *));
  if (from < raft_log_first(r->log))
    return error_set(err, ERR_OperationFailed, "the log does not reach back to entry %llu any more",
                     (unsigned long long)from);
  bool more = true;
  for (uint64_t at = from; more && at <= r->applied;) {
    struct entry *e = raft_log_get(r->log, at);
    size_t n = 1;
    if (e)
      entries[0] = entry_ref(e);
    else
      n = raft_log_read(op, r->log, at, r->applied - at < READ_ENTRIES ? (size_t)(r->applied - at) + 1 : READ_ENTRIES,
                        READ_BYTES, entries);
    if (!n)
      return error_set(err, ERR_OperationFailed, "the log was cut while it was read, at entry %llu",
                       (unsigned long long)at);
    for (size_t i = 0; i < n; i++, at++) {
      more = more && give(entries[i], at, fn, ctx);
      entry_unref(entries[i]);
    }
    if (!op_yield_if_due(op, err)) return false;
  }
  return true;
}
