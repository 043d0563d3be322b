// Which chunk an administrator means.
#include "mongos/chunk_lookup.h"

#include <string.h>

#include "common/bson/doc.h"
#include "mongos/routing_cache.h"

static void read_bound(const bson_t *bounds, const char *at, bson_t *out) {
  if (!doc_doc(bounds, at, out)) bson_init(out);
}

void chunk_choice_read(const bson_t *body, struct chunk_choice *out) {
  bson_t bounds;
  out->has_find = doc_doc(body, "find", &out->find) && !bson_empty(&out->find);
  out->has_bounds = doc_doc(body, "bounds", &bounds);
  out->n_bounds = out->has_bounds ? bson_count_keys(&bounds) : 0;
  bson_init(&out->min);
  bson_init(&out->max);
  if (!out->has_bounds) return;
  read_bound(&bounds, "0", &out->min);
  read_bound(&bounds, "1", &out->max);
}

bool chunk_choice_check(const struct chunk_choice *c, const char *find, struct error *err) {
  if (c->has_bounds && c->n_bounds != 2)
    return error_set(err, ERR_InvalidOptions, "bounds can only have exactly 2 elements");
  if (c->has_bounds && c->has_find)
    return error_set(err, ERR_InvalidOptions, "cannot specify bounds and %s at the same time", find);
  if (!c->has_bounds && !c->has_find) return error_set(err, ERR_InvalidOptions, "need to specify %s or bounds", find);
  return true;
}

void chunk_of_key(struct arena *a, const struct placement *p, const bson_t *key, struct chosen_chunk *out) {
  chunk_map_find(p->routing->chunks, bound_key(a, key), &out->chunk);
  chunk_docs(p->routing->chunks, a, &out->chunk, &out->min, &out->max);
}

enum chunk_lookup chunk_of_query(struct arena *a, const struct placement *p, const bson_t *query,
                                 struct chosen_chunk *out) {
  struct match_options options = {0};
  struct error ignored;
  const bson_t *key;
  const struct match *m = match_parse(a, query, &options, &ignored);
  if (m == NULL || !shard_key_of_filter(placement_key(p), a, m, &key)) return LOOKUP_NO_KEY;
  chunk_of_key(a, p, key, out);
  return LOOKUP_FOUND;
}

static bool same_key(const struct shard_key *k, struct arena *a, const bson_t *x, const bson_t *y) {
  return key_compare(bound_key(a, x), bound_key(a, y)) == 0;
}

enum chunk_lookup chunk_of_bounds(struct arena *a, const struct placement *p, const bson_t *min, const bson_t *max,
                                  struct chosen_chunk *out) {
  const struct shard_key *k = placement_key(p);
  if (!shard_key_is_bound(k, min) || !shard_key_is_bound(k, max)) return LOOKUP_BAD_BOUNDS;
  chunk_of_key(a, p, min, out);
  return same_key(k, a, out->min, min) && same_key(k, a, out->max, max) ? LOOKUP_FOUND : LOOKUP_NO_CHUNK;
}

enum chunk_lookup chunk_of_choice(struct arena *a, const struct placement *p, const struct chunk_choice *c,
                                  struct chosen_chunk *out) {
  return c->has_find ? chunk_of_query(a, p, &c->find, out) : chunk_of_bounds(a, p, &c->min, &c->max, out);
}

const char *lookup_text(struct arena *a, const struct placement *p, enum chunk_lookup why,
                        const struct chunk_choice *c) {
  switch (why) {
  case LOOKUP_NO_KEY: return arena_printf(a, "no shard key found in chunk query %s", doc_text(a, &c->find));
  case LOOKUP_BAD_BOUNDS:
    return arena_printf(a, "shard key bounds [%s,%s) are not valid for shard key pattern %s", doc_text(a, &c->min),
                        doc_text(a, &c->max), doc_text(a, placement_key(p)->pattern));
  case LOOKUP_NO_CHUNK:
    return arena_printf(a, "no chunk found with the shard key bounds [%s,%s)", doc_text(a, &c->min),
                        doc_text(a, &c->max));
  case LOOKUP_FOUND: break;
  }
  return "";
}

bool sharded_placement(struct operation *op, struct router *rt, const char *ns, struct placement *out,
                       struct error *err) {
  routing_cache_invalidate(rt->cache, ns, NULL, NULL);
  if (!placement_get(op, rt, ns, false, out, err)) return false;
  if (placement_sharded(out)) return true;
  return error_set(err, ERR_NamespaceNotSharded, "Expected collection %s to be sharded", ns);
}

bool chunk_operation(struct request *r, const char *ns, chunk_operation_fn fn, void *ctx, struct error *err) {
  enum { TRIES = 3 };
  for (int n = 0; n < TRIES; n++) {
    struct placement p;
    if (!sharded_placement(r->op, router_of(r), ns, &p, err)) return false;
    if (fn(r->op, router_of(r), &p, ctx, err)) return true;
    if (!stale_is(err)) return false;
    struct error stale = *err;
    if (!stale_pause(r->op, n, err)) return false;
    *err = stale;
  }
  struct error last = *err;
  return error_set(err, ERR_OperationFailed, "%s", last.message);
}
