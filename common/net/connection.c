// A client's connection: bytes in, requests one after another, bytes out.
//
// While a request runs, what arrives is kept as it is (connection.early) up to a limit, then reading stops: a client
// that sends without reading costs a bounded amount of memory. The next request begins when little output waits.
#include "common/net/connection.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "proto/reply.h"

enum {
  EARLY_BYTES = 256 * 1024,   // so much is read ahead of the request that runs
  OUTPUT_BYTES = 1024 * 1024, // the next request waits while more than this is unsent
  RAW_OUTPUT_BYTES = 64 * 1024 * 1024,
  KEEPALIVE_SECONDS = 120,
};

static void proceed(struct connection *c);

// --- beginning and end of a connection ---

struct connection *connection_new(struct server *s) {
  size_t cap = 0;
  struct connection *c = array_grow(NULL, &cap, 1, sizeof *c);
  c->server = s;
  c->id = ++s->n_created;
  (void)snprintf(c->name, sizeof c->name, "conn%zu", s->n_created);
  (void)uv_tcp_init(loop_uv(s->loop), &c->tcp);
  c->tcp.data = c;
  c->next = s->connections;
  if (c->next) c->next->prev = c;
  s->connections = c;
  s->n_connections++;
  return c;
}

static void note_remote(struct connection *c) {
  struct sockaddr_storage peer;
  int len = sizeof peer;
  char ip[46] = "unknown";
  unsigned port = 0;
  if (uv_tcp_getpeername(&c->tcp, (struct sockaddr *)&peer, &len) == 0) {
    if (peer.ss_family == AF_INET6) {
      const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&peer;
      (void)uv_ip6_name(six, ip, sizeof ip);
      port = ntohs(six->sin6_port);
    } else {
      const struct sockaddr_in *four = (const struct sockaddr_in *)&peer;
      (void)uv_ip4_name(four, ip, sizeof ip);
      port = ntohs(four->sin_port);
    }
  }
  (void)snprintf(c->remote, sizeof c->remote, strchr(ip, ':') ? "[%s]:%u" : "%s:%u", ip, port);
}

void connection_begin(struct connection *c) {
  note_remote(c);
  (void)uv_tcp_nodelay(&c->tcp, 1);
  (void)uv_tcp_keepalive(&c->tcp, 1, KEEPALIVE_SECONDS);
  log_info("NETWORK", "Connection accepted", "remote:s connectionId:l connectionCount:l", c->remote, (int64_t)c->id,
           (int64_t)c->server->n_connections);
  proceed(c);
}

static void connection_free(struct connection *c) {
  struct server *s = c->server;
  if (c->next) c->next->prev = c->prev;
  if (c->prev)
    c->prev->next = c->next;
  else
    s->connections = c->next;
  s->n_connections--;
  if (c->on_close) c->on_close(c->upgrade_ctx);
  log_info("NETWORK", "Connection ended", "remote:s connectionId:l connectionCount:l", c->remote, (int64_t)c->id,
           (int64_t)s->n_connections);
  buf_free(&c->frame.bytes);
  buf_free(&c->early);
  buf_free(&c->request);
  buf_free(&c->held);
  free(c);
  event_signal(&s->changed);
}

static void on_closed(uv_handle_t *handle) {
  struct connection *c = handle->data;
  c->closed = true;
  if (!c->op) connection_free(c);
}

static void close_socket(struct connection *c) {
  if (c->closing) return;
  c->closing = c->gone = true;
  uv_close((uv_handle_t *)&c->tcp, on_closed);
}

void connection_abort(struct connection *c, int32_t code) {
  if (c->op) operation_kill(c->op, code);
  close_socket(c);
}

void connection_finish(struct connection *c) {
  c->ending = true;
  proceed(c);
}

// The other side has gone: nobody waits for the running request's reply.
static void lost(struct connection *c) {
  if (c->gone) return;
  c->gone = true;
  if (c->reading) (void)uv_read_stop((uv_stream_t *)&c->tcp);
  c->reading = false;
  if (c->op && c->expects_reply) operation_kill(c->op, ERR_ClientDisconnect);
  proceed(c);
}

// --- output ---

struct output {
  uv_write_t write;
  struct connection *c;
  struct buf bytes;
};

static void free_output(struct output *o) {
  buf_free(&o->bytes);
  free(o);
}

static void on_written(uv_write_t *write, int status) {
  struct output *o = write->data;
  struct connection *c = o->c;
  free_output(o);
  if (c->closing) return;
  if (status < 0)
    lost(c);
  else
    proceed(c);
}

static size_t unsent(const struct connection *c) {
  return uv_stream_get_write_queue_size((const uv_stream_t *)&c->tcp);
}

// What the socket does not take at once waits, and the buffer with it: *bytes is empty then.
static void send_bytes(struct connection *c, struct buf *bytes) {
  if (c->gone || !bytes->len) return;
  c->server->traffic.bytes_out += (int64_t)bytes->len;
  uv_buf_t all = uv_buf_init((char *)bytes->data, (unsigned)bytes->len);
  int n = uv_try_write((uv_stream_t *)&c->tcp, &all, 1);
  if (n == UV_EAGAIN) n = 0;
  if (n < 0) {
    lost(c);
    return;
  }
  if ((size_t)n == bytes->len) return;
  size_t cap = 0;
  struct output *o = array_grow(NULL, &cap, 1, sizeof *o);
  *o = (struct output){.c = c, .bytes = *bytes};
  *bytes = (struct buf){0};
  o->write.data = o;
  uv_buf_t rest = uv_buf_init((char *)o->bytes.data + n, (unsigned)(o->bytes.len - (size_t)n));
  if (uv_write(&o->write, (uv_stream_t *)&c->tcp, &rest, 1, on_written) != 0) {
    free_output(o);
    lost(c);
  }
}

static void send_message(struct connection *c, int32_t response_to, int32_t opcode, uint32_t flags, bool compress,
                         const bson_t *body) {
  struct buf *out = &c->server->out;
  buf_clear(out);
  if (opcode == OP_QUERY)
    message_write_op_reply(out, ++c->last_id, response_to, body);
  else
    message_write(out, ++c->last_id, response_to, flags, body, NULL, 0);
  if (compress) (void)message_compress(out, 0, c->compressor);
  send_bytes(c, out);
  if (out->cap > OUTPUT_BYTES) buf_free(out);
}

int32_t connection_send(struct connection *c, int32_t response_to, uint32_t flags, const bson_t *body) {
  if (unsent(c) > MESSAGE_MAX_BYTES)
    lost(c); // it does not read what it asked for
  else
    send_message(c, response_to, OP_MSG, flags, false, body);
  return c->last_id;
}

void connection_send_raw(struct connection *c, const void *data, size_t len) {
  if (unsent(c) + c->held.len + len > RAW_OUTPUT_BYTES) return;
  buf_add(&c->held, data, len);
  if (c->op) return; // the reply goes first
  send_bytes(c, &c->held);
  buf_free(&c->held);
}

// --- requests ---

// `whole`: the message's bytes are all there and those of the next one come after it, so the connection can go on.
static void refuse(struct connection *c, int32_t response_to, int32_t opcode, bool whole, const struct error *err) {
  log_warn("NETWORK", whole ? "Bad message" : "Bad message, closing the connection", "remote:s connectionId:l error:e",
           c->remote, (int64_t)c->id, err);
  if (!whole) c->ending = true;
  bson_t reply = BSON_INITIALIZER;
  reply_error(&reply, err);
  send_message(c, response_to, opcode, 0, false, &reply);
  bson_destroy(&reply);
}

static void answer(struct connection *c, struct operation *op) {
  struct server *s = c->server;
  struct error err;
  struct message m;
  if (!message_parse(op->arena, c->request.data, c->request.len, &m, &err) ||
      (m.opcode == OP_REPLY && !error_set(&err, ERR_ProtocolError, "A reply cannot be answered"))) {
    // A document nested too deeply is a mistake within one command; anything else says that the client speaks wrongly.
    bool whole = m.opcode == OP_MSG && err.code == ERR_Overflow && !(m.flags & MSG_MORE_TO_COME);
    refuse(c, m.request_id, m.opcode, whole, &err);
    return;
  }
  c->expects_reply = !(m.opcode == OP_MSG && m.flags & MSG_MORE_TO_COME);
  if (c->gone && c->expects_reply) return; // nobody is there any more; what expects no reply is done all the same
  bson_t reply = BSON_INITIALIZER;
  s->handler(s->ctx, op, c, &m, &reply);
  if (c->expects_reply && !bson_empty(&reply)) {
    send_message(c, m.request_id, m.opcode, 0, m.compressor != COMPRESSOR_NONE, &reply);
  }
  bson_destroy(&reply);
}

static void run_request(struct operation *op, void *arg) {
  struct connection *c = arg;
  answer(c, op);
  buf_free(&c->request);
  c->op = NULL;
  send_bytes(c, &c->held);
  buf_free(&c->held);
  if (c->closed)
    connection_free(c);
  else
    proceed(c);
}

static void start_request(struct connection *c) {
  c->request = frame_take(&c->frame);
  c->server->traffic.requests++;
  c->expects_reply = true; // until the message has been parsed
  c->op = operation_start(c->server->loop, c->name, run_request, c);
  if (c->server->closing) operation_kill(c->op, c->server->closing_code);
}

// Gives bytes to the frame, up to the end of one message. Returns how many were taken.
static size_t feed(struct connection *c, const uint8_t *data, size_t len) {
  struct error err;
  size_t used;
  if (!frame_feed(&c->frame, data, len, &used, &err)) {
    int32_t id;
    memcpy(&id, c->frame.bytes.data + 4, sizeof id);
    refuse(c, id, OP_MSG, false, &err);
    return len; // what follows cannot be understood
  }
  if (frame_whole(&c->frame)) start_request(c);
  return used;
}

static void feed_early(struct connection *c) {
  size_t used = 0;
  while (used < c->early.len && !c->op && !c->ending) {
    used += feed(c, c->early.data + used, c->early.len - used);
  }
  if (used == c->early.len) {
    buf_free(&c->early);
  } else if (used) {
    memmove(c->early.data, c->early.data + used, c->early.len - used);
    c->early.len -= used;
  }
}

static void give_early_to_upgrade(struct connection *c) {
  struct buf early = c->early;
  c->early = (struct buf){0};
  if (early.len) c->on_data(c->upgrade_ctx, early.data, early.len);
  buf_free(&early);
}

// --- input ---

// Whether the next message may be looked at: none runs, and the client takes what it asked for.
static bool takes_requests(const struct connection *c) {
  return !c->op && !c->ending && unsent(c) <= OUTPUT_BYTES;
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *to) {
  struct connection *c = handle->data;
  size_t room = 0;
  uint8_t *place = takes_requests(c) && !c->early.len ? frame_room(&c->frame, &room) : NULL;
  c->direct = place != NULL;
  if (!place) {
    place = c->server->scratch;
    room = sizeof c->server->scratch;
  }
  *to = uv_buf_init((char *)place, (unsigned)room);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *from) {
  struct connection *c = stream->data;
  const uint8_t *data = (const uint8_t *)from->base;
  if (n < 0) {
    lost(c);
    return;
  }
  size_t len = (size_t)n, used = 0;
  c->server->traffic.bytes_in += n;
  if (c->direct) {
    frame_filled(&c->frame, len);
    if (frame_whole(&c->frame)) start_request(c);
    return;
  }
  if (c->upgraded && !c->op && !c->early.len && !c->ending) {
    c->on_data(c->upgrade_ctx, data, len);
    return;
  }
  if (!c->upgraded && !c->early.len) {
    while (used < len && takes_requests(c)) used += feed(c, data + used, len - used);
  }
  if (used < len && !c->ending) buf_add(&c->early, data + used, len - used);
  proceed(c);
}

static void read_when_due(struct connection *c) {
  bool want = !c->gone && !c->ending && c->early.len < EARLY_BYTES;
  if (want == c->reading) return;
  c->reading = want;
  if (!want)
    (void)uv_read_stop((uv_stream_t *)&c->tcp);
  else if (uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read) != 0)
    lost(c);
}

// Whatever is due: the next request, reading, closing. Called after everything that may have changed that.
static void proceed(struct connection *c) {
  if (c->closing) return;
  if (!c->op && !c->ending) {
    if (c->upgraded)
      give_early_to_upgrade(c);
    else if (c->gone || unsent(c) <= OUTPUT_BYTES)
      feed_early(c);
  }
  if (c->closing) return;
  read_when_due(c);
  if (!c->op && (c->gone || (c->ending && unsent(c) == 0))) close_socket(c);
}

// --- what handlers may do with their connection ---

uint64_t connection_id(const struct connection *c) {
  return c->id;
}

const char *connection_remote(const struct connection *c) {
  return c->remote;
}

bool connection_alive(const struct connection *c) {
  return !c->gone;
}

void connection_set_compressor(struct connection *c, enum compressor comp) {
  c->compressor = comp;
}

void connection_upgrade(struct connection *c, void (*on_data)(void *ctx, const uint8_t *data, size_t len),
                        void (*on_close)(void *ctx), void *ctx) {
  c->upgraded = true;
  c->on_data = on_data;
  c->on_close = on_close;
  c->upgrade_ctx = ctx;
}

void connection_close(struct connection *c) {
  if (c->upgraded)
    close_socket(c);
  else
    connection_finish(c);
}
