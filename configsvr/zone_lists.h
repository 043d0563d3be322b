// Questions about zones that several commands ask.
#ifndef SHARDLET_CONFIGSVR_ZONE_LISTS_H
#define SHARDLET_CONFIGSVR_ZONE_LISTS_H

#include "common/sharding/catalog_types.h"
#include "configsvr/config_server.h"

// Whether no shard but this one is in the zone.
bool zone_is_only_on(const struct shard_type *shards, size_t n, const char *shard, const char *zone);
bool zone_has_ranges(struct config_server *cs, const char *zone); // of any collection

#endif
