// Who is in the set: the list of members, its encoding, and the rules of changing it that libraft does not enforce.
//
// One change at a time, and none
// - before an entry of the leader's own term is committed: else committed entries can be lost (the known fault of
//   single-server changes);
// - that takes a voter away before all that stay have acknowledged the last change: the one that remains might not know
//   that it is one. The one that goes need not have: it may be gone for good;
// - that removes or demotes the leader itself: two leaders in one term were seen. It hands over first;
// - of more than one voter.
// And who loses its vote is sent the change only when that is committed (consensus_filter.c).
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/repl/consensus_internal.h"

void members_add(struct members *m, uint64_t id, const char *address, enum member_role role) {
  struct member *list = realloc(m->list, (m->n + 1) * sizeof *list);
  char *copy = strdup(address);
  if (!list || !copy) log_fatal("REPL", "Out of memory for a list of members", NULL);
  m->list = list;
  m->list[m->n++] = (struct member){id, copy, role};
}

const struct member *members_find(const struct members *m, uint64_t id) {
  for (size_t i = 0; i < m->n; i++)
    if (m->list[i].id == id) return &m->list[i];
  return NULL;
}

size_t members_voters(const struct members *m) {
  size_t n = 0;
  for (size_t i = 0; i < m->n; i++) n += m->list[i].role == ROLE_VOTER;
  return n;
}

void members_free(struct members *m) {
  for (size_t i = 0; i < m->n; i++) free(m->list[i].address);
  free(m->list);
  *m = (struct members){0};
}

struct entry *members_encode(const struct members *m) {
  struct raft_configuration c;
  struct raft_buffer b = {0};
  raft_configuration_init(&c);
  int rv = 0;
  for (size_t i = 0; i < m->n && !rv; i++)
    rv = raft_configuration_add(&c, m->list[i].id, m->list[i].address, (int)m->list[i].role);
  if (!rv) rv = raft_configuration_encode(&c, &b);
  if (rv) log_fatal("REPL", "A list of members cannot be written", "reason:s", raft_strerror(rv));
  struct entry *e = entry_new(ENTRY_CHANGE, 0, b.base, b.len);
  raft_free(b.base);
  raft_configuration_close(&c);
  return e;
}

// libraft's format: u8 1, u64 n, n times {u64 id, zero-terminated address, u8 role}, zeros up to a multiple of 8;
// little-endian.
bool members_decode(const uint8_t *data, size_t len, struct members *out) {
  *out = (struct members){0};
  uint64_t n;
  if (len < 9 || data[0] != 1) return false;
  memcpy(&n, data + 1, 8);
  if (n == 0 || n > CONSENSUS_MAX_MEMBERS) return false;
  size_t at = 9;
  for (uint64_t i = 0; i < n; i++) {
    uint64_t id;
    if (len - at < 10) break;
    memcpy(&id, data + at, 8);
    const uint8_t *address = data + at + 8, *end = memchr(address, 0, len - at - 9);
    if (!id || !end || end[1] > ROLE_SPARE || members_find(out, id)) break;
    members_add(out, id, (const char *)address, (enum member_role)end[1]);
    at = (size_t)(end + 2 - data);
  }
  if (out->n == n) return true;
  members_free(out);
  return false;
}

const struct members *consensus_members(const struct consensus *c) {
  struct members *m = &((struct consensus *)c)->members;
  members_free(m);
  for (unsigned i = 0; i < c->raft.configuration.n; i++) {
    const struct raft_server *s = &c->raft.configuration.servers[i];
    members_add(m, s->id, s->address, (enum member_role)s->role);
  }
  return m;
}

bool consensus_members_pending(const struct consensus *c) {
  return c->raft.configuration_uncommitted_index != 0;
}

bool consensus_is_member(const struct consensus *c) {
  for (unsigned i = 0; i < c->raft.configuration.n; i++)
    if (c->raft.configuration.servers[i].id == c->raft.id) return true;
  return false;
}

bool consensus_alone(const struct consensus *c) {
  size_t voters = 0;
  bool self = false;
  for (unsigned i = 0; i < c->raft.configuration.n; i++) {
    const struct raft_server *s = &c->raft.configuration.servers[i];
    voters += s->role == RAFT_VOTER;
    self = self || (s->role == RAFT_VOTER && s->id == c->raft.id);
  }
  return voters == 1 && self && !consensus_members_pending(c);
}

uint64_t consensus_match(const struct consensus *c, uint64_t id) {
  raft_index match;
  return raft_match_index(&c->raft, id, &match) ? 0 : match;
}

static const char *change_forbidden(const struct consensus *c) {
  const struct raft *r = &c->raft;
  if (r->state != RAFT_LEADER) return "this member is not the leader";
  if (raft_transferee(r)) return "leadership is being handed over";
  if (r->configuration_uncommitted_index || r->leader_state.promotee_id) return "another change is under way";
  if (trail_term(&c->trail, c->commit) != raft_current_term(r)) return "nothing of this term is committed yet";
  return NULL;
}

bool consensus_can_change(const struct consensus *c) {
  return !change_forbidden(c);
}

// What is wrong with going from the present members to `next`.
static const char *step_forbidden(const struct consensus *c, const struct members *now, const struct members *next) {
  size_t voters_changed = 0;
  bool lost = false;    // a voter goes
  bool unaware = false; // one that stays has not acknowledged the last change
  for (size_t i = 0; i < next->n; i++) {
    const struct member *m = &next->list[i], *before = members_find(now, m->id);
    bool was = before && before->role == ROLE_VOTER, is = m->role == ROLE_VOTER;
    voters_changed += was != is;
    lost = lost || (was && !is);
    unaware = unaware || (was && is && consensus_match(c, m->id) < c->raft.configuration_committed_index);
    if (is && !was && !consensus_caught_up(c, m->id)) return "a new voter has not caught up";
    if (m->id == c->raft.id && (!before || before->role != m->role)) return "it concerns the leader itself";
  }
  for (size_t i = 0; i < now->n; i++)
    if (!members_find(next, now->list[i].id)) {
      voters_changed += now->list[i].role == ROLE_VOTER;
      lost = lost || now->list[i].role == ROLE_VOTER;
      if (now->list[i].id == c->raft.id) return "it concerns the leader itself";
    }
  if (lost && unaware) return "a voter has not acknowledged the last change";
  return voters_changed > 1 ? "it changes more than one voter" : NULL;
}

bool consensus_change(struct consensus *c, uint64_t now, const struct members *m, struct error *err) {
  if (now > c->now) c->now = now;
  const char *why = change_forbidden(c);
  if (!why) why = step_forbidden(c, consensus_members(c), m);
  if (why) return error_set(err, ERR_ConfigurationInProgress, "the members of the set cannot be changed now: %s", why);
  struct entry *e = members_encode(m);
  uint64_t index = consensus_propose(c, now, e);
  entry_unref(e);
  return index ? true : error_set(err, ERR_NotWritablePrimary, "this member is not the leader any more");
}

bool consensus_catch_up(struct consensus *c, uint64_t now, uint64_t id) {
  if (now > c->now) c->now = now;
  // libraft checks none of this, and overwrites memory.
  if (c->raft.state != RAFT_LEADER || c->raft.leader_state.promotee_id) return false;
  const struct member *m = members_find(consensus_members(c), id);
  if (!m || m->role == ROLE_VOTER) return false;
  struct raft_event e = {.type = RAFT_CATCH_UP};
  e.catch_up.server_id = id;
  consensus_step_or_die(c, &e);
  return true;
}

// One that has everything needs no catching up. libraft would begin it nevertheless and notice the end with the next
// entry only: in a set in which nobody writes, never, and no other change of members could be made meanwhile.
bool consensus_caught_up(const struct consensus *c, uint64_t id) {
  int status;
  if (consensus_match(c, id) == c->trail.last) return true;
  return !raft_catch_up(&c->raft, id, &status) && status == RAFT_CATCH_UP_FINISHED;
}

bool consensus_transfer(struct consensus *c, uint64_t now, uint64_t id) {
  if (now > c->now) c->now = now;
  const struct member *m = members_find(consensus_members(c), id);
  if (!m || m->role != ROLE_VOTER || id == c->raft.id)
    return false; // 0 would let libraft choose, maybe one of priority 0
  struct raft_event e = {.type = RAFT_TRANSFER};
  e.transfer.server_id = id;
  return consensus_step(c, &e) == 0;
}

void consensus_set_eligible(struct consensus *c, bool eligible) {
  c->eligible = eligible;
  if (eligible) c->caretaker_end = 0;
}

bool consensus_caretaker(const struct consensus *c) {
  return c->raft.state == RAFT_LEADER && !c->eligible;
}
