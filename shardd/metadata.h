// What this shard knows of placement: for each namespace its routing table (or that it is untracked), for each database
// its primary and version.
//
// Invariants
// - Everything is unknown after start and after every step-up. Only a read of the config server behind a barrier makes
//   it known (on a secondary: what its primary wrote to config.cache.* after such a read).
// - One refresh at a time a namespace; the others wait for it. A refresh begun before an invalidation satisfies nobody.
// - It only moves forward: within a generation an older version never replaces a newer one.
// - Before a refresh makes a namespace known, undecided migrations of an earlier primary are decided
//   (migration_recovery.h): otherwise a config commit still on its way could give away a range that this shard already
//   writes to again.
#ifndef SHARDLET_SHARDD_METADATA_H
#define SHARDLET_SHARDD_METADATA_H

#include "shardd/shard.h"

// One refresh at a time, by tickets: a request takes one, a refresh serves all tickets taken before it began.
struct refresh {
  uint64_t asked, served, begun, floor; // floor: results begun before this ticket are not good enough
  bool running;
  struct event ended;
};

// Operations that may be in the collection wait here while its placement changes (reference/sharding.md 5.4).
struct critical_section {
  char *owner; // who holds it: a migration's session id, a DDL operation; NULL = nobody
  char *reason;
  bool reads;               // reads wait, too
  int64_t unknown_since_ms; // since when a commit's outcome is unknown (loop time); 0 = it is not
  struct event changed;
};

struct ns_metadata {
  char *ns;
  struct routing *routing;      // NULL = unknown
  struct chunk_version version; // this shard's, UNSHARDED when untracked; valid while routing is known
  uint64_t seq;                 // of `routing`: a number of its own for every table that was installed
  struct routing *base;         // the last table known, from which the next refresh reads only what changed
  struct refresh refresh;
  struct critical_section section;
  struct access *users; // requests and cursors that were checked against some table of this namespace
  size_t pins;          // fibers that hold on to this struct over a yield
};

struct db_metadata {
  char *name;
  bool known, exists;
  char *primary;
  struct database_version version;
  bool blocked; // it is being dropped: requests that name its version wait
  struct event unblocked;
  struct refresh refresh;
  size_t pins;
};

struct metadata *metadata_new(struct shard *sh);
void metadata_free(struct metadata *m);       // NULL is allowed
void metadata_forget_all(struct metadata *m); // at step-up and step-down: all unknown, critical sections left

// The struct of a namespace, made when it is not there. Valid until the next yield unless pinned.
struct ns_metadata *metadata_ns(struct metadata *m, const char *ns);
struct ns_metadata *metadata_find_ns(struct metadata *m, const char *ns); // NULL = nothing known or held
void metadata_pin(struct ns_metadata *n);
void metadata_unpin(struct ns_metadata *n);

// Forgets what is known; running refreshes do not count.
void metadata_invalidate(struct metadata *m, const char *ns);
void metadata_invalidate_database(struct metadata *m, const char *db); // and its namespaces
void metadata_invalidate_everything(struct metadata *m);

// Waits for a refresh begun after this call. err: what the config server (or the network) said.
bool metadata_refresh(struct operation *op, struct metadata *m, const char *ns, struct error *err);
bool metadata_refresh_database(struct operation *op, struct metadata *m, const char *db, struct error *err);

// After a change on the config server: refreshes; where that fails, forgets, so that who comes next refreshes first.
// after: what changed, for the log.
void metadata_renew(struct operation *op, struct metadata *m, const char *ns, const char *after);
// Takes over `next`, which a commit that the config server has acknowledged made of exactly the table known now; one
// reference is taken over. The caller writes the cache. false: that table is not the one known any more, a refresh is
// needed.
bool metadata_advance(struct metadata *m, const char *ns, const struct routing *from, struct routing *next);

// Refreshes and gives the table, referenced for the caller (routing_unref). For DDL and migrations.
bool metadata_load(struct operation *op, struct metadata *m, const char *ns, struct routing **out, struct error *err);
void metadata_block_database(struct metadata *m, const char *db, bool block);
bool metadata_wait_database(struct operation *op, struct metadata *m, const char *db, struct error *err);
// What is known of a database now; NULL = nothing. Valid until the next yield.
const struct db_metadata *metadata_database(struct metadata *m, const char *db);
// A database's entry after a refresh; the strings live in op's arena. *exists false: not there.
bool metadata_load_database(struct operation *op, struct metadata *m, const char *db, struct database_type *out,
                            bool *exists, struct error *err);

// Whether a reader or writer is still at work with a table in which this shard owns a part of [min, max).
bool metadata_has_older_users(struct metadata *m, const char *ns, struct key min, struct key max);
// Ends them instead (their next step fails with QueryPlanKilled): what a secondary does when deletions reach it.
void metadata_end_older_users(struct metadata *m, const char *ns, struct key min, struct key max);

// The namespaces known, for shardingState.
void metadata_each(struct metadata *m, bool (*fn)(void *ctx, struct ns_metadata *n), void *ctx);
size_t metadata_count(const struct metadata *m, size_t *databases);

// --- refresh.c: the ticket discipline, without the loading ---
uint64_t refresh_ask(struct refresh *f);
void refresh_invalidate(struct refresh *f);
// Waits until `ticket` is served. *lead true: the caller is to load now and to call refresh_end().
bool refresh_join(struct operation *op, struct refresh *f, uint64_t ticket, bool *lead, struct error *err);
// Ends the caller's load. true: its result may be installed (it succeeded and nothing was invalidated since it began).
bool refresh_end(struct refresh *f, bool loaded);

#endif
