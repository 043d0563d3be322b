// An outgoing connection. It reads all the time, so that the other side's end is noticed while it is idle.
#include "common/net/channel.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>

#include "common/net/address.h"

// A connection whose other end has vanished without a word (a cable, a container cut off its network) ends after so
// long, whether bytes are under way or not, and the next one may reach it under a new address.
enum { KEEPALIVE_SECONDS = 10, UNACKNOWLEDGED_MS = 10000 };

static void on_closed(uv_handle_t *handle) {
  struct channel *c = handle->data;
  buf_free(&c->frame.bytes);
  buf_free(&c->early);
  free(c);
}

void channel_close(struct channel *c) {
  c->on_data = NULL;
  c->on_fail = NULL;
  if (!c->fail_code) c->fail_code = ERR_HostUnreachable;
  uv_close((uv_handle_t *)&c->tcp, on_closed);
}

void channel_fail(struct channel *c, int32_t code, const char *text) {
  if (c->fail_code) return;
  c->fail_code = code;
  c->fail_text = text;
  (void)uv_read_stop((uv_stream_t *)&c->tcp);
  event_signal(&c->progress);
  if (c->on_fail) c->on_fail(c->ctx, c);
}

static bool failure(const struct channel *c, struct error *err) {
  return error_set(err, c->fail_code, "%s", c->fail_text);
}

// Waits for c->progress; false when until_ms passes first or the operation ends.
static bool wait_progress(struct operation *op, struct channel *c, int64_t until_ms, struct error *err) {
  bool timed_out;
  int64_t left = until_ms == INT64_MAX ? INT64_MAX : until_ms - loop_now_ms(op->loop);
  if (event_wait_for(op, &c->progress, left, &timed_out, err)) return true;
  return timed_out ? error_set(err, ERR_NetworkTimeout, "no answer in time") : false;
}

// --- input ---

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *to) {
  struct channel *c = handle->data;
  size_t room = 0;
  uint8_t *place = c->on_data || c->early.len ? NULL : frame_room(&c->frame, &room);
  c->direct = place != NULL;
  *to = uv_buf_init((char *)(place ? place : c->scratch), place ? (unsigned)room : CHANNEL_READ_BYTES);
}

static void take_bytes(struct channel *c, const uint8_t *data, size_t len) {
  struct error err;
  size_t used = 0;
  if (!frame_whole(&c->frame) && !frame_feed(&c->frame, data, len, &used, &err)) {
    channel_fail(c, ERR_HostUnreachable, "the other side does not speak the MongoDB protocol");
    return;
  }
  if (used < len) buf_add(&c->early, data + used, len - used);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *from) {
  struct channel *c = stream->data;
  if (n < 0) {
    channel_fail(c, ERR_HostUnreachable, n == UV_EOF ? "connection closed by the other side" : uv_strerror((int)n));
    return;
  }
  if (c->on_data) {
    c->on_data(c->ctx, (const uint8_t *)from->base, (size_t)n);
    return;
  }
  if (c->direct)
    frame_filled(&c->frame, (size_t)n);
  else
    take_bytes(c, (const uint8_t *)from->base, (size_t)n);
  if (frame_whole(&c->frame)) event_signal(&c->progress);
}

bool channel_receive(struct operation *op, struct channel *c, int64_t until_ms, struct buf *message,
                     struct error *err) {
  while (!frame_whole(&c->frame)) {
    if (c->fail_code) return failure(c, err);
    if (!wait_progress(op, c, until_ms, err)) return false;
  }
  *message = frame_take(&c->frame);
  return true;
}

void channel_make_raw(struct channel *c, void (*on_data)(void *ctx, const uint8_t *data, size_t len)) {
  c->on_data = on_data;
  struct buf early = c->early;
  c->early = (struct buf){0};
  if (early.len) on_data(c->ctx, early.data, early.len);
  buf_free(&early);
}

// --- output ---

struct output {
  uv_write_t write;
  struct channel *c;
  struct buf bytes;
};

static void on_written(uv_write_t *write, int status) {
  struct output *o = write->data;
  struct channel *c = o->c;
  buf_free(&o->bytes);
  free(o);
  if (status < 0 && status != UV_ECANCELED) channel_fail(c, ERR_HostUnreachable, uv_strerror(status));
}

size_t channel_backlog(const struct channel *c) {
  return uv_stream_get_write_queue_size((const uv_stream_t *)&c->tcp);
}

bool channel_send(struct channel *c, struct buf *bytes, bool *sent) {
  *sent = false;
  if (c->fail_code) return false;
  uv_buf_t all = uv_buf_init((char *)bytes->data, (unsigned)bytes->len);
  int n = uv_try_write((uv_stream_t *)&c->tcp, &all, 1);
  if (n == UV_EAGAIN) n = 0;
  if (n < 0) {
    channel_fail(c, ERR_HostUnreachable, uv_strerror(n));
    return false;
  }
  *sent = true; // also the part that waits may go out before anybody can stop it
  if ((size_t)n == bytes->len) return true;
  size_t cap = 0;
  struct output *o = array_grow(NULL, &cap, 1, sizeof *o);
  *o = (struct output){.c = c, .bytes = *bytes};
  *bytes = (struct buf){0};
  o->write.data = o;
  uv_buf_t rest = uv_buf_init((char *)o->bytes.data + n, (unsigned)(o->bytes.len - (size_t)n));
  int rc = uv_write(&o->write, (uv_stream_t *)&c->tcp, &rest, 1, on_written);
  if (!rc) return true;
  buf_free(&o->bytes);
  free(o);
  channel_fail(c, ERR_HostUnreachable, uv_strerror(rc));
  return false;
}

// --- connecting ---

static void on_connected(uv_connect_t *request, int status) {
  struct channel *c = request->data;
  free(request);
  if (status == UV_ECANCELED) return; // given up by channel_close()
  if (!status) status = uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read);
  if (status) {
    channel_fail(c, ERR_HostUnreachable, uv_strerror(status));
    return;
  }
  c->connected = true;
  event_signal(&c->progress);
}

static struct channel *start_connecting(struct loop *l, const struct sockaddr *to, uint8_t *scratch) {
  size_t cap = 0;
  struct channel *c = array_grow(NULL, &cap, 1, sizeof *c);
  c->loop = l;
  c->scratch = scratch;
  (void)uv_tcp_init(loop_uv(l), &c->tcp);
  c->tcp.data = c;
  cap = 0;
  uv_connect_t *request = array_grow(NULL, &cap, 1, sizeof *request);
  request->data = c;
  int rc = uv_tcp_connect(request, &c->tcp, to, on_connected);
  if (rc) {
    free(request);
    channel_fail(c, ERR_HostUnreachable, uv_strerror(rc));
    return c;
  }
  (void)uv_tcp_nodelay(&c->tcp, 1);
  (void)uv_tcp_keepalive(&c->tcp, 1, KEEPALIVE_SECONDS);
  uv_os_fd_t fd;
  const unsigned ms = UNACKNOWLEDGED_MS;
  if (!uv_fileno((uv_handle_t *)&c->tcp, &fd)) (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
  return c;
}

void opening_fail(struct opening *o, int32_t code, const char *text) {
  o->fail_code = code;
  o->fail_text = text;
  if (o->c) channel_fail(o->c, code, text);
}

struct channel *channel_open(struct operation *op, const char *host, uint8_t *scratch, struct opening *o,
                             int64_t until_ms, struct error *err) {
  struct addresses a;
  struct opening own = {0};
  if (!o) o = &own;
  if (!address_resolve(op, host, until_ms, &a, err)) return NULL;
  bool waited = true;
  for (size_t i = 0; i < a.n && waited && !o->fail_code; i++) { // without time for the others when it did not wait
    struct channel *c = o->c = start_connecting(op->loop, (const struct sockaddr *)&a.at[i], scratch);
    while (waited && !c->connected && !c->fail_code) waited = wait_progress(op, c, until_ms, err);
    if (c->connected && !c->fail_code) return c;
    if (waited) (void)failure(c, err);
    channel_close(c);
    o->c = NULL;
  }
  if (waited && o->fail_code) (void)error_set(err, o->fail_code, "%s", o->fail_text);
  (void)error_prefix(err, "Error connecting to %s", host);
  return NULL;
}
