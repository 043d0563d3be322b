// Opening and closing a member's data directory; its local state.
#include "common/store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/store/copy.h"
#include "common/store/internal.h"

enum { DEFAULT_CACHE = 64 << 20, DEFAULT_OPEN_FILES = 256, LEAST_OPEN_FILES = 4 };

// --- the directory ---

static bool check_directory(const char *path, struct error *err) {
  struct stat st;
  if (stat(path, &st) != 0) {
    return error_set(err, ERR_NonExistentPath,
                     "%s: the data directory cannot be found (%s): create it, or choose another --dbpath", path,
                     strerror(errno));
  }
  if (!S_ISDIR(st.st_mode))
    return error_set(err, ERR_InvalidPath, "%s: not a directory: choose another --dbpath", path);
  if (access(path, R_OK | W_OK | X_OK) == 0) return true;
  return error_set(
      err, ERR_InvalidPath,
      "%s: user %ld may not write to the data directory (%s), which belongs to user %ld: give it to %ld (chown -R), or "
      "start as its owner (--user in a container)",
      path, (long)geteuid(), strerror(errno), (long)st.st_uid, (long)geteuid());
}

// Held as long as the descriptor is open; it goes with the process, however that ends.
static bool lock_directory(struct store *s, struct error *err) {
  char *path = NULL;
  if (asprintf(&path, "%s/store.lock", s->base) < 0) abort();
  s->lock_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  bool locked = s->lock_fd >= 0 && flock(s->lock_fd, LOCK_EX | LOCK_NB) == 0;
  if (locked) {
    char pid[24];
    int n = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
    if (ftruncate(s->lock_fd, 0) != 0 || pwrite(s->lock_fd, pid, (size_t)n, 0) != n) locked = false;
    if (!locked) error_set(err, ERR_InvalidPath, "%s: cannot be written: %s", path, strerror(errno));
  } else if (s->lock_fd >= 0 && errno == EWOULDBLOCK) {
    char pid[24] = "";
    ssize_t n = pread(s->lock_fd, pid, sizeof pid - 1, 0);
    if (n > 0) pid[strcspn(pid, "\n")] = 0;
    error_set(err, ERR_LockBusy,
              "%s: the data directory is in use by another process (pid %s): stop it, or choose another --dbpath",
              s->base, pid[0] ? pid : "unknown");
  } else {
    error_set(err, ERR_InvalidPath,
              "%s: user %ld cannot open the lock file (%s): give the data directory to %ld (chown -R), or start as its "
              "owner (--user in a container)",
              path, (long)geteuid(), strerror(errno), (long)geteuid());
  }
  free(path);
  return locked;
}

static char *join(const char *directory, const char *name) {
  char *path = NULL;
  if (asprintf(&path, "%s/%s", directory, name) < 0) abort();
  return path;
}

// --- internal.sqlite ---

static bool save_tables(void *ctx, const void *key, size_t len, void *value) {
  struct collection_core *c = value;
  for (size_t i = 0; c->internal && i < c->n_files; i++) table_save(&c->files[i]->table);
  return true;
}

static bool finalize_tables(void *ctx, const void *key, size_t len, void *value) {
  struct collection_core *c = value;
  for (size_t i = 0; c->internal && i < c->n_files; i++) table_finalize(&c->files[i]->table);
  return true;
}

static void save_internal(void *owner) {
  map_each(((struct store *)owner)->by_uuid, save_tables, NULL);
}

static void close_internal(void *owner) {
  map_each(((struct store *)owner)->by_uuid, finalize_tables, NULL);
}

static bool open_internal(struct store *s, struct error *err) {
  static const struct db_owner ops = {.before_commit = save_internal, .closing = close_internal};
  struct db *d = &s->internal;
  d->owner_ops = &ops;
  d->owner = s;
  // Before the first snapshot the log has everything, so that it can be made again.
  bool may_create = db_meta_i64(&s->catalog, "snapshot", 0) == 0;
  if (!db_open(d, false, err)) {
    bool damaged = err->code == ERR_UserDataInconsistent;
    if (!may_create || (!d->missing && !damaged)) return false;
    if (damaged) unlink_database(d->path);
    if (!db_open(d, true, err)) return false;
  }
  *err = (struct error){0};
  d->applied = (uint64_t)db_meta_i64(d, "applied", 0);
  d->fresh = may_create;
  store_add_db(s, d);
  return true;
}

// --- opening ---

static void take_maximum(uint64_t *to, uint64_t n) {
  if (n > *to) *to = n;
}

bool store_load(struct store *s, struct error *err) {
  bool fresh = !directory_has_data(s->dbpath); // or a first start that a crash ended
  if (!catalog_open(s, fresh, err) || !open_internal(s, err) || !catalog_load(s, err)) return false;
  s->sessions = sessions_load(s);
  s->stale_ids = true; // at the first purge it turns out whether there are any
  take_maximum(&s->replay_target, s->catalog.applied);
  take_maximum(&s->replay_target, s->internal.applied);
  take_maximum(&s->replay_target, unknown_files_applied(s));
  s->applied = s->snapshot;
  return true;
}

static bool free_core(void *ctx, const void *key, size_t len, void *value) {
  struct collection_core *c = value;
  struct store *s = c->store;
  for (size_t i = 0; i < c->n_files; i++) file_unref(c->files[i]);
  c->n_files = 0;
  if (c->ids) {
    if (c->ids->db.sql) {
      db_close(&c->ids->db, false);
      store_closed(s, &c->ids->db);
    }
    store_remove_db(s, &c->ids->db);
    db_free(&c->ids->db);
    free(c->ids);
    c->ids = NULL;
  }
  core_free(c);
  return true;
}

void store_free(struct store *s) {
  if (s->by_uuid) map_each(s->by_uuid, free_core, NULL);
  struct removal *rest = removal_take(s, UINT64_MAX);
  removal_free(rest);
  db_close(&s->internal, false);
  db_close(&s->catalog, false);
  sessions_free(s->sessions);
  db_free(&s->internal);
  db_free(&s->catalog);
  map_free(s->by_ns, NULL);
  map_free(s->by_uuid, NULL);
  map_free(s->files, NULL);
  ids_purge_free(s->purge);
  arena_free(s->arena);
  free(s->touched);
  if (s->lock_fd >= 0) (void)close(s->lock_fd);
  free(s->base);
  free(s->dbpath);
  free(s->role);
  free(s);
}

struct store *store_alloc(const char *base, uint64_t generation, const char *role) {
  struct store *s = calloc(1, sizeof *s);
  if (!s) abort();
  s->base = strdup(base);
  s->role = strdup(role);
  s->lock_fd = -1;
  s->limits = db_default_limits;
  s->cache_bytes = DEFAULT_CACHE;
  s->max_open = DEFAULT_OPEN_FILES;
  s->by_ns = map_new();
  s->by_uuid = map_new();
  s->files = map_new();
  s->arena = arena_new();
  store_place(s, generation);
  return s;
}

void store_place(struct store *s, uint64_t generation) {
  free(s->dbpath);
  db_free(&s->catalog);
  db_free(&s->internal);
  s->dbpath = store_generation_path(s->base, generation);
  s->catalog = (struct db){.path = join(s->dbpath, "catalog.sqlite")};
  s->internal = (struct db){.path = join(s->dbpath, "internal.sqlite")};
}

static bool find_generation(struct store *s, const struct store_options *o, struct error *err) {
  uint64_t generation = 0;
  if (o->generation && !o->generation(o->dbpath, &generation, err)) return false;
  store_generation_keep(o->dbpath, generation);
  if (generation) store_place(s, generation);
  return true;
}

struct store *store_open(const struct store_options *o, struct error *err) {
  if (!check_directory(o->dbpath, err)) return NULL;
  // SQLite's counters of memory, which nobody reads, cost a mutex of the process at every allocation. Refused without
  // harm when SQLite is in use already.
  (void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  struct store *s = store_alloc(o->dbpath, 0, o->role);
  if (o->cache_bytes) s->cache_bytes = o->cache_bytes;
  if (o->max_open_files) s->max_open = o->max_open_files;
  if (s->max_open < LEAST_OPEN_FILES) s->max_open = LEAST_OPEN_FILES;
  if (lock_directory(s, err) && find_generation(s, o, err) && store_load(s, err)) return s;
  store_free(s);
  return NULL;
}

void store_replay_done(struct store *s) {
  store_commit_all(s);
  db_sync_wal(&s->catalog);
  struct removal *gone = removal_take(s, s->catalog.applied);
  removal_unlink(gone);
  removal_free(gone);
  remove_unknown_files(s);
  remove_unknown_tables(s);
  s->replayed = true;
}

// Everything is made durable first, so that the catalog may say so last: the next start replays nothing.
void store_close(struct store *s) {
  if (!s) return;
  store_commit_all(s);
  struct sync_job j = {0};
  for (struct db *d = s->all; d; d = d->next) {
    if (d == &s->catalog) continue;
    if (d->sql && d != &s->internal) store_closed(s, d);
    db_close(d, true);
    d->unsynced = true; // a WAL stays where it was closed before, or where somebody outside has the file open
    sync_add_database(d, &j);
  }
  sync_add_directories(s, &j);
  sync_run(&j);
  sync_free(&j);
  s->snapshot = s->applied;
  db_write(&s->catalog);
  db_close(&s->catalog, true);
  struct removal *gone = removal_take(s, UINT64_MAX);
  removal_unlink(gone);
  removal_free(gone);
  store_free(s);
}

// --- local state ---

bool store_local_get(struct store *s, struct arena *a, const char *name, const bson_t **value) {
  sqlite3_stmt *q = db_prepare(&s->catalog, "SELECT value FROM local WHERE name = ?");
  sqlite3_bind_text(q, 1, name, -1, SQLITE_STATIC);
  db_read(&s->catalog);
  bool found = db_step(&s->catalog, q);
  if (found) {
    struct key blob = column_key(q, 0);
    *value = arena_bson_copy(a, blob.data, blob.len);
  }
  sqlite3_finalize(q);
  return found;
}

void store_local_put(struct store *s, const char *name, const bson_t *value) {
  struct db *d = &s->catalog;
  scans_save_all(s);
  db_commit(d);
  db_exec(d, "PRAGMA synchronous = FULL"); // this commit fsyncs the WAL
  db_write(d);
  db_do(d, "INSERT OR REPLACE INTO local VALUES (?, ?)", "td", name, value);
  db_commit(d);
  db_exec(d, "PRAGMA synchronous = NORMAL");
}
