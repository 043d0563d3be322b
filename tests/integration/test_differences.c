// What the README lists under "Known differences" as refused: each answers with its code, and an error that names it.
//
// A line here without a line there is a mistake, and the other way round.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/integration/harness.h"

static struct cluster the_cluster;
static mongoc_client_t *router, *shard;

#define SESSION "{'id':{'$binary':{'base64':'AAAAAAAAAAAAAAAAAAAAAA==','subType':'04'}}}"

struct refusal {
  const char *db;
  const char *command; // JSON with single quotes
  int code;
  const char *named; // what the message must contain
};

// shop.c: {k: 1} over both shards, documents k = 1 and k = 100; shop.plain: not sharded.
static int set_up(void **state) {
  cluster_start(&the_cluster, 2, 1, "");
  router = client_of(&the_cluster.routers[0]);
  shard = client_of(&the_cluster.shards[0]);
  must(router, "admin", "{'balancerStop':1}");
  must(router, "admin", "{'enableSharding':'shop','primaryShard':'sh1'}");
  must(router, "admin", "{'shardCollection':'shop.c','key':{'k':1}}");
  must(router, "admin", "{'split':'shop.c','middle':{'k':50}}");
  must(router, "admin", "{'moveChunk':'shop.c','find':{'k':100},'to':'sh2'}");
  must(router, "shop", "{'insert':'c','documents':[{'_id':1,'k':1,'a':[1,2]},{'_id':2,'k':100,'a':[3]}]}");
  must(router, "shop", "{'insert':'plain','documents':[{'_id':1,'k':1}]}");
  return 0;
}

static int tear_down(void **state) {
  mongoc_client_destroy(router);
  mongoc_client_destroy(shard);
  cluster_stop(&the_cluster);
  return 0;
}

// Asserts the code, and the name in the message, of the whole command or of its first statement.
static void refused(mongoc_client_t *client, const struct refusal *r) {
  bson_t reply;
  bool ok = command(client, r->db, &reply, "%s", r->command);
  const char *statement = "writeErrors.0.code";
  int64_t code = reply_i64(&reply, ok ? statement : "code");
  char *text = bson_as_relaxed_extended_json(&reply, NULL);
  if (code != r->code || strstr(text, r->named) == NULL) {
    print_error("%s\n  must be refused with %d, naming %s, but:\n  %s\n", r->command, r->code, r->named, text);
    fail();
  }
  bson_free(text);
  bson_destroy(&reply);
}

static void all_refused(mongoc_client_t *client, const struct refusal *table, size_t n) {
  for (size_t i = 0; i < n; i++) refused(client, &table[i]);
}

static void whole_features(void **state) {
  static const struct refusal table[] = {
      {"shop",
       "{'insert':'plain','documents':[{'_id':9}],'lsid':" SESSION
       ",'txnNumber':{'$numberLong':'1'},'autocommit':false,'startTransaction':true}",
       263, "ransaction"},
      {"shop", "{'aggregate':'c','pipeline':[{'$changeStream':{}}],'cursor':{}}", 115, "$changeStream"},
      {"shop", "{'find':'c','readConcern':{'level':'snapshot'}}", 72, "snapshot"},
      {"shop", "{'find':'c','filter':{},'collation':{'locale':'de'}}", 115, "collation"},
      {"admin", "{'saslStart':1,'mechanism':'SCRAM-SHA-256','payload':''}", 59, "saslStart"},
      {"admin", "{'createUser':'u','pwd':'p','roles':[]}", 59, "createUser"},
  };
  all_refused(router, table, sizeof table / sizeof *table);
}

static void stages(void **state) {
  static const char *const names[] = {
      "$lookup",  "$graphLookup", "$unionWith",         "$setWindowFields", "$bucketAuto", "$redact",
      "$densify", "$fill",        "$geoNear",           "$search",          "$searchMeta", "$vectorSearch",
      "$out",     "$merge",       "$listSearchIndexes", "$planCacheStats",  "$queryStats",
  };
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char text[200];
    (void)snprintf(text, sizeof text, "{'aggregate':'c','pipeline':[{'%s':{}}],'cursor':{}}", names[i]);
    refused(router, &(struct refusal){"shop", text, 115, names[i]});
  }
}

static void filters_and_expressions(void **state) {
  static const struct refusal table[] = {
      {"shop", "{'find':'c','filter':{'$where':'true'}}", 115, "$where"},
      {"shop", "{'find':'c','filter':{'$text':{'$search':'x'}}}", 115, "$text"},
      {"shop", "{'find':'c','filter':{'$jsonSchema':{}}}", 115, "$jsonSchema"},
      {"shop", "{'find':'c','filter':{'a':{'$near':[0,0]}}}", 115, "$near"},
      {"shop", "{'find':'c','filter':{'a':{'$nearSphere':[0,0]}}}", 115, "$nearSphere"},
      {"shop", "{'find':'c','filter':{'a':{'$geoWithin':{'$center':[[0,0],1]}}}}", 115, "$geoWithin"},
      {"shop", "{'find':'c','filter':{'a':{'$geoIntersects':{}}}}", 115, "$geoIntersects"},
      {"shop", "{'find':'c','tailable':true}", 115, "tailable"},
      {"shop", "{'find':'c','returnKey':true}", 115, "returnKey"},
      {"shop", "{'find':'c','showRecordId':true}", 115, "showRecordId"},
      {"shop", "{'find':'c','min':{'_id':1},'hint':{'_id':1}}", 115, "min"},
      {"shop", "{'find':'c','max':{'_id':1},'hint':{'_id':1}}", 115, "max"},
      {"shop", "{'aggregate':'c','pipeline':[{'$project':{'x':{'$function':{}}}}],'cursor':{}}", 115, "$function"},
      {"shop", "{'aggregate':'c','pipeline':[{'$project':{'x':{'$dateFromString':{}}}}],'cursor':{}}", 115,
       "$dateFromString"},
      {"shop", "{'aggregate':'c','pipeline':[{'$project':{'x':{'$dateFromParts':{}}}}],'cursor':{}}", 115,
       "$dateFromParts"},
      {"shop", "{'aggregate':'c','pipeline':[{'$project':{'x':{'$bsonSize':'$$ROOT'}}}],'cursor':{}}", 115,
       "$bsonSize"},
      {"shop", "{'aggregate':'c','pipeline':[{'$project':{'x':{'$sin':1}}}],'cursor':{}}", 168, "$sin"},
      {"shop",
       "{'aggregate':'c','pipeline':[{'$project':{'x':{'$hour':{'date':{'$date':'2020-01-01T00:00:00Z'},"
       "'timezone':'Europe/Berlin'}}}}],'cursor':{}}",
       115, "Europe/Berlin"},
  };
  all_refused(router, table, sizeof table / sizeof *table);
  static const char *const accumulators[] = {"$top",  "$topN", "$bottom", "$bottomN",    "$firstN",     "$lastN",
                                             "$maxN", "$minN", "$median", "$percentile", "$accumulator"};
  for (size_t i = 0; i < sizeof accumulators / sizeof *accumulators; i++) {
    char text[200];
    (void)snprintf(text, sizeof text,
                   "{'aggregate':'c','pipeline':[{'$group':{'_id':null,'x':{'%s':{}}}}],'cursor':{}}", accumulators[i]);
    refused(router, &(struct refusal){"shop", text, 115, accumulators[i]});
  }
}

static void indexes_and_collections(void **state) {
  static const struct refusal table[] = {
      {"shop", "{'createIndexes':'plain','indexes':[{'key':{'t':'text'},'name':'t'}]}", 67, "text"},
      {"shop", "{'createIndexes':'plain','indexes':[{'key':{'t':'2d'},'name':'t'}]}", 67, "2d"},
      {"shop", "{'createIndexes':'plain','indexes':[{'key':{'t':'2dsphere'},'name':'t'}]}", 67, "2dsphere"},
      {"shop", "{'createIndexes':'plain','indexes':[{'key':{'$**':1},'name':'t'}]}", 67, "$**"},
      {"shop", "{'createIndexes':'plain','indexes':[{'key':{'t':1},'name':'t','expireAfterSeconds':1}]}", 67,
       "expireAfterSeconds"},
      {"shop", "{'create':'x','capped':true,'size':4096}", 115, "capped"},
      {"shop", "{'create':'x','viewOn':'c','pipeline':[]}", 115, "viewOn"},
      {"shop", "{'create':'x','timeseries':{'timeField':'t'}}", 115, "timeseries"},
      {"shop", "{'create':'x','validator':{'a':1}}", 115, "validator"},
      {"shop", "{'create':'x','clusteredIndex':{'key':{'_id':1},'unique':true}}", 115, "clusteredIndex"},
      {"shop", "{'convertToCapped':'plain','size':4096}", 115, "convertToCapped"},
      {"shop", "{'collMod':'plain','validator':{'a':1}}", 115, "validator"},
      {"shop", "{'collMod':'plain','index':{'name':'_id_','hidden':true}}", 115, "index"},
  };
  all_refused(router, table, sizeof table / sizeof *table);
}

static void sharding(void **state) {
  static const struct refusal table[] = {
      {"admin", "{'reshardCollection':'shop.c','key':{'g':1}}", 115, "reshardCollection"},
      {"admin", "{'unshardCollection':'shop.c'}", 115, "unshardCollection"},
      {"admin", "{'refineCollectionShardKey':'shop.c','key':{'k':1,'g':1}}", 115, "refineCollectionShardKey"},
      {"admin", "{'movePrimary':'shop','to':'sh2'}", 115, "movePrimary"},
      {"shop",
       "{'update':'c','updates':[{'q':{'k':1},'u':{'$set':{'k':200}}}],'lsid':" SESSION
       ",'txnNumber':{'$numberLong':'2'}}",
       115, "another shard"},
      {"shop",
       "{'findAndModify':'c','query':{'k':1},'update':{'$set':{'k':200}},'lsid':" SESSION
       ",'txnNumber':{'$numberLong':'3'}}",
       115, "another shard"},
  };
  all_refused(router, table, sizeof table / sizeof *table);
  assert_int_equal(count_documents(router, "shop", "c", "{\"k\":1}"), 1);
}

static void the_members(void **state) {
  static const struct refusal table[] = {
      {"admin", "{'replSetSyncFrom':'127.0.0.1:1'}", 115, "replSetSyncFrom"},
  };
  all_refused(shard, table, sizeof table / sizeof *table);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(whole_features),          cmocka_unit_test(stages),   cmocka_unit_test(filters_and_expressions),
      cmocka_unit_test(indexes_and_collections), cmocka_unit_test(sharding), cmocka_unit_test(the_members),
  };
  return cmocka_run_group_tests_name("integration/differences", tests, set_up, tear_down);
}
