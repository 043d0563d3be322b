// Ranges are moved to and fro under writers while donor, recipient, config server and router are killed at every step:
// every acknowledged write is there exactly once afterwards, every document on exactly one shard, and the next move
// succeeds.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/integration/moves.h"

enum { WRITERS = 4 };

static struct cluster cluster;
static mongoc_client_t *router; // the one that is not killed
static int owner;               // of the moving range: 0 or 1

static const char admin[] = "admin";

static int start(void **state) {
  cluster_start(&cluster, 2, 2,
                "--setParameter enableTestCommands=true --setParameter orphanCleanupDelaySecs=0 "
                "--setParameter receiveChunkWaitForRangeDeleterTimeoutMS=30000");
  router = client_of(&cluster.routers[0]);
  moves_setup(router);
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

static void move_in_the_end(int to) {
  moves_until_on(router, to);
  owner = to;
}

static void wait_until_settled(void) {
  moves_wait_settled(router, &cluster.shards[0], &cluster.shards[1]);
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
  moves_delete_all(router);
}

// Begins a move, waits until it stands at the named point of `at`, kills `victim`, starts it again, lets everything go
// on.
static void interrupt_move(struct process *at, const char *point, struct process *victim, int signal_number) {
  struct mover m;
  mover_start_until(&m, &cluster.routers[0], 1 - owner, at, point);
  wait_ms(100); // some writes more
  (void)process_end(victim, signal_number);
  process_start(victim);
  (void)point_set(at, point, "off");
  mover_join(&m);
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
  moves_delete_all(router);
  owner = moves_owner(router);
}

static void kill_at_donor_steps(void **state) {
  for (int step = 2; step <= 5; step++) {
    char point[40];
    (void)snprintf(point, sizeof point, "moveChunkHangAtStep%d", step);
    struct process *victims[] = {&cluster.shards[owner], &cluster.shards[1 - owner], &cluster.config,
                                 &cluster.routers[1]};
    static const char *const names[] = {"donor", "recipient", "config server", "router"};
    for (int v = 0; v < 4; v++) {
      owner = moves_owner(router);
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
      owner = moves_owner(router);
      struct process *recipient = &cluster.shards[1 - owner], *victim = v ? recipient : &cluster.shards[owner];
      print_message("step %d of the recipient: kill the %s\n", step, v ? "recipient" : "donor");
      interrupt_at(recipient, point, victim);
    }
  }
}

// After the config server has committed, before the donor's section ends.
static void kill_after_commit(void **state) {
  for (int v = 0; v < 3; v++) {
    owner = moves_owner(router);
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
  moves_delete_all(router);
}

// The same for an unsharded collection that moves as a whole, whose move is logged.
static void retry_after_move_collection(void **state) {
  static const char update[] = "{'update':'c','updates':[{'q':{'_id':1},'u':{'$inc':{'n':1}},'upsert':true}],"
                               "'txnNumber':{'$numberLong':'6'},"
                               "'lsid':{'id':{'$binary':{'base64':'AAECAwQFRgeICQoLDA0ODw==','subType':'04'}}}}";
  static const char done[] = "{\"what\": \"resharding.coordinator.transition\", \"ns\": \"plain.c\", "
                             "\"details.newState\": \"done\"}";
  must(router, admin, "{'enableSharding':'plain','primaryShard':'sh1'}");
  must(router, "plain", "%s", update);
  for (int i = 0; i < 2; i++) {
    must(router, admin, "{'moveCollection':'plain.c','toShard':'sh%d'}", 2 - i);
    must(router, "plain", "%s", update);
    assert_int_equal(count_documents(router, "plain", "c", "{\"n\": 1}"), 1);
    assert_int_equal(count_documents(router, "config", "changelog", done), i + 1);
  }
}

// An index that is created while a range moves would be missing on the recipient: the move gives way, and says why.
static void index_during_move(void **state) {
  struct process *donor = &cluster.shards[owner];
  struct mover m;
  mover_start_until(&m, &cluster.routers[0], 1 - owner, donor, "moveChunkHangAtStep4");
  must(router, "test", "{'createIndexes':'moving','indexes':[{'key':{'extra':1},'name':'extra_1'}]}");
  (void)point_set(donor, "moveChunkHangAtStep4", "off");
  mover_join(&m);
  assert_int_equal(moves_owner(router), owner);
  mongoc_client_t *c = client_of(donor);
  bson_t reply;
  assert_true(command(c, admin, &reply, "{'serverStatus':1}"));
  assert_int_equal(reply_i64(&reply, "shardingStatistics.countDonorMoveChunkAbortConflictingIndexOperation"), 1);
  bson_destroy(&reply);
  mongoc_client_destroy(c);
  move_in_the_end(1 - owner); // with the index
  wait_until_settled();
}

static int64_t count_on(const struct process *shard, const char *filter) {
  mongoc_client_t *c = client_of(shard);
  int64_t n = count_documents(c, "test", "moving", filter);
  mongoc_client_destroy(c);
  return n;
}

// An `_id` that a document of the range has is inserted into another range of the recipient, after the first one was
// copied: both may exist, but not on one shard.
static void same_id_in_another_range(void **state) {
  static const char twins[] = "{\"_id\": \"twin\"}";
  move_in_the_end(1); // sh1 has what is outside of the range
  wait_until_settled();
  struct process *recipient = &cluster.shards[0];
  struct mover m;
  must(router, "test", "{'insert':'moving','documents':[{'_id':'twin','customerId':10}]}");
  mover_start_until(&m, &cluster.routers[0], 0, recipient, "migrateThreadHangAtStep4");
  must(router, "test", "{'insert':'moving','documents':[{'_id':'twin','customerId':5000}]}");
  (void)point_set(recipient, "migrateThreadHangAtStep4", "off");
  mover_join(&m);
  assert_false(m.ok);
  assert_non_null(strstr(m.error, "E11000"));
  assert_int_equal(count_on(&cluster.shards[0], twins), 1);
  assert_int_equal(count_on(&cluster.shards[1], twins), 1);
  wait_until_settled();

  // The same, but the donor's document is deleted before the range is adopted.
  mover_start_until(&m, &cluster.routers[0], 0, recipient, "migrateThreadHangAtStep4");
  must(router, "test", "{'delete':'moving','deletes':[{'q':{'_id':'twin','customerId':10},'limit':1}]}");
  (void)point_set(recipient, "migrateThreadHangAtStep4", "off");
  mover_join(&m);
  if (!m.ok) fail_msg("%s", m.error);
  owner = moves_owner(router);
  wait_until_settled();
  assert_int_equal(count_on(&cluster.shards[0], twins), 1);
  moves_delete_all(router);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(moving_under_writers),        cmocka_unit_test(retry_after_move),
      cmocka_unit_test(retry_after_move_collection), cmocka_unit_test(index_during_move),
      cmocka_unit_test(same_id_in_another_range),    cmocka_unit_test(kill_at_donor_steps),
      cmocka_unit_test(kill_at_recipient_steps),     cmocka_unit_test(kill_after_commit),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
