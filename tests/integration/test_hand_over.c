// To whom a primary hands over: not to a member that would not stand, and never so that nobody leads for long.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/integration/sets.h"

enum {
  MEMBERS = 3,
  ROUNDS = 3,
  NO_ELECTION_MS = SET_ELECTION_MS,
  STEP_DOWN_MS = 30000,
  BAD_VALUE = 2,
  EXCEEDED_TIME_LIMIT = 262,
};

static struct set_cluster cluster;

static void run(const struct process *p, const char *text) {
  mongoc_client_t *c = client_of(p);
  must(c, "admin", "%s", text);
  mongoc_client_destroy(c);
}

static int64_t term_of(const struct process *p) {
  mongoc_client_t *c = client_of(p);
  bson_t reply;
  assert_true(command(c, "admin", &reply, "{'replSetGetStatus':1}"));
  int64_t term = reply_i64(&reply, "term");
  bson_destroy(&reply);
  mongoc_client_destroy(c);
  return term;
}

// On a slow machine the other one may be silent when it is looked for.
static void step_down(const struct process *p) {
  mongoc_client_t *c = client_of(p);
  bson_t reply;
  for (int64_t end = now_ms() + STEP_DOWN_MS;
       !command(c, "admin", &reply, "{'replSetStepDown':1,'secondaryCatchUpPeriodSecs':1}");) {
    assert_int_equal(reply_i64(&reply, "code"), EXCEEDED_TIME_LIMIT);
    assert_true(now_ms() < end);
    bson_destroy(&reply);
  }
  bson_destroy(&reply);
  mongoc_client_destroy(c);
}

// Whichever of the secondaries is frozen, the other one takes over, in the next term: nobody else has tried.
static void frozen_is_passed_over(void **state) {
  struct set *s = &cluster.shards[0];
  for (int i = 0; i < ROUNDS; i++) {
    struct process *was = set_primary(s), *frozen = set_secondary(s, i % 2), *other = set_secondary(s, 1 - i % 2);
    run(frozen, "{'replSetFreeze':60}");
    wait_ms(NO_ELECTION_MS); // it has told the primary, and whoever stepped down before stands again
    int64_t term = term_of(was);
    step_down(was);
    assert_true(set_primary(s) == other);
    assert_int_equal(term_of(other), term + 1);
    run(frozen, "{'replSetFreeze':0}");
  }
}

// With both frozen there is nobody: refused, and the primary stays one. As soon as one stands again it takes over.
static void nobody_stands(void **state) {
  struct set *s = &cluster.shards[1];
  struct process *was = set_primary(s), *first = set_secondary(s, 0), *second = set_secondary(s, 1);
  run(first, "{'replSetFreeze':60}");
  run(second, "{'replSetFreeze':60}");
  wait_ms(NO_ELECTION_MS);
  int64_t term = term_of(was);
  mongoc_client_t *c = client_of(was);
  assert_int_equal(must_fail(c, "admin", "{'replSetStepDown':1,'secondaryCatchUpPeriodSecs':1}"), EXCEEDED_TIME_LIMIT);
  assert_int_equal(must_fail(c, "admin", "{'replSetStepDown':5}"), BAD_VALUE); // waits for 10 s
  assert_int_equal(must_fail(c, "admin", "{'replSetStepDown':5,'force':true,'secondaryCatchUpPeriodSecs':6}"),
                   BAD_VALUE);
  mongoc_client_destroy(c);
  assert_true(set_primary(s) == was);
  assert_int_equal(term_of(was), term);
  run(second, "{'replSetFreeze':0}");
  step_down(was);
  assert_true(set_primary(s) == second);
  run(first, "{'replSetFreeze':0}");
}

static int start(void **state) {
  set_cluster_start(&cluster, MEMBERS, "");
  *state = &cluster;
  return 0;
}

int main(void) {
  mongoc_init();
  const struct CMUnitTest tests[] = {cmocka_unit_test(frozen_is_passed_over), cmocka_unit_test(nobody_stands)};
  int failed = cmocka_run_group_tests(tests, start, set_cluster_teardown);
  mongoc_cleanup();
  return failed;
}
