// What the files of consensus share.
#ifndef SHARDLET_REPL_CONSENSUS_INTERNAL_H
#define SHARDLET_REPL_CONSENSUS_INTERNAL_H

#include <raft.h>

#include "common/repl/consensus.h"
#include "common/repl/trail.h"

struct pending_write { // given to the log, not reported back yet
  uint64_t first;
  uint64_t report; // index that raft may hear of when it is durable; < first when it was overtaken as a whole
};

struct applied_configuration {
  uint64_t index;
  struct entry *entry;
};

struct consensus {
  struct raft raft;
  struct consensus_output out;
  uint64_t now, last_timeout;

  struct trail trail;
  uint64_t commit, applied;
  struct snapshot_mark snapshot; // the last one taken or installed
  struct snapshot_mark incoming; // while one is being installed
  struct pending_write *writes;  // oldest first
  size_t n_writes, cap_writes;
  struct applied_configuration *configurations; // applied, oldest first; the first is the one the snapshot needs
  size_t n_configurations, cap_configurations;
  struct members members; // of consensus_members()

  bool eligible;
  uint64_t leader_seen;   // when a leader was last known
  uint64_t leader_heard;  // when one of this term said anything
  uint64_t asked;         // a member that asked for votes since then, 0 = none
  uint64_t caretaker_end; // until when this member may stand as caretaker, 0 = may not

  // While raft_step() runs: what its arrays stand for.
  struct raft_entry *stepping;
  struct entry *const *stepping_entries;
  size_t n_stepping;
  struct entry *stepping_snapshot, *stepping_configuration; // of a received RAFT_MSG_SNAPSHOT
  bool stale; // fault 5: an append or snapshot of an older term is being answered
  uint64_t stale_previous;
};

// consensus.c
int consensus_step(struct consensus *c,
                   struct raft_event *e); // raft's return code; on success all updates were handed out
void consensus_step_or_die(struct consensus *c, struct raft_event *e); // for events that must not fail
void consensus_decode_configuration(const struct entry *e, struct raft_configuration *out);

// consensus_filter.c
bool filter_incoming(struct consensus *c, const struct consensus_message *m); // false: to be dropped
void filter_append(struct consensus *c, const struct consensus_message *m, struct raft_message *rm); // delivers it
bool filter_outgoing(struct consensus *c, struct raft_message *m); // may change it; false: to be dropped
uint64_t filter_timer(const struct consensus *c);
void filter_tick(struct consensus *c); // the caretaker's clock and its handing over

#endif
