// Which statements of a client's batch go to which shard, round by round (reference/sharding.md 7.1).
//
//   ordered     statements are taken while they go to the same single shard; one for another shard ends the round, one
//               for several shards is a round of its own, to all of them at once
//   unordered   every statement that is left is routed; a child for each shard, all sent at once
//   both        a child holds 100,000 statements and 16 MiB at most; a shard gets one version a round
//
// Pure: knows statements by number and size, shards by name. A statement goes ready -> sent -> ready (a stale shard
// did not execute it) or done or failed.
#ifndef SHARDLET_MONGOS_WRITE_BATCH_H
#define SHARDLET_MONGOS_WRITE_BATCH_H

#include "common/base/arena.h"
#include "common/base/error.h"
#include "mongos/placement.h"

enum { BATCH_CHILD_MAX_OPS = 100000, BATCH_CHILD_MAX_BYTES = 16 * 1024 * 1024 };

enum write_state { WRITE_READY, WRITE_SENT, WRITE_DONE, WRITE_FAILED };

struct batch_op {
  uint32_t bytes; // of the statement's document
  enum write_state state;
  uint32_t awaiting; // children of this round that hold it and have not answered
  bool again;        // one of them was stale
  bool only_one;     // at most one shard can have what it names: a match anywhere is all there is
  bool matched;
  const char **done_on; // shards that executed it already, in an earlier round too
  uint32_t n_done_on;
};

struct batch {
  struct arena *arena;
  bool ordered, retryable;
  struct batch_op *ops;
  size_t n;
  size_t first_ready; // no earlier one is ready
  size_t settled;     // done or failed
};

// How one statement is routed; filled by the targeting function.
struct batch_targeting {
  struct target *targets;
  size_t n;
  bool alone; // needs a protocol of its own: a round by itself, without children
  bool only_one;
};

struct batch_child {
  struct target target;
  size_t *ops; // numbers, ascending
  size_t n, cap;
  size_t bytes;
};

struct batch_round {
  struct batch_child *children;
  size_t n, cap;
  bool alone; // then `op` is the one, and there are no children
  size_t op;
};

struct batch *batch_new(struct arena *a, bool ordered, bool retryable, size_t n);

// false with err: the statement cannot be routed.
typedef bool (*batch_target_fn)(void *ctx, size_t op, struct batch_targeting *out, struct error *err);
// Called for a statement that cannot be routed, when its turn has come. true: it fails. false: the round ends before
// it, and it is routed again in the next one, from placement that the caller has made anew.
typedef bool (*batch_fail_fn)(void *ctx, size_t op, const struct error *err);

// The next round. false: no statement is ready any more. A round without children and not `alone` only failed some.
// round's memory comes from `a`, which lives as long as the round.
bool batch_next(struct batch *b, struct arena *a, batch_target_fn target, batch_fail_fn fail, void *ctx,
                struct batch_round *round);

// What a child's answer means for one of its statements.
enum child_outcome { CHILD_EXECUTED, CHILD_STALE, CHILD_NOT_REACHED, CHILD_ERROR };
// Whether it matched a document there; not known when the child had other statements too.
enum child_match { MATCH_NONE, MATCH_FOUND, MATCH_UNKNOWN };
void batch_child_op(struct batch *b, size_t op, const char *shard, enum child_outcome outcome, enum child_match match);
void batch_alone_done(struct batch *b, size_t op, bool again); // a round of its own ended, or has to be repeated
void batch_fail(struct batch *b, size_t op);                   // and with an ordered batch all that is not done

// How long a batch is tried that does not get on. A round by a placement that nobody had tried yet is progress of a
// kind: somebody drops, makes or moves the collection faster than its statements arrive, and that is no reason to
// refuse them, within limits.
struct batch_patience {
  size_t settled; // statements, after the last round
  int stuck;      // rounds in a row that settled none
  int same;       // ... and, in a row, had the placement of the one before
};
// After a round. false: it is enough.
bool batch_patient(struct batch_patience *p, size_t settled, bool new_route);

#endif
