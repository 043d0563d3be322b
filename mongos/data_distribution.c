// $shardedDataDistribution: how much of every sharded collection each shard owns, and how much is orphaned there.
#include <string.h>

#include "common/bson/doc.h"
#include "mongos/aggregate.h"
#include "mongos/forward.h"

struct distribution_job {
  struct request *r;
  const struct shard_type *shards;
  size_t n_shards;
  bson_t *row; // {ns, shards: [...]}
};

// Every shard is asked: one without chunks may still have orphans.
static struct target *all_targets(struct arena *a, const struct placement *p, const struct distribution_job *j) {
  struct target *targets = arena_alloc(a, (j->n_shards + 1) * sizeof *targets);
  for (size_t i = 0; i < j->n_shards; i++) targets[i] = target_shard(p, j->shards[i].name);
  return targets;
}

// The storageStats of a reply's only document.
static bool storage_stats(const bson_t *reply, bson_t *stats) {
  bson_t cursor, batch, row;
  bson_iter_t it;
  if (!doc_doc(reply, "cursor", &cursor) || !doc_doc(&cursor, "firstBatch", &batch)) return false;
  if (!bson_iter_init(&it, &batch) || !bson_iter_next(&it)) return false;
  iter_doc(&row, &it);
  return doc_doc(&row, "storageStats", stats);
}

static void add_shard(bson_t *array, uint32_t at, const char *shard, int64_t orphans, int64_t owned, double average) {
  char text[16];
  const char *key;
  size_t len = bson_uint32_to_string(at, &key, text, sizeof text);
  bson_t row;
  bson_append_document_begin(array, key, (int)len, &row);
  bson_append_utf8(&row, "shardName", -1, shard, -1);
  doc_append_num(&row, "numOrphanedDocs", orphans);
  doc_append_num(&row, "numOwnedDocuments", owned);
  doc_append_num(&row, "ownedSizeBytes", (int64_t)((double)owned * average));
  doc_append_num(&row, "orphanedSizeBytes", (int64_t)((double)orphans * average));
  bson_append_document_end(array, &row);
}

static bool distribution_attempt(struct operation *op, struct router *rt, const struct placement *p, void *ctx,
                                 struct error *err) {
  struct distribution_job *j = ctx;
  if (!placement_sharded(p)) return true; // dropped meanwhile
  struct aggregate_plan plan = {0};
  bson_t *stages = BCON_NEW("0", "{", "$collStats", "{", "storageStats", "{", "}", "}", "}");
  bson_t *body = arena_bson(op->arena), empty = BSON_INITIALIZER;
  bson_append_utf8(body, "aggregate", -1, strchr(p->ns, '.') + 1, -1);
  bson_append_document(body, "cursor", -1, &empty);
  plan.split.shards = doc_copy(op->arena, stages);
  plan.split.merger = arena_bson(op->arena);
  bson_destroy(stages);
  struct shard_call *calls = shard_calls_new(op->arena, all_targets(op->arena, p, j), j->n_shards,
                                             aggregate_for_shards(op->arena, body, &plan));
  for (size_t i = 0; i < j->n_shards; i++) calls[i].db = p->db;
  shard_calls_run(j->r, op, calls, j->n_shards, CALL_READ);
  if (!shard_calls_ok(rt, p, calls, j->n_shards, err)) return false;
  bson_t array;
  bson_append_utf8(j->row, "ns", -1, p->ns, -1);
  bson_append_array_begin(j->row, "shards", -1, &array);
  uint32_t at = 0;
  for (size_t i = 0; i < j->n_shards; i++) {
    bson_t stats;
    int64_t count = 0, orphans = 0;
    double average = 0;
    if (storage_stats(calls[i].reply, &stats)) {
      count = doc_i64(&stats, "count", 0);
      orphans = doc_i64(&stats, "numOrphanDocs", 0);
      average = doc_double(&stats, "avgObjSize", 0);
    }
    bool has_chunk = chunk_map_shard_count(p->routing->chunks, j->shards[i].name) > 0;
    if (has_chunk || orphans > 0) add_shard(&array, at++, j->shards[i].name, orphans, count - orphans, average);
  }
  bson_append_array_end(j->row, &array);
  return true;
}

bool data_distribution(struct request *r, const bson_t ***rows, size_t *n, struct error *err) {
  struct router *rt = router_of(r);
  struct arena *a = r->op->arena;
  bson_t *filter = arena_bson(a), *sort = arena_bson(a), not_true;
  bson_append_document_begin(filter, "unsplittable", -1, &not_true);
  bson_append_bool(&not_true, "$ne", -1, true);
  bson_append_document_end(filter, &not_true);
  bson_append_int32(sort, "_id", -1, 1);
  const bson_t **collections;
  size_t n_collections;
  struct distribution_job j = {.r = r};
  struct shard_type *shards;
  if (!catalog_find(r->op, rt->config, "collections", filter, sort, 0, &collections, &n_collections, err) ||
      !shard_registry_all(r->op, rt->shards, false, &shards, &j.n_shards, err)) {
    return false;
  }
  j.shards = shards;
  *rows = arena_alloc(a, (n_collections + 1) * sizeof **rows);
  *n = 0;
  for (size_t i = 0; i < n_collections; i++) {
    const char *ns = doc_str(collections[i], "_id", NULL);
    if (ns == NULL || strchr(ns, '.') == NULL) continue;
    j.row = arena_bson(a);
    if (!routed_run(r->op, rt, ns, "$shardedDataDistribution", false, distribution_attempt, &j, err)) return false;
    if (!bson_empty(j.row)) (*rows)[(*n)++] = j.row;
  }
  return true;
}
