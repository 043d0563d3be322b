// collStats, dbStats, dataSize, validate.
#include "common/node/stats.h"

#include <string.h>
#include <sys/statvfs.h>

#include "common/bson/doc.h"
#include "common/node/commands.h"
#include "common/node/internal.h"
#include "common/node/reading.h"

bool stats_scale(const bson_t *doc, int64_t *scale, struct error *err) {
  bson_iter_t it;
  *scale = 1;
  if (!doc_get(doc, "scale", &it) || BSON_ITER_HOLDS_NULL(&it)) return true;
  if (!iter_is_number(&it)) return error_set(err, ERR_TypeMismatch, "BSON field 'scale' must be a number");
  *scale = iter_i64(&it);
  return *scale >= 1 ||
         error_set(err, 51024, "BSON field 'scale' value must be >= 1, actual value '%lld'", (long long)*scale);
}

static void append_index_sizes(const struct collection *c, int64_t scale, bson_t *out) {
  bson_t sizes, building;
  uint32_t n = 0;
  BSON_APPEND_ARRAY_BEGIN(out, "indexBuilds", &building);
  for (size_t i = 0; i < c->n_indexes; i++) {
    if (c->indexes[i]->ready) continue;
    char text[16];
    const char *key;
    bson_uint32_to_string(n++, &key, text, sizeof text);
    BSON_APPEND_UTF8(&building, key, c->indexes[i]->name);
  }
  bson_append_array_end(out, &building);
  BSON_APPEND_DOCUMENT_BEGIN(out, "indexSizes", &sizes);
  for (size_t i = 0; i < c->n_indexes; i++) {
    doc_append_num(&sizes, c->indexes[i]->name, collection_index_bytes(c, c->indexes[i]) / scale);
  }
  bson_append_document_end(out, &sizes);
}

void storage_stats_append(struct node *n, const struct collection *c, int64_t scale, bson_t *out) {
  struct collection_stats s = {0};
  if (c) collection_stats(c, &s);
  doc_append_num(out, "size", s.bytes / scale);
  doc_append_num(out, "count", s.count);
  if (s.count) doc_append_num(out, "avgObjSize", s.bytes / s.count);
  if (n->hooks.collection_stats && c) {
    n->hooks.collection_stats(n->hooks.ctx, c, out);
  } else {
    BSON_APPEND_INT32(out, "numOrphanDocs", 0);
  }
  doc_append_num(out, "storageSize", s.storage_bytes / scale);
  doc_append_num(out, "freeStorageSize", 0);
  BSON_APPEND_BOOL(out, "capped", false);
  BSON_APPEND_INT32(out, "nindexes", c ? (int32_t)c->n_indexes : 0);
  if (c) {
    append_index_sizes(c, scale, out);
  } else {
    BSON_APPEND_DOCUMENT(out, "indexSizes", &(bson_t)BSON_INITIALIZER);
  }
  doc_append_num(out, "totalIndexSize", s.index_bytes / scale);
  doc_append_num(out, "totalSize", (s.storage_bytes + s.index_bytes) / scale);
  doc_append_num(out, "scaleFactor", scale);
}

bool coll_stats_run(struct request *r, bson_t *reply, struct error *err) {
  struct node *n = request_node(r);
  int64_t scale;
  struct access *access;
  if (!request_needs_collection(r, err) || !stats_scale(r->body, &scale, err) ||
      !node_enter(r, r->op->arena, r->ns, false, &access, err)) {
    return false;
  }
  BSON_APPEND_UTF8(reply, "ns", r->ns);
  if (virtual_is(r->ns))
    virtual_storage_stats(n, r->ns, scale, reply);
  else
    storage_stats_append(n, store_collection(n->store, r->ns), scale, reply);
  return true;
}

// --- dbStats ---

struct database_totals {
  const char *db;
  int64_t collections, objects, bytes, storage, indexes, index_bytes;
};

static bool add_collection(void *ctx, struct collection *c) {
  struct database_totals *t = ctx;
  if (strcmp(c->db, t->db)) return true;
  struct collection_stats s;
  collection_stats(c, &s);
  t->collections++;
  t->objects += s.count;
  t->bytes += s.bytes;
  t->storage += s.storage_bytes;
  t->indexes += (int64_t)c->n_indexes;
  t->index_bytes += s.index_bytes;
  return true;
}

static void append_file_system(const struct node *n, int64_t scale, bson_t *reply) {
  struct statvfs fs;
  const char *dbpath = n->own->dbpath;
  if (statvfs(dbpath, &fs)) return;
  double total = (double)fs.f_blocks * (double)fs.f_frsize, unused = (double)fs.f_bfree * (double)fs.f_frsize;
  BSON_APPEND_DOUBLE(reply, "fsUsedSize", (total - unused) / (double)scale);
  BSON_APPEND_DOUBLE(reply, "fsTotalSize", total / (double)scale);
}

bool db_stats_run(struct request *r, bson_t *reply, struct error *err) {
  struct node *n = request_node(r);
  int64_t scale;
  if (!stats_scale(r->body, &scale, err)) return false;
  struct database_totals t = {.db = r->db};
  store_each_collection(n->store, add_collection, &t);
  double by = (double)scale;
  BSON_APPEND_UTF8(reply, "db", r->db);
  BSON_APPEND_INT64(reply, "collections", t.collections);
  BSON_APPEND_INT64(reply, "views", 0);
  BSON_APPEND_INT64(reply, "objects", t.objects);
  BSON_APPEND_DOUBLE(reply, "avgObjSize", t.objects ? (double)t.bytes / (double)t.objects : 0);
  BSON_APPEND_DOUBLE(reply, "dataSize", (double)t.bytes / by);
  BSON_APPEND_DOUBLE(reply, "storageSize", (double)t.storage / by);
  BSON_APPEND_INT64(reply, "indexes", t.indexes);
  BSON_APPEND_DOUBLE(reply, "indexSize", (double)t.index_bytes / by);
  BSON_APPEND_DOUBLE(reply, "totalSize", (double)(t.storage + t.index_bytes) / by);
  doc_append_num(reply, "scaleFactor", scale);
  append_file_system(n, scale, reply);
  return true;
}

// --- dataSize ---

// {dataSize: ns, keyPattern?, min?, max?, estimate?}: the documents in a range of an index.
static bool range_filter(struct arena *a, const bson_t *body, const bson_t **filter, struct error *err) {
  const bson_t *min, *max;
  bson_t *out = arena_bson(a);
  bson_iter_t it;
  if (!optional_doc(a, body, "min", false, &min, err) || !optional_doc(a, body, "max", false, &max, err)) return false;
  *filter = out;
  if (!min && !max) return true;
  if (!min || !max) return error_set(err, ERR_BadValue, "min and max must be given together");
  if (bson_count_keys(min) != 1 || bson_count_keys(max) != 1) {
    return error_set(err, ERR_CommandNotSupported, "dataSize over a compound key range is not supported");
  }
  bson_t bounds;
  bson_iter_init(&it, min);
  bson_iter_next(&it);
  BSON_APPEND_DOCUMENT_BEGIN(out, bson_iter_key(&it), &bounds);
  doc_append_iter(&bounds, "$gte", &it);
  bson_iter_init(&it, max);
  bson_iter_next(&it);
  doc_append_iter(&bounds, "$lt", &it);
  bson_append_document_end(out, &bounds);
  return true;
}

bool data_size_run(struct request *r, bson_t *reply, struct error *err) {
  bson_iter_t first = r->first;
  const char *ns = BSON_ITER_HOLDS_UTF8(&first) ? bson_iter_utf8(&first, NULL) : NULL;
  struct reading x = {0};
  const bson_t *filter;
  if (!ns) return error_set(err, ERR_TypeMismatch, "Field 'dataSize' must be a namespace");
  if (!namespace_valid(ns, err) || !range_filter(r->op->arena, r->body, &filter, err) ||
      !query_of_filter(r->op->arena, filter, &x.query, err) || !reading_open(r, r->op->arena, ns, &x, err)) {
    return false;
  }
  int64_t bytes = 0, objects = 0;
  for (;;) {
    const bson_t *doc;
    if (!reading_next(r->op, &x, &doc, err)) return false;
    if (!doc) break;
    bytes += doc->len;
    objects++;
  }
  BSON_APPEND_BOOL(reply, "estimate", false);
  BSON_APPEND_INT64(reply, "size", bytes);
  BSON_APPEND_INT64(reply, "numObjects", objects);
  return true;
}

// --- validate: reads every document through every index ---

static bool count_by_index(struct request *r, struct collection *c, const struct index *i, int64_t *n,
                           struct error *err) {
  struct query *q = arena_zalloc(r->op->arena, sizeof *q);
  struct plan *p = arena_zalloc(r->op->arena, sizeof *p);
  if (!query_of_filter(r->op->arena, NULL, q, err)) return false;
  q->hint_name = i ? i->name : NULL;
  q->natural = i ? 0 : 1;
  if (!plan_choose(r->op->arena, c, q, NULL, p, err)) return false;
  struct executor *e = executor_open(r->op->arena, request_node(r), c, q, p, NULL, err);
  if (!e) return false;
  struct exec_row row;
  enum exec_status status;
  for (*n = 0; (status = executor_next(e, r->op, &row, err)) != EXEC_END;) {
    if (status == EXEC_ERROR || (status == EXEC_PAUSE && !executor_pause(r->op, e, err))) return false;
    if (status == EXEC_ROW) (*n)++;
  }
  executor_close(e);
  return true;
}

static void append_text(bson_t *array, const char *text) {
  char number[16];
  const char *key;
  bson_uint32_to_string(bson_count_keys(array), &key, number, sizeof number);
  BSON_APPEND_UTF8(array, key, text);
}

bool validate_run(struct request *r, bson_t *reply, struct error *err) {
  struct node *n = request_node(r);
  if (!request_needs_collection(r, err)) return false;
  struct collection *c = store_collection(n->store, r->ns);
  if (!c) return error_set(err, ERR_NamespaceNotFound, "Collection '%s' does not exist to validate.", r->ns);
  c = collection_hold(r->op->arena, c);
  int64_t records, keys;
  uint64_t from = repl_last_applied(n->repl).index;
  if (!count_by_index(r, c, NULL, &records, err)) return false;
  bson_t *per_index = arena_bson(r->op->arena), *warnings = arena_bson(r->op->arena),
         *errors = arena_bson(r->op->arena);
  for (size_t i = 0; i < c->n_indexes; i++) {
    const struct index *x = c->indexes[i];
    if (!x->ready) continue;
    if (!count_by_index(r, c, x, &keys, err)) return false;
    doc_append_num(per_index, x->name, keys);
    if (x->sparse || x->partial_filter || keys == records) continue;
    // Counts of different moments agree only when nothing was written between them.
    bool comparable = repl_last_applied(n->repl).index == from;
    append_text(comparable ? errors : warnings,
                arena_printf(r->op->arena, "index %s gives %lld of %lld documents%s", x->name, (long long)keys,
                             (long long)records, comparable ? "" : ", counted while others wrote"));
  }
  BSON_APPEND_UTF8(reply, "ns", c->ns);
  doc_append_num(reply, "nInvalidDocuments", 0);
  doc_append_num(reply, "nrecords", records);
  BSON_APPEND_INT32(reply, "nIndexes", (int32_t)c->n_indexes);
  BSON_APPEND_DOCUMENT(reply, "keysPerIndex", per_index);
  BSON_APPEND_BOOL(reply, "valid", bson_empty(errors));
  BSON_APPEND_ARRAY(reply, "warnings", warnings);
  BSON_APPEND_ARRAY(reply, "errors", errors);
  return true;
}

const struct command node_stats_commands[] = {
    {"collStats", "collstats", CMD_READ | CMD_VERSIONED, coll_stats_run, "sizes and counts of a collection"},
    {"dbStats", "dbstats", CMD_READ, db_stats_run, "sizes and counts of a database"},
    {"dataSize", "datasize", CMD_READ | CMD_VERSIONED, data_size_run, "the size of a range of documents"},
    {"validate", NULL, CMD_READ, validate_run, "reads a collection through each of its indexes"},
    {"serverStatus", NULL, CMD_ANY_STATE, server_status_run, "counters of this process"},
    {0},
};
