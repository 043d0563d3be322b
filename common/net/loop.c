// The scheduler: fibers that are ready run between two looks at the network, never inside a callback of libuv.
#include "common/net/loop.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/log.h"
#include "common/net/loop_internal.h"
#include "common/net/timers.h"

enum {
  IDLE_STACKS = 16, // kept for ever; more are kept while they are in use now and then
  TRIM_MS = 1000,
  RUNS_PER_TURN = 2000, // fibers that wake each other must not keep the network waiting
};

static void list_add(struct fiber_list *list, struct fiber *f) {
  f->next = NULL;
  if (list->last)
    list->last->next = f;
  else
    list->first = f;
  list->last = f;
}

static struct fiber *list_take(struct fiber_list *list) {
  struct fiber *f = list->first;
  if (!f) return NULL;
  list->first = f->next;
  if (!list->first) list->last = NULL;
  return f;
}

static void task_add(struct task_list *list, void (*fn)(void *arg), void *arg) {
  size_t cap = 0;
  struct task *t = array_grow(NULL, &cap, 1, sizeof *t);
  *t = (struct task){.fn = fn, .arg = arg};
  if (!list->first) list->end = &list->first;
  *list->end = t;
  list->end = &t->next;
}

static bool task_run_first(struct task_list *list) {
  struct task *t = list->first;
  if (!t) return false;
  list->first = t->next;
  struct task run = *t;
  free(t);
  run.fn(run.arg);
  return true;
}

// --- fibers ---

static void fiber_routine(void *arg) {
  struct fiber *f = arg;
  for (;;) { // a new fn each time the fiber is taken from the idle ones
    f->fn(f->arg);
    f->fn = NULL;
    stack_leave(&f->stack);
  }
}

struct fiber *fiber_start(struct loop *l, const char *name, void (*fn)(void *arg), void *arg) {
  struct fiber *f = list_take(&l->idle);
  if (f) {
    l->n_idle--;
    if (l->n_idle < l->least_idle) l->least_idle = l->n_idle;
  } else {
    size_t cap = 0;
    f = array_grow(NULL, &cap, 1, sizeof *f);
    f->loop = l;
    stack_new(&f->stack, fiber_routine, f);
  }
  f->fn = fn;
  f->arg = arg;
  f->parked = f->token = false;
  size_t n = strnlen(name, sizeof f->name - 1);
  memcpy(f->name, name, n);
  f->name[n] = 0;
  l->n_fibers++;
  list_add(&l->ready, f);
  return f;
}

static void fiber_destroy(struct fiber *f) {
  stack_free(&f->stack);
  free(f);
}

// Gives back the stacks that nobody needed since the last time.
static void trim_idle(uv_timer_t *timer) {
  struct loop *l = timer->data;
  size_t keep = l->n_idle - l->least_idle;
  if (keep < IDLE_STACKS) keep = IDLE_STACKS;
  while (l->n_idle > keep) {
    fiber_destroy(list_take(&l->idle));
    l->n_idle--;
  }
  l->least_idle = l->n_idle;
  if (l->n_idle <= IDLE_STACKS) (void)uv_timer_stop(timer);
}

static void fiber_end(struct loop *l, struct fiber *f) {
  l->n_fibers--;
  f->next = l->idle.first; // the last used is the warmest
  l->idle.first = f;
  if (!l->idle.last) l->idle.last = f;
  l->n_idle++;
  if (l->n_idle > IDLE_STACKS && !uv_is_active((uv_handle_t *)&l->trim_timer)) {
    l->least_idle = l->n_idle;
    (void)uv_timer_start(&l->trim_timer, trim_idle, TRIM_MS, TRIM_MS);
  }
}

static void fiber_run(struct loop *l, struct fiber *f) {
  l->current = f;
  log_set_context(f->name);
  stack_enter(&l->context, &f->stack);
  l->current = NULL;
  if (!f->fn) fiber_end(l, f);
}

struct fiber *fiber_current(struct loop *l) {
  return l->current;
}

size_t loop_fibers(const struct loop *l) {
  return l->n_fibers;
}

void fiber_park(struct loop *l) {
  struct fiber *f = l->current;
  if (f->token) {
    f->token = false;
    return;
  }
  f->parked = true;
  stack_leave(&f->stack);
}

void fiber_ready(struct fiber *f) {
  if (!f->parked) {
    f->token = true;
    return;
  }
  f->parked = false;
  list_add(&f->loop->ready, f);
}

void fiber_yield(struct loop *l) {
  struct fiber *f = l->current;
  list_add(&l->yielded, f);
  stack_leave(&f->stack);
}

// --- the loop ---

static void run_posted(uv_async_t *async) {
  struct loop *l = async->data;
  for (;;) {
    uv_mutex_lock(&l->posted_lock);
    struct task_list now = l->posted;
    l->posted.first = NULL;
    uv_mutex_unlock(&l->posted_lock);
    if (!now.first) return;
    while (task_run_first(&now)) continue;
  }
}

// Before every poll: it must not wait when a timer that was due, or anything else that libuv runs earlier in its turn,
// has just made something ready. (uv_stop() does not end this turn, it only makes the poll return at once.)
static void before_poll(uv_prepare_t *prepare) {
  struct loop *l = prepare->data;
  if (l->ready.first || l->deferred.first || (l->stopping && !l->n_fibers)) uv_stop(&l->uv);
}

struct loop *loop_new(void) {
  size_t cap = 0;
  struct loop *l = array_grow(NULL, &cap, 1, sizeof *l);
  int rc = uv_loop_init(&l->uv);
  if (!rc) rc = uv_mutex_init(&l->posted_lock);
  if (!rc) rc = uv_async_init(&l->uv, &l->posted_async, run_posted);
  if (!rc) rc = uv_timer_init(&l->uv, &l->trim_timer);
  if (!rc) rc = uv_prepare_init(&l->uv, &l->before_poll);
  if (!rc) rc = uv_prepare_start(&l->before_poll, before_poll);
  if (rc) log_fatal("CONTROL", "Cannot set up the event loop", "reason:s", uv_strerror(rc));
  l->uv.data = l;
  l->posted_async.data = l->trim_timer.data = l->before_poll.data = l;
  timers_init(l);
  return l;
}

// Runs what is ready, then what was deferred, until there is nothing of either (or long enough).
static void run_ready(struct loop *l) {
  for (int i = 0; i < RUNS_PER_TURN; i++) {
    struct fiber *f = list_take(&l->ready);
    if (f)
      fiber_run(l, f);
    else if (!task_run_first(&l->deferred))
      break;
  }
  log_set_context("loop");
}

static void wake_yielded(struct loop *l) {
  struct fiber *f;
  while ((f = list_take(&l->yielded))) list_add(&l->ready, f);
}

void loop_run(struct loop *l) {
  while (!l->stopping || l->n_fibers) {
    run_ready(l);
    if (l->stopping && !l->n_fibers) break;
    bool busy = l->ready.first || l->yielded.first || l->deferred.first;
    (void)uv_run(&l->uv, busy ? UV_RUN_NOWAIT : UV_RUN_ONCE);
    wake_yielded(l);
  }
}

void loop_stop(struct loop *l) {
  l->stopping = true;
}

// Ends the loop's own handles, and what others closed a moment ago. Requests in the thread pool end by themselves; a
// handle that its owner forgot stays behind.
static void drain(struct loop *l) {
  uv_close((uv_handle_t *)&l->posted_async, NULL);
  uv_close((uv_handle_t *)&l->trim_timer, NULL);
  uv_close((uv_handle_t *)&l->before_poll, NULL);
  timers_close(l);
  for (int i = 0; i < 100 && uv_loop_alive(&l->uv); i++) (void)uv_run(&l->uv, UV_RUN_NOWAIT);
  while (l->uv.active_reqs.count) (void)uv_run(&l->uv, UV_RUN_ONCE);
}

void loop_free(struct loop *l) {
  run_posted(&l->posted_async);
  while (task_run_first(&l->deferred)) continue;
  drain(l);
  while (task_run_first(&l->at_free)) continue;
  if (uv_loop_close(&l->uv) != 0) log_warn("CONTROL", "The event loop ended with open handles", NULL);
  struct fiber *f;
  while ((f = list_take(&l->idle))) fiber_destroy(f);
  uv_mutex_destroy(&l->posted_lock);
  free(l->timed);
  free(l);
}

uv_loop_t *loop_uv(struct loop *l) {
  return &l->uv;
}

int64_t loop_now_ms(const struct loop *l) {
  return (int64_t)uv_now(&l->uv);
}

void loop_post(struct loop *l, void (*fn)(void *arg), void *arg) {
  uv_mutex_lock(&l->posted_lock);
  task_add(&l->posted, fn, arg);
  uv_mutex_unlock(&l->posted_lock);
  (void)uv_async_send(&l->posted_async);
}

void loop_defer(struct loop *l, void (*fn)(void *arg), void *arg) {
  task_add(&l->deferred, fn, arg);
}

void loop_at_free(struct loop *l, void (*fn)(void *arg), void *arg) {
  size_t cap = 0;
  struct task *t = array_grow(NULL, &cap, 1, sizeof *t);
  *t = (struct task){.fn = fn, .arg = arg, .next = l->at_free.first};
  l->at_free.first = t;
}
