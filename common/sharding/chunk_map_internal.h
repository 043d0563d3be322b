// Internal to chunk_map: the structure that chunk_map.c reads and chunk_map_build.c makes.
#ifndef SHARDLET_SHARDING_CHUNK_MAP_INTERNAL_H
#define SHARDLET_SHARDING_CHUNK_MAP_INTERNAL_H

#include "common/sharding/chunk_block.h"
#include "common/sharding/chunk_map.h"

// What all maps of one generation share: the key pattern, its outermost bounds, and the shards' names.
struct chunk_map_common {
  size_t refs;
  struct arena *arena; // names are only ever added, so a map's table of names stays valid
  struct shard_key key;
  struct key min, max; // encodings of the all-MinKey and the all-MaxKey bound
};

struct map_shard {
  const char *name;
  uint32_t major, minor; // highest of its chunks
  size_t count;
};

struct chunk_map {
  size_t refs;
  struct chunk_map_common *common;
  struct chunk_version version; // the collection's
  size_t count;
  struct block **blocks; // in key order
  uint64_t *prefixes;    // of each block's last upper bound
  size_t n_blocks;
  struct map_shard *shards; // a block's shard numbers are positions here; count 0: has no chunk any more
  uint16_t *by_name;        // positions in the names' order
  size_t n_shards;
};

void chunk_map_common_unref(struct chunk_map_common *c);

#endif
