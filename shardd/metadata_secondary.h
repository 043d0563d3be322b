// How a secondary learns of placement: through its primary's writes to config.cache.* (reference/sharding.md section
// 8).
#ifndef SHARDLET_SHARDD_METADATA_SECONDARY_H
#define SHARDLET_SHARDD_METADATA_SECONDARY_H

#include "shardd/shard.h"

// Asks the primary to refresh and to write, waits until that is applied here, reads it. The result is the caller's
// reference. err: no primary, or what it said.
bool secondary_load_routing(struct operation *op, struct shard *sh, const char *ns, struct routing **out,
                            struct error *err);
bool secondary_load_database(struct operation *op, struct shard *sh, const char *db, struct database_type *out,
                             bool *exists, struct error *err);

#endif
