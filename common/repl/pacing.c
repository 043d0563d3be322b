// Keeping the log short: snapshots when enough was written, and what is read from the log by others.
//
// A snapshot is the store's: everything up to an index is in its files and on disk. Only then entries are removed, but
// for a tail that members which are a little behind, change capture and local.oplog.rs still read.
#include "common/base/log.h"
#include "common/bson/doc.h"
#include "common/repl/initial_sync.h"
#include "common/repl/repl_internal.h"
#include "common/repl/transport.h"

enum {
  CHECK_MS = 200,
  READ_ENTRIES = 256,
  READ_BYTES = 1 << 20,
  LOOK_BACK = 64,     // entries of other types between documents
  ANSWERS_MS = 10000, // a member that was heard of since then
};
// What is not in a snapshot is applied again after a crash: about a second for this much.
static const uint64_t snapshot_bytes = 32 << 20;
// Kept behind a snapshot; read back at every start, at 3 us an entry.
static const uint64_t tail_bytes = 32 << 20, tail_bytes_alone = 8 << 20;

// Kept at most for members that are behind and answer; and for those that copy, or as much as the data is that they
// copy, if that is more. A member that falls back further begins an initial sync (anew).
static const uint64_t behind_bytes = 128 << 20, copy_bytes = 512 << 20;

// --- the position ---

static bool take_position(const struct entry *e, struct log_position *out) {
  bson_t doc;
  bson_iter_t it;
  if (e->type != ENTRY_COMMAND) return false;
  entry_doc(e, &doc);
  out->optime.ts = entry_ts(&doc);
  out->optime.term = (int64_t)e->term;
  if (bson_iter_init_find(&it, &doc, "wall")) out->wall_ms = bson_iter_date_time(&it);
  return true;
}

void pacing_position(struct operation *op, struct repl *r, uint64_t index, struct log_position *out) {
  *out = (struct log_position){.optime = r->last, .wall_ms = r->last_wall_ms};
  bool found = r->last.index <= index;
  out->optime.index = index;
  for (uint64_t at = index; !found && at >= raft_log_first(r->log) && at + LOOK_BACK > index && at; at--) {
    struct entry *e = raft_log_get(r->log, at);
    if (e)
      e = entry_ref(e);
    else if (raft_log_read(op, r->log, at, 1, 1, &e) != 1)
      break;
    found = take_position(e, out);
    entry_unref(e);
  }
  if (!found) *out = (struct log_position){.optime = {.index = index}};
}

void pacing_note_position(struct repl *r, const struct log_position *p) {
  bson_t note = BSON_INITIALIZER;
  BSON_APPEND_INT64(&note, "index", (int64_t)p->optime.index);
  BSON_APPEND_INT64(&note, "term", p->optime.term);
  doc_append_ts(&note, "ts", p->optime.ts);
  BSON_APPEND_DATE_TIME(&note, "wall", p->wall_ms);
  raft_log_note(r->log, "position", &note, NULL, NULL);
  bson_destroy(&note);
}

// --- snapshots ---

// The index behind which members that answer still need the log, UINT64_MAX = none. *limit: bytes that are kept for
// them; a disk that is nearly full is not filled with what somebody else lacks.
static uint64_t needed(struct repl *r, uint64_t *limit) {
  uint64_t bytes, least = copy_source_needs(r, &bytes), room = store_free_bytes(r->store) / 4;
  *limit = least == UINT64_MAX ? behind_bytes : bytes > copy_bytes ? bytes : copy_bytes;
  if (*limit > room) *limit = room;
  const struct members *m = consensus_members(r->consensus);
  for (size_t i = 0; r->leading && i < m->n; i++) {
    int64_t heard = transport_heard(r->transport, m->list[i].id);
    uint64_t match = consensus_match(r->consensus, m->list[i].id);
    bool answers = heard >= 0 && loop_now_ms(r->loop) - heard < ANSWERS_MS;
    if (m->list[i].id != r->id && answers && match + 1 >= raft_log_first(r->log) && match < least) least = match;
  }
  return least;
}

// The index behind which the log is kept.
static uint64_t kept_from(struct repl *r) {
  uint64_t limit, needs = needed(r, &limit);
  uint64_t tail = raft_log_tail(r->log, consensus_alone(r->consensus) ? tail_bytes_alone : tail_bytes);
  if (needs >= tail) return tail;
  uint64_t furthest = raft_log_tail(r->log, limit);
  if (furthest > tail) furthest = tail;
  copy_source_end_below(r, furthest);
  return needs > furthest ? needs : furthest;
}

bool pacing_snapshot(struct operation *op, struct repl *r) {
  uint64_t index = store_snapshot(op, r->store);
  if (!index) return false;
  if (index > r->applied) index = r->applied;
  struct log_position position;
  pacing_position(op, r, index, &position);
  pacing_note_position(r, &position);
  uint64_t from = kept_from(r), trailing = from < index ? index - from : 0;
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

void repl_log_bytes(const struct repl *r, uint64_t *bytes, uint64_t *most) {
  uint64_t first = raft_log_first(r->log);
  *bytes = raft_log_bytes_after(r->log, first ? first - 1 : 0);
  *most = snapshot_bytes + (r->consensus && consensus_alone(r->consensus) ? tail_bytes_alone : tail_bytes);
}

// Calls fn for one entry. false: fn wants no more.
static bool give(const struct entry *e, uint64_t index,
                 bool (*fn)(void *ctx, uint64_t index, int64_t term, const bson_t *entry), void *ctx) {
  if (e->type != ENTRY_COMMAND) return true;
  bson_t doc;
  entry_doc(e, &doc);
  return fn(ctx, index, (int64_t)e->term, &doc);
}

bool repl_read_log(struct operation *op, struct repl *r, uint64_t from,
                   bool (*fn)(void *ctx, uint64_t index, int64_t term, const bson_t *entry), void *ctx,
                   struct error *err) {
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
