// The balancer on a whole cluster: draining, zones, jumbo chunks, its switches, the classic policy. (The data-size
// policy's figures are the sharding article's, which the acceptance scenario replays.)
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "tests/integration/harness.h"

enum { PATIENCE_MS = 60000, PAD_BYTES = 1000 };

static struct cluster cluster;
static mongoc_client_t *router, *config;

// ---- helpers ----

static void insert(const char *coll, int from, int to, int same_key) { // same_key >= 0: of all of them
  static char pad[PAD_BYTES + 1];
  memset(pad, 'x', PAD_BYTES);
  mongoc_collection_t *c = mongoc_client_get_collection(router, "shop", coll);
  mongoc_bulk_operation_t *bulk = mongoc_collection_create_bulk_operation_with_opts(c, NULL);
  for (int i = from; i < to; i++) {
    bson_t *doc = BCON_NEW("_id", BCON_INT32(i), "k", BCON_INT32(same_key >= 0 ? same_key : i), "pad", BCON_UTF8(pad));
    mongoc_bulk_operation_insert(bulk, doc);
    bson_destroy(doc);
  }
  bson_t reply;
  bson_error_t why;
  if (!mongoc_bulk_operation_execute(bulk, &reply, &why)) fail_msg("%s", why.message);
  bson_destroy(&reply);
  mongoc_bulk_operation_destroy(bulk);
  mongoc_collection_destroy(c);
}

static const char *uuid_of(const char *coll) {
  static char text[128];
  bson_t reply;
  bson_iter_t it, at;
  assert_true(command(router, "config", &reply, "{'find':'collections','filter':{'_id':'shop.%s'}}", coll));
  assert_true(bson_iter_init(&it, &reply) && bson_iter_find_descendant(&it, "cursor.firstBatch.0.uuid", &at));
  bson_t one = BSON_INITIALIZER;
  bson_append_iter(&one, "uuid", -1, &at);
  char *json = bson_as_canonical_extended_json(&one, NULL);
  (void)snprintf(text, sizeof text, "%s", strchr(json, ':') + 1);
  text[strlen(text) - 2] = '\0';
  bson_free(json);
  bson_destroy(&one);
  bson_destroy(&reply);
  return text;
}

static int64_t chunks(const char *coll, const char *more) { // more: further conditions, ",\"shard\":\"sh1\"" or ""
  char filter[512];
  (void)snprintf(filter, sizeof filter, "{\"uuid\":%s%s}", uuid_of(coll), more);
  return count_documents(router, "config", "chunks", filter);
}

static bool compliant(const char *coll) {
  bson_t reply;
  bson_iter_t it;
  bool is = command(router, "admin", &reply, "{'balancerCollectionStatus':'shop.%s'}", coll) &&
            bson_iter_init_find(&it, &reply, "balancerCompliant") && bson_iter_bool(&it);
  bson_destroy(&reply);
  return is;
}

static void until_compliant(const char *coll) {
  for (int64_t end = now_ms() + PATIENCE_MS; !compliant(coll); wait_ms(100)) {
    if (now_ms() > end) fail_msg("shop.%s is not balanced", coll);
  }
}

static void create(const char *coll) {
  must(router, "admin", "{'shardCollection':'shop.%s','key':{'k':1}}", coll);
}

static void drop(const char *coll) {
  must(router, "shop", "{'drop':'%s'}", coll);
}

static void switch_balancer(bool on) {
  must(router, "admin", on ? "{'balancerStart':1}" : "{'balancerStop':1}");
}

static int start(void **state) {
  cluster_start(&cluster, 3, 1, "--setParameter orphanCleanupDelaySecs=0");
  router = client_of(&cluster.routers[0]);
  config = client_of(&cluster.config);
  must(config, "admin", "{'setParameter':1,'balancerRoundIntervalMs':100}");
  must(config, "admin", "{'setParameter':1,'balancerMigrationsThrottlingMs':0}");
  must(router, "admin", "{'enableSharding':'shop','primaryShard':'sh1'}");
  must(router, "config",
       "{'update':'settings','updates':[{'q':{'_id':'chunksize'},'u':{'$set':{'value':1}},'upsert':true}]}");
  return 0;
}

static int stop(void **state) {
  mongoc_client_destroy(router);
  mongoc_client_destroy(config);
  cluster_stop(&cluster);
  return 0;
}

// ---- tests ----

static void data_spreads_over_three_shards(void **state) {
  create("spread");
  insert("spread", 0, 12000, -1);
  until_compliant("spread");
  assert_true(chunks("spread", ",\"shard\":\"sh2\"") > 0 && chunks("spread", ",\"shard\":\"sh3\"") > 0);
  assert_int_equal(count_documents(router, "shop", "spread", "{}"), 12000);
  assert_true(count_documents(router, "config", "actionlog",
                              "{\"what\":\"balancer.round\",\"details.errorOccurred\":false}") > 0);
  drop("spread");
}

static void chunks_move_into_their_zone(void **state) {
  switch_balancer(false);
  create("zoned");
  insert("zoned", 0, 900, -1);
  must(router, "admin", "{'addShardToZone':'sh3','zone':'north'}");
  must(router, "admin", "{'updateZoneKeyRange':'shop.zoned','min':{'k':100},'max':{'k':200},'zone':'north'}");
  assert_false(compliant("zoned"));
  switch_balancer(true);
  until_compliant("zoned");
  assert_int_equal(chunks("zoned", ",\"shard\":\"sh3\",\"min.k\":{\"$gte\":100},\"max.k\":{\"$lte\":200}"), 1);
  assert_int_equal(count_documents(router, "shop", "zoned", "{}"), 900);
  mongoc_client_t *sh3 = client_of(&cluster.shards[2]);
  assert_int_equal(count_documents(sh3, "shop", "zoned", "{}"), 100);
  mongoc_client_destroy(sh3);
  must(router, "admin", "{'updateZoneKeyRange':'shop.zoned','min':{'k':100},'max':{'k':200},'zone':null}");
  must(router, "admin", "{'removeShardFromZone':'sh3','zone':'north'}");
  drop("zoned");
}

static void one_frequent_key_makes_a_jumbo_chunk(void **state) {
  switch_balancer(false);
  create("jumbo");
  must(router, "admin", "{'split':'shop.jumbo','middle':{'k':1000000}}");
  insert("jumbo", 0, 6000, 5); // 6 MB of one key in the first chunk
  switch_balancer(true);
  for (int64_t end = now_ms() + PATIENCE_MS; chunks("jumbo", ",\"jumbo\":true") == 0; wait_ms(100)) {
    if (now_ms() > end) fail_msg("no chunk was marked jumbo");
  }
  // What can move has moved; the jumbo chunk stays where it is.
  assert_int_equal(chunks("jumbo", ",\"jumbo\":true"), 1);
  assert_int_equal(count_documents(router, "shop", "jumbo", "{\"k\":5}"), 6000);
  switch_balancer(false);
  must(router, "admin", "{'clearJumboFlag':'shop.jumbo','find':{'k':5}}");
  assert_int_equal(chunks("jumbo", ",\"jumbo\":true"), 0);
  drop("jumbo");
  switch_balancer(true);
}

static void stopped_means_stopped(void **state) {
  switch_balancer(false);
  create("still");
  insert("still", 0, 8000, -1);
  bson_t reply;
  assert_true(command(router, "admin", &reply, "{'balancerStatus':1}"));
  bson_iter_t it;
  assert_true(bson_iter_init_find(&it, &reply, "mode") && strcmp(bson_iter_utf8(&it, NULL), "off") == 0);
  assert_true(bson_iter_init_find(&it, &reply, "inBalancerRound"));
  bson_destroy(&reply);
  wait_ms(500);
  assert_int_equal(chunks("still", ""), 1);
  // Not balanced as long as the collection is switched off, or outside of the window.
  must(router, "config",
       "{'update':'collections','updates':[{'q':{'_id':'shop.still'},'u':{'$set':{'noBalance':true}}}]}");
  switch_balancer(true);
  wait_ms(500);
  assert_int_equal(chunks("still", ""), 1);
  time_t now = time(NULL);
  struct tm tm;
  localtime_r(&now, &tm);
  int from = (tm.tm_hour + 2) % 24, to = (tm.tm_hour + 3) % 24;
  must(router, "config",
       "{'update':'settings','updates':[{'q':{'_id':'balancer'},'u':{'$set':{'activeWindow':{'start':'%02d:00','stop':'"
       "%02d:00'}}}}]}",
       from, to);
  must(router, "config",
       "{'update':'collections','updates':[{'q':{'_id':'shop.still'},'u':{'$set':{'noBalance':false}}}]}");
  wait_ms(500);
  assert_int_equal(chunks("still", ""), 1);
  must(router, "config",
       "{'update':'settings','updates':[{'q':{'_id':'balancer'},'u':{'$unset':{'activeWindow':1}}}]}");
  until_compliant("still");
  assert_true(chunks("still", "") > 1);
  assert_int_equal(count_documents(router, "shop", "still", "{}"), 8000);
  drop("still");
}

static void classic_policy_counts_chunks(void **state) {
  switch_balancer(false);
  create("classic");
  for (int i = 1; i < 12; i++) must(router, "admin", "{'split':'shop.classic','middle':{'k':%d}}", i * 10);
  insert("classic", 0, 120, -1);
  must(config, "admin", "{'setParameter':1,'balancerClassicPolicy':true}");
  assert_false(compliant("classic"));
  switch_balancer(true);
  until_compliant("classic");
  int64_t least = 100, most = 0;
  for (int i = 1; i <= 3; i++) {
    char more[64];
    (void)snprintf(more, sizeof more, ",\"shard\":\"sh%d\"", i);
    int64_t n = chunks("classic", more);
    if (n < least) least = n;
    if (n > most) most = n;
  }
  assert_true(most - least < 2);
  assert_int_equal(count_documents(router, "shop", "classic", "{}"), 120);
  must(config, "admin", "{'setParameter':1,'balancerClassicPolicy':false}");
  drop("classic");
}

static void neighbours_are_merged(void **state) {
  create("merged");
  for (int i = 1; i < 5; i++) must(router, "admin", "{'split':'shop.merged','middle':{'k':%d}}", i);
  insert("merged", 0, 100, -1);
  must(config, "admin", "{'setParameter':1,'minSnapshotHistoryWindowInSeconds':0}");
  must(config, "admin", "{'setParameter':1,'autoMergerIntervalSecs':1}");
  for (int64_t end = now_ms() + PATIENCE_MS; chunks("merged", "") > 1; wait_ms(100)) {
    if (now_ms() > end) fail_msg("chunks were not merged");
  }
  assert_int_equal(count_documents(router, "shop", "merged", "{}"), 100);
  must(config, "admin", "{'setParameter':1,'autoMergerIntervalSecs':3600}");
  must(config, "admin", "{'setParameter':1,'minSnapshotHistoryWindowInSeconds':300}");
  drop("merged");
}

// The config server is killed while it balances; its successor in the same data goes on.
static void balancing_survives_a_kill(void **state) {
  create("killed");
  insert("killed", 0, 9000, -1);
  for (int64_t end = now_ms() + PATIENCE_MS; chunks("killed", "") < 2; wait_ms(20)) {
    if (now_ms() > end) fail_msg("nothing was moved");
  }
  process_end(&cluster.config, SIGKILL);
  process_start(&cluster.config);
  until_compliant("killed");
  assert_int_equal(count_documents(router, "shop", "killed", "{}"), 9000);
  drop("killed");
}

static void a_draining_shard_empties(void **state) {
  must(config, "admin", "{'setParameter':1,'balancerRoundIntervalMs':100}");
  must(config, "admin", "{'setParameter':1,'balancerMigrationsThrottlingMs':0}");
  create("drained");
  insert("drained", 0, 9000, -1);
  until_compliant("drained");
  assert_true(chunks("drained", ",\"shard\":\"sh3\"") > 0);
  bson_t reply;
  bson_iter_t it;
  bool completed = false;
  for (int64_t end = now_ms() + PATIENCE_MS; !completed; wait_ms(100)) {
    if (now_ms() > end) fail_msg("the shard is not empty");
    assert_true(command(router, "admin", &reply, "{'removeShard':'sh3'}"));
    assert_true(bson_iter_init_find(&it, &reply, "state"));
    completed = strcmp(bson_iter_utf8(&it, NULL), "completed") == 0;
    bson_destroy(&reply);
  }
  assert_int_equal(chunks("drained", ",\"shard\":\"sh3\""), 0);
  assert_int_equal(count_documents(router, "shop", "drained", "{}"), 9000);
  assert_int_equal(count_documents(router, "config", "shards", "{}"), 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(data_spreads_over_three_shards),
      cmocka_unit_test(chunks_move_into_their_zone),
      cmocka_unit_test(one_frequent_key_makes_a_jumbo_chunk),
      cmocka_unit_test(stopped_means_stopped),
      cmocka_unit_test(classic_policy_counts_chunks),
      cmocka_unit_test(neighbours_are_merged),
      cmocka_unit_test(balancing_survives_a_kill),
      cmocka_unit_test(a_draining_shard_empties),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
