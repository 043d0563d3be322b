// The routing table: searching and reading it.
#include "common/sharding/chunk_map.h"

#include <stdlib.h>
#include <string.h>

#include "common/bson/doc.h"
#include "common/sharding/chunk_map_internal.h"

struct place { // a chunk's position
  size_t block, i;
};

void chunk_map_common_unref(struct chunk_map_common *c) {
  if (--c->refs > 0) return;
  arena_free(c->arena);
  free(c);
}

struct chunk_map *chunk_map_ref(struct chunk_map *m) {
  m->refs++;
  return m;
}

void chunk_map_unref(struct chunk_map *m) {
  if (!m || --m->refs > 0) return;
  for (size_t i = 0; i < m->n_blocks; i++) block_unref(m->blocks[i]);
  free(m->blocks);
  free(m->prefixes);
  free(m->shards);
  free(m->by_name);
  chunk_map_common_unref(m->common);
  free(m);
}

const struct shard_key *chunk_map_key(const struct chunk_map *m) {
  return &m->common->key;
}

struct chunk_version chunk_map_version(const struct chunk_map *m) {
  return m->version;
}

static const struct map_shard *find_shard(const struct chunk_map *m, const char *name) {
  size_t low = 0, high = m->n_shards;
  while (low < high) {
    size_t mid = low + (high - low) / 2;
    const struct map_shard *s = &m->shards[m->by_name[mid]];
    int c = strcmp(s->name, name);
    if (c == 0) return s;
    if (c < 0) {
      low = mid + 1;
    } else {
      high = mid;
    }
  }
  return NULL;
}

struct chunk_version chunk_map_shard_version(const struct chunk_map *m, const char *shard) {
  const struct map_shard *s = find_shard(m, shard);
  struct chunk_version v = m->version;
  v.major = s && s->count ? s->major : 0;
  v.minor = s && s->count ? s->minor : 0;
  return v;
}

size_t chunk_map_count(const struct chunk_map *m) {
  return m->count;
}

size_t chunk_map_shard_count(const struct chunk_map *m, const char *shard) {
  const struct map_shard *s = find_shard(m, shard);
  return s ? s->count : 0;
}

size_t chunk_map_memory(const struct chunk_map *m) {
  size_t bytes = sizeof *m + m->n_blocks * (sizeof *m->blocks + sizeof *m->prefixes) +
                 m->n_shards * (sizeof *m->shards + sizeof *m->by_name);
  for (size_t i = 0; i < m->n_blocks; i++) bytes += m->blocks[i]->bytes;
  return bytes;
}

// The first chunk whose upper bound is > key (after) or >= key (not after). The all-MaxKey point lies in the last
// chunk.
static struct place locate(const struct chunk_map *m, struct key key, bool after) {
  uint64_t prefix = key_prefix8(key);
  size_t low = 0, high = m->n_blocks;
  while (low < high) {
    size_t mid = low + (high - low) / 2;
    bool before;
    if (m->prefixes[mid] != prefix) {
      before = m->prefixes[mid] < prefix;
    } else {
      int c = key_compare(block_max(m->blocks[mid], m->blocks[mid]->n - 1), key);
      before = after ? c <= 0 : c < 0;
    }
    if (before) {
      low = mid + 1;
    } else {
      high = mid;
    }
  }
  if (low == m->n_blocks) return (struct place){low - 1, m->blocks[low - 1]->n - 1};
  return (struct place){low, block_search(m->blocks[low], key, prefix, after)};
}

static bool predecessor(const struct chunk_map *m, struct place *p) {
  if (p->i > 0) {
    p->i--;
    return true;
  }
  if (p->block == 0) return false;
  p->block--;
  p->i = m->blocks[p->block]->n - 1;
  return true;
}

static bool successor(const struct chunk_map *m, struct place *p) {
  if (++p->i < m->blocks[p->block]->n) return true;
  p->i = 0;
  return ++p->block < m->n_blocks;
}

static struct chunk view(const struct chunk_map *m, struct place p) {
  const struct block *b = m->blocks[p.block];
  struct place before = p;
  return (struct chunk){.min = predecessor(m, &before) ? block_max(m->blocks[before.block], before.i) : m->common->min,
                        .max = block_max(b, p.i),
                        .shard = m->shards[b->shard_of[p.i]].name,
                        .major = b->majors[p.i],
                        .minor = b->minors[p.i],
                        .jumbo = b->jumbo[p.i] != 0};
}

void chunk_map_find(const struct chunk_map *m, struct key key, struct chunk *out) {
  *out = view(m, locate(m, key, true));
}

void chunk_map_each(const struct chunk_map *m, struct key low, struct key high,
                    bool (*fn)(void *ctx, const struct chunk *c), void *ctx) {
  struct place p = locate(m, low, true);
  do {
    struct chunk c = view(m, p);
    if (key_compare(c.min, high) > 0 || !fn(ctx, &c)) return;
  } while (successor(m, &p));
}

void chunk_map_all(const struct chunk_map *m, bool (*fn)(void *ctx, const struct chunk *c), void *ctx) {
  struct place p = {0, 0};
  do {
    struct chunk c = view(m, p);
    if (!fn(ctx, &c)) return;
  } while (successor(m, &p));
}

bool chunk_map_owned_by(const struct chunk_map *m, struct key key, const char *shard) {
  struct place p = locate(m, key, true);
  return strcmp(m->shards[m->blocks[p.block]->shard_of[p.i]].name, shard) == 0;
}

void chunk_map_shards(const struct chunk_map *m, bool (*fn)(void *ctx, const char *shard), void *ctx) {
  for (size_t i = 0; i < m->n_shards; i++) {
    const struct map_shard *s = &m->shards[m->by_name[i]];
    if (s->count && !fn(ctx, s->name)) return;
  }
}

// Gives the values of a bound the pattern's field names back.
static const bson_t *named(const struct chunk_map *m, struct arena *a, const struct block_item *it) {
  bson_t *out = arena_bson(a);
  bson_iter_t iter;
  bson_iter_init_from_data(&iter, it->values, it->values_len);
  for (size_t i = 0; i < m->common->key.n && bson_iter_next(&iter); i++) {
    doc_append_iter(out, m->common->key.paths[i], &iter);
  }
  return out;
}

void chunk_docs(const struct chunk_map *m, struct arena *a, const struct chunk *c, const bson_t **min,
                const bson_t **max) {
  struct place p = locate(m, c->max, false);
  struct block_item it = block_item_at(m->blocks[p.block], p.i);
  *max = named(m, a, &it);
  if (predecessor(m, &p)) {
    it = block_item_at(m->blocks[p.block], p.i);
    *min = named(m, a, &it);
  } else {
    *min = shard_key_global_min(&m->common->key, a);
  }
}
