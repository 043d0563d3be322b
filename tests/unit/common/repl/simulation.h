// A replica set in virtual time: consensus of each member, a network that drops, doubles, delays, reorders and cuts,
// disks that finish late and lose a part of what was unfinished in a crash. Deterministic by seed. Checks while it
// runs:
//
// - what is committed at an index is the same everywhere and for ever, and applying gives the same state;
// - one leader a term, and it has everything that was committed in earlier terms;
// - entries of the same index and term are the same; a log is only extended or replaced above what is committed.
//
// Messages go through their encoding, so that is tested too. A broken rule ends the run with simulation.failure set.
#ifndef SHARDLET_TESTS_REPL_SIMULATION_H
#define SHARDLET_TESTS_REPL_SIMULATION_H

#include <setjmp.h>

#include "tests/unit/common/repl/simulated_disk.h"

enum { MAX_NODES = 7, MAX_TERM = 4096, ELECTION_MS = 100, HEARTBEAT_MS = 20 };

struct plan {                      // what happens in a run
  int nodes, voters, least_voters; // changes of members leave so many
  int drop, duplicate;             // percent of messages
  int net_ms, disk_ms;             // up to
  bool fifo, crash, cut, change_members, transfer;
  int snapshot_every; // entries, 0 = never
  int copy_ms;        // an install begins up to so long after the message: with what the leader had then
  int ineligible;     // the last node never stands, but as caretaker
  int hostile_ms, quiet_ms;
};

struct node {
  int id; // 1..
  bool up, eligible;
  uint32_t incarnation;
  struct consensus *c;
  struct log_image memory, disk;
  struct disk_op *queue, **queue_end;
  uint64_t disk_free_at, down_until;
  size_t votes_pending; // messages are held until they are durable
  struct buf held[64];
  int held_to[64];
  size_t n_held;
  uint64_t applied, state;
  bool snapshotting, copying;
  enum consensus_role was;
};

enum event_kind { EVENT_MESSAGE, EVENT_DISK, EVENT_SNAPSHOT, EVENT_COPIED };

struct happening {
  uint64_t at, seq;
  enum event_kind kind;
  int node, from;
  uint32_t incarnation;
  uint64_t index;
  struct buf bytes;
};

struct simulation {
  struct plan plan;
  uint64_t random, now, seq, value;
  struct node nodes[MAX_NODES + 1];
  struct happening **heap;
  size_t n_heap, cap_heap;
  bool cut[MAX_NODES + 1][MAX_NODES + 1];
  uint64_t delivered[MAX_NODES + 1][MAX_NODES + 1];
  bool quiet;
  // What is true for ever.
  uint64_t committed, committed_state[MAX_INDEX], committed_term[MAX_INDEX], seen_in_term[MAX_INDEX];
  uint64_t leader_of[MAX_TERM];                               // node and incarnation
  uint64_t content[MAX_INDEX][8], content_term[MAX_INDEX][8]; // of (index, term); the oldest are overwritten
  unsigned content_next[MAX_INDEX];
  uint64_t elections, commits, crashes, installs, changes, transfers;
  jmp_buf broken;
  char failure[256];
};

struct simulation *sim_new(const struct plan *p, uint64_t seed);
void sim_free(struct simulation *s);
void sim_run(struct simulation *s, uint64_t until); // what is due up to then
struct node *sim_leader(struct simulation *s);      // of the highest term; NULL = none
void sim_propose(struct simulation *s, struct node *n, size_t count);
uint64_t sim_below(struct simulation *s, uint64_t n); // a random number
// Ends the run: a rule is broken.
__attribute__((noreturn, format(printf, 2, 3))) void sim_break(struct simulation *s, const char *fmt, ...);

// A member by itself.
void node_start(struct simulation *s, struct node *n);
void node_crash(struct simulation *s, struct node *n);
// After every event: a new leader is looked at, and what is committed is applied.
void node_settle(struct simulation *s, struct node *n);

#endif
