// Initial sync: what a member that copies this one's data asks for (repl/initial_sync.h).
#include "common/node/internal.h"

static bool begin_run(struct request *r, bson_t *reply, struct error *err) {
  return repl_copy_begin(r->op, request_node(r)->repl, r->body, reply, err);
}

static bool read_run(struct request *r, bson_t *reply, struct error *err) {
  return repl_copy_read(r->op, request_node(r)->repl, r->body, reply, err);
}

static bool end_run(struct request *r, bson_t *reply, struct error *err) {
  return repl_copy_end(r->op, request_node(r)->repl, r->body, reply, err);
}

const struct command node_sync_commands[] = {
    {"_initialSyncBegin", NULL, CMD_ADMIN_ONLY | CMD_ANY_STATE | CMD_INTERNAL, begin_run,
     "begins to copy this member's data"},
    {"_initialSyncRead", NULL, CMD_ADMIN_ONLY | CMD_ANY_STATE | CMD_INTERNAL, read_run, "a part of a file"},
    {"_initialSyncEnd", NULL, CMD_ADMIN_ONLY | CMD_ANY_STATE | CMD_INTERNAL, end_run, "all files were copied"},
    {0},
};
