// A set of documents and its indexes: making it, loading and saving its definitions, its statements.
#include "common/store/table.h"

#include <stdlib.h>
#include <string.h>

#include "common/bson/doc.h"

// --- names of its SQL tables and meta rows ---

static void documents_name(const struct table *t, char name[40]) {
  (void)snprintf(name, 40, t->prefixed ? "documents_%u" : "documents", t->file);
}

static void index_name(const struct table *t, uint32_t id, char name[40]) {
  if (t->prefixed) {
    (void)snprintf(name, 40, "index_%u_%u", t->file, id);
  } else {
    (void)snprintf(name, 40, "index_%u", id);
  }
}

static void meta_name(const struct table *t, const char *what, char name[40]) {
  if (t->prefixed) {
    (void)snprintf(name, 40, "%u.%s", t->file, what);
  } else {
    (void)snprintf(name, 40, "%s", what);
  }
}

// --- one index ---

struct table_index *table_index(const struct table *t, uint32_t id) {
  for (size_t i = 0; i < t->n_indexes; i++) {
    if (t->indexes[i]->id == id) return t->indexes[i];
  }
  return NULL;
}

static struct table_index *index_new(uint32_t id, const bson_t *spec) {
  struct arena *a = arena_new();
  struct table_index *i = arena_zalloc(a, sizeof *i);
  i->arena = a;
  i->id = id;
  i->spec = arena_bson_copy(a, bson_get_data(spec), spec->len);
  bson_t *key = arena_alloc(a, sizeof *key);
  if (!doc_doc(i->spec, "key", key)) bson_init(key);
  i->pattern = key;
  i->unique = id != 0 && doc_bool(i->spec, "unique", false);
  i->sparse = doc_bool(i->spec, "sparse", false);
  bson_t filter;
  struct error err = {0};
  // The primary has parsed it before it proposed the index; a filter that cannot be parsed here leaves nothing out.
  if (doc_doc(i->spec, "partialFilterExpression", &filter)) i->partial = match_parse(a, &filter, NULL, &err);
  if (id == 0) i->unique = i->ready = true;
  return i;
}

static void index_finalize(struct table_index *i) {
  sqlite3_finalize(i->insert);
  sqlite3_finalize(i->erase);
  i->insert = i->erase = NULL;
  for (int k = 0; k < CURSOR_KINDS; k++) {
    sqlite3_finalize(i->idle[k]);
    i->idle[k] = NULL;
  }
  i->highest.len = 0;
  i->highest_known = false;
}

static void index_free(struct table_index *i) {
  index_finalize(i);
  buf_free(&i->highest);
  arena_free(i->arena);
}

static struct table_index *attach(struct table *t, uint32_t id, const bson_t *spec) {
  struct table_index *i = index_new(id, spec);
  struct table_index **grown = realloc(t->indexes, (t->n_indexes + 1) * sizeof *grown);
  if (!grown) abort();
  t->indexes = grown;
  size_t at = t->n_indexes;
  while (at > 0 && t->indexes[at - 1]->id > id) at--;
  memmove(t->indexes + at + 1, t->indexes + at, (t->n_indexes - at) * sizeof *grown);
  t->indexes[at] = i;
  t->n_indexes++;
  return i;
}

static void create_index_table(struct table *t, const struct table_index *i) {
  char name[40];
  index_name(t, i->id, name);
  db_execf(t->db, "CREATE TABLE %s (key BLOB NOT NULL, rid INTEGER NOT NULL, PRIMARY KEY (%s)) WITHOUT ROWID", name,
           i->unique ? "key" : "key, rid");
}

void table_add_index(struct table *t, uint32_t id, const bson_t *spec) {
  if (table_index(t, id)) return;
  create_index_table(t, attach(t, id, spec));
  t->changed = true;
}

void table_remove_index(struct table *t, uint32_t id) {
  for (size_t at = 0; at < t->n_indexes; at++) {
    if (t->indexes[at]->id != id) continue;
    index_free(t->indexes[at]);
    memmove(t->indexes + at, t->indexes + at + 1, (t->n_indexes - at - 1) * sizeof *t->indexes);
    t->n_indexes--;
    char name[40];
    index_name(t, id, name);
    db_execf(t->db, "DROP TABLE %s", name);
    t->changed = true;
    return;
  }
}

void table_index_ready(struct table *t, uint32_t id) {
  struct table_index *i = table_index(t, id);
  if (!i) return;
  i->ready = true;
  t->changed = true;
}

void table_set_shard_key(struct table *t, const bson_t *key) {
  if (t->shard_key) bson_destroy(t->shard_key);
  t->shard_key = bson_copy(key);
  t->changed = true;
}

// --- all of it ---

void table_definitions(bson_t *out, const uint8_t uuid[16], bool own_id, const bson_t *shard_key) {
  bson_init(out);
  doc_append_uuid(out, "u", uuid);
  BSON_APPEND_BOOL(out, "ownId", own_id);
  BSON_APPEND_DOCUMENT(out, "sk", shard_key);
}

static void clear_definitions(struct table *t) {
  for (size_t i = 0; i < t->n_indexes; i++) index_free(t->indexes[i]);
  free(t->indexes);
  t->indexes = NULL;
  t->n_indexes = 0;
  if (t->shard_key) bson_destroy(t->shard_key);
  t->shard_key = NULL;
}

static void read_index(struct table *t, const bson_t *row) {
  bson_t spec;
  if (!doc_doc(row, "spec", &spec)) return;
  struct table_index *i = attach(t, (uint32_t)doc_i64(row, "id", 0), &spec);
  i->ready = i->ready || doc_bool(row, "ready", false);
  i->multikey = doc_bool(row, "multikey", false);
  i->conflict = doc_bool(row, "conflict", false);
  i->entries = doc_i64(row, "entries", 0);
  i->key_bytes = doc_i64(row, "bytes", 0);
}

void table_define(struct table *t, const bson_t *definitions) {
  clear_definitions(t);
  (void)doc_uuid(definitions, "u", t->uuid);
  t->own_id = doc_bool(definitions, "ownId", false);
  bson_t key, rows;
  t->shard_key = doc_doc(definitions, "sk", &key) ? bson_copy(&key) : bson_new();
  bson_iter_t it;
  if (!doc_doc(definitions, "x", &rows) || !bson_iter_init(&it, &rows)) return;
  while (bson_iter_next(&it)) {
    bson_t row;
    iter_doc(&row, &it);
    read_index(t, &row);
  }
}

static void write_definitions(const struct table *t, bson_t *out) {
  table_definitions(out, t->uuid, t->own_id, t->shard_key);
  bson_t rows, row;
  BSON_APPEND_ARRAY_BEGIN(out, "x", &rows);
  for (size_t n = 0; n < t->n_indexes; n++) {
    const struct table_index *i = t->indexes[n];
    char buffer[16];
    const char *name;
    bson_uint32_to_string((uint32_t)n, &name, buffer, sizeof buffer);
    BSON_APPEND_DOCUMENT_BEGIN(&rows, name, &row);
    BSON_APPEND_INT64(&row, "id", i->id);
    BSON_APPEND_DOCUMENT(&row, "spec", i->spec);
    BSON_APPEND_BOOL(&row, "ready", i->ready);
    BSON_APPEND_BOOL(&row, "multikey", i->multikey);
    BSON_APPEND_BOOL(&row, "conflict", i->conflict);
    BSON_APPEND_INT64(&row, "entries", i->entries);
    BSON_APPEND_INT64(&row, "bytes", i->key_bytes);
    bson_append_document_end(&rows, &row);
  }
  bson_append_array_end(out, &rows);
}

void table_create(struct table *t, const bson_t *definitions) {
  table_define(t, definitions);
  char name[40];
  documents_name(t, name);
  db_execf(t->db, "CREATE TABLE %s (rid INTEGER PRIMARY KEY, doc BLOB NOT NULL)", name);
  for (size_t i = 0; i < t->n_indexes; i++) create_index_table(t, t->indexes[i]);
  t->count = t->bytes = 0;
  t->next_rid = 1;
  t->exists = t->changed = true;
}

bool table_load(struct table *t, struct error *err) {
  char name[40];
  meta_name(t, "definitions", name);
  struct key blob = db_meta_blob(t->db, name);
  bson_t definitions;
  if (!blob.data || !bson_init_static(&definitions, blob.data, blob.len) || !doc_validate(blob.data, blob.len, err)) {
    return error_set(err, ERR_UserDataInconsistent,
                     "%s: the definitions of file %u are damaged: restore the data directory, or empty it and let this "
                     "member sync from its set",
                     t->db->path, t->file);
  }
  table_define(t, &definitions);
  meta_name(t, "count", name);
  t->count = db_meta_i64(t->db, name, 0);
  meta_name(t, "bytes", name);
  t->bytes = db_meta_i64(t->db, name, 0);
  meta_name(t, "next_rid", name);
  t->next_rid = db_meta_i64(t->db, name, 1);
  t->exists = true;
  t->changed = false;
  return true;
}

void table_save(struct table *t) {
  if (!t->changed || !t->exists) return;
  char name[40];
  bson_t definitions;
  write_definitions(t, &definitions);
  meta_name(t, "definitions", name);
  db_meta_set_blob(t->db, name, bson_get_data(&definitions), definitions.len);
  bson_destroy(&definitions);
  meta_name(t, "count", name);
  db_meta_set_i64(t->db, name, t->count);
  meta_name(t, "bytes", name);
  db_meta_set_i64(t->db, name, t->bytes);
  meta_name(t, "next_rid", name);
  db_meta_set_i64(t->db, name, t->next_rid);
  t->changed = false;
  t->dirty_pages = 0;
  for (size_t i = 0; i < t->n_indexes; i++) t->indexes[i]->dirty_pages = 0;
}

void table_drop(struct table *t) {
  if (!t->exists) return;
  table_finalize(t);
  char name[40];
  documents_name(t, name);
  db_execf(t->db, "DROP TABLE %s", name);
  for (size_t i = 0; i < t->n_indexes; i++) {
    index_name(t, t->indexes[i]->id, name);
    db_execf(t->db, "DROP TABLE %s", name);
  }
  static const char *const rows[] = {"definitions", "count", "bytes", "next_rid"};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    meta_name(t, rows[i], name);
    db_meta_remove(t->db, name);
  }
  t->exists = t->changed = false;
}

void table_finalize(struct table *t) {
  sqlite3_finalize(t->insert);
  sqlite3_finalize(t->replace);
  sqlite3_finalize(t->erase);
  t->insert = t->replace = t->erase = NULL;
  for (int k = 0; k < CURSOR_KINDS; k++) {
    sqlite3_finalize(t->idle[k]);
    t->idle[k] = NULL;
  }
  for (size_t i = 0; i < t->n_indexes; i++) index_finalize(t->indexes[i]);
}

void table_free(struct table *t) {
  clear_definitions(t);
}

// --- statements for reading ---

static sqlite3_stmt *take(sqlite3_stmt **idle) {
  sqlite3_stmt *s = *idle;
  *idle = NULL;
  return s;
}

static void give_back(sqlite3_stmt **idle, sqlite3_stmt *s) {
  if (!s) return;
  sqlite3_reset(s);
  if (*idle) {
    sqlite3_finalize(s);
  } else {
    *idle = s;
  }
}

sqlite3_stmt *table_cursor(struct table *t, enum cursor_kind kind) {
  static const char *const sql[CURSOR_KINDS] = {
      [CURSOR_FORWARD] = "SELECT rid, doc FROM %s WHERE rid > ?1 ORDER BY rid",
      [CURSOR_BACKWARD] = "SELECT rid, doc FROM %s WHERE rid < ?1 ORDER BY rid DESC",
      [CURSOR_GET] = "SELECT rid, doc FROM %s WHERE rid = ?1",
  };
  sqlite3_stmt *s = take(&t->idle[kind]);
  if (s) return s;
  char name[40], text[120];
  documents_name(t, name);
  (void)snprintf(text, sizeof text, sql[kind], name);
  return db_prepare(t->db, text);
}

void table_cursor_back(struct table *t, enum cursor_kind kind, sqlite3_stmt *s) {
  give_back(&t->idle[kind], s);
}

sqlite3_stmt *index_cursor(struct table *t, struct table_index *i, enum cursor_kind kind) {
  static const char *const sql[CURSOR_KINDS] = {
      [CURSOR_FORWARD] = "SELECT key, rid FROM %s WHERE (key, rid) > (?1, ?2) AND key < ?3 ORDER BY key, rid",
      [CURSOR_BACKWARD] =
          "SELECT key, rid FROM %s WHERE (key, rid) < (?1, ?2) AND key >= ?3 ORDER BY key DESC, rid DESC",
      [CURSOR_GET] = "SELECT key, rid FROM %s WHERE key = ?1",
  };
  sqlite3_stmt *s = take(&i->idle[kind]);
  if (s) return s;
  char name[40], text[160];
  index_name(t, i->id, name);
  (void)snprintf(text, sizeof text, sql[kind], name);
  return db_prepare(t->db, text);
}

void index_cursor_back(struct table_index *i, enum cursor_kind kind, sqlite3_stmt *s) {
  give_back(&i->idle[kind], s);
}

bool table_get(struct table *t, int64_t rid, sqlite3_stmt **held, struct key *doc) {
  *held = table_cursor(t, CURSOR_GET);
  sqlite3_bind_int64(*held, 1, rid);
  if (!db_step(t->db, *held)) {
    table_cursor_back(t, CURSOR_GET, *held);
    *held = NULL;
    return false;
  }
  *doc = column_key(*held, 1);
  return true;
}

static void know_highest(struct table *t, struct table_index *i) {
  char name[40];
  index_name(t, i->id, name);
  sqlite3_stmt *s = db_preparef(t->db, "SELECT key FROM %s ORDER BY key DESC LIMIT 1", name);
  buf_clear(&i->highest);
  if (db_step(t->db, s)) {
    struct key key = column_key(s, 0);
    buf_add(&i->highest, key.data, key.len);
  }
  sqlite3_finalize(s);
  i->highest_known = true;
}

bool index_may_have(struct table *t, struct table_index *i, struct key key) {
  if (!i->highest_known) know_highest(t, i);
  return key_compare(key, (struct key){i->highest.data, i->highest.len}) <= 0;
}

bool index_get(struct table *t, struct table_index *i, struct key key, int64_t *rid) {
  sqlite3_stmt *s = index_cursor(t, i, CURSOR_GET);
  bind_key(s, 1, key);
  bool found = db_step(t->db, s);
  if (found) *rid = sqlite3_column_int64(s, 1);
  index_cursor_back(i, CURSOR_GET, s);
  return found;
}
