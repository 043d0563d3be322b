// The shard-side checks of split, merge and move.
#include "shardd/placement_checks.h"

#include <string.h>

#include "common/bson/doc.h"
#include "shardd/migration_documents.h"

static bool stale(struct arena *a, const struct shard *sh, const struct routing *r, const char *why,
                  struct error *err) {
  struct chunk_version ignored = chunk_version_ignored();
  struct chunk_version known = r->tracked ? chunk_map_version(r->chunks) : chunk_version_unsharded();
  return error_stale_config(err, a, r->ns, &ignored, &known, sh->name, why);
}

bool placement_check_collection(struct arena *a, const struct shard *sh, const struct routing *r,
                                const struct chunk_version *generation, struct error *err) {
  if (!r->tracked || r->collection.unsplittable)
    return stale(a, sh, r, arena_printf(a, "Collection %s is not sharded", r->ns), err);
  struct chunk_version known = chunk_map_version(r->chunks);
  if (!chunk_version_same_generation(&known, generation)) {
    char sent[25], current[25];
    bson_oid_to_string(&generation->epoch, sent);
    bson_oid_to_string(&known.epoch, current);
    return stale(a, sh, r,
                 arena_printf(a,
                              "Collection %s has changed since operation was sent (sent epoch: %s, current epoch: %s)",
                              r->ns, sent, current),
                 err);
  }
  if (!chunk_map_shard_count(r->chunks, sh->name))
    return stale(a, sh, r, "Shard does not contain any chunks for collection.", err);
  return true;
}

static bool check_bounds(struct arena *a, const struct shard *sh, const struct routing *r, const bson_t *min,
                         const bson_t *max, struct error *err) {
  const struct shard_key *k = chunk_map_key(r->chunks);
  if (shard_key_is_bound(k, min) && shard_key_is_bound(k, max)) return true;
  return stale(a, sh, r,
               arena_printf(a, "The range %s is not valid for collection %s with key pattern %s",
                            range_text(a, min, max), r->ns, doc_text(a, k->pattern)),
               err);
}

bool placement_check_in_chunk(struct arena *a, const struct shard *sh, const struct routing *r, const bson_t *min,
                              const bson_t *max, struct chunk *chunk, struct error *err) {
  if (!check_bounds(a, sh, r, min, max, err)) return false;
  chunk_map_find(r->chunks, bound_key(a, min), chunk);
  if (!strcmp(chunk->shard, sh->name) && key_compare(bound_key(a, max), chunk->max) <= 0) return true;
  return stale(a, sh, r,
               arena_printf(a, "Range with bounds %s is not contained within a chunk owned by this shard.",
                            range_text(a, min, max)),
               err);
}

bool placement_check_is_chunk(struct arena *a, const struct shard *sh, const struct routing *r, const bson_t *min,
                              const bson_t *max, struct error *err) {
  struct chunk c;
  if (!placement_check_in_chunk(a, sh, r, min, max, &c, err)) return false;
  if (!key_compare(c.min, bound_key(a, min)) && !key_compare(c.max, bound_key(a, max))) return true;
  return stale(a, sh, r, arena_printf(a, "Chunk bounds %s do not exist.", range_text(a, min, max)), err);
}

struct sequence_check {
  const char *shard;
  struct key max;
  size_t n;
  bool owned, ends_at_max;
};

static bool next_chunk(void *ctx, const struct chunk *c) {
  struct sequence_check *s = ctx;
  if (key_compare(c->min, s->max) >= 0) return false;
  s->n++;
  s->owned = s->owned && !strcmp(c->shard, s->shard);
  s->ends_at_max = !key_compare(c->max, s->max);
  return s->owned;
}

bool placement_check_chunks(struct arena *a, const struct shard *sh, const struct routing *r, const bson_t *min,
                            const bson_t *max, size_t *n, struct error *err) {
  if (!check_bounds(a, sh, r, min, max, err)) return false;
  struct key from = bound_key(a, min);
  struct sequence_check s = {.shard = sh->name, .max = bound_key(a, max), .owned = true};
  struct chunk first;
  chunk_map_find(r->chunks, from, &first);
  bool begins_at_min = !key_compare(first.min, from);
  chunk_map_each(r->chunks, from, s.max, next_chunk, &s);
  *n = s.n;
  if (!s.owned)
    return stale(a, sh, r, arena_printf(a, "Range with bounds %s is not owned by this shard.", range_text(a, min, max)),
                 err);
  if (begins_at_min && s.ends_at_max) return true;
  return stale(a, sh, r,
               arena_printf(a, "Shard does not contain a sequence of chunks that exactly fills the range %s",
                            range_text(a, min, max)),
               err);
}

bool placement_read_generation(const bson_t *body, const char *epoch, const char *timestamp, struct chunk_version *out,
                               struct error *err) {
  *out = (struct chunk_version){0};
  if (doc_oid(body, epoch, &out->epoch) && doc_timestamp(body, timestamp, &out->timestamp)) return true;
  return error_set(err, ERR_NoSuchKey, "Missing required field '%s' or '%s'", epoch, timestamp);
}
