// A collection is dropped and sharded anew without end, through one router, while another one writes into it: the
// placement is stale in every attempt, and still every statement gets through.
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/integration/harness.h"

enum { INSERT_MS = 4000 };

static struct cluster cluster;
static atomic_bool over;

static int start(void **state) {
  cluster_start(&cluster, 2, 2, "");
  mongoc_client_t *c = client_of(&cluster.routers[0]);
  must(c, "admin", "{'balancerStop':1}");
  must(c, "admin", "{'enableSharding':'again','primaryShard':'sh1'}");
  mongoc_client_destroy(c);
  return 0;
}

static int stop(void **state) {
  cluster_stop(&cluster);
  return 0;
}

static void *drop_and_shard(void *arg) {
  mongoc_client_t *c = client_of(&cluster.routers[0]);
  int *rounds = arg;
  while (!atomic_load(&over)) {
    bson_t reply;
    (void)command(c, "again", &reply, "{'drop':'c'}");
    bson_destroy(&reply);
    *rounds += command(c, "admin", &reply, "{'shardCollection':'again.c','key':{'_id':1}}");
    bson_destroy(&reply);
  }
  mongoc_client_destroy(c);
  return NULL;
}

static void insert_meanwhile(void **state) {
  pthread_t thread;
  int rounds = 0, inserted = 0;
  mongoc_client_t *c = client_of(&cluster.routers[1]);
  assert_int_equal(pthread_create(&thread, NULL, drop_and_shard, &rounds), 0);
  for (int64_t end = now_ms() + INSERT_MS; now_ms() < end; inserted++)
    must(c, "again", "{'insert':'c','documents':[{'_id':%d}]}", inserted);
  atomic_store(&over, true);
  (void)pthread_join(thread, NULL);
  print_message("%d inserts while it was made %d times\n", inserted, rounds);
  assert_true(rounds > 0);
  mongoc_client_destroy(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(insert_meanwhile)};
  return cmocka_run_group_tests(tests, start, stop);
}
