// Range files are merged (shardd/file_merge.h) on a set of three members: under writers of every kind, with cursors
// that stay open over it, and with primaries killed in the middle. Every acknowledged write is there exactly once
// afterwards.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/integration/moves.h"
#include "tests/integration/sets.h"

enum {
  MEMBERS = 3,
  WRITERS = 2,
  RANGES = 20,      // moved to sh2 one by one: as many files
  WIDTH = 100,      // of customerId: they span the writers' keys
  STATIC = 480,     // documents that only the second kind of writer changes, beside the others' keys
  GROUPS = 4,       // of them, by field g
  FILLERS = 60,     // documents of 2 KB in each range, so that a copy takes a while
  FEW = 5,          // of files are left, each of about a megabyte
  MERGE_MS = 60000, // for the files to become few
};

static const char suspend[] = "suspendRangeFileMerge";

static struct set_cluster cluster;
static mongoc_client_t *router;

static int start(void **state) {
  set_cluster_start(&cluster, MEMBERS,
                    "--setParameter enableTestCommands=true --setParameter orphanCleanupDelaySecs=0 "
                    "--setParameter rangeFileMergeIntervalSecs=1 --setParameter rangeFileMergeTargetMB=1 "
                    "--setParameter receiveChunkWaitForRangeDeleterTimeoutMS=30000");
  router = client_of(&cluster.routers[0]);
  moves_setup(router);
  must(router, "test", "{'createIndexes':'moving','indexes':[{'key':{'g':1},'name':'g'}]}");
  return 0;
}

static int stop(void **state) {
  mongoc_client_destroy(router);
  set_cluster_stop(&cluster);
  return 0;
}

// --- many small files ---

static void merging(bool on) {
  for (int s = 0; s < SET_SHARDS; s++)
    for (int i = 0; i < MEMBERS; i++) (void)point_set(&cluster.shards[s].members[i], suspend, on ? "off" : "alwaysOn");
}

static void move_range(int i, int to) {
  int64_t end = now_ms() + MOVES_SETTLE_MS;
  bson_t reply;
  while (!command(router, "admin", &reply,
                  "{'moveRange':'test.moving','min':{'customerId':%d},'max':{'customerId':%d},'toShard':'sh%d'}",
                  i * WIDTH, (i + 1) * WIDTH, to + 1)) {
    char *text = bson_as_relaxed_extended_json(&reply, NULL);
    if (now_ms() > end) fail_msg("range %d is not moved: %s", i, text);
    bson_free(text);
    bson_destroy(&reply);
    wait_ms(100);
  }
  bson_destroy(&reply);
}

// Spread over all ranges, and none of the writers' counters has the same customerId.
static int static_key(int i) {
  return i % RANGES * WIDTH + WIDTH / 2 + i / RANGES;
}

static void insert_static(void) {
  for (int i = 0; i < STATIC; i++)
    must(router, "test",
         "{'insert':'moving','documents':[{'_id':'s%d','kind':'static','i':%d,'g':%d,'customerId':%d,'number':-1}]}", i,
         i, i % GROUPS, static_key(i));
}

static void insert_fillers(void) {
  static char pad[2048];
  for (size_t i = 0; i < sizeof pad - 1; i++) pad[i] = 'x';
  for (int i = 0; i < RANGES * FILLERS; i++)
    must(router, "test", "{'insert':'moving','documents':[{'kind':'filler','customerId':%d,'pad':'%s'}]}",
         i % RANGES * WIDTH + WIDTH - 1, pad);
}

static int64_t files_of(const struct process *shard) {
  mongoc_client_t *c = client_of(shard);
  bson_t reply;
  assert_true(command(c, "test", &reply, "{'collStats':'moving'}"));
  int64_t n = reply_i64(&reply, "numRangeFiles");
  bson_destroy(&reply);
  mongoc_client_destroy(c);
  return n;
}

static void wait_merged(int64_t most) {
  int64_t end = now_ms() + MERGE_MS, n;
  while ((n = files_of(set_primary(&cluster.shards[1]))) > most) {
    if (now_ms() > end) fail_msg("there are still %lld files", (long long)n);
    wait_ms(100);
  }
}

static void make_files(void) {
  merging(false);
  insert_static();
  insert_fillers();
  for (int i = 0; i < RANGES; i++) move_range(i, 0);
  for (int i = 0; i < RANGES; i++) move_range(i, 1);
  assert_in_range(files_of(set_primary(&cluster.shards[1])), RANGES, 2 * RANGES);
}

// --- writers of every kind, on the static documents ---

struct tally {
  atomic_int acknowledged, unknown;
};

struct changers {
  atomic_bool stop;
  pthread_t many, single;
  struct tally multi[GROUPS];       // updateMany {$inc: {m: 1}} of a group
  struct tally by_id[STATIC];       // updateOne {_id} {$inc: {u: 1}}
  struct tally find_modify[STATIC]; // findAndModify {customerId, i} {$inc: {f: 1}}
};

static void count_in(struct tally *t, bool ok, bson_t *reply) {
  bson_iter_t it, errors;
  bool failed = !ok || (bson_iter_init(&it, reply) && bson_iter_find_descendant(&it, "writeErrors", &errors));
  atomic_fetch_add(failed ? &t->unknown : &t->acknowledged, 1);
  bson_destroy(reply);
}

// One after the other, so that every switch to a merged file meets one that is on its way.
static void *change_many(void *arg) {
  struct changers *x = arg;
  mongoc_client_t *c = client_of(&cluster.routers[0]);
  for (int g = 0; !atomic_load(&x->stop); g = (g + 1) % GROUPS) {
    bson_t reply;
    bool ok =
        command(c, "test", &reply,
                "{'update':'moving','updates':[{'q':{'g':%d,'kind':'static'},'u':{'$inc':{'m':1}},'multi':true}]}", g);
    count_in(&x->multi[g], ok, &reply);
  }
  mongoc_client_destroy(c);
  return NULL;
}

static void *change_single(void *arg) {
  struct changers *x = arg;
  mongoc_client_t *c = client_of(&cluster.routers[1]);
  for (unsigned n = 0; !atomic_load(&x->stop); n++) {
    int i = (int)(n * 7919U % STATIC);
    bson_t reply;
    bool ok = command(c, "test", &reply, "{'update':'moving','updates':[{'q':{'_id':'s%d'},'u':{'$inc':{'u':1}}}]}", i);
    count_in(&x->by_id[i], ok, &reply);
    ok = command(c, "test", &reply,
                 "{'findAndModify':'moving','query':{'customerId':%d,'i':%d},'update':{'$inc':{'f':1}}}", static_key(i),
                 i);
    count_in(&x->find_modify[i], ok, &reply);
  }
  mongoc_client_destroy(c);
  return NULL;
}

static struct changers *changers_start(void) {
  struct changers *x = calloc(1, sizeof *x);
  assert_int_equal(pthread_create(&x->many, NULL, change_many, x), 0);
  assert_int_equal(pthread_create(&x->single, NULL, change_single, x), 0);
  return x;
}

static void changers_stop(struct changers *x) {
  atomic_store(&x->stop, true);
  (void)pthread_join(x->many, NULL);
  (void)pthread_join(x->single, NULL);
}

static int64_t field(const bson_t *doc, const char *name) {
  int64_t n = reply_i64(doc, name);
  return n < 0 ? 0 : n;
}

static int check(const bson_t *doc, const char *name, struct tally *t) {
  int64_t n = field(doc, name), least = atomic_load(&t->acknowledged), most = least + atomic_load(&t->unknown);
  if (n >= least && n <= most) return 0;
  print_error("s%d: %s is %lld, %lld to %lld were written\n", (int)field(doc, "i"), name, (long long)n,
              (long long)least, (long long)most);
  return 1;
}

static int total(struct tally *t, int n, bool known) {
  int sum = 0;
  for (int i = 0; i < n; i++) sum += atomic_load(known ? &t[i].acknowledged : &t[i].unknown);
  return sum;
}

static void changers_verify(struct changers *x) {
  bson_t filter, opts = BSON_INITIALIZER;
  bson_init(&filter);
  BSON_APPEND_UTF8(&filter, "kind", "static");
  mongoc_collection_t *coll = mongoc_client_get_collection(router, "test", "moving");
  mongoc_cursor_t *cursor = mongoc_collection_find_with_opts(coll, &filter, &opts, NULL);
  static int seen[STATIC];
  int wrong = 0;
  for (int i = 0; i < STATIC; i++) seen[i] = 0;
  for (const bson_t *doc; mongoc_cursor_next(cursor, &doc);) {
    int i = (int)field(doc, "i");
    seen[i]++;
    wrong +=
        check(doc, "m", &x->multi[i % GROUPS]) + check(doc, "u", &x->by_id[i]) + check(doc, "f", &x->find_modify[i]);
  }
  bson_error_t why;
  if (mongoc_cursor_error(cursor, &why)) fail_msg("reading: %s", why.message);
  for (int i = 0; i < STATIC; i++) wrong += seen[i] != 1;
  mongoc_cursor_destroy(cursor);
  mongoc_collection_destroy(coll);
  bson_destroy(&filter);
  print_message("%d multi updates (%d unknown), %d by _id, %d by findAndModify\n", total(x->multi, GROUPS, true),
                total(x->multi, GROUPS, false), total(x->by_id, STATIC, true), total(x->find_modify, STATIC, true));
  free(x);
  assert_int_equal(wrong, 0);
}

// --- cursors that stay open ---

enum { CURSORS = 4 };

static void open_cursors(mongoc_cursor_t *cursors[CURSORS], mongoc_collection_t *coll) {
  static const char *const sorts[CURSORS] = {"{\"batchSize\":7}", "{\"batchSize\":7,\"sort\":{\"customerId\":-1}}",
                                             "{\"batchSize\":7,\"sort\":{\"_id\":1}}",
                                             "{\"batchSize\":7,\"hint\":{\"g\":1}}"};
  bson_t filter;
  bson_init(&filter);
  BSON_APPEND_UTF8(&filter, "kind", "static");
  for (int i = 0; i < CURSORS; i++) {
    bson_error_t why;
    bson_t *opts = bson_new_from_json((const uint8_t *)sorts[i], -1, &why);
    const bson_t *doc;
    cursors[i] = mongoc_collection_find_with_opts(coll, &filter, opts, NULL);
    assert_true(mongoc_cursor_next(cursors[i], &doc));
    bson_destroy(opts);
  }
  bson_destroy(&filter);
}

static void finish_cursors(mongoc_cursor_t *cursors[CURSORS]) {
  for (int i = 0; i < CURSORS; i++) {
    static int seen[STATIC];
    const bson_t *doc;
    bson_error_t why;
    int n = 1, twice = 0; // the first one was read when it was opened
    for (int k = 0; k < STATIC; k++) seen[k] = 0;
    for (; mongoc_cursor_next(cursors[i], &doc); n++) twice += seen[field(doc, "i")]++ > 0;
    if (mongoc_cursor_error(cursors[i], &why)) fail_msg("cursor %d: %s", i, why.message);
    assert_int_equal(twice, 0);
    assert_int_equal(n, STATIC);
    mongoc_cursor_destroy(cursors[i]);
  }
}

// --- what members have ---

// -1: it does not serve reads yet.
static int64_t count_on(const struct process *member) {
  mongoc_client_t *c = client_of(member);
  bson_t reply;
  bool ok = command(c, "test", &reply,
                    "{'count':'moving','query':{'customerId':{'$gte':0}},"
                    "'$readPreference':{'mode':'secondaryPreferred'}}");
  int64_t n = ok ? reply_i64(&reply, "n") : -1;
  bson_destroy(&reply);
  mongoc_client_destroy(c);
  return n;
}

static void members_agree(struct set *s) {
  int64_t end = now_ms() + MOVES_SETTLE_MS;
  for (;; wait_ms(50)) {
    int64_t n[MEMBERS];
    for (int i = 0; i < MEMBERS; i++) n[i] = count_on(&s->members[i]);
    if (n[0] >= 0 && n[0] == n[1] && n[1] == n[2]) return;
    if (now_ms() > end)
      fail_msg("members of %s have %lld, %lld and %lld documents", s->name, (long long)n[0], (long long)n[1],
               (long long)n[2]);
  }
}

static void validate_all(void) {
  for (int s = 0; s < SET_SHARDS; s++) {
    mongoc_client_t *c = client_of(set_primary(&cluster.shards[s]));
    bson_t reply;
    bson_iter_t it;
    assert_true(command(c, "test", &reply, "{'validate':'moving'}"));
    assert_true(bson_iter_init_find(&it, &reply, "valid") && bson_iter_as_bool(&it));
    bson_destroy(&reply);
    mongoc_client_destroy(c);
  }
}

// A primary may change at any time on a machine that has too much to do, and multi deletes are not sent again.
static void delete_until_done(const char *filter) {
  bson_t reply;
  bson_iter_t it, errors;
  bool done = false;
  for (int64_t end = now_ms() + MOVES_SETTLE_MS; !done; wait_ms(20)) {
    done = command(router, "test", &reply, "{'delete':'moving','deletes':[{'q':%s,'limit':0}]}", filter) &&
           !(bson_iter_init(&it, &reply) && bson_iter_find_descendant(&it, "writeErrors", &errors));
    bson_destroy(&reply);
    if (now_ms() > end) fail_msg("%s is not deleted", filter);
  }
}

// --- the tests ---

static void verify_all(struct writers *w, struct changers *x) {
  writers_stop(w);
  changers_stop(x);
  moves_wait_settled(router, set_primary(&cluster.shards[0]), set_primary(&cluster.shards[1]));
  changers_verify(x);
  delete_until_done("{'kind':{'$in':['static','filler']}}");
  writers_verify(w, router);
  writers_free(w);
  members_agree(&cluster.shards[0]);
  members_agree(&cluster.shards[1]);
  validate_all();
  delete_until_done("{}");
}

static const struct process *routers[WRITERS] = {&cluster.routers[0], &cluster.routers[1]};

static void under_writers(void **state) {
  make_files();
  struct writers *w = writers_start(routers, WRITERS);
  struct changers *x = changers_start();
  mongoc_collection_t *coll = mongoc_client_get_collection(router, "test", "moving");
  mongoc_cursor_t *cursors[CURSORS];
  open_cursors(cursors, coll);
  wait_ms(300);
  merging(true);
  wait_merged(FEW);
  wait_ms(300);
  finish_cursors(cursors);
  mongoc_collection_destroy(coll);
  verify_all(w, x);
}

static void a_primary_is_killed(const char *point) {
  print_message("killed at %s\n", point);
  make_files();
  struct writers *w = writers_start(routers, WRITERS);
  struct changers *x = changers_start();
  struct process *primary = set_primary(&cluster.shards[1]);
  if (*point) {
    int64_t before = point_set(primary, point, "alwaysOn");
    merging(true);
    point_wait(primary, point, before);
    wait_ms(200); // more to catch up with
  } else {
    merging(true);
    wait_ms(1500);
  }
  assert_ptr_equal(set_kill_primary(&cluster.shards[1]), primary);
  wait_ms(500);
  set_restart_all(&cluster.shards[1]);
  wait_merged(FEW);
  verify_all(w, x);
}

static void killed_before_the_copy(void **state) {
  a_primary_is_killed("hangRangeFileMergeBeforeCopy");
}

static void killed_after_the_copy(void **state) {
  a_primary_is_killed("hangRangeFileMergeAfterCopy");
}

static void killed_somewhere(void **state) {
  a_primary_is_killed("");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(under_writers),
      cmocka_unit_test(killed_before_the_copy),
      cmocka_unit_test(killed_after_the_copy),
      cmocka_unit_test(killed_somewhere),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
