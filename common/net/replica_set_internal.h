// What the monitor and the selection of a replica set share. Internal to common/net/replica_set*.c.
#ifndef SHARDLET_NET_REPLICA_SET_INTERNAL_H
#define SHARDLET_NET_REPLICA_SET_INTERNAL_H

#include "common/net/replica_set.h"

enum member_kind { KIND_UNKNOWN, KIND_PRIMARY, KIND_SECONDARY, KIND_OTHER };

struct member {
  char *host;
  enum member_kind kind;
  bson_t *tags;           // NULL = none
  double rtt_ms;          // smoothed, < 0 = not measured
  int64_t last_write_ms;  // its lastWriteDate
  int64_t last_update_ms; // wall clock of the last answer
  bool gone;              // no longer in the set: its fiber ends
  bool look_now;          // do not wait for the interval
  bool silent;            // its last hello timed out: calls may hang on it
  struct operation *op;   // its monitor
  struct event look;
  struct replica_set *set;
  struct member *next;
};

struct replica_set {
  char *name;
  char *given;   // the connection string
  char *current; // as the set tells it; NULL until it has
  struct loop *loop;
  struct remotes *remotes;
  struct member *members;
  size_t waiting;       // operations that wait for a member that fits
  struct event changed; // something was learnt
  size_t refs;          // the owner and each member's fiber
  bool closing;
  uint8_t election[12]; // the greatest electionId of a primary that was seen
};

void member_look(struct member *m); // asks it again at once
void replica_set_unref(struct replica_set *s);

#endif
