// A member's life: opening its log, joining its set, the fibers it runs, and an orderly end.
#include "common/repl/repl.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/bson/doc.h"
#include "common/repl/initial_sync.h"
#include "common/repl/repl_internal.h"
#include "common/repl/transport.h"

enum {
  DRAIN_MS = 2000, // for proposals that are under way when the process is told to end
  HAND_OVER_MS = 1500,
};

// --- jobs ---

struct job {
  struct repl *r;
  void (*fn)(struct operation *op, void *arg);
  void *arg;
};

static void run_job(struct operation *op, void *arg) {
  struct job j = *(struct job *)arg;
  free(arg);
  j.fn(op, j.arg);
  struct repl *r = j.r;
  for (size_t i = 0; i < r->n_jobs; i++)
    if (r->jobs[i] == op) r->jobs[i--] = r->jobs[--r->n_jobs];
  if (r->closer) fiber_ready(r->closer);
}

struct operation *repl_job(struct repl *r, const char *what, void (*fn)(struct operation *op, void *arg), void *arg) {
  if (r->stopping || r->n_jobs == MAX_JOBS) return NULL;
  size_t cap = 0;
  struct job *j = array_grow(NULL, &cap, 1, sizeof *j);
  *j = (struct job){r, fn, arg};
  struct operation *op = operation_start(r->loop, what, run_job, j);
  r->jobs[r->n_jobs++] = op;
  return op;
}

static void end_jobs(struct operation *op, struct repl *r) {
  r->closer = op->fiber;
  for (size_t i = 0; i < r->n_jobs; i++) operation_kill(r->jobs[i], ERR_InterruptedAtShutdown);
  while (r->n_jobs) fiber_park(op->loop);
}

// --- start ---

static char *copy(const char *s) {
  char *c = strdup(s);
  if (!c) log_fatal("REPL", "Out of memory", NULL);
  return c;
}

struct opening {
  const char *dbpath;
  struct log_file *file;
  struct log_found found;
  bson_t *identity, *config, *position, *generation;
  struct error err;
  bool ok;
};

static void open_job(void *arg) {
  struct opening *o = arg;
  o->file = log_file_open(o->dbpath, &o->err);
  if (!o->file) return;
  log_file_load(o->file, &o->found);
  (void)log_file_note(o->file, "identity", &o->identity);
  (void)log_file_note(o->file, "config", &o->config);
  (void)log_file_note(o->file, "position", &o->position);
  (void)log_file_note(o->file, GENERATION_NOTE, &o->generation);
  o->ok = true;
}

static void close_job(void *arg) {
  log_file_close(arg);
}

static void opening_free(struct opening *o) {
  log_found_free(&o->found);
  bson_destroy(o->identity);
  bson_destroy(o->config);
  bson_destroy(o->position);
  bson_destroy(o->generation);
}

static bool check_identity(const struct opening *o, const struct repl_options *options, struct error *err) {
  const char *set = o->identity ? doc_str(o->identity, "set", "") : "";
  if (*set && strcmp(set, options->set_name) != 0)
    return error_set(err, ERR_InvalidReplicaSetConfig,
                     "%s belongs to a member of the replica set \"%s\", not \"%s\": start it with --replSet %s, or use "
                     "another directory",
                     options->dbpath, set, options->set_name, set);
  return true;
}

static struct repl *repl_new(struct loop *l, const struct repl_options *o, const struct repl_hooks *h) {
  size_t cap = 0;
  struct repl *r = array_grow(NULL, &cap, 1, sizeof *r);
  *r = (struct repl){.loop = l, .store = o->store, .remotes = o->remotes, .clock = o->clock};
  if (h) r->hooks = *h;
  r->set_name = copy(o->set_name);
  r->role = copy(o->role);
  r->self = copy(o->self);
  r->dbpath = copy(o->dbpath);
  r->started_ms = clock_mono_ms();
  r->state_since_ms = clock_wall_ms();
  r->state = MEMBER_STARTUP;
  r->replay_target = store_replay_target(o->store);
  proposals_init(&r->proposals, o->clock, drive_propose, r);
  (void)uv_timer_init(loop_uv(l), &r->timer);
  r->timer.data = r;
  r->transport = transport_new(r);
  r->copies = copy_source_new();
  return r;
}

// Who this member is: noted with the directory, else made now.
static void take_identity(struct repl *r, const struct opening *o) {
  if (o->identity) {
    r->instance = (uint64_t)doc_i64(o->identity, "instance", 0);
    r->id = (uint64_t)doc_i64(o->identity, "id", 0);
    const char *self = doc_str(o->identity, "self", NULL);
    if (self && r->id) {
      free(r->self);
      r->self = copy(self);
    }
    return;
  }
  r->instance = random_u64() >> 1 | 1;
  bson_t note = BSON_INITIALIZER;
  BSON_APPEND_INT64(&note, "instance", (int64_t)r->instance);
  raft_log_note(r->log, "identity", &note, NULL, NULL);
  bson_destroy(&note);
}

// What the snapshot ends with was applied before this process.
static void take_position(struct repl *r, const struct opening *o) {
  bson_iter_t it;
  if (!o->position || (uint64_t)doc_i64(o->position, "index", 0) != o->found.state.snapshot.index) return;
  r->last = (struct optime){.term = doc_i64(o->position, "term", 0), .index = o->found.state.snapshot.index};
  (void)doc_timestamp(o->position, "ts", &r->last.ts);
  if (bson_iter_init_find(&it, o->position, "wall")) r->last_wall_ms = bson_iter_date_time(&it);
  cluster_clock_advance(r->clock, r->last.ts);
}

// The clock goes on from the last entry, whether that is applied already or not.
static void continue_clock(struct operation *op, struct repl *r) {
  struct entry *last;
  uint64_t index = raft_log_last(r->log);
  if (index < raft_log_first(r->log) || raft_log_read(op, r->log, index, 1, 1, &last) != 1) return;
  if (last->type == ENTRY_COMMAND) {
    bson_t doc;
    entry_doc(last, &doc);
    cluster_clock_advance(r->clock, entry_ts(&doc));
  }
  entry_unref(last);
}

// What was applied last, from the log's tail that a snapshot leaves: after a clean end nothing is applied again, and
// who waits for a time that was reached before must not wait for the next entry.
static void recall_last_applied(struct operation *op, struct repl *r) {
  enum { LOOK_BACK = 64 }; // entries of other types between commands
  for (uint64_t index = r->applied; index >= raft_log_first(r->log) && index + LOOK_BACK > r->applied && index;
       index--) {
    struct entry *e;
    if (raft_log_read(op, r->log, index, 1, 1, &e) != 1) return;
    bool command = e->type == ENTRY_COMMAND;
    if (command) {
      bson_t doc;
      entry_doc(e, &doc);
      r->last = (struct optime){.ts = entry_ts(&doc), .term = (int64_t)e->term, .index = index};
    }
    entry_unref(e);
    if (command) return;
  }
}

// Not before the caller has its struct repl: what follows calls the hooks.
static void settle_first(void *arg) {
  drive_settle(arg);
}

bool repl_join(struct operation *op, struct repl *r, const struct consensus_state *state, struct error *err) {
  struct consensus_state s = *state;
  if (consensus_lone_voter(&s, r->id)) {
    s.term++;
    s.voted_for = r->id;
    raft_log_vote(r->log, s.term, s.voted_for);
    raft_log_sync(op, r->log);
  }
  r->election_ms = (uint64_t)config_election_timeout(r->config);
  struct consensus_options o = {.id = r->id,
                                .address = r->self,
                                .election_timeout_ms = (uint32_t)r->election_ms / 2,
                                .heartbeat_ms = HEARTBEAT_MS,
                                .snapshot_timeout_ms = SNAPSHOT_TIMEOUT_MS,
                                .max_inflight = MAX_INFLIGHT,
                                .seed = (uint32_t)random_u64()};
  struct consensus_output output = drive_output(r);
  struct consensus *c = consensus_new(&o, &output);
  r->applied = s.snapshot.index;
  recall_last_applied(op, r);
  r->consensus = c;
  if (!consensus_start(c, drive_now(), &s, err)) {
    r->consensus = NULL;
    consensus_free(c);
    return false;
  }
  roles_set_state(r, MEMBER_STARTUP2);
  pacing_start(r);
  standing_start(r);
  membership_start(r);
  loop_defer(r->loop, settle_first, r);
  return true;
}

struct repl *repl_start(struct operation *op, struct loop *l, const struct repl_options *o, const struct repl_hooks *h,
                        struct error *err) {
  struct opening opening = {.dbpath = o->dbpath};
  op_run_in_pool(op, open_job, &opening);
  if (!opening.ok || !check_identity(&opening, o, err)) {
    if (!opening.ok) *err = opening.err;
    if (opening.file) op_run_in_pool(op, close_job, opening.file);
    opening_free(&opening);
    return NULL;
  }
  struct repl *r = repl_new(l, o, h);
  struct raft_log_events events = {r, drive_durable};
  r->log = raft_log_new(l, opening.file, &opening.found, &events);
  take_identity(r, &opening);
  r->sync = initial_sync_new(opening.generation ? (uint64_t)doc_i64(opening.generation, "n", 0) : 0,
                             opening.identity && doc_bool(opening.identity, "joining", false));
  bool member = r->id != 0, ok = true;
  if (member) {
    const bson_t *applied = config_load(r, op->arena);
    r->config = applied ? bson_copy(applied) : opening.config ? bson_copy(opening.config) : NULL;
    take_position(r, &opening);
    continue_clock(op, r);
    ok = repl_join(op, r, &opening.found.state, err);
  } else {
    store_replay_done(r->store);
    r->replay_target = 0;
  }
  opening_free(&opening);
  if (ok) return r;
  repl_stop(op, r);
  return NULL;
}

// --- stop ---

static void wait_for_proposals(struct operation *op, struct repl *r) {
  int64_t end = loop_now_ms(op->loop) + DRAIN_MS;
  bool timed_out = false;
  while (r->proposals.first && loop_now_ms(op->loop) < end)
    if (!event_wait_for(op, &r->progressed, end - loop_now_ms(op->loop), &timed_out, NULL) && !timed_out) return;
}

static void timer_closed(uv_handle_t *handle) {
  struct repl *r = handle->data;
  fiber_ready(r->closer);
  r->timer_closed = true;
}

static void close_timer(struct operation *op, struct repl *r) {
  uv_close((uv_handle_t *)&r->timer, timer_closed);
  while (!r->timer_closed) fiber_park(op->loop);
}

static void repl_free(struct repl *r) {
  initial_sync_free(r->sync);
  copy_source_free(r->copies);
  transport_free(r->transport);
  consensus_free(r->consensus);
  proposals_free(&r->proposals);
  bson_destroy(r->config);
  free(r->set_name);
  free(r->role);
  free(r->self);
  free(r->dbpath);
  free(r);
}

// A primary of several hands over, so that the others do not have to wait for its silence.
static void hand_over(struct operation *op, struct repl *r) {
  int64_t end = loop_now_ms(op->loop) + HAND_OVER_MS;
  bool timed_out = false;
  while (r->leading && !consensus_alone(r->consensus) && loop_now_ms(op->loop) < end) {
    standing_hand_over(r);
    if (!event_wait_for(op, &r->progressed, HEARTBEAT_MS, &timed_out, NULL) && !timed_out) return;
  }
}

void repl_stop(struct operation *op, struct repl *r) {
  r->proposals.term = 0; // nothing new
  r->proposals.refusal = ERR_ShutdownInProgress;
  wait_for_proposals(op, r);
  hand_over(op, r);
  r->stopping = true;
  event_signal(&r->progressed);
  (void)uv_timer_stop(&r->timer);
  end_jobs(op, r);
  if (r->consensus && !r->replay_target) (void)pacing_snapshot(op, r);
  proposals_lose(&r->proposals, ERR_ShutdownInProgress);
  raft_log_close(op, r->log);
  close_timer(op, r);
  repl_free(r);
}

bool repl_generation(const char *dbpath, uint64_t *out, struct error *err) {
  bson_t *note;
  *out = 0;
  if (!log_file_exists(dbpath)) return true;
  struct log_file *f = log_file_open(dbpath, err);
  if (!f) return false;
  if (log_file_note(f, GENERATION_NOTE, &note)) *out = (uint64_t)doc_i64(note, "n", 0);
  bson_destroy(note);
  log_file_close(f);
  return true;
}

const char *repl_set_name(const struct repl *r) {
  return r->set_name;
}

const bson_t *repl_config(const struct repl *r) {
  return r->config;
}
