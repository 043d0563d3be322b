// A server and its callers in one process on the loopback: commands, pipelining, kills, timeouts, disconnects, hostile
// bytes.
#include <stdlib.h>

#include "common/base/clock.h"
#include "common/bson/doc.h"
#include "common/net/channel.h"
#include "common/net/command.h"
#include "common/net/remote.h"
#include "net_test.h"
#include "proto/reply.h"

struct fixture {
  struct loop *loop;
  struct dispatcher *dispatcher;
  struct server *server;
  struct remotes *remotes;
  char host[32];
  int entered, interrupted; // of `sleep`
  int32_t interrupted_by;
  int writes; // of `note`
  size_t raw_bytes;
  bool raw_closed;
};

static bool run_ping(struct request *r, bson_t *reply, struct error *err) {
  return true;
}

static bool run_hello(struct request *r, bson_t *reply, struct error *err) {
  BSON_APPEND_BOOL(reply, "isWritablePrimary", true);
  return true;
}

static bool run_echo(struct request *r, bson_t *reply, struct error *err) {
  bson_t v;
  if (!request_required_doc(r, "value", &v, err)) return false;
  BSON_APPEND_DOCUMENT(reply, "value", &v);
  BSON_APPEND_UTF8(reply, "db", r->db);
  return true;
}

static bool run_sleep(struct request *r, bson_t *reply, struct error *err) {
  struct fixture *f = r->daemon;
  f->entered++;
  if (op_sleep(r->op, doc_i64(r->body, "ms", 0), err)) return true;
  f->interrupted++;
  f->interrupted_by = err->code;
  return false;
}

static bool run_count(struct request *r, bson_t *reply, struct error *err) {
  struct documents docs;
  bson_t doc;
  int64_t sum = 0;
  if (!request_needs_collection(r, err) || !request_documents(r, "documents", &docs, err)) return false;
  while (documents_next(&docs, &doc)) sum += doc_i64(&doc, "n", 0);
  BSON_APPEND_INT64(reply, "count", (int64_t)docs.count);
  BSON_APPEND_INT64(reply, "sum", sum);
  BSON_APPEND_UTF8(reply, "ns", r->ns);
  return true;
}

static bool run_note(struct request *r, bson_t *reply, struct error *err) {
  struct fixture *f = r->daemon;
  f->writes++;
  return true;
}

static bool run_big(struct request *r, bson_t *reply, struct error *err) {
  size_t n = (size_t)doc_i64(r->body, "bytes", 0);
  char *text = arena_zalloc(r->op->arena, n + 1);
  memset(text, 'x', n);
  bson_append_utf8(reply, "text", -1, text, (int)n);
  return true;
}

static bool run_fail(struct request *r, bson_t *reply, struct error *err) {
  bson_t *extra = arena_bson(r->op->arena);
  BSON_APPEND_UTF8(extra, "ns", "db.c");
  BSON_APPEND_UTF8(reply, "dropped", "with the error");
  (void)error_set(err, ERR_StaleConfig, "stale");
  return error_extra(err, r->op->arena, extra);
}

static bool run_old_fail(struct request *r, bson_t *reply, struct error *err) {
  BSON_APPEND_DOUBLE(reply, "ok", 0);
  BSON_APPEND_UTF8(reply, "errmsg", "no code");
  return true;
}

static void raw_data(void *ctx, const uint8_t *data, size_t len) {
  struct fixture *f = ctx;
  f->raw_bytes += len;
}

static void raw_close(void *ctx) {
  struct fixture *f = ctx;
  f->raw_closed = true;
}

static bool run_upgrade(struct request *r, bson_t *reply, struct error *err) {
  connection_upgrade(r->conn, raw_data, raw_close, r->daemon);
  connection_send_raw(r->conn, "early", 5);
  return true;
}

static bool run_agree(struct request *r, bson_t *reply, struct error *err) {
  connection_set_compressor(r->conn, compressor_by_name("zlib"));
  return true;
}

static const struct command test_commands[] = {
    {"ping", NULL, 0, run_ping, "answers"},
    {"hello", "isMaster", CMD_OP_QUERY, run_hello, "who is there"},
    {"echo", NULL, 0, run_echo, "gives back"},
    {"sleep", NULL, CMD_ADMIN_ONLY, run_sleep, "takes its time"},
    {"sumUp", NULL, CMD_READ, run_count, "sums up"},
    {"note", NULL, CMD_WRITE, run_note, "notes"},
    {"big", NULL, 0, run_big, "answers at length"},
    {"fail", NULL, 0, run_fail, "fails"},
    {"oldFail", NULL, 0, run_old_fail, "fails as commands did once"},
    {"agree", NULL, 0, run_agree, "agrees on a compressor"},
    {"upgrade", NULL, CMD_INTERNAL, run_upgrade, "becomes a stream"},
    {0},
};

static void handle(void *ctx, struct operation *op, struct connection *c, const struct message *m, bson_t *reply) {
  struct fixture *f = ctx;
  dispatch(f->dispatcher, op, c, m, reply);
}

static void setup(struct fixture *f, struct operation *op) {
  static const struct command *const tables[] = {test_commands, NULL};
  static const char *const ips[] = {"127.0.0.1"};
  struct dispatch_hooks hooks = {.daemon = f};
  struct server_options o = {.bind_ips = ips, .n_bind_ips = 1, .max_connections = 100, .what = "test"};
  struct error err;
  *f = (struct fixture){.loop = op->loop, .dispatcher = dispatcher_new(tables, &hooks)};
  f->server = server_listen(op->loop, &o, handle, f, &err);
  EXPECT(f->server != NULL);
  f->remotes = remotes_new(op->loop, "test");
  (void)snprintf(f->host, sizeof f->host, "127.0.0.1:%d", server_port(f->server));
}

static void teardown(struct fixture *f, struct operation *op) {
  remotes_close(f->remotes);
  server_close(op, f->server, ERR_InterruptedAtShutdown, 1000);
  dispatcher_free(f->dispatcher);
}

static bool call(struct fixture *f, struct operation *op, bson_t *body, const bson_t **reply, struct error *err) {
  struct remote_command cmd = {.db = "admin", .body = body};
  bool ok = remote_call(op, f->remotes, f->host, &cmd, reply, err);
  bson_destroy(body);
  return ok;
}

// --- commands ---

static void commands(struct operation *op, void *arg) {
  struct fixture f;
  struct error err;
  const bson_t *reply;
  setup(&f, op);
  EXPECT(call(&f, op, BCON_NEW("ping", BCON_INT32(1)), &reply, &err));
  EXPECT(doc_double(reply, "ok", 0) == 1.0);
  EXPECT(call(&f, op, BCON_NEW("echo", BCON_INT32(1), "value", "{", "a", BCON_INT32(5), "}"), &reply, &err));
  EXPECT(!strcmp(doc_str(reply, "db", ""), "admin"));
  EXPECT(!call(&f, op, BCON_NEW("fail", BCON_INT32(1)), &reply, &err));
  EXPECT(err.code == ERR_StaleConfig && !strcmp(err.message, "stale"));
  EXPECT(err.extra && !strcmp(doc_str(err.extra, "ns", ""), "db.c") && !doc_has(err.extra, "code"));
  EXPECT(reply && !doc_has(reply, "dropped") && !strcmp(doc_str(reply, "codeName", ""), "StaleConfig"));
  EXPECT(!call(&f, op, BCON_NEW("oldFail", BCON_INT32(1)), &reply, &err));
  EXPECT(err.code == ERR_UnknownError && !strcmp(err.message, "no code"));
  EXPECT(!call(&f, op, BCON_NEW("nothing", BCON_INT32(1)), &reply, &err));
  EXPECT(err.code == ERR_CommandNotFound && !strcmp(err.message, "no such command: 'nothing'"));
  size_t created;
  EXPECT(server_connections(f.server, &created) == 1 && created == 1); // all on one connection
  teardown(&f, op);
}

static void test_commands_and_errors(void **state) {
  in_loop(commands, NULL);
}

static void expect_error(struct fixture *f, struct operation *op, bson_t *body, int32_t code) {
  struct error err = {0};
  const bson_t *reply;
  EXPECT(!call(f, op, body, &reply, &err));
  if (err.code != code) (void)fprintf(stderr, "code %d instead of %d: %s\n", err.code, code, err.message);
  EXPECT(err.code == code);
}

static void envelope(struct operation *op, void *arg) {
  struct fixture f;
  struct error err;
  const bson_t *reply;
  setup(&f, op);
  struct remote_command elsewhere = {.db = "test", .body = BCON_NEW("sleep", BCON_INT32(1))};
  EXPECT(!remote_call(op, f.remotes, f.host, &elsewhere, &reply, &err));
  EXPECT(err.code == ERR_Unauthorized && strstr(err.message, "may only be run against the admin database"));
  bson_destroy((bson_t *)(uintptr_t)elsewhere.body);
  expect_error(&f, op, BCON_NEW("ping", BCON_INT32(1), "apiVersion", "2"), ERR_APIVersionError);
  expect_error(&f, op, BCON_NEW("sleep", BCON_INT32(1), "apiVersion", "1", "apiStrict", BCON_BOOL(true)),
               ERR_APIStrictError);
  expect_error(&f, op, BCON_NEW("ping", BCON_INT32(1), "autocommit", BCON_BOOL(false)),
               ERR_OperationNotSupportedInTransaction);
  expect_error(&f, op, BCON_NEW("ping", BCON_INT32(1), "maxTimeMS", BCON_INT32(-1)), ERR_BadValue);
  expect_error(&f, op, BCON_NEW("ping", BCON_INT32(1), "lsid", BCON_INT32(1)), ERR_TypeMismatch);
  expect_error(&f, op, BCON_NEW("ping", BCON_INT32(1), "txnNumber", BCON_INT64(1)), ERR_InvalidOptions);
  expect_error(&f, op, BCON_NEW("ping", BCON_INT32(1), "readConcern", "{", "level", "none", "}"), ERR_BadValue);
  expect_error(&f, op, BCON_NEW("ping", BCON_INT32(1), "$readPreference", "{", "mode", "none", "}"), ERR_FailedToParse);
  expect_error(&f, op, BCON_NEW("echo", BCON_INT32(1)), 40414);
  expect_error(&f, op, BCON_NEW("echo", BCON_INT32(1), "value", "text"), ERR_TypeMismatch);
  expect_error(&f, op, BCON_NEW("sumUp", "a..b\0"), 40414);
  expect_error(&f, op, BCON_NEW("sumUp", ""), ERR_InvalidNamespace);
  expect_error(&f, op, BCON_NEW("sumUp", "a$b"), ERR_InvalidNamespace);
  expect_error(&f, op, BCON_NEW("sumUp", BCON_INT32(3)), ERR_InvalidNamespace);
  EXPECT(call(&f, op, BCON_NEW("ping", BCON_INT32(1), "apiVersion", "1", "comment", "any"), &reply, &err));
  expect_error(&f, op, BCON_NEW("sleep", BCON_INT32(1), "ms", BCON_INT32(10000), "maxTimeMS", BCON_INT32(20)),
               ERR_MaxTimeMSExpired);
  bson_t metrics = BSON_INITIALIZER, sleep;
  dispatcher_metrics(f.dispatcher, &metrics);
  EXPECT(doc_doc(&metrics, "sleep", &sleep) && doc_i64(&sleep, "failed", 0) == 3 && doc_i64(&sleep, "total", 0) == 3);
  bson_destroy(&metrics);
  teardown(&f, op);
}

static void test_envelope(void **state) {
  in_loop(envelope, NULL);
}

static void two_forms(struct operation *op, void *arg) {
  struct fixture f;
  struct error err;
  const bson_t *reply;
  setup(&f, op);
  EXPECT(call(&f, op,
              BCON_NEW("sumUp", "c", "documents", "[", "{", "n", BCON_INT32(1), "}", "{", "n", BCON_INT32(2), "}", "]"),
              &reply, &err));
  EXPECT(doc_i64(reply, "count", 0) == 2 && doc_i64(reply, "sum", 0) == 3);
  expect_error(&f, op, BCON_NEW("sumUp", "c", "documents", "[", BCON_INT32(1), "]"), ERR_TypeMismatch);

  struct buf docs = {0};
  for (int i = 0; i < 50000; i++) {
    bson_t *d = BCON_NEW("n", BCON_INT32(2), "filler", "a document of some length, so that the message is large");
    buf_add(&docs, bson_get_data(d), d->len);
    bson_destroy(d);
  }
  struct sequence s = {.name = "documents", .data = docs.data, .len = docs.len, .count = 50000};
  bson_t *body = BCON_NEW("sumUp", "c");
  struct remote_command cmd = {.db = "test", .body = body, .sequences = &s, .n_sequences = 1};
  EXPECT(remote_call(op, f.remotes, f.host, &cmd, &reply, &err));
  EXPECT(reply && doc_i64(reply, "sum", 0) == 100000 && !strcmp(doc_str(reply, "ns", ""), "test.c"));
  bson_destroy(body);
  buf_free(&docs);
  teardown(&f, op);
}

static void test_documents(void **state) {
  in_loop(two_forms, NULL);
}

static void large_replies(struct operation *op, void *arg) {
  struct fixture f;
  struct error err;
  const bson_t *reply;
  setup(&f, op);
  EXPECT(call(&f, op, BCON_NEW("big", BCON_INT32(1), "bytes", BCON_INT32(16 * 1024 * 1024)), &reply, &err));
  EXPECT(reply && reply->len > 16 * 1024 * 1024);
  expect_error(&f, op, BCON_NEW("big", BCON_INT32(1), "bytes", BCON_INT32(17 * 1024 * 1024)), ERR_BSONObjectTooLarge);
  teardown(&f, op);
}

static void test_large_replies(void **state) {
  in_loop(large_replies, NULL);
}

// --- calls that end early ---

struct caller {
  struct fixture *f;
  struct operation *op;
  struct error err;
  bool ok, ended;
};

static void call_sleep(struct operation *op, void *arg) {
  struct caller *c = arg;
  const bson_t *reply;
  c->op = op;
  c->ok = call(c->f, op, BCON_NEW("sleep", BCON_INT32(1), "ms", BCON_INT32(60000)), &reply, &c->err);
  c->ended = true;
}

static void early_ends(struct operation *op, void *arg) {
  struct fixture f;
  struct error err;
  const bson_t *reply;
  setup(&f, op);
  // A kill of the caller closes its connection, which ends the command on the other side.
  struct caller c = {.f = &f};
  (void)operation_start(op->loop, "caller", call_sleep, &c);
  while (!f.entered && op_sleep(op, 1, &err)) continue;
  operation_kill(c.op, ERR_Interrupted);
  while (!f.interrupted && op_sleep(op, 1, &err)) continue;
  EXPECT(c.ended && c.err.code == ERR_Interrupted);
  EXPECT(f.interrupted_by == ERR_ClientDisconnect);
  // A timeout of the call.
  bool may_have_run = false;
  bson_t *body = BCON_NEW("sleep", BCON_INT32(1), "ms", BCON_INT32(60000));
  struct remote_command cmd = {.db = "admin", .body = body, .timeout_ms = 20, .may_have_run = &may_have_run};
  EXPECT(!remote_call(op, f.remotes, f.host, &cmd, &reply, &err) && err.code == ERR_NetworkTimeout && !reply);
  EXPECT(may_have_run);
  bson_destroy(body);
  // Interrupted from outside.
  c = (struct caller){.f = &f};
  f.entered = 0;
  (void)operation_start(op->loop, "caller", call_sleep, &c);
  while (!f.entered && op_sleep(op, 1, &err)) continue;
  EXPECT(remotes_waiting(f.remotes, f.host) == 1);
  remotes_interrupt(f.remotes, f.host);
  EXPECT(op_sleep(op, 1, &err));
  EXPECT(c.ended && c.err.code == ERR_HostUnreachable);
  // The end of the server.
  c = (struct caller){.f = &f};
  f.entered = 0;
  (void)operation_start(op->loop, "caller", call_sleep, &c);
  while (!f.entered && op_sleep(op, 1, &err)) continue;
  server_close(op, f.server, ERR_InterruptedAtShutdown, 1000);
  while (!c.ended && op_sleep(op, 1, &err)) continue;
  EXPECT(!c.ok && c.err.code == ERR_InterruptedAtShutdown); // the reply still came
  EXPECT(op_sleep(op, 5, &err));                            // until the closed connection has left the pool
  cmd.body = body = BCON_NEW("ping", BCON_INT32(1));
  cmd.timeout_ms = 0;
  EXPECT(!remote_call(op, f.remotes, f.host, &cmd, &reply, &err));
  EXPECT(err.code == ERR_HostUnreachable && !may_have_run);
  bson_destroy(body);
  remotes_close(f.remotes);
  dispatcher_free(f.dispatcher);
}

static void test_early_ends(void **state) {
  in_loop(early_ends, NULL);
}

static void unreachable(struct operation *op, void *arg) {
  struct fixture f;
  struct error err;
  const bson_t *reply;
  setup(&f, op);
  (void)snprintf(f.host, sizeof f.host, "127.0.0.1:1");
  expect_error(&f, op, BCON_NEW("ping", BCON_INT32(1)), ERR_HostUnreachable);
  (void)snprintf(f.host, sizeof f.host, "no.such.name.invalid:1");
  expect_error(&f, op, BCON_NEW("ping", BCON_INT32(1)), ERR_HostNotFound);
  (void)snprintf(f.host, sizeof f.host, "127.0.0.1:x");
  expect_error(&f, op, BCON_NEW("ping", BCON_INT32(1)), ERR_BadValue);
  (void)snprintf(f.host, sizeof f.host, "localhost:%d", server_port(f.server));
  EXPECT(call(&f, op, BCON_NEW("ping", BCON_INT32(1)), &reply, &err));
  teardown(&f, op);
}

static void test_unreachable(void **state) {
  in_loop(unreachable, NULL);
}

// --- raw bytes ---

static uint8_t scratch[CHANNEL_READ_BYTES];

static struct channel *dial(struct fixture *f, struct operation *op) {
  struct error err;
  struct channel *c = channel_open(op, f->host, scratch, loop_now_ms(op->loop) + 10000, &err);
  EXPECT(c != NULL);
  return c;
}

static void add_command(struct buf *to, int32_t id, uint32_t flags, bson_t *body) {
  BSON_APPEND_UTF8(body, "$db", "admin");
  message_write(to, id, 0, flags, body, NULL, 0);
  bson_destroy(body);
}

static bool receive(struct operation *op, struct channel *c, struct message *m) {
  struct error err;
  struct buf bytes;
  if (!channel_receive(op, c, loop_now_ms(op->loop) + 10000, &bytes, &err)) return false;
  uint8_t *data = arena_memdup(op->arena, bytes.data, bytes.len);
  size_t len = bytes.len;
  buf_free(&bytes);
  // What arrived behind it goes back into the frame.
  struct buf early = c->early;
  c->early = (struct buf){0};
  size_t used = 0;
  if (early.len) EXPECT(frame_feed(&c->frame, early.data, early.len, &used, &err));
  if (used < early.len) buf_add(&c->early, early.data + used, early.len - used);
  buf_free(&early);
  return message_parse(op->arena, data, len, m, &err);
}

static void pipelining(struct operation *op, void *arg) {
  struct fixture f;
  setup(&f, op);
  struct channel *c = dial(&f, op);
  struct buf out = {0};
  struct message m;
  bool sent;
  for (int i = 1; i <= 100; i++) {
    add_command(&out, i, 0, BCON_NEW("ping", BCON_INT32(1)));
    add_command(&out, 1000 + i, MSG_MORE_TO_COME, BCON_NEW("note", BCON_INT32(1)));
  }
  EXPECT(channel_send(c, &out, &sent));
  for (int i = 1; i <= 100; i++) EXPECT(receive(op, c, &m) && m.response_to == i); // in order, none for the notes
  EXPECT(f.writes >= 99);
  // Sent and gone: what expects no reply is done all the same.
  buf_clear(&out);
  f.writes = 0;
  for (int i = 0; i < 10; i++) add_command(&out, i, MSG_MORE_TO_COME, BCON_NEW("note", BCON_INT32(1)));
  EXPECT(channel_send(c, &out, &sent));
  channel_close(c);
  struct error err;
  for (int i = 0; i < 5000 && f.writes < 10; i++) EXPECT(op_sleep(op, 1, &err));
  EXPECT(f.writes >= 10);
  buf_free(&out);
  teardown(&f, op);
}

static void test_pipelining(void **state) {
  in_loop(pipelining, NULL);
}

static void dribble(struct operation *op, void *arg) {
  struct fixture f;
  struct error err;
  struct message m;
  setup(&f, op);
  struct channel *c = dial(&f, op);
  struct buf out = {0}, one = {0};
  add_command(&out, 7, 0, BCON_NEW("ping", BCON_INT32(1)));
  for (size_t i = 0; i < out.len; i++) { // a byte a packet
    bool sent;
    buf_clear(&one);
    buf_add(&one, out.data + i, 1);
    EXPECT(channel_send(c, &one, &sent));
    if (i % 8 == 0) EXPECT(op_sleep(op, 1, &err));
  }
  EXPECT(receive(op, c, &m) && m.response_to == 7);
  channel_close(c);
  buf_free(&out);
  buf_free(&one);
  teardown(&f, op);
}

static void test_dribble(void **state) {
  in_loop(dribble, NULL);
}

static void send_hostile(struct fixture *f, struct operation *op, const void *data, size_t len, int32_t expected_code) {
  struct channel *c = dial(f, op);
  struct buf out = {0};
  struct error err;
  struct message m;
  bool sent;
  buf_add(&out, data, len);
  EXPECT(channel_send(c, &out, &sent));
  bool answered = receive(op, c, &m);
  EXPECT(answered && doc_i64(&m.body, "code", 0) == expected_code);
  for (int i = 0; i < 5000 && !c->fail_code; i++) EXPECT(op_sleep(op, 1, &err));
  EXPECT(c->fail_code); // closed by the server
  channel_close(c);
  buf_free(&out);
}

static void hostile(struct operation *op, void *arg) {
  struct fixture f;
  struct error err;
  const bson_t *reply;
  setup(&f, op);
  struct channel *bystander = dial(&f, op);
  static const uint8_t negative[16] = {0xff, 0xff, 0xff, 0xff, 9, 0, 0, 0, 0, 0, 0, 0, 0xdd, 7, 0, 0};
  static const uint8_t huge[16] = {0, 0, 0, 0x7f, 9, 0, 0, 0, 0, 0, 0, 0, 0xdd, 7, 0, 0};
  static const uint8_t unknown[16] = {16, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4};
  static const uint8_t no_sections[20] = {20, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0xdd, 7, 0, 0, 0, 0, 0, 0};
  static const uint8_t bad_document[30] = {30, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0,  0,   0xdd, 7, 0,
                                           0,  0, 0, 0, 0, 0, 9, 0, 0, 0, 99, 'a', 0,    1, 0};
  send_hostile(&f, op, negative, sizeof negative, ERR_ProtocolError);
  send_hostile(&f, op, huge, sizeof huge, ERR_ProtocolError);
  send_hostile(&f, op, unknown, sizeof unknown, ERR_ProtocolError);
  send_hostile(&f, op, no_sections, sizeof no_sections, ERR_ProtocolError);
  send_hostile(&f, op, bad_document, sizeof bad_document, ERR_InvalidBSON);
  send_hostile(&f, op, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27, ERR_ProtocolError);
  EXPECT(!bystander->fail_code);
  EXPECT(call(&f, op, BCON_NEW("ping", BCON_INT32(1)), &reply, &err));
  channel_close(bystander);
  teardown(&f, op);
}

static void test_hostile(void **state) {
  in_loop(hostile, NULL);
}

static void add_query(struct buf *to, int32_t id, bson_t *body) {
  struct buf m = {0};
  buf_add_u32le(&m, 0);
  buf_add_u32le(&m, (uint32_t)id);
  buf_add_u32le(&m, 0);
  buf_add_u32le(&m, OP_QUERY);
  buf_add_u32le(&m, 4);
  buf_add(&m, "admin.$cmd", 11);
  buf_add_u32le(&m, 0);
  buf_add_u32le(&m, UINT32_MAX);
  buf_add(&m, bson_get_data(body), body->len);
  for (int i = 0; i < 4; i++) m.data[i] = (uint8_t)(m.len >> (8 * i));
  buf_add(to, m.data, m.len);
  buf_free(&m);
  bson_destroy(body);
}

static void old_queries(struct operation *op, void *arg) {
  struct fixture f;
  struct message m;
  bool sent;
  setup(&f, op);
  struct channel *c = dial(&f, op);
  struct buf out = {0};
  add_query(&out, 1, BCON_NEW("isMaster", BCON_INT32(1), "helloOk", BCON_BOOL(true)));
  add_query(&out, 2, BCON_NEW("ping", BCON_INT32(1)));
  EXPECT(channel_send(c, &out, &sent));
  EXPECT(receive(op, c, &m) && m.opcode == OP_REPLY && doc_bool(&m.body, "isWritablePrimary", false));
  EXPECT(receive(op, c, &m) && m.opcode == OP_REPLY && doc_i64(&m.body, "code", 0) == ERR_UnsupportedOpQueryCommand);
  channel_close(c);
  buf_free(&out);
  teardown(&f, op);
}

static void test_op_query(void **state) {
  in_loop(old_queries, NULL);
}

// A client that asks for much and reads nothing costs a bounded amount of memory.
static void slow_reader(struct operation *op, void *arg) {
  struct fixture f;
  struct error err;
  const bson_t *reply;
  setup(&f, op);
  struct channel *c = dial(&f, op);
  (void)uv_read_stop((uv_stream_t *)&c->tcp);
  struct buf out = {0};
  bool sent;
  for (int i = 0; i < 100; i++) add_command(&out, i, 0, BCON_NEW("big", BCON_INT32(1), "bytes", BCON_INT32(1000000)));
  EXPECT(channel_send(c, &out, &sent));
  EXPECT(op_sleep(op, 50, &err));
  bson_t metrics = BSON_INITIALIZER, big;
  dispatcher_metrics(f.dispatcher, &metrics);
  EXPECT(doc_doc(&metrics, "big", &big) && doc_i64(&big, "total", 0) < 20);
  bson_destroy(&metrics);
  EXPECT(call(&f, op, BCON_NEW("ping", BCON_INT32(1)), &reply, &err)); // the others do not notice
  channel_close(c);
  buf_free(&out);
  teardown(&f, op);
}

static void test_slow_reader(void **state) {
  in_loop(slow_reader, NULL);
}

// Only what came compressed is answered compressed, once the handshake has agreed on a compressor.
static void compression(struct operation *op, void *arg) {
  struct fixture f;
  struct message m;
  bool sent;
  setup(&f, op);
  struct channel *c = dial(&f, op);
  struct buf out = {0};
  add_command(&out, 1, 0, BCON_NEW("agree", BCON_INT32(1)));
  EXPECT(channel_send(c, &out, &sent) && receive(op, c, &m) && m.compressor == COMPRESSOR_NONE);
  buf_clear(&out);
  add_command(&out, 2, 0, BCON_NEW("big", BCON_INT32(1), "bytes", BCON_INT32(5000)));
  EXPECT(channel_send(c, &out, &sent) && receive(op, c, &m) && m.compressor == COMPRESSOR_NONE);
  buf_clear(&out);
  char *filler = arena_zalloc(op->arena, 1001);
  memset(filler, 'x', 1000);
  add_command(&out, 3, 0, BCON_NEW("big", BCON_INT32(1), "bytes", BCON_INT32(5000), "filler", BCON_UTF8(filler)));
  EXPECT(message_compress(&out, 0, COMPRESSOR_SNAPPY));
  EXPECT(channel_send(c, &out, &sent) && receive(op, c, &m));
  EXPECT(m.compressor == COMPRESSOR_ZLIB && m.response_to == 3 && m.body.len > 5000);
  channel_close(c);
  buf_free(&out);
  teardown(&f, op);
}

static void test_compression(void **state) {
  in_loop(compression, NULL);
}

static void listening(struct operation *op, void *arg) {
  struct fixture f;
  struct error err;
  setup(&f, op);
  static const char *const here[] = {"127.0.0.1"}, *const nowhere[] = {"192.0.2.1"}, *const odd[] = {"no.such.invalid"};
  struct server_options o = {.bind_ips = here, .n_bind_ips = 1, .port = server_port(f.server), .max_connections = 1};
  EXPECT(!server_listen(op->loop, &o, handle, &f, &err));
  EXPECT(strstr(err.message, "is taken, choose another with --port"));
  o.bind_ips = nowhere;
  EXPECT(!server_listen(op->loop, &o, handle, &f, &err) && strstr(err.message, "--bind_ip"));
  o.bind_ips = odd;
  EXPECT(!server_listen(op->loop, &o, handle, &f, &err) && err.code == ERR_HostNotFound);
  teardown(&f, op);
}

static void test_listen_errors(void **state) {
  in_loop(listening, NULL);
}

static void crowd(struct operation *op, void *arg) {
  struct fixture f;
  struct error err;
  setup(&f, op);
  struct channel *c[101];
  for (int i = 0; i < 101; i++) c[i] = dial(&f, op);
  for (int i = 0; i < 5000 && !c[100]->fail_code; i++) EXPECT(op_sleep(op, 1, &err));
  EXPECT(c[100]->fail_code && !c[99]->fail_code); // one more than may be is closed, the others stay
  for (int i = 0; i < 101; i++) channel_close(c[i]);
  teardown(&f, op);
}

static void test_too_many_connections(void **state) {
  in_loop(crowd, NULL);
}

// --- streams ---

struct streaming {
  struct stream *stream;
  bool open, closed;
  struct buf got;
};

static void stream_open(void *ctx) {
  ((struct streaming *)ctx)->open = true;
}

static void stream_data(void *ctx, const uint8_t *data, size_t len) {
  buf_add(&((struct streaming *)ctx)->got, data, len);
}

static void stream_end(void *ctx) {
  ((struct streaming *)ctx)->closed = true;
}

static struct stream *open_stream(struct fixture *f, const char *command, struct streaming *s) {
  bson_t *hello = BCON_NEW(command, BCON_INT32(1));
  s->stream = remote_stream(f->remotes, f->host, "admin", hello, stream_open, stream_data, stream_end, s);
  bson_destroy(hello);
  return s->stream;
}

static void streams(struct operation *op, void *arg) {
  struct fixture f;
  struct error err;
  setup(&f, op);
  struct streaming s = {0}, refused = {0}, quick = {0};
  stream_send(open_stream(&f, "upgrade", &s), "kept until it opens", 19);
  (void)open_stream(&f, "ping2", &refused);
  stream_close(open_stream(&f, "upgrade", &quick));
  EXPECT(!quick.closed); // never inside the call
  for (int i = 0; i < 5000 && f.raw_bytes < 19; i++) EXPECT(op_sleep(op, 1, &err));
  EXPECT(s.open && f.raw_bytes == 19);
  EXPECT(!strcmp(buf_str(&s.got), "early"));
  EXPECT(refused.closed && !refused.open && quick.closed && !quick.open);
  struct buf much = {0};
  buf_add(&much, arena_zalloc(op->arena, 3000000), 3000000);
  stream_send(s.stream, much.data, much.len);
  buf_free(&much);
  for (int i = 0; i < 5000 && f.raw_bytes < 3000019; i++) EXPECT(op_sleep(op, 1, &err));
  EXPECT(f.raw_bytes == 3000019);
  stream_close(s.stream);
  for (int i = 0; i < 5000 && !f.raw_closed; i++) EXPECT(op_sleep(op, 1, &err));
  EXPECT(s.closed && f.raw_closed);
  buf_free(&s.got);
  struct streaming last = {0};
  (void)open_stream(&f, "upgrade", &last);
  for (int i = 0; i < 5000 && !last.open; i++) EXPECT(op_sleep(op, 1, &err));
  teardown(&f, op);
  EXPECT(op_sleep(op, 1, &err));
  EXPECT(last.closed);
  buf_free(&last.got);
}

static void test_streams(void **state) {
  in_loop(streams, NULL);
}

// --- how fast ---

static void ping_pong(struct operation *op, void *arg) {
  enum { ROUNDS = 20000 };
  struct fixture f;
  struct error err;
  const bson_t *reply;
  setup(&f, op);
  bson_t *body = BCON_NEW("ping", BCON_INT32(1));
  struct remote_command cmd = {.db = "admin", .body = body};
  int64_t from = clock_mono_us();
  for (int i = 0; i < ROUNDS; i++) {
    if (i % 100 == 0) arena_reset(op->arena);
    if (!remote_call(op, f.remotes, f.host, &cmd, &reply, &err)) EXPECT(false);
  }
  print_message("ping through server and remote in one loop: %.1f us\n", (double)(clock_mono_us() - from) / ROUNDS);
  bson_destroy(body);
  teardown(&f, op);
}

static void test_ping_pong(void **state) {
  in_loop(ping_pong, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_commands_and_errors),
      cmocka_unit_test(test_envelope),
      cmocka_unit_test(test_documents),
      cmocka_unit_test(test_large_replies),
      cmocka_unit_test(test_early_ends),
      cmocka_unit_test(test_unreachable),
      cmocka_unit_test(test_pipelining),
      cmocka_unit_test(test_dribble),
      cmocka_unit_test(test_hostile),
      cmocka_unit_test(test_op_query),
      cmocka_unit_test(test_slow_reader),
      cmocka_unit_test(test_streams),
      cmocka_unit_test(test_compression),
      cmocka_unit_test(test_listen_errors),
      cmocka_unit_test(test_too_many_connections),
      cmocka_unit_test(test_ping_pong),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
