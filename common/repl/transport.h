// Raft's messages between the members of a set: a connection a direction, opened by the sender.
#ifndef SHARDLET_REPL_TRANSPORT_H
#define SHARDLET_REPL_TRANSPORT_H

#include "common/repl/consensus.h"
#include "common/repl/repl.h"

struct transport;

struct transport *transport_new(struct repl *r);
void transport_free(struct transport *t); // closes all connections; NULL allowed
// Adds the entries and the rest that the sender of a message has to add, and sends it; drops it while there is no
// connection (raft sends it again).
void transport_send(struct transport *t, const struct consensus_message *m);
// A term or vote is being written: messages are held until all such writes are durable.
void transport_hold(struct transport *t);
void transport_release(struct transport *t, size_t votes);
// What was heard from a member last, as loop_now_ms(); -1 = nothing yet.
int64_t transport_heard(const struct transport *t, uint64_t id);

struct report { // what a member tells about itself, besides raft
  enum member_state state;
  uint64_t applied; // index
  struct optime last;
  int64_t wall_ms; // of its last entry
  bool electable;  // would stand: has a priority and is not frozen
};
const struct report *transport_report(const struct transport *t, uint64_t id); // the last one; NULL = none
// Knows all members of the list, so that reports go to each; forgets members that are in no list any more and silent:
// ids are never used again, so else they would be without end.
void transport_keep(struct transport *t, const struct members *m);
void transport_tell(struct transport *t, uint64_t id); // sends a report to a member; 0 = to all

#endif
