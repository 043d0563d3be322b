// Long work in slices: each is an entry of the log, and what it does is a function of the file alone.
#include <string.h>

#include "common/bson/doc.h"
#include "common/bson/path.h"
#include "common/store/table.h"

// --- building an index ---

// Adds one document; false: its key belongs to another document already.
static bool build_document(struct table *t, struct arena *a, struct table_index *i, int64_t rid, const bson_t *doc,
                           struct slice_result *out) {
  struct index_keys keys;
  int32_t failed;
  table_keys(i, a, doc, &keys, &failed);
  if (failed && !out->failed) out->failed = failed;
  if (table_add_keys(t, i, &keys, rid)) return true;
  out->duplicate = true;
  bson_value_t id;
  if (doc_value(doc, "_id", &id)) out->duplicate_id = value_copy(a, &id);
  return false;
}

void table_build(struct table *t, struct arena *a, uint32_t index_id, int64_t after_rid, int64_t n,
                 struct slice_result *out) {
  *out = (struct slice_result){.last_rid = after_rid, .done = true};
  struct table_index *i = table_index(t, index_id);
  if (!i) return;
  sqlite3_stmt *s = table_cursor(t, CURSOR_FORWARD);
  sqlite3_bind_int64(s, 1, after_rid);
  while (out->n < n && db_step(t->db, s)) {
    struct key bytes = column_key(s, 1);
    bson_t doc;
    doc_view(&doc, bytes.data, bytes.len);
    out->last_rid = sqlite3_column_int64(s, 0);
    out->n++;
    out->bytes += (int64_t)bytes.len;
    if (!build_document(t, a, i, out->last_rid, &doc, out)) break;
  }
  out->done = !out->duplicate && out->n < n;
  // A document that was put meanwhile, behind the slices, with a key that one of them had added.
  if (i->conflict) out->duplicate = true;
  table_cursor_back(t, CURSOR_FORWARD, s);
  t->changed = true;
}

// --- deleting a range of the shard key ---

static bool same_direction(const bson_iter_t *a, const bson_iter_t *b) {
  if (BSON_ITER_HOLDS_UTF8(a) || BSON_ITER_HOLDS_UTF8(b)) return BSON_ITER_HOLDS_UTF8(a) && BSON_ITER_HOLDS_UTF8(b);
  return iter_is_number(a) && iter_is_number(b) && (iter_i64(a) < 0) == (iter_i64(b) < 0);
}

static bool begins_with(const bson_t *pattern, const bson_t *shard_key) {
  bson_iter_t p, k;
  if (!bson_iter_init(&p, pattern) || !bson_iter_init(&k, shard_key)) return false;
  while (bson_iter_next(&k)) {
    if (!bson_iter_next(&p) || strcmp(bson_iter_key(&p), bson_iter_key(&k)) != 0 || !same_direction(&p, &k))
      return false;
  }
  return true;
}

struct table_index *table_shard_key_index(const struct table *t) {
  if (bson_empty(t->shard_key)) return NULL;
  for (size_t n = 0; n < t->n_indexes; n++) {
    struct table_index *i = t->indexes[n];
    if (i->ready && !i->conflict && !i->sparse && !i->partial && begins_with(i->pattern, t->shard_key)) return i;
  }
  return NULL;
}

// The first n rids of the range by the index; a document with several keys may come twice.
static size_t rids_by_index(struct table *t, struct table_index *i, struct key min, struct key max, size_t n,
                            int64_t *rids) {
  sqlite3_stmt *s = index_cursor(t, i, CURSOR_FORWARD);
  bind_key(s, 1, min);
  sqlite3_bind_int64(s, 2, 0); // rids begin at 1
  bind_key(s, 3, max.len ? max : KEY_ABOVE_ALL);
  size_t found = 0;
  while (found < n && db_step(t->db, s)) rids[found++] = sqlite3_column_int64(s, 1);
  index_cursor_back(i, CURSOR_FORWARD, s);
  return found;
}

// The same without an index: by looking at every document.
static size_t rids_by_scan(struct table *t, struct key min, struct key max, size_t n, int64_t *rids) {
  sqlite3_stmt *s = table_cursor(t, CURSOR_FORWARD);
  sqlite3_bind_int64(s, 1, 0);
  __attribute__((cleanup(arena_cleanup))) struct arena *scratch = arena_new();
  size_t found = 0;
  while (found < n && db_step(t->db, s)) {
    arena_reset(scratch);
    struct key bytes = column_key(s, 1), key;
    bson_t doc;
    doc_view(&doc, bytes.data, bytes.len);
    if (!path_encode_key(scratch, &doc, t->shard_key, &key, NULL)) continue;
    if (key_compare(key, min) >= 0 && (!max.len || key_compare(key, max) < 0))
      rids[found++] = sqlite3_column_int64(s, 0);
  }
  table_cursor_back(t, CURSOR_FORWARD, s);
  return found;
}

void table_delete_range(struct table *t, struct arena *a, struct key min, struct key max, int64_t n,
                        void (*gone)(void *ctx, int64_t rid, const bson_t *doc), void *ctx, struct slice_result *out) {
  *out = (struct slice_result){0};
  if (n < 0) n = 0;
  if (n > MAX_SLICE) n = MAX_SLICE;
  shard_key_normalize_range(t->shard_key, &min, &max);
  int64_t *rids = arena_alloc(a, (size_t)n * sizeof *rids);
  struct table_index *i = table_shard_key_index(t);
  size_t found = i ? rids_by_index(t, i, min, max, (size_t)n, rids) : rids_by_scan(t, min, max, (size_t)n, rids);
  for (size_t k = 0; k < found; k++) {
    size_t size = table_remove(t, a, rids[k], gone, ctx);
    if (!size) continue;
    out->n++;
    out->bytes += (int64_t)size;
    out->last_rid = rids[k];
  }
  out->done = found < (size_t)n;
}
