// Commands through a server: errors, envelopes, kills, timeouts, disconnects, listening.
#include "server_fixture.h"

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

// --- listening ---

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
      cmocka_unit_test(test_commands_and_errors), cmocka_unit_test(test_envelope),   cmocka_unit_test(test_documents),
      cmocka_unit_test(test_large_replies),       cmocka_unit_test(test_early_ends), cmocka_unit_test(test_unreachable),
      cmocka_unit_test(test_listen_errors),       cmocka_unit_test(test_ping_pong),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
