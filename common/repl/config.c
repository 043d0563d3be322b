// The configuration document of a set: what a user may write, what is made of it, where it lives.
//
// It is a replicated document in local.system.replset, whose uuid is the same in every set, so that applying recognises
// a new one without looking at names.
#include "common/repl/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/bson/doc.h"
#include "common/repl/repl_internal.h"
#include "common/repl/write.h"
#include "common/store/scan.h"

enum { MAX_MEMBERS = 50, MAX_VOTERS = 7, DEFAULT_PORT = 27017, UNKNOWN_FIELD = 40415 };

static const uint8_t config_uuid[16] = {0x72, 0x65, 0x70, 0x6c, 0x73, 0x65, 0x40, 0x74,
                                        0x80, 0x63, 0x6f, 0x6e, 0x66, 0x69, 0x67, 0x31};
static const char config_ns[] = "local.system.replset";

// --- where it lives ---

const bson_t *config_load(struct repl *r, struct arena *a) {
  struct collection *c = store_collection_by_uuid(r->store, config_uuid);
  bson_value_t id = value_str(r->set_name);
  uint32_t file;
  int64_t rid;
  const bson_t *doc = NULL;
  return c && store_find_id(c, a, &id, &file, &rid, &doc) ? doc : NULL;
}

static void take_over(struct repl *r, const bson_t *config) {
  bson_destroy(r->config);
  r->config = bson_copy(config);
  r->election_ms = (uint64_t)config_election_timeout(config);
  if (!r->consensus) return;
  consensus_set_election_timeout(r->consensus, (uint32_t)r->election_ms / 2);
  standing_update(r);
}

static bool look_at_change(void *ctx, const struct change *c) {
  struct repl *r = ctx;
  if (memcmp(c->uuid, config_uuid, sizeof config_uuid) != 0 || strcmp(c->kind, "p") != 0) return true;
  r->config_index = r->applied + 1;
  take_over(r, &c->doc);
  return true;
}

void config_applied(struct repl *r, const bson_t *entry) {
  // Nearly every entry is about something else: its first change tells.
  bson_t changes, first;
  uint8_t uuid[16];
  if (!doc_doc(entry, "c", &changes) || !doc_doc(&changes, "0", &first) || !doc_uuid(&first, "u", uuid)) return;
  if (!memcmp(uuid, config_uuid, sizeof config_uuid)) changes_each(entry, look_at_change, r);
}

void config_reload(struct repl *r, struct arena *a) {
  const bson_t *config = config_load(r, a);
  if (config) take_over(r, config);
}

static bool create_collection(struct operation *op, struct repl *r, struct error *err) {
  bson_t empty = BSON_INITIALIZER;
  struct write *w = write_begin(op, r);
  change_create(write_changes(w), config_uuid, config_ns, &empty, store_next_file_id(r->store), &empty, &empty);
  return write_commit(op, w, err);
}

bool config_write(struct operation *op, struct repl *r, const bson_t *config, struct error *err) {
  if (!store_collection_by_uuid(r->store, config_uuid) && !create_collection(op, r, err)) return false;
  struct collection *c = store_collection_by_uuid(r->store, config_uuid);
  if (!c) return error_set(err, ERR_InternalError, "%s is not there", config_ns);
  bson_value_t id;
  uint32_t file = c->files[0]->id;
  int64_t rid;
  const bson_t *old;
  if (!doc_value(config, "_id", &id) || !store_find_id(c, op->arena, &id, &file, &rid, &old))
    rid = collection_next_rid(c);
  struct write *w = write_begin(op, r);
  change_put(write_changes(w), c, file, rid, config);
  return write_commit(op, w, err);
}

// --- reading it ---

size_t config_members(const bson_t *config) {
  bson_t members;
  return config && doc_doc(config, "members", &members) ? bson_count_keys(&members) : 0;
}

bool config_next_member(const bson_t *config, struct config_walk *walk, struct config_member *out) {
  bson_iter_t field;
  if (!walk->begun) {
    if (!config || !bson_iter_init_find(&field, config, "members") || !bson_iter_recurse(&field, &walk->it))
      return false;
    walk->begun = true;
  }
  if (!bson_iter_next(&walk->it)) return false;
  bson_t doc;
  iter_doc(&doc, &walk->it);
  *out = (struct config_member){.id = (int32_t)doc_i64(&doc, "_id", -1),
                                .host = doc_str(&doc, "host", ""),
                                .priority = doc_double(&doc, "priority", 1),
                                .votes = doc_i64(&doc, "votes", 1),
                                .hidden = doc_bool(&doc, "hidden", false)};
  return true;
}

int64_t config_election_timeout(const bson_t *config) {
  bson_t settings;
  int64_t ms = config && doc_doc(config, "settings", &settings)
                   ? doc_i64(&settings, "electionTimeoutMillis", DEFAULT_ELECTION_MS)
                   : DEFAULT_ELECTION_MS;
  return ms < MIN_ELECTION_MS ? MIN_ELECTION_MS : ms;
}

int64_t config_heartbeat_interval(const bson_t *config) {
  bson_t settings;
  return config && doc_doc(config, "settings", &settings) ? doc_i64(&settings, "heartbeatIntervalMillis", 2000) : 2000;
}

// --- making one ---

static bool invalid(struct error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static bool invalid(struct error *err, const char *fmt, ...) {
  char text[512];
  va_list ap;
  va_start(ap, fmt);
  (void)vsnprintf(text, sizeof text, fmt, ap);
  va_end(ap);
  return error_set(err, ERR_InvalidReplicaSetConfig, "%s", text);
}

static bool known_fields(const bson_t *doc, const char *const *names, const char *where, struct error *err) {
  bson_iter_t it;
  if (!bson_iter_init(&it, doc)) return invalid(err, "%s is not a document", where);
  while (bson_iter_next(&it)) {
    const char *const *n = names;
    while (*n && strcmp(*n, bson_iter_key(&it)) != 0) n++;
    if (!*n) return error_set(err, UNKNOWN_FIELD, "BSON field '%s.%s' is an unknown field.", where, bson_iter_key(&it));
  }
  return true;
}

// "host:port"; the port is added when it is missing.
static const char *normal_host(struct arena *a, const char *host) {
  if (!*host) return NULL;
  const char *colon = strrchr(host, ':'), *bracket = strrchr(host, ']');
  if (!colon || (bracket && colon < bracket)) return arena_printf(a, "%s:%d", host, DEFAULT_PORT);
  char *end;
  long port = strtol(colon + 1, &end, 10);
  return colon == host || *end || port < 1 || port > 65535 ? NULL : host;
}

static bool check_number(const bson_t *doc, const char *name, double least, double most, const char *host,
                         struct error *err) {
  bson_value_t v;
  if (!doc_value(doc, name, &v)) return true;
  double n = value_is_number(&v) ? value_double(&v) : -1;
  if (value_is_number(&v) && n >= least && n <= most) return true;
  return invalid(err, "%s field value of %s is out of range: it has to be between %g and %g", name, host, least, most);
}

static bool check_member(const bson_t *m, const char *host, struct error *err) {
  static const char *const names[] = {"_id",        "host",     "arbiterOnly", "buildIndexes",
                                      "hidden",     "priority", "tags",        "secondaryDelaySecs",
                                      "slaveDelay", "votes",    NULL};
  if (!known_fields(m, names, "ReplSetConfig.members", err)) return false;
  if (!host) return invalid(err, "the host of a member has to be \"host:port\", not \"%s\"", doc_str(m, "host", ""));
  if (!check_number(m, "_id", 0, 255, host, err) || !check_number(m, "priority", 0, 1000, host, err) ||
      !check_number(m, "votes", 0, 1, host, err))
    return false;
  if (doc_bool(m, "arbiterOnly", false))
    return invalid(err, "%s: arbiters are not supported; give it data and priority 0", host);
  if (!doc_bool(m, "buildIndexes", true)) return invalid(err, "%s: buildIndexes false is not supported", host);
  if (doc_i64(m, "secondaryDelaySecs", 0) || doc_i64(m, "slaveDelay", 0))
    return invalid(err, "%s: delayed members are not supported", host);
  double priority = doc_double(m, "priority", 1);
  if (priority > 0 && doc_bool(m, "hidden", false)) return invalid(err, "priority must be 0 when hidden=true");
  if (priority > 0 && doc_i64(m, "votes", 1) == 0) return invalid(err, "priority must be 0 when non-voting (votes:0)");
  return true;
}

static void append_member(bson_t *out, const char *key, const bson_t *m, int64_t id, const char *host) {
  bson_t doc, tags, given;
  BSON_APPEND_DOCUMENT_BEGIN(out, key, &doc);
  BSON_APPEND_INT32(&doc, "_id", (int32_t)id);
  BSON_APPEND_UTF8(&doc, "host", host);
  BSON_APPEND_BOOL(&doc, "arbiterOnly", false);
  BSON_APPEND_BOOL(&doc, "buildIndexes", true);
  BSON_APPEND_BOOL(&doc, "hidden", doc_bool(m, "hidden", false));
  double priority = doc_double(m, "priority", 1);
  if (priority == (double)(int32_t)priority)
    BSON_APPEND_INT32(&doc, "priority", (int32_t)priority);
  else
    BSON_APPEND_DOUBLE(&doc, "priority", priority);
  if (doc_doc(m, "tags", &given)) {
    BSON_APPEND_DOCUMENT(&doc, "tags", &given);
  } else {
    BSON_APPEND_DOCUMENT_BEGIN(&doc, "tags", &tags);
    bson_append_document_end(&doc, &tags);
  }
  BSON_APPEND_INT64(&doc, "secondaryDelaySecs", 0);
  BSON_APPEND_INT32(&doc, "votes", (int32_t)doc_i64(m, "votes", 1));
  bson_append_document_end(out, &doc);
}

struct seen_members {
  const char *hosts[MAX_MEMBERS];
  int64_t ids[MAX_MEMBERS];
  size_t n, voters, electable;
};

static bool note_member(struct seen_members *seen, const bson_t *m, int64_t id, const char *host, struct error *err) {
  if (seen->n == MAX_MEMBERS)
    return invalid(err, "Replica set configuration contains more than %d members", MAX_MEMBERS);
  for (size_t i = 0; i < seen->n; i++) {
    if (seen->ids[i] == id) return invalid(err, "two members have the same _id %lld", (long long)id);
    if (!strcmp(seen->hosts[i], host)) return invalid(err, "two members have the same host %s", host);
  }
  seen->ids[seen->n] = id;
  seen->hosts[seen->n++] = host;
  seen->voters += doc_i64(m, "votes", 1) != 0;
  seen->electable += doc_double(m, "priority", 1) > 0;
  return true;
}

static bool append_members(struct arena *a, const bson_t *given, bson_t *out, struct error *err) {
  struct seen_members *seen = arena_zalloc(a, sizeof *seen);
  bson_iter_t field, it;
  bson_t array, m;
  if (!bson_iter_init_find(&field, given, "members") || !BSON_ITER_HOLDS_ARRAY(&field) ||
      !bson_iter_recurse(&field, &it))
    return invalid(err, "Missing required field: \"members\", an array of {_id, host}");
  BSON_APPEND_ARRAY_BEGIN(out, "members", &array);
  bool ok = true;
  while (ok && bson_iter_next(&it)) {
    if (!BSON_ITER_HOLDS_DOCUMENT(&it)) {
      ok = invalid(err, "a member has to be a document");
      break;
    }
    iter_doc(&m, &it);
    const char *host = normal_host(a, doc_str(&m, "host", ""));
    int64_t id = doc_i64(&m, "_id", (int64_t)seen->n);
    ok = check_member(&m, host, err) && note_member(seen, &m, id, host, err);
    if (ok) append_member(&array, bson_iter_key(&it), &m, id, host);
  }
  bson_append_array_end(out, &array);
  if (!ok) return false;
  if (!seen->n) return invalid(err, "Replica set configuration must contain at least one member");
  if (seen->voters > MAX_VOTERS)
    return invalid(err, "Replica set configuration contains more than %d voting members", MAX_VOTERS);
  if (!seen->voters || !seen->electable)
    return invalid(err,
                   "Replica set configuration must contain at least one voting member with priority greater than zero");
  return true;
}

static void append_default(bson_t *out, const bson_t *given, const char *name, int64_t otherwise) {
  BSON_APPEND_INT32(out, name, (int32_t)doc_i64(given, name, otherwise));
}

// The set's own id, which never changes.
static bool set_id(const bson_t *config, bson_oid_t *out) {
  bson_t settings;
  bson_iter_t it;
  if (!config || !doc_doc(config, "settings", &settings) || !bson_iter_init_find(&it, &settings, "replicaSetId") ||
      !BSON_ITER_HOLDS_OID(&it))
    return false;
  bson_oid_copy(bson_iter_oid(&it), out);
  return true;
}

static bool append_settings(const struct repl *r, const bson_t *given, bson_t *out, struct error *err) {
  static const char *const names[] = {"chainingAllowed",      "heartbeatIntervalMillis",
                                      "heartbeatTimeoutSecs", "electionTimeoutMillis",
                                      "catchUpTimeoutMillis", "catchUpTakeoverDelayMillis",
                                      "getLastErrorModes",    "getLastErrorDefaults",
                                      "replicaSetId",         NULL};
  bson_t empty = BSON_INITIALIZER, from, settings, modes, defaults;
  if (!doc_doc(given, "settings", &from)) doc_view(&from, bson_get_data(&empty), empty.len);
  if (!known_fields(&from, names, "ReplSetConfig.settings", err) ||
      !check_number(&from, "electionTimeoutMillis", MIN_ELECTION_MS, 600000, "settings", err))
    return false;
  BSON_APPEND_DOCUMENT_BEGIN(out, "settings", &settings);
  BSON_APPEND_BOOL(&settings, "chainingAllowed", doc_bool(&from, "chainingAllowed", true));
  append_default(&settings, &from, "heartbeatIntervalMillis", 2000);
  append_default(&settings, &from, "heartbeatTimeoutSecs", 10);
  append_default(&settings, &from, "electionTimeoutMillis", DEFAULT_ELECTION_MS);
  append_default(&settings, &from, "catchUpTimeoutMillis", -1);
  append_default(&settings, &from, "catchUpTakeoverDelayMillis", 30000);
  if (doc_doc(&from, "getLastErrorModes", &modes))
    BSON_APPEND_DOCUMENT(&settings, "getLastErrorModes", &modes);
  else
    BSON_APPEND_DOCUMENT(&settings, "getLastErrorModes", &empty);
  BSON_APPEND_DOCUMENT_BEGIN(&settings, "getLastErrorDefaults", &defaults);
  BSON_APPEND_INT32(&defaults, "w", 1);
  BSON_APPEND_INT32(&defaults, "wtimeout", 0);
  bson_append_document_end(&settings, &defaults);
  bson_oid_t id;
  if (!set_id(given, &id) && !set_id(r->config, &id)) bson_oid_init(&id, NULL);
  BSON_APPEND_OID(&settings, "replicaSetId", &id);
  bson_append_document_end(out, &settings);
  return true;
}

// The parts besides members and settings.
static bool check_top(const struct repl *r, const bson_t *given, struct error *err) {
  static const char *const names[] = {
      "_id",      "version", "term", "configsvr", "members", "protocolVersion", "writeConcernMajorityJournalDefault",
      "settings", NULL};
  if (!known_fields(given, names, "ReplSetConfig", err)) return false;
  const char *name = doc_str(given, "_id", "");
  if (!*name) return invalid(err, "Replica set configuration must have a non-empty _id, the name of the set");
  if (strcmp(name, r->set_name) != 0)
    return invalid(err, "Attempting to initiate a replica set with name %s, but command line reports %s; rejecting",
                   name, r->set_name);
  bool is_config = !strcmp(r->role, "configsvr"), wants_config = doc_bool(given, "configsvr", false);
  if (wants_config && !is_config)
    return invalid(err, "Nodes being used for config servers must be started with the --configsvr flag");
  if (!wants_config && is_config)
    return invalid(err, "Nodes started with the --configsvr flag must have configsvr:true in their config");
  if (doc_i64(given, "protocolVersion", 1) != 1)
    return invalid(err, "Support for replication protocol version %lld was removed",
                   (long long)doc_i64(given, "protocolVersion", 1));
  if (!doc_bool(given, "writeConcernMajorityJournalDefault", true))
    return invalid(
        err,
        "writeConcernMajorityJournalDefault false is not supported: every write is durable before it is acknowledged");
  int64_t version = doc_i64(given, "version", 1);
  return version >= 1 && version <= INT32_MAX
             ? true
             : invalid(err, "version field value of %lld is out of range", (long long)version);
}

bool config_normalize(const struct repl *r, struct arena *a, const bson_t *given, int64_t term, bson_t *out,
                      struct error *err) {
  if (!check_top(r, given, err)) return false;
  BSON_APPEND_UTF8(out, "_id", r->set_name);
  BSON_APPEND_INT32(out, "version", (int32_t)doc_i64(given, "version", 1));
  BSON_APPEND_INT32(out, "term", (int32_t)term);
  if (doc_bool(given, "configsvr", false)) BSON_APPEND_BOOL(out, "configsvr", true);
  if (!append_members(a, given, out, err)) return false;
  BSON_APPEND_INT64(out, "protocolVersion", 1);
  BSON_APPEND_BOOL(out, "writeConcernMajorityJournalDefault", true);
  return append_settings(r, given, out, err);
}

// --- from one to the next ---

static bool incompatible(struct error *err, const char *text) {
  return error_set(err, ERR_NewReplicaSetConfigurationIncompatible, "%s", text);
}

static bool find_member(const bson_t *config, const char *host, struct config_member *out) {
  struct config_walk walk = {0};
  while (config_next_member(config, &walk, out))
    if (!strcmp(out->host, host)) return true;
  return false;
}

// How many voters the first has that the second has not.
static size_t voters_missing(const bson_t *config, const bson_t *other) {
  struct config_walk walk = {0};
  struct config_member m, same;
  size_t n = 0;
  while (config_next_member(config, &walk, &m)) n += m.votes && !(find_member(other, m.host, &same) && same.votes);
  return n;
}

bool config_may_follow(const bson_t *old, const bson_t *next, bool force, struct error *err) {
  struct config_walk walk = {0};
  struct config_member m, before;
  bson_oid_t id, old_id;
  if (set_id(old, &old_id) && set_id(next, &id) && !bson_oid_equal(&id, &old_id))
    return incompatible(err, "New and old configurations differ in replica set ID");
  while (config_next_member(next, &walk, &m)) {
    if (!find_member(old, m.host, &before) || before.id == m.id) continue;
    return error_set(err, ERR_NewReplicaSetConfigurationIncompatible,
                     "New and old configurations both have members with host of %s but in the new configuration the "
                     "_id field is %d and in the old configuration it is %d for replica set %s",
                     m.host, m.id, before.id, doc_str(next, "_id", ""));
  }
  if (!force && voters_missing(old, next) + voters_missing(next, old) > 1)
    return incompatible(err, "Non force replica set reconfig can only add or remove at most 1 voting member");
  return true;
}

bool config_elects(const struct repl *r, const bson_t *config, const char *self, struct error *err) {
  long long version = doc_i64(config, "version", 1), term = doc_i64(config, "term", 0);
  struct config_member m;
  if (!self || !find_member(config, self, &m))
    return error_set(
        err, ERR_NodeNotFound,
        "No host described in new configuration with {version: %lld, term: %lld} for replica set %s maps to this node",
        version, term, r->set_name);
  if (m.priority > 0) return true;
  return error_set(err, ERR_NodeNotElectable,
                   "This node, %s, with _id MemberId(%d) is not electable under the new configuration with {version: "
                   "%lld, term: %lld} for replica set %s",
                   self, m.id, version, term, r->set_name);
}
