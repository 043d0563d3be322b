// _configsvrCommitChunksMerge and _configsvrCommitMergeAllChunksOnShard: neighbouring chunks of one shard become one.
//
// The merged chunk keeps the first one's _id, gets the collection's next minor version, loses a jumbo flag, and its
// history becomes one entry.
#include <string.h>

#include "common/bson/doc.h"
#include "configsvr/chunk_commands.h"
#include "configsvr/commands.h"

enum { MERGED_CHUNKS_MAX = 20000 }; // of one command: they are deletes of one log entry

struct merge {
  const char *ns, *shard;
  bool has_uuid, has_epoch;
  uint8_t uuid[16];
  bson_oid_t epoch;
  uint64_t timestamp;
  const bson_t *min, *max;
  int64_t limit; // merge all: at most so many chunks
  // results
  struct chunk_version shard_version;
  int64_t merged;
};

// Writes one chunk in place of list[0..n-1].
static bool replace_by_one(struct commit *c, const struct collection_type *coll, const struct chunk_type *list,
                           size_t n, uint64_t since, struct chunk_version *version, const char *what,
                           struct error *err) {
  struct chunk_type one = list[0];
  struct chunk_version before = *version;
  one.max = list[n - 1].max;
  one.major = version->major;
  one.minor = ++version->minor;
  one.has_jumbo = one.jumbo = false;
  one.on_current_shard_since = since;
  one.history = arena_alloc(c->arena, sizeof *one.history);
  one.history[0] = (struct chunk_history){since, one.shard};
  one.n_history = 1;
  for (size_t i = 1; i < n; i++) {
    if (!commit_delete_oid(c, "config.chunks", &list[i].id, err)) return false;
  }
  if (!chunk_put(c, &one, err)) return false;
  bson_t *details = arena_bson(c->arena);
  chunk_version_append(details, "prevPlacementVersion", &before);
  chunk_version_append(details, "mergedVersion", version);
  bson_append_utf8(details, "owningShard", -1, one.shard, -1);
  bson_append_document(details, "min", -1, one.min);
  bson_append_document(details, "max", -1, one.max);
  bson_append_int32(details, "numChunks", -1, (int32_t)n);
  return commit_log(c, what, coll->ns, details, err);
}

static bool check_collection(struct commit *c, const struct merge *m, struct collection_type *coll, struct error *err) {
  if (!catalog_need_collection(c->cs, c->arena, m->ns, coll, err)) return false;
  if (m->has_uuid && memcmp(m->uuid, coll->uuid, 16) != 0) {
    return error_set(err, ERR_InvalidUUID, "UUID of collection %s does not match UUID of request", m->ns);
  }
  return !m->has_epoch || chunk_check_generation(coll, &m->epoch, m->timestamp, err);
}

static bool fills_exactly(const struct merge *m, const struct chunk_type *list, size_t n) {
  if (n == 0 || chunk_bound_compare(list[0].min, m->min) != 0 || chunk_bound_compare(list[n - 1].max, m->max) != 0)
    return false;
  for (size_t i = 0; i < n; i++) {
    if (strcmp(list[i].shard, m->shard) != 0) return false;
    if (i > 0 && chunk_bound_compare(list[i - 1].max, list[i].min) != 0) return false;
  }
  return true;
}

static bool commit_merge(struct commit *c, void *args, struct error *err) {
  struct merge *m = args;
  struct collection_type coll;
  struct chunk_type *list;
  if (!check_collection(c, m, &coll, err)) return false;
  size_t n = chunks_in_range(c->cs, c->arena, coll.uuid, m->min, m->max, MERGED_CHUNKS_MAX + 1, &list);
  if (n > MERGED_CHUNKS_MAX) {
    return error_set(err, ERR_InvalidOptions, "more than %d chunks cannot be merged at once", MERGED_CHUNKS_MAX);
  }
  if (!fills_exactly(m, list, n)) {
    return error_set(
        err, ERR_IllegalOperation,
        "could not merge chunks, shard %s does not contain a sequence of chunks that exactly fills the range %s",
        m->shard, range_text(c->arena, m->min, m->max));
  }
  if (n == 1) {
    m->shard_version = shard_version(c->cs, c->arena, &coll, m->shard);
    return true;
  }
  m->shard_version = collection_version(c->cs, c->arena, &coll);
  return replace_by_one(c, &coll, list, n, c->now, &m->shard_version, "merge", err);
}

static void parse_generation(const struct request *r, struct merge *m) {
  m->has_uuid = doc_uuid(r->body, "collUUID", m->uuid);
  m->has_epoch = doc_oid(r->body, "epoch", &m->epoch);
  doc_timestamp(r->body, "timestamp", &m->timestamp);
}

bool config_commit_chunks_merge(struct request *r, bson_t *reply, struct error *err) {
  struct merge m = {0};
  const bson_t *range;
  if (!request_namespace(r, &m.ns, err) || !request_required_str(r, "shard", &m.shard, err) ||
      !request_copy_doc(r, "chunkRange", &range, err) || !chunk_parse_range(range, r->op->arena, &m.min, &m.max, err)) {
    return false;
  }
  parse_generation(r, &m);
  if (!commit_run(r->op, config_of(r), chunk_namespaces, 2, commit_merge, &m, err)) {
    return error_prefix(err, "Failed to commit chunk merge");
  }
  chunk_version_append(reply, "shardVersion", &m.shard_version);
  return true;
}

// --- all mergeable chunks of a shard ---

// Whether a zone begins or ends at this key: chunks on both sides stay apart.
static bool is_zone_bound(const struct tag_type *tags, size_t n, const bson_t *key) {
  for (size_t i = 0; i < n; i++) {
    if (chunk_bound_compare(tags[i].min, key) == 0 || chunk_bound_compare(tags[i].max, key) == 0) return true;
  }
  return false;
}

// Not jumbo, and nobody may still read the past in which it was elsewhere.
static bool is_mergeable(const struct commit *c, const struct chunk_type *chunk) {
  uint64_t age = (c->now >> 32) - (chunk->on_current_shard_since >> 32);
  return !chunk->jumbo && (int64_t)age >= c->cs->history_window_seconds;
}

static bool merge_run(struct commit *c, struct merge *m, const struct collection_type *coll,
                      const struct chunk_type *list, size_t n, struct error *err) {
  if (n < 2) return true;
  uint64_t since = 0; // nobody was elsewhere after this
  for (size_t i = 0; i < n; i++) {
    if (list[i].on_current_shard_since > since) since = list[i].on_current_shard_since;
  }
  m->merged += (int64_t)n;
  return replace_by_one(c, coll, list, n, since, &m->shard_version, "autoMerge", err);
}

static bool commit_merge_all(struct commit *c, void *args, struct error *err) {
  struct merge *m = args;
  struct collection_type coll;
  struct tag_type *tags;
  struct chunk_type *list;
  size_t n_tags, start = 0;
  m->merged = 0;
  if (!check_collection(c, m, &coll, err) || !catalog_read_tags(c->cs, c->arena, m->ns, &tags, &n_tags, err))
    return false;
  m->shard_version = collection_version(c->cs, c->arena, &coll);
  size_t n = chunks_of(c->cs, c->arena, coll.uuid, m->shard, NULL, (size_t)m->limit, &list);
  for (size_t i = 1; i <= n; i++) {
    bool joins = i < n && is_mergeable(c, &list[i]) && is_mergeable(c, &list[i - 1]) &&
                 chunk_bound_compare(list[i - 1].max, list[i].min) == 0 && !is_zone_bound(tags, n_tags, list[i].min);
    if (joins) continue;
    if (!merge_run(c, m, &coll, list + start, i - start, err)) return false;
    start = i;
  }
  if (m->merged == 0) m->shard_version = shard_version(c->cs, c->arena, &coll, m->shard);
  return true;
}

bool config_commit_merge_all_chunks_on_shard(struct request *r, bson_t *reply, struct error *err) {
  struct merge m = {0};
  if (!request_namespace(r, &m.ns, err) || !request_required_str(r, "shard", &m.shard, err)) return false;
  m.limit = doc_i64(r->body, "maxNumberOfChunksToMerge", MERGED_CHUNKS_MAX);
  if (m.limit < 2) return error_set(err, ERR_InvalidOptions, "maxNumberOfChunksToMerge must be at least 2");
  if (m.limit > MERGED_CHUNKS_MAX) m.limit = MERGED_CHUNKS_MAX;
  parse_generation(r, &m);
  if (!commit_run(r->op, config_of(r), chunk_namespaces, 2, commit_merge_all, &m, err)) return false;
  chunk_version_append(reply, "shardVersion", &m.shard_version);
  doc_append_num(reply, "numMergedChunks", m.merged);
  return true;
}
