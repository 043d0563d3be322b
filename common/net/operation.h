// An operation: what a fiber works on, with its memory, its deadline and its cancellation.
//
// Every command has one; internal work (migration, refresh, range deleter) makes its own. Taking a `struct operation *`
// is how a function says that it may yield (see loop.h).
#ifndef SHARDLET_NET_OPERATION_H
#define SHARDLET_NET_OPERATION_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/net/loop.h"

#define OPERATION_NO_DEADLINE INT64_MAX

struct operation {
  struct loop *loop;
  struct fiber *fiber;
  struct arena *arena;
  int64_t deadline_ms;   // loop_now_ms() when it ends with deadline_code; OPERATION_NO_DEADLINE
  int32_t deadline_code; // ERR_MaxTimeMSExpired for clients
  int32_t killed; // error code that ends it (Interrupted, InterruptedAtShutdown, NotWritablePrimary...), 0 = goes on
  int64_t slice_start_us;   // when the fiber last got the thread, for op_yield_if_due()
  uint64_t id;              // opid, for currentOp and killOp
  const char *what;         // command name or job, for the log
  struct operation *parent; // of a parallel branch
  struct wait *waiting;     // internal: what it is parked on
  size_t branches;          // internal: parallel branches that run now
  void *next, *prev;        // internal: the loop's list of operations
};

// Starts a fiber with a fresh operation and arena; both are freed when fn returns. Deadline: none. `what` is copied. A
// job that goes on for ever calls arena_reset(op->arena) between its rounds: the operation itself is not in there.
struct operation *operation_start(struct loop *l, const char *what, void (*fn)(struct operation *op, void *arg),
                                  void *arg);

// Ends the operation at its next wait (or wakes the one it is in) with this code. Children are killed with it.
void operation_kill(struct operation *op, int32_t code);
// Kills all operations of the loop for which pick() is true (NULL: all).
void operations_kill(struct loop *l, int32_t code, bool (*pick)(void *ctx, const struct operation *op), void *ctx);
void operations_each(struct loop *l, bool (*fn)(void *ctx, struct operation *op), void *ctx);
struct operation *operation_find(struct loop *l, uint64_t id);

// Deadlines only get nearer. ms is relative; restores nothing.
void op_deadline_in(struct operation *op, int64_t ms, int32_t code);
bool op_check(struct operation *op, struct error *err); // false: killed or past the deadline. Does not yield.

// Waits. Each returns false with the error when the operation is killed or its deadline passes.
bool op_sleep(struct operation *op, int64_t ms, struct error *err);
bool op_yield(struct operation *op, struct error *err);        // lets the others run once
bool op_yield_if_due(struct operation *op, struct error *err); // when this slice is over a millisecond old
bool op_yield_due(const struct operation *op);                 // whether it is: the caller saves its cursors first

// Runs job(arg) in libuv's thread pool and waits for it. Not cancelled by a kill: the job always ends first.
void op_run_in_pool(struct operation *op, void (*job)(void *arg), void *arg);

// Runs fn for i in 0..n-1, each in a fiber and operation of its own that share this one's deadline and kill; waits for
// all. Results are fn's own business. n == 1 runs in this fiber.
void op_parallel(struct operation *op, size_t n, void (*fn)(struct operation *op, size_t i, void *ctx), void *ctx);

// Runs step() until it fails or sets *more to false (it is true before each call), every time with an op->arena of its
// own: what a long loop allocates does not add up, and locks that a failed step holds are freed. err's extra fields are
// copied out.
bool op_in_batches(struct operation *op, bool (*step)(struct operation *op, void *ctx, bool *more, struct error *err),
                   void *ctx, struct error *err);

// A condition: fibers wait, anyone signals. No state is remembered: check the world, wait, check again. It must stay at
// its address while somebody waits.
struct event {
  struct wait *first;
};
bool event_wait(struct operation *op, struct event *e, struct error *err);
// false without error when `ms` passed first (*timed_out true).
bool event_wait_for(struct operation *op, struct event *e, int64_t ms, bool *timed_out, struct error *err);
void event_signal(struct event *e); // wakes all that wait now

// A lock that fibers queue for, in order. For long critical work (one refresh at a time), not for data.
struct mutex {
  bool held;
  struct event freed;
};
bool mutex_lock(struct operation *op, struct mutex *m, struct error *err);
void mutex_unlock(struct mutex *m);

#endif
