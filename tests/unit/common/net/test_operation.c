// Operations: deadlines, kills, events, mutexes, the pool, parallel branches.
#include <unistd.h>

#include "common/base/clock.h"
#include "net_test.h"

static void sleeping(struct operation *op, void *arg) {
  struct error err;
  int64_t from = clock_mono_ms();
  EXPECT(op_sleep(op, 30, &err));
  EXPECT(clock_mono_ms() - from >= 29);
  op_deadline_in(op, 40, ERR_MaxTimeMSExpired);
  op_deadline_in(op, 4000, ERR_NetworkTimeout); // later: changes nothing
  EXPECT(!op_sleep(op, 10000, &err));
  EXPECT(err.code == ERR_MaxTimeMSExpired && !strcmp(err.message, "operation exceeded time limit"));
  EXPECT(clock_mono_ms() - from < 2000);
  EXPECT(!op_yield(op, &err) && err.code == ERR_MaxTimeMSExpired);
}

static void test_sleep_and_deadline(void **state) {
  in_loop(sleeping, NULL);
}

struct victim {
  struct operation *op;
  struct event event;
  struct error err;
  bool ended, went_on;
};

static void wait_for_ever(struct operation *op, void *arg) {
  struct victim *v = arg;
  v->op = op;
  v->went_on = event_wait(op, &v->event, &v->err);
  v->ended = true;
}

static bool is_victim(void *ctx, const struct operation *op) {
  return op == ctx;
}

static void killing(struct operation *op, void *arg) {
  struct error err;
  struct victim v[3] = {0};
  for (int i = 0; i < 3; i++) (void)operation_start(op->loop, "victim", wait_for_ever, &v[i]);
  EXPECT(op_yield(op, &err));
  uint64_t id = v[0].op->id;
  EXPECT(operation_find(op->loop, id) == v[0].op);
  operation_kill(v[0].op, ERR_Interrupted);
  operation_kill(v[0].op, ERR_InterruptedAtShutdown); // the first one counts
  operations_kill(op->loop, ERR_InterruptedAtShutdown, is_victim, v[1].op);
  event_signal(&v[2].event);
  operation_kill(v[2].op, ERR_Interrupted); // woken already: the wait itself succeeded
  EXPECT(op_sleep(op, 1, &err));
  EXPECT(v[0].ended && v[1].ended && v[2].ended);
  EXPECT(!v[0].went_on && v[0].err.code == ERR_Interrupted);
  EXPECT(!v[1].went_on && v[1].err.code == ERR_InterruptedAtShutdown);
  EXPECT(v[2].went_on);
  EXPECT(!operation_find(op->loop, id));
}

static void test_kill(void **state) {
  in_loop(killing, NULL);
}

static void timed_events(struct operation *op, void *arg) {
  struct event e = {0};
  struct error err = {.code = 1};
  bool timed_out = false;
  EXPECT(!event_wait_for(op, &e, 5, &timed_out, &err));
  EXPECT(timed_out && err.code == 0);
  EXPECT(!e.first);
  op_deadline_in(op, 5, ERR_NetworkTimeout);
  EXPECT(!event_wait_for(op, &e, 5000, &timed_out, &err));
  EXPECT(!timed_out && err.code == ERR_NetworkTimeout);
}

static void test_event_timeout(void **state) {
  in_loop(timed_events, NULL);
}

struct overdue {
  struct event woken;
  bool slept;
};

static void sleep_a_little(struct operation *op, void *arg) {
  struct overdue *o = arg;
  struct error err;
  EXPECT(op_sleep(op, 1, &err));
  o->slept = true;
  event_signal(&o->woken);
}

// A timer that is due already when the loop comes round rings before the loop looks at the network, where nothing
// comes.
static void overdue_timers(struct operation *op, void *arg) {
  struct overdue o = {0};
  struct error err;
  (void)operation_start(op->loop, "sleeper", sleep_a_little, &o);
  EXPECT(op_yield(op, &err));
  (void)usleep(10000); // holds the thread meanwhile
  while (!o.slept) {
    if (!event_wait(op, &o.woken, &err)) break;
  }
  EXPECT(o.slept);
}

static void test_overdue_timer(void **state) {
  in_loop(overdue_timers, NULL);
}

struct many_timers {
  int64_t order[64]; // when each was due
  int n;
};

struct timed_sleep {
  struct many_timers *all;
  int ms;
};

static void sleep_and_note(struct operation *op, void *arg) {
  struct timed_sleep *t = arg;
  struct error err;
  int64_t due = clock_mono_ms() + t->ms;
  EXPECT(op_sleep(op, t->ms, &err));
  t->all->order[t->all->n++] = due;
}

static void timer_order(struct operation *op, void *arg) {
  struct error err;
  struct many_timers all = {0};
  struct timed_sleep t[64];
  for (int i = 0; i < 64; i++) {
    t[i] = (struct timed_sleep){.all = &all, .ms = 5 + (i * 37) % 64};
    (void)operation_start(op->loop, "sleep", sleep_and_note, &t[i]);
  }
  while (all.n < 64) {
    if (!op_sleep(op, 10, &err)) break;
  }
  for (int i = 1; i < 64; i++) EXPECT(all.order[i - 1] <= all.order[i] + 2); // taken a moment before the sleep began
}

static void test_timer_order(void **state) {
  in_loop(timer_order, NULL);
}

struct locked {
  struct mutex lock;
  char order[8];
  int inside;
};

struct locker {
  struct locked *l;
  char name;
  bool got;
};

static void lock_and_work(struct operation *op, void *arg) {
  struct locker *k = arg;
  struct error err;
  k->got = mutex_lock(op, &k->l->lock, &err);
  if (!k->got) return;
  EXPECT(k->l->inside++ == 0);
  EXPECT(op_sleep(op, 2, &err));
  k->l->inside--;
  k->l->order[strlen(k->l->order)] = k->name;
  mutex_unlock(&k->l->lock);
}

static void mutexes(struct operation *op, void *arg) {
  struct error err;
  struct locked l = {0};
  struct locker k[4];
  struct operation *ops[4];
  for (int i = 0; i < 4; i++) {
    k[i] = (struct locker){.l = &l, .name = (char)('a' + i)};
    ops[i] = operation_start(op->loop, "locker", lock_and_work, &k[i]);
  }
  EXPECT(op_yield(op, &err));
  operation_kill(ops[2], ERR_Interrupted); // one that queues
  EXPECT(mutex_lock(op, &l.lock, &err));   // behind all of them
  EXPECT(!strcmp(l.order, "abd"));
  EXPECT(!k[2].got);
  mutex_unlock(&l.lock);
  EXPECT(!l.lock.held);
}

static void test_mutex(void **state) {
  in_loop(mutexes, NULL);
}

static void nap(void *arg) {
  (void)usleep(20000);
  *(int *)arg += 1;
}

struct pool_user {
  int result;
  bool ended;
};

static void use_pool(struct operation *op, void *arg) {
  struct pool_user *u = arg;
  op_run_in_pool(op, nap, &u->result);
  u->ended = true;
}

static void pooling(struct operation *op, void *arg) {
  struct error err;
  struct pool_user u = {0};
  struct operation *job = operation_start(op->loop, "pool", use_pool, &u);
  EXPECT(op_sleep(op, 2, &err)); // the loop goes on meanwhile
  EXPECT(!u.ended);
  operation_kill(job, ERR_Interrupted); // the job ends first all the same
  EXPECT(!u.ended);
  while (!u.ended && op_sleep(op, 2, &err)) continue;
  EXPECT(u.result == 1);
}

static void test_pool(void **state) {
  in_loop(pooling, NULL);
}

struct fan {
  int done, refused;
  char *text[8];
};

static void fan_branch(struct operation *op, size_t i, void *ctx) {
  struct fan *f = ctx;
  struct error err;
  if (op_sleep(op, i == 7 ? 10000 : 3, &err))
    f->done++;
  else if (err.code == ERR_Interrupted)
    f->refused++;
  f->text[i] = arena_printf(op->arena, "branch %zu", i);
}

static void fan_out(struct operation *op, void *arg) {
  op_parallel(op, 8, fan_branch, arg);
  struct fan *f = arg;
  EXPECT(!strcmp(f->text[3], "branch 3")); // a branch's memory outlives it
  loop_stop(op->loop);
}

static void parallel(struct operation *op, void *arg) {
  struct error err;
  struct fan f = {0};
  op_parallel(op, 7, fan_branch, &f);
  EXPECT(f.done == 7);
  f = (struct fan){0};
  op_parallel(op, 1, fan_branch, &f);
  EXPECT(f.done == 1);
  f = (struct fan){0};
  struct operation *job = operation_start(op->loop, "fan", fan_out, &f);
  EXPECT(op_sleep(op, 15, &err));
  EXPECT(f.done == 7 && f.refused == 0);
  operation_kill(job, ERR_Interrupted); // reaches the branch that still sleeps
  EXPECT(op_sleep(op, 5, &err));
  EXPECT(f.refused == 1);
}

static void test_parallel(void **state) {
  in_loop(parallel, NULL);
}

static void yielding(struct operation *op, void *arg) {
  struct error err;
  EXPECT(!op_yield_due(op));
  int64_t from = clock_mono_us();
  while (clock_mono_us() - from < 1100) continue;
  EXPECT(op_yield_due(op));
  EXPECT(op_yield_if_due(op, &err));
  EXPECT(!op_yield_due(op));
  arena_reset(op->arena); // what a job for ever does between rounds
  EXPECT(op_check(op, &err) && !strcmp(op->what, "test"));
}

static void test_yield(void **state) {
  in_loop(yielding, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sleep_and_deadline),
      cmocka_unit_test(test_kill),
      cmocka_unit_test(test_event_timeout),
      cmocka_unit_test(test_timer_order),
      cmocka_unit_test(test_overdue_timer),
      cmocka_unit_test(test_mutex),
      cmocka_unit_test(test_pool),
      cmocka_unit_test(test_parallel),
      cmocka_unit_test(test_yield),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
