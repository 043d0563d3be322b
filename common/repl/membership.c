// The members of a set of several: telling those that do not know yet that they are in it, and bringing raft's list of
// members to what the configuration document says, one change at a time (the rules are consensus_members.c's).
#include <raft.h>
#include <string.h>

#include "common/base/log.h"
#include "common/bson/doc.h"
#include "common/repl/repl_internal.h"
#include "common/repl/transport.h"

enum {
  STEP_MS = 250,
  TELL_MS = 2000,
  SILENT_MS = 3000, // a member that was not heard of for so long is asked who it is
};

// --- telling ---

// The first entry of the log, while it is there: a founding member needs it, one that is added later does not.
static struct entry *founding_entry(struct operation *op, struct repl *r) {
  struct entry *e = raft_log_get(r->log, 1);
  if (e) return entry_ref(e);
  return raft_log_first(r->log) == 1 && raft_log_read(op, r->log, 1, 1, 1, &e) == 1 ? e : NULL;
}

static bool tell(struct operation *op, struct repl *r, const char *host, uint64_t id, struct error *err) {
  if (!r->config) return error_set(err, ERR_NotYetInitialized, "there is no configuration yet");
  struct entry *first = founding_entry(op, r); // NULL: too long ago; the member gets what was from its leader
  struct members founders = {0};
  if (first && !members_decode(first->data, first->len, &founders))
    log_fatal("REPL", "The log's first entry is no list of members", NULL);
  bson_t body = BSON_INITIALIZER;
  BSON_APPEND_INT32(&body, "_raftBootstrap", 1);
  BSON_APPEND_UTF8(&body, "set", r->set_name);
  BSON_APPEND_UTF8(&body, "self", host);
  BSON_APPEND_INT64(&body, "id", (int64_t)id);
  BSON_APPEND_DOCUMENT(&body, "config", r->config);
  if (first && members_find(&founders, id))
    BSON_APPEND_BINARY(&body, "first", BSON_SUBTYPE_BINARY, first->data, first->len);
  struct remote_command cmd = {.db = "admin", .body = &body, .timeout_ms = TELL_MS};
  const bson_t *reply;
  bool ok = remote_call(op, r->remotes, host, &cmd, &reply, err);
  bson_destroy(&body);
  members_free(&founders);
  entry_unref(first);
  return ok;
}

// Members that were never heard of may not know that they are in the set: a crash of whoever founded it, or of them.
static void tell_silent(struct operation *op, struct repl *r) {
  const struct members *m = consensus_members(r->consensus);
  for (size_t i = 0; i < m->n; i++) {
    uint64_t id = m->list[i].id;
    if (id == r->id || transport_heard(r->transport, id) >= 0) continue;
    const char *host = arena_strdup(op->arena, m->list[i].address);
    struct error err;
    if (!tell(op, r, host, id, &err)) log_debug("REPL", "A member does not answer yet", "host:s error:e", host, &err);
    return; // one a round: the list may be another now
  }
}

// --- changing ---

static bool config_has(const struct repl *r, const char *host, struct config_member *out) {
  struct config_walk walk = {0};
  while (config_next_member(r->config, &walk, out))
    if (!strcmp(out->host, host)) return true;
  return false;
}

static const struct member *by_host(const struct members *m, const char *host) {
  for (size_t i = 0; i < m->n; i++)
    if (!strcmp(m->list[i].address, host)) return &m->list[i];
  return NULL;
}

// The present members with one of them in another role (or without it: remove).
static void change_one(struct repl *r, uint64_t id, bool remove, enum member_role role) {
  const struct members *now = consensus_members(r->consensus);
  struct members next = {0};
  struct error err;
  for (size_t i = 0; i < now->n; i++) {
    const struct member *m = &now->list[i];
    if (m->id != id)
      members_add(&next, m->id, m->address, m->role);
    else if (!remove)
      members_add(&next, m->id, m->address, role);
  }
  if (consensus_change(r->consensus, drive_now(), &next, &err))
    drive_settle(r);
  else
    log_debug("REPL", "The members cannot be changed now", "error:e", &err);
  members_free(&next);
}

static void add_one(struct operation *op, struct repl *r, const char *host) {
  struct identity who;
  struct error err;
  uint64_t term = r->leading;
  if (!initiate_ask(op, r, host, &who, &err)) {
    log_warn("REPL", "A member that is to be added does not answer", "host:s error:e", host, &err);
    return;
  }
  if (r->leading != term || !consensus_can_change(r->consensus)) return;
  const struct members *now = consensus_members(r->consensus);
  struct members next = {0};
  for (size_t i = 0; i < now->n; i++) members_add(&next, now->list[i].id, now->list[i].address, now->list[i].role);
  members_add(&next, raft_digest(host, who.instance), host, ROLE_STANDBY);
  if (consensus_change(r->consensus, drive_now(), &next, &err)) drive_settle(r);
  members_free(&next);
}

// --- members whose data directory was emptied ---

// A silent member whose host answers as somebody else: the old one has lost its memory and never comes back. It is
// removed (so its vote is never cast by the new one), and then added anew like any member.
static bool remove_emptied(struct operation *op, struct repl *r) {
  const struct members *m = consensus_members(r->consensus);
  int64_t now = loop_now_ms(r->loop);
  uint64_t term = r->leading;
  for (size_t i = 0; i < m->n; i++) {
    uint64_t id = m->list[i].id;
    int64_t heard = transport_heard(r->transport, id);
    if (id == r->id || now - (heard < 0 ? r->started_ms : heard) < SILENT_MS) continue;
    const char *host = arena_strdup(op->arena, m->list[i].address);
    struct identity who;
    struct error err;
    bool emptied = initiate_ask(op, r, host, &who, &err) && raft_digest(host, who.instance) != id;
    m = consensus_members(r->consensus); // asking took time
    if (r->leading != term || !consensus_can_change(r->consensus)) return true;
    if (!emptied || i >= m->n || m->list[i].id != id) continue;
    log_warn("REPL", "A member has come back without its data: it is replaced by a new one", "host:s", host);
    change_one(r, id, true, ROLE_STANDBY);
    return true;
  }
  return false;
}

// A new voter has all that a secondary has: until then it would be counted, and could not help.
static bool is_ready(const struct repl *r, uint64_t id) {
  const struct report *told = transport_report(r->transport, id);
  return told && told->state == MEMBER_SECONDARY;
}

// Raft sends nothing to a member that was removed, so it has to have applied the configuration that removes it: else it
// would take itself for a secondary. One that is silent is not waited for.
static bool knows_configuration(const struct repl *r, uint64_t id) {
  const struct report *told = transport_report(r->transport, id);
  int64_t heard = transport_heard(r->transport, id);
  bool silent = !told || heard < 0 || loop_now_ms(r->loop) - heard >= SILENT_MS;
  return silent || told->applied >= r->config_index;
}

// --- steps ---

// One step from raft's members to the configuration's. Removals and demotions first, additions, then promotions.
static void step(struct operation *op, struct repl *r) {
  const struct members *m = consensus_members(r->consensus);
  struct config_member c;
  for (size_t i = 0; i < m->n; i++) {
    const struct member *x = &m->list[i];
    bool wanted = config_has(r, x->address, &c);
    if (wanted && (c.votes || x->role != ROLE_VOTER)) continue;
    if (x->id == r->id)
      standing_hand_over(r); // somebody else removes this one
    else if (wanted || knows_configuration(r, x->id))
      change_one(r, x->id, !wanted, ROLE_STANDBY);
    return;
  }
  struct config_walk walk = {0};
  while (config_next_member(r->config, &walk, &c)) {
    const struct member *x = by_host(m, c.host);
    if (!x) {
      add_one(op, r, arena_strdup(op->arena, c.host));
      return;
    }
    if (!c.votes || x->role == ROLE_VOTER || !is_ready(r, x->id)) continue;
    if (consensus_caught_up(r->consensus, x->id))
      change_one(r, x->id, false, ROLE_VOTER);
    else
      (void)consensus_catch_up(r->consensus, drive_now(), x->id);
    return;
  }
}

static void membership_fiber(struct operation *op, void *arg) {
  struct repl *r = arg;
  while (op_sleep(op, STEP_MS, NULL)) {
    arena_reset(op->arena);
    bool several = consensus_members(r->consensus)->n > 1;
    if (several && r->remotes) tell_silent(op, r);
    transport_tell(r->transport, 0);
    transport_keep(r->transport, consensus_members(r->consensus));
    bool may = repl_is_primary(r) && consensus_can_change(r->consensus);
    if (may && (!several || !remove_emptied(op, r))) step(op, r);
    drive_settle(r);
  }
  if (!r->stopping) membership_start(r); // somebody killed the operation
}

void membership_start(struct repl *r) {
  (void)repl_job(r, "replMembers", membership_fiber, r);
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
  if (!config_may_follow(r->config, config, force, err)) return false;
  if (!force && !config_elects(r, config, r->self, err)) return false; // by force: it hands over
  struct config_walk walk = {0};
  struct config_member m;
  while (config_next_member(config, &walk, &m)) {
    struct identity who;
    if (!by_host(consensus_members(r->consensus), m.host) && !initiate_ask(op, r, m.host, &who, err))
      return error_prefix(err, "a new member has to answer");
  }
  return config_write(op, r, config, err);
}
