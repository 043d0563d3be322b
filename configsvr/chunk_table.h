// config.chunks on the config server: looked up through its indexes, so that a million chunks cost no more than a few.
// Applied state, no yield. Everything found is copied into the arena.
#ifndef SHARDLET_CONFIGSVR_CHUNK_TABLE_H
#define SHARDLET_CONFIGSVR_CHUNK_TABLE_H

#include "common/sharding/catalog_types.h"
#include "configsvr/commit.h"

// Each returns false when there is none. A damaged document counts as none; the callers then refuse.
bool chunk_newest(struct config_server *cs, struct arena *a, const uint8_t uuid[16], struct chunk_type *out);
bool chunk_newest_of_shard(struct config_server *cs, struct arena *a, const uint8_t uuid[16], const char *shard,
                           struct chunk_type *out);
// The chunk that contains a full key.
bool chunk_containing(struct config_server *cs, struct arena *a, const uint8_t uuid[16], const bson_t *key,
                      struct chunk_type *out);
// The shard's first chunk in key order whose _id is not `except` (NULL = any).
bool chunk_of_shard(struct config_server *cs, struct arena *a, const uint8_t uuid[16], const char *shard,
                    const bson_oid_t *except, struct chunk_type *out);
// The chunks with min in [from, to), in key order, at most `limit`.
size_t chunks_in_range(struct config_server *cs, struct arena *a, const uint8_t uuid[16], const bson_t *from,
                       const bson_t *to, size_t limit, struct chunk_type **out);
// The chunks with min below `to`, in descending key order, at most `limit`.
size_t chunks_before(struct config_server *cs, struct arena *a, const uint8_t uuid[16], const bson_t *to, size_t limit,
                     struct chunk_type **out);
// The first `limit` chunks of a collection (of a shard, unless NULL), in key order, from the key `from` on (NULL = the
// first).
size_t chunks_of(struct config_server *cs, struct arena *a, const uint8_t uuid[16], const char *shard,
                 const bson_t *from, size_t limit, struct chunk_type **out);

// Counts a shard's chunks of all collections, and the jumbo ones among them, letting others run meanwhile.
bool chunks_count(struct operation *op, struct config_server *cs, const char *shard, int64_t *all, int64_t *jumbo,
                  struct error *err);

int chunk_bound_compare(const bson_t *a, const bson_t *b); // order of full keys

// The version a chunk's lastmod makes with its collection's generation, and the highest of a collection or shard (0|0:
// no chunk).
struct chunk_version version_of(const struct collection_type *c, uint32_t major, uint32_t minor);
struct chunk_version collection_version(struct config_server *cs, struct arena *a, const struct collection_type *c);
struct chunk_version shard_version(struct config_server *cs, struct arena *a, const struct collection_type *c,
                                   const char *shard);

bool chunk_put(struct commit *c, const struct chunk_type *chunk, struct error *err);
// Bumps the collection's version by giving its newest chunk the next minor version.
bool chunk_bump_newest(struct commit *c, const struct collection_type *coll, struct error *err);

#endif
