// Making what is applied durable: commits, and the fsync of WALs and directories.
#include <stdlib.h>

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

void sync_run(void *arg) {
  const struct sync_job *j = arg;
  for (size_t i = 0; i < j->n; i++) file_sync(j->paths[i]);
}

static void add_path(struct sync_job *j, const char *path, const char *suffix) {
  j->paths = realloc(j->paths, (j->n + 1) * sizeof(*j->paths));
  if (!j->paths || asprintf(&j->paths[j->n], "%s%s", path, suffix) < 0) abort();
  j->n++;
}

void sync_free(struct sync_job *j) {
  for (size_t i = 0; i < j->n; i++) free(j->paths[i]);
  free(j->paths);
}

static bool add_directory(void *ctx, const void *key, size_t len, void *value) {
  struct sync_job *j = ctx;
  struct collection_core *c = value;
  if (!c->new_files) return true;
  c->new_files = false;
  char *path = file_path(c->store, c->uuid, "");
  add_path(j, path, "");
  free(path);
  return true;
}

// The directories in which files were made, and above all the one they are in.
void sync_add_directories(struct store *s, struct sync_job *j) {
  map_each(s->by_uuid, add_directory, j);
  add_path(j, s->dbpath, "");
}

void sync_add_wal(struct db *d, struct sync_job *j) {
  if (!d->unsynced) return;
  d->unsynced = false; // what is committed while the pool is at it counts anew
  add_path(j, d->path, "-wal");
}

void store_sync_directories(struct store *s) {
  struct sync_job j = {0};
  sync_add_directories(s, &j);
  sync_run(&j);
  sync_free(&j);
}
