// Clusters whose config server and shards are replica sets of several members, whose primaries the tests end or stop.
#ifndef SHARDLET_TESTS_SETS_H
#define SHARDLET_TESTS_SETS_H

#include "tests/integration/harness.h"

enum { SET_MAX_MEMBERS = 3, SET_SHARDS = 2, SET_ROUTERS = 2, SET_ELECTION_MS = 1500 };

struct set {
  char name[16];
  struct process members[SET_MAX_MEMBERS];
  bool stopped[SET_MAX_MEMBERS]; // by set_pause(): such a member is asked nothing
  int n;
};

struct set_cluster {
  char folder[256];
  struct set config, shards[SET_SHARDS];
  struct process routers[SET_ROUTERS];
};

// The member that says it is primary; waits for one, at most 30 s.
struct process *set_primary(struct set *s);
// The same, but another one than `not`.
struct process *set_other_primary(struct set *s, const struct process * not );
// Of another member of the set than this one; for reading what secondaries have.
struct process *set_secondary(struct set *s, int nth);

// The primary goes: killed, or asked to step down. Returns the member that it was. Waits for its successor.
struct process *set_kill_primary(struct set *s);
struct process *set_step_down_primary(struct set *s);
void set_pause(struct set *s, struct process *member, bool pause); // SIGSTOP, SIGCONT
void set_kill_all(struct set *const *sets, int n);                 // every member of each, at one instant
void set_restart_all(struct set *s);                               // those that do not run, without waiting for them

// cfg, sh1, sh2 of n members each, two routers. The arguments are for every shardd.
void set_cluster_start(struct set_cluster *c, int members, const char *shard_arguments);
void set_cluster_stop(struct set_cluster *c);
// A group's teardown: stops the cluster that the group's setup has put into *state.
int set_cluster_teardown(void **state);

#endif
