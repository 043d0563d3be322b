// What a member tells about itself and its set: hello and replSetGetStatus.
#include <string.h>

#include "common/base/clock.h"
#include "common/bson/doc.h"
#include "common/repl/initial_sync.h"
#include "common/repl/repl_internal.h"
#include "common/repl/transport.h"

enum { LEAST_HEALTHY_MS = 2000 };

static void append_optime(bson_t *doc, const char *name, const struct optime *t) {
  bson_t sub;
  BSON_APPEND_DOCUMENT_BEGIN(doc, name, &sub);
  doc_append_ts(&sub, "ts", t->ts);
  BSON_APPEND_INT64(&sub, "t", t->ts ? t->term : -1);
  bson_append_document_end(doc, &sub);
}

// The host by which the configuration knows the member with this id. NULL: unknown.
static const char *host_of(const struct repl *r, uint64_t id) {
  if (!r->consensus || !id) return NULL;
  const struct member *m = members_find(consensus_members(r->consensus), id);
  return m ? m->address : NULL;
}

const char *status_primary(const struct repl *r) {
  if (r->state == MEMBER_PRIMARY) return repl_is_primary(r) ? r->self : NULL;
  return r->known_leader == r->id ? NULL : host_of(r, r->known_leader); // it may be stepping up still
}

static void append_primary(const struct repl *r, bson_t *reply) {
  const char *primary = status_primary(r);
  if (primary) BSON_APPEND_UTF8(reply, "primary", primary);
}

// --- hello ---

enum host_list { HOSTS, PASSIVES };

static void append_hosts(const struct repl *r, const char *name, enum host_list which, bson_t *reply) {
  struct config_walk walk = {0};
  struct config_member m;
  bson_t list;
  uint32_t n = 0;
  char buffer[16];
  const char *key;
  bson_init(&list);
  while (config_next_member(r->config, &walk, &m)) {
    if (m.hidden || (m.priority > 0) != (which == HOSTS)) continue;
    bson_uint32_to_string(n++, &key, buffer, sizeof buffer);
    BSON_APPEND_UTF8(&list, key, m.host);
  }
  if (n || which == HOSTS) BSON_APPEND_ARRAY(reply, name, &list);
  bson_destroy(&list);
}

static void append_own_traits(const struct repl *r, bson_t *reply) {
  struct config_walk walk = {0};
  struct config_member m;
  bson_t doc, tags;
  while (config_next_member(r->config, &walk, &m)) {
    if (strcmp(m.host, r->self) != 0) continue;
    if (m.priority == 0) BSON_APPEND_BOOL(reply, "passive", true);
    if (m.hidden) BSON_APPEND_BOOL(reply, "hidden", true);
    iter_doc(&doc, &walk.it);
    if (doc_doc(&doc, "tags", &tags) && !bson_empty(&tags)) BSON_APPEND_DOCUMENT(reply, "tags", &tags);
    return;
  }
}

// Grows with the term, so that clients tell a new primary from an old one.
static void election_id(uint64_t term, bson_oid_t *oid) {
  oid->bytes[0] = 0x7f;
  memset(oid->bytes + 1, 0xff, 3);
  for (int i = 0; i < 8; i++) oid->bytes[4 + i] = (uint8_t)(term >> (56 - 8 * i));
}

static void append_last_write(const struct repl *r, bson_t *reply) {
  bson_t sub;
  BSON_APPEND_DOCUMENT_BEGIN(reply, "lastWrite", &sub);
  append_optime(&sub, "opTime", &r->last);
  BSON_APPEND_DATE_TIME(&sub, "lastWriteDate", r->last_wall_ms);
  append_optime(&sub, "majorityOpTime", &r->last); // what is applied is committed by a majority
  BSON_APPEND_DATE_TIME(&sub, "majorityWriteDate", r->last_wall_ms);
  bson_append_document_end(reply, &sub);
}

void repl_hello(const struct repl *r, bson_t *reply) {
  bool primary = repl_is_primary(r);
  if (!r->config) {
    BSON_APPEND_BOOL(reply, "isWritablePrimary", false);
    BSON_APPEND_BOOL(reply, "ismaster", false);
    BSON_APPEND_BOOL(reply, "secondary", false);
    BSON_APPEND_BOOL(reply, "isreplicaset", true);
    BSON_APPEND_UTF8(reply, "info", "Does not have a valid replica set config");
    return;
  }
  append_hosts(r, "hosts", HOSTS, reply);
  append_hosts(r, "passives", PASSIVES, reply);
  BSON_APPEND_UTF8(reply, "setName", r->set_name);
  BSON_APPEND_INT32(reply, "setVersion", (int32_t)doc_i64(r->config, "version", 1));
  BSON_APPEND_BOOL(reply, "isWritablePrimary", primary);
  BSON_APPEND_BOOL(reply, "ismaster", primary);
  BSON_APPEND_BOOL(reply, "secondary", r->state == MEMBER_SECONDARY);
  append_primary(r, reply);
  append_own_traits(r, reply);
  BSON_APPEND_UTF8(reply, "me", r->self);
  if (primary) {
    bson_oid_t id;
    election_id(r->leading, &id);
    BSON_APPEND_OID(reply, "electionId", &id);
  }
  append_last_write(r, reply);
}

// --- replSetGetStatus ---

static void append_optimes(const struct repl *r, bson_t *reply) {
  bson_t sub;
  BSON_APPEND_DOCUMENT_BEGIN(reply, "optimes", &sub);
  append_optime(&sub, "lastCommittedOpTime", &r->last);
  BSON_APPEND_DATE_TIME(&sub, "lastCommittedWallTime", r->last_wall_ms);
  append_optime(&sub, "readConcernMajorityOpTime", &r->last);
  append_optime(&sub, "appliedOpTime", &r->last);
  append_optime(&sub, "durableOpTime", &r->last);
  append_optime(&sub, "writtenOpTime", &r->last);
  BSON_APPEND_DATE_TIME(&sub, "lastAppliedWallTime", r->last_wall_ms);
  BSON_APPEND_DATE_TIME(&sub, "lastDurableWallTime", r->last_wall_ms);
  BSON_APPEND_DATE_TIME(&sub, "lastWrittenWallTime", r->last_wall_ms);
  bson_append_document_end(reply, &sub);
}

static int32_t config_id(const struct repl *r, const char *host) {
  struct config_walk walk = {0};
  struct config_member m;
  while (config_next_member(r->config, &walk, &m))
    if (!strcmp(m.host, host)) return m.id;
  return -1;
}

// Whoever is not primary gets its entries from the one that is.
static void append_sync_source(const struct repl *r, enum member_state state, const char *host, bson_t *doc) {
  const char *leader = host_of(r, r->known_leader);
  bool follows = state == MEMBER_SECONDARY || state == MEMBER_RECOVERING || state == MEMBER_STARTUP2;
  if (!follows || !leader || !strcmp(leader, host)) leader = "";
  BSON_APPEND_UTF8(doc, "syncSourceHost", leader);
  BSON_APPEND_INT32(doc, "syncSourceId", config_id(r, leader));
  BSON_APPEND_UTF8(doc, "infoMessage", "");
}

static void append_progress(bson_t *doc, const struct optime *last, int64_t wall_ms, bool self) {
  int64_t date = (int64_t)(last->ts >> 32) * 1000;
  append_optime(doc, "optime", last);
  if (!self) append_optime(doc, "optimeDurable", last);
  append_optime(doc, "optimeWritten", last);
  BSON_APPEND_DATE_TIME(doc, "optimeDate", date);
  if (!self) BSON_APPEND_DATE_TIME(doc, "optimeDurableDate", date);
  BSON_APPEND_DATE_TIME(doc, "optimeWrittenDate", date);
  BSON_APPEND_DATE_TIME(doc, "lastAppliedWallTime", wall_ms);
  BSON_APPEND_DATE_TIME(doc, "lastDurableWallTime", wall_ms);
  BSON_APPEND_DATE_TIME(doc, "lastWrittenWallTime", wall_ms);
}

static void append_self(const struct repl *r, bson_t *doc) {
  BSON_APPEND_DOUBLE(doc, "health", 1);
  BSON_APPEND_INT32(doc, "state", (int32_t)r->state);
  BSON_APPEND_UTF8(doc, "stateStr", member_state_name(r->state));
  BSON_APPEND_INT32(doc, "uptime", (int32_t)((clock_mono_ms() - r->started_ms) / 1000));
  append_progress(doc, &r->last, r->last_wall_ms, true);
  append_sync_source(r, r->state, r->self, doc);
  if (r->state == MEMBER_PRIMARY) {
    doc_append_ts(doc, "electionTime", (uint64_t)(r->elected_ms / 1000) << 32 | 1);
    BSON_APPEND_DATE_TIME(doc, "electionDate", r->elected_ms);
  }
}

// Of another member: what it told, and when it was heard. Members talk to each other several times a second.
static void append_other(const struct repl *r, uint64_t id, const char *host, bson_t *doc) {
  static const struct report nothing = {.state = MEMBER_DOWN};
  int64_t heard = transport_heard(r->transport, id), now = loop_now_ms(r->loop);
  int64_t patience = (int64_t)r->election_ms < LEAST_HEALTHY_MS ? LEAST_HEALTHY_MS : (int64_t)r->election_ms;
  const struct report *told = transport_report(r->transport, id);
  bool healthy = heard >= 0 && told && now - heard < patience;
  if (!told) told = &nothing;
  BSON_APPEND_DOUBLE(doc, "health", healthy ? 1 : 0);
  BSON_APPEND_INT32(doc, "state", (int32_t)(healthy ? told->state : MEMBER_DOWN));
  BSON_APPEND_UTF8(doc, "stateStr", healthy ? member_state_name(told->state) : "(not reachable/healthy)");
  BSON_APPEND_INT32(doc, "uptime", healthy ? (int32_t)((clock_mono_ms() - r->started_ms) / 1000) : 0);
  append_progress(doc, &told->last, told->wall_ms, false);
  int64_t date = heard >= 0 ? clock_wall_ms() - (now - heard) : 0;
  BSON_APPEND_DATE_TIME(doc, "lastHeartbeat", date);
  BSON_APPEND_DATE_TIME(doc, "lastHeartbeatRecv", date);
  BSON_APPEND_INT64(doc, "pingMs", 0);
  append_sync_source(r, healthy ? told->state : MEMBER_DOWN, host, doc);
}

static uint64_t id_of(const struct repl *r, const char *host) {
  const struct members *m = consensus_members(r->consensus);
  for (size_t i = 0; i < m->n; i++)
    if (!strcmp(m->list[i].address, host)) return m->list[i].id;
  return 0;
}

static void append_members(const struct repl *r, bson_t *reply) {
  struct config_walk walk = {0};
  struct config_member m;
  bson_t list, doc;
  char buffer[16];
  const char *key;
  BSON_APPEND_ARRAY_BEGIN(reply, "members", &list);
  for (uint32_t n = 0; config_next_member(r->config, &walk, &m); n++) {
    bool self = !strcmp(m.host, r->self);
    bson_uint32_to_string(n, &key, buffer, sizeof buffer);
    BSON_APPEND_DOCUMENT_BEGIN(&list, key, &doc);
    BSON_APPEND_INT32(&doc, "_id", m.id);
    BSON_APPEND_UTF8(&doc, "name", m.host);
    if (self)
      append_self(r, &doc);
    else
      append_other(r, id_of(r, m.host), m.host, &doc);
    BSON_APPEND_INT32(&doc, "configVersion", (int32_t)doc_i64(r->config, "version", 1));
    BSON_APPEND_INT32(&doc, "configTerm", (int32_t)doc_i64(r->config, "term", 1));
    if (self) BSON_APPEND_BOOL(&doc, "self", true);
    BSON_APPEND_UTF8(&doc, "lastHeartbeatMessage", "");
    bson_append_document_end(&list, &doc);
  }
  bson_append_array_end(reply, &list);
}

void repl_status(const struct repl *r, bson_t *reply) {
  if (!r->consensus || !r->config) return;
  int32_t voters = (int32_t)members_voters(consensus_members(r->consensus)), majority = voters / 2 + 1;
  BSON_APPEND_UTF8(reply, "set", r->set_name);
  BSON_APPEND_DATE_TIME(reply, "date", clock_wall_ms());
  BSON_APPEND_INT32(reply, "myState", (int32_t)r->state);
  BSON_APPEND_INT64(reply, "term", repl_term(r));
  const char *leader = r->state == MEMBER_PRIMARY ? NULL : host_of(r, r->known_leader);
  BSON_APPEND_UTF8(reply, "syncSourceHost", leader ? leader : "");
  BSON_APPEND_INT32(reply, "syncSourceId", leader ? config_id(r, leader) : -1);
  BSON_APPEND_INT64(reply, "heartbeatIntervalMillis", config_heartbeat_interval(r->config));
  BSON_APPEND_INT32(reply, "majorityVoteCount", majority);
  BSON_APPEND_INT32(reply, "writeMajorityCount", majority);
  BSON_APPEND_INT32(reply, "votingMembersCount", voters);
  BSON_APPEND_INT32(reply, "writableVotingMembersCount", voters);
  append_optimes(r, reply);
  initial_sync_status(r, reply);
  append_members(r, reply);
}
