// Putting and deleting documents together with their index rows; slices of index builds and of range deletions.
//
// None of it fails: the primary has checked what can be wrong with a document before it proposed it. Should a key of a
// unique index be there already nevertheless, the row that is there stays, and the index is marked (conflict).
#include <math.h>
#include <string.h>

#include "common/bson/doc.h"
#include "common/store/table.h"

enum { PAGE = 4096, ROW_OVERHEAD = 16 };

size_t dirty_estimate(double *dirty_pages, int64_t bytes) {
  double pages = (double)bytes * 1.5 / PAGE + 1; // B-tree pages are about two thirds full
  double clean = 1 - *dirty_pages / pages;
  if (clean <= 0) return 0;
  *dirty_pages += clean;
  return (size_t)(clean * PAGE);
}

// --- statements ---

static sqlite3_stmt *document_statement(struct table *t, sqlite3_stmt **s, const char *sql) {
  if (!*s) {
    *s = t->prefixed ? db_preparef(t->db, sql, t->file) : db_prepare(t->db, sql);
  }
  return *s;
}

static sqlite3_stmt *inserting(struct table *t) {
  return document_statement(
      t, &t->insert, t->prefixed ? "INSERT INTO documents_%u VALUES (?, ?)" : "INSERT INTO documents VALUES (?, ?)");
}

static sqlite3_stmt *replacing(struct table *t) {
  return document_statement(t, &t->replace,
                            t->prefixed ? "UPDATE documents_%u SET doc = ?2 WHERE rid = ?1"
                                        : "UPDATE documents SET doc = ?2 WHERE rid = ?1");
}

static sqlite3_stmt *erasing(struct table *t) {
  return document_statement(
      t, &t->erase, t->prefixed ? "DELETE FROM documents_%u WHERE rid = ?" : "DELETE FROM documents WHERE rid = ?");
}

// --- index rows ---

void table_keys(const struct table_index *i, struct arena *a, const bson_t *doc, struct index_keys *out,
                int32_t *failed) {
  *failed = 0;
  struct error err = {0};
  if (i->partial && !match_doc(i->partial, doc)) {
    *out = (struct index_keys){0};
    return;
  }
  if (!index_keys_of(a, i->pattern, doc, out, &err)) {
    *failed = err.code;
    *out = (struct index_keys){0};
    return;
  }
  if (i->sparse && out->all_missing) *out = (struct index_keys){0};
}

static size_t note_key(struct table_index *i, struct key k) {
  bool append = i->highest.len && key_compare(k, (struct key){i->highest.data, i->highest.len}) > 0;
  if (append || !i->highest.len) {
    buf_clear(&i->highest);
    buf_add(&i->highest, k.data, k.len);
  }
  return k.len + ROW_OVERHEAD +
         (append ? 0 : dirty_estimate(&i->dirty_pages, i->key_bytes + i->entries * ROW_OVERHEAD));
}

// false: a unique key that another document has.
static bool insert_key(struct table *t, struct table_index *i, struct key k, int64_t rid) {
  if (!i->insert) {
    i->insert = t->prefixed ? db_preparef(t->db, "INSERT INTO index_%u_%u VALUES (?, ?)", t->file, i->id)
                            : db_preparef(t->db, "INSERT INTO index_%u VALUES (?, ?)", i->id);
  }
  bind_key(i->insert, 1, k);
  sqlite3_bind_int64(i->insert, 2, rid);
  t->db->dirty_bytes += note_key(i, k);
  if (!db_run_unique(t->db, i->insert)) {
    // Not unique: the very row is there, which a build slice has added before.
    int64_t owner;
    return !i->unique || (index_get(t, i, k, &owner) && owner == rid);
  }
  i->entries++;
  i->key_bytes += (int64_t)k.len;
  return true;
}

static void erase_key(struct table *t, struct table_index *i, struct key k, int64_t rid) {
  if (!i->erase) {
    i->erase = t->prefixed ? db_preparef(t->db, "DELETE FROM index_%u_%u WHERE key = ? AND rid = ?", t->file, i->id)
                           : db_preparef(t->db, "DELETE FROM index_%u WHERE key = ? AND rid = ?", i->id);
  }
  bind_key(i->erase, 1, k);
  sqlite3_bind_int64(i->erase, 2, rid);
  db_run(t->db, i->erase);
  if (sqlite3_changes(t->db->sql) == 0) return;
  t->db->dirty_bytes += ROW_OVERHEAD + dirty_estimate(&i->dirty_pages, i->key_bytes + i->entries * ROW_OVERHEAD);
  i->entries--;
  i->key_bytes -= (int64_t)k.len;
}

bool table_add_keys(struct table *t, struct table_index *i, const struct index_keys *keys, int64_t rid) {
  if (keys->multikey) i->multikey = true;
  bool all = true;
  for (size_t n = 0; n < keys->n; n++) all = insert_key(t, i, keys->keys[n], rid) && all;
  if (!all) i->conflict = true;
  return all;
}

// Both are sorted: what only one of them has goes, or comes.
static void change_keys(struct table *t, struct table_index *i, const struct index_keys *old,
                        const struct index_keys *new, int64_t rid) {
  if (new->multikey) i->multikey = true;
  size_t o = 0, n = 0;
  while (o < old->n || n < new->n) {
    int order = o == old->n ? 1 : n == new->n ? -1 : key_compare(old->keys[o], new->keys[n]);
    if (order < 0) {
      erase_key(t, i, old->keys[o++], rid);
    } else if (order > 0) {
      if (!insert_key(t, i, new->keys[n++], rid)) i->conflict = true;
    } else {
      o++;
      n++;
    }
  }
}

// --- documents ---

static void insert_document(struct table *t, struct arena *a, int64_t rid, const bson_t *doc) {
  sqlite3_stmt *s = inserting(t);
  sqlite3_bind_int64(s, 1, rid);
  bind_blob(s, 2, bson_get_data(doc), doc->len);
  db_run(t->db, s);
  for (size_t n = 0; n < t->n_indexes; n++) {
    struct index_keys keys;
    int32_t failed;
    table_keys(t->indexes[n], a, doc, &keys, &failed);
    (void)table_add_keys(t, t->indexes[n], &keys, rid);
  }
  t->count++;
  t->bytes += doc->len;
  t->db->dirty_bytes += doc->len + ROW_OVERHEAD;
  if (rid >= t->next_rid) t->next_rid = rid + 1;
}

static void replace_document(struct table *t, struct arena *a, int64_t rid, const bson_t *old, const bson_t *doc) {
  for (size_t n = 0; n < t->n_indexes; n++) {
    struct table_index *i = t->indexes[n];
    if (i->id == 0) continue; // the _id of a document never changes
    struct index_keys before, after;
    int32_t failed;
    table_keys(i, a, old, &before, &failed);
    table_keys(i, a, doc, &after, &failed);
    change_keys(t, i, &before, &after, rid);
  }
  sqlite3_stmt *s = replacing(t);
  sqlite3_bind_int64(s, 1, rid);
  bind_blob(s, 2, bson_get_data(doc), doc->len);
  db_run(t->db, s);
  t->bytes += (int64_t)doc->len - (int64_t)old->len;
  t->db->dirty_bytes += doc->len + dirty_estimate(&t->dirty_pages, t->bytes);
}

bool table_put(struct table *t, struct arena *a, int64_t rid, const bson_t *doc) {
  t->changed = true;
  sqlite3_stmt *held = NULL;
  struct key bytes;
  // A rid at or above next_rid was never here: no need to look.
  if (rid >= t->next_rid || !table_get(t, rid, &held, &bytes)) {
    insert_document(t, a, rid, doc);
    return false;
  }
  bson_t old;
  doc_view(&old, bytes.data, bytes.len);
  replace_document(t, a, rid, &old, doc);
  table_cursor_back(t, CURSOR_GET, held);
  return true;
}

size_t table_remove(struct table *t, struct arena *a, int64_t rid,
                    void (*gone)(void *ctx, int64_t rid, const bson_t *doc), void *ctx) {
  sqlite3_stmt *held;
  struct key bytes;
  if (!table_get(t, rid, &held, &bytes)) return 0;
  bson_t doc;
  doc_view(&doc, bytes.data, bytes.len);
  for (size_t n = 0; n < t->n_indexes; n++) {
    struct index_keys keys;
    int32_t failed;
    table_keys(t->indexes[n], a, &doc, &keys, &failed);
    for (size_t k = 0; k < keys.n; k++) erase_key(t, t->indexes[n], keys.keys[k], rid);
  }
  if (gone) gone(ctx, rid, &doc);
  size_t size = doc.len;
  table_cursor_back(t, CURSOR_GET, held);
  sqlite3_stmt *s = erasing(t);
  sqlite3_bind_int64(s, 1, rid);
  db_run(t->db, s);
  t->count--;
  t->bytes -= (int64_t)size;
  t->db->dirty_bytes += dirty_estimate(&t->dirty_pages, t->bytes);
  t->changed = true;
  return size;
}
