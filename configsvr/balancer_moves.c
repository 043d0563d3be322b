// Carrying out what the policy chose: migrations, and what follows from those that failed.
#include "configsvr/balancer_moves.h"

#include <string.h>

#include "common/base/log.h"
#include "common/bson/doc.h"
#include "configsvr/move_request.h"

enum {
  MIGRATION_TIMEOUT_MS = 7 * 3600 * 1000, // a donor gives up by itself after six hours of catching up
};

struct batch {
  struct balancer_term *term;
  const struct balancer_view *view;
  struct ordered_move *list;
};

static void run_one(struct operation *op, size_t i, void *ctx) {
  struct batch *b = ctx;
  struct ordered_move *m = &b->list[i];
  struct move_request q = {.collection = m->collection,
                           .from = m->from,
                           .to = m->to,
                           .min = m->min,
                           .max = m->whole ? m->max : NULL,
                           .chunk_bytes = m->chunk_bytes,
                           .force_jumbo = m->force_jumbo,
                           .wait_for_delete = b->view->settings.wait_for_delete,
                           .has_secondary_throttle = true,
                           .secondary_throttle = b->view->settings.secondary_throttle};
  const bson_t *reply;
  m->ok = view_shard_call(op, b->term, m->from, "admin", move_request_command(op->arena, &q), MIGRATION_TIMEOUT_MS,
                          &reply, &m->err);
}

// --- after a failure ---

bool moves_split(struct operation *op, struct balancer_term *term, const struct collection_type *coll,
                 const char *shard, const bson_t *min, const bson_t *max, const bson_t *const *keys, size_t n,
                 struct error *err) {
  bson_t *body = arena_bson(op->arena), array;
  bson_append_utf8(body, "splitChunk", -1, coll->ns, -1);
  bson_append_utf8(body, "from", -1, shard, -1);
  bson_append_document(body, "keyPattern", -1, coll->key);
  bson_append_oid(body, "epoch", -1, &coll->epoch);
  doc_append_ts(body, "timestamp", coll->timestamp);
  bson_append_document(body, "min", -1, min);
  bson_append_document(body, "max", -1, max);
  bson_append_array_begin(body, "splitKeys", -1, &array);
  for (size_t i = 0; i < n; i++) bson_append_document(&array, arena_printf(op->arena, "%zu", i), -1, keys[i]);
  bson_append_array_end(body, &array);
  const bson_t *reply;
  return view_shard_call(op, term, shard, "admin", body, VIEW_CALL_TIMEOUT_MS, &reply, err);
}

// One point at which the chunk can be cut; NULL without an error: there is none.
static bool find_split_point(struct operation *op, struct balancer_term *term, const struct ordered_move *m,
                             const bson_t **key, struct error *err) {
  const char *ns = m->collection->ns, *dot = strchr(ns, '.');
  bson_t *body = arena_bson(op->arena), keys;
  bson_append_utf8(body, "autoSplitVector", -1, dot + 1, -1);
  bson_append_document(body, "keyPattern", -1, m->collection->key);
  bson_append_document(body, "min", -1, m->min);
  bson_append_document(body, "max", -1, m->max);
  bson_append_int64(body, "maxChunkSizeBytes", -1, m->chunk_bytes);
  bson_append_int32(body, "limit", -1, 1);
  const bson_t *reply;
  *key = NULL;
  const char *db = arena_strndup(op->arena, ns, (size_t)(dot - ns));
  if (!view_shard_call(op, term, m->from, db, body, VIEW_CALL_TIMEOUT_MS, &reply, err)) return false;
  bson_iter_t it;
  if (!doc_doc(reply, "splitKeys", &keys) || !bson_iter_init(&it, &keys) || !bson_iter_next(&it)) return true;
  bson_t first;
  iter_doc(&first, &it);
  *key = doc_copy(op->arena, &first);
  return true;
}

// One field of one catalog document, set over the wire as an operator would.
static bool set_field(struct operation *op, struct balancer_term *term, const char *collection, const bson_t *filter,
                      const char *field, struct error *err) {
  bson_t *body = arena_bson(op->arena), updates, one, u, set;
  bson_append_utf8(body, "update", -1, collection, -1);
  bson_append_array_begin(body, "updates", -1, &updates);
  bson_append_document_begin(&updates, "0", 1, &one);
  bson_append_document(&one, "q", 1, filter);
  bson_append_document_begin(&one, "u", 1, &u);
  bson_append_document_begin(&u, "$set", -1, &set);
  bson_append_bool(&set, field, -1, true);
  bson_append_document_end(&u, &set);
  bson_append_document_end(&one, &u);
  bson_append_document_end(&updates, &one);
  bson_append_array_end(body, &updates);
  append_majority(body);
  const bson_t *reply;
  return view_config_call(op, term, "config", body, &reply, err);
}

static bool mark_jumbo(struct operation *op, struct balancer_term *term, const struct ordered_move *m,
                       struct error *err) {
  bson_t *filter = arena_bson(op->arena);
  doc_append_uuid(filter, "uuid", m->collection->uuid);
  bson_append_document(filter, "min", -1, m->min);
  bson_append_document(filter, "max", -1, m->max);
  if (!set_field(op, term, "chunks", filter, "jumbo", err)) return false;
  view_forget(term, m->collection->ns); // the flag comes without a new version
  log_info("BALANCER", "Marking chunk as jumbo", "namespace:s min:b max:b shard:s", m->collection->ns, m->min, m->max,
           m->from);
  return true;
}

static void split_or_mark(struct operation *op, struct balancer_term *term, const struct ordered_move *m) {
  struct error err = {0};
  const bson_t *key;
  bool ok = find_split_point(op, term, m, &key, &err);
  if (ok && key) {
    log_info("BALANCER", "Splitting a chunk that was too big to move", "namespace:s min:b max:b at:b",
             m->collection->ns, m->min, m->max, key);
    ok = moves_split(op, term, m->collection, m->from, m->min, m->max, &key, 1, &err);
  } else if (ok) {
    ok = mark_jumbo(op, term, m, &err);
  }
  if (!ok)
    log_warn("BALANCER", "Unable to split a chunk or mark it as jumbo", "namespace:s min:b error:e", m->collection->ns,
             m->min, &err);
}

static void stop_balancing(struct operation *op, struct balancer_term *term, const struct ordered_move *m) {
  bson_t *filter = arena_bson(op->arena);
  struct error err = {0};
  bson_append_utf8(filter, "_id", -1, m->collection->ns, -1);
  log_warn("BALANCER", "Turning off balancing for a hashed collection whose shard key index is missing", "namespace:s",
           m->collection->ns);
  if (!set_field(op, term, "collections", filter, "noBalance", &err)) {
    log_warn("BALANCER", "Unable to turn off balancing for a collection", "namespace:s error:e", m->collection->ns,
             &err);
  }
}

static bool is_hashed(const bson_t *key) {
  bson_iter_t it;
  bson_iter_init(&it, key);
  while (bson_iter_next(&it)) {
    if (BSON_ITER_HOLDS_UTF8(&it)) return true;
  }
  return false;
}

static void after_failure(struct operation *op, struct balancer_term *term, const struct ordered_move *m) {
  if (m->err.code == ERR_ChunkTooBig || m->err.code == ERR_ExceededMemoryLimit) {
    split_or_mark(op, term, m);
  } else if (m->err.code == ERR_IndexNotFound && is_hashed(m->collection->key)) {
    stop_balancing(op, term, m);
  } else {
    log_warn("BALANCER", "Migration failed", "namespace:s min:b from:s to:s error:e", m->collection->ns, m->min,
             m->from, m->to, &m->err);
  }
}

size_t moves_run(struct operation *op, struct balancer_term *term, const struct balancer_view *v,
                 struct ordered_move *list, size_t n) {
  struct batch b = {term, v, list};
  for (size_t i = 0; i < n; i++) {
    log_info("BALANCER", "Balancer moves a range", "namespace:s min:b from:s to:s reason:s", list[i].collection->ns,
             list[i].min, list[i].from, list[i].to, move_reason_text(list[i].reason));
  }
  op_parallel(op, n, run_one, &b);
  size_t succeeded = 0;
  struct error err = {0};
  for (size_t i = 0; i < n; i++) {
    succeeded += list[i].ok;
    if (!list[i].ok && op_check(op, &err)) after_failure(op, term, &list[i]);
  }
  return succeeded;
}
