// Tests that run in fibers: cmocka's asserts jump off the stack, so a fiber notes what failed and the test asserts
// after the loop has ended.
#ifndef SHARDLET_TEST_NET_TEST_H
#define SHARDLET_TEST_NET_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "common/base/log.h"
#include "common/net/operation.h"

static int failures;

static inline void note(bool ok, const char *what, const char *file, int line) {
  if (ok) return;
  (void)fprintf(stderr, "%s:%d: not so: %s\n", file, line, what);
  failures++;
}
#define EXPECT(condition) note((condition), #condition, __FILE__, __LINE__)

struct body {
  struct loop *loop;
  void (*fn)(struct operation *op, void *arg);
  void *arg;
};

static inline void run_body(struct operation *op, void *arg) {
  struct body *b = arg;
  b->fn(op, b->arg);
  loop_stop(b->loop);
}

// Runs fn as the first operation of a fresh loop, until all fibers have ended.
static inline void in_loop(void (*fn)(struct operation *op, void *arg), void *arg) {
  failures = 0;
  log_set_verbosity(LOG_ERROR);
  struct body b = {.loop = loop_new(), .fn = fn, .arg = arg};
  (void)operation_start(b.loop, "test", run_body, &b);
  loop_run(b.loop);
  loop_free(b.loop);
  assert_int_equal(failures, 0);
}

#endif
