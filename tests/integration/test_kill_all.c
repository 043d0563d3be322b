// All members of a set are killed (-9) at the same instant under writers, and sometimes those of all sets: what was
// acknowledged is there exactly once when they run again, and all members have the same.
//
// ROUNDS=n: so many kills.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/integration/moves.h"
#include "tests/integration/sets.h"

enum {
  MEMBERS = 3,
  WRITERS = 4,
  ROUNDS = 6,
  BETWEEN_MS = 700, // at most: what is under way at the kill differs
  WRITES_AGAIN_MS = 60000,
  EQUAL_MS = 30000,
};

static struct set_cluster cluster;
static struct set *const sets[] = {&cluster.shards[0], &cluster.config, &cluster.shards[1]};
enum { SETS = sizeof sets / sizeof *sets };

// How long it took until a write was acknowledged.
static int64_t wait_for_write(const struct writers *w) {
  int64_t before = writers_acknowledged(w), begun = now_ms();
  while (writers_acknowledged(w) == before) {
    if (now_ms() - begun > WRITES_AGAIN_MS) fail_msg("no write within %d ms; see %s", WRITES_AGAIN_MS, cluster.folder);
    wait_ms(5);
  }
  return now_ms() - begun;
}

static void expect_equal(struct set *s, const char *db, const char *coll) {
  static const char in_order[] = "{\"sort\":{\"_id\":1}}";
  int64_t counts[MEMBERS], end = now_ms() + EQUAL_MS;
  uint64_t hashes[MEMBERS];
  for (bool equal = false; !equal; wait_ms(50)) {
    equal = true;
    for (int i = 0; i < MEMBERS; i++) {
      mongoc_client_t *c = client_of(&s->members[i]);
      hashes[i] = content_hash(c, db, coll, in_order, &counts[i]);
      mongoc_client_destroy(c);
      equal = equal && hashes[i] == hashes[0] && counts[i] == counts[0];
    }
    if (!equal && now_ms() > end)
      fail_msg("%s: the members have %lld, %lld, %lld documents of %s.%s, or other ones", s->name, (long long)counts[0],
               (long long)counts[1], (long long)counts[2], db, coll);
  }
}

static void killed_at_once(void **state) {
  const char *asked = getenv("ROUNDS");
  int rounds = asked ? atoi(asked) : ROUNDS;
  const struct process *routers[WRITERS];
  mongoc_client_t *router = client_of(&cluster.routers[0]);
  moves_setup(router);
  for (int i = 0; i < WRITERS; i++) routers[i] = &cluster.routers[i % SET_ROUTERS];
  struct writers *w = writers_start(routers, WRITERS);
  int64_t slowest = 0;
  srand((unsigned)now_ms());
  for (int i = 0; i < rounds; i++) {
    (void)wait_for_write(w);
    wait_ms(rand() % BETWEEN_MS);
    int n = i % 3 == 2 ? SETS : 1; // every third time all sets, as if the power had failed
    set_kill_all(sets, n);
    for (int k = 0; k < n; k++) set_restart_all(sets[k]);
    int64_t ms = wait_for_write(w);
    if (ms > slowest) slowest = ms;
  }
  writers_stop(w);
  writers_verify(w, router);
  print_message("%d kills of all members, %d writes acknowledged; the next one after at most %d ms\n", rounds,
                (int)writers_acknowledged(w), (int)slowest);
  expect_equal(&cluster.shards[0], "test", "moving");
  expect_equal(&cluster.config, "config", "chunks");
  writers_free(w);
  mongoc_client_destroy(router);
}

static int start(void **state) {
  set_cluster_start(&cluster, MEMBERS, "");
  *state = &cluster;
  return 0;
}

int main(void) {
  mongoc_init();
  const struct CMUnitTest tests[] = {cmocka_unit_test(killed_at_once)};
  int failed = cmocka_run_group_tests(tests, start, set_cluster_teardown);
  mongoc_cleanup();
  return failed;
}
