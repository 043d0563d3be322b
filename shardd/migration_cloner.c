// Serving a moving range to its recipient: the clone, then changed documents, then session records.
#include "shardd/migration_cloner.h"

#include <string.h>

#include "common/bson/doc.h"
#include "common/store/scan.h"
#include "shardd/bson_array.h"
#include "shardd/migration_documents.h"
#include "shardd/shard_index.h"

enum {
  // A reply of the clone. They grow with what was sent, so that both sides of a small range work at the same time and a
  // round trip does not matter to a large one.
  CLONE_BATCH_MIN_BYTES = 192 * 1024,
  CLONE_BATCH_MAX_BYTES = 1024 * 1024,
  MODS_BATCH_BYTES = 1024 * 1024, // small, because the last ones go while writes wait
  SESSIONS_BATCH_BYTES = 1024 * 1024,
};

struct cloner {
  struct shard *sh;
  struct collection *collection; // referenced
  struct arena *arena;
  struct capture *capture;
  struct scan *scan; // NULL when it is over
  struct key min, max;
  struct mutex busy;      // one call at a time
  int64_t bytes;          // sent by the clone so far
  const bson_t *sessions; // array; NULL = not read yet
  bson_iter_t next_session;
};

struct cloner *cloner_new(struct shard *sh, const struct cloner_spec *spec) {
  struct arena *a = arena_new();
  struct cloner *c = arena_zalloc(a, sizeof *c); // in its own arena, which aligns it for the iterator
  c->sh = sh;
  c->arena = a;
  c->collection = collection_ref(spec->collection);
  c->min = bound_key(c->arena, spec->min);
  c->max = bound_end(c->arena, spec->max);
  struct key_range *range = arena_alloc(c->arena, sizeof *range);
  *range = shard_index_range(c->arena, spec->min, spec->max);
  c->capture = capture_new(sh->node.store, c->collection->uuid, c->min, c->max);
  c->scan = scan_open(c->arena, c->collection,
                      &(struct scan_spec){.index = spec->index, .ranges = range, .n_ranges = 1, .by_order = true});
  return c;
}

void cloner_free(struct cloner *c) {
  if (!c) return;
  if (c->scan) scan_close(c->scan);
  capture_free(c->capture);
  collection_unref(c->collection);
  arena_free(c->arena);
}

struct capture *cloner_capture(struct cloner *c) {
  return c->capture;
}

int64_t cloner_untransferred(const struct cloner *c) {
  struct collection_stats stats;
  collection_stats(c->collection, &stats);
  int64_t average = stats.count ? stats.bytes / stats.count + 12 : 0;
  return (int64_t)capture_bytes(c->capture) + (int64_t)capture_count(c->capture) * average;
}

// --- the clone ---

// The scan's error, or that of a collection that went away under it.
static bool scan_failed(const struct error *err) {
  return err->code != 0;
}

static int64_t batch_bytes(const struct cloner *c) {
  int64_t n = c->bytes / 4;
  return n < CLONE_BATCH_MIN_BYTES ? CLONE_BATCH_MIN_BYTES : n > CLONE_BATCH_MAX_BYTES ? CLONE_BATCH_MAX_BYTES : n;
}

static bool fill_clone(struct operation *op, struct cloner *c, struct bson_array *out, struct error *err) {
  struct scan_row row;
  size_t full = (size_t)batch_bytes(c);
  while (c->scan && out->bytes < full) {
    if (!scan_next(c->scan, &row, err)) {
      if (scan_failed(err)) return false;
      scan_close(c->scan);
      c->scan = NULL;
      return true;
    }
    const bson_t *doc = scan_document(c->scan, &row);
    if (doc) {
      capture_sent(c->capture, row.rid);
      bson_array_add(out, doc);
      c->bytes += doc->len;
    }
    if (!op_yield_due(op)) continue;
    scan_save(c->scan);
    if (!op_yield(op, err)) return false;
  }
  if (c->scan) scan_save(c->scan);
  return true;
}

bool cloner_clone(struct operation *op, struct cloner *c, bson_t *reply, struct error *err) {
  if (!mutex_lock(op, &c->busy, err)) return false;
  bson_t objects;
  BSON_APPEND_ARRAY_BEGIN(reply, "objects", &objects);
  struct bson_array out = {.bson = &objects};
  bool ok = fill_clone(op, c, &out, err);
  bson_append_array_end(reply, &objects);
  BSON_APPEND_BOOL(reply, "more", c->scan != NULL);
  mutex_unlock(&c->busy);
  return ok;
}

// --- changed documents ---

static bool document_in_range(struct cloner *c, struct arena *a, const bson_t *doc) {
  struct key key;
  struct error err = {0};
  return collection_shard_key_of(c->collection, a, doc, &key, &err) && key_compare(c->min, key) <= 0 &&
         key_compare(key, c->max) < 0;
}

// Takes one changed `_id` and reads its document in the same step: a later change is captured again.
static bool next_mod(struct cloner *c, struct arena *a, struct bson_array *deleted, struct bson_array *reload) {
  bson_value_t id;
  if (!capture_take(c->capture, a, &id)) return false;
  uint32_t file;
  int64_t rid;
  const bson_t *doc;
  if (store_find_id(c->collection, a, &id, &file, &rid, &doc) && document_in_range(c, a, doc)) {
    capture_sent(c->capture, rid);
    bson_array_add(reload, doc);
    return true;
  }
  bson_t gone = BSON_INITIALIZER;
  doc_append_value(&gone, "_id", &id);
  bson_array_add(deleted, &gone);
  bson_destroy(&gone);
  return true;
}

static bool fill_mods(struct operation *op, struct cloner *c, bson_t *reply, struct error *err) {
  bson_t *deleted_docs = arena_bson(op->arena), *reload_docs = arena_bson(op->arena);
  struct bson_array deleted = {.bson = deleted_docs}, reload = {.bson = reload_docs};
  struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
  bool more = true;
  while (deleted.bytes + reload.bytes < MODS_BATCH_BYTES && (more = next_mod(c, a, &deleted, &reload))) {
    arena_reset(a);
    if (!op_yield_if_due(op, err)) return false;
  }
  BSON_APPEND_ARRAY(reply, "deleted", deleted_docs);
  BSON_APPEND_ARRAY(reply, "reload", reload_docs);
  BSON_APPEND_INT64(reply, "size", (int64_t)(deleted.bytes + reload.bytes));
  BSON_APPEND_BOOL(reply, "more", more);
  return true;
}

bool cloner_mods(struct operation *op, struct cloner *c, bson_t *reply, struct error *err) {
  if (!capture_ok(c->capture, err) || !mutex_lock(op, &c->busy, err)) return false;
  bool ok = c->collection->dropped
                ? error_set(err, ERR_NamespaceNotFound, "Collection %s was dropped", c->collection->ns)
                : fill_mods(op, c, reply, err);
  mutex_unlock(&c->busy);
  return ok;
}

// --- retryable writes ---

bool cloner_sessions(struct operation *op, struct cloner *c, bson_t *reply, struct error *err) {
  if (!c->sessions) {
    bson_t *array = arena_bson(c->arena);
    store_sessions_for_range(c->sh->node.store, c->collection, c->min, c->max, array);
    c->sessions = array;
    bson_iter_init(&c->next_session, array);
  }
  bson_t records;
  BSON_APPEND_ARRAY_BEGIN(reply, "oplog", &records);
  struct bson_array out = {.bson = &records};
  bool more = true;
  while (out.bytes < SESSIONS_BATCH_BYTES && (more = bson_iter_next(&c->next_session))) {
    bson_t record;
    iter_doc(&record, &c->next_session);
    bson_array_add(&out, &record);
  }
  bson_append_array_end(reply, &records);
  BSON_APPEND_BOOL(reply, "more", more);
  return true;
}
