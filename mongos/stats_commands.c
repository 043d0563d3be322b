// collStats, dbStats, dataSize and validate: the shards' figures added up.
#include <string.h>

#include "common/bson/doc.h"
#include "mongos/forward.h"
#include "mongos/server_status.h"
#include "mongos/shard_call.h"

struct stats_job {
  struct request *r;
  int64_t scale;
  bson_t *reply;
};

// Asks every shard that has a part of the collection, without the client's scale: that is applied once, here.
static bool ask_all(struct stats_job *j, struct operation *op, struct router *rt, const struct placement *p,
                    struct shard_call **calls, size_t *n, struct error *err) {
  static const char *const scaled[] = {"scale", NULL};
  struct target *targets;
  *n = placement_all(op->arena, p, &targets);
  *calls = shard_calls_new(op->arena, targets, *n, forward_body(j->r, scaled));
  for (size_t i = 0; i < *n; i++) (*calls)[i].db = p->db;
  shard_calls_run(j->r, op, *calls, *n, CALL_READ);
  return shard_calls_ok(rt, p, *calls, *n, err);
}

static const char *name_of(const struct shard_call *c) {
  return c->target.shard != NULL ? c->target.shard : "config";
}

// --- collStats ---

static const char *const summed[] = {"count", "size", "storageSize", "totalIndexSize", "totalSize"};
enum { N_SUMMED = 5, SUM_COUNT = 0, SUM_SIZE = 1 };

static bool is_merged(const char *field) {
  static const char *const other[] = {
      "ns",      "avgObjSize", "indexSizes", "maxSize",       "nindexes",      "scaleFactor", "nchunks",
      "sharded", "ok",         "primary",    "numOrphanDocs", "numRangeFiles", NULL};
  if (field[0] == '$' || strcmp(field, "operationTime") == 0) return true;
  for (int i = 0; i < N_SUMMED; i++) {
    if (strcmp(field, summed[i]) == 0) return true;
  }
  for (const char *const *o = other; *o != NULL; o++) {
    if (strcmp(field, *o) == 0) return true;
  }
  return false;
}

static void add_index_sizes(bson_t *to, const struct shard_call *calls, size_t n, int64_t scale) {
  bson_t sizes, first, one;
  bson_iter_t it;
  bson_append_document_begin(to, "indexSizes", -1, &sizes);
  if (n > 0 && doc_doc(calls[0].reply, "indexSizes", &first) && bson_iter_init(&it, &first)) {
    while (bson_iter_next(&it)) {
      int64_t sum = 0;
      for (size_t i = 0; i < n; i++) {
        if (doc_doc(calls[i].reply, "indexSizes", &one)) sum += doc_i64(&one, bson_iter_key(&it), 0);
      }
      doc_append_num(&sizes, bson_iter_key(&it), sum / scale);
    }
  }
  bson_append_document_end(to, &sizes);
}

static void reply_coll_stats(struct stats_job *j, const struct placement *p, const struct shard_call *calls, size_t n) {
  bson_t *reply = j->reply, shards;
  int64_t sums[N_SUMMED] = {0}, max_size = 0, n_indexes = 0;
  for (size_t i = 0; i < n; i++) {
    for (int f = 0; f < N_SUMMED; f++) sums[f] += doc_i64(calls[i].reply, summed[f], 0);
    int64_t indexes = doc_i64(calls[i].reply, "nindexes", 0), size = doc_i64(calls[i].reply, "maxSize", 0);
    if (indexes > n_indexes) n_indexes = indexes;
    if (size > max_size) max_size = size;
  }
  bson_append_bool(reply, "sharded", -1, placement_sharded(p));
  if (!placement_sharded(p) && n > 0) bson_append_utf8(reply, "primary", -1, name_of(&calls[0]), -1);
  bson_iter_t it;
  for (bool more = n > 0 && bson_iter_init(&it, calls[0].reply); more && bson_iter_next(&it);) {
    if (!is_merged(bson_iter_key(&it))) doc_append_iter(reply, NULL, &it);
  }
  bson_append_utf8(reply, "ns", -1, p->ns, -1);
  for (int f = 0; f < N_SUMMED; f++) doc_append_num(reply, summed[f], f == SUM_COUNT ? sums[f] : sums[f] / j->scale);
  add_index_sizes(reply, calls, n, j->scale);
  bson_append_double(reply, "avgObjSize", -1,
                     sums[SUM_COUNT] > 0 ? (double)sums[SUM_SIZE] / (double)sums[SUM_COUNT] : 0);
  bson_append_int64(reply, "maxSize", -1, max_size / j->scale);
  bson_append_int32(reply, "nindexes", -1, (int32_t)n_indexes);
  bson_append_int32(reply, "scaleFactor", -1, (int32_t)j->scale);
  size_t chunks = p->kind == PLACE_CHUNKS ? chunk_map_count(p->routing->chunks) : 1;
  bson_append_int32(reply, "nchunks", -1, (int32_t)chunks);
  bson_append_document_begin(reply, "shards", -1, &shards);
  for (size_t i = 0; i < n; i++) {
    bson_t one;
    bson_append_document_begin(&shards, name_of(&calls[i]), -1, &one);
    forward_reply(&one, calls[i].reply);
    bson_append_document_end(&shards, &one);
  }
  bson_append_document_end(reply, &shards);
}

static bool coll_stats_attempt(struct operation *op, struct router *rt, const struct placement *p, void *ctx,
                               struct error *err) {
  struct stats_job *j = ctx;
  struct shard_call *calls = NULL;
  size_t n = 0;
  if (p->kind != PLACE_NOWHERE && !ask_all(j, op, rt, p, &calls, &n, err)) return false;
  reply_coll_stats(j, p, calls, n);
  return true;
}

static bool read_scale(const struct request *r, int64_t *scale, struct error *err) {
  *scale = doc_i64(r->body, "scale", 1);
  if (*scale >= 1 && *scale <= INT32_MAX) return true;
  return error_set(err, ERR_BadValue, "BSON field 'scale' value must be >= 1, actual value '%" PRId64 "'", *scale);
}

static bool run_coll_stats(struct request *r, bson_t *reply, struct error *err) {
  struct stats_job j = {.r = r, .reply = reply};
  if (!request_needs_collection(r, err) || !read_scale(r, &j.scale, err)) return false;
  return routed_run(r->op, router_of(r), r->ns, "collStats", false, coll_stats_attempt, &j, err);
}

// --- dbStats ---

static int64_t sum_of(const struct shard_call *calls, size_t n, const char *field) {
  int64_t sum = 0;
  for (size_t i = 0; i < n; i++) sum += doc_i64(calls[i].reply, field, 0);
  return sum;
}

static void reply_db_stats(struct request *r, const struct shard_call *calls, size_t n, int64_t scale, bson_t *reply) {
  static const char *const counts[] = {"collections", "views", "objects"};
  static const char *const sizes[] = {"dataSize", "storageSize", "indexSize", "totalSize", "fsUsedSize", "fsTotalSize"};
  bson_t raw;
  bson_append_document_begin(reply, "raw", -1, &raw);
  for (size_t i = 0; i < n; i++) {
    bson_t one;
    struct error ignored;
    struct replica_set *set = shard_registry_get(r->op, router_of(r)->shards, calls[i].target.shard, &ignored);
    bson_append_document_begin(&raw, set != NULL ? replica_set_string(set) : name_of(&calls[i]), -1, &one);
    forward_reply(&one, calls[i].reply);
    bson_append_double(&one, "ok", -1, 1);
    bson_append_document_end(&raw, &one);
  }
  bson_append_document_end(reply, &raw);
  bson_append_utf8(reply, "db", -1, r->db, -1);
  for (size_t f = 0; f < 3; f++) doc_append_num(reply, counts[f], sum_of(calls, n, counts[f]));
  int64_t objects = sum_of(calls, n, "objects");
  double data = (double)sum_of(calls, n, "dataSize");
  bson_append_double(reply, "avgObjSize", -1, objects > 0 ? data / (double)objects : 0);
  for (size_t f = 0; f < 2; f++)
    bson_append_double(reply, sizes[f], -1, (double)sum_of(calls, n, sizes[f]) / (double)scale);
  doc_append_num(reply, "indexes", sum_of(calls, n, "indexes"));
  for (size_t f = 2; f < 4; f++)
    bson_append_double(reply, sizes[f], -1, (double)sum_of(calls, n, sizes[f]) / (double)scale);
  bson_append_int64(reply, "scaleFactor", -1, scale);
  for (size_t f = 4; f < 6; f++)
    bson_append_double(reply, sizes[f], -1, (double)sum_of(calls, n, sizes[f]) / (double)scale);
}

static bool run_db_stats(struct request *r, bson_t *reply, struct error *err) {
  static const char *const scaled[] = {"scale", NULL};
  struct router *rt = router_of(r);
  struct shard_type *shards;
  size_t n;
  int64_t scale;
  if (!read_scale(r, &scale, err)) return false;
  if (database_is_on_config(r->db)) {
    return config_forward(r, r->db, forward_body(r, NULL), reply, err);
  }
  if (!shard_registry_all(r->op, rt->shards, false, &shards, &n, err)) return false;
  struct target *targets = arena_alloc(r->op->arena, (n + 1) * sizeof *targets);
  for (size_t i = 0; i < n; i++) targets[i] = target_unversioned(shards[i].name);
  struct shard_call *calls = shard_calls_new(r->op->arena, targets, n, forward_body(r, scaled));
  shard_calls_run(r, r->op, calls, n, CALL_READ);
  struct placement none = {.kind = PLACE_NOWHERE, .ns = r->db, .db = r->db};
  if (!shard_calls_ok(rt, &none, calls, n, err)) return false;
  reply_db_stats(r, calls, n, scale, reply);
  return true;
}

// --- dataSize and validate ---

static bool data_size_attempt(struct operation *op, struct router *rt, const struct placement *p, void *ctx,
                              struct error *err) {
  struct stats_job *j = ctx;
  struct shard_call *calls = NULL;
  size_t n = 0;
  if (p->kind != PLACE_NOWHERE && !ask_all(j, op, rt, p, &calls, &n, err)) return false;
  bson_append_int64(j->reply, "size", -1, sum_of(calls, n, "size"));
  bson_append_int64(j->reply, "numObjects", -1, sum_of(calls, n, "numObjects"));
  bson_append_int64(j->reply, "millis", -1, sum_of(calls, n, "millis"));
  return true;
}

static bool run_data_size(struct request *r, bson_t *reply, struct error *err) {
  struct stats_job j = {.r = r, .reply = reply, .scale = 1};
  const char *ns;
  if (!request_required_str(r, r->name, &ns, err) || !namespace_valid(ns, err)) return false;
  return routed_run(r->op, router_of(r), ns, "dataSize", false, data_size_attempt, &j, err);
}

static bool validate_attempt(struct operation *op, struct router *rt, const struct placement *p, void *ctx,
                             struct error *err) {
  struct stats_job *j = ctx;
  struct shard_call *calls;
  size_t n;
  if (p->kind == PLACE_NOWHERE) {
    return error_set(err, ERR_NamespaceNotFound, "Collection '%s' does not exist to validate.", p->ns);
  }
  if (!ask_all(j, op, rt, p, &calls, &n, err)) return false;
  bool valid = true;
  bson_t raw;
  bson_append_document_begin(j->reply, "raw", -1, &raw);
  for (size_t i = 0; i < n; i++) {
    bson_t one;
    valid = valid && doc_bool(calls[i].reply, "valid", false);
    bson_append_document_begin(&raw, name_of(&calls[i]), -1, &one);
    forward_reply(&one, calls[i].reply);
    bson_append_document_end(&raw, &one);
  }
  bson_append_document_end(j->reply, &raw);
  bson_append_utf8(j->reply, "ns", -1, p->ns, -1);
  bson_append_bool(j->reply, "valid", -1, valid);
  return true;
}

static bool run_validate(struct request *r, bson_t *reply, struct error *err) {
  struct stats_job j = {.r = r, .reply = reply, .scale = 1};
  if (!request_needs_collection(r, err)) return false;
  return routed_run(r->op, router_of(r), r->ns, "validate", false, validate_attempt, &j, err);
}

const struct command router_stats_commands[] = {
    {"collStats", "collstats", CMD_READ, run_coll_stats, "a collection's size, with each shard's part"},
    {"dbStats", "dbstats", CMD_READ, run_db_stats, "a database's size, with each shard's part"},
    {"dataSize", "datasize", CMD_READ, run_data_size, "how much a range of a collection holds"},
    {"validate", NULL, CMD_READ, run_validate, "checks a collection on every shard"},
    {"serverStatus", NULL, CMD_ANY_STATE, run_server_status, "what this router has done and holds"},
    {NULL, NULL, 0, NULL, NULL},
};
