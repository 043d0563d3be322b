// Ranges are moved to and fro under writers while donor, recipient, config server and router are killed at every step:
// every acknowledged write is there exactly once afterwards, every document on exactly one shard, and the next move
// succeeds.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/integration/writers.h"

enum {
  WRITERS = 4,
  SETTLE_MS = 90000, // for an interrupted move to be over
  HANG_MS = 15000,   // for a step to be reached
};

static struct cluster cluster;
static mongoc_client_t *router; // the one that is not killed
static int owner;               // of the moving range: 0 or 1

static const char admin[] = "admin";
static const char range[] = "'min':{'customerId':0},'max':{'customerId':3000}";

static int start(void **state) {
  cluster_start(&cluster, 2, 2,
                "--setParameter enableTestCommands=true --setParameter orphanCleanupDelaySecs=0 "
                "--setParameter receiveChunkWaitForRangeDeleterTimeoutMS=30000");
  router = client_of(&cluster.routers[0]);
  must(router, admin, "{'balancerStop':1}");
  must(router, admin, "{'enableSharding':'test','primaryShard':'sh1'}");
  must(router, admin, "{'shardCollection':'test.moving','key':{'customerId':1}}");
  owner = 0;
  return 0;
}

static int stop(void **state) {
  mongoc_client_destroy(router);
  cluster_stop(&cluster);
  return 0;
}

static const struct process *const *all_routers(void) {
  static const struct process *list[WRITERS];
  for (int i = 0; i < WRITERS; i++) list[i] = &cluster.routers[i % 2];
  return list;
}

// --- moving ---

static bool move(mongoc_client_t *c, int to, bson_t *reply) {
  return command(c, admin, reply, "{'moveRange':'test.moving',%s,'toShard':'sh%d'}", range, to + 1);
}

// Which shard has the range now, by the config server.
static int read_owner(void) {
  bson_t reply;
  assert_true(command(router, "config", &reply, "{'find':'chunks','filter':{'min.customerId':0}}"));
  bson_iter_t it, at;
  assert_true(bson_iter_init(&it, &reply));
  int found = 0; // before the first move the range is a part of the one chunk, on sh1
  if (bson_iter_find_descendant(&it, "cursor.firstBatch.0.shard", &at)) found = bson_iter_utf8(&at, NULL)[2] - '1';
  bson_destroy(&reply);
  return found;
}

// An interrupted move may still be on its way to an end: tries until one succeeds.
static void move_in_the_end(int to) {
  int64_t end = now_ms() + SETTLE_MS;
  for (;;) {
    bson_t reply;
    bool ok = move(router, to, &reply);
    char *text = ok ? NULL : bson_as_relaxed_extended_json(&reply, NULL);
    bson_destroy(&reply);
    if (!ok && now_ms() > end) fail_msg("no move succeeds within %d ms: %s", SETTLE_MS, text);
    bson_free(text);
    if (ok) break;
    wait_ms(200);
  }
  owner = read_owner();
  assert_int_equal(owner, to);
}

struct mover {
  pthread_t thread;
  const struct process *through;
  int to;
};

static void *run_move(void *arg) {
  struct mover *m = arg;
  mongoc_client_t *c = client_of(m->through);
  bson_t reply;
  (void)move(c, m->to, &reply); // succeeds or not: it is interrupted
  bson_destroy(&reply);
  mongoc_client_destroy(c);
  return NULL;
}

// --- settled ---

static int64_t leftovers(const struct process *shard) {
  static const char *const collections[] = {"rangeDeletions", "migrationCoordinators", "migrationRecipients",
                                            "collection_critical_sections"};
  mongoc_client_t *c = client_of(shard);
  int64_t n = 0;
  for (size_t i = 0; i < sizeof collections / sizeof *collections; i++)
    n += count_documents(c, "config", collections[i], "{}");
  mongoc_client_destroy(c);
  return n;
}

// Nothing of any migration is left on the shards, and no orphans: then each document is on exactly one of them.
static void wait_until_settled(void) {
  int64_t end = now_ms() + SETTLE_MS, left = 1;
  while (left) {
    left = leftovers(&cluster.shards[0]) + leftovers(&cluster.shards[1]);
    if (left && now_ms() > end) fail_msg("%lld documents of migrations are left on the shards", (long long)left);
    if (left) wait_ms(100);
  }
  int64_t direct = 0;
  for (int i = 0; i < 2; i++) {
    mongoc_client_t *c = client_of(&cluster.shards[i]);
    direct += count_documents(c, "test", "moving", "{}");
    mongoc_client_destroy(c);
  }
  assert_int_equal(direct, count_documents(router, "test", "moving", "{}"));
}

// --- tests ---

static void moving_under_writers(void **state) {
  struct writers *w = writers_start(all_routers(), WRITERS);
  for (int i = 0; i < 12; i++) {
    move_in_the_end(1 - owner);
    wait_ms(50);
  }
  writers_stop(w);
  wait_until_settled();
  writers_verify(w, router);
  print_message("%lld writes were acknowledged meanwhile\n", (long long)writers_acknowledged(w));
  writers_free(w);
  must(router, "test", "{'delete':'moving','deletes':[{'q':{},'limit':0}]}");
}

static int64_t set_point(const struct process *p, const char *name, const char *mode) {
  mongoc_client_t *c = client_of(p);
  bson_t reply;
  assert_true(command(c, admin, &reply, "{'configureFailPoint':'%s','mode':'%s'}", name, mode));
  int64_t count = reply_i64(&reply, "count");
  bson_destroy(&reply);
  mongoc_client_destroy(c);
  return count;
}

// Begins a move, waits until it stands at the named point of `at`, kills `victim`, starts it again, lets everything go
// on.
static void interrupt_move(struct process *at, const char *point, struct process *victim, int signal_number) {
  struct mover m = {.through = &cluster.routers[0], .to = 1 - owner};
  int64_t before = set_point(at, point, "alwaysOn"), end = now_ms() + HANG_MS;
  assert_int_equal(pthread_create(&m.thread, NULL, run_move, &m), 0);
  while (set_point(at, point, "alwaysOn") == before) {
    if (now_ms() > end) fail_msg("%s was not reached", point);
    wait_ms(20);
  }
  wait_ms(100); // some writes more
  (void)process_end(victim, signal_number);
  process_start(victim);
  (void)set_point(at, point, "off");
  (void)pthread_join(m.thread, NULL);
}

static void interrupt_at(struct process *at, const char *point, struct process *victim) {
  struct writers *w = writers_start(all_routers(), WRITERS);
  wait_ms(100);
  interrupt_move(at, point, victim, SIGKILL);
  move_in_the_end(1 - owner);
  move_in_the_end(1 - owner);
  writers_stop(w);
  wait_until_settled();
  writers_verify(w, router);
  writers_free(w);
  must(router, "test", "{'delete':'moving','deletes':[{'q':{},'limit':0}]}");
  owner = read_owner();
}

static void kill_at_donor_steps(void **state) {
  for (int step = 2; step <= 5; step++) {
    char point[40];
    (void)snprintf(point, sizeof point, "moveChunkHangAtStep%d", step);
    struct process *victims[] = {&cluster.shards[owner], &cluster.shards[1 - owner], &cluster.config,
                                 &cluster.routers[1]};
    static const char *const names[] = {"donor", "recipient", "config server", "router"};
    for (int v = 0; v < 4; v++) {
      owner = read_owner();
      struct process *donor = &cluster.shards[owner];
      if (v == 0) victims[0] = donor;
      if (v == 1) victims[1] = &cluster.shards[1 - owner];
      print_message("step %d of the donor: kill the %s\n", step, names[v]);
      interrupt_at(donor, point, victims[v]);
    }
  }
}

static void kill_at_recipient_steps(void **state) {
  for (int step = 3; step <= 7; step++) {
    char point[40];
    (void)snprintf(point, sizeof point, "migrateThreadHangAtStep%d", step);
    for (int v = 0; v < 2; v++) {
      owner = read_owner();
      struct process *recipient = &cluster.shards[1 - owner], *victim = v ? recipient : &cluster.shards[owner];
      print_message("step %d of the recipient: kill the %s\n", step, v ? "recipient" : "donor");
      interrupt_at(recipient, point, victim);
    }
  }
}

// After the config server has committed, before the donor's section ends.
static void kill_after_commit(void **state) {
  for (int v = 0; v < 3; v++) {
    owner = read_owner();
    struct process *donor = &cluster.shards[owner];
    struct process *victims[] = {donor, &cluster.shards[1 - owner], &cluster.config};
    interrupt_at(donor, "hangBeforeLeavingCriticalSection", victims[v]);
  }
}

// What is acknowledged under a transaction number is answered the same way on the range's new owner.
static void retry_after_move(void **state) {
  static const char update[] = "{'update':'moving','updates':[{'q':{'customerId':77},'u':{'$inc':{'n':1}},'upsert':"
                               "true}],'txnNumber':{'$numberLong':'5'},"
                               "'lsid':{'id':{'$binary':{'base64':'AAECAwQFRgeICQoLDA0ODw==','subType':'04'}}}}";
  must(router, "test", "%s", update);
  move_in_the_end(1 - owner);
  must(router, "test", "%s", update);
  assert_int_equal(count_documents(router, "test", "moving", "{\"customerId\": 77, \"n\": 1}"), 1);
  assert_int_equal(count_documents(router, "test", "moving", "{\"customerId\": 77}"), 1);
  must(router, "test", "{'delete':'moving','deletes':[{'q':{},'limit':0}]}");
}

// An index that is created while a range moves would be missing on the recipient: the move gives way, and says why.
static void index_during_move(void **state) {
  struct process *donor = &cluster.shards[owner];
  struct mover m = {.through = &cluster.routers[0], .to = 1 - owner};
  int64_t before = set_point(donor, "moveChunkHangAtStep4", "alwaysOn");
  assert_int_equal(pthread_create(&m.thread, NULL, run_move, &m), 0);
  while (set_point(donor, "moveChunkHangAtStep4", "alwaysOn") == before) wait_ms(20);
  must(router, "test", "{'createIndexes':'moving','indexes':[{'key':{'extra':1},'name':'extra_1'}]}");
  (void)set_point(donor, "moveChunkHangAtStep4", "off");
  (void)pthread_join(m.thread, NULL);
  assert_int_equal(read_owner(), owner);
  mongoc_client_t *c = client_of(donor);
  bson_t reply;
  assert_true(command(c, admin, &reply, "{'serverStatus':1}"));
  assert_int_equal(reply_i64(&reply, "shardingStatistics.countDonorMoveChunkAbortConflictingIndexOperation"), 1);
  bson_destroy(&reply);
  mongoc_client_destroy(c);
  move_in_the_end(1 - owner); // with the index
  wait_until_settled();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(moving_under_writers),    cmocka_unit_test(retry_after_move),
      cmocka_unit_test(index_during_move),       cmocka_unit_test(kill_at_donor_steps),
      cmocka_unit_test(kill_at_recipient_steps), cmocka_unit_test(kill_after_commit),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
