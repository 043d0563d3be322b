// What the files of common/net know of a loop besides loop.h.
#ifndef SHARDLET_NET_LOOP_INTERNAL_H
#define SHARDLET_NET_LOOP_INTERNAL_H

#include "common/net/fiber.h"
#include "common/net/loop.h"

struct lookup;
struct operation;
struct wait;

struct fiber {
  struct stack stack;
  struct loop *loop;
  void (*fn)(void *arg);
  void *arg;
  bool parked, token; // token: fiber_ready() came while it was not parked
  struct fiber *next; // in one of the loop's lists
  char name[24];
};

struct fiber_list {
  struct fiber *first, *last;
};

// A function to run, in a list of such.
struct task {
  void (*fn)(void *arg);
  void *arg;
  struct task *next;
};

struct task_list {
  struct task *first, **end;
};

struct loop {
  uv_loop_t uv;
  struct context context; // the scheduler's own, while a fiber runs
  struct fiber *current;
  struct fiber_list ready;   // run in this turn
  struct fiber_list yielded; // run after the next look at the network
  struct fiber_list idle;    // ended fibers, kept with their stacks for the next ones
  size_t n_fibers, n_idle;
  size_t least_idle; // since the last trim: so many were not needed
  bool stopping;

  struct task_list deferred;
  uv_mutex_t posted_lock; // posted is the one thing here that other threads touch
  struct task_list posted;
  uv_async_t posted_async;
  uv_timer_t trim_timer;
  uv_prepare_t before_poll;

  // Waits that end by time, a heap with the earliest first.
  struct wait **timed;
  size_t n_timed, cap_timed;
  uv_timer_t wait_timer;
  int64_t wait_timer_at; // when it will ring; INT64_MAX = not set

  struct operation *operations; // a ring; NULL when there is none
  struct lookup *lookups;       // of host names, under way: address.c
  uint64_t last_operation_id;

  struct task_list at_free;
};

// The running fiber goes behind everything that is ready, and behind a look at the network.
void fiber_yield(struct loop *l);

// Runs fn(arg) in loop_free(), newest first, when all handles have ended: for memory that is used until then.
void loop_at_free(struct loop *l, void (*fn)(void *arg), void *arg);

#endif
