// A client that sends exactly what it is told to: one connection, OP_MSG without anything that a driver would add.
#ifndef SHARDLET_TESTS_RAW_H
#define SHARDLET_TESTS_RAW_H

#include "tests/integration/harness.h"

struct raw {
  int fd; // closed by raw_close()
  int32_t last_id;
};

struct raw raw_dial(const struct process *p); // calls wait 30 s at most
void raw_close(struct raw *r);
// A command as command() takes it, with $db added. The reply must be destroyed. Returns its ok.
bool raw_command(struct raw *r, const char *db, bson_t *reply, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
int raw_code(struct raw *r, const char *db, const char *fmt, ...)
    __attribute__((format(printf, 3, 4))); // the error's code, 0 = none
bool raw_run(struct raw *r, const char *db, const bson_t *command, bson_t *reply);
void raw_send(struct raw *r, const char *db, const bson_t *command, uint32_t flags);
// false: nothing within `ms`, or the connection has ended.
bool raw_receive(struct raw *r, int ms, bson_t *reply, uint32_t *flags, int32_t *id, int32_t *response_to);

#endif
