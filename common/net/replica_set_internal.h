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
  bool silent;            // its last hello failed: calls may hang on it
  int64_t asked_ms;       // since when it is asked (loop time), 0 = it is not
  bool replaced;          // another one is primary now, and this one has not answered since
  bson_t *topology;       // its topologyVersion; NULL = it gave none
  bool holding;           // a hello is held there (replica_set_await.c)
  struct operation *op;   // its monitor
  struct operation *await_op;
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

void member_look(struct member *m);                                             // asks it again at once
void member_take_hello(struct member *m, const bson_t *hello, int64_t took_us); // took_us < 0: it was held there
void await_start(struct member *m);
void await_take_version(struct member *m, const bson_t *hello);
void replica_set_unref(struct replica_set *s);

#endif
