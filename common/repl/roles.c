// Roles: from raft's leader to MongoDB's primary, and back.
//
// A leader proposes an entry of its own first. When that is applied, so is everything that was committed before it: now
// statements can be evaluated, by the node's own recovery (hooks.stepping_up) first. Only after that the member calls
// itself primary. What was proposed and not applied when leadership is lost may or may not take effect.
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/repl/initial_sync.h"
#include "common/repl/repl_internal.h"

enum { RETRY_MS = 50 };

const char *member_state_name(enum member_state s) {
  switch (s) {
  case MEMBER_STARTUP: return "STARTUP";
  case MEMBER_PRIMARY: return "PRIMARY";
  case MEMBER_SECONDARY: return "SECONDARY";
  case MEMBER_RECOVERING: return "RECOVERING";
  case MEMBER_STARTUP2: return "STARTUP2";
  case MEMBER_DOWN: return "DOWN";
  case MEMBER_REMOVED: return "REMOVED";
  case MEMBER_UNKNOWN: break;
  }
  return "UNKNOWN";
}

void roles_set_state(struct repl *r, enum member_state s) {
  if (r->state == s) return;
  enum member_state old = r->state;
  r->state = s;
  r->state_since_ms = clock_wall_ms();
  log_info("REPL", "Replica set state transition", "newState:s oldState:s term:l applied:l", member_state_name(s),
           member_state_name(old), (int64_t)(r->consensus ? consensus_term(r->consensus) : 0), (int64_t)r->applied);
  if (r->hooks.role_changed) r->hooks.role_changed(r->hooks.ctx, s, repl_term(r));
  event_signal(&r->progressed);
}

static void forget_replay(struct repl *r) {
  store_replay_done(r->store);
  r->replay_target = 0;
}

// What a member is that does not lead. One that has a part of its set's data only is no secondary yet. A removed one
// learns it from the configuration: raft sends it nothing any more. One that was added is not in its own log's list of
// members before it has caught up.
static void set_idle_state(struct repl *r) {
  enum member_state s = MEMBER_SECONDARY;
  // After a clean end nothing is left to replay, and nothing may come for long.
  if (r->replay_target && r->applied >= r->replay_target) forget_replay(r);
  initial_sync_applied(r);
  if (r->removed)
    s = MEMBER_REMOVED;
  else if (!consensus_is_member(r->consensus) || initial_sync_under_way(r))
    s = MEMBER_STARTUP2;
  else if (r->replay_target)
    s = MEMBER_RECOVERING;
  roles_set_state(r, s);
}

// --- stepping up ---

static void step_up(struct operation *op, void *arg) {
  struct repl *r = arg;
  uint64_t term = r->leading;
  struct error err = {0};
  bool ok = true;
  if (r->config && !config_load(r, op->arena)) ok = config_write(op, r, r->config, &err); // a new set's first entry
  if (ok && r->leading == term && r->hooks.stepping_up) r->hooks.stepping_up(op, r->hooks.ctx);
  if (!ok && r->leading == term && !r->stopping) {
    log_warn("REPL", "Stepping up failed, trying again", "error:e", &err);
    (void)op_sleep(op, RETRY_MS, NULL);
  }
  r->stepping_up = NULL;
  if (ok && r->leading == term && op_check(op, &err))
    roles_set_state(r, MEMBER_PRIMARY);
  else if (!r->stopping)
    roles_applied(r);
}

static bool can_step_up(const struct repl *r) {
  return r->leading && r->first_of_term && r->applied >= r->first_of_term && !r->replay_target && !r->stepping_up &&
         !r->stopping && r->state != MEMBER_PRIMARY;
}

static void replay_done(struct repl *r) {
  forget_replay(r);
  if (!r->leading) set_idle_state(r);
}

void roles_applied(struct repl *r) {
  if (r->replay_target && r->applied >= r->replay_target) replay_done(r);
  if (!can_step_up(r)) return;
  if (r->proposals.term != r->leading) {
    store_reset_counters(r->store);
    r->proposals.term = r->leading;
  }
  r->stepping_up = repl_job(r, "stepUp", step_up, r);
}

static void begin_leading(struct repl *r, uint64_t term) {
  r->leading = term;
  r->first_of_term = 0;
  r->elected_ms = clock_wall_ms();
  log_info("REPL", "Election succeeded, assuming primary role", "term:l", (int64_t)term);
}

static void propose_first(struct repl *r) {
  struct change_list list;
  changes_init(&list);
  change_noop(&list);
  const bson_t *doc = changes_finish(&list, cluster_clock_tick(r->clock), clock_wall_ms());
  struct entry *e = entry_new(ENTRY_COMMAND, 0, bson_get_data(doc), doc->len);
  r->first_of_term = consensus_propose(r->consensus, drive_now(), e);
  entry_unref(e);
  changes_cleanup(&list);
}

static void end_leading(struct repl *r) {
  copy_source_end_all(r);
  log_info("REPL", "Leadership ended", "term:l", (int64_t)r->leading);
  r->leading = r->first_of_term = 0;
  r->proposals.term = 0;
  r->proposals.refusal = ERR_NotWritablePrimary;
  proposals_lose(&r->proposals, ERR_InterruptedDueToReplStateChange);
  if (r->stepping_up) operation_kill(r->stepping_up, ERR_InterruptedDueToReplStateChange);
  set_idle_state(r);
}

void roles_follow(struct repl *r) {
  uint64_t term = consensus_term(r->consensus), leader = consensus_leader(r->consensus);
  bool leads = consensus_role(r->consensus) == CONSENSUS_LEADER && !consensus_caretaker(r->consensus);
  if (r->leading && (!leads || r->leading != term)) end_leading(r);
  if (leads && !r->leading) begin_leading(r, term);
  if (r->leading && !r->first_of_term) propose_first(r);
  if (!r->leading) set_idle_state(r);
  if (leader != r->known_leader) {
    r->known_leader = leader;
    initial_sync_leader_changed(r);
    event_signal(&r->progressed);
  }
}

// --- a process that stood still ---

static void dispel_doubt(struct operation *op, void *arg) {
  struct repl *r = arg;
  uint64_t term = r->leading, index = waits_propose_barrier(r);
  bool waits = true;
  while (waits && index && r->leading == term && r->applied < index) waits = event_wait(op, &r->progressed, NULL);
  // Killed by somebody: again. What is not primary any more has no doubts.
  r->doubtful = !waits && r->leading == term && repl_job(r, "replDoubt", dispel_doubt, r) != NULL;
  event_signal(&r->progressed);
}

// Somebody else may lead by now. This member is not primary to anyone before an entry that it proposes now is applied.
void roles_stood_still(struct repl *r, uint64_t ms) {
  if (!r->leading || r->doubtful || consensus_alone(r->consensus)) return;
  log_warn("REPL", "This process stood still; confirming that it leads still", "millis:l", (int64_t)ms);
  r->doubtful = repl_job(r, "replDoubt", dispel_doubt, r) != NULL;
}

enum member_state repl_state(const struct repl *r) {
  return r->state == MEMBER_PRIMARY && r->doubtful ? MEMBER_SECONDARY : r->state;
}

bool repl_is_primary(const struct repl *r) {
  return r->state == MEMBER_PRIMARY && !r->stopping && !r->doubtful;
}

int64_t repl_term(const struct repl *r) {
  return r->consensus ? (int64_t)consensus_term(r->consensus) : 0;
}

bool repl_wait_primary(struct operation *op, struct repl *r, struct error *err) {
  while (!repl_is_primary(r)) {
    if (r->stopping) return error_set(err, ERR_ShutdownInProgress, "this member is shutting down");
    if (!event_wait(op, &r->progressed, err)) return false;
  }
  return true;
}
