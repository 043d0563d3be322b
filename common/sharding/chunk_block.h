// Internal to chunk_map: a block of up to 512 chunks in one allocation, immutable once built, shared by reference
// count.
//
// A block keeps upper bounds only: a chunk begins where its predecessor (perhaps in the block before) ends. Bounds are
// kept twice, as their encoding (to compare) and as values (to show them); the values are a document with empty field
// names, since the names are the pattern's. The first 8 bytes of each encoding stand apart, so that a search touches
// few cache lines.
#ifndef SHARDLET_SHARDING_CHUNK_BLOCK_H
#define SHARDLET_SHARDING_CHUNK_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/bson/key.h"

enum { BLOCK_CHUNKS = 512 };

struct block_item { // a chunk on its way into a block; or a view of one in a block
  struct key max;
  const uint8_t *values; // document with empty names
  uint32_t values_len;
  uint32_t major, minor;
  uint16_t shard; // position in the map's table of names
  bool jumbo;
};

struct block_shard { // what a block has of one shard
  uint16_t shard;
  uint16_t count;
  uint32_t major, minor; // highest
};

struct block {
  size_t refs, bytes;
  uint32_t n, n_shards;
  uint64_t *prefixes;   // first 8 bytes of each encoded upper bound, big-endian, zero-padded
  uint32_t *key_ends;   // in keys
  uint32_t *value_ends; // in values
  uint32_t *majors, *minors;
  struct block_shard *shards;
  uint16_t *shard_of;
  uint8_t *jumbo;
  uint8_t *keys, *values;
};

struct block *block_make(const struct block_item *items, size_t n); // 1 <= n <= BLOCK_CHUNKS; one reference
struct block *block_ref(struct block *b);
void block_unref(struct block *b);
struct key block_max(const struct block *b, size_t i);
struct block_item block_item_at(const struct block *b, size_t i); // a view
uint64_t key_prefix8(struct key k);
// The first chunk whose upper bound is > key (after true) or >= key (after false); b->n when there is none.
size_t block_search(const struct block *b, struct key key, uint64_t prefix, bool after);

#endif
