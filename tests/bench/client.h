// A blocking wire client, as thin as it can be: what it adds to a round trip is what the echo limits pay as well.
#ifndef SHARDLET_BENCH_CLIENT_H
#define SHARDLET_BENCH_CLIENT_H

#include <bson/bson.h>
#include <stdbool.h>

#include "common/base/arena.h"
#include "common/base/buf.h"

struct client {
  int fd;
  int32_t next_id;
  struct buf out, in;
};

int connect_loopback(int port); // a connected socket with TCP_NODELAY; ends the program when there is none
void client_open(struct client *c, int port);
void client_close(struct client *c);

// Sends a command and waits. The reply's bytes are valid until the next call; ends the program on ok: 0 unless
// `may_fail`.
const bson_t *client_call(struct client *c, struct arena *a, const char *db, const bson_t *command, bool may_fail);
// The same from JSON with printf's placeholders.
const bson_t *client_json(struct client *c, struct arena *a, const char *db, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
// One whole message as bytes, for callers that send it again and again.
void client_message(struct buf *to, const char *db, const bson_t *command);

void write_all(int fd, const void *data, size_t n);
void read_all(int fd, void *to, size_t n);
void read_message(int fd, struct buf *to); // one wire message

__attribute__((noreturn, format(printf, 1, 2))) void give_up(const char *fmt, ...);

#endif
