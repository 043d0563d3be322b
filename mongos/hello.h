// hello and isMaster of a router.
#ifndef SHARDLET_MONGOS_HELLO_H
#define SHARDLET_MONGOS_HELLO_H

#include "mongos/router.h"

enum { WIRE_VERSION_MIN = 0, WIRE_VERSION_MAX = 25 };

bool run_hello(struct request *r, bson_t *reply, struct error *err);
bool run_is_master(struct request *r, bson_t *reply, struct error *err);

#endif
