// A find on the config server: the first batch and its getMores.
//
// Read-only, so that a failed find is retried on the next primary. A getMore is not: its cursor is gone with the
// primary, and the whole read fails with what happened (the callers retry, from the start).
#include "common/sharding/catalog_scan.h"

#include "common/bson/doc.h"

enum { BATCH_DOCUMENTS = 100000 }; // the 16 MiB of a reply come first

// Calls fn for each document of a reply's batch; *cursor_id 0 at the end.
static bool each_of_batch(struct operation *op, const bson_t *reply, const char *batch_name,
                          bool (*fn)(void *ctx, const bson_t *doc, struct error *err), void *ctx, int64_t *cursor_id,
                          struct error *err) {
  bson_iter_t it, batch;
  if (!doc_get(reply, "cursor", &it) || !bson_iter_recurse(&it, &batch)) {
    return error_set(err, ERR_CommandResultSchemaViolation, "The config server's reply has no cursor");
  }
  *cursor_id = 0;
  while (bson_iter_next(&batch)) {
    if (strcmp(bson_iter_key(&batch), "id") == 0) *cursor_id = bson_iter_as_int64(&batch);
    bson_iter_t doc_it;
    if (strcmp(bson_iter_key(&batch), batch_name) != 0 || !bson_iter_recurse(&batch, &doc_it)) continue;
    while (bson_iter_next(&doc_it)) {
      const uint8_t *data = NULL;
      uint32_t len = 0;
      bson_t doc;
      if (BSON_ITER_HOLDS_DOCUMENT(&doc_it)) bson_iter_document(&doc_it, &len, &data);
      if (!data || !bson_init_static(&doc, data, len)) {
        return error_set(err, ERR_CommandResultSchemaViolation,
                         "The config server's batch holds something that is no document");
      }
      if (!fn(ctx, &doc, err) || !op_yield_if_due(op, err)) return false;
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

// One round: the command that *cursor_id asks for, in memory of its own.
static bool scan_batch(struct operation *op, struct replica_set *config, const struct catalog_query *q,
                       int64_t *cursor_id, bool first, bool (*fn)(void *ctx, const bson_t *doc, struct error *err),
                       void *ctx, struct error *err) {
  bson_t *body = arena_bson(op->arena);
  if (first) {
    build_find(body, q);
  } else {
    bson_append_int64(body, "getMore", -1, *cursor_id);
    bson_append_utf8(body, "collection", -1, q->collection, -1);
    bson_append_int32(body, "batchSize", -1, BATCH_DOCUMENTS);
  }
  struct remote_command cmd = {.db = "config", .body = body};
  const bson_t *reply;
  const char *host;
  return replica_set_call(op, config, READ_PRIMARY, NULL, first, &cmd, &reply, &host, err) &&
         each_of_batch(op, reply, first ? "firstBatch" : "nextBatch", fn, ctx, cursor_id, err);
}

bool catalog_scan(struct operation *op, struct replica_set *config, const struct catalog_query *q,
                  bool (*fn)(void *ctx, const bson_t *doc, struct error *err), void *ctx, struct error *err) {
  struct arena *operations = op->arena;
  int64_t cursor_id = 0;
  bool ok, first = true;
  do {
    // A whole table of a million chunks passes here: the replies must not pile up in the operation's arena.
    op->arena = arena_new();
    ok = scan_batch(op, config, q, &cursor_id, first, fn, ctx, err);
    if (!ok && err->extra) error_copy(err, err, operations);
    arena_free(op->arena);
    first = false;
  } while (ok && cursor_id != 0);
  op->arena = operations;
  return ok;
}
