// A new set: checks the configuration, finds this member in it, writes the log's first entry (the members, all voters
// at once), and begins to take part.
//
// The configuration is kept beside the log until the first primary has written it as a document, so that a crash in
// between loses nothing.
#include <raft.h>
#include <string.h>

#include "common/base/log.h"
#include "common/bson/doc.h"
#include "common/repl/repl_internal.h"

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

// Whether `host` is this process: by name, else by asking whoever answers there.
static bool is_self(struct operation *op, struct repl *r, const char *host, struct error *why) {
  if (!strcmp(host, r->self)) return true;
  if (!r->remotes) return error_set(why, ERR_NodeNotFound, "%s is not %s", host, r->self);
  bson_t body = BSON_INITIALIZER;
  BSON_APPEND_INT32(&body, "_isSelf", 1);
  struct remote_command cmd = {.db = "admin", .body = &body, .timeout_ms = 5000};
  const bson_t *reply;
  bool ok = remote_call(op, r->remotes, host, &cmd, &reply, why);
  bson_destroy(&body);
  if (!ok) return false;
  return (uint64_t)doc_i64(reply, "instance", 0) == r->instance
             ? true
             : error_set(why, ERR_NodeNotFound, "%s is another member", host);
}

void repl_identity(const struct repl *r, bson_t *reply) {
  BSON_APPEND_INT64(reply, "instance", (int64_t)r->instance);
  BSON_APPEND_UTF8(reply, "set", r->set_name);
}

// The host by which the configuration names this member.
static const char *find_self(struct operation *op, struct repl *r, const bson_t *config, struct error *err) {
  struct config_walk by_name = {0}, asking = {0};
  struct config_member m;
  struct error why = {0};
  while (config_next_member(config, &by_name, &m))
    if (!strcmp(m.host, r->self)) return m.host;
  while (config_next_member(config, &asking, &m))
    if (is_self(op, r, m.host, &why)) return m.host;
  error_set(err, ERR_NodeNotFound,
            "No host described in new configuration with {version: %lld, term: 0} for replica set %s maps to this node "
            "(%s; the last one asked: %s)",
            (long long)doc_i64(config, "version", 1), r->set_name, r->self, why.message);
  return NULL;
}

static void write_identity(struct repl *r) {
  bson_t note = BSON_INITIALIZER;
  BSON_APPEND_INT64(&note, "instance", (int64_t)r->instance);
  BSON_APPEND_UTF8(&note, "set", r->set_name);
  BSON_APPEND_UTF8(&note, "self", r->self);
  BSON_APPEND_INT64(&note, "id", (int64_t)r->id);
  raft_log_note(r->log, "identity", &note, NULL, NULL);
  bson_destroy(&note);
}

static bool begin_set(struct operation *op, struct repl *r, const char *self, const bson_t *config, struct error *err) {
  char *copy = strdup(self);
  if (!copy) log_fatal("REPL", "Out of memory for a set's configuration", NULL);
  free(r->self);
  r->self = copy;
  r->id = raft_digest(self, r->instance);
  r->config = bson_copy(config);
  struct members m = {0};
  members_add(&m, r->id, self, ROLE_VOTER);
  struct entry *first = members_encode(&m);
  members_free(&m);
  first->term = 1;

  write_identity(r);
  raft_log_note(r->log, "config", config, NULL, NULL);
  raft_log_vote(r->log, 1, 0);
  raft_log_append(r->log, 1, &first, 1); // last: a log with an entry is a set's
  raft_log_sync(op, r->log);
  struct log_head head = {1, ENTRY_CHANGE, first};
  struct consensus_state state = {.term = 1, .first = 1, .heads = &head, .n = 1};
  bool ok = repl_join(op, r, &state, err);
  entry_unref(first);
  return ok;
}

static bool check_new(const struct repl *r, const bson_t *config, struct error *err) {
  if (doc_i64(config, "version", 1) != 1)
    return error_set(err, ERR_NewReplicaSetConfigurationIncompatible,
                     "Configuration used to initiate a replica set must  have version 1, but found %lld",
                     (long long)doc_i64(config, "version", 1));
  if (config_members(config) > 1)
    return error_set(err, ERR_NewReplicaSetConfigurationIncompatible,
                     "replica sets of more than one member are not supported yet: initiate with this member alone");
  return true;
}

bool repl_initiate(struct operation *op, struct repl *r, const bson_t *given, struct error *err) {
  if (r->consensus || r->initiating) return error_set(err, ERR_AlreadyInitialized, "already initialized");
  bson_t own = BSON_INITIALIZER, *config = arena_bson(op->arena);
  if (!given || bson_empty(given)) default_config(r, &own);
  bool ok =
      config_normalize(r, op->arena, bson_empty(&own) ? given : &own, 1, config, err) && check_new(r, config, err);
  bson_destroy(&own);
  if (!ok) return false;
  r->initiating = true; // asking others yields
  const char *self = find_self(op, r, config, err);
  ok = self && begin_set(op, r, self, config, err);
  r->initiating = false;
  if (ok) log_info("REPL", "New replica set initiated", "config:b", config);
  return ok;
}

bool repl_reconfig(struct operation *op, struct repl *r, const bson_t *given, bool force, struct error *err) {
  if (!r->consensus || !r->config) return error_set(err, ERR_NotYetInitialized, "no replset config has been received");
  if (!repl_is_primary(r))
    return error_set(err, ERR_NotWritablePrimary,
                     "replSetReconfig should only be run on a writable PRIMARY. Current state %s;",
                     member_state_name(r->state));
  bson_t *config = arena_bson(op->arena);
  if (!config_normalize(r, op->arena, given, repl_term(r), config, err)) return false;
  int64_t old = doc_i64(r->config, "version", 1), version = doc_i64(config, "version", 1);
  if (version <= old && !force)
    return error_set(err, ERR_NewReplicaSetConfigurationIncompatible,
                     "New replica set configuration version must be greater than old, but %lld is not greater than "
                     "%lld for replica set %s",
                     (long long)version, (long long)old, r->set_name);
  struct config_walk walk = {0};
  struct config_member m;
  if (config_members(config) != 1 || !config_next_member(config, &walk, &m) || strcmp(m.host, r->self) != 0)
    return error_set(
        err, ERR_NewReplicaSetConfigurationIncompatible,
        "the members of a set cannot be changed yet: replica sets of more than one member are not supported");
  return config_write(op, r, config, err);
}
