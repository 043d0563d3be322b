// Primaries that are stopped, go on later and do not know what has happened meanwhile; statements that wait over a
// critical section; a config server without a primary; secondaries that are read while a range moves and is deleted.
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
#include "tests/integration/sets.h"

enum { MEMBERS = 3, WRITE_MS = 30000 };

static struct set_cluster cluster;
static mongoc_client_t *router, *stale; // the second one hears of moves only from shards

static int start(void **state) {
  set_cluster_start(&cluster, MEMBERS,
                    "--setParameter enableTestCommands=true --setParameter orphanCleanupDelaySecs=0 "
                    "--setParameter receiveChunkWaitForRangeDeleterTimeoutMS=30000");
  router = client_of(&cluster.routers[0]);
  stale = client_of(&cluster.routers[1]);
  moves_setup(router);
  return 0;
}

static int stop(void **state) {
  mongoc_client_destroy(router);
  mongoc_client_destroy(stale);
  set_cluster_stop(&cluster);
  return 0;
}

static void wait_until_settled(void) {
  moves_wait_settled(router, set_primary(&cluster.shards[0]), set_primary(&cluster.shards[1]));
}

static struct set *const sets[] = {&cluster.config, &cluster.shards[0], &cluster.shards[1]};

// After each test, also a failed one.
static int all_go_on(void **state) {
  for (int i = 0; i < 3; i++) {
    for (int k = 0; k < sets[i]->n; k++)
      if (sets[i]->stopped[k]) set_pause(sets[i], &sets[i]->members[k], false);
    set_restart_all(sets[i]);
  }
  return 0;
}

// Writes `n` into the document of `key`; a statement that met a stopped member is sent again.
static void write_n(mongoc_client_t *c, int key, int n) {
  bool ok = false;
  for (int64_t end = now_ms() + WRITE_MS; !ok && now_ms() < end;) {
    bson_t reply;
    ok = command(c, "test", &reply,
                 "{'update':'moving','updates':[{'q':{'customerId':%d},'u':{'$set':{'n':%d}},'upsert':true}]}", key,
                 n) &&
         reply_i64(&reply, "writeErrors.0.code") < 0;
    bson_destroy(&reply);
  }
  if (!ok) fail_msg("document %d could not be written within %d ms", key, WRITE_MS);
}

static void expect_n(mongoc_client_t *c, int key, int n) {
  char filter[64];
  (void)snprintf(filter, sizeof filter, "{\"customerId\": %d, \"n\": %d}", key, n);
  assert_int_equal(count_documents(c, "test", "moving", filter), 1);
  (void)snprintf(filter, sizeof filter, "{\"customerId\": %d}", key);
  assert_int_equal(count_documents(c, "test", "moving", filter), 1);
}

// A command in a thread of its own.
struct call {
  pthread_t thread;
  mongoc_client_t *client;
  const char *db;
  char text[300];
  bool ok;
};

static void *run_call(void *arg) {
  struct call *c = arg;
  bson_t reply;
  c->ok = command(c->client, c->db, &reply, "%s", c->text) && reply_i64(&reply, "writeErrors.0.code") < 0;
  bson_destroy(&reply);
  return NULL;
}

// The client connects now.
static void call_prepare(struct call *c, const struct process *to, const char *db, const char *text) {
  *c = (struct call){.client = client_of(to), .db = db};
  (void)snprintf(c->text, sizeof c->text, "%s", text);
  must(c->client, "admin", "{'ping':1}");
}

static void call_start(struct call *c) {
  assert_int_equal(pthread_create(&c->thread, NULL, run_call, c), 0);
}

static bool call_join(struct call *c) {
  (void)pthread_join(c->thread, NULL);
  mongoc_client_destroy(c->client);
  return c->ok;
}

// --- statements that wait ---

// Two statements on one document while the donor's log stands still: the first one is proposed, the second one waits
// for its lock. The critical section begins with both pending: the first is applied before it, the second evaluated
// after it, on the new owner.
static void statement_waits_over_section(void **state) {
  int owner = moves_owner(router);
  struct set *donor = &cluster.shards[owner];
  struct process *primary = set_primary(donor), *others[] = {set_secondary(donor, 0), set_secondary(donor, 1)};
  must(router, "test", "{'insert':'moving','documents':[{'_id':'n','customerId':7,'n':0}]}");
  struct mover m;
  struct call first, second;
  static const char increment[] = "{'update':'moving','updates':[{'q':{'customerId':7},'u':{'$inc':{'n':1}}}],"
                                  "'txnNumber':{'$numberLong':'1'},'lsid':{'id':{'$binary':{'base64':"
                                  "'%cAECAwQFRgeICQoLDA0ODw==','subType':'04'}}}}";
  char text[300];
  (void)snprintf(text, sizeof text, increment, 'A');
  call_prepare(&first, &cluster.routers[0], "test", text);
  (void)snprintf(text, sizeof text, increment, 'B');
  call_prepare(&second, &cluster.routers[1], "test", text);
  mover_start_until(&m, &cluster.routers[0], 1 - owner, primary, "moveChunkHangAtStep4");
  for (int i = 0; i < 2; i++) set_pause(donor, others[i], true);
  call_start(&first);
  call_start(&second);
  wait_ms(150);
  (void)point_set(primary, "moveChunkHangAtStep4", "off");
  wait_ms(150); // shorter than an election timeout: the primary stays what it is
  for (int i = 0; i < 2; i++) set_pause(donor, others[i], false);
  mover_join(&m);
  assert_true(call_join(&first));
  assert_true(call_join(&second));
  assert_int_equal(count_documents(router, "test", "moving", "{\"customerId\": 7, \"n\": 2}"), 1);
  wait_until_settled();
  moves_delete_all(router);
}

// --- stopped donors ---

// The donor's primary is stopped when the recipient has adopted the range, and goes on when its successor has decided.
// What it does then, and first of all, is to tell the config server.
static void donor_wakes_up_late(void **state) {
  int owner = moves_owner(router);
  struct set *donor = &cluster.shards[owner];
  struct process *was = set_primary(donor);
  struct mover m;
  struct call go_on;
  write_n(router, 8, 0);
  mover_start_until(&m, &cluster.routers[0], 1 - owner, was, "moveChunkHangAtStep5");
  call_prepare(&go_on, was, "admin", "{'configureFailPoint':'moveChunkHangAtStep5','mode':'off'}");
  set_pause(donor, was, true);
  call_start(&go_on); // waits in the socket of the stopped process
  (void)set_other_primary(donor, was);
  // The successor decides: the range stays, its writes go on. What the recipient has adopted lacks this one. (The
  // config server asks the successor again for the move, which then takes the write along.)
  write_n(stale, 8, 1);
  set_pause(donor, was, false);
  (void)call_join(&go_on);
  mover_join(&m);
  expect_n(router, 8, 1);
  expect_n(stale, 8, 1);
  write_n(router, 8, 2);
  expect_n(router, 8, 2);
  expect_n(stale, 8, 2);
  moves_until_on(router, 1 - moves_owner(router));
  wait_until_settled();
  moves_delete_all(router);
}

// The donor's primary is stopped while the config server commits, so that it never hears of it.
static void donor_stopped_over_commit(void **state) {
  int owner = moves_owner(router);
  struct set *donor = &cluster.shards[owner];
  struct process *was = set_primary(donor);
  struct mover m;
  write_n(stale, 9, 0);
  mover_start_until(&m, &cluster.routers[0], 1 - owner, was, "hangBeforeLeavingCriticalSection");
  set_pause(donor, was, true);
  (void)set_other_primary(donor, was);
  write_n(stale, 9, 1);
  assert_int_equal(moves_owner(router), 1 - owner);
  set_pause(donor, was, false);
  mover_join(&m);
  expect_n(stale, 9, 1);
  (void)point_set(was, "hangBeforeLeavingCriticalSection", "off");
  wait_until_settled();
  moves_delete_all(router);
}

// --- stopped config servers ---

// The config server's primary is stopped; a move is committed through its successor; then the old one goes on, which
// believes for a moment that it is primary, while the donor starts anew and a router asks that knows nothing of it all.
static void config_primary_wakes_up(void **state) {
  int owner = moves_owner(router);
  struct set *donor = &cluster.shards[owner];
  write_n(stale, 11, 0);
  struct process *was = set_primary(&cluster.config);
  set_pause(&cluster.config, was, true);
  (void)set_other_primary(&cluster.config, was);
  moves_until_on(router, 1 - owner);
  set_pause(&cluster.config, was, false);
  (void)set_kill_primary(donor);
  write_n(stale, 11, 1);
  expect_n(router, 11, 1);
  expect_n(stale, 11, 1);
  set_restart_all(donor);
  wait_until_settled();
  moves_delete_all(router);
}

// Routers go on by what they know; what they cannot know they say so.
static void no_config_primary(void **state) {
  write_n(router, 12, 0);
  struct process *stopped[] = {set_secondary(&cluster.config, 0), set_secondary(&cluster.config, 1)};
  for (int i = 0; i < 2; i++) set_pause(&cluster.config, stopped[i], true);
  wait_ms(SET_ELECTION_MS); // for the third one to give up its role
  write_n(router, 12, 1);
  expect_n(router, 12, 1);
  int64_t begun = now_ms();
  (void)must_fail(router, "admin",
                  "{'moveRange':'test.moving','min':{'customerId':0},'toShard':'sh1','maxTimeMS':1500}");
  assert_in_range(now_ms() - begun, 0, 10000);
  (void)must_fail(router, "fresh", "{'insert':'c','documents':[{'_id':1}],'maxTimeMS':1500}");
  for (int i = 0; i < 2; i++) set_pause(&cluster.config, stopped[i], false);
  (void)set_primary(&cluster.config);
  must(router, "fresh", "{'insert':'c','documents':[{'_id':1}]}");
  moves_delete_all(router);
}

enum { BALANCED = 2500, BALANCED_BYTES = 2000, BALANCE_MS = 60000 };

static void fill(const char *coll, int n, int pad) {
  mongoc_collection_t *c = mongoc_client_get_collection(router, "test", coll);
  char *text = malloc((size_t)pad + 1);
  memset(text, 'x', (size_t)pad);
  text[pad] = 0;
  for (int i = 0; i < n;) {
    mongoc_bulk_operation_t *bulk = mongoc_collection_create_bulk_operation_with_opts(c, NULL);
    bson_error_t why;
    for (int end = i + 250 < n ? i + 250 : n; i < end; i++) {
      bson_t *doc = BCON_NEW("customerId", BCON_INT32(i), "pad", BCON_UTF8(text));
      mongoc_bulk_operation_insert(bulk, doc);
      bson_destroy(doc);
    }
    if (!mongoc_bulk_operation_execute(bulk, NULL, &why)) fail_msg("%s", why.message);
    mongoc_bulk_operation_destroy(bulk);
  }
  free(text);
  mongoc_collection_destroy(c);
}

static bool compliant(void) {
  bson_t reply;
  bson_iter_t it;
  bool is = command(router, "admin", &reply, "{'balancerCollectionStatus':'test.spread'}") &&
            bson_iter_init_find(&it, &reply, "balancerCompliant") && bson_iter_bool(&it);
  bson_destroy(&reply);
  return is;
}

// The config server's primary steps down in the middle of a round: the next one's balancer takes over.
static void balancer_follows_primary(void **state) {
  struct process *donor = set_primary(&cluster.shards[0]);
  must(router, "admin", "{'shardCollection':'test.spread','key':{'customerId':1}}");
  must(router, "config",
       "{'update':'settings','updates':[{'q':{'_id':'chunksize'},'u':{'$set':{'value':1}},'upsert':true}]}");
  fill("spread", BALANCED, BALANCED_BYTES);
  assert_false(compliant());
  for (int i = 0; i < MEMBERS; i++) {
    mongoc_client_t *c = client_of(&cluster.config.members[i]);
    must(c, "admin", "{'setParameter':1,'balancerRoundIntervalMs':100}");
    must(c, "admin", "{'setParameter':1,'balancerMigrationsThrottlingMs':0}");
    mongoc_client_destroy(c);
  }
  int64_t before = point_set(donor, "moveChunkHangAtStep4", "alwaysOn");
  must(router, "admin", "{'balancerStart':1}");
  point_wait(donor, "moveChunkHangAtStep4", before);
  (void)set_step_down_primary(&cluster.config);
  (void)point_set(donor, "moveChunkHangAtStep4", "off");
  for (int64_t end = now_ms() + BALANCE_MS; !compliant(); wait_ms(100)) {
    if (now_ms() > end) fail_msg("test.spread is not balanced");
  }
  must(router, "admin", "{'balancerStop':1}");
  assert_int_equal(count_documents(router, "test", "spread", "{}"), BALANCED);
  wait_until_settled();
  must(router, "test", "{'drop':'spread'}");
}

// --- secondaries ---

enum { SCANNED = 1500, SCANS = 4 };

static mongoc_cursor_t *scan_secondaries(mongoc_collection_t *coll) {
  bson_t all = BSON_INITIALIZER, *opts = BCON_NEW("batchSize", BCON_INT32(100));
  mongoc_read_prefs_t *prefs = mongoc_read_prefs_new(MONGOC_READ_SECONDARY);
  mongoc_cursor_t *cursor = mongoc_collection_find_with_opts(coll, &all, opts, prefs);
  mongoc_read_prefs_destroy(prefs);
  bson_destroy(opts);
  return cursor;
}

static void note(const bson_t *doc, char seen[SCANNED]) {
  bson_iter_t it;
  assert_true(bson_iter_init_find(&it, doc, "customerId"));
  seen[bson_iter_as_int64(&it)]++;
}

// Goes to the end. Each document was there all the time: it comes exactly once, or the scan says that it failed.
static bool finish_scan(mongoc_cursor_t *cursor, char seen[SCANNED]) {
  const bson_t *doc;
  bson_error_t why;
  while (mongoc_cursor_next(cursor, &doc)) note(doc, seen);
  bool failed = mongoc_cursor_error(cursor, &why);
  if (failed) print_message("the scan ended with: %s\n", why.message);
  mongoc_cursor_destroy(cursor);
  for (int i = 0; i < SCANNED; i++) {
    if (seen[i] > 1 || (!failed && seen[i] != 1)) fail_msg("document %d came %d times", i, seen[i]);
  }
  return !failed;
}

// Deletions follow a move at once and reach the secondaries while a router that does not know of the move reads there.
static void secondaries_while_moving(void **state) {
  fill("moving", SCANNED, 10);
  mongoc_collection_t *coll = mongoc_client_get_collection(stale, "test", "moving");
  int whole = 0;
  for (int i = 0; i < SCANS; i++) {
    char before[SCANNED] = {0}, after[SCANNED] = {0};
    const bson_t *doc;
    mongoc_cursor_t *open = scan_secondaries(coll);
    assert_true(mongoc_cursor_next(open, &doc));
    note(doc, before);
    moves_until_on(router, 1 - moves_owner(router));
    whole += finish_scan(scan_secondaries(coll), after); // by the table of before the move
    wait_until_settled();
    (void)finish_scan(open, before);
    char fresh[SCANNED] = {0};
    whole += finish_scan(scan_secondaries(coll), fresh);
  }
  assert_int_equal(whole, 2 * SCANS); // a scan that begins after the move ends well
  mongoc_collection_destroy(coll);
  moves_delete_all(router);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(statement_waits_over_section, all_go_on),
      cmocka_unit_test_teardown(donor_wakes_up_late, all_go_on),
      cmocka_unit_test_teardown(donor_stopped_over_commit, all_go_on),
      cmocka_unit_test_teardown(config_primary_wakes_up, all_go_on),
      cmocka_unit_test_teardown(no_config_primary, all_go_on),
      cmocka_unit_test_teardown(balancer_follows_primary, all_go_on),
      cmocka_unit_test_teardown(secondaries_while_moving, all_go_on),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
