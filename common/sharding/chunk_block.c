// A block of chunks: built once from items, searched by the encoded upper bounds.
#include "common/sharding/chunk_block.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"

uint64_t key_prefix8(struct key k) {
  uint64_t p = 0;
  if (k.len >= sizeof p)
    memcpy(&p, k.data, sizeof p);
  else if (k.len)
    memcpy(&p, k.data, k.len); // zeros behind it
  return be64toh(p);
}

// Adds an item to the block's summary of its shard (blocks of most collections have a handful of shards).
static void count_shard(struct block *b, const struct block_item *it) {
  struct block_shard *s = b->shards;
  while (s < b->shards + b->n_shards && s->shard != it->shard) s++;
  if (s == b->shards + b->n_shards) {
    b->n_shards++;
    *s = (struct block_shard){.shard = it->shard};
  }
  s->count++;
  if (it->major > s->major || (it->major == s->major && it->minor > s->minor)) {
    s->major = it->major;
    s->minor = it->minor;
  }
}

static size_t distinct_shards(const struct block_item *items, size_t n) {
  uint16_t seen[BLOCK_CHUNKS];
  size_t found = 0;
  for (size_t i = 0; i < n; i++) {
    size_t j = 0;
    while (j < found && seen[j] != items[i].shard) j++;
    if (j == found) seen[found++] = items[i].shard;
  }
  return found;
}

// Lays the arrays out behind the header, widest elements first so that each is aligned.
static struct block *allocate(size_t n, size_t n_shards, size_t key_bytes, size_t value_bytes) {
  size_t bytes = sizeof(struct block) + n * (sizeof(uint64_t) + 4 * sizeof(uint32_t) + sizeof(uint16_t) + 1) +
                 n_shards * sizeof(struct block_shard) + key_bytes + value_bytes;
  struct block *b = malloc(bytes);
  if (!b) log_fatal("SHARDING", "Out of memory for the routing table", NULL);
  *b = (struct block){.refs = 1, .bytes = bytes};
  uint8_t *at = (uint8_t *)(b + 1);
  b->prefixes = (uint64_t *)at, at += n * sizeof(uint64_t);
  b->key_ends = (uint32_t *)at, at += n * sizeof(uint32_t);
  b->value_ends = (uint32_t *)at, at += n * sizeof(uint32_t);
  b->majors = (uint32_t *)at, at += n * sizeof(uint32_t);
  b->minors = (uint32_t *)at, at += n * sizeof(uint32_t);
  b->shards = (struct block_shard *)at, at += n_shards * sizeof(struct block_shard);
  b->shard_of = (uint16_t *)at, at += n * sizeof(uint16_t);
  b->jumbo = at, at += n;
  b->keys = at, at += key_bytes;
  b->values = at;
  return b;
}

struct block *block_make(const struct block_item *items, size_t n) {
  size_t key_bytes = 0, value_bytes = 0;
  for (size_t i = 0; i < n; i++) key_bytes += items[i].max.len, value_bytes += items[i].values_len;
  struct block *b = allocate(n, distinct_shards(items, n), key_bytes, value_bytes);
  uint32_t key_end = 0, value_end = 0;
  for (size_t i = 0; i < n; i++) {
    const struct block_item *it = &items[i];
    memcpy(b->keys + key_end, it->max.data, it->max.len);
    memcpy(b->values + value_end, it->values, it->values_len);
    b->key_ends[i] = key_end += (uint32_t)it->max.len;
    b->value_ends[i] = value_end += it->values_len;
    b->prefixes[i] = key_prefix8(it->max);
    b->majors[i] = it->major;
    b->minors[i] = it->minor;
    b->shard_of[i] = it->shard;
    b->jumbo[i] = it->jumbo;
    count_shard(b, it);
  }
  b->n = (uint32_t)n;
  return b;
}

struct block *block_ref(struct block *b) {
  b->refs++;
  return b;
}

void block_unref(struct block *b) {
  if (--b->refs == 0) free(b);
}

struct key block_max(const struct block *b, size_t i) {
  uint32_t start = i ? b->key_ends[i - 1] : 0;
  return (struct key){b->keys + start, b->key_ends[i] - start};
}

struct block_item block_item_at(const struct block *b, size_t i) {
  uint32_t start = i ? b->value_ends[i - 1] : 0;
  return (struct block_item){.max = block_max(b, i),
                             .values = b->values + start,
                             .values_len = b->value_ends[i] - start,
                             .major = b->majors[i],
                             .minor = b->minors[i],
                             .shard = b->shard_of[i],
                             .jumbo = b->jumbo[i] != 0};
}

size_t block_search(const struct block *b, struct key key, uint64_t prefix, bool after) {
  size_t low = 0, high = b->n;
  while (low < high) {
    size_t mid = low + (high - low) / 2;
    bool before; // whether chunk mid ends at or before the key, so that the answer lies behind it
    if (b->prefixes[mid] != prefix) {
      before = b->prefixes[mid] < prefix;
    } else {
      int c = key_compare(block_max(b, mid), key);
      before = after ? c <= 0 : c < 0;
    }
    if (before) {
      low = mid + 1;
    } else {
      high = mid;
    }
  }
  return low;
}
