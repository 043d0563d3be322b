// A set of one member on a real store and a real log: initiate, elect itself, write, restart, be killed while it writes
// (a hundred times: nothing that was acknowledged is lost).
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/bson/doc.h"
#include "common/repl/repl_internal.h"
#include "common/repl/write.h"
#include "common/store/scan.h"

enum { KILLS = 100, WRITERS = 4, MOST = 100000 };

struct member_fixture { // one running member
  char dir[64];
  struct loop *loop;
  struct store *store;
  struct cluster_clock clock;
  struct repl *r;
  uint64_t applied_calls, last_applied;
  int stepping_up, became_primary;
};

static const uint8_t uuid[16] = {1, 2, 3};

static void on_applied(void *ctx, uint64_t index, const bson_t *entry) {
  struct member_fixture *f = ctx;
  f->applied_calls++;
  assert_true(index > f->last_applied);
  f->last_applied = index;
}

static void on_stepping_up(struct operation *op, void *ctx) {
  struct member_fixture *f = ctx;
  f->stepping_up++;
  assert_false(repl_is_primary(f->r));
}

static void on_role(void *ctx, enum member_state state, int64_t term) {
  struct member_fixture *f = ctx;
  if (state == MEMBER_PRIMARY) f->became_primary++;
}

static bool open_member(struct operation *op, struct member_fixture *f, const char *set, const char *role,
                        struct error *err) {
  struct store_options so = {.dbpath = f->dir, .role = role};
  f->loop = op->loop;
  f->store = store_open(&so, err);
  if (!f->store) return false;
  struct repl_options ro = {.set_name = set,
                            .dbpath = f->dir,
                            .role = role,
                            .store = f->store,
                            .clock = &f->clock,
                            .self = "127.0.0.1:27018"};
  struct repl_hooks hooks = {f, on_applied, on_stepping_up, on_role};
  f->applied_calls = f->last_applied = 0;
  f->stepping_up = f->became_primary = 0;
  f->r = repl_start(op, op->loop, &ro, &hooks, err);
  if (f->r) return true;
  store_close(f->store);
  return false;
}

static void must_open(struct operation *op, struct member_fixture *f) {
  struct error err = {0};
  if (!open_member(op, f, "rs0", "shardd", &err)) fail_msg("%s", err.message);
}

static void close_member(struct operation *op, struct member_fixture *f) {
  repl_stop(op, f->r);
  store_close(f->store);
}

static void make_dir(struct member_fixture *f) {
  strcpy(f->dir, "/tmp/shardlet-member-XXXXXX");
  assert_non_null(mkdtemp(f->dir));
}

static void remove_dir(const struct member_fixture *f) {
  char command[128];
  (void)snprintf(command, sizeof command, "rm -rf '%s'", f->dir);
  assert_int_equal(system(command), 0);
}

static void wait_primary(struct operation *op, struct member_fixture *f) {
  op_deadline_in(op, 20000, ERR_MaxTimeMSExpired);
  struct error err;
  if (!repl_wait_primary(op, f->r, &err)) fail_msg("%s", err.message);
  op->deadline_ms = OPERATION_NO_DEADLINE;
}

// Each piece runs in an operation of its own, so that what it wrote with is gone when the member is closed.
struct piece {
  void (*fn)(struct operation *op, struct member_fixture *f);
  struct member_fixture *f;
};

static void run_piece(struct operation *op, size_t i, void *ctx) {
  struct piece *p = ctx;
  if (i == 0) p->fn(op, p->f);
}

static void in_piece(struct operation *op, struct member_fixture *f,
                     void (*fn)(struct operation *op, struct member_fixture *f)) {
  struct piece p = {fn, f};
  op_parallel(op, 2, run_piece, &p); // two, because a single one runs in the caller's operation
}

// --- writing ---

static void create_collection(struct operation *op, struct member_fixture *f) {
  bson_t empty = BSON_INITIALIZER;
  struct write *w = write_begin(op, f->r);
  change_create(write_changes(w), uuid, "db.c", &empty, store_next_file_id(f->store), &empty, &empty);
  assert_true(write_commit(op, w, NULL));
}

static bool insert(struct operation *op, struct member_fixture *f, int64_t id, struct error *err) {
  struct collection *c = store_collection(f->store, "db.c");
  struct write *w = write_begin(op, f->r);
  bson_t doc = BSON_INITIALIZER;
  BSON_APPEND_INT64(&doc, "_id", id);
  BSON_APPEND_UTF8(&doc, "text", "some words that make it a little longer");
  change_put(write_changes(w), c, c->files[0]->id, collection_next_rid(c), &doc);
  bson_destroy(&doc);
  return write_commit(op, w, err);
}

static bool is_there(struct operation *op, struct member_fixture *f, int64_t id) {
  bson_value_t v = value_int64(id);
  uint32_t file;
  int64_t rid;
  const bson_t *doc;
  struct collection *c = store_collection(f->store, "db.c");
  return c && store_find_id(c, op->arena, &v, &file, &rid, &doc);
}

// --- killed while it writes ---

struct shared {               // by parent and children
  int64_t next;               // id to be written
  uint8_t acknowledged[MOST]; // by id
  int64_t starts, slowest_ms, checked;
};

static volatile struct shared *shared;

static void writer_fiber(struct operation *op, void *arg) {
  for (;;) {
    int64_t id = ++shared->next;
    if (id >= MOST || !insert(op, arg, id, NULL)) abort();
    shared->acknowledged[id] = 1;
    arena_reset(op->arena);
  }
}

static void check_acknowledged(struct operation *op, struct member_fixture *f) {
  for (int64_t id = 1; id <= shared->next; id++) {
    if (!shared->acknowledged[id]) continue; // under way when the process was killed: there or not
    shared->checked++;
    if (is_there(op, f, id)) continue;
    (void)fprintf(stderr, "lost: %lld\n", (long long)id);
    abort();
  }
}

static void child_main(struct operation *op, void *arg) {
  static struct member_fixture f;
  int64_t start = clock_mono_ms();
  f = *(struct member_fixture *)arg;
  struct error err;
  if (!open_member(op, &f, "rs0", "shardd", &err)) abort();
  if (!repl_config(f.r) && !repl_initiate(op, f.r, NULL, &err)) abort();
  if (!repl_wait_primary(op, f.r, &err)) abort();
  int64_t took = clock_mono_ms() - start;
  if (took > shared->slowest_ms) shared->slowest_ms = took;
  shared->starts++;
  if (!store_collection(f.store, "db.c")) create_collection(op, &f);
  check_acknowledged(op, &f);
  for (int i = 0; i < WRITERS; i++) (void)operation_start(op->loop, "writer", writer_fiber, &f);
  for (;;) {
    (void)op_sleep(op, 20, NULL);
    store_tick(op, f.store);
    if (random_u64() % 4 == 0) (void)pacing_snapshot(op, f.r);
  }
}

static void test_killed(void **state) {
  static struct member_fixture f;
  make_dir(&f);
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  for (int round = 0; round < KILLS; round++) {
    pid_t pid = fork();
    if (!pid) {
      struct loop *l = loop_new();
      (void)operation_start(l, "child", child_main, &f);
      loop_run(l);
      _exit(1);
    }
    int64_t starts = shared->starts;
    for (int ms = 0; round % 4 && ms < 20000 && shared->starts == starts; ms++) (void)usleep(1000);
    (void)usleep((unsigned)(random_u64() % 40000)); // one in four while it starts, the others while it writes
    int status = 0;
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, &status, 0);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL); // else it ended by itself
  }
  print_message("%lld starts, slowest %lld ms; %lld documents tried, acknowledged ones looked for %lld times\n",
                (long long)shared->starts, (long long)shared->slowest_ms, (long long)shared->next,
                (long long)shared->checked);
  assert_true(shared->starts >= KILLS / 2 && shared->checked > 0);
  (void)munmap((void *)shared, sizeof *shared);
  remove_dir(&f);
}

// --- in this process ---

struct test_run {
  void (*fn)(struct operation *op);
};

static void run_then_stop(struct operation *op, void *arg) {
  ((struct test_run *)arg)->fn(op);
  loop_stop(op->loop);
}

static void in_fiber(void (*fn)(struct operation *op)) {
  struct test_run r = {fn};
  struct loop *l = loop_new();
  (void)operation_start(l, "test", run_then_stop, &r);
  loop_run(l);
  loop_free(l);
}

static void refuse(struct operation *op, struct member_fixture *f, int32_t code, const char *json) {
  struct error err = {0};
  bson_error_t e;
  bson_t *config = bson_new_from_json((const uint8_t *)json, -1, &e);
  assert_non_null(config);
  assert_false(repl_initiate(op, f->r, config, &err));
  if (err.code != code) fail_msg("%s: %d %s", json, err.code, err.message);
  bson_destroy(config);
}

static void refusals(struct operation *op, struct member_fixture *f) {
  refuse(op, f, ERR_InvalidReplicaSetConfig,
         "{\"_id\": \"other\", \"members\": [{\"_id\": 0, \"host\": \"127.0.0.1:27018\"}]}");
  refuse(op, f, ERR_InvalidReplicaSetConfig, "{\"_id\": \"rs0\"}");
  refuse(op, f, ERR_InvalidReplicaSetConfig, "{\"_id\": \"rs0\", \"members\": []}");
  refuse(op, f, ERR_InvalidReplicaSetConfig, "{\"_id\": \"rs0\", \"members\": [{\"_id\": 0, \"host\": \"a:0\"}]}");
  refuse(op, f, ERR_InvalidReplicaSetConfig, "{\"_id\": \"rs0\", \"members\": [{\"_id\": 0}]}");
  refuse(op, f, ERR_InvalidReplicaSetConfig, "{\"_id\": \"rs0\", \"members\": [3]}");
  refuse(op, f, ERR_InvalidReplicaSetConfig,
         "{\"_id\": \"rs0\", \"configsvr\": true, \"members\": [{\"_id\": 0, \"host\": \"127.0.0.1:27018\"}]}");
  refuse(op, f, ERR_InvalidReplicaSetConfig,
         "{\"_id\": \"rs0\", \"members\": [{\"_id\": 0, \"host\": \"127.0.0.1:27018\", \"arbiterOnly\": true}]}");
  refuse(op, f, ERR_InvalidReplicaSetConfig,
         "{\"_id\": \"rs0\", \"members\": [{\"_id\": 0, \"host\": \"127.0.0.1:27018\", \"priority\": 0}]}");
  refuse(op, f, ERR_InvalidReplicaSetConfig,
         "{\"_id\": \"rs0\", \"members\": [{\"_id\": 0, \"host\": \"h:1\"}, {\"_id\": 0, \"host\": \"h:2\"}]}");
  refuse(op, f, ERR_NewReplicaSetConfigurationIncompatible,
         "{\"_id\": \"rs0\", \"version\": 3, \"members\": [{\"_id\": 0, \"host\": \"127.0.0.1:27018\"}]}");
  refuse(op, f, ERR_NodeNotFound, "{\"_id\": \"rs0\", \"members\": [{\"_id\": 0, \"host\": \"elsewhere:27018\"}]}");
  refuse(op, f, 40415, "{\"_id\": \"rs0\", \"members\": [{\"_id\": 0, \"host\": \"127.0.0.1:27018\"}], \"colour\": 1}");
}

static void check_hello(struct member_fixture *f) {
  bson_t hello = BSON_INITIALIZER;
  bson_iter_t it;
  repl_hello(f->r, &hello);
  assert_string_equal(doc_str(&hello, "setName", ""), "rs0");
  assert_string_equal(doc_str(&hello, "me", ""), "127.0.0.1:27018");
  assert_string_equal(doc_str(&hello, "primary", ""), "127.0.0.1:27018");
  assert_true(doc_bool(&hello, "isWritablePrimary", false));
  assert_false(doc_bool(&hello, "secondary", true));
  assert_true(bson_iter_init_find(&it, &hello, "setVersion") && BSON_ITER_HOLDS_INT32(&it));
  assert_true(bson_iter_init_find(&it, &hello, "electionId") && BSON_ITER_HOLDS_OID(&it));
  assert_true(bson_iter_init_find(&it, &hello, "hosts") && BSON_ITER_HOLDS_ARRAY(&it));
  assert_true(doc_has(&hello, "lastWrite"));
  bson_destroy(&hello);
  bson_t status = BSON_INITIALIZER, members, self;
  repl_status(f->r, &status);
  assert_int_equal(doc_i64(&status, "myState", -1), 1);
  assert_true(doc_doc(&status, "members", &members) && doc_doc(&members, "0", &self));
  assert_string_equal(doc_str(&self, "stateStr", ""), "PRIMARY");
  assert_true(doc_bool(&self, "self", false));
  bson_destroy(&status);
}

static void first_writes(struct operation *op, struct member_fixture *f) {
  struct error err;
  create_collection(op, f);
  int64_t start = clock_mono_us();
  for (int64_t id = 1; id <= 100; id++) assert_true(insert(op, f, id, &err));
  print_message("a durable write: %lld us\n", (long long)(clock_mono_us() - start) / 100);
  assert_true(is_there(op, f, 100));
  assert_false(is_there(op, f, 101));
  assert_true(repl_barrier(op, f->r, &err));
  struct optime last = repl_last_applied(f->r);
  assert_true(repl_wait_applied(op, f->r, last.ts, &err));
  assert_true(repl_wait_applied(op, f->r, last.ts + 1000, &err)); // by an entry that does nothing
  assert_true(repl_last_applied(f->r).ts > last.ts + 1000);
}

static void concerns(struct operation *op, struct member_fixture *f) {
  static const struct {
    const char *json;
    int32_t code;
  } cases[] = {{"{\"w\": 1}", 0},
               {"{\"w\": \"majority\"}", 0},
               {"{\"w\": 2}", ERR_UnsatisfiableWriteConcern},
               {"{\"w\": \"here\"}", ERR_UnknownReplWriteConcern},
               {"{}", 0},
               {"{\"w\": 0}", 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct error err = {0};
    bson_t *concern = bson_new_from_json((const uint8_t *)cases[i].json, -1, NULL);
    bool ok = repl_wait_write_concern(op, f->r, repl_last_applied(f->r).index, concern, &err);
    bson_destroy(concern);
    assert_int_equal(ok, cases[i].code == 0);
    if (!ok) assert_int_equal(err.code, cases[i].code);
  }
}

static void reconfigure(struct operation *op, struct member_fixture *f) {
  struct error err;
  bson_t next = BSON_INITIALIZER;
  bson_copy_to_excluding_noinit(repl_config(f->r), &next, "version", NULL);
  BSON_APPEND_INT32(&next, "version", 1);
  assert_false(repl_reconfig(op, f->r, &next, false, &err)); // not newer
  assert_int_equal(err.code, ERR_NewReplicaSetConfigurationIncompatible);
  bson_reinit(&next);
  bson_copy_to_excluding_noinit(repl_config(f->r), &next, "version", NULL);
  BSON_APPEND_INT32(&next, "version", 2);
  assert_true(repl_reconfig(op, f->r, &next, false, &err));
  assert_int_equal(doc_i64(repl_config(f->r), "version", 0), 2);
  bson_destroy(&next);
}

static void stepping_down(struct operation *op, struct member_fixture *f) {
  struct error err;
  assert_false(repl_step_down(op, f->r, 1, 1, false, &err)); // nobody to hand over to
  assert_int_equal(err.code, ERR_ExceededTimeLimit);
  assert_true(repl_is_primary(f->r));
  assert_false(repl_freeze(f->r, 1, &err));
  assert_int_equal(err.code, ERR_NotSecondary);
  assert_true(repl_step_down(op, f->r, 1, 1, true, &err));
  assert_int_equal(repl_state(f->r), MEMBER_SECONDARY);
  assert_false(insert(op, f, 1000, &err));
  assert_int_equal(err.code, ERR_NotWritablePrimary);
  assert_false(repl_step_down(op, f->r, 1, 1, true, &err));
  assert_true(repl_freeze(f->r, 0, &err)); // not any longer
  wait_primary(op, f);
  assert_true(insert(op, f, 1000, &err));
}

static bool count_entries(void *ctx, uint64_t index, int64_t term, const bson_t *entry) {
  assert_true(entry_ts(entry) > 0);
  return ++*(int *)ctx < 50;
}

static void life(struct operation *op) {
  static struct member_fixture f;
  struct error err = {0};
  make_dir(&f);
  must_open(op, &f);
  assert_int_equal(repl_state(f.r), MEMBER_STARTUP);
  bson_t hello = BSON_INITIALIZER;
  repl_hello(f.r, &hello);
  assert_true(doc_bool(&hello, "isreplicaset", false));
  bson_destroy(&hello);
  in_piece(op, &f, refusals);
  int64_t start = clock_mono_ms();
  assert_true(repl_initiate(op, f.r, NULL, &err));
  wait_primary(op, &f);
  print_message("initiated and primary after %lld ms\n", (long long)(clock_mono_ms() - start));
  assert_false(repl_initiate(op, f.r, NULL, &err));
  assert_int_equal(err.code, ERR_AlreadyInitialized);
  assert_int_equal(f.stepping_up, 1);
  assert_int_equal(f.became_primary, 1);
  check_hello(&f);
  in_piece(op, &f, first_writes);
  in_piece(op, &f, concerns);
  in_piece(op, &f, reconfigure);
  in_piece(op, &f, stepping_down);
  uint64_t reached = repl_last_applied(f.r).ts;
  close_member(op, &f);

  start = clock_mono_ms();
  must_open(op, &f);
  assert_true(repl_last_applied(f.r).ts == reached); // from the snapshot, before anything is applied
  wait_primary(op, &f);
  print_message("primary %lld ms after a restart\n", (long long)(clock_mono_ms() - start));
  assert_in_range(f.applied_calls, 1, 2); // its own first entry: nothing was left to replay
  assert_true(is_there(op, &f, 100));
  assert_int_equal(doc_i64(repl_config(f.r), "version", 0), 2);
  int n = 0;
  uint64_t first, last;
  repl_log_bounds(f.r, &first, &last);
  assert_true(repl_read_log(op, f.r, first, count_entries, &n, &err));
  assert_int_equal(n, 50);
  close_member(op, &f);

  assert_false(open_member(op, &f, "rs1", "shardd", &err));
  assert_int_equal(err.code, ERR_InvalidReplicaSetConfig);
  assert_non_null(strstr(err.message, "rs0"));
  remove_dir(&f);
}

static void test_life(void **state) {
  in_fiber(life);
}

// A proposal that is under way when the member stops is answered.
struct late {
  struct member_fixture *f;
  bool ok;
  struct error err;
  bool done;
};

static void late_writer(struct operation *op, void *arg) {
  struct late *l = arg;
  l->ok = insert(op, l->f, 7, &l->err);
  l->done = true;
}

static void stopping(struct operation *op) {
  static struct member_fixture f;
  static struct late l;
  make_dir(&f);
  must_open(op, &f);
  assert_true(repl_initiate(op, f.r, NULL, NULL));
  wait_primary(op, &f);
  in_piece(op, &f, create_collection);
  l = (struct late){.f = &f};
  (void)operation_start(op->loop, "late", late_writer, &l);
  assert_true(op_yield(op, NULL));
  close_member(op, &f);
  assert_true(l.done && l.ok);
  must_open(op, &f);
  wait_primary(op, &f);
  assert_true(is_there(op, &f, 7));
  close_member(op, &f);
  remove_dir(&f);
}

static void test_stopping(void **state) {
  in_fiber(stopping);
}

int main(void) {
  (void)log_open("/dev/null", true, NULL);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_killed), // forks: before this process has a thread pool
      cmocka_unit_test(test_life),
      cmocka_unit_test(test_stopping),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
