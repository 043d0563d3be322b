// Bytes, documents, commands and flags that nobody should send: a clear error or a closed connection, and the daemon
// goes on.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/message.h"
#include "tests/integration/harness.h"

static struct cluster the_cluster;

static int dial(const struct process *p) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)p->port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  struct timeval limit = {.tv_sec = 2};
  (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
  return fd;
}

// Sends bytes, closes our half, reads until the other side closes; it must, within the socket's time-out. Returns how
// many messages came back.
static int throw_at(const struct process *p, const uint8_t *bytes, size_t n) {
  int fd = dial(p);
  (void)signal(SIGPIPE, SIG_IGN);
  (void)!write(fd, bytes, n);
  (void)shutdown(fd, SHUT_WR);
  uint8_t room[4096];
  struct buf replies = {0};
  ssize_t got;
  while ((got = read(fd, room, sizeof room)) > 0) buf_add(&replies, room, (size_t)got);
  (void)close(fd);
  int count = 0;
  for (uint32_t at = 0, len; at + 4 <= replies.len && (memcpy(&len, replies.data + at, 4), len >= 16); at += len)
    count++;
  buf_free(&replies);
  return count;
}

static void still_alive(struct process *p) {
  if (!process_runs(p)) fail_msg("%s died", p->name);
  mongoc_client_t *c = client_of(p);
  must(c, "admin", "{'ping':1}");
  mongoc_client_destroy(c);
}

static void each_daemon(void (*fn)(struct process *p)) {
  struct process *all[] = {&the_cluster.routers[0], &the_cluster.config, &the_cluster.shards[0]};
  for (size_t i = 0; i < 3; i++) {
    fn(all[i]);
    still_alive(all[i]);
  }
}

static void good_message(struct buf *b) {
  bson_t body = BSON_INITIALIZER;
  BSON_APPEND_UTF8(&body, "insert", "t");
  BSON_APPEND_UTF8(&body, "$db", "test");
  bson_t doc = BSON_INITIALIZER;
  BSON_APPEND_INT32(&doc, "a", 1);
  struct sequence s = {.name = "documents", .data = bson_get_data(&doc), .len = doc.len, .count = 1};
  message_write(b, 7, 0, 0, &body, &s, 1);
  bson_destroy(&doc);
  bson_destroy(&body);
}

static void broken_bytes(struct process *p) {
  struct buf good = {0};
  good_message(&good);
  for (size_t n = 0; n < good.len; n += 3) (void)throw_at(p, good.data, n);
  unsigned seed = 12345;
  for (int i = 0; i < 300; i++) {
    uint8_t *copy = malloc(good.len);
    memcpy(copy, good.data, good.len);
    for (int k = 0; k < 3; k++) {
      seed = seed * 1103515245U + 12345U;
      copy[(seed >> 8) % good.len] = (uint8_t)(seed >> 24);
    }
    (void)throw_at(p, copy, good.len);
    free(copy);
  }
  static const uint8_t lengths[][16] = {{0},
                                        {255, 255, 255, 127, 1, 0, 0, 0, 0, 0, 0, 0, 0xDD, 7, 0, 0},
                                        {255, 255, 255, 255},
                                        {15},
                                        {17, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4}};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) (void)throw_at(p, lengths[i], 16);
  (void)throw_at(p, (const uint8_t *)"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27);
  buf_free(&good);
}

static void bytes(void **state) {
  each_daemon(broken_bytes);
}

// Nested deeper than is allowed: an error, not a closed connection (what is sent after it is answered), and not a
// crash.
static void deep(struct process *p) {
  bson_t *doc = bson_new();
  for (int i = 0; i < 250; i++) {
    bson_t *outer = bson_new();
    BSON_APPEND_DOCUMENT(outer, "a", doc);
    bson_destroy(doc);
    doc = outer;
  }
  bson_t body = BSON_INITIALIZER;
  BSON_APPEND_UTF8(&body, "find", "t");
  BSON_APPEND_DOCUMENT(&body, "filter", doc);
  BSON_APPEND_UTF8(&body, "$db", "test");
  struct buf b = {0};
  message_write(&b, 9, 0, 0, &body, NULL, 0);
  struct buf ping = {0};
  bson_t ping_body = BSON_INITIALIZER;
  BSON_APPEND_INT32(&ping_body, "ping", 1);
  BSON_APPEND_UTF8(&ping_body, "$db", "admin");
  message_write(&ping, 10, 0, 0, &ping_body, NULL, 0);
  buf_add(&b, ping.data, ping.len);
  assert_int_equal(throw_at(p, b.data, b.len), 2);
  buf_free(&ping);
  buf_free(&b);
  bson_destroy(&ping_body);
  bson_destroy(&body);
  bson_destroy(doc);
}

static void nesting(void **state) {
  each_daemon(deep);
}

static void wrong_commands(struct process *p) {
  mongoc_client_t *c = client_of(p);
  assert_int_equal(must_fail(c, "test", "{'noSuchCommand':1}"), 59);
  assert_int_equal(must_fail(c, "test", "{'listShards':1}"), strcmp(p->program, "mongos") == 0 ? 13 : 59);
  must_fail(c, "test", "{'find':5}");
  must_fail(c, "test", "{'find':''}");
  must_fail(c, "test", "{'find':'t','filter':7}");
  must_fail(c, "test", "{'find':'t','filter':{'a':{'$nope':1}}}");
  must_fail(c, "test", "{'find':'t','sort':{'a':'x'}}");
  must_fail(c, "test", "{'find':'t','limit':-1}");
  must_fail(c, "test", "{'find':'t','skip':-1}");
  must_fail(c, "test", "{'aggregate':'t','pipeline':[{'$nope':1}],'cursor':{}}");
  must_fail(c, "test", "{'aggregate':'t','pipeline':7,'cursor':{}}");
  must_fail(c, "test", "{'insert':'t'}");
  must_fail(c, "test", "{'insert':'t','documents':[]}");
  must_fail(c, "test", "{'insert':'t','documents':[5]}");
  must_fail(c, "test", "{'insert':'t','documents':[{'_id':[1]}]}");
  must_fail(c, "test", "{'update':'t','updates':[{'q':{},'u':{'$nope':{'a':1}}}]}");
  must_fail(c, "test", "{'update':'t','updates':[{'q':{},'u':{'a':1},'multi':true}]}");
  must_fail(c, "test", "{'delete':'t','deletes':[{'q':{}}]}");
  must_fail(c, "test", "{'getMore':{'$numberLong':'77'},'collection':'t'}");
  must_fail(c, "test", "{'createIndexes':'t','indexes':[{'key':{'a':'2d'},'name':'x'}]}");
  must_fail(c, "te.st", "{'find':'t'}");
  mongoc_client_destroy(c);
}

static void commands(void **state) {
  each_daemon(wrong_commands);
}

static int run_and_capture(const char *arguments, char *text, size_t size) {
  char cmd[1024];
  (void)snprintf(cmd, sizeof cmd, "%s/%s 2>&1", getenv("BIN") ? getenv("BIN") : "build", arguments);
  FILE *f = popen(cmd, "r");
  assert_non_null(f);
  size_t n = fread(text, 1, size - 1, f);
  text[n] = 0;
  int status = pclose(f);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// A start that cannot be: exit code 1, one line that says what is wrong.
static void refuses(const char *arguments, const char *says) {
  char text[8192];
  int code = run_and_capture(arguments, text, sizeof text);
  if (code != 1 || !strstr(text, says)) fail_msg("%s: exit %d, said: %s", arguments, code, text);
}

static void flags(void **state) {
  char folder[256], arguments[700];
  folder_make(folder);
  refuses("mongos --nope", "unknown option '--nope'");
  refuses("mongos", "--configdb");
  refuses("mongos --configdb nonsense", "nonsense");
  refuses("mongos --port 99999 --configdb cfg/127.0.0.1:1", "out of range");
  refuses("shardd --replSet x --dbpath /no/such/folder --port 11999", "/no/such/folder");
  refuses("configsvr --config /no/such/file", "/no/such/file");
  (void)snprintf(arguments, sizeof arguments, "shardd --replSet x --dbpath %s --port %d", folder,
                 the_cluster.config.port);
  refuses(arguments, "taken");
  // Another member's directory, while it runs and by another kind of daemon.
  (void)snprintf(arguments, sizeof arguments, "shardd --replSet sh1 --dbpath %s/sh1 --port 11998", the_cluster.folder);
  refuses(arguments, "another process");
  struct process lone;
  member_start(&lone, folder, "shardd", "lone", "");
  assert_int_equal(process_end(&lone, SIGTERM), 0);
  (void)snprintf(arguments, sizeof arguments, "configsvr --replSet lone --dbpath %s/lone --port 11997", folder);
  refuses(arguments, "shardd");
  (void)snprintf(arguments, sizeof arguments, "shardd --replSet other --dbpath %s/lone --port 11997", folder);
  refuses(arguments, "lone");
  (void)snprintf(arguments, sizeof arguments,
                 "shardd --replSet lone --dbpath %s/lone --port 11997 --pidfilepath /no/such/pid", folder);
  refuses(arguments, "cannot write the pid file /no/such/pid as user");
  refuses("mongos --configdb cfg/127.0.0.1:1 --logpath /no/such/log", "cannot write the log file /no/such/log as user");
  char text[8192];
  assert_int_equal(run_and_capture("shardd --help", text, sizeof text), 0);
  assert_non_null(strstr(text, "--dbpath"));
  assert_int_equal(run_and_capture("mongos --version", text, sizeof text), 0);
  assert_memory_equal(text, "mongos version v8.0.", 20); // as tools that start clusters look for it
  assert_int_equal(run_and_capture("shardd --version", text, sizeof text), 0);
  assert_memory_equal(text, "db version v8.0.", 16);
  // The directory that was refused three times still works.
  process_start(&lone);
  assert_int_equal(process_end(&lone, SIGTERM), 0);
  folder_remove(folder);
}

static int start(void **state) {
  cluster_start(&the_cluster, 1, 1, "");
  return 0;
}

static int stop(void **state) {
  cluster_stop(&the_cluster);
  return 0;
}

int main(void) {
  mongoc_init();
  const struct CMUnitTest tests[] = {cmocka_unit_test(bytes), cmocka_unit_test(nesting), cmocka_unit_test(commands),
                                     cmocka_unit_test(flags)};
  int failed = cmocka_run_group_tests(tests, start, stop);
  mongoc_cleanup();
  return failed;
}
