// Waiting: on time, on events, on the thread pool, on parallel branches.
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/net/operation_internal.h"
#include "common/net/timers.h"

enum { SLICE_US = 1000 };

static void event_add(struct event *e, struct wait *w) {
  struct wait *first = e->first;
  w->event = e;
  if (!first) {
    w->next = w->prev = e->first = w;
    return;
  }
  w->next = first;
  w->prev = first->prev;
  first->prev->next = w;
  first->prev = w;
}

static void event_remove(struct wait *w) {
  struct event *e = w->event;
  if (w->next == w) {
    e->first = NULL;
  } else {
    w->next->prev = w->prev;
    w->prev->next = w->next;
    if (e->first == w) e->first = w->next;
  }
  w->event = NULL;
}

void wait_end(struct wait *w, enum wait_outcome outcome) {
  if (w->outcome != WAIT_RUNS) return;
  w->outcome = outcome;
  if (w->event) event_remove(w);
  timers_remove(w->op->loop, w);
  w->op->waiting = NULL;
  fiber_ready(w->op->fiber);
}

// Parks until the event is signalled (NULL: none), at_ms is reached, or the operation ends. The operation has been
// checked.
static enum wait_outcome wait_for(struct operation *op, struct event *e, int64_t at_ms) {
  struct wait w = {.op = op, .at_ms = at_ms < op->deadline_ms ? at_ms : op->deadline_ms, .outcome = WAIT_RUNS};
  if (e) event_add(e, &w);
  if (w.at_ms != INT64_MAX) timers_add(op->loop, &w);
  op->waiting = &w;
  while (w.outcome == WAIT_RUNS) fiber_park(op->loop);
  operation_has_thread(op);
  return w.outcome;
}

bool op_sleep(struct operation *op, int64_t ms, struct error *err) {
  if (!op_check(op, err)) return false;
  uv_update_time(&op->loop->uv); // not from the beginning of this turn, which may be long ago
  int64_t now = loop_now_ms(op->loop);
  (void)wait_for(op, NULL, ms < INT64_MAX - now ? now + ms : INT64_MAX);
  return op_check(op, err);
}

bool op_yield(struct operation *op, struct error *err) {
  if (!op_check(op, err)) return false;
  fiber_yield(op->loop);
  operation_has_thread(op);
  return op_check(op, err);
}

bool op_yield_due(const struct operation *op) {
  return clock_mono_us() - op->slice_start_us >= SLICE_US;
}

bool op_yield_if_due(struct operation *op, struct error *err) {
  return op_yield_due(op) ? op_yield(op, err) : op_check(op, err);
}

bool event_wait(struct operation *op, struct event *e, struct error *err) {
  if (!op_check(op, err)) return false;
  return wait_for(op, e, INT64_MAX) == WAIT_SIGNALLED || op_check(op, err);
}

bool event_wait_for(struct operation *op, struct event *e, int64_t ms, bool *timed_out, struct error *err) {
  *timed_out = false;
  if (!op_check(op, err)) return false;
  int64_t now = loop_now_ms(op->loop);
  enum wait_outcome outcome = wait_for(op, e, ms < INT64_MAX - now ? now + ms : INT64_MAX);
  if (outcome == WAIT_SIGNALLED) return true;
  if (!op_check(op, err)) return false;
  *timed_out = true;
  if (err) err->code = 0;
  return false;
}

void event_await(struct operation *op, struct event *e) {
  struct wait w = {.op = op, .at_ms = INT64_MAX, .outcome = WAIT_RUNS};
  event_add(e, &w);
  while (w.outcome == WAIT_RUNS) fiber_park(op->loop); // op->waiting stays NULL: a kill does not see this wait
  operation_has_thread(op);
}

void event_signal(struct event *e) {
  while (e->first) wait_end(e->first, WAIT_SIGNALLED);
}

bool mutex_lock(struct operation *op, struct mutex *m, struct error *err) {
  if (!m->held) {
    m->held = true;
    return true;
  }
  return event_wait(op, &m->freed, err); // whoever unlocks hands the lock over: it stays held
}

void mutex_unlock(struct mutex *m) {
  if (m->freed.first)
    wait_end(m->freed.first, WAIT_SIGNALLED);
  else
    m->held = false;
}

// --- memory of long loops ---

bool op_in_batches(struct operation *op, bool (*step)(struct operation *op, void *ctx, bool *more, struct error *err),
                   void *ctx, struct error *err) {
  struct arena *outer = op->arena;
  bool more = true, ok = true;
  op->arena = arena_new();
  while (ok && more) {
    arena_reset(op->arena);
    more = true;
    ok = step(op, ctx, &more, err);
  }
  if (!ok) {
    struct error kept;
    error_copy(&kept, err, outer);
    *err = kept;
  }
  arena_free(op->arena);
  op->arena = outer;
  return ok;
}

// --- the thread pool ---

struct pool_job {
  uv_work_t work;
  void (*job)(void *arg);
  void *arg;
  struct fiber *fiber;
  bool done;
};

static void pool_run(uv_work_t *work) {
  struct pool_job *j = work->data;
  j->job(j->arg);
}

static void pool_done(uv_work_t *work, int status) {
  struct pool_job *j = work->data;
  j->done = true;
  fiber_ready(j->fiber);
}

void op_run_in_pool(struct operation *op, void (*job)(void *arg), void *arg) {
  struct pool_job j = {.job = job, .arg = arg, .fiber = op->fiber};
  j.work.data = &j;
  (void)uv_queue_work(&op->loop->uv, &j.work, pool_run, pool_done); // fails only without a job
  while (!j.done) fiber_park(op->loop);
  operation_has_thread(op);
}

// --- parallel branches ---

struct branches {
  void (*fn)(struct operation *op, size_t i, void *ctx);
  void *ctx;
  struct operation *parent;
  size_t left;
};

struct branch {
  struct branches *all;
  struct operation *op;
  size_t i;
};

static void run_branch(void *arg) {
  struct branch *b = arg;
  struct branches *all = b->all;
  operation_has_thread(b->op);
  all->fn(b->op, b->i, all->ctx);
  operation_end(b->op);
  if (--all->left == 0) fiber_ready(all->parent->fiber);
}

static void start_branch(struct branches *all, struct branch *b, size_t i) {
  struct operation *parent = all->parent, *op = operation_new(parent->loop, parent->arena, parent->what);
  op->parent = parent;
  op->deadline_ms = parent->deadline_ms;
  op->deadline_code = parent->deadline_code;
  op->killed = parent->killed;
  *b = (struct branch){.all = all, .op = op, .i = i};
  op->fiber = fiber_start(parent->loop, parent->fiber->name, run_branch, b);
}

void op_parallel(struct operation *op, size_t n, void (*fn)(struct operation *op, size_t i, void *ctx), void *ctx) {
  if (n == 1) {
    fn(op, 0, ctx);
    return;
  }
  struct branches all = {.fn = fn, .ctx = ctx, .parent = op, .left = n};
  struct branch *branches = arena_alloc(op->arena, n * sizeof *branches);
  for (size_t i = 0; i < n; i++) start_branch(&all, &branches[i], i);
  op->branches += n;
  while (all.left) fiber_park(op->loop); // not ended by a kill: that reaches the branches, and they end
  op->branches -= n;
  operation_has_thread(op);
}
