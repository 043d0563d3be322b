// The life of databases, collections and indexes over three shards and two routers. Every change is made through the
// first router and looked at through the second, whose routing tables are older then.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/integration/harness.h"

enum { DOCUMENTS = 60, DRAIN_TIMEOUT_MS = 60000 };

static struct cluster the_cluster;
static mongoc_client_t *a, *b, *config; // the two routers; the config server

static int set_up(void **state) {
  // Orphans go at once, so that a range can come back to a shard that it has just left.
  cluster_start(&the_cluster, 3, 2, "--setParameter orphanCleanupDelaySecs=0");
  a = client_of(&the_cluster.routers[0]);
  b = client_of(&the_cluster.routers[1]);
  config = client_of(&the_cluster.config);
  must(a, "admin", "{'balancerStop':1}");
  must(a, "admin", "{'enableSharding':'shop','primaryShard':'sh1'}");
  return 0;
}

static int tear_down(void **state) {
  mongoc_client_destroy(a);
  mongoc_client_destroy(b);
  mongoc_client_destroy(config);
  cluster_stop(&the_cluster);
  return 0;
}

// Documents _id and k 0..59, g = k mod 7.
static void fill(mongoc_client_t *c, const char *coll) {
  for (int i = 0; i < DOCUMENTS; i++) {
    must(c, "shop", "{'insert':'%s','documents':[{'_id':%d,'k':%d,'g':%d}]}", coll, i, i, i % 7);
  }
}

// The number at a path of the reply of a command that must succeed.
static int64_t number(mongoc_client_t *c, const char *db, const char *path, const char *json) {
  bson_t reply;
  if (!command(c, db, &reply, "%s", json)) {
    char *text = bson_as_relaxed_extended_json(&reply, NULL);
    fail_msg("%s: %s", json, text);
  }
  int64_t n = reply_i64(&reply, path);
  bson_destroy(&reply);
  return n;
}

static int64_t documents(mongoc_client_t *c, const char *coll) {
  return count_documents(c, "shop", coll, "{}");
}

// Chunks of a collection, of one shard or (NULL) of all.
static int64_t chunks(const char *ns, const char *shard) {
  char filter[400];
  bson_t reply;
  bson_iter_t it, uuid;
  assert_true(command(a, "config", &reply, "{'find':'collections','filter':{'_id':'%s'}}", ns));
  assert_true(bson_iter_init(&it, &reply) && bson_iter_find_descendant(&it, "cursor.firstBatch.0.uuid", &uuid));
  bson_t *query = bson_new();
  assert_true(bson_append_iter(query, "uuid", -1, &uuid));
  if (shard) BSON_APPEND_UTF8(query, "shard", shard);
  char *text = bson_as_canonical_extended_json(query, NULL);
  (void)snprintf(filter, sizeof filter, "%s", text);
  bson_free(text);
  bson_destroy(query);
  bson_destroy(&reply);
  return count_documents(a, "config", "chunks", filter);
}

static void created_and_dropped(void **state) {
  must(a, "shop", "{'create':'plain'}");
  assert_int_equal(must_fail(b, "shop", "{'create':'plain'}"), 48);
  assert_int_equal(
      number(b, "shop", "cursor.firstBatch.0.idIndex.v", "{'listCollections':1,'filter':{'name':'plain'}}"), 2);
  must(b, "shop", "{'insert':'plain','documents':[{'_id':1}]}");
  assert_int_equal(documents(a, "plain"), 1);
  must(a, "shop", "{'drop':'plain'}");
  assert_int_equal(documents(b, "plain"), 0);
  must(a, "shop", "{'drop':'plain'}"); // dropping nothing is no error
  assert_int_equal(must_fail(a, "shop", "{'create':'a$b'}"), 73);
}

static void sharded_while_empty(void **state) {
  must(a, "admin", "{'shardCollection':'shop.range','key':{'k':1}}");
  must(a, "admin", "{'shardCollection':'shop.range','key':{'k':1}}"); // the same again is no error
  assert_int_equal(must_fail(a, "admin", "{'shardCollection':'shop.range','key':{'g':1}}"), 23);
  assert_int_equal(chunks("shop.range", NULL), 1);
  must(a, "admin", "{'shardCollection':'shop.hashed','key':{'k':'hashed'}}");
  for (int i = 1; i <= 3; i++) {
    char shard[16];
    (void)snprintf(shard, sizeof shard, "sh%d", i);
    assert_true(chunks("shop.hashed", shard) > 0);
  }
  must(a, "admin", "{'shardCollection':'shop.compound','key':{'g':1,'k':1}}");
  must(a, "admin", "{'shardCollection':'shop.mixed','key':{'g':1,'k':'hashed'}}");
  const char *const names[] = {"range", "hashed", "compound", "mixed"};
  for (size_t i = 0; i < 4; i++) {
    fill(b, names[i]);
    assert_int_equal(documents(a, names[i]), DOCUMENTS);
    assert_int_equal(count_documents(b, "shop", names[i], "{\"k\":{\"$gte\":30},\"g\":3}"), 5);
  }
}

static void sharded_with_data(void **state) {
  fill(a, "full");
  assert_int_equal(documents(b, "full"), DOCUMENTS); // the second router believes that it is not sharded
  assert_int_equal(must_fail(a, "admin", "{'shardCollection':'shop.full','key':{'k':1}}"), 72); // needs the index
  must(a, "shop", "{'createIndexes':'full','indexes':[{'key':{'k':1},'name':'k_1'}]}");
  must(a, "admin", "{'shardCollection':'shop.full','key':{'k':1}}");
  must(b, "shop", "{'insert':'full','documents':[{'_id':1000,'k':1000}]}");
  assert_int_equal(documents(b, "full"), DOCUMENTS + 1);
  assert_int_equal(must_fail(a, "shop", "{'dropIndexes':'full','index':'k_1'}"), 370); // the shard key's index
}

static void unique_keys(void **state) {
  must(a, "admin", "{'shardCollection':'shop.unique','key':{'k':1},'unique':true}");
  must(a, "shop", "{'insert':'unique','documents':[{'_id':1,'k':1}]}");
  bson_t reply;
  (void)command(b, "shop", &reply, "{'insert':'unique','documents':[{'_id':2,'k':1}]}");
  assert_int_equal(reply_i64(&reply, "writeErrors.0.code"), 11000);
  bson_destroy(&reply);
  assert_int_equal(must_fail(a, "admin", "{'shardCollection':'shop.no','key':{'k':'hashed'},'unique':true}"), 72);
  // An index that cannot be unique over shards is refused; one that begins with the key can be.
  assert_int_equal(
      must_fail(a, "shop", "{'createIndexes':'unique','indexes':[{'key':{'x':1},'name':'x','unique':true}]}"), 67);
  must(a, "shop", "{'createIndexes':'unique','indexes':[{'key':{'k':1,'x':1},'name':'kx','unique':true}]}");
}

static void split_moved_merged(void **state) {
  must(a, "admin", "{'split':'shop.range','middle':{'k':20}}");
  must(a, "admin", "{'split':'shop.range','middle':{'k':40}}");
  must(a, "admin", "{'moveChunk':'shop.range','find':{'k':20},'to':'sh2'}");
  must(a, "admin", "{'moveRange':'shop.range','min':{'k':40},'toShard':'sh3'}");
  assert_int_equal(chunks("shop.range", "sh2"), 1);
  assert_int_equal(documents(b, "range"), DOCUMENTS);
  assert_int_equal(count_documents(b, "shop", "range", "{\"k\":{\"$gte\":15,\"$lt\":45}}"), 30);
  must(a, "admin", "{'moveChunk':'shop.range','find':{'k':20},'to':'sh1'}");
  must(a, "admin", "{'mergeChunks':'shop.range','bounds':[{'k':{'$minKey':1}},{'k':40}]}");
  assert_int_equal(chunks("shop.range", NULL), 2);
  assert_int_equal(documents(b, "range"), DOCUMENTS);
}

static void dropped_and_made_again_behind_a_routers_back(void **state) {
  assert_int_equal(documents(b, "range"), DOCUMENTS); // the second router has the old table now
  must(a, "shop", "{'drop':'range'}");
  must(a, "admin", "{'shardCollection':'shop.range','key':{'g':1}}");
  must(a, "admin", "{'split':'shop.range','middle':{'g':3}}");
  must(a, "admin", "{'moveChunk':'shop.range','find':{'g':3},'to':'sh3'}");
  assert_int_equal(documents(b, "range"), 0);
  fill(b, "range");
  assert_int_equal(count_documents(a, "shop", "range", "{\"g\":{\"$gte\":3}}"), 33);
  must(a, "shop", "{'drop':'range'}");
  must(a, "shop", "{'create':'range'}"); // not sharded any more
  must(b, "shop", "{'insert':'range','documents':[{'_id':1}]}");
  assert_int_equal(documents(a, "range"), 1);
}

static void renamed(void **state) {
  must(a, "shop", "{'insert':'old','documents':[{'_id':1}]}");
  assert_int_equal(documents(b, "old"), 1);
  must(a, "admin", "{'renameCollection':'shop.old','to':'shop.new'}");
  assert_int_equal(documents(b, "old"), 0);
  assert_int_equal(documents(b, "new"), 1);
  must(b, "admin", "{'renameCollection':'shop.hashed','to':'shop.hashed2'}");
  assert_int_equal(documents(a, "hashed2"), DOCUMENTS);
  assert_int_equal(must_fail(a, "admin", "{'renameCollection':'shop.new','to':'shop.hashed2'}"), 48);
  must(a, "admin", "{'renameCollection':'shop.new','to':'shop.hashed2','dropTarget':true}");
  assert_int_equal(documents(b, "hashed2"), 1);
  assert_int_equal(must_fail(a, "admin", "{'renameCollection':'shop.nosuch','to':'shop.x'}"), 26);
}

static void indexes_on_every_shard(void **state) {
  must(a, "admin", "{'split':'shop.compound','middle':{'g':3,'k':0}}");
  must(a, "admin", "{'moveChunk':'shop.compound','find':{'g':3,'k':0},'to':'sh2'}");
  bson_t reply;
  assert_true(command(b, "shop", &reply, "{'createIndexes':'compound','indexes':[{'key':{'z':1},'name':'z_1'}]}"));
  bson_iter_t it, shard;
  assert_true(bson_iter_init_find(&it, &reply, "raw") && bson_iter_recurse(&it, &shard));
  int shards = 0;
  while (bson_iter_next(&shard)) {
    bson_iter_t field;
    assert_true(bson_iter_recurse(&shard, &field) && bson_iter_find(&field, "numIndexesAfter"));
    assert_int_equal(bson_iter_as_int64(&field), 3);
    shards++;
  }
  assert_int_equal(shards, 2);
  bson_destroy(&reply);
  must(a, "admin", "{'moveChunk':'shop.compound','find':{'g':3,'k':0},'to':'sh3'}"); // a shard that never had it
  assert_int_equal(number(b, "shop", "cursor.firstBatch.2.key.z", "{'listIndexes':'compound'}"), 1);
  assert_int_equal(must_fail(b, "shop", "{'find':'compound','hint':'nosuch'}"), 2);
  must(b, "shop", "{'find':'compound','hint':'z_1'}");
  assert_int_equal(must_fail(a, "shop", "{'dropIndexes':'compound','index':'_id_'}"), 72);
  assert_int_equal(must_fail(a, "shop", "{'dropIndexes':'compound','index':'nosuch'}"), 27);
  must(a, "shop", "{'dropIndexes':'compound','index':'z_1'}");
  assert_int_equal(number(b, "shop", "cursor.firstBatch.2.key.z", "{'listIndexes':'compound'}"), -1);
  assert_int_equal(must_fail(a, "shop", "{'listIndexes':'nosuch'}"), 26);
}

static void an_unsharded_collection_moves(void **state) {
  fill(a, "moved");
  assert_int_equal(documents(b, "moved"), DOCUMENTS);
  must(a, "admin", "{'moveCollection':'shop.moved','toShard':'sh3'}");
  assert_int_equal(documents(b, "moved"), DOCUMENTS);
  must(b, "shop", "{'insert':'moved','documents':[{'_id':100}]}");
  assert_int_equal(documents(a, "moved"), DOCUMENTS + 1);
  mongoc_client_t *sh3 = client_of(&the_cluster.shards[2]);
  assert_int_equal(number(sh3, "shop", "n", "{'count':'moved'}"), DOCUMENTS + 1);
  mongoc_client_destroy(sh3);
  assert_int_equal(must_fail(a, "admin", "{'moveCollection':'shop.compound','toShard':'sh3'}"), 26); // it is sharded
  assert_int_equal(must_fail(a, "admin", "{'movePrimary':'shop','to':'sh2'}"), 115);
}

static void zones(void **state) {
  must(a, "admin", "{'addShardToZone':'sh2','zone':'north'}");
  must(a, "admin", "{'updateZoneKeyRange':'shop.compound','min':{'g':0,'k':0},'max':{'g':2,'k':0},'zone':'north'}");
  assert_int_equal(count_documents(b, "config", "tags", "{\"ns\":\"shop.compound\",\"tag\":\"north\"}"), 1);
  assert_int_equal(
      must_fail(a, "admin",
                "{'updateZoneKeyRange':'shop.compound','min':{'g':1,'k':0},'max':{'g':3,'k':0},'zone':'north'}"),
      178);                                                                                     // overlaps
  assert_int_equal(must_fail(a, "admin", "{'removeShardFromZone':'sh2','zone':'north'}"), 163); // its last shard
  must(a, "admin", "{'updateZoneKeyRange':'shop.compound','min':{'g':0,'k':0},'max':{'g':2,'k':0},'zone':null}");
  must(a, "admin", "{'removeShardFromZone':'sh2','zone':'north'}");
  assert_int_equal(count_documents(b, "config", "tags", "{}"), 0);
}

static void a_database_dropped(void **state) {
  must(a, "admin", "{'enableSharding':'gone','primaryShard':'sh2'}");
  must(a, "admin", "{'shardCollection':'gone.h','key':{'k':'hashed'}}");
  for (int i = 0; i < 10; i++) must(b, "gone", "{'insert':'h','documents':[{'k':%d}]}", i);
  must(b, "gone", "{'insert':'plain','documents':[{'k':1}]}");
  must(a, "gone", "{'dropDatabase':1}");
  assert_int_equal(count_documents(b, "gone", "h", "{}"), 0);
  assert_int_equal(count_documents(b, "gone", "plain", "{}"), 0);
  assert_int_equal(count_documents(a, "config", "databases", "{\"_id\":\"gone\"}"), 0);
  assert_int_equal(count_documents(a, "config", "collections", "{\"_id\":{\"$regex\":\"^gone\\\\.\"}}"), 0);
  must(b, "gone", "{'insert':'h','documents':[{'k':1}]}"); // the second router makes it anew
  assert_int_equal(count_documents(a, "gone", "h", "{}"), 1);
  must(b, "gone", "{'dropDatabase':1}");
}

// removeShard: started, ongoing while the balancer empties it, completed; what it had is elsewhere then.
static void a_shard_drains_to_its_end(void **state) {
  must(config, "admin", "{'setParameter':1,'balancerRoundIntervalMs':100}");
  must(config, "admin", "{'setParameter':1,'balancerMigrationsThrottlingMs':0}");
  int64_t compound = documents(a, "compound"), mixed = documents(a, "mixed"), moved = documents(a, "moved");
  assert_true(chunks("shop.compound", "sh3") > 0);
  must(a, "admin", "{'removeShard':'sh3'}");
  assert_int_equal(must_fail(a, "admin", "{'removeShard':'nosuch'}"), 70);
  must(a, "admin", "{'balancerStart':1}");
  bool completed = false;
  for (int64_t begun = now_ms(); !completed; wait_ms(200)) {
    bson_t reply;
    bson_iter_t it;
    assert_true(command(a, "admin", &reply, "{'removeShard':'sh3'}"));
    assert_true(bson_iter_init_find(&it, &reply, "state"));
    completed = strcmp(bson_iter_utf8(&it, NULL), "completed") == 0;
    // A collection that is not sharded stands in the way until somebody moves it.
    if (!completed && chunks("shop.moved", "sh3") > 0)
      must(a, "admin", "{'moveCollection':'shop.moved','toShard':'sh1'}");
    if (!completed && now_ms() > begun + DRAIN_TIMEOUT_MS) {
      fail_msg("sh3 is not empty: %s", bson_as_relaxed_extended_json(&reply, NULL));
    }
    bson_destroy(&reply);
  }
  assert_int_equal(count_documents(a, "config", "shards", "{}"), 2);
  assert_int_equal(documents(b, "compound"), compound);
  assert_int_equal(documents(b, "mixed"), mixed);
  assert_int_equal(documents(b, "moved"), moved);
  assert_int_equal(must_fail(b, "admin", "{'moveChunk':'shop.compound','find':{'g':0,'k':0},'to':'sh3'}"), 70);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(created_and_dropped),
      cmocka_unit_test(sharded_while_empty),
      cmocka_unit_test(sharded_with_data),
      cmocka_unit_test(unique_keys),
      cmocka_unit_test(split_moved_merged),
      cmocka_unit_test(dropped_and_made_again_behind_a_routers_back),
      cmocka_unit_test(indexes_on_every_shard),
      cmocka_unit_test(renamed),
      cmocka_unit_test(an_unsharded_collection_moves),
      cmocka_unit_test(zones),
      cmocka_unit_test(a_database_dropped),
      cmocka_unit_test(a_shard_drains_to_its_end),
  };
  return cmocka_run_group_tests_name("integration/ddl", tests, set_up, tear_down);
}
