// Driving raft_step(): events in, updates out, and who owns which memory (reference: libraft 0.22.1, raft.h).
//
// An entry's data stays in its struct entry; libraft only ever sees pointers to it and looks into changes of members.
// The "batch" that libraft frees or hands back is a token of one byte.
#include "common/repl/consensus.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/repl/consensus_internal.h"

static void *token_new(void) {
  void *t = raft_malloc(1);
  if (!t) log_fatal("REPL", "Out of memory in consensus", NULL);
  return t;
}

void consensus_decode_configuration(const struct entry *e, struct raft_configuration *out) {
  struct raft_buffer b = {(void *)e->data, e->len};
  int rv = raft_configuration_decode(&b, out);
  if (rv) log_fatal("REPL", "A list of members in the log is damaged", "reason:s", raft_strerror(rv));
}

static void mark_set(struct snapshot_mark *to, uint64_t index, uint64_t term, struct entry *configuration,
                     uint64_t at) {
  struct entry *old = to->configuration;
  *to = (struct snapshot_mark){index, term, configuration ? entry_ref(configuration) : NULL, at};
  entry_unref(old);
}

// --- configurations that were applied: a snapshot needs the one in force at its index ---

static void configurations_drop(struct consensus *c, size_t n) {
  for (size_t i = 0; i < n; i++) entry_unref(c->configurations[i].entry);
  if (!n) return;
  c->n_configurations -= n;
  memmove(c->configurations, c->configurations + n, c->n_configurations * sizeof *c->configurations);
}

static void configurations_add(struct consensus *c, uint64_t index, struct entry *e) {
  c->configurations =
      array_grow(c->configurations, &c->cap_configurations, c->n_configurations + 1, sizeof *c->configurations);
  c->configurations[c->n_configurations++] = (struct applied_configuration){index, entry_ref(e)};
}

// --- updates ---

static void take_entries(struct consensus *c, const struct raft_update *u) {
  uint64_t first = u->entries.index;
  size_t n = u->entries.n;
  struct entry *barrier = NULL;
  struct entry *const *entries;
  if (c->stepping && u->entries.batch >= c->stepping && u->entries.batch < c->stepping + c->n_stepping) {
    entries = c->stepping_entries + (u->entries.batch - c->stepping);
  } else { // a new leader's own first entry
    const struct raft_entry *e = &u->entries.batch[0];
    barrier = entry_new(ENTRY_BARRIER, e->term, e->buf.base, e->buf.len);
    entries = &barrier;
  }
  raft_free(u->entries.batch[0].batch);

  trail_truncate(&c->trail, first);
  for (size_t i = 0; i < n; i++) trail_append(&c->trail, entries[i]->term);
  for (size_t i = 0; i < c->n_writes; i++)
    if (c->writes[i].report >= first) c->writes[i].report = first - 1;
  c->writes = array_grow(c->writes, &c->cap_writes, c->n_writes + 1, sizeof *c->writes);
  c->writes[c->n_writes++] = (struct pending_write){first, first + n - 1};
  c->out.append(c->out.ctx, first, entries, n);
  entry_unref(barrier);
}

static void take_snapshot(struct consensus *c, struct raft_update *u) {
  const struct raft_snapshot_metadata *m = &u->snapshot.metadata;
  raft_free(u->snapshot.chunk.base);
  raft_configuration_close(&u->snapshot.metadata.configuration);
  mark_set(&c->incoming, m->index, m->term, c->stepping_configuration, m->configuration_index);
  trail_reset(&c->trail, m->index + 1, m->index, m->term);
  for (size_t i = 0; i < c->n_writes; i++) c->writes[i].report = 0;
  c->out.install(c->out.ctx, &c->incoming, c->stepping_snapshot);
}

static void send(struct consensus *c, struct raft_message *m) {
  if (!filter_outgoing(c, m)) return;
  struct consensus_message o = {.kind = (enum message_kind)m->type, .peer = m->server_id, .address = m->server_address};
  switch (m->type) {
  case RAFT_APPEND_ENTRIES:
    o.term = m->append_entries.term;
    o.index = m->append_entries.prev_log_index;
    o.index_term = m->append_entries.prev_log_term;
    o.commit = m->append_entries.leader_commit;
    o.n_entries = m->append_entries.n_entries;
    break;
  case RAFT_APPEND_ENTRIES_RESULT:
    o.term = m->append_entries_result.term;
    o.rejected = m->append_entries_result.rejected;
    o.last = m->append_entries_result.last_log_index;
    break;
  case RAFT_REQUEST_VOTE:
    o.term = m->request_vote.term;
    o.index = m->request_vote.last_log_index;
    o.index_term = m->request_vote.last_log_term;
    o.disrupt = m->request_vote.disrupt_leader;
    o.pre_vote = m->request_vote.pre_vote;
    o.caretaker = !c->eligible;
    break;
  case RAFT_REQUEST_VOTE_RESULT:
    o.term = m->request_vote_result.term;
    o.granted = m->request_vote_result.vote_granted;
    o.pre_vote = m->request_vote_result.pre_vote;
    break;
  case RAFT_INSTALL_SNAPSHOT:
    o.term = m->install_snapshot.term;
    o.index = m->install_snapshot.last_index;
    o.index_term = m->install_snapshot.last_term;
    o.configuration = c->snapshot.configuration;
    o.configuration_index = c->snapshot.configuration_index;
    break;
  case RAFT_TIMEOUT_NOW:
    o.term = m->timeout_now.term;
    o.index = m->timeout_now.last_log_index;
    o.index_term = m->timeout_now.last_log_term;
    break;
  }
  c->out.send(c->out.ctx, &o);
}

int consensus_step(struct consensus *c, struct raft_event *e) {
  struct raft_update u;
  memset(&u, 0, sizeof u);
  e->time = c->now;
  int rv = raft_step(&c->raft, e, &u);
  if (rv) return rv;
  if (u.flags & (RAFT_UPDATE_CURRENT_TERM | RAFT_UPDATE_VOTED_FOR))
    c->out.vote(c->out.ctx, raft_current_term(&c->raft), raft_voted_for(&c->raft));
  if (u.flags & RAFT_UPDATE_ENTRIES) take_entries(c, &u);
  if (u.flags & RAFT_UPDATE_SNAPSHOT) take_snapshot(c, &u);
  if (u.flags & RAFT_UPDATE_MESSAGES)
    for (unsigned i = 0; i < u.messages.n; i++) send(c, &u.messages.batch[i]);
  // Fault 2 made it go back; nothing that is committed ever is not.
  if (raft_commit_index(&c->raft) > c->commit) c->commit = raft_commit_index(&c->raft);
  uint64_t leader = consensus_leader(c);
  if (leader) c->leader_seen = c->now;
  if (leader && leader != c->raft.id) c->asked = c->caretaker_end = 0;
  return 0;
}

void consensus_step_or_die(struct consensus *c, struct raft_event *e) {
  int rv = consensus_step(c, e);
  if (rv)
    log_fatal("REPL", "Consensus failed: the log of this member contradicts the set's", "event:d reason:s message:s",
              (int32_t)e->type, raft_strerror(rv), c->raft.errmsg);
}

// --- life ---

struct consensus *consensus_new(const struct consensus_options *o, const struct consensus_output *output) {
  struct consensus *c = calloc(1, sizeof *c);
  if (!c || raft_init(&c->raft, NULL, NULL, o->id, o->address)) log_fatal("REPL", "Out of memory in consensus", NULL);
  c->raft.tracer = NULL; // the built-in one writes into a static buffer
  raft_seed(&c->raft, o->seed);
  raft_set_election_timeout(&c->raft, o->election_timeout_ms);
  raft_set_heartbeat_timeout(&c->raft, o->heartbeat_ms);
  raft_set_install_snapshot_timeout(&c->raft, o->snapshot_timeout_ms);
  raft_set_max_inflight_entries(&c->raft, o->max_inflight);
  raft_set_pre_vote(&c->raft, true);
  c->out = *output;
  c->eligible = true;
  return c;
}

void consensus_free(struct consensus *c) {
  if (!c) return;
  raft_close(&c->raft, NULL);
  configurations_drop(c, c->n_configurations);
  free(c->configurations);
  free(c->writes);
  trail_free(&c->trail);
  entry_unref(c->snapshot.configuration);
  entry_unref(c->incoming.configuration);
  members_free(&c->members);
  free(c);
}

static const struct entry *last_configuration(const struct consensus_state *s) {
  for (size_t i = s->n; i-- > 0;)
    if (s->heads[i].type == ENTRY_CHANGE) return s->heads[i].change;
  return s->snapshot.configuration;
}

bool consensus_lone_voter(const struct consensus_state *s, uint64_t id) {
  const struct entry *e = last_configuration(s);
  struct members m = {0};
  if (!e || !members_decode(e->data, e->len, &m)) return false;
  const struct member *self = members_find(&m, id);
  bool lone = self && self->role == ROLE_VOTER && members_voters(&m) == 1;
  members_free(&m);
  return lone;
}

// What libraft only asserts in builds that assert.
static bool state_valid(const struct consensus_state *s, struct error *err) {
  const char *why = NULL;
  if (!s->snapshot.index && s->n && (s->first != 1 || s->heads[0].type != ENTRY_CHANGE))
    why = "its beginning is missing";
  if (s->snapshot.index && s->first > s->snapshot.index + 1) why = "entries after the snapshot are missing";
  if (s->snapshot.index && !s->snapshot.configuration) why = "the snapshot names no members";
  if (!s->term && (s->voted_for || s->snapshot.index || s->n)) why = "its term is missing";
  for (size_t i = 0; i < s->n && !why; i++) {
    struct members m = {0};
    if (!s->heads[i].term || s->heads[i].term > s->term || (i && s->heads[i].term < s->heads[i - 1].term))
      why = "terms are out of order";
    else if (s->heads[i].type == ENTRY_CHANGE && !members_decode(s->heads[i].change->data, s->heads[i].change->len, &m))
      why = "a list of members is unreadable";
    members_free(&m);
  }
  return why ? error_set(err, ERR_UnsupportedFormat, "the replication log is damaged: %s", why) : true;
}

bool consensus_start(struct consensus *c, uint64_t now, const struct consensus_state *s, struct error *err) {
  if (!state_valid(s, err)) return false;
  c->now = c->last_timeout = c->leader_seen = now;
  uint64_t first = s->first ? s->first : 1;
  trail_reset(&c->trail, first, s->snapshot.index, s->snapshot.term);
  for (size_t i = 0; i < s->n; i++) trail_append(&c->trail, s->heads[i].term);
  mark_set(&c->snapshot, s->snapshot.index, s->snapshot.term, s->snapshot.configuration,
           s->snapshot.configuration_index);
  c->applied = s->snapshot.index;

  struct raft_event e = {.type = RAFT_START};
  e.start.term = s->term;
  e.start.voted_for = s->voted_for;
  e.start.start_index = first;
  struct raft_snapshot_metadata meta = {0};
  if (s->snapshot.index) {
    configurations_add(c, s->snapshot.configuration_index, s->snapshot.configuration);
    meta.index = s->snapshot.index;
    meta.term = s->snapshot.term;
    meta.configuration_index = s->snapshot.configuration_index;
    consensus_decode_configuration(s->snapshot.configuration, &meta.configuration);
    e.start.metadata = &meta;
  }
  if (s->n) {
    struct raft_entry *entries = raft_calloc(s->n, sizeof *entries);
    if (!entries) log_fatal("REPL", "Out of memory in consensus", NULL);
    void *token = token_new();
    for (size_t i = 0; i < s->n; i++) {
      entries[i] =
          (struct raft_entry){.term = s->heads[i].term, .type = (enum raft_entry_type)s->heads[i].type, .batch = token};
      if (s->heads[i].change) entries[i].buf = (struct raft_buffer){s->heads[i].change->data, s->heads[i].change->len};
    }
    e.start.entries = entries;
    e.start.n_entries = (unsigned)s->n;
    consensus_step_or_die(c, &e);
    raft_free(token);
    raft_free(entries);
  } else {
    consensus_step_or_die(c, &e);
  }
  return true;
}

// --- events ---

static void set_now(struct consensus *c, uint64_t now) {
  if (now > c->now) c->now = now; // raft subtracts times without a sign
}

void consensus_timeout(struct consensus *c, uint64_t now) {
  set_now(c, now);
  c->last_timeout = c->now;
  // Whoever was not elected asks again before it begins another term. libraft asks only the first time, and not at all
  // after a hand-over: then the term of one whom nobody hears, or who does not stand any more, would grow for as long
  // as that lasts, and depose whoever leads meanwhile.
  if (c->raft.state == RAFT_CANDIDATE && c->now >= raft_timeout(&c->raft)) {
    c->raft.candidate_state.in_pre_vote = true;
    c->raft.candidate_state.disrupt_leader = false;
  }
  struct raft_event e = {.type = RAFT_TIMEOUT};
  consensus_step_or_die(c, &e);
  filter_tick(c);
}

static void receive_snapshot(struct consensus *c, const struct consensus_message *m, struct raft_message *rm) {
  rm->install_snapshot = (struct raft_install_snapshot){.version = 0,
                                                        .term = m->term,
                                                        .last_index = m->index,
                                                        .last_term = m->index_term,
                                                        .conf_index = m->configuration_index,
                                                        .data = {token_new(), 1}};
  consensus_decode_configuration(m->configuration, &rm->install_snapshot.conf);
  c->stepping_snapshot = m->snapshot;
  c->stepping_configuration = m->configuration;
  c->stale = m->term < raft_current_term(&c->raft);
  c->stale_previous = 0;
  struct raft_event e = {.type = RAFT_RECEIVE, .receive = {rm}};
  consensus_step_or_die(c, &e);
  c->stale = false;
  c->stepping_snapshot = c->stepping_configuration = NULL;
}

static struct raft_server *own_server(struct consensus *c) {
  for (unsigned i = 0; i < c->raft.configuration.n; i++)
    if (c->raft.configuration.servers[i].id == c->raft.id) return &c->raft.configuration.servers[i];
  return NULL;
}

// A member that is no voter votes, too, when it is asked: who asks has made it one, and counts its vote only then.
// libraft looks into the member's own list instead, so that a leader that dies before it has told a new voter about
// itself could leave nobody who can be elected; with one voter that becomes two that would be for ever. Nor does
// libraft let such a member notice that its leader is silent.
static void receive_vote_request(struct consensus *c, struct raft_event *e) {
  struct raft_server *self = own_server(c);
  int role = self ? self->role : RAFT_VOTER;
  if (role != RAFT_VOTER) {
    self->role = RAFT_VOTER;
    if (c->now - c->leader_heard >= c->raft.election_timeout) e->receive.message->request_vote.disrupt_leader = true;
  }
  consensus_step_or_die(c, e);
  self = own_server(c);
  if (self && role != RAFT_VOTER) self->role = role;
}

// Version 2: the layout of 0.22. With less, libraft would take a granted pre-vote for a vote.
void consensus_receive(struct consensus *c, uint64_t now, const struct consensus_message *m) {
  set_now(c, now);
  if (!filter_incoming(c, m)) return;
  struct raft_message rm = {
      .type = (enum raft_message_type)m->kind, .server_id = m->peer, .server_address = m->address};
  struct raft_event e = {.type = RAFT_RECEIVE, .receive = {&rm}};
  switch (m->kind) {
  case RAFT_MSG_APPEND: filter_append(c, m, &rm); return;
  case RAFT_MSG_SNAPSHOT: receive_snapshot(c, m, &rm); return;
  case RAFT_MSG_APPEND_RESULT:
    rm.append_entries_result = (struct raft_append_entries_result){
        .version = 2, .term = m->term, .rejected = m->rejected, .last_log_index = m->last};
    break;
  case RAFT_MSG_VOTE:
    rm.request_vote = (struct raft_request_vote){.version = 2,
                                                 .term = m->term,
                                                 .candidate_id = m->peer,
                                                 .last_log_index = m->index,
                                                 .last_log_term = m->index_term,
                                                 .disrupt_leader = m->disrupt,
                                                 .pre_vote = m->pre_vote};
    receive_vote_request(c, &e);
    return;
  case RAFT_MSG_VOTE_RESULT:
    rm.request_vote_result = (struct raft_request_vote_result){
        .version = 2, .term = m->term, .vote_granted = m->granted, .pre_vote = m->pre_vote};
    break;
  case RAFT_MSG_TIMEOUT_NOW:
    rm.timeout_now =
        (struct raft_timeout_now){.term = m->term, .last_log_index = m->index, .last_log_term = m->index_term};
    break;
  }
  consensus_step_or_die(c, &e);
}

void consensus_persisted(struct consensus *c, uint64_t now, size_t writes) {
  set_now(c, now);
  uint64_t report = 0;
  for (size_t i = 0; i < writes; i++)
    if (c->writes[i].report >= c->writes[i].first && c->writes[i].report > report) report = c->writes[i].report;
  c->n_writes -= writes;
  if (writes) memmove(c->writes, c->writes + writes, c->n_writes * sizeof *c->writes);
  if (report <= c->raft.last_stored) return; // overtaken: raft must not hear of it
  struct raft_event e = {.type = RAFT_PERSISTED_ENTRIES, .persisted_entries = {report}};
  consensus_step_or_die(c, &e);
}

void consensus_installed(struct consensus *c, uint64_t now) {
  set_now(c, now);
  struct raft_event e = {.type = RAFT_PERSISTED_SNAPSHOT};
  e.persisted_snapshot.last = true;
  e.persisted_snapshot.metadata.index = c->incoming.index;
  e.persisted_snapshot.metadata.term = c->incoming.term;
  e.persisted_snapshot.metadata.configuration_index = c->incoming.configuration_index;
  consensus_decode_configuration(c->incoming.configuration, &e.persisted_snapshot.metadata.configuration);
  configurations_drop(c, c->n_configurations);
  configurations_add(c, c->incoming.configuration_index, c->incoming.configuration);
  mark_set(&c->snapshot, c->incoming.index, c->incoming.term, c->incoming.configuration,
           c->incoming.configuration_index);
  mark_set(&c->incoming, 0, 0, NULL, 0);
  c->applied = c->snapshot.index;
  consensus_step_or_die(c, &e);
}

void consensus_applied(struct consensus *c, uint64_t now, uint64_t index, struct entry *e) {
  set_now(c, now);
  c->applied = index;
  if (e->type != ENTRY_CHANGE) return;
  configurations_add(c, index, e);
  struct raft_event ev = {.type = RAFT_CONFIGURATION};
  ev.configuration.index = index;
  consensus_decode_configuration(e, &ev.configuration.conf);
  consensus_step_or_die(c, &ev);
}

bool consensus_snapshot(struct consensus *c, uint64_t now, uint64_t index, uint64_t trailing) {
  set_now(c, now);
  uint64_t term = trail_term(&c->trail, index);
  if (consensus_installing(c) || index <= c->snapshot.index || index > c->applied || index > c->raft.last_stored ||
      !term)
    return false;
  size_t at = 0;
  while (at + 1 < c->n_configurations && c->configurations[at + 1].index <= index) at++;
  struct entry *configuration = c->configurations[at].entry;

  struct raft_event e = {.type = RAFT_SNAPSHOT};
  e.snapshot.trailing = trailing > UINT32_MAX ? UINT32_MAX : (unsigned)trailing;
  e.snapshot.metadata.index = index;
  e.snapshot.metadata.term = term;
  e.snapshot.metadata.configuration_index = c->configurations[at].index;
  consensus_decode_configuration(configuration, &e.snapshot.metadata.configuration);
  mark_set(&c->snapshot, index, term, configuration, c->configurations[at].index);
  configurations_drop(c, at);
  c->trail.snapshot = index;
  c->trail.snapshot_term = term;
  if (index > trailing) trail_cut(&c->trail, index - trailing + 1); // libraft's rule
  consensus_step_or_die(c, &e);
  return true;
}

uint64_t consensus_propose(struct consensus *c, uint64_t now, struct entry *e) {
  set_now(c, now);
  if (c->raft.state != RAFT_LEADER) return 0;
  e->term = raft_current_term(&c->raft);
  void *token = token_new();
  struct raft_entry re = {
      .term = e->term, .type = (enum raft_entry_type)e->type, .buf = {e->data, e->len}, .batch = token};
  struct raft_event ev = {.type = RAFT_SUBMIT};
  ev.submit.entries = &re;
  ev.submit.n = 1;
  c->stepping = &re;
  c->stepping_entries = &e;
  c->n_stepping = 1;
  int rv = consensus_step(c, &ev);
  c->stepping = NULL;
  if (!rv) return c->trail.last;
  raft_free(token);
  return 0;
}

// --- state ---

enum consensus_role consensus_role(const struct consensus *c) {
  switch (c->raft.state) {
  case RAFT_LEADER: return CONSENSUS_LEADER;
  case RAFT_CANDIDATE: return CONSENSUS_CANDIDATE;
  default: return CONSENSUS_FOLLOWER;
  }
}

uint64_t consensus_leader(const struct consensus *c) {
  if (c->raft.state == RAFT_LEADER) return c->raft.id; // raft_leader() names none while leadership is handed over
  return c->raft.state == RAFT_FOLLOWER ? c->raft.follower_state.current_leader.id : 0;
}

bool consensus_transferring(const struct consensus *c) {
  return raft_transferee(&c->raft) != 0;
}

uint64_t consensus_term(const struct consensus *c) {
  return raft_current_term(&c->raft);
}

uint64_t consensus_commit(const struct consensus *c) {
  // While a snapshot is installed the index may already name what only the snapshot has.
  return consensus_installing(c) ? c->applied : c->commit;
}

uint64_t consensus_first(const struct consensus *c) {
  return c->trail.first;
}

uint64_t consensus_last(const struct consensus *c) {
  return c->trail.last;
}

uint64_t consensus_term_of(const struct consensus *c, uint64_t index) {
  return trail_term(&c->trail, index);
}

bool consensus_installing(const struct consensus *c) {
  return c->incoming.index != 0;
}

uint64_t consensus_timer(const struct consensus *c) {
  return filter_timer(c);
}

const struct snapshot_mark *consensus_last_snapshot(const struct consensus *c) {
  return &c->snapshot;
}

void consensus_set_election_timeout(struct consensus *c, uint32_t ms) {
  raft_set_election_timeout(&c->raft, ms);
}
