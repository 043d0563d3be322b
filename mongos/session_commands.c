// Sessions: a router keeps cursors of them and nothing else.
#include <string.h>

#include "common/base/clock.h"
#include "common/bson/doc.h"
#include "mongos/router_cursor.h"

static bool run_start_session(struct request *r, bson_t *reply, struct error *err) {
  uint8_t uuid[16];
  bson_t id;
  uuid_new(uuid);
  bson_append_document_begin(reply, "id", -1, &id);
  doc_append_uuid(&id, "id", uuid);
  bson_append_document_end(reply, &id);
  bson_append_int32(reply, "timeoutMinutes", -1, 30);
  return true;
}

// Ends the cursors of the sessions {id: UUID} in the command's own array.
static bool end_sessions(struct request *r, struct error *err) {
  bson_t list;
  bson_iter_t it;
  if (!BSON_ITER_HOLDS_ARRAY(&r->first)) {
    return error_set(err, ERR_TypeMismatch, "BSON field '%s.%s' is the wrong type, expected type 'array'", r->name,
                     r->name);
  }
  iter_doc(&list, &r->first);
  for (bool more = bson_iter_init(&it, &list); more && bson_iter_next(&it);) {
    bson_t session;
    uint8_t id[16];
    iter_doc(&session, &it);
    if (doc_uuid(&session, "id", id)) router_cursors_kill_session(router_of(r)->cursors, id);
  }
  return true;
}

static bool run_end_sessions(struct request *r, bson_t *reply, struct error *err) {
  return end_sessions(r, err);
}

static bool run_refresh_sessions(struct request *r, bson_t *reply, struct error *err) {
  return true;
}

static bool run_kill_all_sessions(struct request *r, bson_t *reply, struct error *err) {
  router_cursors_kill_session(router_of(r)->cursors, NULL);
  return true;
}

const struct command router_session_commands[] = {
    {"startSession", NULL, CMD_ANY_STATE, run_start_session, "a new session's id"},
    {"endSessions", NULL, CMD_ANY_STATE, run_end_sessions, "ends sessions"},
    {"refreshSessions", NULL, CMD_ANY_STATE, run_refresh_sessions, "keeps sessions alive"},
    {"killSessions", NULL, CMD_ANY_STATE, run_end_sessions, "ends sessions and what they have open"},
    {"killAllSessions", NULL, CMD_ANY_STATE, run_kill_all_sessions, "ends all sessions and what they have open"},
    {NULL, NULL, 0, NULL, NULL},
};
