// What the files of a member share.
//
//   repl.c       start and stop          drive.c    consensus and log: events in, updates out; applying
//   roles.c      who leads, stepping up  config.c   the configuration document and its rules
//   initiate.c   a new set               status.c   hello and replSetGetStatus
//   waits.c      barriers, times         pacing.c   snapshots, cutting the log; reading the log
//   write.c, proposal.c, locks.c         the primary's side of writing
//   standing.c   priority, freeze, step down     membership.c  adding and removing members
//   transport.c  raft's messages between members    write_concern.c  what members have what was written
//   initial_sync.c, copy_source.c  a member that copies another one's data
#ifndef SHARDLET_REPL_REPL_INTERNAL_H
#define SHARDLET_REPL_REPL_INTERNAL_H

#include "common/repl/config.h"
#include "common/repl/consensus.h"
#include "common/repl/log.h"
#include "common/repl/proposal.h"
#include "common/repl/repl.h"

enum {
  HEARTBEAT_MS = 100,
  SNAPSHOT_TIMEOUT_MS = 2000, // the message only starts a copy (initial_sync.h), so it may come often
  MAX_INFLIGHT = 256,
  MAX_JOBS = 16,
};

struct transport;
struct initial_sync;
struct copy_source;

#define GENERATION_NOTE "generation" // {n}: of the data directory, in the log's notes

struct repl {
  struct loop *loop;
  struct store *store;
  struct remotes *remotes;
  struct cluster_clock *clock;
  struct repl_hooks hooks;
  char *set_name, *role, *dbpath;
  char *self;        // host:port: as the configuration names this member, before that as it was told at start
  uint64_t instance; // random, made with the data directory
  uint64_t id;       // raft's, 0 = in no set
  int64_t started_ms;

  struct raft_log *log;
  struct consensus *consensus; // NULL = in no set
  struct transport *transport;
  struct initial_sync *sync;
  struct copy_source *copies;
  uv_timer_t timer;
  bool timer_closed, stopping;
  struct fiber *closer; // of repl_stop(), which waits for jobs and the timer to end

  // Applying (drive.c)
  uint64_t applied;   // last index of the log that is in the store
  struct optime last; // of the last applied entry that is a document
  int64_t last_wall_ms;
  uint64_t replay_target;  // serve nothing before this is applied; 0 = reached
  bool applier_runs;       // a fiber goes on where the fast path stopped
  struct event progressed; // something was applied, or a role changed

  // Roles (roles.c)
  enum member_state state;
  uint64_t leading;                   // the term in which this member leads, 0 = does not
  uint64_t first_of_term;             // index of its own first entry there, 0 = not proposed yet
  struct operation *stepping_up;      // the fiber that is at it, NULL = none
  int64_t state_since_ms, elected_ms; // wall clock
  uint64_t known_leader;

  // Configuration (config.c)
  bson_t *config;        // as applied; before that as asked for. NULL = none
  uint64_t config_index; // of its entry, if this process has applied that

  bool initiating;

  // Standing for election (standing.c)
  int64_t frozen_until; // loop_now_ms(); replSetFreeze, replSetStepDown
  bool electable;       // as consensus was told last
  int takeover_checks;
  size_t handovers; // so far
  bool removed;     // the configuration does not name this member
  bool doubtful;    // it stood still and may have been replaced: not primary before a barrier is applied
  uint64_t ticked;  // drive_now() of the last event

  uint64_t election_ms; // electionTimeoutMillis

  // Barriers (waits.c)
  uint64_t barriers_begun, barriers_finished, barrier_index;

  // Jobs: fibers of this member's own
  struct operation *jobs[MAX_JOBS];
  size_t n_jobs;

  struct proposals proposals;
};

// --- repl.c ---
// Starts a fiber that repl_stop() kills and waits for. NULL: too many, or stopping.
struct operation *repl_job(struct repl *r, const char *what, void (*fn)(struct operation *op, void *arg), void *arg);
// Begins to take part: the log holds a set's entries.
bool repl_join(struct operation *op, struct repl *r, const struct consensus_state *state, struct error *err);

// --- drive.c ---
uint64_t drive_now(void); // consensus' time
struct consensus_output drive_output(struct repl *r);
void drive_durable(void *ctx, size_t votes, size_t appends, bool installed);
void drive_receive(struct repl *r, const struct consensus_message *m);
void drive_settle(struct repl *r); // after every event: role, commit, timer
uint64_t drive_propose(void *repl, struct entry *e);

// --- roles.c ---
const char *member_state_name(enum member_state s);
void roles_follow(struct repl *r);  // consensus' role or the replay's progress may have changed
void roles_applied(struct repl *r); // something was applied
void roles_stood_still(struct repl *r, uint64_t ms);
void roles_set_state(struct repl *r, enum member_state s);

// --- initiate.c ---
struct identity { // who answers at an address
  uint64_t instance;
  bool initiated, self;
};
bool initiate_ask(struct operation *op, struct repl *r, const char *host, struct identity *out, struct error *err);
void initiate_note_identity(struct repl *r);

// --- membership.c ---
void membership_start(struct repl *r);

// --- waits.c ---
uint64_t waits_propose_barrier(struct repl *r); // its index; 0: not the leader
uint64_t waits_propose_noop(struct repl *r);    // the same; an entry with a time of its own

// --- status.c ---
const char *status_primary(const struct repl *r); // the primary's address; NULL = unknown now

// --- standing.c ---
void standing_hand_over(struct repl *r); // to whoever is best and has caught up, if there is one
void standing_start(struct repl *r);
void standing_update(struct repl *r); // the configuration or the time may say something else now

// --- pacing.c ---
void pacing_start(struct repl *r);
bool pacing_snapshot(struct operation *op, struct repl *r); // now; false: nothing new, or not possible
struct log_position { // the last document at or before an index, which optime.index is
  struct optime optime;
  int64_t wall_ms;
};
void pacing_position(struct operation *op, struct repl *r, uint64_t index, struct log_position *out);
// That is what the snapshot ends with: a member that starts from it knows the time that it has reached.
void pacing_note_position(struct repl *r, const struct log_position *p);

#endif
