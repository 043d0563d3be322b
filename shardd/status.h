// What serverStatus and collection statistics show of a shard.
#ifndef SHARDLET_SHARDD_STATUS_H
#define SHARDLET_SHARDD_STATUS_H

#include "shardd/shard.h"

void status_hooks(struct shard *sh, struct node_hooks *hooks); // server_status, collection_stats

#endif
