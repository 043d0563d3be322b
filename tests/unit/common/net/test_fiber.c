// Fibers and the loop: order, tokens, posting from threads, many stacks.
#include <stdlib.h>

#include "common/base/clock.h"
#include "net_test.h"

struct trail {
  struct loop *loop;
  char text[64];
  struct fiber *waiting;
};

static void add(struct trail *t, char c) {
  size_t n = strlen(t->text);
  if (n + 1 < sizeof t->text) t->text[n] = c;
}

static void say_a(void *arg) {
  add(arg, 'a');
}

static void say_b(void *arg) {
  add(arg, 'b');
}

static void park_and_say(void *arg) {
  struct trail *t = arg;
  t->waiting = fiber_current(t->loop);
  add(t, '(');
  fiber_park(t->loop);
  add(t, ')');
}

static void order(struct operation *op, void *arg) {
  struct trail t = {.loop = op->loop};
  struct error err;
  loop_defer(op->loop, say_b, &t);
  (void)fiber_start(op->loop, "p", park_and_say, &t);
  (void)fiber_start(op->loop, "a", say_a, &t);
  add(&t, '0');
  EXPECT(op_yield(op, &err));
  add(&t, '1');
  fiber_ready(t.waiting);
  add(&t, '2'); // making a fiber ready does not run it
  EXPECT(op_yield(op, &err));
  EXPECT(!strcmp(t.text, "0(ab12)"));
}

static void test_order(void **state) {
  in_loop(order, NULL);
}

static void token(struct operation *op, void *arg) {
  fiber_ready(fiber_current(op->loop)); // before it parks: remembered once
  fiber_park(op->loop);
  EXPECT(fiber_current(op->loop) == op->fiber);
}

static void test_token(void **state) {
  in_loop(token, NULL);
}

static void deep(int depth, volatile char *sum) {
  volatile char here[1000];
  here[depth % 1000] = (char)depth;
  if (depth > 0) deep(depth - 1, sum);
  *sum = (char)(*sum + here[depth % 1000]);
}

static void use_stack(void *arg) {
  volatile char sum = 0;
  deep(180, &sum);
  ++*(int *)arg;
}

static void many(struct operation *op, void *arg) {
  struct error err;
  int done = 0;
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < 500; i++) (void)fiber_start(op->loop, "deep", use_stack, &done);
    EXPECT(op_yield(op, &err));
  }
  EXPECT(done == 1500);
  EXPECT(loop_fibers(op->loop) == 1);
}

static void test_many_stacks(void **state) {
  in_loop(many, NULL);
}

struct poster {
  struct loop *loop;
  struct event seen;
  int count; // of the loop's thread
};

static void count_one(void *arg) {
  struct poster *p = arg;
  p->count++;
  event_signal(&p->seen);
}

static void post_from_thread(void *arg) {
  struct poster *p = arg;
  for (int i = 0; i < 1000; i++) loop_post(p->loop, count_one, p);
}

static void posting(struct operation *op, void *arg) {
  struct poster p = {.loop = op->loop};
  struct error err;
  uv_thread_t threads[2];
  for (int i = 0; i < 2; i++) EXPECT(uv_thread_create(&threads[i], post_from_thread, &p) == 0);
  while (p.count < 2000) {
    if (!event_wait(op, &p.seen, &err)) break;
  }
  for (int i = 0; i < 2; i++) (void)uv_thread_join(&threads[i]);
  EXPECT(p.count == 2000);
}

static void test_post(void **state) {
  in_loop(posting, NULL);
}

struct pair {
  struct fiber *left, *right;
  struct loop *loop;
  int turns;
};

static void right_side(void *arg) {
  struct pair *p = arg;
  while (p->turns > 0) {
    fiber_ready(p->left);
    fiber_park(p->loop);
  }
  fiber_ready(p->left);
}

static void switching(struct operation *op, void *arg) {
  struct pair p = {.left = op->fiber, .loop = op->loop, .turns = 100000};
  p.right = fiber_start(op->loop, "right", right_side, &p);
  int64_t from = clock_mono_us();
  fiber_park(op->loop);
  while (p.turns-- > 0) {
    fiber_ready(p.right);
    fiber_park(op->loop);
  }
  print_message("two fibers waking each other: %.0f ns a round trip\n", (double)(clock_mono_us() - from) / 100.0);
}

static void test_switch_cost(void **state) {
  in_loop(switching, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_order), cmocka_unit_test(test_token),       cmocka_unit_test(test_many_stacks),
      cmocka_unit_test(test_post),  cmocka_unit_test(test_switch_cost),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
