// catalog.sqlite: what is written of collections, indexes, files and intervals.
//
//   collections(uuid, ns, options, shard_key, next_index, ids_since)     indexes(uuid, id, spec, ready)
//   files(id, uuid, state, created, definitions, min, max)               intervals(uuid, min, file)
//   stale_ids(n, uuid, file): ids_purge.c    statements(...): sessions.c    local(name, value): store.c          meta:
//   format, role, applied, snapshot, next_file
//
// definitions is what a file was made with (file.c says why); min and max are those of the range it was staged for.
#include <stdlib.h>
#include <string.h>

#include "common/bson/doc.h"
#include "common/store/internal.h"

enum { FORMAT = 1 };

static const char schema[] =
    "CREATE TABLE collections (uuid BLOB PRIMARY KEY, ns TEXT NOT NULL, options BLOB NOT NULL, shard_key BLOB NOT NULL,"
    "  next_index INTEGER NOT NULL, ids_since INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TABLE indexes (uuid BLOB NOT NULL, id INTEGER NOT NULL, spec BLOB NOT NULL, ready INTEGER NOT NULL,"
    "  PRIMARY KEY (uuid, id)) WITHOUT ROWID;"
    "CREATE TABLE files (id INTEGER PRIMARY KEY, uuid BLOB NOT NULL, state INTEGER NOT NULL, created INTEGER NOT NULL,"
    "  definitions BLOB NOT NULL, min BLOB NOT NULL, max BLOB NOT NULL);"
    "CREATE TABLE intervals (uuid BLOB NOT NULL, min BLOB NOT NULL, file INTEGER NOT NULL, PRIMARY KEY (uuid, min)) "
    "WITHOUT ROWID;"
    "CREATE TABLE statements (lsid BLOB NOT NULL, stmt INTEGER NOT NULL, txn INTEGER NOT NULL, wall INTEGER NOT NULL,"
    "  reply BLOB NOT NULL, uuid BLOB, key BLOB, PRIMARY KEY (lsid, stmt)) WITHOUT ROWID;"
    "CREATE TABLE stale_ids (n INTEGER PRIMARY KEY, uuid BLOB NOT NULL, file INTEGER NOT NULL);"
    "CREATE TABLE local (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;";

static struct key uuid_key(const uint8_t uuid[16]) {
  return (struct key){.data = uuid, .len = 16};
}

// --- writing ---

void catalog_put_collection(const struct collection_core *c) {
  db_do(&c->store->catalog, "INSERT OR REPLACE INTO collections VALUES (?, ?, ?, ?, ?, ?)", "ktddii", uuid_key(c->uuid),
        c->ns, c->options, c->shard_key, (int64_t)c->next_index, (int64_t)c->ids_since);
}

void catalog_remove_collection(const struct collection_core *c) {
  static const char *const sql[] = {
      "DELETE FROM collections WHERE uuid = ?", "DELETE FROM indexes WHERE uuid = ?",
      "DELETE FROM files WHERE uuid = ?",       "DELETE FROM intervals WHERE uuid = ?",
      "DELETE FROM stale_ids WHERE uuid = ?",
  };
  for (size_t i = 0; i < sizeof sql / sizeof *sql; i++) db_do(&c->store->catalog, sql[i], "k", uuid_key(c->uuid));
}

void catalog_put_index(const struct collection_core *c, const struct index_definition *i) {
  db_do(&c->store->catalog, "INSERT OR REPLACE INTO indexes VALUES (?, ?, ?, ?)", "kidi", uuid_key(c->uuid),
        (int64_t)i->id, i->spec, (int64_t)i->ready);
}

void catalog_remove_index(const struct collection_core *c, uint32_t id) {
  db_do(&c->store->catalog, "DELETE FROM indexes WHERE uuid = ? AND id = ?", "ki", uuid_key(c->uuid), (int64_t)id);
}

void catalog_put_file(const struct store_file *f, const bson_t *definitions, struct key min, struct key max) {
  db_do(&f->store->catalog, "INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?, ?)", "ikiidkk",
        (int64_t)f->table.file, uuid_key(f->table.uuid), (int64_t)f->state, (int64_t)f->created, definitions, min, max);
}

void catalog_set_file_active(const struct store_file *f) {
  db_do(&f->store->catalog, "UPDATE files SET state = ? WHERE id = ?", "ii", (int64_t)FILE_ACTIVE,
        (int64_t)f->table.file);
}

void catalog_remove_file(const struct store_file *f) {
  db_do(&f->store->catalog, "DELETE FROM files WHERE id = ?", "i", (int64_t)f->table.file);
}

void catalog_put_intervals(const struct collection_core *c) {
  struct db *d = &c->store->catalog;
  db_do(d, "DELETE FROM intervals WHERE uuid = ?", "k", uuid_key(c->uuid));
  sqlite3_stmt *put = db_prepare(d, "INSERT INTO intervals VALUES (?, ?, ?)");
  for (size_t i = 0; i < c->intervals.n; i++) {
    const struct owned_interval *o = &c->intervals.list[i];
    bind_blob(put, 1, c->uuid, 16);
    bind_blob(put, 2, o->min, o->min_len);
    sqlite3_bind_int64(put, 3, o->file);
    db_run(d, put);
  }
  sqlite3_finalize(put);
}

void catalog_put_next_file(struct store *s) {
  db_meta_set_i64(&s->catalog, "next_file", s->next_file);
}

void catalog_add_stale_ids(const struct collection_core *c, uint32_t file) {
  db_do(&c->store->catalog, "INSERT INTO stale_ids (uuid, file) VALUES (?, ?)", "ki", uuid_key(c->uuid), (int64_t)file);
  c->store->stale_ids = true;
}

const bson_t *catalog_file_definitions(struct store *s, uint32_t id, struct arena *a) {
  sqlite3_stmt *q = db_prepare(&s->catalog, "SELECT definitions FROM files WHERE id = ?");
  sqlite3_bind_int64(q, 1, id);
  db_read(&s->catalog);
  const bson_t *found = NULL;
  if (db_step(&s->catalog, q)) {
    struct key blob = column_key(q, 0);
    found = arena_bson_copy(a, blob.data, blob.len);
  }
  sqlite3_finalize(q);
  return found ? found : arena_bson(a);
}

// --- opening ---

static void before_commit(void *owner) {
  struct store *s = owner;
  db_meta_set_i64(&s->catalog, "snapshot", (int64_t)s->snapshot);
}

static void closing(void *owner) {
  struct store *s = owner;
  if (s->sessions) sessions_finalize(s->sessions);
}

static void make(struct store *s) {
  struct db *d = &s->catalog;
  db_exec(d, "BEGIN");
  db_exec(d, schema);
  db_meta_set_i64(d, "format", FORMAT);
  db_meta_set_blob(d, "role", s->role, strlen(s->role));
  db_meta_set_i64(d, "applied", 0);
  db_exec(d, "COMMIT");
  db_checkpoint(d); // and so fsynced: a directory with other files but without a catalog is a damaged one
}

static bool check_owner(struct store *s, struct error *err) {
  int64_t format = db_meta_i64(&s->catalog, "format", FORMAT);
  if (format > FORMAT) {
    return error_set(err, ERR_UnsupportedFormat,
                     "%s: the directory has format %ld, this program knows %d: use a newer one", s->dbpath,
                     (long)format, FORMAT);
  }
  struct key role = db_meta_blob(&s->catalog, "role");
  if (role.len == strlen(s->role) && memcmp(role.data, s->role, role.len) == 0) return true;
  return error_set(err, ERR_InvalidPath, "%s: the directory belongs to a %.*s, not a %s: choose another --dbpath",
                   s->dbpath, (int)role.len, (const char *)role.data, s->role);
}

bool catalog_open(struct store *s, bool fresh, struct error *err) {
  static const struct db_owner ops = {.before_commit = before_commit, .closing = closing};
  struct db *d = &s->catalog;
  d->owner_ops = &ops;
  d->owner = s;
  bool ok = db_open(d, fresh, err);
  if (!ok && fresh && err->code == ERR_UserDataInconsistent) { // a first start that the power ended
    unlink_database(d->path);
    ok = db_open(d, fresh, err);
  }
  if (!ok) {
    if (!d->missing) return false;
    return error_set(
        err, ERR_UserDataInconsistent,
        "%s: the catalog is missing or empty, but there are data files: restore the data directory, or empty it "
        "and let this member sync from its set",
        d->path);
  }
  store_add_db(s, d);
  if (db_meta_i64(d, "format", -1) == -1) make(s);
  return check_owner(s, err);
}

// --- loading ---

static bool damaged(const struct db *d, const char *what, struct error *err) {
  return error_set(
      err, ERR_UserDataInconsistent,
      "%s: %s: the catalog is damaged: restore the data directory, or empty it and let this member sync from its set",
      d->path, what);
}

static bool view(bson_t *doc, struct key blob) {
  return doc_validate(blob.data, blob.len, NULL) && bson_init_static(doc, blob.data, blob.len);
}

static bool load_collection(struct store *s, sqlite3_stmt *q, struct error *err) {
  struct key uuid = column_key(q, 0);
  bson_t options, shard_key;
  const char *ns = (const char *)sqlite3_column_text(q, 1);
  if (uuid.len != 16 || !ns || !view(&options, column_key(q, 2)) || !view(&shard_key, column_key(q, 3)))
    return damaged(&s->catalog, "a collection", err);
  struct collection_core *c = core_new(s, uuid.data, ns, &options, &shard_key);
  c->next_index = (uint32_t)sqlite3_column_int64(q, 4);
  c->ids_since = (uint64_t)sqlite3_column_int64(q, 5);
  return !c->ids_since || ids_load(c, err);
}

static struct collection_core *core_at(struct store *s, sqlite3_stmt *q, int column) {
  struct key uuid = column_key(q, column);
  return uuid.len == 16 ? map_get(s->by_uuid, uuid.data, 16) : NULL;
}

static bool load_index(struct store *s, sqlite3_stmt *q, struct error *err) {
  struct collection_core *c = core_at(s, q, 0);
  bson_t spec;
  if (!c || !view(&spec, column_key(q, 2))) return damaged(&s->catalog, "an index", err);
  core_add_index(c, (uint32_t)sqlite3_column_int64(q, 1), &spec, sqlite3_column_int64(q, 3) != 0);
  return true;
}

static bool load_file(struct store *s, sqlite3_stmt *q, struct error *err) {
  struct collection_core *c = core_at(s, q, 1);
  bson_t definitions;
  if (!c || !view(&definitions, column_key(q, 4))) return damaged(&s->catalog, "a file", err);
  enum file_state state = sqlite3_column_int64(q, 2) == FILE_ACTIVE ? FILE_ACTIVE : FILE_STAGED;
  struct store_file *f = file_new(c, (uint32_t)sqlite3_column_int64(q, 0), state, (uint64_t)sqlite3_column_int64(q, 3));
  core_add_file(c, f);
  return file_load(f, &definitions, err);
}

static bool load_interval(struct store *s, sqlite3_stmt *q, struct error *err) {
  struct collection_core *c = core_at(s, q, 0);
  if (!c) return damaged(&s->catalog, "an interval", err);
  intervals_append(&c->intervals, column_key(q, 1), (uint32_t)sqlite3_column_int64(q, 2));
  return true;
}

// A catalog that cannot be read is a damaged directory, and said so, not a reason to end the process.
static bool load_rows(struct store *s, const char *sql,
                      bool (*row)(struct store *s, sqlite3_stmt *q, struct error *err), struct error *err) {
  sqlite3_stmt *q = NULL;
  bool ok = sqlite3_prepare_v2(s->catalog.sql, sql, -1, &q, NULL) == SQLITE_OK;
  int rc = ok ? sqlite3_step(q) : SQLITE_ERROR;
  while (rc == SQLITE_ROW && ok) {
    ok = row(s, q, err);
    rc = sqlite3_step(q);
  }
  if ((ok || !q) && rc != SQLITE_DONE) ok = damaged(&s->catalog, sqlite3_errmsg(s->catalog.sql), err);
  sqlite3_finalize(q);
  return ok;
}

static bool show(void *ctx, const void *key, size_t len, void *value) {
  core_show(value);
  return true;
}

bool catalog_load(struct store *s, struct error *err) {
  struct db *d = &s->catalog;
  d->applied = (uint64_t)db_meta_i64(d, "applied", 0);
  s->snapshot = (uint64_t)db_meta_i64(d, "snapshot", 0);
  s->next_file = (uint32_t)db_meta_i64(d, "next_file", 1);
  if (!load_rows(s, "SELECT uuid, ns, options, shard_key, next_index, ids_since FROM collections", load_collection,
                 err) ||
      !load_rows(s, "SELECT uuid, id, spec, ready FROM indexes ORDER BY uuid, id", load_index, err) ||
      !load_rows(s, "SELECT id, uuid, state, created, definitions FROM files ORDER BY id", load_file, err) ||
      !load_rows(s, "SELECT uuid, min, file FROM intervals ORDER BY uuid, min", load_interval, err))
    return false;
  map_each(s->by_uuid, show, NULL);
  return true;
}
