// One SQLite database file: opening, transactions, statements, errors.
#include "common/store/db.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/store/wal_vfs.h"

enum {
  // With one index of random keys over a million documents 26 us a document, 52 with 8192: what is written is mostly
  // one row
  // a page. In small batches and in scans the larger pages are 5 % faster.
  PAGE_BYTES = 4096,
  BUSY_MS = 10000,       // for another process's sqlite3 that writes, or closes while we open
  FIRST_CACHE = 1 << 20, // until the store distributes its budget
};

const struct db_limits db_default_limits = {
    .commit_dirty = 16 << 20,
    .checkpoint_wal = 48 << 20,
    .wal = 72 << 20,
    .checkpoint_again = 16 << 20,
};

static const char *advice(int code) {
  switch (code & 0xff) {
  case SQLITE_FULL: return "the disk is full: free some space and start again, nothing acknowledged is lost";
  case SQLITE_IOERR: return "the device fails: check it (dmesg) and start again, nothing acknowledged is lost";
  case SQLITE_CORRUPT:
  case SQLITE_NOTADB:
    return "the file is damaged: restore the data directory, or empty it and let this member sync from its set";
  case SQLITE_BUSY:
  case SQLITE_LOCKED: return "another process keeps the file locked: stop it and start again";
  case SQLITE_READONLY:
  case SQLITE_PERM:
  case SQLITE_CANTOPEN: return "make the file and its directory writable for this process's user and start again";
  case SQLITE_NOMEM: return "no memory left: give the process more, or less cache";
  default: return "this is a fault in the program: please report it with this line";
  }
}

void db_fatal(const struct db *d, const char *operation) {
  int code = d->sql ? sqlite3_extended_errcode(d->sql) : SQLITE_CANTOPEN;
  log_fatal("STORAGE", "SQLite failed; the process ends", "path:s operation:s code:d error:s advice:s", d->path,
            operation, code, d->sql ? sqlite3_errmsg(d->sql) : "not open", advice(code));
}

static int on_wal(void *arg, sqlite3 *sql, const char *name, int pages) {
  struct db *d = arg;
  d->wal_bytes = (size_t)pages * (PAGE_BYTES + 24);
  return SQLITE_OK;
}

// Everything that opening needs can fail on a damaged or foreign file, so it is checked here and not fatal.
static bool try_exec(struct db *d, const char *sql) {
  return sqlite3_exec(d->sql, sql, NULL, NULL, NULL) == SQLITE_OK;
}

static bool prepare_all(struct db *d) {
  const struct {
    sqlite3_stmt **to;
    const char *sql;
  } wanted[] = {
      {&d->begin, "BEGIN"},
      {&d->commit, "COMMIT"},
      {&d->set_meta, "INSERT OR REPLACE INTO meta VALUES (?, ?)"},
      {&d->get_meta, "SELECT value FROM meta WHERE name = ?"},
      {&d->page_count, "PRAGMA page_count"},
  };
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    if (sqlite3_prepare_v3(d->sql, wanted[i].sql, -1, SQLITE_PREPARE_PERSISTENT, wanted[i].to, NULL) != SQLITE_OK)
      return false;
  }
  return true;
}

static void read_size(struct db *d) {
  if (db_step(d, d->page_count)) d->file_bytes = sqlite3_column_int64(d->page_count, 0) * PAGE_BYTES;
  sqlite3_reset(d->page_count);
}

static bool is_new(const struct db *d) {
  struct stat st;
  return stat(d->path, &st) != 0 || st.st_size == 0;
}

static bool set_up(struct db *d, bool create, bool new) {
  sqlite3_busy_timeout(d->sql, BUSY_MS);
  sqlite3_extended_result_codes(d->sql, 1);
  if (!try_exec(d, "PRAGMA page_size = 4096; PRAGMA auto_vacuum = NONE")) return false;
  // A new file is not worth an fsync yet (2 to 20 ms in the loop's thread): until a snapshot has made it durable the
  // log can make it again.
  if (new && !try_exec(d, "PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF")) return false;
  if (!try_exec(d, "PRAGMA locking_mode = NORMAL; PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0;"
                   "PRAGMA secure_delete = OFF; PRAGMA temp_store = MEMORY; PRAGMA foreign_keys = OFF"))
    return false;
  if (create && !try_exec(d, "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID"))
    return false;
  if (!try_exec(d, "PRAGMA synchronous = NORMAL")) return false;
  // What a long reader outside has held up is given back to the disk when the WAL begins anew.
  char limit[60];
  (void)snprintf(limit, sizeof limit, "PRAGMA journal_size_limit = %zu", d->limits->wal);
  if (!try_exec(d, limit)) return false;
  sqlite3_wal_hook(d->sql, on_wal, d);
  if (new) d->fresh = true;
  return true;
}

static void read_wal_size(struct db *d) {
  char *name = sqlite3_mprintf("%s-wal", d->path);
  struct stat st;
  d->wal_bytes = name && stat(name, &st) == 0 ? (size_t)st.st_size : 0;
  d->wal_tried = 0;
  // What a killed process has committed may never have been fsynced.
  if (d->wal_bytes) d->unsynced = true;
  if (!d->wal_bytes) d->named = false; // it is about to be made
  sqlite3_free(name);
}

static bool has_row(struct db *d, const char *sql, bool *has) {
  sqlite3_stmt *s = NULL;
  bool ok = sqlite3_prepare_v2(d->sql, sql, -1, &s, NULL) == SQLITE_OK;
  if (ok) {
    int rc = sqlite3_step(s);
    *has = rc == SQLITE_ROW;
    ok = rc == SQLITE_ROW || rc == SQLITE_DONE;
  }
  sqlite3_finalize(s);
  return ok;
}

// Of a file whose creation was never fsynced the power may have taken any page, also the table's.
static bool has_meta(struct db *d, bool *has) {
  bool counted;
  return has_row(d, "SELECT 1 FROM sqlite_master WHERE name = 'meta'", has) &&
         (!*has || has_row(d, "SELECT count(*) FROM meta", &counted));
}

static void drop_connection(struct db *d) {
  sqlite3_stmt **all[] = {&d->begin, &d->commit, &d->set_meta, &d->get_meta, &d->page_count};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    sqlite3_finalize(*all[i]);
    *all[i] = NULL;
  }
  sqlite3_close_v2(d->sql);
  d->sql = NULL;
  d->txn = DB_IDLE;
  d->dirty_bytes = 0;
}

static bool open_failed(struct db *d, struct error *err) {
  int code = d->sql ? sqlite3_errcode(d->sql) : SQLITE_NOMEM;
  error_set(err, code == SQLITE_CORRUPT || code == SQLITE_NOTADB ? ERR_UserDataInconsistent : ERR_InvalidPath,
            "%s: %s; %s", d->path, d->sql ? sqlite3_errmsg(d->sql) : "no memory", advice(code));
  drop_connection(d);
  return false;
}

bool db_open(struct db *d, bool create, struct error *err) {
  d->missing = false;
  if (!d->limits) d->limits = &db_default_limits;
  if (!create && access(d->path, F_OK) != 0 && errno == ENOENT) {
    d->missing = true;
    return error_set(err, ERR_NonExistentPath, "%s: there is no such file", d->path);
  }
  bool new = create &&is_new(d);
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (create ? SQLITE_OPEN_CREATE : 0);
  if (sqlite3_open_v2(d->path, &d->sql, flags, wal_vfs()) != SQLITE_OK || !set_up(d, create, new))
    return open_failed(d, err);
  bool has = false;
  if (!has_meta(d, &has)) return open_failed(d, err);
  if (!has) {
    d->missing = true;
    drop_connection(d);
    return error_set(err, ERR_NonExistentPath, "%s: the file is empty", d->path);
  }
  if (!prepare_all(d)) return open_failed(d, err);
  read_wal_size(d);
  d->cache_bytes = 0;
  db_set_cache(d, FIRST_CACHE);
  read_size(d);
  return true;
}

void db_close(struct db *d, bool checkpoint) {
  if (!d->sql) return;
  db_commit(d);
  if (d->owner_ops) d->owner_ops->closing(d->owner);
  if (checkpoint) {
    db_sync_names(d);
  } else {
    sqlite3_db_config(d->sql, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
  }
  drop_connection(d);
  if (checkpoint) {
    d->wal_bytes = 0;
    d->unsynced = false;
  }
}

void db_free(struct db *d) {
  free(d->path);
  d->path = NULL;
}

// --- transactions ---

static void begin(struct db *d) {
  db_run(d, d->begin);
  d->txn = DB_READ;
}

void db_read(struct db *d) {
  d->uses++;
  if (d->txn == DB_IDLE) begin(d);
}

void db_write(struct db *d) {
  d->uses++;
  if (d->txn == DB_WRITE) return;
  // A transaction that has read may stand on a state that another process has changed since (somebody's sqlite3);
  // SQLite would not let it write. So writing begins in a new one.
  if (d->txn == DB_READ) db_run(d, d->commit);
  begin(d);
  d->txn = DB_WRITE;
  d->since_ms = clock_mono_ms();
}

void db_commit(struct db *d) {
  if (d->txn == DB_IDLE) return;
  bool wrote = d->txn == DB_WRITE;
  if (wrote) {
    if (d->owner_ops) d->owner_ops->before_commit(d->owner);
    db_meta_set_i64(d, "applied", (int64_t)d->applied);
    read_size(d);
  }
  db_run(d, d->commit);
  d->txn = DB_IDLE;
  d->dirty_bytes = 0;
  if (!wrote) return;
  d->unsynced = true;
  if (db_wal_past(d, d->limits->wal) && !d->checkpointing) db_checkpoint(d);
}

bool db_wal_past(const struct db *d, size_t limit) {
  return d->wal_bytes > limit && (!d->wal_tried || d->wal_bytes >= d->wal_tried + d->limits->checkpoint_again);
}

bool db_due(const struct db *d, int64_t now_ms) {
  if (d->txn == DB_WRITE) return d->dirty_bytes >= d->limits->commit_dirty || now_ms - d->since_ms >= DB_COMMIT_MS;
  return d->txn == DB_READ; // nothing to lose, and it keeps the WAL from starting anew
}

void db_checkpoint(struct db *d) {
  int frames = 0, copied = 0;
  db_sync_names(d);
  int rc = sqlite3_wal_checkpoint_v2(d->sql, NULL, SQLITE_CHECKPOINT_PASSIVE, &frames, &copied);
  if (rc != SQLITE_OK && (rc & 0xff) != SQLITE_BUSY) db_fatal(d, "checkpoint");
  bool all = rc == SQLITE_OK && frames == copied;
  d->wal_tried = all ? 0 : d->wal_bytes;
  if (all) d->wal_bytes = 0; // the next write begins it anew
}

void db_set_cache(struct db *d, size_t bytes) {
  if (d->cache_bytes == bytes) return;
  d->cache_bytes = bytes;
  db_execf(d, "PRAGMA cache_size = -%ld", (long)(bytes / 1024)); // SQLite's own printf: no %zu
}

// --- statements ---

sqlite3_stmt *db_prepare(struct db *d, const char *sql) {
  sqlite3_stmt *s = NULL;
  if (sqlite3_prepare_v3(d->sql, sql, -1, SQLITE_PREPARE_PERSISTENT, &s, NULL) != SQLITE_OK) db_fatal(d, sql);
  return s;
}

sqlite3_stmt *db_preparef(struct db *d, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  char *sql = sqlite3_vmprintf(fmt, ap);
  va_end(ap);
  sqlite3_stmt *s = db_prepare(d, sql ? sql : "");
  sqlite3_free(sql);
  return s;
}

void db_exec(struct db *d, const char *sql) {
  if (sqlite3_exec(d->sql, sql, NULL, NULL, NULL) != SQLITE_OK) db_fatal(d, sql);
}

void db_execf(struct db *d, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  char *sql = sqlite3_vmprintf(fmt, ap);
  va_end(ap);
  db_exec(d, sql ? sql : "");
  sqlite3_free(sql);
}

void db_do(struct db *d, const char *sql, const char *types, ...) {
  sqlite3_stmt *s = db_prepare(d, sql);
  va_list ap;
  va_start(ap, types);
  for (int n = 1; types[n - 1]; n++) {
    switch (types[n - 1]) {
    case 'i': sqlite3_bind_int64(s, n, va_arg(ap, int64_t)); break;
    case 't': sqlite3_bind_text(s, n, va_arg(ap, const char *), -1, SQLITE_STATIC); break;
    case 'k': bind_key(s, n, va_arg(ap, struct key)); break;
    default: {
      const bson_t *doc = va_arg(ap, const bson_t *);
      bind_blob(s, n, bson_get_data(doc), doc->len);
    }
    }
  }
  va_end(ap);
  db_run(d, s);
  sqlite3_finalize(s);
}

bool db_step(struct db *d, sqlite3_stmt *s) {
  int rc = sqlite3_step(s);
  if (rc == SQLITE_ROW) return true;
  if (rc != SQLITE_DONE) db_fatal(d, sqlite3_sql(s));
  return false;
}

void db_run(struct db *d, sqlite3_stmt *s) {
  while (db_step(d, s)) continue;
  sqlite3_reset(s);
}

bool db_run_unique(struct db *d, sqlite3_stmt *s) {
  int rc = sqlite3_step(s);
  if (rc != SQLITE_DONE && (rc & 0xff) != SQLITE_CONSTRAINT) db_fatal(d, sqlite3_sql(s));
  sqlite3_reset(s);
  return rc == SQLITE_DONE;
}

void bind_blob(sqlite3_stmt *s, int n, const void *data, size_t len) {
  // A NULL pointer would bind NULL instead of a blob of no bytes.
  sqlite3_bind_blob64(s, n, data ? data : "", len, SQLITE_STATIC);
}

void bind_key(sqlite3_stmt *s, int n, struct key k) {
  bind_blob(s, n, k.data, k.len);
}

struct key column_key(sqlite3_stmt *s, int n) {
  const void *data = sqlite3_column_blob(s, n);
  return (struct key){.data = data ? data : "", .len = (size_t)sqlite3_column_bytes(s, n)};
}

// --- meta ---

int64_t db_meta_i64(struct db *d, const char *name, int64_t otherwise) {
  sqlite3_reset(d->get_meta);
  sqlite3_bind_text(d->get_meta, 1, name, -1, SQLITE_TRANSIENT);
  int64_t value = db_step(d, d->get_meta) ? sqlite3_column_int64(d->get_meta, 0) : otherwise;
  sqlite3_reset(d->get_meta);
  return value;
}

struct key db_meta_blob(struct db *d, const char *name) {
  sqlite3_reset(d->get_meta);
  sqlite3_bind_text(d->get_meta, 1, name, -1, SQLITE_TRANSIENT);
  return db_step(d, d->get_meta) ? column_key(d->get_meta, 0) : (struct key){0};
}

void db_meta_set_i64(struct db *d, const char *name, int64_t value) {
  sqlite3_bind_text(d->set_meta, 1, name, -1, SQLITE_STATIC);
  sqlite3_bind_int64(d->set_meta, 2, value);
  db_run(d, d->set_meta);
}

void db_meta_set_blob(struct db *d, const char *name, const void *data, size_t len) {
  sqlite3_bind_text(d->set_meta, 1, name, -1, SQLITE_STATIC);
  bind_blob(d->set_meta, 2, data, len);
  db_run(d, d->set_meta);
}

void db_meta_remove(struct db *d, const char *name) {
  db_do(d, "DELETE FROM meta WHERE name = ?", "t", name);
}

void file_sync(const char *path) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return;
  if (fd < 0 || fsync(fd) != 0) {
    log_fatal("STORAGE", "fsync failed; the process ends", "path:s error:s advice:s", path, strerror(errno),
              "check the device and start again, nothing acknowledged is lost");
  }
  (void)close(fd);
}

void db_sync_wal(const struct db *d) {
  char *name = sqlite3_mprintf("%s-wal", d->path);
  if (name) file_sync(name);
  sqlite3_free(name);
}

void file_sync_directory(const char *path) {
  char *directory = strdup(path);
  if (!directory) abort();
  char *slash = strrchr(directory, '/');
  if (slash) *slash = 0;
  file_sync(slash ? directory : ".");
  free(directory);
}

void db_sync_names(struct db *d) {
  if (d->named) return;
  file_sync_directory(d->path);
  d->named = true;
}
