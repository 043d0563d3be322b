// Raw streams to other daemons: connect, a command that the other side accepts, then bytes both ways.
#include <stdlib.h>

#include "common/base/log.h"
#include "common/bson/doc.h"
#include "common/net/remote_internal.h"
#include "proto/reply.h"

enum { BACKLOG_BYTES = 64 * 1024 * 1024 };

struct stream {
  struct remotes *remotes;
  struct stream *next, *prev;
  struct arena *arena;
  const char *host, *db;
  const bson_t *hello;
  void (*on_open)(void *ctx);
  void (*on_data)(void *ctx, const uint8_t *data, size_t len);
  void (*on_close)(void *ctx);
  void *ctx;
  struct operation *op;    // connects; NULL afterwards
  struct channel *channel; // while it is open
  struct buf unsent;       // what is to be sent when it opens
  bool ending;
};

static void end_stream(void *arg) {
  struct stream *s = arg;
  if (s->next) s->next->prev = s->prev;
  if (s->prev)
    s->prev->next = s->next;
  else
    s->remotes->streams = s->next;
  if (s->channel) channel_close(s->channel);
  s->on_close(s->ctx);
  buf_free(&s->unsent);
  arena_free(s->arena);
  free(s);
}

// The end comes from the loop, never inside a call by the stream's owner.
static void schedule_end(struct stream *s) {
  if (s->ending) return;
  s->ending = true;
  if (s->op)
    operation_kill(s->op, ERR_CallbackCanceled); // open_stream() does the rest
  else
    loop_defer(s->remotes->loop, end_stream, s);
}

static void on_failed(void *ctx, struct channel *c) {
  schedule_end(ctx);
}

static void on_bytes(void *ctx, const uint8_t *data, size_t len) {
  struct stream *s = ctx;
  if (!s->ending) s->on_data(s->ctx, data, len);
}

static bool connect_stream(struct operation *op, struct stream *s, struct error *err) {
  int64_t until_ms = loop_now_ms(op->loop) + CONNECT_MS;
  bool sent;
  const bson_t *reply;
  struct remote_command cmd = {.db = s->db, .body = s->hello};
  s->channel = channel_open(op, s->host, s->remotes->scratch, NULL, until_ms, err);
  return s->channel && exchange(op, s->remotes, s->channel, &cmd, until_ms, &sent, &reply, err) &&
         reply_check(reply, op->arena, err);
}

static void open_stream(struct operation *op, void *arg) {
  struct stream *s = arg;
  struct error err;
  bool ok = connect_stream(op, s, &err) && !s->ending;
  s->op = NULL;
  if (!ok) {
    if (!s->ending) log_debug("NETWORK", "Cannot open a stream", "host:s error:e", s->host, &err);
    s->ending = true;
    end_stream(s);
    return;
  }
  s->channel->ctx = s;
  s->channel->on_fail = on_failed;
  bool sent;
  if (s->unsent.len) (void)channel_send(s->channel, &s->unsent, &sent);
  buf_free(&s->unsent);
  s->on_open(s->ctx);
  if (s->ending) return;
  channel_make_raw(s->channel, on_bytes);
  if (s->channel->fail_code) schedule_end(s);
}

struct stream *remote_stream(struct remotes *r, const char *host, const char *db, const bson_t *hello,
                             void (*on_open)(void *ctx), void (*on_data)(void *ctx, const uint8_t *data, size_t len),
                             void (*on_close)(void *ctx), void *ctx) {
  size_t cap = 0;
  struct stream *s = array_grow(NULL, &cap, 1, sizeof *s);
  s->remotes = r;
  s->arena = arena_new();
  s->host = arena_strdup(s->arena, host);
  s->db = arena_strdup(s->arena, db);
  s->hello = doc_copy(s->arena, hello);
  s->on_open = on_open;
  s->on_data = on_data;
  s->on_close = on_close;
  s->ctx = ctx;
  s->next = r->streams;
  if (s->next) s->next->prev = s;
  r->streams = s;
  s->op = operation_start(r->loop, "stream", open_stream, s);
  if (r->closed) schedule_end(s);
  return s;
}

void stream_send(struct stream *s, const void *data, size_t len) {
  if (s->ending || stream_backlog(s) + len > BACKLOG_BYTES) return;
  if (s->op) {
    buf_add(&s->unsent, data, len);
    return;
  }
  struct buf bytes = {0};
  bool sent;
  buf_add(&bytes, data, len);
  (void)channel_send(s->channel, &bytes, &sent);
  buf_free(&bytes);
}

size_t stream_backlog(const struct stream *s) {
  return s->op || !s->channel ? s->unsent.len : channel_backlog(s->channel);
}

void stream_close(struct stream *s) {
  schedule_end(s);
}

void streams_close(struct remotes *r) {
  for (struct stream *s = r->streams; s; s = s->next) schedule_end(s);
}
