// The replicated log in SQLite.
#include "common/repl/log_file.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "common/base/log.h"
#include "common/bson/doc.h"
#include "common/store/wal_vfs.h"

enum {
  FORMAT = 1,
  WAL_BYTES = 4 << 20,     // filled once, so that commits overwrite
  CHECKPOINT_PAGES = 1000, // of 4 KiB: just below that
  // A slice of what is removed, one after each batch that is written: more than the batches of steady writes bring, or
  // the file would grow without end; and not so much that the next commit waits longer than for a large batch.
  CUT_ROWS = 2048,
  CUT_BYTES = 12 << 20,
  BUSY_MS = 10000, // somebody looks at the file with a tool
};

enum statement { BEGIN, COMMIT, DELETE_FROM, INSERT, SET_VOTE, SET_MARK, SET_NOTE, CUT_SIZES, CUT, N_STATEMENTS };

static const char *const statement_text[N_STATEMENTS] = {
    [BEGIN] = "BEGIN IMMEDIATE",
    [COMMIT] = "COMMIT",
    [DELETE_FROM] = "DELETE FROM entries WHERE idx >= ?1",
    [INSERT] = "INSERT INTO entries(idx, term, type, data) VALUES (?1, ?2, ?3, ?4)",
    [SET_VOTE] = "UPDATE state SET term = ?1, vote = ?2",
    [SET_MARK] = "UPDATE state SET snapshot_index = ?1, snapshot_term = ?2, members = ?3, members_index = ?4",
    [SET_NOTE] = "INSERT OR REPLACE INTO notes(name, value) VALUES (?1, ?2)",
    [CUT_SIZES] = "SELECT idx, length(data) FROM entries WHERE idx < ?1 ORDER BY idx LIMIT ?2",
    [CUT] = "DELETE FROM entries WHERE idx <= ?1",
};

struct log_file {
  char *path;
  sqlite3 *write, *read;
  uv_mutex_t read_lock;
  sqlite3_stmt *statements[N_STATEMENTS];
  sqlite3_stmt *select;
  int wal_pages; // after the last commit
};

__attribute__((noreturn)) static void fail(const struct log_file *f, sqlite3 *db, const char *what) {
  log_fatal("REPL",
            "The replication log cannot be used any more; this member ends, so that nothing is promised that is not "
            "on disk. Look at the disk (space, errors) and start it again",
            "path:s during:s reason:s errno:d", f->path, what, sqlite3_errmsg(db), (int32_t)sqlite3_system_errno(db));
}

static int on_wal(void *arg, sqlite3 *db, const char *name, int pages) {
  ((struct log_file *)arg)->wal_pages = pages;
  return SQLITE_OK;
}

// --- opening ---

static bool run(sqlite3 *db, const char *sql) {
  return sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK;
}

static bool open_connection(sqlite3 **db, const char *path, int flags) {
  int rc = sqlite3_open_v2(path, db, flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE, wal_vfs());
  if (rc != SQLITE_OK || !*db) return false;
  (void)sqlite3_busy_timeout(*db, BUSY_MS);
  (void)sqlite3_extended_result_codes(*db, 1);
  return true;
}

static int64_t single_number(sqlite3 *db, const char *sql) {
  sqlite3_stmt *s = NULL;
  int64_t n = -1;
  if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW)
    n = sqlite3_column_int64(s, 0);
  (void)sqlite3_finalize(s);
  return n;
}

static bool set_up(struct log_file *f) {
  int keep = 1;
  if (!run(f->write,
           "PRAGMA page_size=4096; PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0;"
           "PRAGMA journal_size_limit=-1; PRAGMA secure_delete=OFF; PRAGMA cache_size=-2048"))
    return false;
  (void)sqlite3_file_control(f->write, "main", SQLITE_FCNTL_PERSIST_WAL, &keep);
  (void)sqlite3_wal_hook(f->write, on_wal, f);
  return run(
      f->write,
      "CREATE TABLE IF NOT EXISTS entries(idx INTEGER PRIMARY KEY, term INTEGER NOT NULL, type INTEGER NOT NULL, data "
      "BLOB NOT NULL);"
      "CREATE TABLE IF NOT EXISTS notes(name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;"
      "CREATE TABLE IF NOT EXISTS state(id INTEGER PRIMARY KEY CHECK (id = 1), term INTEGER NOT NULL, vote INTEGER NOT "
      "NULL,"
      " snapshot_index INTEGER NOT NULL, snapshot_term INTEGER NOT NULL, members BLOB, members_index INTEGER NOT NULL);"
      "INSERT OR IGNORE INTO state VALUES (1, 0, 0, 0, 0, NULL, 0)");
}

// A file that is extended has to have its new size synced as well, which doubles the time of a commit.
static bool fill_wal(struct log_file *f) {
  sqlite3_stmt *s = NULL;
  bool ok = run(f->write, "DROP TABLE IF EXISTS filler; CREATE TABLE filler(x)") &&
            sqlite3_prepare_v2(f->write, "INSERT INTO filler VALUES (zeroblob(?1))", -1, &s, NULL) == SQLITE_OK &&
            sqlite3_bind_int(s, 1, WAL_BYTES) == SQLITE_OK && sqlite3_step(s) == SQLITE_DONE;
  (void)sqlite3_finalize(s);
  return ok && run(f->write, "DROP TABLE filler; PRAGMA user_version=1; PRAGMA wal_checkpoint(PASSIVE)");
}

static bool prepare(struct log_file *f) {
  for (int i = 0; i < N_STATEMENTS; i++)
    if (sqlite3_prepare_v3(f->write, statement_text[i], -1, SQLITE_PREPARE_PERSISTENT, &f->statements[i], NULL) !=
        SQLITE_OK)
      return false;
  return sqlite3_prepare_v3(f->read, "SELECT idx, term, type, data FROM entries WHERE idx >= ?1 ORDER BY idx LIMIT ?2",
                            -1, SQLITE_PREPARE_PERSISTENT, &f->select, NULL) == SQLITE_OK;
}

static bool refuse(struct log_file *f, int32_t code, const char *what, struct error *err) {
  const char *reason = f->write ? sqlite3_errmsg(f->write) : "out of memory";
  int system = f->write ? sqlite3_system_errno(f->write) : 0;
  return error_set(err, code, "%s %s: %s%s%s (as uid %d)", what, f->path, reason, system ? ": " : "",
                   system ? strerror(system) : "", (int)getuid());
}

static bool open_both(struct log_file *f, struct error *err) {
  if (!open_connection(&f->write, f->path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE))
    return refuse(f, ERR_OperationFailed, "cannot open the replication log", err);
  int64_t version = single_number(f->write, "PRAGMA user_version");
  if (version > FORMAT)
    return error_set(err, ERR_UnsupportedFormat, "%s was written by a newer version (format %lld, this one reads %d)",
                     f->path, (long long)version, FORMAT);
  if (version < 0 || !set_up(f) || (version == 0 && !fill_wal(f)) ||
      !open_connection(&f->read, f->path, SQLITE_OPEN_READWRITE) || !prepare(f))
    return refuse(f, ERR_UnsupportedFormat, "the replication log cannot be used:", err);
  return true;
}

bool log_file_exists(const char *dbpath) {
  char *path = NULL;
  if (asprintf(&path, "%s/raft.sqlite", dbpath) < 0) log_fatal("REPL", "Out of memory for the replication log", NULL);
  bool there = access(path, F_OK) == 0;
  free(path);
  return there;
}

struct log_file *log_file_open(const char *dbpath, struct error *err) {
  struct log_file *f = calloc(1, sizeof *f);
  if (!f || asprintf(&f->path, "%s/raft.sqlite", dbpath) < 0 || uv_mutex_init(&f->read_lock))
    log_fatal("REPL", "Out of memory for the replication log", NULL);
  if (open_both(f, err)) return f;
  log_file_close(f);
  return NULL;
}

void log_file_close(struct log_file *f) {
  if (!f) return;
  for (int i = 0; i < N_STATEMENTS; i++) (void)sqlite3_finalize(f->statements[i]);
  (void)sqlite3_finalize(f->select);
  (void)sqlite3_close(f->read);
  (void)sqlite3_close(f->write);
  uv_mutex_destroy(&f->read_lock);
  free(f->path);
  free(f);
}

// --- loading ---

static struct entry *row_entry(sqlite3_stmt *s) {
  return entry_new((enum entry_type)sqlite3_column_int(s, 2), (uint64_t)sqlite3_column_int64(s, 1),
                   sqlite3_column_blob(s, 3), (size_t)sqlite3_column_bytes(s, 3));
}

static void load_state(struct log_file *f, struct consensus_state *st) {
  sqlite3_stmt *s = NULL;
  if (sqlite3_prepare_v2(f->write,
                         "SELECT term, vote, snapshot_index, snapshot_term, members, members_index FROM state", -1, &s,
                         NULL) != SQLITE_OK ||
      sqlite3_step(s) != SQLITE_ROW)
    fail(f, f->write, "reading its state");
  st->term = (uint64_t)sqlite3_column_int64(s, 0);
  st->voted_for = (uint64_t)sqlite3_column_int64(s, 1);
  st->snapshot.index = (uint64_t)sqlite3_column_int64(s, 2);
  st->snapshot.term = (uint64_t)sqlite3_column_int64(s, 3);
  st->snapshot.configuration_index = (uint64_t)sqlite3_column_int64(s, 5);
  if (sqlite3_column_type(s, 4) == SQLITE_BLOB)
    st->snapshot.configuration =
        entry_new(ENTRY_CHANGE, st->snapshot.term, sqlite3_column_blob(s, 4), (size_t)sqlite3_column_bytes(s, 4));
  (void)sqlite3_finalize(s);
}

void log_file_load(struct log_file *f, struct log_found *out) {
  *out = (struct log_found){0};
  struct consensus_state *st = &out->state;
  load_state(f, st);
  st->first = st->snapshot.index + 1;
  sqlite3_stmt *s = NULL;
  if (sqlite3_prepare_v2(
          f->write, "SELECT idx, term, type, CASE type WHEN 3 THEN data END, length(data) FROM entries ORDER BY idx",
          -1, &s, NULL) != SQLITE_OK)
    fail(f, f->write, "reading it");
  size_t cap = 0, cap_lengths = 0;
  int rc;
  while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
    uint64_t index = (uint64_t)sqlite3_column_int64(s, 0);
    if (!st->n) st->first = index;
    if (index != st->first + st->n)
      log_fatal("REPL", "The replication log has a hole: the directory is damaged", "path:s missing:l", f->path,
                (int64_t)(st->first + st->n));
    out->heads = array_grow(out->heads, &cap, st->n + 1, sizeof *out->heads);
    out->lengths = array_grow(out->lengths, &cap_lengths, st->n + 1, sizeof *out->lengths);
    out->heads[st->n] =
        (struct log_head){(uint64_t)sqlite3_column_int64(s, 1), (uint8_t)sqlite3_column_int(s, 2), NULL};
    if (out->heads[st->n].type == ENTRY_CHANGE) out->heads[st->n].change = row_entry(s);
    out->lengths[st->n++] = (uint32_t)sqlite3_column_int64(s, 4);
  }
  if (rc != SQLITE_DONE) fail(f, f->write, "reading it");
  (void)sqlite3_finalize(s);
  st->heads = out->heads;
}

void log_found_free(struct log_found *found) {
  for (size_t i = 0; i < found->state.n; i++) entry_unref(found->heads[i].change);
  entry_unref(found->state.snapshot.configuration);
  free(found->heads);
  free(found->lengths);
  *found = (struct log_found){0};
}

// --- writing ---

static void step(struct log_file *f, enum statement which) {
  sqlite3_stmt *s = f->statements[which];
  if (sqlite3_step(s) != SQLITE_DONE) fail(f, f->write, statement_text[which]);
  (void)sqlite3_reset(s);
}

static void bind_u64(struct log_file *f, enum statement which, int at, uint64_t v) {
  (void)sqlite3_bind_int64(f->statements[which], at, (int64_t)v);
}

static void write_append(struct log_file *f, const struct log_op *o) {
  bind_u64(f, DELETE_FROM, 1, o->first);
  step(f, DELETE_FROM);
  for (size_t i = 0; i < o->n; i++) {
    const struct entry *e = o->entries[i];
    bind_u64(f, INSERT, 1, o->first + i);
    bind_u64(f, INSERT, 2, e->term);
    (void)sqlite3_bind_int(f->statements[INSERT], 3, e->type);
    (void)sqlite3_bind_blob(f->statements[INSERT], 4, e->data, (int)e->len, SQLITE_STATIC);
    step(f, INSERT);
  }
}

static void write_mark(struct log_file *f, const struct log_op *o) {
  const struct entry *members = o->mark.configuration;
  bind_u64(f, SET_MARK, 1, o->mark.index);
  bind_u64(f, SET_MARK, 2, o->mark.term);
  (void)sqlite3_bind_blob(f->statements[SET_MARK], 3, members->data, (int)members->len, SQLITE_STATIC);
  bind_u64(f, SET_MARK, 4, o->mark.configuration_index);
  step(f, SET_MARK);
}

static void write_note(struct log_file *f, const struct log_op *o) {
  (void)sqlite3_bind_text(f->statements[SET_NOTE], 1, o->name, -1, SQLITE_STATIC);
  (void)sqlite3_bind_blob(f->statements[SET_NOTE], 2, bson_get_data(o->doc), (int)o->doc->len, SQLITE_STATIC);
  step(f, SET_NOTE);
}

static void write_op(struct log_file *f, const struct log_op *o) {
  switch (o->kind) {
  case LOG_PUT_NOTHING: return;
  case LOG_PUT_VOTE:
    bind_u64(f, SET_VOTE, 1, o->term);
    bind_u64(f, SET_VOTE, 2, o->voted_for);
    step(f, SET_VOTE);
    return;
  case LOG_PUT_ENTRIES: write_append(f, o); return;
  case LOG_PUT_SNAPSHOT:
    bind_u64(f, DELETE_FROM, 1, 0);
    step(f, DELETE_FROM);
    write_mark(f, o);
    if (o->name) write_note(f, o);
    return;
  case LOG_PUT_MARK: write_mark(f, o); return;
  case LOG_PUT_NOTE: write_note(f, o); return;
  }
}

void log_file_write(struct log_file *f, struct log_op *const *ops, size_t n) {
  step(f, BEGIN);
  for (size_t i = 0; i < n; i++) write_op(f, ops[i]);
  step(f, COMMIT);
}

bool log_file_cut(struct log_file *f, uint64_t below) {
  sqlite3_stmt *s = f->statements[CUT_SIZES];
  int64_t bytes = 0, last = 0;
  int rows = 0, rc = SQLITE_DONE;
  (void)sqlite3_bind_int64(s, 1, (int64_t)below);
  (void)sqlite3_bind_int(s, 2, CUT_ROWS + 1);
  while (rows <= CUT_ROWS && bytes < CUT_BYTES && (rc = sqlite3_step(s)) == SQLITE_ROW) {
    if (++rows > CUT_ROWS) break;
    last = sqlite3_column_int64(s, 0);
    bytes += sqlite3_column_int64(s, 1);
  }
  if (rc != SQLITE_ROW && rc != SQLITE_DONE) fail(f, f->write, "looking for old entries");
  (void)sqlite3_reset(s);
  if (!rows) return false;
  step(f, BEGIN);
  bind_u64(f, CUT, 1, (uint64_t)last);
  step(f, CUT);
  step(f, COMMIT);
  return rc == SQLITE_ROW;
}

bool log_file_checkpoint_due(const struct log_file *f) {
  return f->wal_pages >= CHECKPOINT_PAGES;
}

void log_file_checkpoint(struct log_file *f) {
  // Without our own reader in the way all of it is copied, and the WAL begins anew, also while a member that is behind
  // is read for without a pause. A reader outside may keep a part back (that is no error); the next one gets it.
  uv_mutex_lock(&f->read_lock);
  int rc = sqlite3_wal_checkpoint_v2(f->write, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);
  uv_mutex_unlock(&f->read_lock);
  if (rc != SQLITE_OK && rc != SQLITE_BUSY) fail(f, f->write, "a checkpoint");
  f->wal_pages = 0;
}

// --- reading ---

size_t log_file_read(struct log_file *f, uint64_t from, size_t max, size_t max_bytes, struct entry **out) {
  uv_mutex_lock(&f->read_lock);
  (void)sqlite3_bind_int64(f->select, 1, (int64_t)from);
  (void)sqlite3_bind_int64(f->select, 2, (int64_t)max);
  size_t n = 0, bytes = 0;
  int rc = SQLITE_DONE;
  while (n < max && (!n || bytes < max_bytes) && (rc = sqlite3_step(f->select)) == SQLITE_ROW) {
    if ((uint64_t)sqlite3_column_int64(f->select, 0) != from + n) break; // cut meanwhile
    out[n] = row_entry(f->select);
    bytes += out[n++]->len;
  }
  if (rc != SQLITE_ROW && rc != SQLITE_DONE) fail(f, f->read, "reading entries");
  (void)sqlite3_reset(f->select);
  uv_mutex_unlock(&f->read_lock);
  return n;
}

bool log_file_note(struct log_file *f, const char *name, bson_t **out) {
  sqlite3_stmt *s = NULL;
  uv_mutex_lock(&f->read_lock);
  int rc = sqlite3_prepare_v2(f->read, "SELECT value FROM notes WHERE name = ?1", -1, &s, NULL);
  if (rc == SQLITE_OK) (void)sqlite3_bind_text(s, 1, name, -1, SQLITE_STATIC);
  if (rc == SQLITE_OK) rc = sqlite3_step(s);
  if (rc != SQLITE_ROW && rc != SQLITE_DONE) fail(f, f->read, "reading a note");
  *out = NULL;
  if (rc == SQLITE_ROW) *out = bson_new_from_data(sqlite3_column_blob(s, 0), (size_t)sqlite3_column_bytes(s, 0));
  (void)sqlite3_finalize(s);
  uv_mutex_unlock(&f->read_lock);
  return *out != NULL;
}
