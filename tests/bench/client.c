// The blocking wire client of the benchmarks.
#include "tests/bench/client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/bson/doc.h"
#include "proto/message.h"

void give_up(const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  (void)fputs("bench: ", stderr);
  (void)vfprintf(stderr, fmt, ap);
  (void)fputc('\n', stderr);
  va_end(ap);
  exit(1);
}

int connect_loopback(int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
    give_up("cannot connect to port %d: %s", port, strerror(errno));
  }
  int on = 1;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

void write_all(int fd, const void *data, size_t n) {
  const char *p = data;
  while (n) {
    ssize_t done = write(fd, p, n);
    if (done <= 0) give_up("the connection broke while writing");
    p += done;
    n -= (size_t)done;
  }
}

void read_all(int fd, void *to, size_t n) {
  char *p = to;
  while (n) {
    ssize_t done = read(fd, p, n);
    if (done <= 0) give_up("the connection broke while reading");
    p += done;
    n -= (size_t)done;
  }
}

void read_message(int fd, struct buf *to) {
  buf_clear(to);
  uint8_t *header = buf_reserve(to, MESSAGE_HEADER_BYTES);
  read_all(fd, header, MESSAGE_HEADER_BYTES);
  to->len = MESSAGE_HEADER_BYTES;
  size_t total;
  struct error err;
  if (!message_length(to->data, &total, &err)) give_up("bad reply: %s", err.message);
  uint8_t *rest = buf_reserve(to, total - to->len);
  read_all(fd, rest, total - to->len);
  to->len = total;
}

void client_open(struct client *c, int port) {
  *c = (struct client){.fd = connect_loopback(port), .next_id = 1};
}

void client_close(struct client *c) {
  (void)close(c->fd);
  buf_free(&c->out);
  buf_free(&c->in);
}

static void with_db(bson_t *to, const char *db, const bson_t *command) {
  bson_copy_to(command, to);
  BSON_APPEND_UTF8(to, "$db", db);
}

void client_message(struct buf *to, const char *db, const bson_t *command) {
  bson_t full;
  with_db(&full, db, command);
  message_write(to, 1, 0, 0, &full, NULL, 0);
  bson_destroy(&full);
}

const bson_t *client_call(struct client *c, struct arena *a, const char *db, const bson_t *command, bool may_fail) {
  buf_clear(&c->out);
  client_message(&c->out, db, command);
  write_all(c->fd, c->out.data, c->out.len);
  read_message(c->fd, &c->in);
  struct message *m = arena_zalloc(a, sizeof *m);
  struct error err;
  if (!message_parse(a, c->in.data, c->in.len, m, &err)) give_up("bad reply: %s", err.message);
  const bson_t *reply = doc_copy(a, &m->body);
  if (!may_fail && (doc_i64(reply, "ok", 0) != 1 || doc_has(reply, "writeErrors"))) {
    give_up("%s answered %s", doc_text(a, command), doc_text(a, reply));
  }
  return reply;
}

const bson_t *client_json(struct client *c, struct arena *a, const char *db, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  const char *text = arena_vprintf(a, fmt, ap);
  va_end(ap);
  bson_error_t why;
  bson_t *command = bson_new_from_json((const uint8_t *)text, -1, &why);
  if (!command) give_up("%s: %s", text, why.message);
  const bson_t *reply = client_call(c, a, db, command, false);
  bson_destroy(command);
  return reply;
}
