// The first chunks of a collection: one, one a shard for hashed keys, or along the zones.
#include "common/sharding/initial_chunks.h"

#include <string.h>

#include "common/bson/compare.h"
#include "common/bson/doc.h"

struct list {
  struct arena *arena;
  struct initial_chunk *chunks;
  size_t n, cap;
};

static void add(struct list *l, const bson_t *min, const bson_t *max, const char *shard) {
  l->chunks = arena_grow(l->arena, l->chunks, l->n, &l->cap, sizeof *l->chunks);
  l->chunks[l->n++] = (struct initial_chunk){min, max, shard};
}

void hashed_split_points(size_t n, int64_t *points) {
  if (n < 2) return;
  int64_t step = INT64_MAX / (int64_t)n * 2;
  // An even number of pieces has a point at 0; an odd one has 0 in the middle of a piece.
  int64_t first = n % 2 == 0 ? -(int64_t)(n / 2 - 1) * step : -(step / 2) - (int64_t)(n / 2 - 1) * step;
  points[0] = first;
  for (size_t i = 1; i < n - 1; i++) points[i] = points[i - 1] + step;
}

// ---- the constant shuffle: the minimal standard generator with its default seed, and the draws that the C++ library
// makes of it ----

enum { GENERATOR_MIN = 1, GENERATOR_MAX = 2147483646 };

static uint64_t draw(uint64_t *state) {
  return *state = *state * 16807 % 2147483647;
}

// An even draw from 0..range-1.
static uint64_t draw_below(uint64_t *state, uint64_t range) {
  uint64_t scaling = (uint64_t)(GENERATOR_MAX - GENERATOR_MIN) / range, past = range * scaling, x;
  do { // ends: at least half of all draws are below `past`
    x = draw(state) - GENERATOR_MIN;
  } while (x >= past);
  return x / scaling;
}

static void swap(size_t *order, size_t a, size_t b) {
  size_t t = order[a];
  order[a] = order[b];
  order[b] = t;
}

void initial_shard_order(size_t n, size_t *order) {
  for (size_t i = 0; i < n; i++) order[i] = i;
  if (n < 2) return;
  uint64_t state = 1;
  size_t i = 1;
  if (n % 2 == 0) swap(order, i++, draw_below(&state, 2));
  // The rest goes in pairs: one draw gives two positions. (For up to 46340 shards; there are never so many.)
  for (; i < n; i += 2) {
    uint64_t both = draw_below(&state, (uint64_t)(i + 1) * (i + 2));
    swap(order, i, both / (i + 2));
    swap(order, i + 1, both % (i + 2));
  }
}

// --- the policies ---

static bool shard_order(struct arena *a, const struct initial_chunks_spec *spec, const char ***out, size_t *n,
                        struct error *err) {
  const char **usable = arena_alloc(a, spec->n_shards * sizeof *usable);
  size_t count = 0;
  for (size_t i = 0; i < spec->n_shards; i++) {
    if (!spec->shards[i].draining) usable[count++] = spec->shards[i].name;
  }
  if (count == 0) return error_set(err, ERR_ShardNotFound, "No non-draining shard found");
  size_t *order = arena_alloc(a, count * sizeof *order);
  initial_shard_order(count, order);
  *out = arena_alloc(a, count * sizeof **out);
  for (size_t i = 0; i < count; i++) (*out)[i] = usable[order[i]];
  *n = count;
  return true;
}

static bool one_per_shard(struct list *l, const struct initial_chunks_spec *spec, struct error *err) {
  const char **shards;
  size_t n;
  if (!shard_order(l->arena, spec, &shards, &n, err)) return false;
  int64_t *points = arena_alloc(l->arena, n * sizeof *points);
  hashed_split_points(n, points);
  const bson_t *min = shard_key_global_min(spec->key, l->arena);
  for (size_t i = 0; i < n; i++) {
    const bson_t *max = shard_key_global_max(spec->key, l->arena);
    if (i + 1 < n) {
      bson_t *point = arena_bson(l->arena);
      bson_append_int64(point, spec->key->paths[0], -1, points[i]);
      max = shard_key_extend(spec->key, l->arena, point, false);
    }
    add(l, min, max, shards[i]);
    min = max;
  }
  return true;
}

// The shards of a zone take turns over its ranges.
static const char *next_of_zone(const struct initial_chunks_spec *spec, size_t range) {
  const char *zone = spec->zones[range].tag;
  size_t turn = 0, of_zone = 0;
  for (size_t i = 0; i < range; i++) turn += strcmp(spec->zones[i].tag, zone) == 0;
  for (size_t i = 0; i < spec->n_shards; i++)
    of_zone += !spec->shards[i].draining && tags_name_zone(spec->shards[i].tags, zone);
  for (size_t i = 0; of_zone > 0 && i < spec->n_shards; i++) {
    if (spec->shards[i].draining || !tags_name_zone(spec->shards[i].tags, zone)) continue;
    if (turn % of_zone == 0) return spec->shards[i].name;
    turn--;
  }
  return NULL;
}

static bool along_zones(struct list *l, const struct initial_chunks_spec *spec, struct error *err) {
  const char **shards;
  size_t n, holes = 0;
  if (!shard_order(l->arena, spec, &shards, &n, err)) return false;
  const bson_t *at = shard_key_global_min(spec->key, l->arena);
  for (size_t i = 0; i < spec->n_zones; i++) {
    const struct tag_type *z = &spec->zones[i];
    if (!shard_key_is_bound(spec->key, z->min) || !shard_key_is_bound(spec->key, z->max)) {
      return error_set(err, ERR_InvalidOptions, "the zone range [%s, %s) does not fit the shard key %s",
                       doc_text(l->arena, z->min), doc_text(l->arena, z->max), doc_text(l->arena, spec->key->pattern));
    }
    if (doc_compare_values(at, z->min) < 0) add(l, at, z->min, shards[holes++ % n]);
    const char *shard = next_of_zone(spec, i);
    if (!shard)
      return error_set(err, ERR_CannotCreateChunkDistribution,
                       "no shard is in zone %s, which has a range of the collection", z->tag);
    add(l, z->min, z->max, shard);
    at = z->max;
  }
  const bson_t *end = shard_key_global_max(spec->key, l->arena);
  if (doc_compare_values(at, end) < 0) add(l, at, end, shards[holes % n]);
  return true;
}

bool initial_chunks(struct arena *a, const struct initial_chunks_spec *spec, struct initial_chunk **out, size_t *n,
                    struct error *err) {
  struct list l = {.arena = a};
  if (spec->presplit_hashed_zones && !spec->unsplittable) {
    return error_set(
        err, ERR_InvalidOptions,
        "presplitHashedZones is not implemented: shard the collection without it, the balancer splits along the zones");
  }
  bool ok = true;
  if (spec->unsplittable || !spec->empty || (spec->n_zones == 0 && spec->key->hashed != 0)) {
    add(&l, shard_key_global_min(spec->key, a), shard_key_global_max(spec->key, a), spec->primary);
  } else if (spec->n_zones == 0) {
    ok = one_per_shard(&l, spec, err);
  } else {
    ok = along_zones(&l, spec, err);
  }
  *out = l.chunks;
  *n = l.n;
  return ok;
}
