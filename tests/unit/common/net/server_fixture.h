// A server with commands of the tests' own, and its callers, in one process on the loopback.
#ifndef SHARDLET_TEST_SERVER_FIXTURE_H
#define SHARDLET_TEST_SERVER_FIXTURE_H

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

__attribute__((unused)) static bool call(struct fixture *f, struct operation *op, bson_t *body, const bson_t **reply,
                                         struct error *err) {
  struct remote_command cmd = {.db = "admin", .body = body};
  bool ok = remote_call(op, f->remotes, f->host, &cmd, reply, err);
  bson_destroy(body);
  return ok;
}

#endif
