// The routing table: which shard has which range of the shard key.
//
// An immutable array of immutable blocks of 512 chunks (upper bounds in key encoding), shared by reference count. A
// refresh copies only the blocks it changes, so that a million chunks stay cheap: under 100 bytes a chunk, lookup under
// 1 us, refresh after one move under 5 ms.
//
// Invariant (one owner per key): the chunks cover MinKey..MaxKey without gap or overlap; chunk_map_update() refuses
// anything else.
#ifndef SHARDLET_SHARDING_CHUNK_MAP_H
#define SHARDLET_SHARDING_CHUNK_MAP_H

#include "common/bson/key.h"
#include "common/sharding/shard_key.h"
#include "common/sharding/version.h"

struct chunk_map;

struct chunk {         // as read from a map; views into it
  struct key min, max; // encoded; max of the last is the encoding of the all-MaxKey bound
  // Only of chunks given to make/update (min_doc may be NULL there: only errors show it); when read: see chunk_docs().
  const bson_t *min_doc, *max_doc;
  const char *shard;
  uint32_t major, minor;
  bool jumbo;
};

// From all chunks of a collection in any order; epoch and timestamp from `generation`. err IncompatibleShardingMetadata
// (105) naming the gap or overlap.
struct chunk_map *chunk_map_make(const bson_t *pattern, const struct chunk_version *generation,
                                 const struct chunk *chunks, size_t n, struct error *err);
// A new map in which `changed` replace what they overlap. The old one stays as it is.
struct chunk_map *chunk_map_update(const struct chunk_map *old, const struct chunk *changed, size_t n,
                                   struct error *err);
struct chunk_map *chunk_map_ref(struct chunk_map *m);
void chunk_map_unref(struct chunk_map *m);

const struct shard_key *chunk_map_key(const struct chunk_map *m);
struct chunk_version chunk_map_version(const struct chunk_map *m); // the collection's
struct chunk_version chunk_map_shard_version(const struct chunk_map *m,
                                             const char *shard); // 0|0 with the generation when it has none
size_t chunk_map_count(const struct chunk_map *m);
size_t chunk_map_shard_count(const struct chunk_map *m, const char *shard); // chunks on this shard
size_t chunk_map_memory(const struct chunk_map *m);                         // bytes

void chunk_map_find(const struct chunk_map *m, struct key key, struct chunk *out);
// Chunks that overlap [low, high] (inclusive: MongoDB targets `$lt` bounds as if they were `$lte`), in order, until fn
// returns false.
void chunk_map_each(const struct chunk_map *m, struct key low, struct key high,
                    bool (*fn)(void *ctx, const struct chunk *c), void *ctx);
void chunk_map_all(const struct chunk_map *m, bool (*fn)(void *ctx, const struct chunk *c), void *ctx);
// The bounds as documents.
void chunk_docs(const struct chunk_map *m, struct arena *a, const struct chunk *c, const bson_t **min,
                const bson_t **max);
// Whether `shard` owns this key: the ownership filter of a shard.
bool chunk_map_owned_by(const struct chunk_map *m, struct key key, const char *shard);
void chunk_map_shards(const struct chunk_map *m, bool (*fn)(void *ctx, const char *shard),
                      void *ctx); // that have a chunk, by name

#endif
