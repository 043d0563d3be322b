// Which faults a run has, and when: decided by the seed alone.
//
// Two lanes run beside each other, each one fault after the other with pauses: what happens to processes and their
// disks, and what happens to the network between them.
#ifndef SHARDLET_CHAOS_FAULTS_H
#define SHARDLET_CHAOS_FAULTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fault_kind {
  FAULT_KILL,        // kill -9, started again after the duration
  FAULT_KILL_SET,    // all members of a set at once
  FAULT_WIPE,        // kill -9, its data directory is emptied; only while all others of its set are well
  FAULT_STOP,        // SIGSTOP, SIGCONT after the duration
  FAULT_RESTART,     // SIGTERM, started again after it has ended
  FAULT_STEP_DOWN,   // replSetStepDown
  FAULT_ROUTER_KILL, // of a router
  FAULT_ROUTER_STOP,
  FAULT_DISK_LOW,   // below the floor of free space: writes are refused
  FAULT_DISK_FULL,  // nothing left: the member may end
  FAULT_ISOLATE,    // silence between a member and all others, both ways
  FAULT_CUT,        // connections of a member are reset and refused
  FAULT_DEAF,       // what others send to a member is not delivered
  FAULT_MUTE,       // what a member sends is not delivered
  FAULT_DELAY,      // all that a member sends and gets comes late
  FAULT_NO_PEERS,   // silence between a member and the others of its set; routers and other sets reach it
  FAULT_SETS_APART, // silence between two sets
  FAULT_ROUTER_CUT, // silence between a router and a set
  FAULT_KINDS,
};

struct fault {
  int64_t at_ms; // since the run's begin
  int duration_ms;
  enum fault_kind kind;
  int set, other_set; // 0 = config set
  int member;         // -1: the one that is primary then; of a router: its number
  int delay_ms;       // FAULT_DELAY
  bool reset;         // network: connections are reset when the fault ends, else they go on where they were
};

struct fault_plan {
  int sets, members, config_members, routers;
  int64_t run_ms;
  bool small_disks; // the last set's members have disks that can be filled
  uint32_t without; // kinds that are left out, as bits
};

enum { LANE_PROCESSES, LANE_NETWORK, LANES };

// The faults of a lane in the order of time; the caller frees them.
size_t faults_plan(uint64_t seed, int lane, const struct fault_plan *p, struct fault **out);
const char *fault_name(enum fault_kind k); // "fault kill": also the kind to count it as

#endif
