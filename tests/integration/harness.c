// Starting, watching and ending daemons for the integration tests.
#include "tests/integration/harness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum {
  START_TIMEOUT_MS = 60000,
  END_TIMEOUT_MS = 30000,
  PORTS_FIRST = 12000,
  PORTS_END = 20000,
  PORTS_OF_BLOCK = 400, // more than any program takes in a minute
};

int64_t now_ms(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void wait_ms(int ms) {
  struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
  (void)nanosleep(&t, NULL);
}

void folder_make(char folder[256]) {
  (void)snprintf(folder, 256, "%s/shardlet-test-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
  assert_non_null(mkdtemp(folder));
}

void folder_remove(const char *folder) {
  if (getenv("SHARDLET_KEEP")) return; // to look at the logs
  char cmd[300];
  (void)snprintf(cmd, sizeof cmd, "rm -rf '%s'", folder);
  assert_int_equal(system(cmd), 0);
}

// Programs that run side by side take ports of different blocks. The block is this program's as long as it runs: it
// holds an abstract socket of the block's name.
static int first_port_of_own_block(void) {
  for (int port = PORTS_FIRST; port < PORTS_END; port += PORTS_OF_BLOCK) {
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int n = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "shardlet-test-ports-%d", port);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(fd, (struct sockaddr *)&name, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) == 0)
      return port;
    (void)close(fd);
  }
  fail_msg("every block of ports is taken: %d test programs run", (PORTS_END - PORTS_FIRST) / PORTS_OF_BLOCK);
  return 0;
}

// Below the range that the system takes ports of outgoing connections from, so that nothing takes a daemon's while it
// is down.
int free_port(void) {
  static int first, last;
  if (!first) last = (first = first_port_of_own_block()) - 1;
  for (int tries = 0; tries < PORTS_OF_BLOCK; tries++) {
    int port = last = last < first + PORTS_OF_BLOCK - 1 ? last + 1 : first;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    bool ok = bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
    (void)close(fd);
    if (ok) return port;
  }
  fail_msg("no free port");
  return 0;
}

static const char *bin(void) {
  return getenv("BIN") ? getenv("BIN") : "build";
}

static void run_daemon(struct process *p) {
  char program[300], port[16], log[320], dbpath[320], out[320], rest[sizeof p->arguments];
  char *argv[40];
  int n = 0;
  (void)snprintf(program, sizeof program, "%s/%s", bin(), p->program);
  (void)snprintf(port, sizeof port, "%d", p->port);
  (void)snprintf(log, sizeof log, "%s/%s.log", p->folder, p->name);
  (void)snprintf(out, sizeof out, "%s/%s.out", p->folder, p->name);
  (void)snprintf(dbpath, sizeof dbpath, "%s/%s", p->folder, p->name);
  argv[n++] = program;
  argv[n++] = (char *)"--port";
  argv[n++] = port;
  argv[n++] = (char *)"--logpath";
  argv[n++] = log;
  argv[n++] = (char *)"--logappend";
  if (strcmp(p->program, "mongos") != 0) {
    argv[n++] = (char *)"--dbpath";
    argv[n++] = dbpath;
    (void)mkdir(dbpath, 0700);
  }
  (void)snprintf(rest, sizeof rest, "%s", p->arguments);
  char *save;
  for (char *w = strtok_r(rest, " ", &save); w && n < 39; w = strtok_r(NULL, " ", &save)) argv[n++] = w;
  argv[n] = NULL;
  int fd = open(out, O_WRONLY | O_CREAT | O_APPEND, 0600);
  (void)dup2(fd, STDOUT_FILENO);
  (void)dup2(fd, STDERR_FILENO);
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL); // no daemon outlives its test
  (void)execv(program, argv);
  _exit(127);
}

bool process_runs(struct process *p) {
  if (p->pid && waitpid(p->pid, NULL, WNOHANG) == p->pid) p->pid = 0;
  return p->pid != 0;
}

static bool port_open(int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool ok = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
  (void)close(fd);
  return ok;
}

static void show_end(const struct process *p) {
  char cmd[800];
  (void)snprintf(cmd, sizeof cmd, "echo '--- %s'; tail -n 5 '%s/%s.log' '%s/%s.out' >&2", p->name, p->folder, p->name,
                 p->folder, p->name);
  (void)!system(cmd);
}

// Usable: a router has its port open, a member says that it is primary.
static bool usable(struct process *p) {
  if (!port_open(p->port)) return false;
  mongoc_client_t *c = client_of(p);
  bson_t reply;
  bool ok = command(c, "admin", &reply, "{'hello':1}");
  bson_iter_t it;
  ok = ok && bson_iter_init_find(&it, &reply, "isWritablePrimary") && bson_iter_as_bool(&it);
  bson_destroy(&reply);
  mongoc_client_destroy(c);
  return ok;
}

// A signal that is meant for the daemon may come before it has replaced this program: it must not go to our handlers.
static void as_a_fresh_program(const sigset_t *mask) {
  static const int ours[] = {SIGTERM, SIGINT, SIGHUP};
  for (size_t i = 0; i < sizeof ours / sizeof *ours; i++) (void)signal(ours[i], SIG_DFL);
  (void)sigprocmask(SIG_SETMASK, mask, NULL);
}

void process_launch(struct process *p) {
  sigset_t all, mask;
  assert_int_equal(p->pid, 0);
  (void)sigfillset(&all);
  (void)pthread_sigmask(SIG_SETMASK, &all, &mask);
  p->pid = fork();
  if (p->pid == 0) {
    as_a_fresh_program(&mask);
    run_daemon(p);
  }
  (void)pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

void process_start(struct process *p) {
  process_launch(p);
  int64_t end = now_ms() + START_TIMEOUT_MS;
  while (!usable(p)) {
    if (!process_runs(p) || now_ms() > end) {
      show_end(p);
      fail_msg("%s did not become usable", p->name);
    }
    wait_ms(20);
  }
}

void process_signal(struct process *p, int signal) {
  assert_true(p->pid > 0);
  assert_int_equal(kill(p->pid, signal), 0);
}

int process_end(struct process *p, int signal) {
  if (!p->pid) return 0;
  (void)kill(p->pid, signal);
  (void)kill(p->pid, SIGCONT);
  int64_t end = now_ms() + END_TIMEOUT_MS;
  int status = 0;
  while (waitpid(p->pid, &status, WNOHANG) != p->pid) {
    if (now_ms() > end) {
      show_end(p);
      (void)kill(p->pid, SIGKILL);
      (void)waitpid(p->pid, &status, 0);
      p->pid = 0;
      fail_msg("%s did not end", p->name);
    }
    wait_ms(5);
  }
  p->pid = 0;
  return status;
}

void member_start(struct process *p, const char *folder, const char *program, const char *set, const char *more) {
  *p = (struct process){.program = program, .port = free_port()};
  (void)snprintf(p->name, sizeof p->name, "%s", set);
  (void)snprintf(p->folder, sizeof p->folder, "%s", folder);
  (void)snprintf(p->arguments, sizeof p->arguments, "--replSet %s --initiate 127.0.0.1:%d %s", set, p->port, more);
  process_start(p);
}

void cluster_start(struct cluster *c, int shards, int routers, const char *shard_arguments) {
  *c = (struct cluster){.n_shards = shards, .n_routers = routers};
  folder_make(c->folder);
  member_start(&c->config, c->folder, "configsvr", "cfg", "");
  char add[300] = "";
  for (int i = 0; i < shards; i++) {
    char set[8];
    (void)snprintf(set, sizeof set, "sh%d", i + 1);
    member_start(&c->shards[i], c->folder, "shardd", set, shard_arguments);
    size_t n = strlen(add);
    (void)snprintf(add + n, sizeof add - n, "%s%s/127.0.0.1:%d", n ? ";" : "", set, c->shards[i].port);
  }
  for (int i = 0; i < routers; i++) {
    struct process *p = &c->routers[i];
    *p = (struct process){.program = "mongos", .port = free_port()};
    (void)snprintf(p->name, sizeof p->name, "mongos%d", i);
    (void)snprintf(p->folder, sizeof p->folder, "%s", c->folder);
    (void)snprintf(p->arguments, sizeof p->arguments, "--configdb cfg/127.0.0.1:%d --addShards %s", c->config.port,
                   add);
    process_start(p);
  }
}

static void end_in_order(struct process *p) {
  if (!process_runs(p)) return;
  int status = process_end(p, SIGTERM);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    show_end(p);
    fail_msg("%s ended with status %x", p->name, (unsigned)status);
  }
}

void cluster_stop(struct cluster *c) {
  for (int i = 0; i < c->n_routers; i++) end_in_order(&c->routers[i]);
  for (int i = 0; i < c->n_shards; i++) end_in_order(&c->shards[i]);
  end_in_order(&c->config);
  folder_remove(c->folder);
}

mongoc_client_t *client_of(const struct process *p) {
  char uri[200];
  (void)snprintf(uri, sizeof uri,
                 "mongodb://127.0.0.1:%d/?serverSelectionTimeoutMS=30000&connectTimeoutMS=3000&appname=test%s", p->port,
                 strcmp(p->program, "mongos") != 0 ? "&directConnection=true" : "");
  mongoc_client_t *c = mongoc_client_new(uri);
  assert_non_null(c);
  (void)mongoc_client_set_error_api(c, MONGOC_ERROR_API_VERSION_2);
  return c;
}

static bson_t *parse(const char *fmt, va_list ap) {
  char *text = NULL;
  assert_true(vasprintf(&text, fmt, ap) >= 0);
  for (char *at = text; *at; at++) {
    if (*at == '\'') *at = '"';
  }
  bson_error_t why;
  bson_t *doc = bson_new_from_json((const uint8_t *)text, -1, &why);
  if (!doc) fail_msg("%s: %s", text, why.message);
  free(text);
  return doc;
}

static bool run_command(mongoc_client_t *c, const char *db, bson_t *reply, const char *fmt, va_list ap,
                        bson_error_t *why) {
  bson_t *doc = parse(fmt, ap);
  bool ok = mongoc_client_command_simple(c, db, doc, NULL, reply, why);
  bson_destroy(doc);
  return ok;
}

bool command(mongoc_client_t *c, const char *db, bson_t *reply, const char *fmt, ...) {
  va_list ap;
  bson_error_t why;
  va_start(ap, fmt);
  bool ok = run_command(c, db, reply, fmt, ap, &why);
  va_end(ap);
  return ok;
}

void must(mongoc_client_t *c, const char *db, const char *fmt, ...) {
  va_list ap;
  bson_error_t why = {0};
  bson_t reply;
  va_start(ap, fmt);
  bool ok = run_command(c, db, &reply, fmt, ap, &why);
  va_end(ap);
  bson_iter_t it;
  bool write_errors = bson_iter_init_find(&it, &reply, "writeErrors");
  if (!ok || write_errors) {
    char *text = bson_as_relaxed_extended_json(&reply, NULL);
    fail_msg("%s: %s %s", fmt, why.message, text);
  }
  bson_destroy(&reply);
}

int must_fail(mongoc_client_t *c, const char *db, const char *fmt, ...) {
  va_list ap;
  bson_error_t why = {0};
  bson_t reply;
  va_start(ap, fmt);
  bool ok = run_command(c, db, &reply, fmt, ap, &why);
  va_end(ap);
  int64_t in_batch = reply_i64(&reply, "writeErrors.0.code");
  if (ok && in_batch < 0) fail_msg("%s: succeeded", fmt);
  bson_destroy(&reply);
  return ok ? (int)in_batch : (int)why.code;
}

int64_t reply_i64(const bson_t *reply, const char *dotted_path) {
  bson_iter_t it, found;
  if (!bson_iter_init(&it, reply) || !bson_iter_find_descendant(&it, dotted_path, &found)) return -1;
  return bson_iter_as_int64(&found);
}

static uint64_t hash_of(uint64_t h, const bson_t *doc) {
  const uint8_t *data = bson_get_data(doc);
  for (uint32_t i = 0; i < doc->len; i++) h = (h ^ data[i]) * 0x100000001b3ULL;
  return h;
}

uint64_t content_hash(mongoc_client_t *c, const char *db, const char *coll, const char *options_json, int64_t *n) {
  mongoc_collection_t *from = mongoc_client_get_collection(c, db, coll);
  mongoc_read_prefs_t *prefs = mongoc_read_prefs_new(MONGOC_READ_SECONDARY_PREFERRED);
  bson_t filter = BSON_INITIALIZER, *opts = bson_new_from_json((const uint8_t *)options_json, -1, NULL);
  const bson_t *doc;
  bson_error_t why;
  uint64_t h = 0xcbf29ce484222325ULL;
  mongoc_cursor_t *cursor = mongoc_collection_find_with_opts(from, &filter, opts, prefs);
  *n = 0;
  for (; mongoc_cursor_next(cursor, &doc); ++*n) h = hash_of(h, doc);
  if (mongoc_cursor_error(cursor, &why)) fail_msg("%s.%s: %s", db, coll, why.message);
  mongoc_cursor_destroy(cursor);
  bson_destroy(opts);
  mongoc_read_prefs_destroy(prefs);
  mongoc_collection_destroy(from);
  return h;
}

int64_t count_documents(mongoc_client_t *c, const char *db, const char *coll, const char *filter_json) {
  bson_error_t why;
  bson_t *filter = bson_new_from_json((const uint8_t *)filter_json, -1, &why);
  assert_non_null(filter);
  mongoc_collection_t *collection = mongoc_client_get_collection(c, db, coll);
  int64_t n = mongoc_collection_count_documents(collection, filter, NULL, NULL, NULL, &why);
  if (n < 0) print_error("count: %s\n", why.message);
  mongoc_collection_destroy(collection);
  bson_destroy(filter);
  return n;
}
