// Standing for election: priority, replSetFreeze, replSetStepDown, and handing over to a member of higher priority.
//
// A member that may not stand is a full voter all the same; raft keeps its requests for votes back, but for the
// caretaker's exception (consensus_filter.c). A primary that may not stay one hands over first.
#include <string.h>

#include "common/base/log.h"
#include "common/bson/doc.h"
#include "common/repl/repl_internal.h"
#include "common/repl/transport.h"

enum {
  CHECK_MS = 200,
  TAKEOVER_CHECKS = 5, // a member of higher priority has to be caught up that many times in a row
};

// Negative: the configuration has no such member.
static double priority_of(const struct repl *r, const char *host) {
  struct config_walk walk = {0};
  struct config_member m;
  while (config_next_member(r->config, &walk, &m))
    if (!strcmp(m.host, host)) return m.priority;
  return -1;
}

static bool frozen(const struct repl *r) {
  return loop_now_ms(r->loop) < r->frozen_until;
}

void standing_update(struct repl *r) {
  if (!r->consensus) return;
  double priority = r->config ? priority_of(r, r->self) : 1;
  bool electable = !frozen(r) && priority > 0, changed = electable != r->electable;
  r->removed = priority < 0;
  r->electable = electable;
  consensus_set_eligible(r->consensus, electable);
  if (changed) transport_tell(r->transport, 0);
}

// What it told of itself last, and it is not silent.
static bool would_take_over(const struct repl *r, uint64_t id) {
  const struct report *told = transport_report(r->transport, id);
  int64_t silent = loop_now_ms(r->loop) - transport_heard(r->transport, id);
  return told && told->electable && told->state == MEMBER_SECONDARY && silent < (int64_t)r->election_ms / 2;
}

// The voter to hand over to: of the highest priority among those that would take over and have at least `least` of the
// log. NULL: none. Of several it is another one each time: what a member told may be out of date.
static const struct member *best_successor(const struct repl *r, uint64_t least, double above) {
  const struct members *m = consensus_members(r->consensus);
  const struct member *best = NULL;
  double best_priority = above;
  for (size_t i = 0; i < m->n; i++) {
    const struct member *c = &m->list[(r->handovers + i) % m->n];
    if (c->id == r->id || c->role != ROLE_VOTER || consensus_match(r->consensus, c->id) < least ||
        !would_take_over(r, c->id))
      continue;
    double priority = priority_of(r, c->address);
    if (priority > best_priority) {
      best = c;
      best_priority = priority;
    }
  }
  return best;
}

// A member of higher priority takes over once it has kept up for a while.
static void consider_takeover(struct repl *r) {
  uint64_t last = consensus_last(r->consensus), least = last > MAX_INFLIGHT ? last - MAX_INFLIGHT : 0;
  const struct member *m = repl_is_primary(r) ? best_successor(r, least, priority_of(r, r->self)) : NULL;
  r->takeover_checks = m ? r->takeover_checks + 1 : 0;
  if (r->takeover_checks < TAKEOVER_CHECKS) return;
  r->takeover_checks = 0;
  log_info("REPL", "Handing over to a member of higher priority", "to:s", m->address);
  (void)consensus_transfer(r->consensus, drive_now(), m->id);
  drive_settle(r);
}

void standing_hand_over(struct repl *r) {
  const struct member *m = consensus_transferring(r->consensus) ? NULL : best_successor(r, r->applied, 0);
  if (!m) return;
  r->handovers++;
  (void)consensus_transfer(r->consensus, drive_now(), m->id);
  drive_settle(r);
}

static void standing_fiber(struct operation *op, void *arg) {
  struct repl *r = arg;
  while (op_sleep(op, CHECK_MS, NULL)) {
    standing_update(r);
    if (consensus_caretaker(r->consensus))
      standing_hand_over(r); // removed, priority 0 now, or elected for want of others
    else if (!consensus_alone(r->consensus))
      consider_takeover(r);
    drive_settle(r);
  }
  if (!r->stopping) standing_start(r); // somebody killed the operation
}

void standing_start(struct repl *r) {
  standing_update(r);
  (void)repl_job(r, "replStanding", standing_fiber, r);
}

bool repl_freeze(struct repl *r, int64_t seconds, struct error *err) {
  if (!r->consensus) return error_set(err, ERR_NotYetInitialized, "no replset config has been received");
  if (r->state == MEMBER_PRIMARY || r->leading)
    return error_set(err, ERR_NotSecondary, "cannot freeze node when primary or running for election. state: %s",
                     member_state_name(r->state));
  r->frozen_until = seconds > 0 ? loop_now_ms(r->loop) + seconds * 1000 : 0;
  standing_update(r);
  drive_settle(r);
  return true;
}

// --- stepping down ---

static bool hand_over(struct operation *op, struct repl *r, uint64_t term, int64_t within_ms, struct error *err) {
  int64_t end = loop_now_ms(op->loop) + within_ms;
  while (r->leading == term && loop_now_ms(op->loop) < end) {
    standing_hand_over(r);
    bool timed_out = false;
    if (!event_wait_for(op, &r->progressed, HEARTBEAT_MS, &timed_out, err) && !timed_out) return false;
  }
  return true;
}

bool repl_step_down(struct operation *op, struct repl *r, int64_t seconds, int64_t catch_up_seconds, bool force,
                    struct error *err) {
  if (!repl_is_primary(r)) return error_set(err, ERR_NotWritablePrimary, "not primary so can't step down");
  uint64_t term = r->leading;
  bool alone = consensus_alone(r->consensus);
  if (!alone && !hand_over(op, r, term, catch_up_seconds * 1000, err)) return false;
  if (r->leading == term && !force)
    return error_set(
        err, ERR_ExceededTimeLimit,
        "No electable secondaries caught up. Please use the replSetStepDown command with the argument {force: true} to "
        "force node to step down.");
  r->frozen_until = loop_now_ms(op->loop) + seconds * 1000;
  standing_update(r);
  drive_settle(r);
  return true;
}
