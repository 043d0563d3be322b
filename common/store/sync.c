// Making what is applied durable: commits, and the fsync of WALs and directories.
#include <stdlib.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/store/internal.h"

// --- commits ---

bool db_has_transaction(const struct db *d) {
  return d->sql && d->txn != DB_IDLE && !d->entry;
}

void store_commit_due(struct store *s, int64_t now_ms) {
  scans_save_all(s);
  for (struct db *d = s->all; d; d = d->next) {
    if (db_has_transaction(d) && db_due(d, now_ms)) db_commit(d);
  }
}

void store_commit_all(struct store *s) {
  scans_save_all(s);
  for (struct db *d = s->all; d; d = d->next) {
    if (db_has_transaction(d)) db_commit(d);
  }
}

// --- fsync ---

// A database is opened by nothing but SQLite, since closing another descriptor of it would drop SQLite's locks.
static void sync_database(const char *path) {
  sqlite3 *sql = NULL;
  sqlite3_file *file = NULL;
  int rc = sqlite3_open_v2(path, &sql, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_file_control(sql, "main", SQLITE_FCNTL_FILE_POINTER, (void *)&file);
  if (rc == SQLITE_OK) rc = file->pMethods->xSync(file, SQLITE_SYNC_NORMAL);
  if (sql) sqlite3_db_config(sql, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
  sqlite3_close_v2(sql);
  if (rc == SQLITE_OK || access(path, F_OK) != 0) return; // or it was dropped meanwhile
  log_fatal("STORAGE", "fsync failed; the process ends", "path:s code:d error:s advice:s", path, rc, sqlite3_errstr(rc),
            "check the device and start again, nothing acknowledged is lost");
}

void sync_run(void *arg) {
  const struct sync_job *j = arg;
  for (size_t i = 0; i < j->databases.n; i++) sync_database(j->databases.paths[i]);
  for (size_t i = 0; i < j->files.n; i++) file_sync(j->files.paths[i]);
  for (size_t i = 0; i < j->names.n; i++) file_sync_directory(j->names.paths[i]);
}

static void add_path(struct path_list *l, const char *path, const char *suffix) {
  l->paths = realloc(l->paths, (l->n + 1) * sizeof(*l->paths));
  if (!l->paths || asprintf(&l->paths[l->n], "%s%s", path, suffix) < 0) abort();
  l->n++;
}

static void free_list(struct path_list *l) {
  for (size_t i = 0; i < l->n; i++) free(l->paths[i]);
  free(l->paths);
}

void sync_free(struct sync_job *j) {
  free_list(&j->files);
  free_list(&j->databases);
  free_list(&j->names);
}

static bool add_directory(void *ctx, const void *key, size_t len, void *value) {
  struct sync_job *j = ctx;
  struct collection_core *c = value;
  if (!c->new_files) return true;
  c->new_files = false;
  char *path = file_path(c->store, c->uuid, "");
  add_path(&j->files, path, "");
  free(path);
  return true;
}

// The directories in which files were made, and above all the one they are in.
void sync_add_directories(struct store *s, struct sync_job *j) {
  map_each(s->by_uuid, add_directory, j);
  add_path(&j->files, s->dbpath, "");
}

void sync_add_wal(struct db *d, struct sync_job *j) {
  if (!d->unsynced) return;
  d->unsynced = false; // what is committed while the pool is at it counts anew
  add_path(&j->files, d->path, "-wal");
  if (!d->named) add_path(&j->names, d->path, "");
}

void sync_add_database(struct db *d, struct sync_job *j) {
  if (d->fresh) add_path(&j->databases, d->path, "");
  d->fresh = false;
  sync_add_wal(d, j);
}
