// What every daemon tells about its process in the same way.
#ifndef SHARDLET_NET_PROCESS_STATUS_H
#define SHARDLET_NET_PROCESS_STATUS_H

#include "common/net/command.h"

// The handler of getLog: "global" gives the last lines of the log, "startupWarnings" none, "*" these names.
bool get_log_run(struct request *r, bson_t *reply, struct error *err);
// serverStatus.network.
void network_status_append(const struct server *s, bson_t *reply);

#endif
