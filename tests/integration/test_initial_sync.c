// Members that come without the data of their set: emptied, added, long absent. Each catches up by itself while a
// client writes, whatever is killed meanwhile, and has in the end what all others have.
//
// What is written before each is more than a set keeps of its log, so that only a copy helps.
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <cmocka.h>
#include <pthread.h>

#include "tests/integration/harness.h"
#include "tests/integration/raw.h"

enum {
  FOUNDERS = 3,
  MEMBERS = 4,
  LARGE = 4 << 20,      // of a document that fills the log
  LOG_KEEPS = 72 << 20, // more than a set keeps of its log
  CATCH_UP_MS = 60000,
  KILLS = 5,
  LOG_FILE_MOST = 256 << 20, // a snapshot's worth, what is kept for a member that is behind, and a batch
};

struct fixture {
  char *folder;
  struct process members[MEMBERS];
  int n;       // in the set
  int version; // of its configuration
  // The client that goes on writing.
  pthread_t writer;
  bool writing, ends;
  int64_t acknowledged;
};

static void host_of(const struct process *p, char out[32]) {
  (void)snprintf(out, 32, "127.0.0.1:%d", p->port);
}

// --- the set ---

static void launch(struct fixture *f, int i) {
  struct process *p = &f->members[i];
  if (!p->port) {
    *p = (struct process){.program = "shardd", .port = free_port()};
    (void)snprintf(p->name, sizeof p->name, "m%d", i);
    (void)snprintf(p->folder, sizeof p->folder, "%s", f->folder);
    (void)snprintf(p->arguments, sizeof p->arguments, "--replSet rs0");
  }
  process_launch(p);
}

static void empty(struct fixture *f, int i) {
  char command[400];
  (void)process_end(&f->members[i], SIGKILL);
  (void)snprintf(command, sizeof command, "rm -rf '%s/%s'", f->folder, f->members[i].name);
  assert_int_equal(system(command), 0);
}

static void config_of(const struct fixture *f, char *out, size_t size) {
  size_t n = (size_t)snprintf(out, size, "{'_id':'rs0','version':%d,'members':[", f->version);
  for (int i = 0; i < f->n; i++)
    n += (size_t)snprintf(out + n, size - n, "%s{'_id':%d,'host':'127.0.0.1:%d'}", i ? "," : "", i, f->members[i].port);
  (void)snprintf(out + n, size - n, "],'settings':{'electionTimeoutMillis':3000}}");
}

// The member's state as it says itself; -1: no answer.
static int state_of(const struct process *p) {
  mongoc_client_t *c = client_of(p);
  bson_t reply;
  int state = command(c, "admin", &reply, "{'replSetGetStatus':1}") ? (int)reply_i64(&reply, "myState") : -1;
  bson_destroy(&reply);
  mongoc_client_destroy(c);
  return state;
}

static int primary_of(const struct fixture *f) {
  for (int64_t end = now_ms() + CATCH_UP_MS; now_ms() < end; wait_ms(50))
    for (int i = 0; i < f->n; i++)
      if (f->members[i].pid && state_of(&f->members[i]) == 1) return i;
  fail_msg("no primary");
  return -1;
}

static int secondary_of(const struct fixture *f) {
  int primary = primary_of(f);
  return primary == 0 ? 1 : 0;
}

static void wait_for_state(const struct fixture *f, int i, int state) {
  int64_t end = now_ms() + CATCH_UP_MS;
  int now;
  while ((now = state_of(&f->members[i])) != state) {
    if (now == 1 && state == 2) return;
    if (now_ms() > end) fail_msg("%s is in state %d, not %d; see %s", f->members[i].name, now, state, f->folder);
    wait_ms(50);
  }
}

// --- clients ---

static mongoc_client_t *client_of_set(const struct fixture *f) {
  char uri[300], host[32];
  size_t n = (size_t)snprintf(uri, sizeof uri, "mongodb://");
  for (int i = 0; i < FOUNDERS; i++) {
    host_of(&f->members[i], host);
    n += (size_t)snprintf(uri + n, sizeof uri - n, "%s%s", i ? "," : "", host);
  }
  (void)snprintf(uri + n, sizeof uri - n,
                 "/?replicaSet=rs0&retryWrites=true&serverSelectionTryOnce=false&serverSelectionTimeoutMS=30000&"
                 "socketTimeoutMS=10000");
  mongoc_client_t *c = mongoc_client_new(uri);
  assert_non_null(c);
  return c;
}

static void *write_on(void *arg) {
  struct fixture *f = arg;
  mongoc_client_t *c = client_of_set(f);
  mongoc_collection_t *coll = mongoc_client_get_collection(c, "test", "small");
  for (int64_t i = 0; !__atomic_load_n(&f->ends, __ATOMIC_RELAXED);) {
    bson_t *selector = BCON_NEW("_id", BCON_INT64(i));
    bson_t *doc = BCON_NEW("$set", "{", "a", BCON_INT64(i % 97), "b", BCON_UTF8("some text"), "}");
    bson_t *options = BCON_NEW("upsert", BCON_BOOL(true));
    bool ok = mongoc_collection_update_one(coll, selector, doc, options, NULL, NULL);
    bson_destroy(options);
    bson_destroy(doc);
    bson_destroy(selector);
    if (!ok) continue; // the same again: an upsert
    i++;
    __atomic_store_n(&f->acknowledged, i, __ATOMIC_RELAXED);
    if (i % 8 == 0) wait_ms(1);
  }
  mongoc_collection_destroy(coll);
  mongoc_client_destroy(c);
  return NULL;
}

static void start_writing(struct fixture *f) {
  f->ends = false;
  f->writing = pthread_create(&f->writer, NULL, write_on, f) == 0;
  assert_true(f->writing);
}

static void stop_writing(struct fixture *f) {
  if (!f->writing) return;
  __atomic_store_n(&f->ends, true, __ATOMIC_RELAXED);
  (void)pthread_join(f->writer, NULL);
  f->writing = false;
}

// Four documents, replaced again and again.
static void fill_log(struct fixture *f, int64_t bytes) {
  mongoc_client_t *c = client_of_set(f);
  mongoc_collection_t *coll = mongoc_client_get_collection(c, "test", "large");
  char *text = malloc(LARGE);
  memset(text, 'x', LARGE - 1);
  text[LARGE - 1] = 0;
  bson_error_t why;
  for (int i = 0; i * (int64_t)LARGE < bytes; i++) {
    bson_t *selector = BCON_NEW("_id", BCON_INT32(i % 4));
    bson_t *doc = BCON_NEW("_id", BCON_INT32(i % 4), "n", BCON_INT32(i), "text", BCON_UTF8(text));
    bson_t *options = BCON_NEW("upsert", BCON_BOOL(true));
    int64_t end = now_ms() + CATCH_UP_MS; // the same again after an election does no harm
    while (!mongoc_collection_replace_one(coll, selector, doc, options, NULL, &why))
      if (now_ms() > end) fail_msg("%s", why.message);
    bson_destroy(options);
    bson_destroy(doc);
    bson_destroy(selector);
  }
  free(text);
  mongoc_collection_destroy(coll);
  mongoc_client_destroy(c);
}

// --- what a member has ---

struct held {
  uint64_t hash;
  int64_t n;
};

enum { VIEWS = 6 };

static void look(const struct process *p, struct held out[VIEWS]) {
  mongoc_client_t *c = client_of(p);
  out[0].hash = content_hash(c, "test", "small", "{\"sort\":{\"_id\":1}}", &out[0].n);
  out[1].hash = content_hash(c, "test", "small", "{\"sort\":{\"a\":1,\"_id\":1},\"hint\":\"a_1__id_1\"}", &out[1].n);
  out[2].hash = content_hash(c, "test", "large", "{\"sort\":{\"_id\":1}}", &out[2].n);
  out[3].hash = content_hash(c, "test", "late", "{\"sort\":{\"_id\":1}}", &out[3].n);
  out[4].hash = content_hash(c, "config", "ours", "{\"sort\":{\"_id\":1}}", &out[4].n);
  out[5].hash = content_hash(c, "local", "system.replset", "{}", &out[5].n);
  mongoc_client_destroy(c);
}

static bool same(const struct held a[VIEWS], const struct held b[VIEWS]) {
  return !memcmp(a, b, VIEWS * sizeof(struct held));
}

// All members of the set, once nobody writes.
static void compare(struct fixture *f) {
  struct held first[VIEWS], other[VIEWS];
  look(&f->members[primary_of(f)], first);
  assert_true(first[0].n >= f->acknowledged);
  assert_int_equal(first[0].n, first[1].n);
  assert_true(first[4].n > 0 && first[5].n == 1);
  for (int i = 0; i < f->n; i++) {
    wait_for_state(f, i, 2);
    for (int64_t end = now_ms() + CATCH_UP_MS;; wait_ms(100)) {
      look(&f->members[i], other);
      if (same(first, other)) break;
      for (int v = 0; now_ms() > end && v < VIEWS; v++)
        if (memcmp(&first[v], &other[v], sizeof first[v]))
          fail_msg("%s differs in view %d: %lld documents, %lld on the primary; see %s", f->members[i].name, v,
                   (long long)other[v].n, (long long)first[v].n, f->folder);
    }
  }
}

static bool has_synced(const struct fixture *f, int i) {
  char command[500];
  (void)snprintf(command, sizeof command, "grep -q 'Initial sync: the copy is complete' '%s/%s.log'", f->folder,
                 f->members[i].name);
  return system(command) == 0;
}

// --- setting up ---

static int set_up(void **state) {
  struct fixture *f = calloc(1, sizeof *f);
  char config[800];
  *state = f;
  f->folder = malloc(256);
  folder_make(f->folder);
  for (int i = 0; i < FOUNDERS; i++) launch(f, i);
  f->n = FOUNDERS;
  f->version = 1;
  config_of(f, config, sizeof config);
  for (int i = 0; i < FOUNDERS; i++)
    while (process_runs(&f->members[i])) {
      mongoc_client_t *c = client_of(&f->members[i]);
      bson_t reply;
      bool ok = command(c, "admin", &reply, "{'ping':1}");
      bson_destroy(&reply);
      mongoc_client_destroy(c);
      if (ok) break;
      wait_ms(20);
    }
  mongoc_client_t *c = client_of(&f->members[0]);
  must(c, "admin", "{'replSetInitiate':%s}", config);
  mongoc_client_destroy(c);
  c = client_of(&f->members[primary_of(f)]);
  must(c, "test", "{'createIndexes':'small','indexes':[{'key':{'a':1,'_id':1},'name':'a_1__id_1'}]}");
  must(c, "config", "{'insert':'ours','documents':[{'_id':1,'x':'kept'},{'_id':2}]}");
  must(c, "test", "{'insert':'gone','documents':[{'_id':1}]}");
  must(c, "test", "{'insert':'late','documents':[{'_id':1}]}");
  must(c, "test", "{'drop':'gone'}");
  mongoc_client_destroy(c);
  fill_log(f, LOG_KEEPS);
  return 0;
}

static int tear_down(void **state) {
  struct fixture *f = *state;
  stop_writing(f);
  for (int i = 0; i < MEMBERS; i++) {
    if (!f->members[i].pid) continue;
    int status = process_end(&f->members[i], SIGTERM);
    if (!WIFEXITED(status) || WEXITSTATUS(status))
      print_error("%s ended with status %x, see %s\n", f->members[i].name, (unsigned)status, f->folder);
    else
      continue;
    return -1;
  }
  folder_remove(f->folder);
  free(f->folder);
  free(f);
  return 0;
}

// --- tests ---

// A statement that was answered before is answered from its record, also by who has copied that. Sent without the
// client library, which would put a session of its own beside this one.
static void retry_statement(const struct fixture *f) {
  int64_t end = now_ms() + CATCH_UP_MS;
  for (bool done = false; !done;) {
    struct raw r = raw_dial(&f->members[primary_of(f)]);
    bson_t reply;
    done = raw_command(&r, "test", &reply,
                       "{'update':'late','updates':[{'q':{'_id':1},'u':{'$inc':{'n':1}}}],"
                       "'lsid':{'id':{'$binary':{'base64':'AAECAwQFBgcICQoLDA0ODw==','subType':'04'}}},"
                       "'txnNumber':{'$numberLong':'7'}}");
    if (done) assert_int_equal(reply_i64(&reply, "nModified"), 1);
    if (!done && now_ms() > end) fail_msg("%s", bson_as_relaxed_extended_json(&reply, NULL));
    bson_destroy(&reply);
    raw_close(&r);
  }
  mongoc_client_t *c = client_of(&f->members[primary_of(f)]);
  assert_int_equal(count_documents(c, "test", "late", "{\"_id\":1,\"n\":1}"), 1);
  mongoc_client_destroy(c);
}

static bool answers(const struct process *p, const char *command_text) {
  mongoc_client_t *c = client_of(p);
  bson_t reply;
  bool ok = command(c, "admin", &reply, "%s", command_text);
  bson_destroy(&reply);
  mongoc_client_destroy(c);
  return ok;
}

// Primaries step down until it leads. Whoever has stepped down does not stand for 5 s: the second hand-over can only
// be to this member.
static void hand_over_to(const struct fixture *f, int i) {
  int64_t end = now_ms() + CATCH_UP_MS;
  for (int step_downs = 0; primary_of(f) != i; wait_ms(100)) {
    step_downs += answers(&f->members[primary_of(f)], "{'replSetStepDown':5,'secondaryCatchUpPeriodSecs':5}");
    if (now_ms() > end) fail_msg("%s does not lead after %d step-downs", f->members[i].name, step_downs);
  }
}

// A member that comes is given its vote when it has the data, and counts once the others know of it.
static void wait_for_votes(const struct fixture *f) {
  int64_t end = now_ms() + CATCH_UP_MS;
  for (int i = 0; i < FOUNDERS;) {
    mongoc_client_t *c = client_of(&f->members[i]);
    bson_t reply;
    bool all =
        command(c, "admin", &reply, "{'replSetGetStatus':1}") && reply_i64(&reply, "votingMembersCount") == FOUNDERS;
    bson_destroy(&reply);
    mongoc_client_destroy(c);
    if (all)
      i++;
    else if (now_ms() > end)
      fail_msg("%s does not know of %d votes", f->members[i].name, FOUNDERS);
    else
      wait_ms(50);
  }
}

// The primary dies while only this member stands.
static void elect(struct fixture *f, int i) {
  int primary = primary_of(f);
  if (primary != i) {
    int third = FOUNDERS - i - primary;
    assert_true(answers(&f->members[third], "{'replSetFreeze':60}"));
    (void)process_end(&f->members[primary], SIGKILL);
    assert_int_equal(primary_of(f), i);
    assert_true(answers(&f->members[third], "{'replSetFreeze':0}"));
    launch(f, primary);
    wait_for_state(f, primary, 2);
  }
}

static void test_emptied(void **state) {
  struct fixture *f = *state;
  int i = secondary_of(f);
  retry_statement(f);
  start_writing(f);
  empty(f, i);
  wait_ms(200);
  launch(f, i);
  wait_for_state(f, i, 2);
  assert_true(has_synced(f, i));
  stop_writing(f);
  compare(f);
  wait_for_votes(f);
  elect(f, i);
  retry_statement(f);
  assert_true(answers(&f->members[i], "{'replSetStepDown':1,'force':true}"));
  hand_over_to(f, i);
  retry_statement(f);
}

static void test_added(void **state) {
  struct fixture *f = *state;
  char config[800];
  int i = f->n;
  launch(f, i);
  wait_for_state(f, primary_of(f), 1);
  start_writing(f);
  f->n++;
  f->version += 10;
  config_of(f, config, sizeof config);
  for (int64_t end = now_ms() + CATCH_UP_MS;; wait_ms(100)) {
    mongoc_client_t *c = client_of(&f->members[primary_of(f)]);
    bson_t reply;
    bool ok = command(c, "admin", &reply, "{'replSetReconfig':%s}", config);
    bson_destroy(&reply);
    mongoc_client_destroy(c);
    if (ok) break;
    assert_true(now_ms() < end);
  }
  // Until it has everything it is no secondary, and reads nothing.
  bool refused = false;
  for (int now; (now = state_of(&f->members[i])) != 2; wait_ms(5)) {
    if (now != 5 || refused) continue;
    mongoc_client_t *c = client_of(&f->members[i]);
    bson_t reply;
    if (!command(c, "test", &reply, "{'find':'small','$readPreference':{'mode':'secondaryPreferred'}}"))
      refused = reply_i64(&reply, "code") == 13436;
    bson_destroy(&reply);
    mongoc_client_destroy(c);
  }
  assert_true(refused);
  assert_true(has_synced(f, i));
  stop_writing(f);
  compare(f);
}

// Stopped while much is written, with a cursor open: nothing that is kept for it, or for the cursor, grows without
// bound, and it catches up afterwards.
static void test_bounded_log(void **state) {
  struct fixture *f = *state;
  int i = secondary_of(f), primary = primary_of(f);
  mongoc_client_t *c = client_of(&f->members[primary]);
  bson_t reply;
  assert_true(command(c, "test", &reply, "{'find':'small','batchSize':2}"));
  bson_destroy(&reply);
  process_signal(&f->members[i], SIGSTOP);
  fill_log(f, (int64_t)300 << 20);
  struct stat st;
  char path[400];
  (void)snprintf(path, sizeof path, "%s/%s/raft.sqlite", f->folder, f->members[primary].name);
  assert_int_equal(stat(path, &st), 0);
  print_message("after 300 MB: raft.sqlite %lld MB", (long long)st.st_size >> 20);
  assert_true(st.st_size < (off_t)LOG_FILE_MOST);
  (void)snprintf(path, sizeof path,
                 "find '%s/%s' -name '*-wal' -size +100M | grep -q . && exit 1; "
                 "find '%s/%s' -name '*-wal' -printf '%%s\\n' | sort -n | tail -1",
                 f->folder, f->members[primary].name, f->folder, f->members[primary].name);
  assert_int_equal(system(path), 0);
  process_signal(&f->members[i], SIGCONT);
  wait_ms(1000);
  wait_for_state(f, i, 2);
  compare(f);
  mongoc_client_destroy(c);
}

// Killed at random points, and its source too: old or new data, and in the end all of it.
static void test_kills(void **state) {
  struct fixture *f = *state;
  int i = secondary_of(f);
  start_writing(f);
  empty(f, i);
  for (int k = 0; k < KILLS; k++) {
    launch(f, i);
    wait_ms(300 + 350 * k);
    (void)process_end(&f->members[i], SIGKILL);
  }
  launch(f, i);
  while (state_of(&f->members[i]) == -1) wait_ms(10);
  wait_ms(1500);
  int primary = primary_of(f);
  (void)process_end(&f->members[primary], SIGKILL);
  wait_ms(500);
  launch(f, primary);
  wait_for_state(f, i, 2);
  stop_writing(f);
  compare(f);
}

int main(void) {
  mongoc_init();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_emptied),
      cmocka_unit_test(test_added),
      cmocka_unit_test(test_bounded_log),
      cmocka_unit_test(test_kills),
  };
  int failed = cmocka_run_group_tests(tests, set_up, tear_down);
  mongoc_cleanup();
  return failed;
}
