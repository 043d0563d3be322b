// topologyVersion: what lets clients wait for a change of a server's hello instead of asking again and again
// (reference/clients.md section 4.4).
//
// A hello with {topologyVersion, maxAwaitTimeMS} that names the present version is held until it changes or the time
// has passed. With the exhaust flag the answers go on by themselves (dispatch.c).
#ifndef SHARDLET_NET_TOPOLOGY_H
#define SHARDLET_NET_TOPOLOGY_H

#include "common/net/command.h"

struct topology { // zeroed at first
  bson_oid_t process;
  int64_t counter;
  struct event changed;
};

void topology_init(struct topology *t);
void topology_bump(struct topology *t); // what hello says is another now: wakes who waits
void topology_append(const struct topology *t, bson_t *reply);
// Waits as the request's fields ask; at once when they are not there. err: 31368 for one field without the other, 14,
// 2 for values that cannot be; what ends the operation.
bool topology_await(struct request *r, struct topology *t, struct error *err);

#endif
