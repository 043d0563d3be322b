// What a change of a whole collection is made of.
#include "configsvr/collection_parts.h"

#include <string.h>

#include "common/bson/doc.h"
#include "common/sharding/shard_key.h"

enum { NEW_CHUNKS_MAX = 100000 };

static bool parse_chunk(struct arena *a, const bson_iter_t *it, struct new_chunk *out, struct error *err) {
  bson_t doc, min, max;
  iter_doc(&doc, it);
  const char *shard = doc_str(&doc, "shard", NULL);
  if (!shard || !doc_doc(&doc, "min", &min) || !doc_doc(&doc, "max", &max)) {
    return error_set(err, ERR_BadValue, "a chunk needs min, max and shard");
  }
  *out = (struct new_chunk){doc_copy(a, &min), doc_copy(a, &max), arena_strdup(a, shard)};
  return true;
}

static bool check_cover(struct arena *a, const struct shard_key *key, const struct new_chunk *chunks, size_t n,
                        struct error *err) {
  const bson_t *at = shard_key_global_min(key, a), *end = shard_key_global_max(key, a);
  for (size_t i = 0; i < n; i++) {
    bool ok = shard_key_is_bound(key, chunks[i].min) && shard_key_is_bound(key, chunks[i].max) &&
              chunk_bound_compare(chunks[i].min, at) == 0 && chunk_bound_compare(chunks[i].min, chunks[i].max) < 0;
    if (!ok) {
      return error_set(err, ERR_BadValue, "chunk [%s, %s) leaves a gap, overlaps or does not fit the shard key %s",
                       doc_text(a, chunks[i].min), doc_text(a, chunks[i].max), doc_text(a, key->pattern));
    }
    at = chunks[i].max;
  }
  return chunk_bound_compare(at, end) == 0 || error_set(err, ERR_BadValue, "the chunks end at %s", doc_text(a, at));
}

bool parse_new_chunks(struct request *r, struct arena *a, const bson_t *pattern, struct new_chunk **out, size_t *n,
                      struct error *err) {
  struct shard_key key;
  bson_t array;
  if (!shard_key_parse(a, pattern, &key, err)) return false;
  if (!doc_doc(r->body, "chunks", &array)) return error_set(err, ERR_BadValue, "chunks must be an array");
  uint32_t count = bson_count_keys(&array);
  if (count == 0 || count > NEW_CHUNKS_MAX) {
    return error_set(err, ERR_BadValue, "a collection begins with 1 to %d chunks, not %u", NEW_CHUNKS_MAX, count);
  }
  *out = arena_alloc(a, count * sizeof **out);
  *n = 0;
  bson_iter_t it;
  bson_iter_init(&it, &array);
  while (bson_iter_next(&it)) {
    if (!parse_chunk(a, &it, &(*out)[(*n)++], err)) return false;
  }
  return check_cover(a, &key, *out, *n, err);
}

bool whole_key_space(struct arena *a, const bson_t *pattern, const char *shard, struct new_chunk *out,
                     struct error *err) {
  struct shard_key key;
  if (!shard_key_parse(a, pattern, &key, err)) return false;
  *out = (struct new_chunk){shard_key_global_min(&key, a), shard_key_global_max(&key, a), shard};
  return true;
}

// The distinct shards of the chunks, each of which must exist.
static bool owners(struct commit *c, const struct new_chunk *chunks, size_t n, const char ***out, size_t *n_out,
                   struct error *err) {
  struct shard_type *shards;
  size_t n_shards;
  if (!catalog_read_shards(c->cs, c->arena, &shards, &n_shards, err)) return false;
  const char **names = arena_alloc(c->arena, (n_shards + 1) * sizeof *names);
  size_t found = 0;
  for (size_t i = 0; i < n; i++) {
    size_t s = 0, known = 0;
    while (s < n_shards && strcmp(shards[s].name, chunks[i].shard) != 0) s++;
    if (s == n_shards) return error_set(err, ERR_ShardNotFound, "Shard %s not found", chunks[i].shard);
    while (known < found && strcmp(names[known], chunks[i].shard) != 0) known++;
    if (known == found) names[found++] = chunks[i].shard;
  }
  *out = names;
  *n_out = found;
  return true;
}

bool put_collection(struct commit *c, const struct collection_type *coll, const struct new_chunk *chunks, size_t n,
                    struct chunk_version *version, struct error *err) {
  const char **names = NULL;
  size_t n_names = 0;
  if (!owners(c, chunks, n, &names, &n_names, err)) return false;
  for (size_t i = 0; i < n; i++) {
    struct chunk_history history = {c->now, chunks[i].shard};
    struct chunk_type chunk = {.min = chunks[i].min,
                               .max = chunks[i].max,
                               .shard = chunks[i].shard,
                               .major = 1,
                               .minor = (uint32_t)i,
                               .on_current_shard_since = c->now,
                               .history = &history,
                               .n_history = 1};
    bson_oid_init(&chunk.id, NULL);
    memcpy(chunk.uuid, coll->uuid, 16);
    if (!chunk_put(c, &chunk, err)) return false;
  }
  *version = version_of(coll, 1, (uint32_t)n - 1);
  return commit_put(c, "config.collections", collection_type_doc(c->arena, coll), err) &&
         commit_placement(c, coll->ns, coll->uuid, names, n_names, err);
}

bool delete_some_chunks(struct commit *c, const uint8_t uuid[16], size_t limit, bool *more, struct error *err) {
  struct chunk_type *list;
  size_t n = chunks_of(c->cs, c->arena, uuid, NULL, NULL, limit + 1, &list);
  if (more) *more = n > limit;
  if (!more && n > limit)
    return error_set(err, ERR_InvalidOptions, "the collection has more than %zu chunks: drop it first", limit);
  for (size_t i = 0; i < n && i < limit; i++) {
    if (!commit_delete_oid(c, "config.chunks", &list[i].id, err)) return false;
  }
  return true;
}

bool delete_tags(struct commit *c, const char *ns, struct error *err) {
  struct tag_type *tags;
  size_t n;
  if (!catalog_read_tags(c->cs, c->arena, ns, &tags, &n, err)) return false;
  for (size_t i = 0; i < n; i++) {
    if (!commit_delete_oid(c, "config.tags", &tags[i].id, err)) return false;
  }
  return true;
}

bool rename_tags(struct commit *c, const char *from, const char *to, struct error *err) {
  struct tag_type *tags;
  size_t n;
  if (!catalog_read_tags(c->cs, c->arena, from, &tags, &n, err)) return false;
  for (size_t i = 0; i < n; i++) {
    tags[i].ns = to;
    if (!commit_put(c, "config.tags", tag_type_doc(c->arena, &tags[i]), err)) return false;
  }
  return true;
}
