// Split points and splits on a shard (reference/commands.md 4.2, 4.6).
#include <string.h>

#include "common/base/log.h"
#include "common/bson/doc.h"
#include "proto/reply.h"
#include "shardd/bson_array.h"
#include "shardd/migration_documents.h"
#include "shardd/migrations.h"
#include "shardd/peer.h"
#include "shardd/placement_checks.h"
#include "shardd/shard_index.h"
#include "shardd/split_scan.h"

enum {
  MEGABYTE = 1024 * 1024,
  MAX_CHUNK_MEGABYTES = 1024,
  DEFAULT_CHUNK_OBJECTS = 250000,
};

// --- split point queries ---

struct vector_request {
  const char *ns;
  struct shard_key key;
  const bson_t *min, *max;
  struct split_spec spec;
};

static const bson_t *optional_doc(struct arena *a, const bson_t *body, const char *name) {
  bson_t view;
  return doc_doc(body, name, &view) && !bson_empty(&view) ? doc_copy(a, &view) : NULL;
}

static bool read_range(struct request *r, struct vector_request *v, struct error *err) {
  struct arena *a = r->op->arena;
  bson_t pattern;
  if (!request_required_doc(r, "keyPattern", &pattern, err) || !shard_key_parse(a, &pattern, &v->key, err))
    return false;
  v->min = optional_doc(a, r->body, "min");
  v->max = optional_doc(a, r->body, "max");
  if (!v->min != !v->max) return error_set(err, ERR_BadValue, "either provide both min and max or leave both empty");
  v->min = v->min ? shard_key_extend(&v->key, a, v->min, false) : shard_key_global_min(&v->key, a);
  v->max = v->max ? shard_key_extend(&v->key, a, v->max, false) : shard_key_global_max(&v->key, a);
  return true;
}

static struct collection *find_collection(const struct shard *sh, const char *ns, struct error *err) {
  struct collection *c = store_collection(sh->node.store, ns);
  if (!c || c->dropped) error_set(err, ERR_NamespaceNotFound, "ns not found");
  return c && !c->dropped ? c : NULL;
}

static bool run_vector(struct request *r, struct vector_request *v, struct split_result *out, struct error *err) {
  struct collection *c = find_collection(shard_of(r), v->ns, err);
  if (!c) return false;
  collection_ref(c);
  bool ok = split_scan(r->op, c, &v->key, v->min, v->max, &v->spec, out, err);
  collection_unref(c);
  return ok;
}

static void append_keys(bson_t *reply, const struct split_result *result) {
  bson_t keys;
  BSON_APPEND_ARRAY_BEGIN(reply, "splitKeys", &keys);
  struct bson_array out = {.bson = &keys};
  for (size_t i = 0; i < result->n; i++) bson_array_add(&out, result->points[i]);
  bson_append_array_end(reply, &keys);
}

static bool read_chunk_size(const struct request *r, struct split_spec *spec, struct error *err) {
  int64_t mb = doc_i64(r->body, "maxChunkSize", 0), bytes = doc_i64(r->body, "maxChunkSizeBytes", 0);
  if (doc_has(r->body, "maxChunkSize") && (mb < 1 || mb > MAX_CHUNK_MEGABYTES))
    return error_set(err, ERR_BadValue, "maxChunkSize must be between 1 and %d", MAX_CHUNK_MEGABYTES);
  spec->chunk_bytes = bytes > 0 ? bytes : mb * MEGABYTE;
  if (spec->chunk_bytes > 0 || spec->policy == SPLIT_MEDIAN) return true;
  return error_set(err, ERR_InvalidOptions, "need to specify the desired max chunk size");
}

static bool split_vector(struct request *r, bson_t *reply, struct error *err) {
  struct vector_request v = {.ns = r->coll};
  if (!v.ns) return error_set(err, ERR_InvalidNamespace, "Invalid namespace specified");
  if (!strchr(v.ns, '.')) v.ns = r->ns;
  if (!read_range(r, &v, err)) return false;
  v.spec.policy = doc_bool(r->body, "force", false) ? SPLIT_MEDIAN : SPLIT_HALF_SIZE;
  v.spec.limit = doc_i64(r->body, "maxSplitPoints", 0);
  v.spec.max_objects = doc_i64(r->body, "maxChunkObjects", DEFAULT_CHUNK_OBJECTS);
  if (!read_chunk_size(r, &v.spec, err)) return false;
  const struct collection *c = find_collection(shard_of(r), v.ns, err);
  if (!c) return false;
  struct collection_stats stats;
  collection_stats(c, &stats);
  if (stats.count == 0 && v.spec.policy == SPLIT_MEDIAN)
    return error_set(err, ERR_InvalidOptions, "cannot use split with find or bounds option on an empty collection");
  struct split_result result;
  if (!run_vector(r, &v, &result, err)) return false;
  append_keys(reply, &result);
  return true;
}

static bool auto_split_vector(struct request *r, bson_t *reply, struct error *err) {
  struct vector_request v = {.ns = r->ns};
  if (!request_needs_collection(r, err) || !read_range(r, &v, err)) return false;
  v.spec.policy = SPLIT_BY_SIZE;
  v.spec.limit = doc_i64(r->body, "limit", 0);
  if (!read_chunk_size(r, &v.spec, err)) return false;
  struct split_result result;
  if (!run_vector(r, &v, &result, err)) return false;
  append_keys(reply, &result);
  BSON_APPEND_BOOL(reply, "continuation", result.continuation);
  return true;
}

static bool check_sharding_index(struct request *r, bson_t *reply, struct error *err) {
  bson_t pattern;
  struct shard_key key;
  if (!r->coll) return error_set(err, ERR_InvalidNamespace, "Invalid namespace specified");
  if (!request_required_doc(r, "keyPattern", &pattern, err)) return false;
  if (bson_empty(&pattern)) return reply_errmsg_only(reply, "no key pattern found in checkShardingindex");
  if (!shard_key_parse(r->op->arena, &pattern, &key, err)) return false;
  const struct collection *c = store_collection(shard_of(r)->node.store, r->coll);
  if (!c) return reply_errmsg_only(reply, "ns not found");
  struct buf why __attribute__((cleanup(buf_cleanup))) = {0};
  if (shard_index_find(c, &key, &why)) return true;
  return reply_errmsg_only(reply,
                           arena_printf(r->op->arena, "couldn't find valid index for shard key\n%s", buf_str(&why)));
}

// --- splitChunk ---

struct split_request {
  const char *ns;
  struct chunk_version generation;
  const bson_t *min, *max, *keys; // keys: an array
};

static bool parse_split(struct request *r, struct split_request *s, struct error *err) {
  struct arena *a = r->op->arena;
  if (!r->coll) return error_set(err, ERR_InvalidNamespace, "Invalid namespace specified");
  s->ns = r->coll;
  s->min = optional_doc(a, r->body, "min");
  s->max = optional_doc(a, r->body, "max");
  s->keys = optional_doc(a, r->body, "splitKeys");
  if (!s->min || !s->max) return error_set(err, ERR_NoSuchKey, "Missing required field 'min' or 'max'");
  return placement_read_generation(r->body, "epoch", "timestamp", &s->generation, err);
}

static bool tell_config(struct operation *op, struct shard *sh, const struct split_request *s, struct error *err) {
  bson_t *cmd = arena_bson(op->arena);
  BSON_APPEND_UTF8(cmd, "_configsvrCommitChunkSplit", s->ns);
  BSON_APPEND_OID(cmd, "collEpoch", &s->generation.epoch);
  doc_append_ts(cmd, "collTimestamp", s->generation.timestamp);
  BSON_APPEND_DOCUMENT(cmd, "min", s->min);
  BSON_APPEND_DOCUMENT(cmd, "max", s->max);
  BSON_APPEND_ARRAY(cmd, "splitPoints", s->keys);
  BSON_APPEND_UTF8(cmd, "shard", sh->name);
  append_majority(cmd);
  return config_call(op, sh, cmd, NULL, err);
}

// Whether the chunks are what the split was to make: then it was done before (by a try whose answer was lost).
static bool already_split(struct operation *op, const struct shard *sh, const struct split_request *s,
                          const struct routing *r) {
  struct error err = {0};
  const bson_t *from = s->min;
  bson_iter_t it;
  bson_iter_init(&it, s->keys);
  while (bson_iter_next(&it)) {
    bson_t key;
    iter_doc(&key, &it);
    const bson_t *to = doc_copy(op->arena, &key);
    if (!placement_check_is_chunk(op->arena, sh, r, from, to, &err)) return false;
    from = to;
  }
  return placement_check_is_chunk(op->arena, sh, r, from, s->max, &err);
}

static bool split_held(struct operation *op, struct shard *sh, const struct split_request *s, struct error *err) {
  struct routing *r;
  if (!metadata_load(op, sh->metadata, s->ns, &r, err)) return false;
  bool ok = placement_check_collection(op->arena, sh, r, &s->generation, err);
  bool done = ok && already_split(op, sh, s, r);
  ok = ok && (done || placement_check_is_chunk(op->arena, sh, r, s->min, s->max, err));
  routing_unref(r);
  if (!ok || done) return ok;
  ok = tell_config(op, sh, s, err);
  // Also after a failure, whose commit may have happened. A split lifts this shard's version to the collection's major:
  // a router that is behind must be told so by the next request.
  metadata_renew(op, sh->metadata, s->ns, "a split");
  return ok;
}

static bool split_chunk(struct request *r, bson_t *reply, struct error *err) {
  struct shard *sh = shard_of(r);
  struct split_request s;
  if (!shard_require_identity(sh, err)) return false;
  if (!optional_doc(r->op->arena, r->body, "keyPattern"))
    return reply_errmsg_only(reply, "need to specify the key pattern the collection is sharded over");
  if (!parse_split(r, &s, err)) return false;
  if (!s.keys) return reply_errmsg_only(reply, "need to provide the split points to chunk over");
  if (!migrations_hold(r->op, sh->migrations, s.ns, false, err)) return false;
  bool ok = split_held(r->op, sh, &s, err);
  migrations_release(sh->migrations, s.ns);
  return ok;
}

const struct command shardd_split_commands[] = {
    {"splitVector", NULL, CMD_READ, split_vector, "Where a range would be split."},
    {"autoSplitVector", NULL, CMD_READ | CMD_INTERNAL, auto_split_vector, "Where a range would be split by size."},
    {"checkShardingIndex", NULL, CMD_READ | CMD_ADMIN_ONLY, check_sharding_index,
     "Whether an index can serve a shard key."},
    {"splitChunk", NULL, CMD_WRITE | CMD_ADMIN_ONLY | CMD_INTERNAL, split_chunk, "Splits a chunk of this shard."},
    {0},
};
