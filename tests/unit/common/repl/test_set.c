// A set of three members, each a process of its own with a real store, log and port: founded, written to, its members
// killed and stopped at random, one added and one removed. Nothing acknowledged is lost, every member ends with the
// same documents.
//
// ROUNDS=n: so many kills and stops.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/bson/doc.h"
#include "common/net/command.h"
#include "common/repl/repl_internal.h"
#include "common/repl/write.h"
#include "common/store/scan.h"

enum { NODES = 4, FOUNDERS = 3, MOST = 200000, WRITERS = 4 };

enum phase { WRITING, COMPARING, ENDING };
enum order { NOTHING, ADD_LAST, REMOVE_FIRST };

struct shared { // by all processes
  enum phase phase;
  enum order order; // for the primary, which sets it back
  int64_t next;
  uint8_t acknowledged[MOST];
  int64_t acknowledgements;
  int64_t primary_term[NODES]; // 0 = is not
  bool equal[NODES];
  int64_t documents[NODES];
  enum member_state state[NODES];
};

static volatile struct shared *shared;
static char base_dir[64];
static int base_port;

static const uint8_t uuid[16] = {1, 2, 3};

struct member_process {
  int n;
  char dir[96], host[32];
  struct store *store;
  struct cluster_clock clock;
  struct remotes *remotes;
  struct repl *r;
  struct server *server;
  struct dispatcher *dispatcher;
};

static void host_of(int n, char *out) {
  (void)snprintf(out, 32, "127.0.0.1:%d", base_port + n);
}

// --- a member's process ---

static bool is_self_run(struct request *r, bson_t *reply, struct error *err) {
  repl_identity(((struct member_process *)r->daemon)->r, reply);
  return true;
}

static bool bootstrap_run(struct request *r, bson_t *reply, struct error *err) {
  return repl_bootstrap(r->op, ((struct member_process *)r->daemon)->r, r->body, err);
}

static bool stream_run(struct request *r, bson_t *reply, struct error *err) {
  return repl_accept(((struct member_process *)r->daemon)->r, r->conn, r->body, err);
}

static bool hello_run(struct request *r, bson_t *reply, struct error *err) {
  repl_hello(((struct member_process *)r->daemon)->r, reply);
  BSON_APPEND_INT32(reply, "minWireVersion", 0);
  BSON_APPEND_INT32(reply, "maxWireVersion", 25);
  return true;
}

static const struct command commands[] = {
    {"hello", "isMaster", CMD_ANY_STATE | CMD_OP_QUERY, hello_run, ""},
    {"_isSelf", NULL, CMD_ANY_STATE | CMD_INTERNAL, is_self_run, ""},
    {"_raftBootstrap", NULL, CMD_ANY_STATE | CMD_INTERNAL, bootstrap_run, ""},
    {"_raftStream", NULL, CMD_ANY_STATE | CMD_INTERNAL, stream_run, ""},
    {0},
};

static void serve(void *ctx, struct operation *op, struct connection *c, const struct message *m, bson_t *reply) {
  dispatch(ctx, op, c, m, reply);
}

static void on_role(void *ctx, enum member_state state, int64_t term) {
  struct member_process *p = ctx;
  shared->primary_term[p->n] = state == MEMBER_PRIMARY ? term : 0;
  shared->state[p->n] = state;
}

static void must(bool ok, const struct error *err, const char *what) {
  if (ok) return;
  (void)fprintf(stderr, "%s: %s\n", what, err->message);
  abort();
}

static void start(struct operation *op, struct member_process *p) {
  struct error err = {0};
  (void)snprintf(p->dir, sizeof p->dir, "%s/%d", base_dir, p->n);
  host_of(p->n, p->host);
  static const struct command *const tables[] = {commands, NULL};
  struct dispatch_hooks dispatch_hooks = {.daemon = p};
  struct store_options so = {.dbpath = p->dir, .role = "shardd"};
  p->store = store_open(&so, &err);
  must(p->store != NULL, &err, "store");
  p->remotes = remotes_new(op->loop, "test");
  struct repl_options ro = {.set_name = "rs0",
                            .dbpath = p->dir,
                            .role = "shardd",
                            .store = p->store,
                            .remotes = p->remotes,
                            .clock = &p->clock,
                            .self = p->host};
  struct repl_hooks hooks = {.ctx = p, .role_changed = on_role};
  p->r = repl_start(op, op->loop, &ro, &hooks, &err);
  must(p->r != NULL, &err, "repl");
  p->dispatcher = dispatcher_new(tables, &dispatch_hooks);
  const char *ip = "127.0.0.1";
  struct server_options server = {
      .bind_ips = &ip, .n_bind_ips = 1, .port = base_port + p->n, .max_connections = 100, .what = "test"};
  p->server = server_listen(op->loop, &server, serve, p->dispatcher, &err);
  must(p->server != NULL, &err, "listen");
}

static void stop(struct operation *op, struct member_process *p) {
  server_close(op, p->server, ERR_ShutdownInProgress, 1000);
  repl_stop(op, p->r);
  remotes_close(p->remotes);
  store_close(p->store);
  dispatcher_free(p->dispatcher);
  loop_stop(op->loop);
}

static bool insert(struct operation *op, struct member_process *p, int64_t id, struct error *err) {
  struct collection *c = store_collection(p->store, "db.c");
  struct write *w = write_begin(op, p->r);
  bson_t empty = BSON_INITIALIZER, doc = BSON_INITIALIZER;
  if (!c) {
    if (!write_lock_namespace(w, "db.c", true))
      return write_wait(op, w, err) && error_set(err, ERR_WriteConflict, "again");
    if (store_collection(p->store, "db.c")) return error_set(err, ERR_WriteConflict, "again");
    change_create(write_changes(w), uuid, "db.c", &empty, store_next_file_id(p->store), &empty, &empty);
    return write_commit(op, w, err) && error_set(err, ERR_WriteConflict, "again");
  }
  BSON_APPEND_INT64(&doc, "_id", id);
  change_put(write_changes(w), c, c->files[0]->id, collection_next_rid(c), &doc);
  bson_destroy(&doc);
  return write_commit(op, w, err);
}

static void writer_fiber(struct operation *op, void *arg) {
  struct member_process *p = arg;
  while (shared->phase == WRITING) {
    arena_reset(op->arena);
    if (!repl_is_primary(p->r)) {
      if (!op_sleep(op, 10, NULL)) return;
      continue;
    }
    int64_t id = __atomic_add_fetch(&shared->next, 1, __ATOMIC_SEQ_CST);
    struct error err;
    if (id < MOST && insert(op, p, id, &err)) {
      shared->acknowledged[id] = 1;
      (void)__atomic_add_fetch(&shared->acknowledgements, 1, __ATOMIC_SEQ_CST);
    }
    if (!op_sleep(op, 2, NULL)) return;
  }
}

static bool all_there(struct operation *op, struct member_process *p) {
  struct collection *c = store_collection(p->store, "db.c");
  for (int64_t id = 1; c && id <= shared->next; id++) {
    bson_value_t v = value_int64(id);
    uint32_t file;
    int64_t rid;
    const bson_t *doc;
    if (shared->acknowledged[id] && !store_find_id(c, op->arena, &v, &file, &rid, &doc)) return false;
    if (id % 1000 == 0) arena_reset(op->arena);
  }
  struct collection_stats stats = {0};
  if (c) collection_stats(c, &stats);
  shared->documents[p->n] = stats.count;
  return c != NULL;
}

// A configuration as an operator would write it: with the last member, or without the first, who must not be primary.
static void reconfigure(struct operation *op, struct member_process *p) {
  const bson_t *old = repl_config(p->r);
  bson_t next = BSON_INITIALIZER, members, m;
  struct error err;
  if (shared->order == REMOVE_FIRST && p->n == 0) {
    if (!repl_step_down(op, p->r, 60, 10, false, &err)) (void)fprintf(stderr, "step down: %s\n", err.message);
    return;
  }
  BSON_APPEND_UTF8(&next, "_id", "rs0");
  BSON_APPEND_INT64(&next, "version", doc_i64(old, "version", 1) + 1);
  BSON_APPEND_ARRAY_BEGIN(&next, "members", &members);
  for (int i = shared->order == REMOVE_FIRST; i < NODES; i++) {
    char key[8], host[32];
    (void)snprintf(key, sizeof key, "%d", i);
    host_of(i, host);
    BSON_APPEND_DOCUMENT_BEGIN(&members, key, &m);
    BSON_APPEND_INT32(&m, "_id", i);
    BSON_APPEND_UTF8(&m, "host", host);
    bson_append_document_end(&members, &m);
  }
  bson_append_array_end(&next, &members);
  if (repl_reconfig(op, p->r, &next, false, &err))
    shared->order = NOTHING;
  else
    (void)fprintf(stderr, "reconfig: %s\n", err.message);
  bson_destroy(&next);
}

static bool found(struct operation *op, struct member_process *p, struct error *err) {
  bson_t config = BSON_INITIALIZER, members, m, settings;
  BSON_APPEND_UTF8(&config, "_id", "rs0");
  BSON_APPEND_ARRAY_BEGIN(&config, "members", &members);
  for (int i = 0; i < FOUNDERS; i++) {
    char key[8], host[32];
    (void)snprintf(key, sizeof key, "%d", i);
    host_of(i, host);
    BSON_APPEND_DOCUMENT_BEGIN(&members, key, &m);
    BSON_APPEND_INT32(&m, "_id", i);
    BSON_APPEND_UTF8(&m, "host", host);
    bson_append_document_end(&members, &m);
  }
  bson_append_array_end(&config, &members);
  BSON_APPEND_DOCUMENT_BEGIN(&config, "settings", &settings);
  BSON_APPEND_INT32(&settings, "electionTimeoutMillis", 800);
  bson_append_document_end(&config, &settings);
  bool ok = repl_initiate(op, p->r, &config, err);
  bson_destroy(&config);
  return ok;
}

static void process_fiber(struct operation *op, void *arg) {
  struct member_process *p = arg;
  struct error err = {0};
  start(op, p);
  while (p->n == 0 && !repl_config(p->r) && !found(op, p, &err)) (void)op_sleep(op, 50, NULL);
  for (int i = 0; i < WRITERS; i++) (void)operation_start(op->loop, "writer", writer_fiber, p);
  while (shared->phase != ENDING) {
    (void)op_sleep(op, 50, NULL);
    store_tick(op, p->store);
    if (repl_is_primary(p->r) && shared->order != NOTHING) reconfigure(op, p);
    if (shared->phase == COMPARING) shared->equal[p->n] = all_there(op, p);
    arena_reset(op->arena);
  }
  stop(op, p);
}

static pid_t launch(int n) {
  pid_t pid = fork();
  if (pid) return pid;
  static struct member_process p;
  char path[128];
  (void)snprintf(path, sizeof path, "%s/%d.log", base_dir, n);
  (void)log_open(path, true, NULL);
  (void)signal(SIGPIPE, SIG_IGN); // as a daemon does
  p.n = n;
  struct loop *l = loop_new();
  (void)operation_start(l, "member", process_fiber, &p);
  loop_run(l);
  loop_free(l);
  exit(0);
}

// --- the test's process ---

static pid_t pids[NODES];

static int primary_now(void) {
  int best = -1;
  for (int i = 0; i < NODES; i++)
    if (shared->primary_term[i] && (best < 0 || shared->primary_term[i] > shared->primary_term[best])) best = i;
  return best;
}

static void check_alive(void) {
  for (int i = 0; i < NODES; i++) {
    int status;
    if (pids[i] && waitpid(pids[i], &status, WNOHANG) == pids[i])
      fail_msg("member %d ended by itself, status %x; logs in %s", i, (unsigned)status, base_dir);
  }
}

// Waits until writes are acknowledged again; how long that took.
static int64_t wait_for_writes(const char *what) {
  int64_t before = shared->acknowledgements, begun = clock_mono_ms();
  while (shared->acknowledgements < before + 3) {
    (void)usleep(2000);
    check_alive();
    if (clock_mono_ms() - begun > 60000) fail_msg("%s: no write within a minute; logs in %s", what, base_dir);
  }
  return clock_mono_ms() - begun;
}

static void kill_member(int n) {
  (void)kill(pids[n], SIGKILL);
  (void)waitpid(pids[n], NULL, 0);
  pids[n] = 0;
  shared->primary_term[n] = 0;
}

static void torment(int rounds) {
  int64_t slowest_kill = 0, slowest_stop = 0;
  for (int round = 0; round < rounds; round++) {
    int victim = primary_now();
    if (victim < 0 || random_u64() % 3 == 0) victim = (int)(random_u64() % FOUNDERS);
    if (random_u64() % 3) {
      kill_member(victim);
      int64_t ms = wait_for_writes("after a kill");
      if (ms > slowest_kill) slowest_kill = ms;
      pids[victim] = launch(victim);
    } else {
      (void)kill(pids[victim], SIGSTOP);
      int64_t term = shared->primary_term[victim];
      shared->primary_term[victim] = 0;
      int64_t ms = wait_for_writes("after a stop");
      if (ms > slowest_stop) slowest_stop = ms;
      if (random_u64() % 2 && primary_now() < 0) shared->primary_term[victim] = term;
      (void)kill(pids[victim], SIGCONT);
    }
    (void)usleep((unsigned)(random_u64() % 800000));
    if (round % 4 == 3) { // all at once
      for (int i = 0; i < FOUNDERS; i++) kill_member(i);
      for (int i = 0; i < FOUNDERS; i++) pids[i] = launch(i);
      (void)wait_for_writes("after killing all");
    }
  }
  print_message("%d rounds; writes again at most %lld ms after a kill, %lld ms after a stop\n", rounds,
                (long long)slowest_kill, (long long)slowest_stop);
}

static void wait_until(bool (*fn)(void), const char *what) {
  for (int64_t begun = clock_mono_ms(); !fn();) {
    (void)usleep(5000);
    check_alive();
    if (clock_mono_ms() - begun > 60000) fail_msg("not within a minute: %s; logs in %s", what, base_dir);
  }
}

static bool last_joined(void) {
  return shared->order == NOTHING && shared->state[NODES - 1] == MEMBER_SECONDARY;
}

static bool first_left(void) {
  return shared->order == NOTHING && shared->state[0] == MEMBER_REMOVED;
}

static bool all_equal(void) {
  for (int i = 1; i < NODES; i++)
    if (!shared->equal[i] || shared->documents[i] != shared->documents[1]) return false;
  return true;
}

static void test_set(void **state) {
  strcpy(base_dir, "/tmp/shardlet-set-XXXXXX");
  assert_non_null(mkdtemp(base_dir));
  base_port = 18000 + getpid() % 2000 * 4;
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < NODES; i++) {
    char dir[96];
    (void)snprintf(dir, sizeof dir, "%s/%d", base_dir, i);
    assert_int_equal(mkdir(dir, 0700), 0);
    pids[i] = launch(i);
  }
  print_message("founded and written to after %lld ms\n", (long long)wait_for_writes("founding"));
  const char *rounds = getenv("ROUNDS");
  torment(rounds ? atoi(rounds) : 6);

  shared->order = ADD_LAST;
  wait_until(last_joined, "the fourth member has joined");
  shared->order = REMOVE_FIRST;
  wait_until(first_left, "the first member knows that it was removed");
  (void)wait_for_writes("with other members");
  shared->phase = COMPARING;
  wait_until(all_equal, "all members have all documents");
  shared->phase = ENDING;
  for (int i = 0; i < NODES; i++) {
    int status = -1;
    (void)waitpid(pids[i], &status, 0);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  print_message("%lld acknowledged of %lld tried; every member has the same %lld\n",
                (long long)shared->acknowledgements, (long long)shared->next, (long long)shared->documents[1]);
  char command[128];
  (void)snprintf(command, sizeof command, "rm -rf '%s'", base_dir);
  assert_int_equal(system(command), 0);
}

static int end_all(void **state) {
  for (int i = 0; i < NODES; i++)
    if (pids[i]) (void)kill(pids[i], SIGKILL);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(test_set, end_all)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
