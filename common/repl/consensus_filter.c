// The filter around raft_step(): keeps away from the faults of libraft 0.22.1, and lets members that are not eligible
// vote without standing. Each fault was found by simulation; the numbers are those of consensus.h's header comment.
#include <string.h>

#include "common/base/log.h"
#include "common/repl/consensus_internal.h"

enum { CARETAKER_PATIENCE = 4, CARETAKER_TRY = 2 }; // in election timeouts

bool filter_incoming(struct consensus *c, const struct consensus_message *m) {
  uint64_t term = raft_current_term(&c->raft);
  if ((m->kind == RAFT_MSG_APPEND || m->kind == RAFT_MSG_SNAPSHOT) && m->term >= term) c->leader_heard = c->now;
  switch (m->kind) {
  case RAFT_MSG_APPEND_RESULT: {
    // Fault 1, stale rejection: a late refusal at or below the match index would move next_index to or below it.
    raft_index match;
    return !(m->rejected && m->term == term && !raft_match_index(&c->raft, m->peer, &match) && m->rejected <= match);
  }
  case RAFT_MSG_SNAPSHOT: return !consensus_installing(c); // a second one would be leaked
  case RAFT_MSG_TIMEOUT_NOW: return c->eligible; // who does not stand must not begin a term that nobody can win
  case RAFT_MSG_VOTE:
    if (!m->caretaker && !consensus_leader(c)) c->asked = m->peer;
    return true;
  default: return true;
  }
}

// Fault 6, two changes of members and one rollback: a change on top of one that we hold as uncommitted proves that one
// committed. libraft does not draw that conclusion, and would later roll back two steps. So it is told first.
static void confirm_change(struct consensus *c, const struct raft_append_entries *a) {
  uint64_t pending = c->raft.configuration_uncommitted_index, previous = a->prev_log_index;
  if (!pending || pending > previous || previous > c->trail.last || previous < c->trail.first) return;
  if (consensus_installing(c) || a->term < raft_current_term(&c->raft)) return;
  if (trail_term(&c->trail, previous) != a->prev_log_term) return;
  if (trail_term(&c->trail, previous + 1) == a->entries[0].term) return; // we have this change already
  struct raft_event e = {.type = RAFT_CONFIGURATION};
  e.configuration.index = pending;
  struct raft_buffer copy;
  if (raft_configuration_encode(&c->raft.configuration, &copy) ||
      raft_configuration_decode(&copy, &e.configuration.conf))
    log_fatal("REPL", "Out of memory in consensus", NULL);
  raft_free(copy.base);
  consensus_step_or_die(c, &e);
}

static void deliver_part(struct consensus *c, const struct consensus_message *m, struct raft_message *rm, size_t at,
                         size_t n) {
  struct raft_append_entries *a = &rm->append_entries;
  a->n_entries = (unsigned)n;
  a->entries = NULL;
  if (n) {
    a->entries = raft_calloc(n, sizeof *a->entries);
    void *token = raft_malloc(1);
    if (!a->entries || !token) log_fatal("REPL", "Out of memory in consensus", NULL);
    for (size_t i = 0; i < n; i++) {
      struct entry *e = m->entries[at + i];
      a->entries[i] = (struct raft_entry){
          .term = e->term, .type = (enum raft_entry_type)e->type, .buf = {e->data, e->len}, .batch = token};
    }
    if (a->entries[0].type == RAFT_CHANGE) confirm_change(c, a);
  }
  c->stepping = a->entries;
  c->stepping_entries = m->entries + at;
  c->n_stepping = n;
  struct raft_event e = {.type = RAFT_RECEIVE, .receive = {rm}};
  consensus_step_or_die(c, &e);
  c->stepping = NULL;
  raft_free(a->entries); // the token went with what was taken, or libraft freed it
}

void filter_append(struct consensus *c, const struct consensus_message *m, struct raft_message *rm) {
  struct raft_append_entries *a = &rm->append_entries;
  *a = (struct raft_append_entries){
      .term = m->term, .prev_log_index = m->index, .prev_log_term = m->index_term, .leader_commit = m->commit};
  size_t at = 0;
  c->stale = m->term < raft_current_term(&c->raft);
  c->stale_previous = m->index;
  // Fault 2, entries below the follower's first are taken as new and appended behind its last: libraft is shown nothing
  // at or below what is applied here. What is applied is committed, so the leader has the same.
  if (!consensus_installing(c) && !c->stale && a->prev_log_index < c->applied) {
    uint64_t skip = c->applied - a->prev_log_index;
    at = skip < m->n_entries ? (size_t)skip : m->n_entries;
    a->prev_log_index = c->applied;
    a->prev_log_term = trail_term(&c->trail, c->applied);
  }
  // Fault 7, a change of members that is not first in a message is recorded under the first one's index: cut before
  // each.
  do {
    size_t n = at < m->n_entries ? 1 : 0;
    while (at + n < m->n_entries && m->entries[at + n]->type != ENTRY_CHANGE) n++;
    deliver_part(c, m, rm, at, n);
    a->prev_log_index += n;
    if (n) a->prev_log_term = m->entries[at + n - 1]->term;
    at += n;
  } while (at < m->n_entries);
  c->stale = false;
}

static bool may_stand(struct consensus *c) {
  if (c->eligible) return true;
  uint64_t timeout = c->raft.election_timeout;
  if (c->caretaker_end) return c->now < c->caretaker_end;
  if (!c->asked || c->now - c->leader_seen < CARETAKER_PATIENCE * timeout) return false;
  c->caretaker_end = c->now + CARETAKER_TRY * timeout;
  return true;
}

static bool is_voter(const struct raft_configuration *of, raft_id id) {
  for (unsigned i = 0; i < of->n; i++)
    if (of->servers[i].id == id) return of->servers[i].role == RAFT_VOTER;
  return false;
}

// Who loses its vote hears of that only when it is committed. Else it could be the only one that holds the change, when
// the leader dies before others or its own disk have it: it would not stand any more, and not vote for anybody whose
// log is shorter, though the others cannot do without its vote yet. Of two voters that become one, for ever.
static void keep_from_loser(const struct consensus *c, struct raft_message *m) {
  const struct raft *r = &c->raft;
  struct raft_append_entries *a = &m->append_entries;
  uint64_t change = r->configuration_uncommitted_index;
  if (!change || a->prev_log_index >= change || a->prev_log_index + a->n_entries < change) return;
  if (is_voter(&r->configuration_committed, m->server_id) && !is_voter(&r->configuration, m->server_id))
    a->n_entries = (unsigned)(change - 1 - a->prev_log_index); // libraft takes the rest for lost, and sends it again
}

bool filter_outgoing(struct consensus *c, struct raft_message *m) {
  switch (m->type) {
  case RAFT_APPEND_ENTRIES: keep_from_loser(c, m); return true;
  case RAFT_REQUEST_VOTE: return may_stand(c);
  case RAFT_REQUEST_VOTE_RESULT: {
    // Fault 3, pre-vote livelock: a refusal must carry the refuser's term, or the one with the best log never learns
    // that its term is low.
    struct raft_request_vote_result *r = &m->request_vote_result;
    if (r->pre_vote && !r->vote_granted && raft_current_term(&c->raft) > r->term) r->term = raft_current_term(&c->raft);
    return true;
  }
  case RAFT_APPEND_ENTRIES_RESULT:
    // Fault 5, the answer to a message of an older term has a random index and may read as a success: a plain refusal.
    if (c->stale) {
      m->append_entries_result.rejected = c->stale_previous ? c->stale_previous : 1;
      m->append_entries_result.last_log_index = m->append_entries_result.rejected - 1;
    }
    return true;
  default: return true;
  }
}

uint64_t filter_timer(const struct consensus *c) {
  // Fault 4, a timer in the past: after a member leaves replication the leader's timer stands still.
  uint64_t timer = raft_timeout(&c->raft), step = c->raft.heartbeat_timeout / 5;
  return timer > c->last_timeout ? timer : c->last_timeout + (step ? step : 1);
}

void filter_tick(struct consensus *c) {
  if (c->caretaker_end && c->now >= c->caretaker_end && c->raft.state != RAFT_LEADER) {
    c->caretaker_end = c->asked = 0; // once: it waits again before the next try
    c->leader_seen = c->now;
  }
  if (!consensus_caretaker(c) || !c->asked || consensus_transferring(c)) return;
  if (consensus_match(c, c->asked) == c->trail.last) (void)consensus_transfer(c, c->now, c->asked);
}
