// Split points of a range of a local collection: scans the shard key index and lets common/sharding/split_points count.
#ifndef SHARDLET_SHARDD_SPLIT_SCAN_H
#define SHARDLET_SHARDD_SPLIT_SCAN_H

#include "common/sharding/shard_key.h"
#include "common/sharding/split_points.h"
#include "shardd/shard.h"

struct split_result {
  const bson_t *const *points; // ascending, in op's arena
  size_t n;
  bool continuation; // the reply would have become too large: there are more
};

// spec->records and bytes are filled in from the collection. min and max: full bounds. Yields. err IndexNotFound (27).
bool split_scan(struct operation *op, struct collection *c, const struct shard_key *k, const bson_t *min,
                const bson_t *max, struct split_spec *spec, struct split_result *out, struct error *err);

#endif
