// Which shards a filter concerns: the one chunk of a fixed key, or the chunks that the filter's bounds reach.
#include "common/sharding/targeting.h"

#include <stdlib.h>
#include <string.h>

#include "common/query/bounds.h"

enum { TARGET_RANGES_MAX = 4000000 }; // MongoDB's limit of combinations (error 17439)

struct collector {
  struct arena *arena;
  const char **shards;
  size_t n, cap;
};

static bool collect(void *ctx, const struct chunk *c) {
  struct collector *t = ctx;
  // Names are the map's own strings: equal shards are equal pointers.
  for (size_t i = 0; i < t->n; i++) {
    if (t->shards[i] == c->shard) return true;
  }
  t->shards = arena_grow(t->arena, t->shards, t->n, &t->cap, sizeof *t->shards);
  t->shards[t->n++] = c->shard;
  return true;
}

static int by_name(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool depends_on_collation(const bson_value_t *v) {
  return v->value_type == BSON_TYPE_UTF8 || v->value_type == BSON_TYPE_SYMBOL || v->value_type == BSON_TYPE_DOCUMENT ||
         v->value_type == BSON_TYPE_ARRAY;
}

static bool key_depends_on_collation(const bson_t *key) {
  bson_iter_t it;
  bson_iter_init(&it, key);
  while (bson_iter_next(&it)) {
    if (depends_on_collation(bson_iter_value(&it))) return true;
  }
  return false;
}

static const bson_value_t min_key = {.value_type = BSON_TYPE_MINKEY}, max_key = {.value_type = BSON_TYPE_MAXKEY};

// Strings compare otherwise under a collation than in the routing table: such a field says nothing.
static void widen(struct arena *a, struct field_bounds *f) {
  for (size_t i = 0; i < f->n; i++) {
    if (!depends_on_collation(&f->intervals[i].low) && !depends_on_collation(&f->intervals[i].high)) continue;
    f->intervals = arena_alloc(a, sizeof *f->intervals);
    f->intervals[0] = (struct interval){min_key, max_key, true, true};
    f->n = 1;
    return;
  }
}

static bool is_point(const struct key *low, const struct key *high) {
  return key_compare(*low, *high) == 0;
}

static struct key encode(struct arena *a, const bson_value_t *v) {
  __attribute__((cleanup(buf_cleanup))) struct buf b = {0};
  key_append(&b, v, false);
  return key_copy(a, &b);
}

// Fields 0..multiplied-1 are points, field `multiplied` has the interval i, later ones contribute their first start and
// last end.
static void target_range(struct collector *t, const struct chunk_map *m, const struct index_bounds *b,
                         size_t multiplied, size_t i) {
  __attribute__((cleanup(buf_cleanup))) struct buf low = {0}, high = {0};
  for (size_t f = 0; f < b->n_fields; f++) {
    const struct field_bounds *fb = &b->fields[f];
    const struct interval *first = &fb->intervals[f == multiplied ? i : 0];
    const struct interval *last = &fb->intervals[f == multiplied ? i : fb->n - 1];
    key_append(&low, &first->low, false);
    key_append(&high, &last->high, false);
  }
  // The upper end counts as inclusive, also for `$lt`.
  chunk_map_each(m, (struct key){low.data, low.len}, (struct key){high.data, high.len}, collect, t);
}

static bool target_bounds(struct collector *t, const struct chunk_map *m, struct index_bounds *b, bool simple_collation,
                          struct error *err) {
  size_t multiplied = 0;
  bool points = true; // all fields so far are fixed
  for (size_t f = 0; f < b->n_fields; f++) {
    struct field_bounds *fb = &b->fields[f];
    if (!simple_collation) widen(t->arena, fb);
    if (fb->n == 0) return true; // nothing can match
    if (!points) continue;
    multiplied = f;
    struct key low = encode(t->arena, &fb->intervals[0].low), high = encode(t->arena, &fb->intervals[0].high);
    points = fb->n == 1 && is_point(&low, &high);
  }
  size_t ranges = b->fields[multiplied].n;
  if (ranges > TARGET_RANGES_MAX)
    return error_set(err, 17439, "The filter has %zu ranges of the shard key, more than %d", ranges, TARGET_RANGES_MAX);
  for (size_t i = 0; i < ranges; i++) target_range(t, m, b, multiplied, i);
  return true;
}

bool target_filter(struct arena *a, const struct chunk_map *m, const struct match *filter, bool simple_collation,
                   struct targets *out, struct error *err) {
  const struct shard_key *key = chunk_map_key(m);
  struct collector t = {.arena = a};
  const bson_t *fixed;
  *out = (struct targets){0};
  if (shard_key_of_filter(key, a, filter, &fixed) && (simple_collation || !key_depends_on_collation(fixed))) {
    struct chunk c;
    chunk_map_find(m, bound_key(a, fixed), &c);
    collect(&t, &c);
    out->exact_key = true;
  } else {
    struct index_bounds bounds;
    bounds_build(a, filter, key->pattern, false, &bounds);
    if (!target_bounds(&t, m, &bounds, simple_collation, err)) return false;
  }
  if (t.n == 0) { // a contradiction: some shard must answer "nothing"
    struct chunk first;
    struct key lowest = bound_key(a, shard_key_global_min(key, a));
    chunk_map_find(m, lowest, &first);
    collect(&t, &first);
  }
  qsort(t.shards, t.n, sizeof *t.shards, by_name);
  out->shards = t.shards;
  out->n = t.n;
  return true;
}
