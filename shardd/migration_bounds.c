// Which range is moved: the bound that the request leaves open (reference/sharding.md 4.3), and whether it is this
// shard's.
#include "shardd/migration_source.h"

#include <string.h>

#include "common/bson/doc.h"
#include "shardd/placement_checks.h"
#include "shardd/split_scan.h"

struct search { // the chunk that a missing min belongs to
  struct key max;
  struct chunk *out;
  bool found;
};

// The chunk that ends at max, else the one that contains it: of those that touch it, the first.
static bool ends_at_or_after(void *ctx, const struct chunk *c) {
  struct search *s = ctx;
  *s->out = *c;
  s->found = key_compare(c->max, s->max) >= 0;
  return !s->found;
}

static void chunk_for_max(const struct chunk_map *m, struct arena *a, const bson_t *max, struct chunk *out) {
  struct key key = bound_key(a, max);
  struct search s = {.max = key, .out = out};
  chunk_map_all(m, ends_at_or_after, &s);
}

static bool is_bound(struct operation *op, struct donation *d, const bson_t *bound, struct error *err) {
  if (!bound || shard_key_is_bound(&d->key, bound)) return true;
  return error_set(err, ERR_BadValue, "The bound %s is not valid for collection %s with key pattern %s",
                   doc_text(op->arena, bound), d->request.ns, doc_text(op->arena, d->key.pattern));
}

// Max is missing: the first split point behind min, one chunk size away. Min is missing: the same from max downwards.
static bool find_other_bound(struct operation *op, struct donation *d, struct collection *c, const bson_t *min,
                             const bson_t *max, bool from_max, const bson_t **bound, struct error *err) {
  struct split_spec spec = {
      .policy = SPLIT_BY_SIZE, .chunk_bytes = d->request.max_chunk_bytes, .limit = 1, .backward = from_max};
  struct split_result result;
  if (!split_scan(op, c, &d->key, min, max, &spec, &result, err)) return false;
  *bound = result.n ? result.points[0] : from_max ? min : max;
  return true;
}

static const bson_t *keep(struct donation *d, const bson_t *doc) {
  return doc_copy(d->arena, doc);
}

bool migration_bounds(struct operation *op, struct donation *d, struct collection *c, const struct routing *r,
                      struct error *err) {
  const bson_t *min = d->request.min, *max = d->request.max;
  if (!is_bound(op, d, min, err) || !is_bound(op, d, max, err)) return false;
  struct chunk chunk;
  if (min)
    chunk_map_find(r->chunks, bound_key(op->arena, min), &chunk);
  else
    chunk_for_max(r->chunks, op->arena, max, &chunk);
  const bson_t *chunk_min, *chunk_max;
  chunk_docs(r->chunks, op->arena, &chunk, &chunk_min, &chunk_max);
  bool owned = !strcmp(chunk.shard, d->sh->name); // else the check below says so
  if (owned && !max && !find_other_bound(op, d, c, min, chunk_max, false, &max, err)) return false;
  if (owned && !min && !find_other_bound(op, d, c, chunk_min, max, true, &min, err)) return false;
  min = min ? min : chunk_min;
  max = max ? max : chunk_max;
  if (key_compare(bound_key(op->arena, min), bound_key(op->arena, max)) >= 0)
    return error_set(err, ERR_InvalidOptions, "The range %s is empty", range_text(op->arena, min, max));
  if (!placement_check_in_chunk(op->arena, d->sh, r, min, max, &chunk, err)) return false;
  // invariant: the commit names the version of the chunk that the migration started from
  d->doc.before = d->collection_version;
  d->doc.before.major = chunk.major;
  d->doc.before.minor = chunk.minor;
  d->doc.min = keep(d, min);
  d->doc.max = keep(d, max);
  return true;
}
