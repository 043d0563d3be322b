// A find on the config server: the first batch and its getMores.
//
// Read-only, so that a failed find is retried on the next primary. A getMore is not: its cursor is gone with the
// primary, and the whole read fails with what happened (the callers retry, from the start).
#include "common/sharding/catalog_scan.h"

#include "common/bson/doc.h"

enum { BATCH_DOCUMENTS = 100000 }; // the 16 MiB of a reply come first

struct scan {
  struct replica_set *config;
  const struct catalog_query *q;
  bool (*fn)(void *ctx, const bson_t *doc, struct error *err);
  void *ctx;
  int64_t cursor_id; // 0 = not begun, or over
};

// Calls fn for each document of a reply's batch.
static bool each_of_batch(struct operation *op, struct scan *s, const bson_t *reply, const char *batch_name,
                          struct error *err) {
  bson_iter_t it, batch;
  if (!doc_get(reply, "cursor", &it) || !bson_iter_recurse(&it, &batch)) {
    return error_set(err, ERR_CommandResultSchemaViolation, "The config server's reply has no cursor");
  }
  s->cursor_id = 0;
  while (bson_iter_next(&batch)) {
    if (strcmp(bson_iter_key(&batch), "id") == 0) s->cursor_id = bson_iter_as_int64(&batch);
    bson_iter_t doc_it;
    if (strcmp(bson_iter_key(&batch), batch_name) != 0 || !bson_iter_recurse(&batch, &doc_it)) continue;
    while (bson_iter_next(&doc_it)) {
      bson_t doc;
      if (!BSON_ITER_HOLDS_DOCUMENT(&doc_it)) {
        return error_set(err, ERR_CommandResultSchemaViolation,
                         "The config server's batch holds something that is no document");
      }
      iter_doc(&doc, &doc_it);
      if (!s->fn(s->ctx, &doc, err) || !op_yield_if_due(op, err)) return false;
    }
  }
  return true;
}

static void build_find(bson_t *find, const struct catalog_query *q) {
  bson_t concern;
  bson_append_utf8(find, "find", -1, q->collection, -1);
  bson_append_document(find, "filter", -1, q->filter);
  if (q->sort) bson_append_document(find, "sort", -1, q->sort);
  if (q->limit > 0) bson_append_int64(find, "limit", -1, q->limit);
  bson_append_int32(find, "batchSize", -1, BATCH_DOCUMENTS);
  bson_append_document_begin(find, "readConcern", -1, &concern);
  bson_append_utf8(&concern, "level", -1, "majority", -1);
  bson_append_document_end(find, &concern);
}

// The find, then a getMore each time.
static bool scan_batch(struct operation *op, void *ctx, bool *more, struct error *err) {
  struct scan *s = ctx;
  bson_t *body = arena_bson(op->arena);
  bool first = s->cursor_id == 0;
  if (first) {
    build_find(body, s->q);
  } else {
    bson_append_int64(body, "getMore", -1, s->cursor_id);
    bson_append_utf8(body, "collection", -1, s->q->collection, -1);
    bson_append_int32(body, "batchSize", -1, BATCH_DOCUMENTS);
  }
  const bson_t *reply;
  if (!replica_set_call_primary(op, s->config, "config", body, 0, first, &reply, err) ||
      !each_of_batch(op, s, reply, first ? "firstBatch" : "nextBatch", err))
    return false;
  *more = s->cursor_id != 0;
  return true;
}

bool catalog_scan(struct operation *op, struct replica_set *config, const struct catalog_query *q,
                  bool (*fn)(void *ctx, const bson_t *doc, struct error *err), void *ctx, struct error *err) {
  struct scan s = {.config = config, .q = q, .fn = fn, .ctx = ctx};
  return op_in_batches(op, scan_batch, &s, err); // a whole table of a million chunks passes here
}
