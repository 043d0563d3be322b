// Copies of a data directory, the store's side: the list of files, an image of each, and putting a store on a copy.
#include "common/store/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/store/internal.h"

enum { WAIT_MS = 5, BUSY_MS = 10000 };

// --- the list ---

static const char *relative(const struct store *s, const struct db *d) {
  return d->path + strlen(s->dbpath) + 1;
}

static bool is_there(const struct db *d) {
  return access(d->path, F_OK) == 0;
}

struct copy_item *store_copy_list(struct store *s, struct arena *a, size_t *n) {
  size_t most = 0, at = 0;
  for (const struct db *d = s->all; d; d = d->next) most++;
  struct copy_item *list = arena_alloc(a, most * sizeof *list);
  for (const struct db *d = s->all; d; d = d->next) {
    if (d == &s->catalog || !is_there(d)) continue;
    list[at++] = (struct copy_item){arena_strdup(a, relative(s, d)), d->file_bytes};
  }
  list[at++] = (struct copy_item){arena_strdup(a, relative(s, &s->catalog)), s->catalog.file_bytes};
  *n = at;
  return list;
}

// --- an image of a file ---

struct copy_job {
  const char *from, *to;
  int fd, rc;
  int64_t bytes;
};

// All pages in one read transaction: the WAL cannot be begun anew meanwhile, so it is done at the disk's speed, into a
// file of our own, and not at the speed of whoever reads that.
static int copy_pages(const struct copy_job *j) {
  sqlite3 *from = NULL, *to = NULL;
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
  int rc = sqlite3_open_v2(j->from, &from, flags, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_open_v2(j->to, &to, flags | SQLITE_OPEN_CREATE, NULL);
  if (rc == SQLITE_OK) rc = sqlite3_busy_timeout(from, BUSY_MS);
  if (rc == SQLITE_OK) rc = sqlite3_exec(to, "PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF", NULL, NULL, NULL);
  sqlite3_backup *b = rc == SQLITE_OK ? sqlite3_backup_init(to, "main", from, "main") : NULL;
  if (b) {
    rc = sqlite3_backup_step(b, -1);
    int end = sqlite3_backup_finish(b);
    rc = rc == SQLITE_DONE ? end : rc;
  } else if (rc == SQLITE_OK) {
    rc = sqlite3_errcode(to);
  }
  if (from) sqlite3_db_config(from, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
  sqlite3_close_v2(to);
  sqlite3_close_v2(from);
  return rc;
}

static void run_copy(void *arg) {
  struct copy_job *j = arg;
  struct stat st;
  j->rc = copy_pages(j);
  j->fd = j->rc == SQLITE_OK ? open(j->to, O_RDONLY | O_CLOEXEC) : -1;
  if (j->fd >= 0 && fstat(j->fd, &st) == 0) j->bytes = st.st_size;
  unlink_database(j->to);
}

static struct db *find_db(struct store *s, const char *name) {
  for (struct db *d = s->all; d; d = d->next)
    if (!strcmp(relative(s, d), name)) return d;
  return NULL;
}

int store_copy_file(struct operation *op, struct store *s, const char *name, int64_t *bytes, struct error *err) {
  struct db *d = find_db(s, name);
  *err = (struct error){0};
  if (!d || !is_there(d)) return -1;
  if (store_free_bytes(s) < (uint64_t)d->file_bytes) {
    error_set(err, ERR_OutOfDiskSpace, "%s: no space for a temporary copy of %lld bytes", d->path,
              (long long)d->file_bytes);
    return -1;
  }
  struct copy_job j = {.from = arena_strdup(op->arena, d->path),
                       .to = arena_printf(op->arena, "%s/copying-%llu", s->base, (unsigned long long)++s->copies)};
  d->pins++; // neither closed nor unlinked
  op_run_in_pool(op, run_copy, &j);
  d->pins--;
  *bytes = j.bytes;
  if (j.fd < 0)
    error_set(err, ERR_OperationFailed, "%s cannot be copied: %s", j.from, j.rc ? sqlite3_errstr(j.rc) : "no file");
  return j.fd;
}

// --- putting a store on a copy ---

bool store_generation_check(struct store *s, uint64_t generation, struct error *err) {
  struct store *copy = store_alloc(s->base, generation, s->role);
  bool ok = store_load(copy, err);
  store_free(copy);
  return ok;
}

// A table of internal.sqlite: not dropped there, only forgotten here.
static void forget_table(struct store_file *f) {
  uint32_t id = f->table.file;
  (void)map_remove(f->store->files, &id, sizeof id);
  table_finalize(&f->table);
  f->table.exists = false;
  f->forgotten = true;
  f->shown = NULL;
  f->core = NULL;
  file_unref(f);
}

static void forget_collection(struct collection_core *c) {
  core_set_dropped(c);
  while (c->n_files) {
    struct store_file *f = c->files[c->n_files - 1];
    core_remove_file(c, f);
    if (f->table.prefixed)
      forget_table(f);
    else
      file_forget(f, true);
  }
  ids_forget(c);
  core_free(c);
}

static bool first_core(void *ctx, const void *key, size_t len, void *value) {
  *(struct collection_core **)ctx = value;
  return false;
}

static void forget_all(struct store *s) {
  for (struct collection_core *c = NULL;; c = NULL) {
    map_each(s->by_uuid, first_core, &c);
    if (!c) break;
    forget_collection(c);
  }
  removal_free(removal_take(s, UINT64_MAX));
  db_close(&s->internal, false);
  db_close(&s->catalog, false);
  store_remove_db(s, &s->internal);
  store_remove_db(s, &s->catalog);
  db_free(&s->internal);
  db_free(&s->catalog);
  sessions_free(s->sessions);
  ids_purge_free(s->purge);
  s->sessions = NULL;
  s->purge = NULL;
  s->last_file = NULL;
  s->replay_target = 0;
  s->replayed = false;
}

static bool is_pinned(struct store *s) {
  scans_save_all(s);
  for (const struct db *d = s->all; d; d = d->next)
    if (d->pins) return true;
  for (const struct removal *r = s->removals; r; r = r->next)
    if ((r->file && r->file->own_db.pins) || (r->ids && r->ids->db.pins)) return true;
  return false;
}

bool store_switch(struct operation *op, struct store *s, uint64_t generation, struct error *err) {
  if (!mutex_lock(op, &s->maintenance, err)) return false;
  bool ok = true;
  while (ok && is_pinned(s)) ok = op_sleep(op, WAIT_MS, err);
  if (ok) {
    forget_all(s);
    store_place(s, generation);
    store_reset_counters(s);
    struct error why = {0};
    if (!store_load(s, &why))
      log_fatal("STORAGE", "The data that was copied cannot be opened; the process ends", "error:e advice:s", &why,
                "empty the data directory and let this member sync from its set");
  }
  mutex_unlock(&s->maintenance);
  return ok;
}
