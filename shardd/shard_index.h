// The index that serves a shard key, and scans of it: splitting, cloning and counting go in shard key order.
#ifndef SHARDLET_SHARDD_SHARD_INDEX_H
#define SHARDLET_SHARDD_SHARD_INDEX_H

#include "common/sharding/shard_key.h"
#include "common/store/scan.h"

// A ready index of which the shard key is a prefix, not sparse, not partial, not multikey; NULL = none. The one with
// exactly the shard key's fields is preferred. why (may be NULL): a line for each index that has the prefix but does
// not fit.
const struct index *shard_index_find(const struct collection *c, const struct shard_key *k, struct buf *why);

// The range's keys in such an index.
struct key_range shard_index_range(struct arena *a, const bson_t *min, const bson_t *max);

// How many documents are in the range, counted up to `most`. Yields. -1: failed.
int64_t shard_index_count(struct operation *op, struct collection *c, const struct index *i,
                          const struct key_range *range, int64_t most, struct error *err);

#endif
