// insert, update and delete: the commands themselves, and the table of the writing commands.
#include "mongos/write_commands.h"

#include <string.h>

#include "mongos/forward.h"
#include "mongos/shard_call.h"
#include "mongos/write_command.h"

bool forward_write_to_config(struct request *r, bson_t *reply, struct error *err) {
  struct shard_call call = {.target = target_config(), .body = forward_body(r, NULL)};
  if (r->message != NULL) {
    call.sequences = r->message->sequences;
    call.n_sequences = r->message->n_sequences;
  }
  shard_call_run(r, r->op, &call, CALL_WRITE);
  if (!call.ok) {
    *err = call.err;
    return false;
  }
  forward_reply(reply, call.reply);
  return true;
}

static bool run_write(struct request *r, enum write_kind kind, bson_t *reply, struct error *err) {
  struct write_command w;
  struct write_result result;
  if (!request_needs_collection(r, err)) return false;
  if (database_is_on_config(r->db)) return forward_write_to_config(r, reply, err);
  write_result_init(&result, r->op->arena);
  if (!write_command_parse(r, kind, &w, err) || !write_execute(r, &w, &result, err)) return false;
  write_result_append(&result, kind, w.ordered, reply);
  return true;
}

static bool run_insert(struct request *r, bson_t *reply, struct error *err) {
  return run_write(r, WRITE_INSERT, reply, err);
}

static bool run_update(struct request *r, bson_t *reply, struct error *err) {
  return run_write(r, WRITE_UPDATE, reply, err);
}

static bool run_delete(struct request *r, bson_t *reply, struct error *err) {
  return run_write(r, WRITE_DELETE, reply, err);
}

const struct command router_write_commands[] = {
    {"insert", NULL, CMD_WRITE, run_insert, "adds documents"},
    {"update", NULL, CMD_WRITE, run_update, "changes documents"},
    {"delete", NULL, CMD_WRITE, run_delete, "removes documents"},
    {"findAndModify", "findandmodify", CMD_WRITE, run_find_and_modify,
     "changes or removes one document and returns it"},
    {"bulkWrite", NULL, CMD_WRITE | CMD_ADMIN_ONLY, run_bulk_write, "writes to several collections in one command"},
    {NULL, NULL, 0, NULL, NULL},
};
