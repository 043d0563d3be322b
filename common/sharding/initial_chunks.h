// The first chunks of a collection: reference/sharding.md 4.4.
#ifndef SHARDLET_SHARDING_INITIAL_CHUNKS_H
#define SHARDLET_SHARDING_INITIAL_CHUNKS_H

#include "common/sharding/catalog_types.h"
#include "common/sharding/shard_key.h"

struct initial_chunk {
  const bson_t *min, *max; // full keys
  const char *shard;
};

struct initial_chunks_spec {
  const struct shard_key *key;
  bool empty;                 // the collection has no documents
  bool unsplittable;          // one chunk, on primary
  bool presplit_hashed_zones; // presplitHashedZones
  const char *primary;        // the database's primary shard (or the shard an unsplittable collection is created on)
  const struct shard_type *shards; // config.shards in natural order
  size_t n_shards;
  const struct tag_type *zones; // of this collection, sorted by min, full keys
  size_t n_zones;
};

// In key order, covering everything; chunk i gets version 1|i. err CannotCreateChunkDistribution / InvalidOptions.
bool initial_chunks(struct arena *a, const struct initial_chunks_spec *spec, struct initial_chunk **out, size_t *n,
                    struct error *err);

// The n-1 points that cut the space of hashes into n even parts, ascending.
void hashed_split_points(size_t n, int64_t *points);
// The fixed order in which MongoDB uses the shards (its shuffle has a constant seed): order[i] is a position of the
// input.
void initial_shard_order(size_t n, size_t *order);

#endif
