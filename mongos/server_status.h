// serverStatus: the handler.
#ifndef SHARDLET_MONGOS_SERVER_STATUS_H
#define SHARDLET_MONGOS_SERVER_STATUS_H

#include "mongos/router.h"

bool run_server_status(struct request *r, bson_t *reply, struct error *err);

#endif
