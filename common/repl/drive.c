// Driving a member: consensus' wishes go to the log and the transport, what is durable goes back to it, what is
// committed is applied.
//
// Applying happens right here, in the callback that learned of the commit, as long as the entries are in memory and it
// takes no longer than a slice; a fiber goes on with the rest (replay after a start, a member that catches up).
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/repl/initial_sync.h"
#include "common/repl/repl_internal.h"
#include "common/repl/transport.h"

enum { SLICE_US = 2000, READ_ENTRIES = 256, READ_BYTES = 1 << 20, BEHIND_MS = 5, HELD_MS = 1 };

uint64_t drive_now(void) {
  return (uint64_t)clock_mono_ms();
}

// --- updates out ---

static void on_vote(void *ctx, uint64_t term, uint64_t voted_for) {
  struct repl *r = ctx;
  transport_hold(r->transport);
  raft_log_vote(r->log, term, voted_for);
}

static void on_append(void *ctx, uint64_t first, struct entry *const *entries, size_t n) {
  struct repl *r = ctx;
  raft_log_append(r->log, first, entries, n);
  if (entries[n - 1]->type != ENTRY_COMMAND) return;
  bson_t doc; // whoever leads next gives out later times than any entry in its log
  entry_doc(entries[n - 1], &doc);
  cluster_clock_advance(r->clock, entry_ts(&doc));
}

static void on_install(void *ctx, const struct snapshot_mark *mark, struct entry *snapshot) {
  initial_sync_install(ctx, mark);
}

static void on_send(void *ctx, const struct consensus_message *m) {
  struct repl *r = ctx;
  transport_send(r->transport, m);
}

struct consensus_output drive_output(struct repl *r) {
  return (struct consensus_output){r, on_vote, on_append, on_install, on_send};
}

// --- applying ---

static void apply_document(struct repl *r, uint64_t index, const struct entry *e) {
  bson_t doc;
  entry_doc(e, &doc);
  store_apply(r->store, index, &doc);
  config_applied(r, &doc);
  r->last = (struct optime){.ts = entry_ts(&doc), .term = (int64_t)e->term, .index = index};
  bson_iter_t it;
  if (bson_iter_init_find(&it, &doc, "wall")) r->last_wall_ms = bson_iter_date_time(&it);
  cluster_clock_advance(r->clock, r->last.ts);
  if (r->hooks.applied) r->hooks.applied(r->hooks.ctx, index, &doc);
}

static void apply_next(struct repl *r, struct entry *e) {
  uint64_t index = r->applied + 1;
  if (e->type == ENTRY_COMMAND) apply_document(r, index, e);
  r->applied = index;
  consensus_applied(r->consensus, drive_now(), index, e);
}

// Tells everybody about what was applied since the last time. Locks are freed before anyone runs.
static void announce(struct repl *r) {
  proposals_applied(&r->proposals, r->applied);
  initial_sync_applied(r);
  raft_log_release(r->log, r->applied);
  roles_applied(r);
  event_signal(&r->progressed);
  if (!r->leading) transport_tell(r->transport, r->known_leader);
}

// Applies what could not be done at once. Reads from the log what is not in memory any more.
static void applier(struct operation *op, void *arg) {
  struct repl *r = arg;
  struct entry **entries = arena_alloc(op->arena, READ_ENTRIES * sizeof(struct entry *));
  struct error err;
  while (r->applied < consensus_commit(r->consensus) && op_check(op, &err)) {
    if (store_holds(r->store)) {
      announce(r);
      if (!op_sleep(op, HELD_MS, &err)) break;
      continue;
    }
    struct entry *e = raft_log_get(r->log, r->applied + 1);
    if (e) {
      apply_next(r, e);
    } else {
      uint64_t left = consensus_commit(r->consensus) - r->applied;
      size_t n = raft_log_read(op, r->log, r->applied + 1, left < READ_ENTRIES ? (size_t)left : READ_ENTRIES,
                               READ_BYTES, entries);
      for (size_t i = 0; i < n; i++) {
        apply_next(r, entries[i]);
        entry_unref(entries[i]);
      }
    }
    bool behind = store_behind(r->store);
    if (!behind && !op_yield_due(op)) continue;
    announce(r);
    if (behind ? !op_sleep(op, BEHIND_MS, &err) : !op_yield(op, &err)) break;
  }
  announce(r);
  r->applier_runs = false;
  if (!r->stopping) drive_settle(r);
}

static void apply_committed(struct repl *r) {
  if (r->applier_runs || initial_sync_holds_apply(r) || r->applied >= consensus_commit(r->consensus)) return;
  int64_t start = clock_mono_us();
  bool all = r->stopping || !store_holds(r->store);
  while (all && r->applied < consensus_commit(r->consensus)) {
    struct entry *e = raft_log_get(r->log, r->applied + 1);
    all = e && clock_mono_us() - start < SLICE_US;
    if (all) apply_next(r, e);
  }
  if (!all) r->applier_runs = repl_job(r, "applier", applier, r) != NULL;
  announce(r);
}

// --- events in ---

// A leader has something to do at least once a heartbeat. Half of raft's timeout without is suspicious.
static void notice_gap(struct repl *r) {
  uint64_t now = drive_now(), gap = r->ticked ? now - r->ticked : 0;
  r->ticked = now;
  if (gap > r->election_ms / 4) roles_stood_still(r, gap);
}

static void on_timer(uv_timer_t *timer) {
  struct repl *r = timer->data;
  if (r->stopping || !r->consensus) return;
  notice_gap(r);
  if (drive_now() >= consensus_timer(r->consensus)) consensus_timeout(r->consensus, drive_now());
  drive_settle(r);
}

static void set_timer(struct repl *r) {
  uint64_t now = drive_now(), at = consensus_timer(r->consensus);
  (void)uv_timer_start(&r->timer, on_timer, at > now ? at - now : 1, 0);
}

void drive_settle(struct repl *r) {
  if (!r->consensus || r->stopping) return;
  roles_follow(r);
  apply_committed(r);
  set_timer(r);
}

void drive_durable(void *ctx, size_t votes, size_t appends, bool installed) {
  struct repl *r = ctx;
  if (!r->consensus) return; // a set that is just being made
  notice_gap(r);
  if (votes) transport_release(r->transport, votes);
  if (appends) consensus_persisted(r->consensus, drive_now(), appends);
  if (installed) initial_sync_durable(r);
  if (!r->stopping)
    drive_settle(r);
  else
    apply_committed(r);
}

void drive_receive(struct repl *r, const struct consensus_message *m) {
  if (!r->consensus || r->stopping) return;
  notice_gap(r);
  consensus_receive(r->consensus, drive_now(), m);
  drive_settle(r);
}

uint64_t drive_propose(void *repl, struct entry *e) {
  struct repl *r = repl;
  return r->consensus ? consensus_propose(r->consensus, drive_now(), e) : 0;
}
