// The balancer as the daemon's own thread sees it.
//
// The balancer is a thread of its own with a loop of its own: it reads the catalog and gives orders over the wire, like
// any client, also to its own node. The two threads share nothing; they post messages to each other's loop. It runs
// only while this member is primary, and each round belongs to the term it began in.
//
// Everything here takes NULL for a balancer that is not there any more (the process is stopping).
#ifndef SHARDLET_CONFIGSVR_BALANCER_H
#define SHARDLET_CONFIGSVR_BALANCER_H

#include "configsvr/config_server.h"

struct balancer *balancer_new(struct loop *l);                // starts the thread, which waits
void balancer_free(struct operation *op, struct balancer *b); // ends it and waits for that

void balancer_start(struct balancer *b, int64_t term, const char *config_string); // this member is primary now
void balancer_stop(struct balancer *b); // it is not any more; the round that runs is abandoned
void balancer_wake(struct balancer *b); // something changed that it should look at: the next round begins now

struct balancer_state {
  bool in_round;
  int64_t rounds; // ended, in this term
  int64_t term;   // 0 = not running
};
struct balancer_state balancer_state(const struct balancer *b);
// Returns when the round that was running at the call, if there was one, has ended. Rounds that begin later see what
// was committed before the call.
bool balancer_wait_for_round(struct operation *op, struct balancer *b, struct error *err);

struct collection_balance {
  int64_t chunk_bytes;
  bool compliant;
  const char *violation; // "draining", "zoneViolation", "chunksImbalance"; NULL when compliant
};
// Evaluates a collection as a round would. err NamespaceNotSharded.
bool balancer_ask(struct operation *op, struct balancer *b, const char *ns, struct collection_balance *out,
                  struct error *err);

#endif
