// Carrying out faults. See nemesis.h.
#include "tests/chaos/nemesis.h"

#include <stdlib.h>

enum { LOW_LEAVES = 40 << 20, STEP_DOWN_SECONDS = 3 };

// --- network ---

// Sets the rule of both or one direction between two daemons; routers are daemons too.
static void between(struct fleet *f, int a, int b, enum rule there, enum rule back, int delay_ms) {
  if (a == b) return;
  proxies_rule(f->proxies, a, b, there, delay_ms);
  proxies_rule(f->proxies, b, a, back, delay_ms);
}

static void around(struct fleet *f, const struct member_daemon *d, enum rule out, enum rule in, int delay_ms) {
  int self = (int)(d - f->daemons);
  for (int i = 0; i < f->n; i++) between(f, self, i, out, in, delay_ms);
}

static void sets_apart(struct fleet *f, int set, int other, enum rule rule) {
  for (int a = 0; a < f->n; a++)
    for (int b = 0; b < f->n; b++)
      if (f->daemons[a].set == set && f->daemons[b].set == other) between(f, a, b, rule, rule, 0);
}

static void no_peers(struct fleet *f, const struct member_daemon *d, enum rule rule) {
  for (int i = 0; i < f->n; i++)
    if (f->daemons[i].set == d->set) between(f, (int)(d - f->daemons), i, rule, rule, 0);
}

static void router_apart(struct fleet *f, const struct member_daemon *router, int set, enum rule rule) {
  for (int i = 0; i < f->n; i++)
    if (f->daemons[i].set == set) between(f, (int)(router - f->daemons), i, rule, rule, 0);
}

static void begin_network(struct fleet *f, const struct fault *x, struct member_daemon *d) {
  switch (x->kind) {
  case FAULT_ISOLATE: return around(f, d, RULE_SILENT, RULE_SILENT, 0);
  case FAULT_CUT: return around(f, d, RULE_CUT, RULE_CUT, 0);
  case FAULT_DEAF: return around(f, d, RULE_PASS, RULE_SILENT, 0);
  case FAULT_MUTE: return around(f, d, RULE_SILENT, RULE_PASS, 0);
  case FAULT_DELAY: return around(f, d, RULE_PASS, RULE_PASS, x->delay_ms);
  case FAULT_NO_PEERS: return no_peers(f, d, RULE_SILENT);
  case FAULT_SETS_APART: return sets_apart(f, x->set, x->other_set, RULE_SILENT);
  default: return router_apart(f, d, x->set, RULE_SILENT);
  }
}

static void end_network(struct fleet *f, const struct fault *x, const struct member_daemon *d) {
  for (int i = 0; x->reset && i < f->n; i++)
    if (d && &f->daemons[i] != d) proxies_reset(f->proxies, (int)(d - f->daemons), i);
  proxies_pass_all(f->proxies);
}

// --- processes ---

static void step_down(const struct member_daemon *d) {
  mongoc_client_t *c = fleet_direct_client(d, 3000);
  bson_t reply;
  (void)command(c, "admin", &reply, "{'replSetStepDown':%d,'secondaryCatchUpPeriodSecs':%d}", STEP_DOWN_SECONDS,
                STEP_DOWN_SECONDS);
  bson_destroy(&reply);
  mongoc_client_destroy(c);
}

static void each_of_set(struct fleet *f, int set, void (*fn)(struct fleet *f, struct member_daemon *d)) {
  for (int i = 0; i < f->n; i++)
    if (f->daemons[i].set == set) fn(f, &f->daemons[i]);
}

static void begin_process(struct fleet *f, const struct fault *x, struct member_daemon *d) {
  switch (x->kind) {
  case FAULT_KILL:
  case FAULT_ROUTER_KILL: return daemon_kill(f, d);
  case FAULT_WIPE:
    // With another member's data gone as well, what was acknowledged may be gone too.
    return fleet_set_is_well(f, x->set) ? daemon_wipe(f, d) : daemon_kill(f, d);
  case FAULT_KILL_SET: return each_of_set(f, x->set, daemon_kill);
  case FAULT_STOP:
  case FAULT_ROUTER_STOP: return daemon_stop(f, d);
  case FAULT_RESTART: return daemon_end(f, d);
  case FAULT_STEP_DOWN: return step_down(d);
  case FAULT_DISK_LOW: return daemon_fill_disk(d, LOW_LEAVES);
  default: return daemon_fill_disk(d, 0);
  }
}

// false: not yet.
static bool end_process(struct fleet *f, const struct fault *x, struct member_daemon *d) {
  if (d->state == STATE_ENDING) return false;
  daemon_free_disk(f, d);
  daemon_go_on(f, d);
  if (x->kind == FAULT_KILL_SET)
    each_of_set(f, x->set, daemon_start);
  else
    daemon_start(f, d);
  return true;
}

// --- lanes ---

static struct member_daemon *target_of(struct fleet *f, const struct fault *x) {
  if (x->kind == FAULT_ROUTER_KILL || x->kind == FAULT_ROUTER_STOP || x->kind == FAULT_ROUTER_CUT)
    return fleet_router(f, x->member);
  struct member_daemon *d = x->member < 0 || x->kind == FAULT_STEP_DOWN ? fleet_primary(f, x->set) : NULL;
  return d ? d : fleet_member(f, x->set, x->member < 0 ? 0 : x->member);
}

static void begin_fault(struct nemesis *n, int lane) {
  struct lane *l = &n->lanes[lane];
  const struct fault *x = l->active = &l->faults[l->next++];
  char name[8], other[8];
  l->target = target_of(n->fleet, x);
  report_event(n->fleet->report, "%s: %s (set %s, other set %s) for %d ms", fault_name(x->kind),
               l->target->process.name, fleet_set_name(x->set, name), fleet_set_name(x->other_set, other),
               x->duration_ms);
  report_count(n->fleet->report, fault_name(x->kind), OUTCOME_OK);
  if (lane == LANE_NETWORK)
    begin_network(n->fleet, x, l->target);
  else
    begin_process(n->fleet, x, l->target);
  l->until_ms = now_ms() + x->duration_ms;
}

static void end_fault(struct nemesis *n, int lane) {
  struct lane *l = &n->lanes[lane];
  if (lane == LANE_NETWORK)
    end_network(n->fleet, l->active, l->target);
  else if (!end_process(n->fleet, l->active, l->target))
    return;
  report_event(n->fleet->report, "%s: %s: over", fault_name(l->active->kind), l->target->process.name);
  l->active = NULL;
}

void nemesis_begin(struct nemesis *n, struct fleet *f, uint64_t seed, int64_t run_ms, uint32_t without) {
  struct fault_plan plan = {.sets = fleet_sets(f),
                            .members = f->plan.members,
                            .config_members = f->plan.config_members,
                            .routers = FLEET_ROUTERS,
                            .run_ms = run_ms,
                            .without = without};
  *n = (struct nemesis){.fleet = f, .begun_ms = now_ms()};
  for (int i = 0; i < f->n; i++) plan.small_disks = plan.small_disks || f->daemons[i].small_disk;
  for (int lane = 0; lane < LANES; lane++) {
    n->lanes[lane].n = faults_plan(seed, lane, &plan, &n->lanes[lane].faults);
  }
}

void nemesis_turn(struct nemesis *n) {
  for (int lane = 0; lane < LANES; lane++) {
    struct lane *l = &n->lanes[lane];
    int64_t now = now_ms();
    if (l->active) {
      if (now >= l->until_ms) end_fault(n, lane);
    } else if (l->next < l->n && now - n->begun_ms >= l->faults[l->next].at_ms) {
      begin_fault(n, lane);
    }
  }
}

void nemesis_end(struct nemesis *n) {
  for (int lane = 0; lane < LANES; lane++) {
    free(n->lanes[lane].faults);
    n->lanes[lane] = (struct lane){0};
  }
}
