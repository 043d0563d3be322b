// Moving the range of `test.moving` that the writers write into (writers.h) to and fro, holding a move at a step, and
// what must be true when all moves are over.
#ifndef SHARDLET_TESTS_MOVES_H
#define SHARDLET_TESTS_MOVES_H

#include <pthread.h>

#include "tests/integration/writers.h"

enum {
  MOVES_SETTLE_MS = 60000, // for an interrupted move to be over
  MOVES_HANG_MS = 20000,   // for a step to be reached
};

// Balancer off, test.moving sharded by customerId on sh1.
void moves_setup(mongoc_client_t *router);
// Which of sh1, sh2 has the range now, by the config server: 0 or 1.
int moves_owner(mongoc_client_t *router);
// An interrupted move may still be on its way to an end: tries until one succeeds.
void moves_until_on(mongoc_client_t *router, int to);
void moves_delete_all(mongoc_client_t *router);

// A move in a thread of its own, through a router; it may fail.
struct mover {
  pthread_t thread;
  const struct process *through;
  int to;
  bool ok; // after the join; else what it said
  char error[400];
};
void mover_start(struct mover *m, const struct process *through, int to);
void mover_join(struct mover *m);

// Sets a failpoint of a shard's member; returns how often it took effect.
int64_t point_set(const struct process *p, const char *name, const char *mode);
// Waits until it took effect once more than `before`.
void point_wait(const struct process *p, const char *name, int64_t before);
// Begins the move and returns when it stands at the named point of `at`.
void mover_start_until(struct mover *m, const struct process *through, int to, const struct process *at,
                       const char *point);

// Waits until nothing of any migration is left on the shards (their primaries are given), and no orphans: each document
// is on exactly one of them.
void moves_wait_settled(mongoc_client_t *router, const struct process *sh1, const struct process *sh2);

#endif
