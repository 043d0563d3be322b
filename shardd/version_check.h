// The version check of every command that reads or writes: shardd's node_hooks (common/node/node.h).
//
// A request is accepted when its epoch, timestamp and major version are this shard's own. Otherwise, in this order:
// critical section: wait for its end; metadata unknown here: refresh; the request knows a newer version: refresh; else
// StaleConfig with what was received and what is wanted, and the router refreshes (reference/sharding.md section 2).
#ifndef SHARDLET_SHARDD_VERSION_CHECK_H
#define SHARDLET_SHARDD_VERSION_CHECK_H

#include "shardd/metadata.h"

// enter, still, leave, may_create, stale_config_seen.
void version_check_hooks(struct shard *sh, struct node_hooks *hooks);

// The request's databaseVersion against what this shard knows; without one nothing is checked. err StaleDbVersion.
bool version_check_database(struct operation *op, struct shard *sh, const struct request *r, const char *db,
                            struct error *err);

#endif
