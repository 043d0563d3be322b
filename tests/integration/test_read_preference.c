// Reads from members other than the primary: which member answers, that nothing is missed or doubled while ranges move,
// and that a causal session sees what it wrote.
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

#include "tests/integration/raw.h"
#include "tests/integration/sets.h"

enum {
  MEMBERS = 3,
  READS = 20,
  DOCUMENTS = 400,
  CAUSAL_WRITES = 1000,
  SCAN_MS = 8000,
  NOT_PRIMARY_NO_SECONDARY_OK = 13435,
  MAX_STALENESS_OUT_OF_RANGE = 160,
  MAX_TIME_EXPIRED = 50,
  QUERY_PLAN_KILLED = 175,
  BAD_VALUE = 2,
  FAILED_TO_PARSE = 9,
};

static struct set_cluster cluster;

static int64_t queries_of(const struct process *p) {
  mongoc_client_t *c = client_of(p);
  bson_t reply;
  assert_true(command(c, "admin", &reply, "{'serverStatus':1}"));
  int64_t n = reply_i64(&reply, "opcounters.query");
  bson_destroy(&reply);
  mongoc_client_destroy(c);
  return n;
}

// Reads READS times with this preference through the router; which members of sh1 answered, as bits.
static unsigned who_answers(struct raw *router, const char *preference) {
  int64_t before[MEMBERS];
  for (int i = 0; i < MEMBERS; i++) before[i] = queries_of(&cluster.shards[0].members[i]);
  for (int i = 0; i < READS; i++) {
    bson_t reply;
    if (!raw_command(router, "plain", &reply, "{'find':'things','filter':{'_id':1},'$readPreference':%s}", preference))
      fail_msg("%s: code %d", preference, (int)reply_i64(&reply, "code"));
    assert_int_equal(reply_i64(&reply, "cursor.firstBatch.0._id"), 1);
    bson_destroy(&reply);
  }
  unsigned who = 0;
  for (int i = 0; i < MEMBERS; i++)
    if (queries_of(&cluster.shards[0].members[i]) > before[i]) who |= 1U << i;
  return who;
}

static void give_tags(void) {
  struct process *p = set_primary(&cluster.shards[0]);
  mongoc_client_t *c = client_of(p);
  bson_t reply;
  assert_true(command(c, "admin", &reply, "{'replSetGetConfig':1}"));
  int64_t version = reply_i64(&reply, "config.version");
  bson_destroy(&reply);
  char members[600] = "";
  size_t n = 0;
  for (int i = 0; i < MEMBERS; i++)
    n += (size_t)snprintf(members + n, sizeof members - n,
                          "%s{'_id':%d,'host':'127.0.0.1:%d','tags':{'node':'m%d','all':'yes'}}", i ? "," : "", i,
                          cluster.shards[0].members[i].port, i);
  must(c, "admin",
       "{'replSetReconfig':{'_id':'sh1','version':%d,'members':[%s],'settings':{'electionTimeoutMillis':%d,"
       "'getLastErrorModes':{'three':{'node':3},'four':{'node':4},'one':{'all':1}}}}}",
       (int)version + 1, members, SET_ELECTION_MS);
  mongoc_client_destroy(c);
}

static void setup_data(void) {
  mongoc_client_t *c = client_of(&cluster.routers[0]);
  must(c, "admin", "{'balancerStop':1}");
  must(c, "admin", "{'enableSharding':'plain','primaryShard':'sh1'}");
  must(c, "plain", "{'insert':'things','documents':[{'_id':1}],'writeConcern':{'w':3}}");
  must(c, "admin", "{'enableSharding':'moving','primaryShard':'sh1'}");
  must(c, "admin", "{'shardCollection':'moving.docs','key':{'k':1}}");
  for (int i = 0; i < DOCUMENTS; i++) must(c, "moving", "{'insert':'docs','documents':[{'_id':%d,'k':%d}]}", i, i);
  must(c, "moving", "{'insert':'docs','documents':[{'_id':-1,'k':-1}],'writeConcern':{'w':3}}");
  must(c, "admin", "{'split':'moving.docs','middle':{'k':%d}}", DOCUMENTS / 2);
  must(c, "admin", "{'shardCollection':'moving.hashed','key':{'_id':'hashed'}}");
  mongoc_client_destroy(c);
}

static void modes(void **state) {
  give_tags();
  struct raw r = raw_dial(&cluster.routers[0]);
  int primary = (int)(set_primary(&cluster.shards[0]) - cluster.shards[0].members);
  unsigned p = 1U << primary, all = (1U << MEMBERS) - 1;
  assert_int_equal(who_answers(&r, "{'mode':'primary'}"), p);
  assert_int_equal(who_answers(&r, "{'mode':'primaryPreferred'}"), p);
  assert_int_equal(who_answers(&r, "{'mode':'secondary'}") & p, 0);
  assert_int_equal(who_answers(&r, "{'mode':'secondaryPreferred'}") & p, 0);
  assert_true(who_answers(&r, "{'mode':'nearest'}") != 0);
  assert_int_equal(who_answers(&r, "{'mode':'secondary','hedge':{'enabled':true}}") & p, 0);
  assert_int_equal(who_answers(&r, "{'mode':'secondary','maxStalenessSeconds':120}") & p, 0);
  assert_int_equal(who_answers(&r, "{'mode':'secondary'}") | who_answers(&r, "{'mode':'secondary'}") | p, all);
  for (int i = 0; i < MEMBERS; i++) {
    char preference[120];
    (void)snprintf(preference, sizeof preference, "{'mode':'nearest','tags':[{'node':'m9'},{'node':'m%d'}]}", i);
    assert_int_equal(who_answers(&r, preference), 1U << i);
  }
  raw_close(&r);
}

static void refused(void **state) {
  struct raw r = raw_dial(&cluster.routers[0]);
  struct {
    const char *preference;
    int code;
  } cases[] = {{"{'mode':'secondary','maxStalenessSeconds':89}", MAX_STALENESS_OUT_OF_RANGE},
               {"{'mode':'secondary','tags':[{'node':'nowhere'}]}", MAX_TIME_EXPIRED},
               {"{'mode':'primary','tags':[{'node':'m1'}]}", BAD_VALUE},
               {"{'mode':'primary','maxStalenessSeconds':120}", BAD_VALUE},
               {"{'mode':'best'}", FAILED_TO_PARSE}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[300];
    (void)snprintf(text, sizeof text, "{'find':'things','filter':{},'maxTimeMS':700,'$readPreference':%s}",
                   cases[i].preference);
    int code = raw_code(&r, "plain", "%s", text);
    if (code != cases[i].code) fail_msg("%s: code %d", cases[i].preference, code);
  }
  raw_close(&r);
}

static void direct(void **state) {
  struct raw r = raw_dial(set_secondary(&cluster.shards[0], 0));
  assert_int_equal(raw_code(&r, "plain", "{'find':'things'}"), NOT_PRIMARY_NO_SECONDARY_OK);
  assert_int_equal(raw_code(&r, "plain", "{'find':'things','$readPreference':{'mode':'primary'}}"),
                   NOT_PRIMARY_NO_SECONDARY_OK);
  assert_int_equal(raw_code(&r, "plain", "{'find':'things','$readPreference':{'mode':'secondaryPreferred'}}"), 0);
  assert_int_equal(
      raw_code(&r, "plain", "{'find':'things','$readPreference':{'mode':'secondary','maxStalenessSeconds':1}}"),
      MAX_STALENESS_OUT_OF_RANGE);
  raw_close(&r);
}

// --- causal sessions ---

// Writes through the primary, reads on a secondary in the same session: never misses. The collection is on both shards
// and each read goes to one of them, so that times of the other shard have to be reached as well.
static void causal(void **state) {
  mongoc_client_t *c = client_of(&cluster.routers[0]);
  mongoc_collection_t *coll = mongoc_client_get_collection(c, "moving", "hashed");
  mongoc_read_prefs_t *secondary = mongoc_read_prefs_new(MONGOC_READ_SECONDARY);
  bson_error_t why;
  mongoc_client_session_t *session = mongoc_client_start_session(c, NULL, &why);
  assert_non_null(session);
  bson_t *opts = bson_new();
  assert_true(mongoc_client_session_append(session, opts, &why));
  int64_t begun = now_ms();
  for (int i = 0; i < CAUSAL_WRITES; i++) {
    bson_t *doc = BCON_NEW("_id", BCON_INT32(i)), *all = bson_new();
    if (!mongoc_collection_insert_one(coll, doc, opts, NULL, &why)) fail_msg("write %d: %s", i, why.message);
    // The document itself, and now and then (both shards are asked then) how many there are.
    int64_t n = mongoc_collection_count_documents(coll, i % 50 ? doc : all, opts, secondary, NULL, &why);
    if (n < 0) fail_msg("read %d: %s", i, why.message);
    assert_int_equal(n, i % 50 ? 1 : i + 1);
    bson_destroy(all);
    bson_destroy(doc);
  }
  print_message("%d causal pairs, %.1f ms each\n", CAUSAL_WRITES, (double)(now_ms() - begun) / CAUSAL_WRITES);
  bson_destroy(opts);
  mongoc_client_session_destroy(session);
  mongoc_read_prefs_destroy(secondary);
  mongoc_collection_destroy(coll);
  mongoc_client_destroy(c);
}

// A secondary of an idle set reaches a time of which only the client knows.
static void foreign_time(void **state) {
  bson_t reply;
  struct raw one = raw_dial(set_primary(&cluster.shards[0]));
  struct raw other = raw_dial(set_secondary(&cluster.shards[1], 0));
  assert_true(raw_command(&one, "alone", &reply, "{'insert':'c','documents':[{'a':1}]}"));
  bson_iter_t it, ts, gossip;
  assert_true(bson_iter_init_find(&ts, &reply, "operationTime"));
  assert_true(bson_iter_init_find(&gossip, &reply, "$clusterTime"));
  bson_t *find = bson_new(), concern, preference;
  BSON_APPEND_UTF8(find, "find", "c");
  BSON_APPEND_DOCUMENT_BEGIN(find, "readConcern", &concern);
  bson_append_iter(&concern, "afterClusterTime", -1, &ts);
  bson_append_document_end(find, &concern);
  BSON_APPEND_DOCUMENT_BEGIN(find, "$readPreference", &preference);
  BSON_APPEND_UTF8(&preference, "mode", "secondary");
  bson_append_document_end(find, &preference);
  BSON_APPEND_INT32(find, "maxTimeMS", 5000);
  bson_append_iter(find, NULL, 0, &gossip);
  bson_t answer;
  if (!raw_run(&other, "alone", find, &answer)) fail_msg("code %d", (int)reply_i64(&answer, "code"));
  assert_true(bson_iter_init_find(&it, &answer, "operationTime"));
  uint32_t t0, i0, t1, i1;
  bson_iter_timestamp(&ts, &t0, &i0);
  bson_iter_timestamp(&it, &t1, &i1);
  assert_true(t1 > t0 || (t1 == t0 && i1 >= i0));
  bson_destroy(&answer);
  bson_destroy(&reply);
  bson_destroy(find);
  raw_close(&one);
  raw_close(&other);
}

// --- while ranges move ---

struct scanner {
  pthread_t thread;
  int router;
  const char *mode;
  volatile bool stop;
  int scans, killed;
  char failed[300];
};

// One scan of everything: each document once. QueryPlanKilled is the one error that a range's end may cause.
static void scan_once(struct scanner *s, mongoc_collection_t *coll, const mongoc_read_prefs_t *preference) {
  bool seen[DOCUMENTS + 1] = {0};
  bson_t *filter = bson_new(), *opts = BCON_NEW("batchSize", BCON_INT32(50));
  mongoc_cursor_t *cursor = mongoc_collection_find_with_opts(coll, filter, opts, preference);
  const bson_t *doc;
  bson_error_t why;
  int n = 0;
  while (mongoc_cursor_next(cursor, &doc)) {
    int64_t k = reply_i64(doc, "k");
    if (k < -1 || k >= DOCUMENTS || seen[k + 1])
      (void)snprintf(s->failed, sizeof s->failed, "%s: document %d twice or wrong", s->mode, (int)k);
    else
      seen[k + 1] = true;
    n++;
  }
  if (mongoc_cursor_error(cursor, &why)) {
    if (why.code != QUERY_PLAN_KILLED)
      (void)snprintf(s->failed, sizeof s->failed, "%s: %d %.200s", s->mode, (int)why.code, why.message);
    s->killed++;
  } else if (n != DOCUMENTS + 1) {
    (void)snprintf(s->failed, sizeof s->failed, "%s: %d documents", s->mode, n);
  }
  s->scans++;
  mongoc_cursor_destroy(cursor);
  bson_destroy(opts);
  bson_destroy(filter);
}

static void *scan(void *arg) {
  struct scanner *s = arg;
  mongoc_client_t *c = client_of(&cluster.routers[s->router]);
  mongoc_collection_t *coll = mongoc_client_get_collection(c, "moving", "docs");
  mongoc_read_prefs_t *preference =
      mongoc_read_prefs_new(strcmp(s->mode, "primary") != 0 ? MONGOC_READ_SECONDARY : MONGOC_READ_PRIMARY);
  while (!s->stop && !*s->failed) scan_once(s, coll, preference);
  mongoc_read_prefs_destroy(preference);
  mongoc_collection_destroy(coll);
  mongoc_client_destroy(c);
  return NULL;
}

static void move_to(mongoc_client_t *router, const char *shard) {
  must(router, "admin", "{'moveRange':'moving.docs','min':{'k':%d},'toShard':'%s','waitForDelete':true}", DOCUMENTS / 2,
       shard);
}

static void nothing_missed_or_doubled(void **state) {
  struct scanner scanners[3] = {
      {.router = 0, .mode = "secondary"}, {.router = 1, .mode = "secondary"}, {.router = 1, .mode = "primary"}};
  for (int i = 0; i < 3; i++) assert_int_equal(pthread_create(&scanners[i].thread, NULL, scan, &scanners[i]), 0);
  mongoc_client_t *c = client_of(&cluster.routers[0]);
  int moves = 0;
  for (int64_t end = now_ms() + SCAN_MS; now_ms() < end; moves++) move_to(c, moves % 2 ? "sh1" : "sh2");
  if (moves % 2) move_to(c, "sh1");
  for (int i = 0; i < 3; i++) scanners[i].stop = true;
  for (int i = 0; i < 3; i++) {
    assert_int_equal(pthread_join(scanners[i].thread, NULL), 0);
    print_message("%s: %d scans during %d moves, %d ended by a deletion\n", scanners[i].mode, scanners[i].scans, moves,
                  scanners[i].killed);
    if (*scanners[i].failed) fail_msg("%s", scanners[i].failed);
    assert_true(scanners[i].scans > 0);
  }
  mongoc_client_destroy(c);
}

// A cursor that is open on a range while that moves away: on a secondary the deletion does not wait for it, and it ends
// with a clear error; on a primary the deletion waits, and it ends with all documents.
static void open_cursor(const char *mode, bool deletion_waits) {
  mongoc_client_t *c = client_of(&cluster.routers[0]);
  bson_t reply, more;
  struct raw r = raw_dial(&cluster.routers[1]);
  assert_true(raw_command(&r, "moving", &reply,
                          "{'find':'docs','filter':{'k':{'$gte':%d}},'sort':{'k':1},'batchSize':10,"
                          "'$readPreference':{'mode':'%s'}}",
                          DOCUMENTS / 2, mode));
  int64_t id = reply_i64(&reply, "cursor.id");
  assert_true(id != 0);
  bson_destroy(&reply);
  must(c, "admin", "{'moveRange':'moving.docs','min':{'k':%d},'toShard':'sh2','waitForDelete':%s}", DOCUMENTS / 2,
       deletion_waits ? "false" : "true");
  wait_ms(300);
  bool ok = raw_command(&r, "moving", &more, "{'getMore':{'$numberLong':'%lld'},'collection':'docs'}", (long long)id);
  if (deletion_waits || ok) {
    assert_true(ok);
    char last[40];
    (void)snprintf(last, sizeof last, "cursor.nextBatch.%d.k", DOCUMENTS / 2 - 11);
    assert_int_equal(reply_i64(&more, last), DOCUMENTS - 1);
  } else {
    assert_int_equal(reply_i64(&more, "code"), QUERY_PLAN_KILLED);
  }
  bson_destroy(&more);
  raw_close(&r);
  move_to(c, "sh1");
  mongoc_client_destroy(c);
}

static void cursor_on_primary(void **state) {
  open_cursor("primary", true);
}

static void cursor_on_secondary(void **state) {
  open_cursor("secondary", false);
}

static int start(void **state) {
  set_cluster_start(&cluster, MEMBERS, "--setParameter orphanCleanupDelaySecs=0");
  *state = &cluster;
  setup_data();
  return 0;
}

int main(void) {
  mongoc_init();
  const struct CMUnitTest tests[] = {cmocka_unit_test(modes),
                                     cmocka_unit_test(refused),
                                     cmocka_unit_test(direct),
                                     cmocka_unit_test(causal),
                                     cmocka_unit_test(foreign_time),
                                     cmocka_unit_test(cursor_on_primary),
                                     cmocka_unit_test(cursor_on_secondary),
                                     cmocka_unit_test(nothing_missed_or_doubled)};
  int failed = cmocka_run_group_tests(tests, start, set_cluster_teardown);
  mongoc_cleanup();
  return failed;
}
