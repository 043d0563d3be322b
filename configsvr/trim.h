// config.changelog and config.actionlog are kept below 200 MiB and 20 MiB: the oldest rows go.
#ifndef SHARDLET_CONFIGSVR_TRIM_H
#define SHARDLET_CONFIGSVR_TRIM_H

#include "configsvr/config_server.h"

// Best effort; runs now and then while this member is primary.
void trim_logs(struct operation *op, struct config_server *cs);

#endif
