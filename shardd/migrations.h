// The migrations of this shard: one at a time, as donor or as recipient, and none while DDL or a split works on the
// namespace.
#ifndef SHARDLET_SHARDD_MIGRATIONS_H
#define SHARDLET_SHARDD_MIGRATIONS_H

#include "shardd/shard.h"

struct donation;  // migration_source.h
struct reception; // migration_destination.h

struct migrations {
  struct shard *sh;
  struct donation *donation;        // the running one; NULL = none
  struct reception *reception;      // the running one, or one restored at step-up that waits for its donor's word
  struct reception *last_reception; // the one that ended last: its donor may still ask how; NULL = none
  struct map *holds;                // ns -> how many splits, merges and DDL operations keep migrations away
  bool recovering, recover_again;   // migration_recovery.c
  struct event changed;
};

struct migrations *migrations_new(struct shard *sh);
void migrations_free(struct migrations *m); // NULL is allowed

// Whether one of `ns` runs, or waits for its donor's word.
bool migrations_running(const struct migrations *m, const char *ns);

// Whether a migration of `ns` may begin now. err ConflictingOperationInProgress (117) saying what is in its way.
bool migrations_may_start(const struct migrations *m, const char *ns, struct error *err);

// Keeps migrations of `ns` away until the release; a running one is waited for, or, with `interrupt`, ended first when
// it has not reached its critical section yet.
bool migrations_hold(struct operation *op, struct migrations *m, const char *ns, bool interrupt, struct error *err);
void migrations_release(struct migrations *m, const char *ns);

// {source, destination, isDonorShard, chunk, collection} of serverStatus.sharding.migrations; nothing when none runs.
void migrations_status(const struct migrations *m, bson_t *sharding);

#endif
