// _configsvrCommitChunkSplit: one chunk becomes several; minor versions only.
//
// The pieces get the collection's major version and the next minors in key order. The first keeps the chunk's _id. A
// chunk that is cut exactly so already is answered as if it had been done now.
#include <string.h>

#include "common/bson/doc.h"
#include "configsvr/chunk_commands.h"
#include "configsvr/commands.h"

enum { SPLIT_POINTS_MAX = 8192 };

struct split {
  const char *ns, *shard;
  bson_oid_t epoch;
  uint64_t timestamp; // 0 = not given
  const bson_t *min, *max;
  const bson_t **points;
  size_t n;
  // results
  struct chunk_version collection_version, shard_version;
};

static bool parse_points(struct request *r, struct split *s, struct error *err) {
  bson_t array;
  if (!doc_doc(r->body, "splitPoints", &array) || bson_empty(&array)) {
    return error_set(err, ERR_InvalidOptions, "need to specify the split points to chunk over");
  }
  uint32_t n = bson_count_keys(&array);
  if (n > SPLIT_POINTS_MAX)
    return error_set(err, ERR_InvalidOptions, "%u split points are more than %d", n, SPLIT_POINTS_MAX);
  s->points = arena_alloc(r->op->arena, n * sizeof *s->points);
  bson_iter_t it;
  bson_iter_init(&it, &array);
  while (bson_iter_next(&it)) {
    if (!BSON_ITER_HOLDS_DOCUMENT(&it)) return error_set(err, ERR_TypeMismatch, "a split point must be a document");
    bson_t view;
    iter_doc(&view, &it);
    s->points[s->n++] = doc_copy(r->op->arena, &view);
  }
  return true;
}

static bool check_points(struct commit *c, const struct split *s, const struct collection_type *coll,
                         struct error *err) {
  struct shard_key key;
  if (!shard_key_parse(c->arena, coll->key, &key, err)) return false;
  const bson_t *before = s->min;
  for (size_t i = 0; i < s->n; i++) {
    const bson_t *p = s->points[i];
    const char *range = range_text(c->arena, s->min, s->max);
    if (!shard_key_is_bound(&key, p)) {
      return error_set(err, ERR_InvalidOptions, "Split key %s does not match the shard key %s", doc_text(c->arena, p),
                       doc_text(c->arena, coll->key));
    }
    if (chunk_bound_compare(p, s->max) >= 0 || chunk_bound_compare(p, s->min) < 0) {
      return error_set(err, ERR_InvalidOptions, "Split key %s not contained within chunk %s", doc_text(c->arena, p),
                       range);
    }
    if (chunk_bound_compare(p, s->min) == 0) {
      return error_set(err, ERR_InvalidOptions, "Split key %s is equal to the lower bound of chunk %s",
                       doc_text(c->arena, p), range);
    }
    if (chunk_bound_compare(p, before) <= 0) {
      return error_set(err, ERR_InvalidOptions, "Split keys must be strictly increasing, but %s follows %s",
                       doc_text(c->arena, p), doc_text(c->arena, before));
    }
    before = p;
  }
  return true;
}

// Whether the chunks between min and max are exactly the pieces asked for.
static bool is_done(struct commit *c, const struct split *s, const struct collection_type *coll) {
  struct chunk_type *have;
  size_t n = chunks_in_range(c->cs, c->arena, coll->uuid, s->min, s->max, s->n + 2, &have);
  if (n != s->n + 1) return false;
  for (size_t i = 0; i < n; i++) {
    const bson_t *min = i ? s->points[i - 1] : s->min, *max = i < s->n ? s->points[i] : s->max;
    if (chunk_bound_compare(have[i].min, min) != 0 || chunk_bound_compare(have[i].max, max) != 0) return false;
  }
  return true;
}

static bool log_pieces(struct commit *c, const struct split *s, const struct collection_type *coll,
                       const struct chunk_type *whole, const struct chunk_type *pieces, size_t n, struct error *err) {
  if (n == 2) {
    bson_t *details = arena_bson(c->arena);
    chunk_append_piece(details, "before", coll, whole);
    chunk_append_piece(details, "left", coll, &pieces[0]);
    chunk_append_piece(details, "right", coll, &pieces[1]);
    bson_append_utf8(details, "owningShard", -1, s->shard, -1);
    return commit_log(c, "split", s->ns, details, err);
  }
  for (size_t i = 0; i < n; i++) {
    bson_t *details = arena_bson(c->arena);
    chunk_append_piece(details, "before", coll, whole);
    bson_append_int32(details, "number", -1, (int32_t)i + 1);
    bson_append_int32(details, "of", -1, (int32_t)n);
    chunk_append_piece(details, "chunk", coll, &pieces[i]);
    bson_append_utf8(details, "owningShard", -1, s->shard, -1);
    if (!commit_log(c, "multi-split", s->ns, details, err)) return false;
  }
  return true;
}

static bool cut(struct commit *c, struct split *s, const struct collection_type *coll, const struct chunk_type *whole,
                struct error *err) {
  struct chunk_version v = collection_version(c->cs, c->arena, coll);
  size_t n = s->n + 1;
  struct chunk_type *pieces = arena_alloc(c->arena, n * sizeof *pieces);
  for (size_t i = 0; i < n; i++) {
    struct chunk_type *p = &pieces[i];
    *p = *whole;
    if (i > 0) bson_oid_init(&p->id, NULL);
    p->min = i ? s->points[i - 1] : s->min;
    p->max = i < s->n ? s->points[i] : s->max;
    p->has_jumbo = true; // written as an explicit false
    p->jumbo = false;
    p->major = v.major;
    p->minor = ++v.minor;
    if (!chunk_put(c, p, err)) return false;
  }
  s->collection_version = s->shard_version = v;
  return log_pieces(c, s, coll, whole, pieces, n, err);
}

static bool commit_split(struct commit *c, void *args, struct error *err) {
  struct split *s = args;
  struct collection_type coll;
  struct chunk_type whole;
  if (!catalog_need_collection(c->cs, c->arena, s->ns, &coll, err) ||
      !chunk_check_generation(&coll, &s->epoch, s->timestamp, err) || !check_points(c, s, &coll, err)) {
    return false;
  }
  if (is_done(c, s, &coll)) {
    s->collection_version = collection_version(c->cs, c->arena, &coll);
    s->shard_version = shard_version(c->cs, c->arena, &coll, s->shard);
    return true;
  }
  if (!chunk_containing(c->cs, c->arena, coll.uuid, s->min, &whole) || chunk_bound_compare(whole.min, s->min) != 0 ||
      chunk_bound_compare(whole.max, s->max) != 0) {
    return error_set(err, ERR_BadValue, "Chunk %s of %s does not exist", range_text(c->arena, s->min, s->max), s->ns);
  }
  if (strcmp(whole.shard, s->shard) != 0) {
    return error_set(err, ERR_IllegalOperation, "Chunk %s of %s is on shard %s, not on %s",
                     range_text(c->arena, s->min, s->max), s->ns, whole.shard, s->shard);
  }
  return cut(c, s, &coll, &whole, err);
}

bool config_commit_chunk_split(struct request *r, bson_t *reply, struct error *err) {
  struct split s = {0};
  if (!request_namespace(r, &s.ns, err) || !request_required_str(r, "shard", &s.shard, err) ||
      !request_copy_doc(r, "min", &s.min, err) || !request_copy_doc(r, "max", &s.max, err) ||
      !parse_points(r, &s, err)) {
    return false;
  }
  if (!doc_oid(r->body, "collEpoch", &s.epoch)) return error_set(err, ERR_BadValue, "collEpoch must be an ObjectId");
  doc_timestamp(r->body, "collTimestamp", &s.timestamp);
  if (!commit_run(r->op, config_of(r), chunk_namespaces, 2, commit_split, &s, err)) return false;
  chunk_version_append(reply, "collectionVersion", &s.collection_version);
  chunk_version_append(reply, "shardVersion", &s.shard_version);
  return true;
}
