// A router over two shards: merging, cursors, batches, writes that do not name the shard key, stale routers, refusals.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/integration/harness.h"

static struct cluster the_cluster;
static mongoc_client_t *a, *b; // clients of the two routers

enum { DOCUMENTS = 400, MIDDLE = 200 };

// shop.c on {k: 1}: k below MIDDLE on one shard, the others on the other; k 0..399, g = k mod 10.
static int set_up(void **state) {
  cluster_start(&the_cluster, 2, 2, "");
  a = client_of(&the_cluster.routers[0]);
  b = client_of(&the_cluster.routers[1]);
  must(a, "admin", "{'balancerStop':1}");
  must(a, "admin", "{'enableSharding':'shop','primaryShard':'sh1'}");
  must(a, "admin", "{'shardCollection':'shop.c','key':{'k':1}}");
  must(a, "admin", "{'split':'shop.c','middle':{'k':%d}}", MIDDLE);
  must(a, "admin", "{'moveChunk':'shop.c','find':{'k':%d},'to':'sh2'}", MIDDLE);
  for (int i = 0; i < DOCUMENTS; i++) {
    must(a, "shop", "{'insert':'c','documents':[{'_id':%d,'k':%d,'g':%d,'tags':['x',%d]}]}", i, i, i % 10, i);
  }
  return 0;
}

static int tear_down(void **state) {
  mongoc_client_destroy(a);
  mongoc_client_destroy(b);
  cluster_stop(&the_cluster);
  return 0;
}

static int64_t number(mongoc_client_t *c, const char *path, const char *db, const char *json) {
  bson_t reply;
  assert_true(command(c, db, &reply, "%s", json));
  int64_t n = reply_i64(&reply, path);
  bson_destroy(&reply);
  return n;
}

static void sorted_streams_are_merged(void **state) {
  mongoc_collection_t *c = mongoc_client_get_collection(a, "shop", "c");
  bson_t *filter = bson_new(),
         *options = bson_new_from_json(
             (const uint8_t *)"{\"sort\":{\"g\":1,\"k\":-1},\"projection\":{\"k\":1,\"_id\":0},\"batchSize\":7}", -1,
             NULL);
  mongoc_cursor_t *cursor = mongoc_collection_find_with_opts(c, filter, options, NULL);
  const bson_t *doc;
  int n = 0, last = DOCUMENTS * 10;
  while (mongoc_cursor_next(cursor, &doc)) {
    int k = (int)reply_i64(doc, "k");
    assert_true(k % 10 > last % 10 || k < last || n == 0);
    assert_int_equal(bson_count_keys(doc), 1); // the shards' $sortKey does not show
    last = k;
    n++;
  }
  assert_int_equal(n, DOCUMENTS);
  mongoc_cursor_destroy(cursor);
  bson_destroy(filter);
  bson_destroy(options);
  mongoc_collection_destroy(c);
}

static void skip_and_limit_count_over_all_shards(void **state) {
  assert_int_equal(number(a, "cursor.firstBatch.0.k", "shop", "{'find':'c','sort':{'k':1},'skip':198,'limit':4}"), 198);
  assert_int_equal(number(a, "cursor.firstBatch.3.k", "shop", "{'find':'c','sort':{'k':1},'skip':198,'limit':4}"), 201);
  assert_int_equal(number(a, "n", "shop", "{'count':'c','query':{},'skip':10,'limit':50}"), 50);
  assert_int_equal(number(a, "values.9", "shop", "{'distinct':'c','key':'g'}"), 9);
  assert_int_equal(number(a, "cursor.firstBatch.0.n", "shop",
                          "{'aggregate':'c','cursor':{},'pipeline':[{'$group':{'_id':'$g','n':{'$sum':1}}},"
                          "{'$sort':{'_id':-1}},{'$limit':1}]}"),
                   DOCUMENTS / 10);
}

static void cursors_belong_to_no_connection(void **state) {
  int64_t id = number(a, "cursor.id", "shop", "{'find':'c','batchSize':2}");
  assert_true(id != 0);
  mongoc_client_t *other = client_of(&the_cluster.routers[0]);
  must(other, "shop", "{'getMore':{'$numberLong':'%lld'},'collection':'c','batchSize':3}", (long long)id);
  assert_int_equal(must_fail(other, "shop", "{'getMore':{'$numberLong':'%lld'},'collection':'d'}", (long long)id), 13);
  must(other, "shop", "{'killCursors':'c','cursors':[{'$numberLong':'%lld'}]}", (long long)id);
  assert_int_equal(must_fail(other, "shop", "{'getMore':{'$numberLong':'%lld'},'collection':'c'}", (long long)id), 43);
  mongoc_client_destroy(other);
}

static void writes_without_the_key_change_one_document(void **state) {
  assert_int_equal(number(a, "nModified", "shop", "{'update':'c','updates':[{'q':{'g':3},'u':{'$set':{'one':1}}}]}"),
                   1);
  assert_int_equal(count_documents(a, "shop", "c", "{\"one\":1}"), 1);
  assert_int_equal(
      number(a, "nModified", "shop", "{'update':'c','updates':[{'q':{'g':3},'u':{'$set':{'all':1}},'multi':true}]}"),
      40);
  assert_int_equal(number(a, "nModified", "shop", "{'update':'c','updates':[{'q':{'_id':250},'u':{'$set':{'id':1}}}]}"),
                   1);
  assert_int_equal(number(a, "upserted.0.index", "shop",
                          "{'update':'c','updates':[{'q':{'name':'new'},'u':{'$set':{'k':900}},'upsert':true}]}"),
                   0);
  assert_int_equal(number(a, "value.k", "shop",
                          "{'findAndModify':'c','query':{'g':{'$gte':0}},'sort':{'k':-1},'update':{'$set':{'f':1}}}"),
                   DOCUMENTS - 1);
  assert_int_equal(number(a, "n", "shop", "{'delete':'c','deletes':[{'q':{'name':'new'},'limit':1}]}"), 1);
  assert_int_equal(must_fail(a, "shop",
                             "{'update':'c','updates':[{'q':{'zz':1},'u':{'$set':{'a':1}},'multi':true,"
                             "'upsert':true}]}"),
                   61);
}

static void batches_report_the_clients_numbers(void **state) {
  const char *documents =
      "[{'_id':'n1','k':1},{'_id':0,'k':0},{'_id':'n2','k':300},{'_id':399,'k':399},{'_id':'n3','k':2}]";
  bson_t reply;
  assert_true(command(a, "shop", &reply, "{'insert':'c','ordered':true,'documents':%s}", documents));
  assert_int_equal(reply_i64(&reply, "n"), 1);
  assert_int_equal(reply_i64(&reply, "writeErrors.0.index"), 1);
  assert_int_equal(reply_i64(&reply, "writeErrors.1.index"), -1);
  bson_destroy(&reply);
  must(a, "shop", "{'delete':'c','deletes':[{'q':{'_id':'n1'},'limit':1}]}");
  assert_true(command(a, "shop", &reply, "{'insert':'c','ordered':false,'documents':%s}", documents));
  assert_int_equal(reply_i64(&reply, "n"), 3);
  assert_int_equal(reply_i64(&reply, "writeErrors.0.index"), 1);
  assert_int_equal(reply_i64(&reply, "writeErrors.1.index"), 3);
  assert_int_equal(reply_i64(&reply, "writeErrors.1.code"), 11000);
  bson_destroy(&reply);
  must(a, "shop", "{'delete':'c','deletes':[{'q':{'_id':{'$in':['n1','n2','n3']}},'limit':0}]}");
}

// Rows come in the order of the statements: a driver takes what stands before the first error as done.
static void bulk_write_rows_are_in_order(void **state) {
  bson_t reply;
  assert_true(command(a, "admin", &reply,
                      "{'bulkWrite':1,'nsInfo':[{'ns':'shop.c'}],'ops':[{'insert':0,'document':{'_id':'b1','k':1}},"
                      "{'insert':0,'document':{'_id':0,'k':0}}]}"));
  assert_int_equal(reply_i64(&reply, "cursor.firstBatch.0.idx"), 0);
  assert_int_equal(reply_i64(&reply, "cursor.firstBatch.0.ok"), 1);
  assert_int_equal(reply_i64(&reply, "cursor.firstBatch.1.idx"), 1);
  assert_int_equal(reply_i64(&reply, "cursor.firstBatch.1.code"), 11000);
  bson_destroy(&reply);
  must(a, "shop", "{'delete':'c','deletes':[{'q':{'_id':'b1'},'limit':1}]}");
}

static void bulk_write_ignores_no_field(void **state) {
  must(a, "admin",
       "{'bulkWrite':1,'nsInfo':[{'ns':'shop.c'}],'ops':[{'update':0,'filter':{'k':{'$gte':100}},'sort':{'k':-1},"
       "'updateMods':{'$set':{'last':1}}}]}");
  assert_int_equal(count_documents(a, "shop", "c", "{\"last\":1,\"k\":399}"), 1);
  assert_int_equal(count_documents(a, "shop", "c", "{\"last\":1}"), 1);
  assert_int_equal(
      must_fail(a, "admin", "{'bulkWrite':1,'nsInfo':[{'ns':'shop.c'}],'ops':[{'delete':0,'filter':{},'limit':1}]}"),
      40415);
}

static void a_stale_router_is_still_right(void **state) {
  assert_int_equal(count_documents(b, "shop", "c", "{}"), DOCUMENTS);
  must(a, "admin", "{'split':'shop.c','middle':{'k':50}}");
  must(a, "admin", "{'moveChunk':'shop.c','find':{'k':0},'to':'sh2'}");
  assert_int_equal(number(b, "nModified", "shop", "{'update':'c','updates':[{'q':{'k':10},'u':{'$inc':{'z':1}}}]}"), 1);
  assert_int_equal(count_documents(b, "shop", "c", "{}"), DOCUMENTS);
  must(b, "shop", "{'insert':'plain','documents':[{'_id':1}]}");
  must(a, "shop", "{'drop':'plain'}");
  must(a, "admin", "{'shardCollection':'shop.plain','key':{'k':1}}");
  must(b, "shop", "{'insert':'plain','documents':[{'_id':2,'k':5}]}");
  assert_int_equal(count_documents(b, "shop", "plain", "{}"), 1);
}

static void what_is_not_there_is_refused_by_name(void **state) {
  assert_int_equal(must_fail(a, "admin", "{'reshardCollection':'shop.c','key':{'g':1}}"), 115);
  assert_int_equal(must_fail(a, "shop", "{'aggregate':'c','cursor':{},'pipeline':[{'$out':'d'}]}"), 115);
  assert_int_equal(must_fail(a, "shop", "{'aggregate':'c','cursor':{},'pipeline':[{'$nosuch':1}]}"), 40324);
  assert_int_equal(must_fail(a, "local", "{'find':'startup_log'}"), 73);
  assert_int_equal(must_fail(a, "shop", "{'listShards':1}"), 13);
  assert_int_equal(must_fail(a, "admin", "{'moveChunk':'shop.c','find':{'k':1},'to':'nosuch'}"), 70);
  assert_int_equal(must_fail(a, "admin", "{'nosuch':1}"), 59);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sorted_streams_are_merged),
      cmocka_unit_test(skip_and_limit_count_over_all_shards),
      cmocka_unit_test(cursors_belong_to_no_connection),
      cmocka_unit_test(writes_without_the_key_change_one_document),
      cmocka_unit_test(batches_report_the_clients_numbers),
      cmocka_unit_test(bulk_write_rows_are_in_order),
      cmocka_unit_test(bulk_write_ignores_no_field),
      cmocka_unit_test(a_stale_router_is_still_right),
      cmocka_unit_test(what_is_not_there_is_refused_by_name),
  };
  return cmocka_run_group_tests_name("integration/router", tests, set_up, tear_down);
}
