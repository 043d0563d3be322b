// What the files of a member share.
//
//   repl.c       start and stop          drive.c    consensus and log: events in, updates out; applying
//   roles.c      who leads, stepping up  config.c   the configuration document and its rules
//   initiate.c   a new set               status.c   hello and replSetGetStatus
//   waits.c      barriers, concerns      pacing.c   snapshots, cutting the log; reading the log
//   write.c, proposal.c, locks.c         the primary's side of writing
//   transport.c  raft's messages between members
#ifndef SHARDLET_REPL_REPL_INTERNAL_H
#define SHARDLET_REPL_REPL_INTERNAL_H

#include "common/repl/consensus.h"
#include "common/repl/log.h"
#include "common/repl/proposal.h"
#include "common/repl/repl.h"

enum {
  DEFAULT_ELECTION_MS = 2000, // electionTimeoutMillis; raft's own timeout is half of it (it waits 1 to 2 times that)
  HEARTBEAT_MS = 100,
  SNAPSHOT_TIMEOUT_MS = 60000,
  MAX_INFLIGHT = 256,
  MAX_JOBS = 16,
};

struct transport;

struct repl {
  struct loop *loop;
  struct store *store;
  struct remotes *remotes;
  struct cluster_clock *clock;
  struct repl_hooks hooks;
  char *set_name, *role;
  char *self;        // host:port: as the configuration names this member, before that as it was told at start
  uint64_t instance; // random, made with the data directory
  uint64_t id;       // raft's, 0 = in no set

  struct raft_log *log;
  struct consensus *consensus; // NULL = in no set
  struct transport *transport;
  uv_timer_t timer;
  bool stopping;

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
  bool stepping_up;                   // a fiber is at it
  int64_t state_since_ms, elected_ms; // wall clock
  uint64_t known_leader;

  // Configuration (config.c)
  bson_t *config; // as applied; before that as asked for. NULL = none

  // Barriers (waits.c)
  uint64_t barriers_begun, barriers_finished, barrier_index;

  // Jobs: fibers of this member's own
  struct operation *jobs[MAX_JOBS];
  size_t n_jobs;
  struct event job_ended;

  struct proposals proposals;
};

// --- repl.c ---
// Starts a fiber that repl_stop() ends (kills and waits for). false: too many, or stopping.
bool repl_job(struct repl *r, const char *what, void (*fn)(struct operation *op, void *arg), void *arg);
// Begins to take part: the log holds a set's entries.
bool repl_join(struct operation *op, struct repl *r, const struct log_found *found, struct error *err);

// --- drive.c ---
uint64_t drive_now(void); // consensus' time
struct consensus_output drive_output(struct repl *r);
void drive_durable(void *ctx, size_t votes, size_t appends, bool installed);
void drive_settle(struct repl *r); // after every event: role, commit, timer
uint64_t drive_propose(void *repl, struct entry *e);

// --- roles.c ---
void roles_follow(struct repl *r);  // consensus' role or the replay's progress may have changed
void roles_applied(struct repl *r); // something was applied
void roles_set_state(struct repl *r, enum member_state s);

// --- config.c ---
extern const uint8_t config_uuid[16];                       // of local.system.replset, in every set
const bson_t *config_load(struct repl *r, struct arena *a); // as applied; NULL = none
void config_applied(struct repl *r, const bson_t *entry);   // takes a new one over, if the entry has one
// A full document out of what a user gave: defaults, int32 where MongoDB has them. err: what is wrong with it, as
// MongoDB says it.
bool config_normalize(const struct repl *r, const bson_t *given, const bson_t *old, bson_t *out, struct error *err);
struct config_member {
  int32_t id;
  const char *host;
  double priority;
  int64_t votes;
  bool hidden, arbiter;
  bson_iter_t it; // at the member's document
};
bool config_each_member(const bson_t *config, size_t *at, bson_iter_t *array, struct config_member *out);
size_t config_members(const bson_t *config);
int64_t config_election_timeout(const bson_t *config);
// Writes the configuration as an entry (creating the collection before, if need be) and waits for it.
bool config_write(struct operation *op, struct repl *r, const bson_t *config, struct error *err);

#endif
