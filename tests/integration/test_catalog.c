// The config server's commands on a config server alone: versions of splits, merges and moves, what is refused, what
// may be repeated, and that the balancer's switches work. The shards are rows that nobody answers for.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/integration/harness.h"

static char folder[256];
static struct process config;
static mongoc_client_t *client;

static const char uuid[] = "{'$binary':{'base64':'AAECAwQFRgeICQoLDA0ODw==','subType':'04'}}";
static char epoch[64], db_version[256], timestamp[64];

static const char admin[] = "admin";

static char *json_at(const bson_t *doc, const char *path) { // a field's value as extended JSON
  bson_iter_t it, at;
  assert_true(bson_iter_init(&it, doc) && bson_iter_find_descendant(&it, path, &at));
  bson_t one = BSON_INITIALIZER;
  bson_append_iter(&one, "v", 1, &at);
  char *text = bson_as_canonical_extended_json(&one, NULL), *value = strdup(strchr(text, ':') + 1);
  value[strlen(value) - 2] = '\0'; // the closing " }"
  bson_free(text);
  bson_destroy(&one);
  return value;
}

static void read_back(char *to, size_t size, const char *collection, const char *id, const char *path) {
  bson_t reply;
  assert_true(command(client, "config", &reply, "{'find':'%s','filter':{'_id':'%s'},'limit':1}", collection, id));
  char full[64];
  (void)snprintf(full, sizeof full, "cursor.firstBatch.0.%s", path);
  char *value = json_at(&reply, full);
  (void)snprintf(to, size, "%s", value);
  free(value);
  bson_destroy(&reply);
}

// "sh1 1|1 -inf..100, sh2 2|0 100..inf": the chunks in key order.
static const char *layout(void) {
  static char text[2048];
  bson_t reply;
  text[0] = '\0';
  assert_true(command(client, "config", &reply, "{'find':'chunks','filter':{'uuid':%s},'sort':{'min':1}}", uuid));
  bson_iter_t it, batch, doc, at;
  assert_true(bson_iter_init(&it, &reply) && bson_iter_find_descendant(&it, "cursor.firstBatch", &batch));
  assert_true(bson_iter_recurse(&batch, &doc));
  while (bson_iter_next(&doc)) {
    char bounds[2][16];
    static const char *const ends[] = {"min.k", "max.k"};
    bson_iter_t field;
    for (int i = 0; i < 2; i++) {
      assert_true(bson_iter_recurse(&doc, &field) && bson_iter_find_descendant(&field, ends[i], &at));
      (void)snprintf(bounds[i], sizeof bounds[i], "%d",
                     bson_iter_type(&at) == BSON_TYPE_INT32 ? bson_iter_int32(&at) : -1);
    }
    uint32_t major, minor;
    assert_true(bson_iter_recurse(&doc, &field) && bson_iter_find(&field, "lastmod"));
    bson_iter_timestamp(&field, &major, &minor);
    assert_true(bson_iter_recurse(&doc, &field) && bson_iter_find(&field, "shard"));
    size_t n = strlen(text);
    (void)snprintf(text + n, sizeof text - n, "%s%s %u|%u %s..%s", n ? ", " : "", bson_iter_utf8(&field, NULL), major,
                   minor, bounds[0], bounds[1]);
  }
  bson_destroy(&reply);
  return text;
}

static int start(void **state) {
  folder_make(folder);
  member_start(&config, folder, "configsvr", "cfg", "--setParameter balancerRoundIntervalMs=50");
  client = client_of(&config);
  must(client, "config",
       "{'insert':'shards','documents':[{'_id':'sh1','host':'sh1/"
       "127.0.0.1:1','state':1,'topologyTime':{'$timestamp':{'t':1,'i':1}}},"
       "{'_id':'sh2','host':'sh2/127.0.0.1:2','state':1,'topologyTime':{'$timestamp':{'t':1,'i':2}}}]}");
  must(client, admin, "{'_configsvrBalancerStop':1}");
  // The new primary shard does not answer: the command waits for it a while, and is done all the same.
  must(client, admin, "{'_configsvrCreateDatabase':'shop','primaryShardId':'sh1','maxTimeMS':1500}");
  read_back(db_version, sizeof db_version, "databases", "shop", "version");
  must(client, admin,
       "{'_configsvrCommitCreateCollection':'shop.orders','uuid':%s,'key':{'k':1},'unique':false,'dbVersion':%s,"
       "'chunks':[{'min':{'k':{'$minKey':1}},'max':{'k':{'$maxKey':1}},'shard':'sh1'}]}",
       uuid, db_version);
  read_back(epoch, sizeof epoch, "collections", "shop.orders", "lastmodEpoch");
  read_back(timestamp, sizeof timestamp, "collections", "shop.orders", "timestamp");
  return 0;
}

static int stop(void **state) {
  mongoc_client_destroy(client);
  int status = process_end(&config, SIGTERM);
  folder_remove(folder);
  return status;
}

static void databases(void **state) {
  must(client, admin, "{'_configsvrCreateDatabase':'shop'}"); // there already
  assert_int_equal(must_fail(client, admin, "{'_configsvrCreateDatabase':'shop','primaryShardId':'sh2'}"), 48);
  assert_int_equal(must_fail(client, admin, "{'_configsvrCreateDatabase':'Shop','primaryShardId':'sh1'}"), 13297);
  assert_int_equal(must_fail(client, admin, "{'_configsvrCreateDatabase':'admin'}"), 72);
  assert_int_equal(must_fail(client, admin, "{'_configsvrCreateDatabase':'a.b'}"), 73);
  assert_int_equal(must_fail(client, admin, "{'_configsvrCreateDatabase':'x','primaryShardId':'nosuch'}"), 70);
}

static void creating_again(void **state) {
  static const char fmt[] =
      "{'_configsvrCommitCreateCollection':'shop.orders','uuid':%s,'key':{'%s':1},'unique':false,'dbVersion':%s,"
      "'chunks':[{'min':{'%s':{'$minKey':1}},'max':{'%s':{'$maxKey':1}},'shard':'sh1'}]}";
  must(client, admin, fmt, uuid, "k", db_version, "k", "k");
  assert_int_equal(must_fail(client, admin, fmt, uuid, "other", db_version, "other", "other"), 23);
  assert_int_equal(
      must_fail(
          client, admin,
          "{'_configsvrCommitCreateCollection':'shop.x','uuid':%s,'key':{'k':1},'chunks':[{'min':{'k':{'$minKey':1}},"
          "'max':{'k':5},'shard':'sh1'}]}",
          uuid),
      2);
}

static void split(void **state) {
  static const char fmt[] = "{'_configsvrCommitChunkSplit':'shop.orders','collEpoch':%s,'min':{'k':%s},'max':{'k':%s},"
                            "'splitPoints':[%s],'shard':'%s'}";
  static const char low[] = "{'$minKey':1}", high[] = "{'$maxKey':1}";
  must(client, admin, fmt, epoch, low, high, "{'k':100}", "sh1");
  must(client, admin, fmt, epoch, low, high, "{'k':100}", "sh1"); // repeated
  must(client, admin, fmt, epoch, "100", high, "{'k':200},{'k':300}", "sh1");
  assert_string_equal(layout(), "sh1 1|1 -1..100, sh1 1|3 100..200, sh1 1|4 200..300, sh1 1|5 300..-1");
  assert_int_equal(must_fail(client, admin, fmt, epoch, "100", "200", "{'k':200}", "sh1"), 72);
  assert_int_equal(must_fail(client, admin, fmt, epoch, "100", "200", "{'k':100}", "sh1"), 72);
  assert_int_equal(must_fail(client, admin, fmt, epoch, "100", "200", "{'k':160},{'k':150}", "sh1"), 72);
  assert_int_equal(must_fail(client, admin, fmt, epoch, "100", "190", "{'k':150}", "sh1"), 2);
  assert_int_equal(must_fail(client, admin, fmt, epoch, "100", "200", "{'k':150}", "sh2"), 20);
  assert_int_equal(
      must_fail(client, admin, fmt, "{'$oid':'507f1f77bcf86cd799439011'}", "100", "200", "{'k':150}", "sh1"), 150);
}

static const char move_fmt[] =
    "{'_configsvrCommitChunkMigration':'shop.orders','fromShard':'%s','toShard':'%s','migratedChunk':{'lastmod':{'e':%"
    "s,'t':%s,"
    "'v':{'$timestamp':{'t':%d,'i':%d}}},'min':{'k':%d},'max':{'k':%d}},'fromShardCollectionVersion':{'e':%s,'t':%s,"
    "'v':{'$timestamp':{'t':1,'i':5}}}}";

static void move(void **state) {
  must(client, admin, move_fmt, "sh1", "sh2", epoch, timestamp, 1, 3, 120, 150, epoch, timestamp);
  static const char after[] =
      "sh1 2|3 -1..100, sh1 2|1 100..120, sh2 2|0 120..150, sh1 2|2 150..200, sh1 1|4 200..300, sh1 1|5 300..-1";
  assert_string_equal(layout(), after);
  must(client, admin, move_fmt, "sh1", "sh2", epoch, timestamp, 1, 3, 120, 150, epoch, timestamp); // repeated
  assert_string_equal(layout(), after);
  // An older view of the chunk, the wrong donor, an unknown recipient.
  assert_int_equal(must_fail(client, admin, move_fmt, "sh1", "sh2", epoch, timestamp, 1, 3, 200, 300, epoch, timestamp),
                   117);
  assert_int_equal(must_fail(client, admin, move_fmt, "sh9", "sh2", epoch, timestamp, 9, 9, 200, 300, epoch, timestamp),
                   4914702);
  assert_int_equal(must_fail(client, admin, move_fmt, "sh1", "sh9", epoch, timestamp, 9, 9, 200, 300, epoch, timestamp),
                   70);
}

// A donor that recovers: what it began can no longer be committed.
static void raising_a_version_stops_older_commits(void **state) {
  static const char fmt[] =
      "{'_configsvrEnsureChunkVersionIsGreaterThan':1,'nss':'shop.orders','collectionUUID':%s,'minKey':{'k':210},"
      "'maxKey':{'k':250},'version':{'e':%s,'t':%s,'v':{'$timestamp':{'t':1,'i':4}}}}";
  must(client, admin, fmt, uuid, epoch, timestamp);
  must(client, admin, fmt, uuid, epoch, timestamp); // newer already
  assert_string_equal(
      layout(),
      "sh1 2|3 -1..100, sh1 2|1 100..120, sh2 2|0 120..150, sh1 2|2 150..200, sh1 3|0 200..300, sh1 1|5 300..-1");
  assert_int_equal(must_fail(client, admin, move_fmt, "sh1", "sh2", epoch, timestamp, 1, 4, 210, 250, epoch, timestamp),
                   117);
}

static void merge(void **state) {
  static const char fmt[] = "{'_configsvrCommitChunksMerge':'shop.orders','shard':'sh1','collUUID':%s,"
                            "'chunkRange':{'min':{'k':%d},'max':{'k':%d}}}";
  assert_int_equal(must_fail(client, admin, fmt, uuid, 100, 200), 20);
  must(client, admin, fmt, uuid, 150, 300);
  must(client, admin, fmt, uuid, 150, 300); // one chunk already
  assert_string_equal(layout(),
                      "sh1 2|3 -1..100, sh1 2|1 100..120, sh2 2|0 120..150, sh1 3|1 150..300, sh1 1|5 300..-1");
}

static void switches_of_a_collection(void **state) {
  must(client, admin, "{'_configsvrSetAllowMigrations':'shop.orders','allowMigrations':false}");
  assert_int_equal(must_fail(client, admin, move_fmt, "sh1", "sh2", epoch, timestamp, 9, 9, 150, 300, epoch, timestamp),
                   117);
  must(client, admin, "{'_configsvrSetAllowMigrations':'shop.orders','allowMigrations':true}");
  must(client, admin, "{'_configsvrConfigureCollectionBalancing':'shop.orders','chunkSize':2}");
  assert_int_equal(
      must_fail(client, admin, "{'_configsvrConfigureCollectionBalancing':'shop.orders','chunkSize':2000}"), 72);
  assert_int_equal(must_fail(client, admin, "{'_configsvrConfigureCollectionBalancing':'shop.nosuch','chunkSize':2}"),
                   118);
  assert_int_equal(
      count_documents(
          client, "config", "collections",
          "{\"_id\":\"shop.orders\",\"maxChunkSizeBytes\":2097152,\"permitMigrations\":{\"$exists\":false}}"),
      1);
  assert_non_null(strstr(layout(), "sh1 3|4 150..300"));
}

static void zones(void **state) {
  static const char fmt[] =
      "{'_configsvrUpdateZoneKeyRange':'shop.orders','min':{'%s':%d},'max':{'%s':%d},'zone':'%s'}";
  must(client, admin, "{'_configsvrAddShardToZone':'sh1','zone':'east'}");
  assert_int_equal(must_fail(client, admin, "{'_configsvrAddShardToZone':'sh9','zone':'east'}"), 70);
  must(client, admin, fmt, "k", 0, "k", 50, "east");
  must(client, admin, fmt, "k", 0, "k", 50, "east");
  assert_int_equal(must_fail(client, admin, fmt, "k", 40, "k", 60, "east"), 178);
  assert_int_equal(must_fail(client, admin, fmt, "k", 60, "k", 70, "west"), 177);
  assert_int_equal(must_fail(client, admin, fmt, "x", 60, "x", 70, "east"), 61);
  assert_int_equal(must_fail(client, admin, fmt, "k", 70, "k", 60, "east"), 9);
  assert_int_equal(must_fail(client, admin, "{'_configsvrRemoveShardFromZone':'sh1','zone':'east'}"), 163);
  must(client, admin, "{'_configsvrUpdateZoneKeyRange':'shop.orders','min':{'k':0},'max':{'k':50},'zone':null}");
  must(client, admin, "{'_configsvrRemoveShardFromZone':'sh1','zone':'east'}");
}

static void settings(void **state) {
  static const char fmt[] =
      "{'update':'settings','updates':[{'q':{'_id':'chunksize'},'u':{'$set':{'value':%d}},'upsert':true}]}";
  bson_t reply;
  must(client, "config", fmt, 1);
  assert_true(command(client, "config", &reply, fmt, 5000));
  assert_int_equal(reply_i64(&reply, "writeErrors.0.code"), 121);
  bson_destroy(&reply);
  must(client, admin, "{'_configsvrBalancerStart':1}");
  assert_true(command(client, "admin", &reply, "{'_configsvrBalancerStatus':1}"));
  assert_int_equal(reply_i64(&reply, "term") > 0, 1);
  bson_destroy(&reply);
  // A round that waits for a shard which is down must not keep the stop waiting.
  wait_ms(200);
  int64_t began = now_ms();
  must(client, admin, "{'_configsvrBalancerStop':1}");
  assert_true(now_ms() - began < 5000);
  assert_int_equal(
      count_documents(client, "config", "settings", "{\"_id\":\"balancer\",\"mode\":\"off\",\"stopped\":true}"), 1);
  assert_int_equal(must_fail(client, admin, "{'_configsvrBalancerCollectionStatus':'shop.nosuch'}"), 118);
}

static void removing_a_shard(void **state) {
  must(client, admin, "{'_configsvrRemoveShard':'sh2'}");
  bson_t reply;
  assert_true(command(client, "admin", &reply, "{'_configsvrRemoveShard':'sh2'}"));
  assert_int_equal(reply_i64(&reply, "remaining.chunks"), 1);
  bson_destroy(&reply);
  assert_int_equal(must_fail(client, admin, "{'_configsvrRemoveShard':'sh1'}"), 20);
  assert_int_equal(must_fail(client, admin, "{'_configsvrRemoveShard':'sh7'}"), 70);
  assert_int_equal(must_fail(client, admin, move_fmt, "sh1", "sh2", epoch, timestamp, 9, 9, 150, 300, epoch, timestamp),
                   70);
  assert_int_equal(must_fail(client, admin, "{'_configsvrAddShard':'cfg/127.0.0.1:%d'}", config.port), 96);
  assert_int_equal(must_fail(client, admin, "{'_configsvrAddShard':'nonsense'}"), 2);
}

// What was committed is there after a kill, and the balancer runs again in the new term.
static void survives_a_kill(void **state) {
  char before[2048];
  (void)snprintf(before, sizeof before, "%s", layout());
  process_end(&config, SIGKILL);
  process_start(&config);
  mongoc_client_destroy(client);
  client = client_of(&config);
  assert_string_equal(layout(), before);
  must(client, admin, "{'_configsvrBalancerStop':1}");
}

static void drop(void **state) {
  static const char fmt[] = "{'_configsvrCommitDropCollection':'shop.orders','uuid':%s}";
  must(client, admin, fmt, uuid);
  must(client, admin, fmt, uuid);
  assert_int_equal(
      count_documents(client, "config", "chunks", "{}") + count_documents(client, "config", "collections", "{}"), 0);
  must(client, admin, "{'_configsvrCommitDropDatabase':'shop','version':%s}", db_version);
  must(client, admin, "{'_configsvrCommitDropDatabase':'shop','version':%s}", db_version);
  assert_int_equal(count_documents(client, "config", "databases", "{}"), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(databases),
      cmocka_unit_test(creating_again),
      cmocka_unit_test(split),
      cmocka_unit_test(move),
      cmocka_unit_test(raising_a_version_stops_older_commits),
      cmocka_unit_test(merge),
      cmocka_unit_test(switches_of_a_collection),
      cmocka_unit_test(zones),
      cmocka_unit_test(settings),
      cmocka_unit_test(removing_a_shard),
      cmocka_unit_test(survives_a_kill),
      cmocka_unit_test(drop),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
