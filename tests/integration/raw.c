// Messages over a socket. See raw.h.
#include "tests/integration/raw.h"

#include <arpa/inet.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "proto/message.h"

enum { CALL_MS = 30000 };

struct raw raw_dial(const struct process *p) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)p->port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  struct raw r = {.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  assert_int_equal(connect(r.fd, (struct sockaddr *)&address, sizeof address), 0);
  return r;
}

void raw_close(struct raw *r) {
  (void)close(r->fd);
}

void raw_send(struct raw *r, const char *db, const bson_t *command, uint32_t flags) {
  bson_t body;
  bson_copy_to(command, &body);
  BSON_APPEND_UTF8(&body, "$db", db);
  struct buf out = {0};
  message_write(&out, ++r->last_id, 0, flags, &body, NULL, 0);
  bson_destroy(&body);
  for (size_t at = 0; at < out.len;) {
    ssize_t n = send(r->fd, out.data + at, out.len - at, MSG_NOSIGNAL);
    if (n <= 0) break; // receiving tells
    at += (size_t)n;
  }
  buf_free(&out);
}

static bool read_bytes(struct raw *r, uint8_t *to, size_t n, int64_t end) {
  for (size_t at = 0; at < n;) {
    int64_t left = end - now_ms();
    struct pollfd p = {.fd = r->fd, .events = POLLIN};
    if (left < 0 || poll(&p, 1, (int)left) != 1) return false;
    ssize_t got = recv(r->fd, to + at, n - at, 0);
    if (got <= 0) return false;
    at += (size_t)got;
  }
  return true;
}

bool raw_receive(struct raw *r, int ms, bson_t *reply, uint32_t *flags, int32_t *id, int32_t *response_to) {
  uint8_t header[MESSAGE_HEADER_BYTES];
  int64_t end = now_ms() + ms;
  size_t len;
  struct error err;
  bson_init(reply);
  if (!read_bytes(r, header, sizeof header, end) || !message_length(header, &len, &err)) return false;
  uint8_t *data = malloc(len);
  memcpy(data, header, sizeof header);
  struct arena *a = arena_new();
  struct message m;
  bool ok = read_bytes(r, data + sizeof header, len - sizeof header, end) && message_parse(a, data, len, &m, &err);
  if (ok) {
    bson_destroy(reply);
    bson_copy_to(&m.body, reply);
    if (flags) *flags = m.flags;
    if (id) *id = m.request_id;
    if (response_to) *response_to = m.response_to;
  }
  arena_free(a);
  free(data);
  return ok;
}

bool raw_run(struct raw *r, const char *db, const bson_t *command, bson_t *reply) {
  raw_send(r, db, command, 0);
  return raw_receive(r, CALL_MS, reply, NULL, NULL, NULL) && reply_i64(reply, "ok") == 1;
}

static bool run_text(struct raw *r, const char *db, bson_t *reply, const char *fmt, va_list ap) {
  char *text = NULL;
  bson_error_t why;
  assert_true(vasprintf(&text, fmt, ap) >= 0);
  for (char *at = text; *at; at++)
    if (*at == '\'') *at = '"';
  bson_t *doc = bson_new_from_json((const uint8_t *)text, -1, &why);
  if (!doc) fail_msg("%s: %s", text, why.message);
  bool ok = raw_run(r, db, doc, reply);
  bson_destroy(doc);
  free(text);
  return ok;
}

bool raw_command(struct raw *r, const char *db, bson_t *reply, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  bool ok = run_text(r, db, reply, fmt, ap);
  va_end(ap);
  return ok;
}

int raw_code(struct raw *r, const char *db, const char *fmt, ...) {
  va_list ap;
  bson_t reply;
  va_start(ap, fmt);
  bool ok = run_text(r, db, &reply, fmt, ap);
  va_end(ap);
  int64_t code = reply_i64(&reply, "code"), written = reply_i64(&reply, "writeErrors.0.code"),
          concern = reply_i64(&reply, "writeConcernError.code");
  bson_destroy(&reply);
  if (!ok) return (int)code;
  return (int)(written > 0 ? written : concern > 0 ? concern : 0);
}
