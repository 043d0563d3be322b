// What the catalog needs before anybody uses it: config.version and the indexes; and its upkeep while this member is
// primary.
#ifndef SHARDLET_CONFIGSVR_SETUP_H
#define SHARDLET_CONFIGSVR_SETUP_H

#include "configsvr/config_server.h"

extern const char setup_operation[]; // name of the upkeep's operation

// Called when the member's role changes: starts or ends the upkeep (and with it the balancer).
void setup_role_changed(struct config_server *cs, bool primary, int64_t term);
// Waits until this member is primary and the catalog is complete in this term.
bool setup_wait(struct operation *op, struct config_server *cs, struct error *err);
// The cluster's id, from config.version.
bool setup_cluster_id(struct config_server *cs, bson_oid_t *id);

#endif
