// What runs beside applying: commits that are due, checkpoints, snapshots, removal of files.
//
// A checkpoint copies a WAL into its file. The pool does it on a second connection (PASSIVE: nobody waits), up to what
// is committed when it begins. Only a WAL that is copied to its end, with nobody reading it, is written from its
// beginning again; under steady writes it would grow for ever. So once little is left, nothing is applied during one
// more pass (store_holds()). Then the loop ends its transaction and finds nothing left to copy: it never waits for the
// disk, whose fsync takes 10 ms at best and half a second when others keep it busy.
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/store/internal.h"

enum {
  POOL_PASSES = 3,     // of the pool over one WAL, while much comes in; writers are held back during the last one
  LAST_PASS = 2 << 20, // what may be left for the pass during which nothing is applied: some milliseconds, and an fsync
};

// A copy of the list of databases that stays valid over yields: each is pinned.
static struct db **pin_all(struct store *s, size_t *n) {
  *n = 0;
  for (struct db *d = s->all; d; d = d->next) ++*n;
  struct db **list = calloc(*n + 1, sizeof(*list));
  if (!list) abort();
  size_t at = 0;
  for (struct db *d = s->all; d; d = d->next) {
    d->pins++;
    list[at++] = d;
  }
  return list;
}

static void unpin_all(struct db **list, size_t n) {
  for (size_t i = 0; i < n; i++) list[i]->pins--;
  free(list);
}

// --- checkpoints ---

struct checkpoint_job {
  const char *path;
  bool last;      // no other connection is open: the WAL is to go
  bool new_names; // of the file or its WAL: db_sync_names()
  int rc, wal_frames, copied_frames;
};

static void run_checkpoint(void *arg) {
  struct checkpoint_job *j = arg;
  sqlite3 *sql = NULL;
  if (j->new_names) file_sync_directory(j->path);
  j->rc = sqlite3_open_v2(j->path, &sql, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
  if (j->rc == SQLITE_OK)
    j->rc = sqlite3_exec(sql, "PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 0", NULL, NULL, NULL);
  if (j->rc == SQLITE_OK)
    j->rc = sqlite3_wal_checkpoint_v2(sql, NULL, SQLITE_CHECKPOINT_PASSIVE, &j->wal_frames, &j->copied_frames);
  if (!j->last && sql) sqlite3_db_config(sql, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
  sqlite3_close_v2(sql);
}

static void check_job(const struct db *d, const struct checkpoint_job *j) {
  if (j->rc == SQLITE_OK || (j->rc & 0xff) == SQLITE_BUSY || !d->sql) return;
  log_fatal("STORAGE", "A checkpoint failed; the process ends", "path:s code:d error:s advice:s", d->path, j->rc,
            sqlite3_errstr(j->rc), "check the disk's space and health and start again, nothing acknowledged is lost");
}

// A pass of the pool; returns how much was committed meanwhile.
static size_t pool_pass(struct operation *op, struct db *d) {
  db_commit(d); // so that it may copy all there is
  size_t before = d->wal_bytes;
  struct checkpoint_job j = {.path = d->path, .new_names = !d->named};
  op_run_in_pool(op, run_checkpoint, &j);
  if (j.new_names) d->named = true;
  check_job(d, &j);
  return d->wal_bytes > before ? d->wal_bytes - before : 0;
}

static void checkpoint_open(struct operation *op, struct store *s, struct db *d) {
  for (int pass = 0; pass < POOL_PASSES && d->sql; pass++) {
    d->last_pass = pass == POOL_PASSES - 1;
    if (pool_pass(op, d) <= LAST_PASS) break;
  }
  d->last_pass = false;
  scans_save_all(s);
  if (!d->sql) return; // dropped meanwhile
  s->holds = true;
  (void)pool_pass(op, d);
  s->holds = false;
  scans_save_all(s);
  if (!d->sql) return;
  db_commit(d);
  db_checkpoint(d);
}

// One that was closed with its WAL beside it.
static void checkpoint_closed(struct operation *op, struct db *d) {
  struct checkpoint_job j = {.path = d->path, .last = true, .new_names = true};
  op_run_in_pool(op, run_checkpoint, &j);
  check_job(d, &j);
  if (d->sql || j.rc != SQLITE_OK) return; // opened again meanwhile: then its WAL is that one's business
  d->wal_bytes = 0;
  d->unsynced = false;
}

static void checkpoint(struct operation *op, struct store *s, struct db *d) {
  int64_t start = clock_mono_ms();
  int64_t wal = (int64_t)d->wal_bytes;
  d->pins++;
  d->checkpointing = true;
  if (d->sql) {
    checkpoint_open(op, s, d);
  } else {
    checkpoint_closed(op, d);
  }
  d->checkpointing = false;
  d->pins--;
  log_debug("STORAGE", "Checkpoint", "path:s walBytes:l millis:l", d->path, wal, clock_mono_ms() - start);
}

static bool needs_checkpoint(const struct db *d) {
  return d->sql ? db_wal_past(d, d->limits->checkpoint_wal) : d->wal_bytes > 0;
}

static void run_checkpoints(struct operation *op, struct store *s) {
  struct db *first = s->all;
  while (first && !needs_checkpoint(first)) first = first->next;
  if (!first) return;
  size_t n;
  struct db **list = pin_all(s, &n);
  for (size_t i = 0; i < n; i++) {
    if (needs_checkpoint(list[i])) checkpoint(op, s, list[i]);
  }
  unpin_all(list, n);
}

// --- removal ---

static void unlink_job(void *arg) {
  removal_unlink(arg);
}

static void run_removals(struct operation *op, struct store *s) {
  if (!s->removals) return;
  if (db_has_transaction(&s->catalog)) db_commit(&s->catalog);
  uint64_t durable = s->catalog.applied;
  struct sync_job j = {0};
  sync_add_wal(&s->catalog, &j);
  op_run_in_pool(op, sync_run, &j);
  sync_free(&j);
  struct removal *gone = removal_take(s, durable);
  op_run_in_pool(op, unlink_job, gone);
  removal_free(gone);
}

// --- the timer's and the log's calls ---

void store_tick(struct operation *op, struct store *s) {
  struct error err = {0};
  if (s->maintenance.held || !mutex_lock(op, &s->maintenance, &err)) return;
  store_commit_due(s, clock_mono_ms());
  store_tune_caches(s);
  run_checkpoints(op, s);
  run_removals(op, s);
  ids_purge(s);
  mutex_unlock(&s->maintenance);
}

uint64_t store_snapshot(struct operation *op, struct store *s) {
  struct error err = {0};
  if (!mutex_lock(op, &s->maintenance, &err)) return 0;
  uint64_t index = s->applied;
  size_t n;
  struct db **list = pin_all(s, &n);
  struct sync_job j = {0};
  bool all = true;
  for (size_t i = 0; i < n && all; i++) {
    scans_save_all(s);
    if (list[i]->sql && db_has_transaction(list[i])) db_commit(list[i]);
    sync_add_database(list[i], &j);
    all = op_yield_if_due(op, &err);
  }
  if (all) {
    sync_add_directories(s, &j);
    op_run_in_pool(op, sync_run, &j);
    s->snapshot = index;
    db_write(&s->catalog); // which keeps it from its next commit on
  } else {
    for (size_t i = 0; i < n; i++) list[i]->fresh = list[i]->unsynced = true; // as if nothing had been
  }
  unpin_all(list, n);
  sync_free(&j);
  mutex_unlock(&s->maintenance);
  return all ? index : 0;
}

bool store_behind(const struct store *s) {
  for (const struct db *d = s->all; d; d = d->next) {
    if (d->last_pass || (d->checkpointing && d->wal_bytes > d->limits->wal)) return true;
  }
  return false;
}

bool store_holds(const struct store *s) {
  return s->holds;
}

uint64_t store_free_bytes(const struct store *s) {
  struct statvfs v;
  return statvfs(s->dbpath, &v) == 0 ? (uint64_t)v.f_bavail * v.f_frsize : 0;
}
