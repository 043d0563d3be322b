// Consensus of sets of 1, 3 and 5 members in virtual time under random faults (simulation.h), some hundreds of seeds
// each.
//
// SEEDS=n runs n seeds of each plan, FIRST=n begins at that one: a failure names its plan and seed.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/repl/trail.h"
#include "tests/unit/common/repl/simulation.h"

// --- what is done to a set ---

static void cut_something(struct simulation *s) {
  int n = s->plan.nodes, a = 1 + (int)sim_below(s, (uint64_t)n), b = 1 + (int)sim_below(s, (uint64_t)n);
  switch (sim_below(s, 5)) {
  case 0: s->cut[a][b] = true; break;
  case 1: s->cut[a][b] = s->cut[b][a] = true; break;
  case 2:
    for (int i = 1; i <= n; i++) s->cut[a][i] = s->cut[i][a] = true;
    break;
  case 3:
    for (int i = 1; i <= n; i++) s->cut[a][i] = true;
    break;
  default: memset(s->cut, 0, sizeof s->cut);
  }
}

static void crash_something(struct simulation *s) {
  struct node *leader = sim_leader(s), *n = &s->nodes[1 + sim_below(s, (uint64_t)s->plan.nodes)];
  if (leader && sim_below(s, 2)) n = leader;
  if (sim_below(s, 16) == 0) {
    for (int i = 1; i <= s->plan.nodes; i++)
      if (s->nodes[i].up) {
        node_crash(s, &s->nodes[i]);
        s->nodes[i].down_until = s->now + sim_below(s, 50);
      }
  } else if (n->up) {
    node_crash(s, n);
    n->down_until = s->now + sim_below(s, 5 * ELECTION_MS);
  }
}

// A step of changing the members, as a leader's driver would take it: one member at a time, always by the rules.
static void change_something(struct simulation *s, struct node *leader) {
  uint64_t id = 1 + sim_below(s, (uint64_t)s->plan.nodes);
  if (id == (uint64_t)leader->id) return;
  const struct members *now = consensus_members(leader->c);
  struct members next = {0};
  const struct member *m = members_find(now, id);
  if (m && m->role != ROLE_VOTER && !consensus_caught_up(leader->c, id)) {
    (void)consensus_catch_up(leader->c, s->now, id);
    return;
  }
  if (m && m->role == ROLE_VOTER && members_voters(now) <= (size_t)s->plan.least_voters) return;
  for (size_t i = 0; i < now->n; i++) {
    enum member_role role = now->list[i].role;
    if (now->list[i].id == id && role == ROLE_VOTER && sim_below(s, 2)) continue; // removed
    if (now->list[i].id == id) role = role == ROLE_VOTER ? ROLE_STANDBY : ROLE_VOTER;
    members_add(&next, now->list[i].id, now->list[i].address, role);
  }
  char address[16];
  (void)snprintf(address, sizeof address, "node:%d", (int)id);
  if (!m) members_add(&next, id, address, sim_below(s, 2) ? ROLE_STANDBY : ROLE_SPARE);
  if (consensus_change(leader->c, s->now, &next, NULL)) s->changes++;
  members_free(&next);
  node_settle(s, leader);
}

static void hand_over(struct simulation *s, struct node *leader) {
  uint64_t id = 1 + sim_below(s, (uint64_t)s->plan.nodes);
  if (consensus_transfer(leader->c, s->now, id)) s->transfers++;
  node_settle(s, leader);
}

static void hostile_phase(struct simulation *s) {
  uint64_t end = s->now + (uint64_t)s->plan.hostile_ms, load = 5 + sim_below(s, 20);
  while (s->now < end) {
    sim_run(s, s->now + 1 + sim_below(s, load));
    struct node *any = &s->nodes[1 + sim_below(s, (uint64_t)s->plan.nodes)], *leader = sim_leader(s);
    if (any->up) sim_propose(s, any, 1 + sim_below(s, 3));
    if (leader) sim_propose(s, leader, sim_below(s, 3));
    if (leader && s->plan.change_members && sim_below(s, 6) == 0) change_something(s, leader);
    if (leader && s->plan.transfer && sim_below(s, 20) == 0) hand_over(s, leader);
    if (s->plan.crash && sim_below(s, 25) == 0) crash_something(s);
    if (s->plan.cut && sim_below(s, 20) == 0) cut_something(s);
    for (int i = 1; i <= s->plan.nodes; i++)
      if (!s->nodes[i].up && s->now >= s->nodes[i].down_until) {
        node_start(s, &s->nodes[i]);
        node_settle(s, &s->nodes[i]);
      }
  }
}

// Without faults everybody has to come to the same end.
static void quiet_phase(struct simulation *s) {
  s->quiet = true;
  memset(s->cut, 0, sizeof s->cut);
  for (int i = 1; i <= s->plan.nodes; i++)
    if (!s->nodes[i].up) {
      node_start(s, &s->nodes[i]);
      node_settle(s, &s->nodes[i]);
    }
  uint64_t end = s->now + (uint64_t)s->plan.quiet_ms;
  while (s->now < end) {
    sim_run(s, s->now + 10);
    struct node *leader = sim_leader(s);
    if (leader && s->now < end - (uint64_t)s->plan.quiet_ms / 3) sim_propose(s, leader, 1);
  }
  struct node *leader = sim_leader(s);
  if (!leader) sim_break(s, "no leader without faults");
  if (!leader->eligible) sim_break(s, "a caretaker does not hand over");
  if (leader->applied != leader->memory.last) sim_break(s, "the leader's log is not committed");
  const struct members *m = consensus_members(leader->c);
  struct entry *members = members_encode(m);
  for (int i = 1; i <= s->plan.nodes; i++) {
    struct node *n = &s->nodes[i];
    const struct member *self = members_find(m, (uint64_t)i);
    if (!self || self->role == ROLE_SPARE) continue;
    if (n->applied != leader->applied || n->state != leader->state) sim_break(s, "node %d does not converge", i);
    struct entry *own = members_encode(consensus_members(n->c));
    bool same = own->len == members->len && !memcmp(own->data, members->data, own->len);
    entry_unref(own);
    if (!same || consensus_members_pending(n->c)) sim_break(s, "node %d knows other members", i);
    m = consensus_members(leader->c);
  }
  entry_unref(members);
}

// Scripted: the leader dies for good under load, the priority-0 member may be the only one with its last entries.
static void caretaker_script(struct simulation *s) {
  s->quiet = true;
  for (int i = 1; i <= 3; i++) node_start(s, &s->nodes[i]);
  struct node *leader;
  while (!(leader = sim_leader(s)) || !leader->eligible) sim_run(s, s->now + 20);
  for (int i = 0; i < 40; i++) {
    sim_propose(s, leader, 1);
    sim_run(s, s->now + sim_below(s, 6));
  }
  if ((leader = sim_leader(s))) node_crash(s, leader);
  uint64_t start = s->now;
  while ((!(leader = sim_leader(s)) || !leader->eligible) && s->now < start + 50 * ELECTION_MS) sim_run(s, s->now + 5);
  if (!leader || !leader->eligible) sim_break(s, "no eligible leader after the old one died");
}

// --- handing over ---

static struct node *elected(struct simulation *s) {
  struct node *leader;
  s->quiet = true;
  for (int i = 1; i <= s->plan.nodes; i++) node_start(s, &s->nodes[i]);
  while (!(leader = sim_leader(s)) || !leader->eligible) sim_run(s, s->now + 20);
  sim_propose(s, leader, 3);
  sim_run(s, s->now + ELECTION_MS);
  return leader;
}

static int other_than(const struct node *n, int step) {
  return (n->id - 1 + step) % 3 + 1;
}

// To one that does not stand (frozen, say): nothing happens, and the leader goes on.
static void refusing_script(struct simulation *s) {
  struct node *leader = elected(s), *frozen = &s->nodes[other_than(leader, 1)];
  uint64_t term = consensus_term(leader->c);
  consensus_set_eligible(frozen->c, false);
  if (!consensus_transfer(leader->c, s->now, (uint64_t)frozen->id)) sim_break(s, "the leader does not try");
  sim_run(s, s->now + 10 * ELECTION_MS);
  if (sim_leader(s) != leader || consensus_term(leader->c) != term || consensus_term(frozen->c) != term)
    sim_break(s, "a member that does not stand has begun a term");
}

// To one whose request for votes nobody hears: its term does not grow while somebody else leads, and all is quiet soon
// after it is back.
static void unheard_script(struct simulation *s) {
  struct node *leader = elected(s), *lost = &s->nodes[other_than(leader, 1)];
  for (int i = 1; i <= 3; i++) s->cut[lost->id][i] = true;
  if (!consensus_transfer(leader->c, s->now, (uint64_t)lost->id)) sim_break(s, "the leader does not try");
  sim_run(s, s->now + 20 * ELECTION_MS);
  uint64_t grown = consensus_term(lost->c);
  if (grown != consensus_term(leader->c) + 1) sim_break(s, "the term of one that nobody hears is %d", (int)grown);
  memset(s->cut, 0, sizeof s->cut);
  sim_run(s, s->now + 20 * ELECTION_MS);
  uint64_t elections = s->elections;
  sim_run(s, s->now + 20 * ELECTION_MS);
  if (!sim_leader(s) || s->elections > elections) sim_break(s, "leaders are deposed");
}

// --- two voters become one ---

// The leader dies before its own disk has the change, and is started again.
static void shrinking_script(struct simulation *s) {
  struct node *leader = elected(s);
  struct members next = {0};
  for (int i = 1; i <= 2; i++)
    members_add(&next, (uint64_t)i, i == 1 ? "node:1" : "node:2", i == leader->id ? ROLE_VOTER : ROLE_STANDBY);
  struct error err;
  if (!consensus_change(leader->c, s->now, &next, &err)) sim_break(s, "%s", err.message);
  members_free(&next);
  sim_run(s, s->now + sim_below(s, (uint64_t)s->plan.disk_ms));
  node_crash(s, leader);
  sim_run(s, s->now + 5 * ELECTION_MS);
  node_start(s, leader);
  sim_run(s, s->now + 20 * ELECTION_MS);
  if (!sim_leader(s)) sim_break(s, "nobody leads");
}

// --- a member gets its vote ---

static void set_role(struct simulation *s, struct node *leader, int id, enum member_role role) {
  const struct members *now = consensus_members(leader->c);
  struct members next = {0};
  char address[16];
  struct error err;
  for (size_t i = 0; i < now->n; i++)
    if (now->list[i].id != (uint64_t)id) members_add(&next, now->list[i].id, now->list[i].address, now->list[i].role);
  (void)snprintf(address, sizeof address, "node:%d", id);
  members_add(&next, (uint64_t)id, address, role);
  if (!consensus_change(leader->c, s->now, &next, &err)) sim_break(s, "%s", err.message);
  members_free(&next);
  node_settle(s, leader);
  sim_run(s, s->now + 10 * ELECTION_MS);
}

// In a set in which nobody writes: the member has all that there is when its turn comes, and hears of nothing more.
static void idle_script(struct simulation *s) {
  struct node *leader = elected(s);
  int third = 3;
  if (members_find(consensus_members(leader->c), 3)) sim_break(s, "the plan has the third one already");
  set_role(s, leader, third, ROLE_STANDBY);
  if (!consensus_caught_up(leader->c, (uint64_t)third)) {
    (void)consensus_catch_up(leader->c, s->now, (uint64_t)third);
    sim_run(s, s->now + 20 * ELECTION_MS);
  }
  set_role(s, leader, third, ROLE_VOTER);
  if (members_voters(consensus_members(leader->c)) != 3) sim_break(s, "the third one has no vote");
}

// --- runs ---

static uint64_t from_environment(const char *name, uint64_t otherwise) {
  const char *v = getenv(name);
  return v ? strtoull(v, NULL, 10) : otherwise;
}

static bool run_seed(struct simulation *s, void (*script)(struct simulation *s)) {
  if (setjmp(s->broken)) return false;
  if (script) {
    script(s);
    return true;
  }
  for (int i = 1; i <= s->plan.nodes; i++) node_start(s, &s->nodes[i]);
  hostile_phase(s);
  quiet_phase(s);
  return true;
}

static void run_plan(const char *name, const struct plan *p, uint64_t seeds, void (*script)(struct simulation *s)) {
  uint64_t first = from_environment("FIRST", 1), sums[6] = {0};
  seeds = from_environment("SEEDS", seeds);
  for (uint64_t seed = first; seed < first + seeds; seed++) {
    struct simulation *s = sim_new(p, seed);
    if (!run_seed(s, script))
      fail_msg("plan %s, seed %llu, t=%llu: %s", name, (unsigned long long)seed, (unsigned long long)s->now,
               s->failure);
    const uint64_t counts[6] = {s->elections, s->commits, s->crashes, s->installs, s->changes, s->transfers};
    for (int i = 0; i < 6; i++) sums[i] += counts[i];
    sim_free(s);
  }
  print_message("%s: %llu seeds", name, (unsigned long long)seeds);
  static const char *const names[6] = {"elections", "commits", "crashes", "installs", "changes", "transfers"};
  for (int i = 0; i < 6; i++) print_message(", %llu %s", (unsigned long long)sums[i], names[i]);
  print_message("\n");
}

static const struct plan base = {.nodes = 3,
                                 .voters = 3,
                                 .least_voters = 3,
                                 .drop = 5,
                                 .duplicate = 3,
                                 .net_ms = 10,
                                 .disk_ms = 15,
                                 .crash = true,
                                 .cut = true,
                                 .hostile_ms = 3000,
                                 .quiet_ms = 3000};

static void test_one(void **state) {
  struct plan p = base;
  p.nodes = p.voters = 1;
  p.snapshot_every = 20;
  run_plan("one member", &p, 200, NULL);
}

static void test_three(void **state) {
  run_plan("three members", &base, 100, NULL);
}

static void test_three_snapshots_transfers(void **state) {
  struct plan p = base;
  p.snapshot_every = 20;
  p.transfer = true;
  run_plan("three members, snapshots, transfers", &p, 150, NULL);
}

static void test_changes(void **state) {
  struct plan p = base;
  p.nodes = 5;
  p.snapshot_every = 20;
  p.change_members = p.transfer = true;
  run_plan("three to five members, changes", &p, 150, NULL);
}

// A lone voter becomes two and more: it may die before a new voter knows that it is one. And less, down to one: it may
// die before its own disk has what it told others.
static void test_growing(void **state) {
  struct plan p = base;
  p.nodes = 4;
  p.voters = 1;
  p.least_voters = 1;
  p.snapshot_every = 20;
  p.change_members = p.transfer = true;
  run_plan("one to four members, changes", &p, 200, NULL);
}

static void test_shrinking(void **state) {
  struct plan p = base;
  p.nodes = p.voters = 2;
  p.drop = p.duplicate = 0;
  p.net_ms = 5;
  run_plan("two voters become one", &p, 100, shrinking_script);
}

// A snapshot is taken over long after the leader spoke of it.
static void test_copies(void **state) {
  struct plan p = base;
  p.nodes = 4;
  p.snapshot_every = 10;
  p.copy_ms = 400;
  p.change_members = p.transfer = true;
  run_plan("three and four members, slow copies", &p, 150, NULL);
}

static void test_five_slow_disks(void **state) {
  struct plan p = base;
  p.nodes = p.voters = 5;
  p.disk_ms = 60;
  p.drop = 15;
  p.snapshot_every = 30;
  p.fifo = true;
  run_plan("five members, slow disks, ordered network", &p, 80, NULL);
}

static void test_ineligible(void **state) {
  struct plan p = base;
  p.snapshot_every = 20;
  p.ineligible = 3;
  p.transfer = true;
  run_plan("three members, one of priority 0", &p, 100, NULL);
}

static void test_caretaker(void **state) {
  struct plan p = base;
  p.drop = p.duplicate = 0;
  p.ineligible = 3;
  run_plan("priority 0 as caretaker", &p, 200, caretaker_script);
}

static void test_hand_over(void **state) {
  struct plan p = base;
  p.drop = p.duplicate = 0;
  run_plan("handed over to one that does not stand", &p, 50, refusing_script);
  run_plan("handed over to one that nobody hears", &p, 50, unheard_script);
}

// --- the parts ---

static void test_idle_promotion(void **state) {
  struct plan p = base;
  p.voters = 2;
  run_plan("a vote in an idle set", &p, 50, idle_script);
}

static void test_trail(void **state) {
  struct trail t = {0};
  trail_reset(&t, 5, 4, 2);
  static const uint64_t terms[] = {2, 2, 3, 3, 3, 7};
  for (size_t i = 0; i < 6; i++) trail_append(&t, terms[i]);
  for (size_t i = 0; i < 6; i++) assert_int_equal(trail_term(&t, 5 + i), terms[i]);
  assert_int_equal(trail_term(&t, 4), 2);
  assert_int_equal(trail_term(&t, 3), 0);
  assert_int_equal(trail_term(&t, 11), 0);
  trail_truncate(&t, 8);
  assert_int_equal(t.last, 7);
  assert_int_equal(trail_term(&t, 7), 3);
  trail_append(&t, 9);
  trail_cut(&t, 7);
  assert_int_equal(trail_term(&t, 6), 0);
  assert_int_equal(trail_term(&t, 7), 3);
  assert_int_equal(trail_term(&t, 8), 9);
  trail_cut(&t, 9);
  assert_int_equal(t.last, 8);
  trail_append(&t, 9);
  assert_int_equal(trail_term(&t, 9), 9);
  trail_free(&t);
}

// No prefix and no damaged byte of a message may do worse than be refused.
static void test_message_damage(void **state) {
  struct members m = {0};
  members_add(&m, 7, "a:1", ROLE_VOTER);
  members_add(&m, 9, "b:2", ROLE_STANDBY);
  struct entry *entries[] = {entry_new(ENTRY_COMMAND, 3, "hello", 5), members_encode(&m)};
  entries[1]->term = 4;
  struct consensus_message message = {.kind = RAFT_MSG_APPEND,
                                      .term = 4,
                                      .index = 10,
                                      .index_term = 3,
                                      .commit = 9,
                                      .entries = entries,
                                      .n_entries = 2},
                           out;
  struct buf b = {0};
  message_encode(&b, &message);
  assert_true(message_decode(b.data + 4, b.len - 4, &out));
  assert_int_equal(out.n_entries, 2);
  assert_int_equal(out.index, 10);
  assert_memory_equal(out.entries[0]->data, "hello", 5);
  message_clear(&out);
  for (size_t len = 0; len < b.len - 4; len++) {
    uint8_t *exact = malloc(len + 1);
    memcpy(exact, b.data + 4, len);
    assert_false(message_decode(exact, len, &out));
    free(exact);
  }
  for (size_t at = 4; at < b.len; at++)
    for (int bit = 0; bit < 8; bit++) {
      b.data[at] ^= (uint8_t)(1 << bit);
      if (message_decode(b.data + 4, b.len - 4, &out)) message_clear(&out);
      b.data[at] ^= (uint8_t)(1 << bit);
    }
  buf_free(&b);
  for (int i = 0; i < 2; i++) entry_unref(entries[i]);
  members_free(&m);
}

static void test_damaged_state(void **state) {
  struct consensus_output none = {0};
  struct consensus_options o = {
      .id = 1, .address = "a:1", .election_timeout_ms = 100, .heartbeat_ms = 20, .max_inflight = 8};
  struct log_head heads[] = {{2, ENTRY_COMMAND, NULL}, {1, ENTRY_COMMAND, NULL}};
  const struct consensus_state bad[] = {
      {.term = 2, .first = 1, .heads = heads, .n = 1},              // begins without members
      {.term = 0, .voted_for = 3},                                  // a vote without a term
      {.term = 3, .snapshot = {.index = 4, .term = 2}, .first = 5}, // a snapshot without members
      {.term = 3, .snapshot = {.index = 4, .term = 2}, .first = 9}, // a hole
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct consensus *c = consensus_new(&o, &none);
    struct error err = {0};
    assert_false(consensus_start(c, 1, &bad[i], &err));
    assert_int_equal(err.code, ERR_UnsupportedFormat);
    consensus_free(c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_idle_promotion),
      cmocka_unit_test(test_trail),
      cmocka_unit_test(test_message_damage),
      cmocka_unit_test(test_damaged_state),
      cmocka_unit_test(test_one),
      cmocka_unit_test(test_three),
      cmocka_unit_test(test_three_snapshots_transfers),
      cmocka_unit_test(test_changes),
      cmocka_unit_test(test_growing),
      cmocka_unit_test(test_copies),
      cmocka_unit_test(test_five_slow_disks),
      cmocka_unit_test(test_ineligible),
      cmocka_unit_test(test_caretaker),
      cmocka_unit_test(test_hand_over),
      cmocka_unit_test(test_shrinking),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
