// One shard's member alone, through libmongoc and raw messages: what CRUD commands answer, that statements of
// concurrent clients do not lose or double anything, retried writes, cursors, index builds under writes, and what a
// restart keeps.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/integration/harness.h"

enum { WRITERS = 8, ROUNDS = 25 };

static char folder[256];
static struct process member;
static mongoc_client_t *client;
static const char db[] = "crud";

static int start(void **state) {
  folder_make(folder);
  member_start(&member, folder, "shardd", "sh1", "");
  client = client_of(&member);
  return 0;
}

static int stop(void **state) {
  mongoc_client_destroy(client);
  assert_int_equal(process_end(&member, SIGTERM), 0);
  folder_remove(folder);
  return 0;
}

static int64_t answer(const char *path, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int64_t answer(const char *path, const char *fmt, ...) {
  char text[4096];
  va_list ap;
  va_start(ap, fmt);
  (void)vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  bson_t reply;
  if (!command(client, db, &reply, "%s", text)) {
    char *json = bson_as_relaxed_extended_json(&reply, NULL);
    fail_msg("%s: %s", text, json);
  }
  int64_t n = reply_i64(&reply, path);
  bson_destroy(&reply);
  return n;
}

static void statements_and_their_counts(void **state) {
  assert_int_equal(answer("n", "{'insert':'a','documents':[{'_id':1,'x':1},{'_id':2,'x':2},{'_id':3,'x':3}]}"), 3);
  assert_int_equal(
      answer("nModified", "{'update':'a','updates':[{'q':{'x':{'$gt':1}},'u':{'$inc':{'y':1}},'multi':true}]}"), 2);
  assert_int_equal(answer("nModified", "{'update':'a','updates':[{'q':{'_id':1},'u':{'$set':{'x':1}}}]}"), 0);
  assert_int_equal(
      answer("upserted.0._id", "{'update':'a','updates':[{'q':{'_id':9},'u':{'$set':{'x':9}},'upsert':true}]}"), 9);
  assert_int_equal(
      answer("value.x", "{'findAndModify':'a','query':{},'sort':{'x':-1},'update':{'$inc':{'x':1}},'new':true}"), 10);
  assert_int_equal(answer("value._id", "{'findAndModify':'a','query':{},'sort':{'x':1},'remove':true}"), 1);
  assert_int_equal(answer("n", "{'delete':'a','deletes':[{'q':{'x':2},'limit':1},{'q':{'x':77},'limit':0}]}"), 1);
  assert_int_equal(answer("n", "{'count':'a','query':{}}"), 2);
  assert_int_equal(answer("values.0", "{'distinct':'a','key':'x'}"), 3);
}

// Statements of one command see those before them, whatever the batch is.
static void a_batch_sees_itself(void **state) {
  bson_t reply;
  assert_true(command(client, db, &reply,
                      "{'update':'b','updates':[{'q':{'k':1},'u':{'$inc':{'n':1}},'upsert':true},"
                      "{'q':{'k':1},'u':{'$inc':{'n':1}},'upsert':true},{'q':{'n':2},'u':{'$set':{'k':2}}},"
                      "{'q':{'k':1},'u':{'$set':{'lost':1}}}]}"));
  assert_int_equal(reply_i64(&reply, "n"), 3);
  assert_int_equal(reply_i64(&reply, "nModified"), 2);
  bson_destroy(&reply);
  assert_int_equal(count_documents(client, db, "b", "{\"k\":2,\"n\":2}"), 1);
}

static void errors_of_statements(void **state) {
  must(client, db, "{'createIndexes':'e','indexes':[{'key':{'k':1},'name':'k_1','unique':true}]}");
  bson_t reply;
  assert_true(
      command(client, db, &reply, "{'insert':'e','documents':[{'k':1},{'k':1},{'k':2},{'_id':[1]}],'ordered':false}"));
  assert_int_equal(reply_i64(&reply, "n"), 2);
  assert_int_equal(reply_i64(&reply, "writeErrors.0.index"), 1);
  assert_int_equal(reply_i64(&reply, "writeErrors.0.code"), 11000);
  assert_int_equal(reply_i64(&reply, "writeErrors.0.keyValue.k"), 1);
  assert_int_equal(reply_i64(&reply, "writeErrors.1.index"), 3);
  bson_destroy(&reply);
  assert_true(command(client, db, &reply, "{'insert':'e','documents':[{'k':3},{'k':1},{'k':4}]}"));
  assert_int_equal(reply_i64(&reply, "n"), 1);
  bson_destroy(&reply);
  // Swapping unique values in one batch works as it does one by one.
  assert_int_equal(answer("nModified", "{'update':'e','updates':[{'q':{'k':1},'u':{'$set':{'k':'t'}}},"
                                       "{'q':{'k':2},'u':{'$set':{'k':1}}},{'q':{'k':'t'},'u':{'$set':{'k':2}}}]}"),
                   3);
}

static void refused_by_name(void **state) {
  must(client, db, "{'insert':'r','documents':[{'a':1}]}");
  assert_int_equal(must_fail(client, db, "{'find':'r','collation':{'locale':'de'}}"), 115);
  assert_int_equal(must_fail(client, db, "{'find':'r','tailable':true}"), 115);
  assert_int_equal(must_fail(client, db, "{'find':'r','hint':'nosuch'}"), 2);
  assert_int_equal(must_fail(client, db, "{'create':'v','viewOn':'r','pipeline':[]}"), 115);
  assert_int_equal(must_fail(client, db, "{'create':'c','capped':true,'size':1000}"), 115);
  assert_int_equal(must_fail(client, db, "{'create':'r'}"), 48);
  assert_int_equal(must_fail(client, db, "{'createIndexes':'r','indexes':[{'key':{'a':'text'},'name':'t'}]}"), 67);
  assert_int_equal(must_fail(client, db, "{'dropIndexes':'r','index':'_id_'}"), 72);
  assert_int_equal(must_fail(client, db, "{'dropIndexes':'r','index':'nosuch'}"), 27);
  assert_int_equal(must_fail(client, db, "{'listIndexes':'nosuch'}"), 26);
  assert_int_equal(must_fail(client, db, "{'aggregate':'r','pipeline':[{'$nosuch':1}],'cursor':{}}"), 40324);
  assert_int_equal(must_fail(client, db, "{'find':'r','readConcern':{'level':'snapshot'}}"), 72);
  assert_int_equal(must_fail(client, db, "{'nosuch':1}"), 59);
  assert_int_equal(must_fail(client, "local", "{'insert':'x','documents':[{}]}"), 73);
}

// An option that is not known must not be ignored: the answer would be another one than was asked for.
static void unknown_fields_are_refused_by_name(void **state) {
  (void)state;
  static const char *const commands[] = {
      "{'find':'u','zz':1}",
      "{'aggregate':'u','pipeline':[],'cursor':{},'zz':1}",
      "{'insert':'u','documents':[{}],'zz':1}",
      "{'update':'u','updates':[{'q':{},'u':{'$set':{'a':1}},'zz':1}]}",
      "{'delete':'u','deletes':[{'q':{},'limit':1,'zz':1}]}",
      "{'findAndModify':'u','query':{},'remove':true,'zz':1}",
      "{'count':'u','zz':1}",
      "{'create':'u','zz':1}",
      "{'explain':{'find':'u','zz':1}}",
  };
  for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
    bson_t reply;
    assert_false(command(client, "db", &reply, "%s", commands[i]));
    assert_int_equal(reply_i64(&reply, "code"), 40415);
    bson_iter_t it;
    assert_true(bson_iter_init_find(&it, &reply, "errmsg"));
    assert_non_null(strstr(bson_iter_utf8(&it, NULL), "zz' is an unknown field"));
    bson_destroy(&reply);
  }
  assert_int_equal(count_documents(client, "db", "u", "{}"), 0);
}

static void cursors(void **state) {
  for (int i = 0; i < 10; i++) {
    must(client, db, "{'insert':'q','documents':[{'i':%d},{'i':%d},{'i':%d}]}", i * 3, i * 3 + 1, i * 3 + 2);
  }
  int64_t id = answer("cursor.id", "{'find':'q','sort':{'i':1},'batchSize':7}");
  assert_true(id != 0);
  mongoc_client_t *other = client_of(&member); // a cursor belongs to no connection
  bson_t reply;
  assert_true(
      command(other, db, &reply, "{'getMore':{'$numberLong':'%lld'},'collection':'q','batchSize':5}", (long long)id));
  assert_int_equal(reply_i64(&reply, "cursor.nextBatch.0.i"), 7);
  assert_int_equal(reply_i64(&reply, "cursor.nextBatch.4.i"), 11);
  bson_destroy(&reply);
  assert_int_equal(must_fail(other, db, "{'getMore':{'$numberLong':'%lld'},'collection':'nosuch'}", (long long)id), 13);
  assert_int_equal(answer("cursor.id", "{'getMore':{'$numberLong':'%lld'},'collection':'q'}", (long long)id), 0);
  assert_int_equal(must_fail(other, db, "{'getMore':{'$numberLong':'%lld'},'collection':'q'}", (long long)id), 43);
  id = answer("cursor.id", "{'find':'q','batchSize':0}");
  assert_int_equal(answer("cursorsKilled.0", "{'killCursors':'q','cursors':[{'$numberLong':'%lld'}]}", (long long)id),
                   id);
  assert_int_equal(must_fail(other, db, "{'getMore':{'$numberLong':'%lld'},'collection':'q'}", (long long)id), 43);
  id = answer("cursor.id", "{'find':'q','batchSize':2}");
  must(other, db, "{'drop':'q'}");
  assert_int_equal(must_fail(client, db, "{'getMore':{'$numberLong':'%lld'},'collection':'q'}", (long long)id), 175);
  mongoc_client_destroy(other);
}

static void explained(void **state) {
  must(client, db, "{'createIndexes':'x','indexes':[{'key':{'k':1},'name':'k_1'}]}");
  for (int i = 0; i < 50; i++) must(client, db, "{'insert':'x','documents':[{'k':%d,'s':%d}]}", i, i % 5);
  static const char path[] = "executionStats.totalDocsExamined";
  assert_int_equal(answer(path, "{'explain':{'find':'x','filter':{'s':3}},'verbosity':'executionStats'}"), 50);
  assert_int_equal(
      answer(path, "{'explain':{'find':'x','filter':{'k':{'$gte':10,'$lt':20}}},'verbosity':'executionStats'}"), 10);
  assert_int_equal(answer("executionStats.nReturned",
                          "{'explain':{'find':'x','sort':{'k':-1},'limit':3},'verbosity':'executionStats'}"),
                   3);
  assert_int_equal(answer(path, "{'explain':{'find':'x','sort':{'k':-1},'limit':3},'verbosity':'executionStats'}"), 3);
  assert_int_equal(answer("executionStats.executionStages.nWouldModify",
                          "{'explain':{'update':'x','updates':[{'q':{'s':1},'u':{'$set':{'z':1}},'multi':true}]},"
                          "'verbosity':'executionStats'}"),
                   10);
  assert_int_equal(count_documents(client, db, "x", "{\"z\":1}"), 0);
}

// --- several clients at once ---

struct writer {
  pthread_t thread;
  int number, inserted, duplicates;
};

static void *increments(void *arg) {
  mongoc_client_t *own = client_of(&member);
  for (int i = 0; i < ROUNDS; i++) {
    must(own, db, "{'update':'inc','updates':[{'q':{'_id':%d},'u':{'$inc':{'n':1}},'upsert':true}]}", i % 3);
  }
  mongoc_client_destroy(own);
  return NULL;
}

static void *unique_inserts(void *arg) {
  struct writer *w = arg;
  mongoc_client_t *own = client_of(&member);
  for (int i = 0; i < ROUNDS; i++) {
    bson_t reply;
    assert_true(command(own, db, &reply, "{'insert':'uni','documents':[{'k':%d}]}", i));
    w->inserted += (int)reply_i64(&reply, "n");
    w->duplicates += reply_i64(&reply, "writeErrors.0.code") == 11000;
    bson_destroy(&reply);
  }
  mongoc_client_destroy(own);
  return NULL;
}

static void *takes_from_queue(void *arg) {
  struct writer *w = arg;
  mongoc_client_t *own = client_of(&member);
  for (;;) {
    bson_t reply;
    assert_true(command(own, db, &reply, "{'findAndModify':'que','query':{},'sort':{'p':1},'remove':true}"));
    bool got = reply_i64(&reply, "lastErrorObject.n") == 1;
    bson_destroy(&reply);
    if (!got) break;
    w->inserted++;
  }
  mongoc_client_destroy(own);
  return NULL;
}

static int together(struct writer writers[WRITERS], void *(*work)(void *)) {
  int total = 0;
  memset(writers, 0, WRITERS * sizeof *writers);
  for (int i = 0; i < WRITERS; i++) {
    writers[i].number = i;
    assert_int_equal(pthread_create(&writers[i].thread, NULL, work, &writers[i]), 0);
  }
  for (int i = 0; i < WRITERS; i++) {
    pthread_join(writers[i].thread, NULL);
    total += writers[i].inserted;
  }
  return total;
}

static void concurrent_clients(void **state) {
  struct writer writers[WRITERS];
  together(writers, increments);
  int64_t sum = 0;
  for (int i = 0; i < 3; i++) sum += answer("cursor.firstBatch.0.n", "{'find':'inc','filter':{'_id':%d}}", i);
  assert_int_equal(sum, WRITERS * ROUNDS);
  assert_int_equal(count_documents(client, db, "inc", "{}"), 3);
  must(client, db, "{'createIndexes':'uni','indexes':[{'key':{'k':1},'name':'k_1','unique':true}]}");
  assert_int_equal(together(writers, unique_inserts), ROUNDS);
  assert_int_equal(count_documents(client, db, "uni", "{}"), ROUNDS);
  for (int i = 0; i < 100; i++) must(client, db, "{'insert':'que','documents':[{'p':%d}]}", i);
  assert_int_equal(together(writers, takes_from_queue), 100);
}

static void *writes_during_a_build(void *arg) {
  struct writer *w = arg;
  mongoc_client_t *own = client_of(&member);
  for (int i = 0; i < ROUNDS; i++) {
    int at = w->number * 100 + i;
    must(own, db, "{'insert':'bld','documents':[{'i':%d,'z':%d}]}", 10000 + at, i);
    must(own, db, "{'update':'bld','updates':[{'q':{'i':%d},'u':{'$set':{'z':777}}}]}", at);
    must(own, db, "{'delete':'bld','deletes':[{'q':{'i':%d},'limit':1}]}", 1000 + at);
  }
  mongoc_client_destroy(own);
  return NULL;
}

static void index_build_under_writes(void **state) {
  mongoc_collection_t *c = mongoc_client_get_collection(client, db, "bld");
  mongoc_bulk_operation_t *bulk = mongoc_collection_create_bulk_operation_with_opts(c, NULL);
  for (int i = 0; i < 2000; i++) {
    bson_t *doc = BCON_NEW("i", BCON_INT32(i), "z", BCON_INT32(i % 50));
    mongoc_bulk_operation_insert(bulk, doc);
    bson_destroy(doc);
  }
  assert_int_not_equal(mongoc_bulk_operation_execute(bulk, NULL, NULL), 0);
  mongoc_bulk_operation_destroy(bulk);
  mongoc_collection_destroy(c);
  struct writer w = {.number = 1}, later = {.number = 2};
  pthread_create(&w.thread, NULL, writes_during_a_build, &w);
  must(client, db, "{'createIndexes':'bld','indexes':[{'key':{'z':1},'name':'z_1'}]}");
  pthread_join(w.thread, NULL);
  bson_t reply;
  assert_true(command(client, db, &reply, "{'validate':'bld'}"));
  assert_int_equal(reply_i64(&reply, "nrecords"), reply_i64(&reply, "keysPerIndex.z_1"));
  bson_destroy(&reply);
  assert_int_equal(answer("n", "{'count':'bld','query':{'z':777},'hint':'z_1'}"), ROUNDS);
  pthread_create(&later.thread, NULL, writes_during_a_build, &later);
  for (int i = 0; i < 50; i++) assert_int_equal(answer("valid", "{'validate':'bld'}"), 1);
  pthread_join(later.thread, NULL);
  assert_int_equal(
      must_fail(client, db, "{'createIndexes':'bld','indexes':[{'key':{'z':-1},'name':'u','unique':true}]}"), 11000);
  assert_int_equal(answer("nIndexesWas", "{'dropIndexes':'bld','index':'z_1'}"), 2);
}

// --- retryable writes, in messages as they are on the wire ---

static bson_t *raw(const char *json) {
  bson_error_t e;
  char text[2048];
  size_t n = strlen(json);
  for (size_t i = 0; i <= n; i++) text[i] = json[i] == '\'' ? '"' : json[i];
  bson_t *body = bson_new_from_json((const uint8_t *)text, -1, &e);
  if (!body) fail_msg("%s: %s", text, e.message);
  int s = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)member.port)};
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  assert_int_equal(connect(s, (struct sockaddr *)&to, sizeof to), 0);
  int32_t header[5] = {(int32_t)(21 + body->len), 1, 0, 2013, 0};
  assert_int_equal(write(s, header, sizeof header), (ssize_t)sizeof header);
  assert_int_equal(write(s, "", 1), 1);
  assert_int_equal(write(s, bson_get_data(body), body->len), (ssize_t)body->len);
  bson_destroy(body);
  uint8_t *data = malloc(1 << 20);
  size_t got = 0;
  int32_t length = 21;
  while (got < (size_t)length) {
    ssize_t r = read(s, data + got, (1 << 20) - got);
    assert_true(r > 0);
    got += (size_t)r;
    if (got >= 4) memcpy(&length, data, 4);
  }
  close(s);
  bson_t *reply = bson_new_from_data(data + 21, got - 21);
  free(data);
  return reply;
}

static int64_t raw_i64(const char *path, const char *json) {
  bson_t *reply = raw(json);
  int64_t n = reply_i64(reply, path);
  bson_destroy(reply);
  return n;
}

#define SESSION "'lsid':{'id':{'$binary':{'base64':'AAECAwQFRgeICQoLDA0ODw==','subType':'04'}}},'$db':'crud'"

static void retried_writes(void **state) {
  static const char insert[] =
      "{'insert':'ret','documents':[{'x':1},{'x':2}],'txnNumber':{'$numberLong':'1'}," SESSION "}";
  assert_int_equal(raw_i64("n", insert), 2);
  bson_t *again = raw(insert);
  assert_int_equal(reply_i64(again, "n"), 2);
  assert_int_equal(reply_i64(again, "retriedStmtIds.1"), 1);
  bson_destroy(again);
  assert_int_equal(count_documents(client, db, "ret", "{}"), 2);
  static const char update[] = "{'update':'ret','updates':[{'q':{'_id':5},'u':{'$inc':{'n':1}},'upsert':true}],"
                               "'txnNumber':{'$numberLong':'2'}," SESSION "}";
  assert_int_equal(raw_i64("upserted.0._id", update), 5);
  assert_int_equal(raw_i64("upserted.0._id", update), 5);
  static const char modify[] = "{'findAndModify':'ret','query':{'_id':5},'update':{'$inc':{'n':1}},'new':true,"
                               "'txnNumber':{'$numberLong':'3'}," SESSION "}";
  assert_int_equal(raw_i64("value.n", modify), 2);
  // Also after a restart: the record is in the log with the effect.
  assert_int_equal(process_end(&member, SIGKILL) != 0, true);
  process_start(&member);
  assert_int_equal(raw_i64("value.n", modify), 2);
  assert_int_equal(raw_i64("code", update), 225);
  static const char last[] = "{'insert':'ret','documents':[{'x':3},{'x':4}],'stmtId':2147483647,"
                             "'txnNumber':{'$numberLong':'4'}," SESSION "}";
  assert_int_equal(raw_i64("n", last), 2);
  assert_int_equal(raw_i64("retriedStmtIds.1", last), INT32_MIN); // after the greatest number comes the least
}

// --- what a restart keeps ---

static void restart_keeps_all(void **state) {
  int64_t before = count_documents(client, db, "x", "{}");
  assert_int_equal(process_end(&member, SIGKILL) != 0, true);
  process_start(&member);
  assert_int_equal(count_documents(client, db, "x", "{}"), before);
  assert_int_equal(answer("nIndexesWas", "{'drop':'x'}"), 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(statements_and_their_counts),
      cmocka_unit_test(a_batch_sees_itself),
      cmocka_unit_test(errors_of_statements),
      cmocka_unit_test(refused_by_name),
      cmocka_unit_test(unknown_fields_are_refused_by_name),
      cmocka_unit_test(cursors),
      cmocka_unit_test(explained),
      cmocka_unit_test(concurrent_clients),
      cmocka_unit_test(index_build_under_writes),
      cmocka_unit_test(retried_writes),
      cmocka_unit_test(restart_keeps_all),
  };
  mongoc_init();
  int failed = cmocka_run_group_tests(tests, start, stop);
  mongoc_cleanup();
  return failed;
}
