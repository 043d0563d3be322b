// Two who do the same at the same moment.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/integration/harness.h"

enum { CALLERS = 8 };

static struct process shard;

static void *become_shard(void *arg) {
  mongoc_client_t *c = client_of(&shard);
  must(c, "admin",
       "{'_addShard':1,'shardIdentity':{'shardName':'sh1','clusterId':{'$oid':'65f000000000000000000001'},"
       "'configsvrConnectionString':'cfg/127.0.0.1:1'}}");
  mongoc_client_destroy(c);
  return NULL;
}

// Routers that start together add the same shards. The first of them creates the collection of the identity, the
// others must not put theirs beside it.
static void one_identity(void **state) {
  char folder[256];
  pthread_t callers[CALLERS];
  folder_make(folder);
  member_start(&shard, folder, "shardd", "sh1", "");
  for (int i = 0; i < CALLERS; i++) assert_int_equal(pthread_create(&callers[i], NULL, become_shard, NULL), 0);
  for (int i = 0; i < CALLERS; i++) (void)pthread_join(callers[i], NULL);
  mongoc_client_t *c = client_of(&shard);
  bson_t reply;
  assert_true(command(c, "admin", &reply, "{'validate':'system.version'}"));
  assert_int_equal(reply_i64(&reply, "nrecords"), 1);
  assert_int_equal(reply_i64(&reply, "keysPerIndex._id_"), 1);
  bson_destroy(&reply);
  mongoc_client_destroy(c);
  assert_int_equal(process_end(&shard, SIGTERM), 0);
  folder_remove(folder);
}

// A router that starts again while one of the shards that it was told to add is down serves the others.
static void router_without_a_shard(void **state) {
  struct cluster c;
  cluster_start(&c, 2, 1, "");
  (void)process_end(&c.shards[1], SIGKILL);
  (void)process_end(&c.routers[0], SIGKILL);
  process_start(&c.routers[0]);
  mongoc_client_t *client = client_of(&c.routers[0]);
  must(client, "admin", "{'enableSharding':'up','primaryShard':'sh1'}");
  must(client, "up", "{'insert':'c','documents':[{'_id':1}]}");
  mongoc_client_destroy(client);
  cluster_stop(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(one_identity), cmocka_unit_test(router_without_a_shard)};
  mongoc_init();
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  mongoc_cleanup();
  return failed;
}
