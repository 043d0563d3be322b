// Commands to other daemons: pools of connections, one command at a time on each.
#include "common/net/remote.h"

#include <stdlib.h>
#include <string.h>

#include "common/net/loop_internal.h"
#include "common/net/pool.h"
#include "common/net/remote_internal.h"
#include "proto/reply.h"

enum { KEEP_BUFFER_BYTES = 1024 * 1024 };

static void free_remotes(void *arg) {
  struct remotes *r = arg;
  map_free(r->pools, pool_free);
  buf_free(&r->out);
  arena_free(r->arena);
  free(r);
}

struct remotes *remotes_new(struct loop *l, const char *app_name) {
  size_t cap = 0;
  struct remotes *r = array_grow(NULL, &cap, 1, sizeof *r);
  r->loop = l;
  r->arena = arena_new();
  r->app_name = arena_strdup(r->arena, app_name);
  r->pools = map_new();
  loop_at_free(l, free_remotes, r);
  return r;
}

static bool close_pool(void *ctx, const void *key, size_t len, void *value) {
  pool_close_idle(value);
  pool_fail_busy(value, ERR_InterruptedAtShutdown, "interrupted at shutdown");
  return true;
}

void remotes_close(struct remotes *r) {
  if (r->closed) return;
  r->closed = true;
  streams_close(r);
  map_each(r->pools, close_pool, NULL);
}

void remotes_forget(struct remotes *r, const char *host) {
  struct pool *p = map_gets(r->pools, host);
  if (p) pool_close_idle(p);
}

void remotes_interrupt(struct remotes *r, const char *host) {
  struct pool *p = map_gets(r->pools, host);
  if (p) pool_fail_busy(p, ERR_HostUnreachable, "the other side stopped answering");
}

size_t remotes_waiting(const struct remotes *r, const char *host) {
  const struct pool *p = map_gets(r->pools, host);
  return p ? pool_busy(p) : 0;
}

void remotes_set_gossip(struct remotes *r, void (*incoming)(void *ctx, const bson_t *reply),
                        void (*outgoing)(void *ctx, bson_t *body), void *ctx) {
  r->incoming = incoming;
  r->outgoing = outgoing;
  r->gossip_ctx = ctx;
}

// --- one command on one channel ---

static bool send_command(struct remotes *r, struct channel *c, const struct remote_command *cmd, bool *sent) {
  bson_t more = BSON_INITIALIZER;
  BSON_APPEND_UTF8(&more, "$db", cmd->db);
  if (r->outgoing) r->outgoing(r->gossip_ctx, &more);
  buf_clear(&r->out);
  message_write_joined(&r->out, ++c->last_id, 0, 0, cmd->body, &more, cmd->sequences, cmd->n_sequences);
  bson_destroy(&more);
  bool ok = channel_send(c, &r->out, sent);
  if (r->out.cap > KEEP_BUFFER_BYTES) buf_free(&r->out);
  return ok;
}

static void free_message(void *arg) {
  buf_free(arg);
}

// Parses a reply, which then belongs to the arena.
static bool read_reply(struct arena *a, struct buf bytes, int32_t request_id, const bson_t **reply, struct error *err) {
  struct buf *held = arena_memdup(a, &bytes, sizeof bytes);
  arena_on_free(a, free_message, held);
  struct message *m = arena_alloc(a, sizeof *m);
  if (!message_parse(a, held->data, held->len, m, err)) return false;
  if (m->response_to != request_id || m->opcode != OP_MSG) {
    return error_set(err, ERR_ProtocolError, "it is no answer to the command");
  }
  *reply = &m->body;
  return true;
}

bool exchange(struct operation *op, struct remotes *r, struct channel *c, const struct remote_command *cmd,
              int64_t until_ms, bool *sent, const bson_t **reply, struct error *err) {
  struct buf bytes = {0};
  if (!send_command(r, c, cmd, sent)) return error_set(err, c->fail_code, "%s", c->fail_text);
  if (!channel_receive(op, c, until_ms, &bytes, err)) return false;
  return read_reply(op->arena, bytes, c->last_id, reply, err);
}

// --- a call ---

// The first command on a new connection: tells the other side who calls.
static bool shake_hands(struct operation *op, struct remotes *r, struct channel *c, int64_t until_ms,
                        struct error *err) {
  bson_t *hello =
      BCON_NEW("hello", BCON_INT32(1), "client", "{", "application", "{", "name", BCON_UTF8(r->app_name), "}", "driver",
               "{", "name", "shardlet", "version", "0.1.0", "}", "os", "{", "type", "Linux", "}", "}", "internalClient",
               "{", "minWireVersion", BCON_INT32(0), "maxWireVersion", BCON_INT32(25), "}");
  struct remote_command cmd = {.db = "admin", .body = hello};
  const bson_t *reply = NULL;
  bool sent, ok = exchange(op, r, c, &cmd, until_ms, &sent, &reply, err) && reply_check(reply, op->arena, err);
  bson_destroy(hello);
  return ok;
}

static struct channel *connect_new(struct operation *op, struct remotes *r, struct pool *p, const char *host,
                                   int64_t until_ms, struct error *err) {
  int64_t latest = loop_now_ms(op->loop) + CONNECT_MS;
  if (until_ms > latest) until_ms = latest;
  struct opening o = {0};
  pool_add_opening(p, &o);
  struct channel *c = channel_open(op, host, r->scratch, &o, until_ms, err);
  bool ok = c && shake_hands(op, r, c, until_ms, err);
  pool_remove_opening(p, &o);
  if (ok || !c) return c;
  channel_close(c);
  (void)error_prefix(err, "Error connecting to %s", host);
  return NULL;
}

static struct pool *pool_of(struct remotes *r, const char *host) {
  struct pool *p = map_gets(r->pools, host);
  if (p) return p;
  p = pool_new();
  (void)map_puts(r->pools, host, p);
  return p;
}

// A connection that nobody else uses now. *fresh: it was made for this call.
static struct channel *check_out(struct operation *op, struct remotes *r, struct pool *p, const char *host,
                                 int64_t until_ms, bool *fresh, struct error *err) {
  *fresh = false;
  if (!pool_reserve(op, p, until_ms, err)) return NULL;
  struct channel *c = pool_take_idle(p);
  if (c) return c;
  *fresh = true;
  c = connect_new(op, r, p, host, until_ms, err);
  if (c && r->closed) {
    channel_close(c);
    (void)error_set(err, ERR_InterruptedAtShutdown, "interrupted at shutdown");
    c = NULL;
  }
  if (c)
    pool_add_busy(p, c);
  else
    pool_unreserve(p);
  return c;
}

bool remote_call(struct operation *op, struct remotes *r, const char *host, const struct remote_command *cmd,
                 const bson_t **reply, struct error *err) {
  bool unused, *sent = cmd->may_have_run ? cmd->may_have_run : &unused;
  *sent = false;
  *reply = NULL;
  if (r->closed) return error_set(err, ERR_InterruptedAtShutdown, "interrupted at shutdown");
  int64_t until_ms = cmd->timeout_ms ? loop_now_ms(op->loop) + cmd->timeout_ms : INT64_MAX;
  struct pool *p = pool_of(r, host);
  for (int attempt = 0;; attempt++) {
    bool fresh;
    struct channel *c = check_out(op, r, p, host, until_ms, &fresh, err);
    if (!c) return false;
    bool ok = exchange(op, r, c, cmd, until_ms, sent, reply, err);
    pool_check_in(p, c, ok);
    if (ok) break;
    if (!*sent && !fresh && attempt == 0 && op_check(op, NULL)) {
      pool_close_idle(p); // one of them was dead, so they all may be: the next one is new
      continue;
    }
    return error_prefix(err, "Error communicating with %s", host);
  }
  if (r->incoming) r->incoming(r->gossip_ctx, *reply);
  return reply_check(*reply, op->arena, err);
}
