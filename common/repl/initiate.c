// A new set: checks the configuration, finds this member in it, writes the log's first entry (the members, all voters
// at once), and begins to take part.
//
// The configuration is kept beside the log until the first primary has written it as a document, so that a crash in
// between loses nothing.
#include <raft.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/bson/doc.h"
#include "common/repl/initial_sync.h"
#include "common/repl/repl_internal.h"

enum { ASK_MS = 5000 };

static void default_config(const struct repl *r, bson_t *out) {
  bson_t members, m;
  BSON_APPEND_UTF8(out, "_id", r->set_name);
  BSON_APPEND_INT32(out, "version", 1);
  if (!strcmp(r->role, "configsvr")) BSON_APPEND_BOOL(out, "configsvr", true);
  BSON_APPEND_ARRAY_BEGIN(out, "members", &members);
  BSON_APPEND_DOCUMENT_BEGIN(&members, "0", &m);
  BSON_APPEND_INT32(&m, "_id", 0);
  BSON_APPEND_UTF8(&m, "host", r->self);
  bson_append_document_end(&members, &m);
  bson_append_array_end(out, &members);
}

void repl_identity(const struct repl *r, bson_t *reply) {
  BSON_APPEND_INT64(reply, "instance", (int64_t)r->instance);
  BSON_APPEND_UTF8(reply, "set", r->set_name);
  BSON_APPEND_BOOL(reply, "initiated", r->consensus != NULL);
}

bool initiate_ask(struct operation *op, struct repl *r, const char *host, struct identity *out, struct error *err) {
  *out = (struct identity){.instance = r->instance, .initiated = r->consensus != NULL, .self = true};
  if (!strcmp(host, r->self)) return true;
  if (!r->remotes) return error_set(err, ERR_NodeNotFound, "%s is not %s", host, r->self);
  bson_t body = BSON_INITIALIZER;
  BSON_APPEND_INT32(&body, "_isSelf", 1);
  struct remote_command cmd = {.db = "admin", .body = &body, .timeout_ms = ASK_MS};
  const bson_t *reply;
  bool ok = remote_call(op, r->remotes, host, &cmd, &reply, err);
  bson_destroy(&body);
  if (!ok) return error_prefix(err, "%s", host);
  out->instance = (uint64_t)doc_i64(reply, "instance", 0);
  out->initiated = doc_bool(reply, "initiated", false);
  out->self = out->instance == r->instance;
  const char *set = doc_str(reply, "set", "");
  if (strcmp(set, r->set_name) != 0)
    return error_set(err, ERR_InvalidReplicaSetConfig, "%s was started for the replica set \"%s\", not \"%s\"", host,
                     set, r->set_name);
  return true;
}

// Asks every member who it is: all have to answer, none may be in a set. Fills in the members and the host that is this
// one.
static bool ask_all(struct operation *op, struct repl *r, const bson_t *config, struct members *members,
                    const char **self, struct error *err) {
  struct config_walk walk = {0};
  struct config_member m;
  *self = NULL;
  while (config_next_member(config, &walk, &m)) {
    struct identity who;
    if (!initiate_ask(op, r, m.host, &who, err))
      return error_prefix(
          err, "replSetInitiate quorum check failed because not all proposed set members responded affirmatively");
    if (who.initiated) return error_set(err, ERR_AlreadyInitialized, "%s is in a replica set already", m.host);
    if (who.self) *self = m.host;
    members_add(members, raft_digest(m.host, who.instance), m.host, m.votes ? ROLE_VOTER : ROLE_STANDBY);
  }
  return config_elects(r, config, *self, err);
}

void initiate_note_identity(struct repl *r) {
  bson_t note = BSON_INITIALIZER;
  BSON_APPEND_INT64(&note, "instance", (int64_t)r->instance);
  BSON_APPEND_UTF8(&note, "set", r->set_name);
  BSON_APPEND_UTF8(&note, "self", r->self);
  BSON_APPEND_INT64(&note, "id", (int64_t)r->id);
  if (initial_sync_joining(r)) BSON_APPEND_BOOL(&note, "joining", true);
  raft_log_note(r->log, "identity", &note, NULL, NULL);
  bson_destroy(&note);
}

// first: the log's first entry, the members; NULL for one that is added to a set and gets everything from its leader.
static bool begin_set(struct operation *op, struct repl *r, const char *self, const bson_t *config, struct entry *first,
                      struct error *err) {
  char *copy = strdup(self);
  if (!copy) log_fatal("REPL", "Out of memory for a set's configuration", NULL);
  free(r->self);
  r->self = copy;
  r->id = raft_digest(self, r->instance);
  bson_destroy(r->config);
  r->config = bson_copy(config);
  raft_log_cork(r->log, true);
  if (!first) initial_sync_join(r);
  initiate_note_identity(r);
  raft_log_note(r->log, "config", config, NULL, NULL);
  if (first) {
    first->term = 1;
    raft_log_vote(r->log, 1, 0);
    raft_log_append(r->log, 1, &first, 1);
  }
  raft_log_cork(r->log, false);
  raft_log_sync(op, r->log);
  struct log_head head = {1, ENTRY_CHANGE, first};
  struct consensus_state joining = {.first = 1}, founding = {.term = 1, .first = 1, .heads = &head, .n = 1};
  return repl_join(op, r, first ? &founding : &joining, err);
}

static bool found_set(struct operation *op, struct repl *r, const bson_t *config, struct error *err) {
  struct members members = {0};
  const char *self;
  bool ok = ask_all(op, r, config, &members, &self, err);
  if (ok) {
    struct entry *first = members_encode(&members);
    ok = begin_set(op, r, self, config, first, err);
    entry_unref(first);
  }
  members_free(&members);
  return ok;
}

bool repl_initiate(struct operation *op, struct repl *r, const bson_t *given, struct error *err) {
  if (r->consensus || r->initiating) return error_set(err, ERR_AlreadyInitialized, "already initialized");
  bson_t own = BSON_INITIALIZER, *config = arena_bson(op->arena);
  if (!given || bson_empty(given)) default_config(r, &own);
  bool ok = config_normalize(r, op->arena, bson_empty(&own) ? given : &own, 1, config, err);
  bson_destroy(&own);
  if (!ok) return false;
  if (doc_i64(config, "version", 1) != 1)
    return error_set(err, ERR_NewReplicaSetConfigurationIncompatible,
                     "Configuration used to initiate a replica set must  have version 1, but found %lld",
                     (long long)doc_i64(config, "version", 1));
  r->initiating = true; // asking others yields
  ok = found_set(op, r, config, err);
  r->initiating = false;
  if (ok) log_info("REPL", "New replica set initiated", "config:b", config);
  return ok;
}

// --- being told ---

bool repl_bootstrap(struct operation *op, struct repl *r, const bson_t *body, struct error *err) {
  const char *set = doc_str(body, "set", ""), *self = doc_str(body, "self", "");
  uint64_t id = (uint64_t)doc_i64(body, "id", 0);
  bson_t config;
  bson_value_t first;
  bool founding = doc_value(body, "first", &first);
  struct members members;
  if (strcmp(set, r->set_name) != 0)
    return error_set(err, ERR_InvalidReplicaSetConfig, "this is a member of %s, not %s", r->set_name, set);
  if (!*self || !doc_doc(body, "config", &config))
    return error_set(err, ERR_BadValue, "_raftBootstrap needs self and config");
  if (id != raft_digest(self, r->instance))
    return error_set(err, ERR_NodeNotFound, "another member was expected at %s", self);
  if (r->consensus) return r->id == id ? true : error_set(err, ERR_AlreadyInitialized, "already initialized");
  if (r->initiating) return error_set(err, ERR_ConflictingOperationInProgress, "this member is being initiated");
  if (founding && (first.value_type != BSON_TYPE_BINARY ||
                   !members_decode(first.value.v_binary.data, first.value.v_binary.data_len, &members)))
    return error_set(err, ERR_BadValue, "_raftBootstrap: the members cannot be read");
  struct entry *e = NULL;
  if (founding) {
    members_free(&members);
    e = entry_new(ENTRY_CHANGE, 1, first.value.v_binary.data, first.value.v_binary.data_len);
  }
  r->initiating = true;
  bool ok = begin_set(op, r, self, &config, e, err);
  r->initiating = false;
  entry_unref(e);
  if (ok) log_info("REPL", "Joined a replica set", "set:s self:s", set, self);
  return ok;
}
