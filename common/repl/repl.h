// A member of a replica set: consensus, the log, applying, roles. DESIGN.md section 5.
//
// - Primary = leader whose first entry of this term is applied (and whose critical sections are re-entered). Only then
// does
//   hello say so and are statements evaluated.
// - Acknowledged = committed by a majority (fsynced there) and applied here. What is applied is committed: no
// rollbacks.
// - A refused proposal was surely not written (err NotWritablePrimary); one whose leadership was lost MAY have been
//   (err InterruptedDueToReplStateChange / PrimarySteppedDown).
#ifndef SHARDLET_REPL_REPL_H
#define SHARDLET_REPL_REPL_H

#include "common/net/cluster_time.h"
#include "common/net/operation.h"
#include "common/net/remote.h"
#include "common/net/server.h"
#include "common/store/change.h"
#include "common/store/store.h"

struct repl;

enum member_state { // MongoDB's numbers
  MEMBER_STARTUP = 0,
  MEMBER_PRIMARY = 1,
  MEMBER_SECONDARY = 2,
  MEMBER_RECOVERING = 3,
  MEMBER_STARTUP2 = 5,
  MEMBER_UNKNOWN = 6,
  MEMBER_DOWN = 8,
  MEMBER_REMOVED = 10,
};

struct optime {
  uint64_t ts;
  int64_t term;
  uint64_t index;
};

struct repl_options {
  const char *set_name; // --replSet
  const char *dbpath;   // raft.sqlite lives there
  const char *role;     // "shardd" or "configsvr"
  struct store *store;
  struct remotes *remotes;
  struct cluster_clock *clock;
  const char *self; // host:port as others reach it, until a configuration names it
};

// Called in the loop's thread, outside of fibers unless said otherwise.
struct repl_hooks {
  void *ctx;
  void (*applied)(void *ctx, uint64_t index,
                  const bson_t *entry);                 // after store_apply(), on every member, also in replay
  void (*stepping_up)(struct operation *op, void *ctx); // in a fiber, before the member says it is primary
  void (*role_changed)(void *ctx, enum member_state state, int64_t term);
  void (*replaced)(void *ctx); // all applied data is another now: an initial sync. Entries follow, as in replay
};

// Opens the log, replays, joins its set if it has a configuration. err: a directory of another set or with a damaged
// log.
struct repl *repl_start(struct operation *op, struct loop *l, const struct repl_options *o, const struct repl_hooks *h,
                        struct error *err);
// Stops taking part: takes a snapshot, closes the log. Running proposals fail with ShutdownInProgress. No operation may
// have a struct write any more when this is called: close the server first.
void repl_stop(struct operation *op, struct repl *r);

// --- who am I ---
enum member_state repl_state(const struct repl *r);
bool repl_is_primary(const struct repl *r);
int64_t repl_term(const struct repl *r);
const char *repl_set_name(const struct repl *r);
const bson_t *repl_config(const struct repl *r); // the replica-set configuration document; NULL = not initiated
void repl_hello(const struct repl *r,
                bson_t *reply); // setName, hosts, me, primary, isWritablePrimary...: clients.md section 4
void repl_status(const struct repl *r, bson_t *reply); // replSetGetStatus
struct optime repl_last_applied(const struct repl *r);
bool repl_wait_primary(struct operation *op, struct repl *r, struct error *err);
// Waits until this member is primary and has applied an entry proposed after the call: what is read now is not from the
// past.
bool repl_barrier(struct operation *op, struct repl *r, struct error *err);
bool repl_wait_applied(struct operation *op, struct repl *r, uint64_t ts, struct error *err); // afterClusterTime
// Of the internal command appendOplogNote: on a primary, makes sure that an entry of this time or later is applied.
bool repl_reach_time(struct operation *op, struct repl *r, uint64_t ts, struct error *err);
// {w, j, wtimeout} after a write at `index`: w 1 and "majority" hold already; larger numbers, tags {tag: n} and the
// names of settings.getLastErrorModes wait. false: writeConcernError in err; 64 when wtimeout passed, 100 when the set
// has not so many members, 79 for an unknown name.
bool repl_wait_write_concern(struct operation *op, struct repl *r, uint64_t index, const bson_t *write_concern,
                             struct error *err);

// --- admin ---
// The reply of the internal command _isSelf (any state, admin only): which member answers at an address.
void repl_identity(const struct repl *r, bson_t *reply);
bool repl_initiate(struct operation *op, struct repl *r, const bson_t *config, struct error *err); // {} = just self
bool repl_reconfig(struct operation *op, struct repl *r, const bson_t *config, bool force, struct error *err);
// Hands over to a secondary that has everything, waiting for one so long, and does not stand for `seconds` (counted
// from then). ExceededTimeLimit: there was none, and this member stays primary, unless it is forced.
bool repl_step_down(struct operation *op, struct repl *r, int64_t seconds, int64_t catch_up_seconds, bool force,
                    struct error *err);
bool repl_freeze(struct repl *r, int64_t seconds, struct error *err);
// Of the internal command _raftBootstrap: this member is in a set that another founded, or is added to one. Again:
// true.
bool repl_bootstrap(struct operation *op, struct repl *r, const bson_t *body, struct error *err);
// Of the internal command _raftStream {set, id, host, to}: a connection that asked to carry raft's messages.
bool repl_accept(struct repl *r, struct connection *c, const bson_t *hello, struct error *err);
// Of the internal commands _initialSyncBegin, _initialSyncRead and _initialSyncEnd: another member copies this one's
// data (initial_sync.h).
bool repl_copy_begin(struct operation *op, struct repl *r, const bson_t *body, bson_t *reply, struct error *err);
bool repl_copy_read(struct operation *op, struct repl *r, const bson_t *body, bson_t *reply, struct error *err);
bool repl_copy_end(struct operation *op, struct repl *r, const bson_t *body, bson_t *reply, struct error *err);
// Which generation of a data directory counts (store_options.generation): noted in the log.
bool repl_generation(const char *dbpath, uint64_t *out, struct error *err);
// The log's entries for local.oplog.rs and change capture: from index on, until fn returns false. Reads in the pool.
bool repl_read_log(struct operation *op, struct repl *r, uint64_t from,
                   bool (*fn)(void *ctx, uint64_t index, int64_t term, const bson_t *entry), void *ctx,
                   struct error *err);
void repl_log_bounds(const struct repl *r, uint64_t *first, uint64_t *last);
void repl_log_bytes(const struct repl *r, uint64_t *bytes, uint64_t *most); // kept now, and before it is cut

#endif
