// Does to the cluster what the schedule of faults says. Belongs to the main thread.
#ifndef SHARDLET_CHAOS_NEMESIS_H
#define SHARDLET_CHAOS_NEMESIS_H

#include "tests/chaos/faults.h"
#include "tests/chaos/fleet.h"

struct lane {
  struct fault *faults;
  size_t n, next;
  const struct fault *active; // NULL = a pause
  struct member_daemon *target;
  int64_t until_ms;
};

struct nemesis {
  struct fleet *fleet;
  struct lane lanes[LANES];
  int64_t begun_ms;
};

void nemesis_begin(struct nemesis *n, struct fleet *f, uint64_t seed, int64_t run_ms, uint32_t without); // bits: kinds
void nemesis_turn(struct nemesis *n); // begins and ends what is due; called every few milliseconds
void nemesis_end(struct nemesis *n);  // forgets what is active: fleet_heal() undoes it

#endif
