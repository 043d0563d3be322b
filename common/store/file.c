// A file of a collection: from its first entry to its removal. And the ids file beside it.
//
// What an entry does to a file depends on that file and the entry alone. A file that the disk does not have (the
// machine lost power before its creation was durable) but the catalog knows is made again, as it was when it was made:
// the catalog keeps the definitions of that moment, and the log has every entry since, because a snapshot makes all
// files durable first.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/store/internal.h"

enum { MAX_KEPT_OPEN = 64 }; // forgotten files, three descriptors each

char *file_path(const struct store *s, const uint8_t uuid[16], const char *name) {
  char text[37], *path = NULL;
  uuid_text(uuid, text);
  if (asprintf(&path, "%s/%s%s%s", s->dbpath, text, *name ? "/" : "", name) < 0) abort();
  return path;
}

static void range_before_commit(void *owner) {
  table_save(&((struct store_file *)owner)->table);
}

static void range_closing(void *owner) {
  table_finalize(&((struct store_file *)owner)->table);
}

struct store_file *file_new(struct collection_core *c, uint32_t id, enum file_state state, uint64_t created) {
  static const struct db_owner range_ops = {.before_commit = range_before_commit, .closing = range_closing};
  struct store_file *f = calloc(1, sizeof *f);
  if (!f) abort();
  f->store = c->store;
  f->core = c;
  f->state = state;
  f->created = created;
  f->refs = 1;
  f->table.file = id;
  memcpy(f->table.uuid, c->uuid, 16);
  f->table.prefixed = c->internal;
  if (c->internal) {
    f->table.db = &c->store->internal;
  } else {
    char name[24];
    (void)snprintf(name, sizeof name, "%u.sqlite", id);
    f->table.db = &f->own_db;
    f->own_db = (struct db){.path = file_path(c->store, c->uuid, name), .owner_ops = &range_ops, .owner = f};
    f->own_db.applied = created - 1; // until it is there, it has nothing
    store_add_db(c->store, &f->own_db);
  }
  (void)map_put(c->store->files, &id, sizeof id, f);
  return f;
}

struct store_file *file_find(struct store *s, uint32_t id) {
  if (s->last_file && s->last_file->table.file == id) return s->last_file;
  struct store_file *f = map_get(s->files, &id, sizeof id);
  if (f) s->last_file = f;
  return f;
}

// --- opening ---

bool make_directory(const char *path, struct error *err) {
  if (mkdir(path, 0700) == 0 || errno == EEXIST) return true;
  return error_set(err, ERR_InvalidPath, "%s: cannot create the directory: %s", path, strerror(errno));
}

static void must_make_directory(struct collection_core *c) {
  char *path = file_path(c->store, c->uuid, "");
  c->new_files = true;
  struct error err = {0};
  if (!make_directory(path, &err)) {
    log_fatal("STORAGE", "No place for a new file; the process ends", "error:e advice:s", &err,
              "make the data directory writable, with free space, and start again");
  }
  free(path);
}

static bool is_newer_than_snapshot(const struct store *s, uint64_t created) {
  return created > s->snapshot;
}

// What to do about a database that the catalog knows and that could not be opened at start. true: it will be made anew.
static bool can_be_made_anew(struct store *s, struct db *d, uint64_t created, struct error *err) {
  if (!is_newer_than_snapshot(s, created)) {
    if (d->missing) {
      error_set(
          err, ERR_UserDataInconsistent,
          "%s: the file is missing or empty: restore the data directory, or empty it and let this member sync from "
          "its set",
          d->path);
    }
    return false;
  }
  if (!d->missing && err->code != ERR_UserDataInconsistent) return false; // not damaged: not readable
  unlink_database(d->path);
  *err = (struct error){0};
  return true;
}

static void note_applied(struct store *s, const struct db *d) {
  if (d->applied > s->replay_target) s->replay_target = d->applied;
}

static bool load_range(struct store_file *f, struct error *err) {
  struct db *d = &f->own_db;
  if (!db_open(d, false, err)) return can_be_made_anew(f->store, d, f->created, err);
  d->applied = (uint64_t)db_meta_i64(d, "applied", 0);
  if (!table_load(&f->table, err)) {
    bool anew = is_newer_than_snapshot(f->store, f->created);
    db_close(d, true);
    if (!anew) return false;
    unlink_database(d->path);
    d->applied = f->created - 1;
    *err = (struct error){0};
    return true;
  }
  d->fresh = is_newer_than_snapshot(f->store, f->created);
  note_applied(f->store, d);
  store_opened(f->store, d);
  return true;
}

bool file_load(struct store_file *f, const bson_t *definitions, struct error *err) {
  table_define(&f->table, definitions);
  f->table.next_rid = 1;
  if (!f->table.prefixed) return load_range(f, err);
  char name[40];
  (void)snprintf(name, sizeof name, "%u.definitions", f->table.file);
  // Not there: internal.sqlite stands before the entry that makes it, or after one that drops it.
  if (!db_meta_blob(&f->store->internal, name).data) return true;
  return table_load(&f->table, err);
}

static void open_or_die(struct db *d, bool create, struct ids *ids) {
  struct error err = {0};
  if (ids ? ids_open(ids, create, &err) : db_open(d, create, &err)) return;
  log_fatal("STORAGE", "A data file cannot be opened; the process ends", "error:e", &err);
}

// A transaction that the power cut in two is made again by the replay, page for page; if that completes it in the WAL,
// the transactions that stood behind it are valid again once the WAL is read anew, which is when the file is opened.
// They are effects of entries that the log has: the file just stands further on than it did when it was closed.
static void follow_wal(struct store_file *f) {
  struct db *d = f->table.db;
  uint64_t applied = (uint64_t)db_meta_i64(d, "applied", 0);
  if (applied <= d->applied) return;
  struct error err = {0};
  if (!table_load(&f->table, &err))
    log_fatal("STORAGE", "A data file cannot be opened; the process ends", "error:e", &err);
  d->applied = applied;
  core_show_counters(f);
}

static bool open_range(struct store_file *f, bool create) {
  struct db *d = f->table.db;
  if (d->sql) {
    if (!f->forgotten) store_used(f->store, d);
    return true;
  }
  if (f->forgotten || (!create && !f->table.exists)) return false;
  open_or_die(d, create && !f->table.exists, NULL);
  if (f->table.exists) follow_wal(f);
  store_opened(f->store, d);
  return true;
}

bool file_read(struct store_file *f) {
  if (!f->table.exists || !open_range(f, false)) return false;
  db_read(f->table.db);
  return true;
}

bool file_touch(struct store_file *f) {
  struct store *s = f->store;
  struct db *d = f->table.db;
  if (d->entry != s->entry && s->entry <= d->applied) return false;
  if (f->table.exists) {
    (void)open_range(f, true);
    return store_touch(s, d);
  }
  if (!f->table.prefixed) must_make_directory(f->core);
  (void)open_range(f, true);
  (void)store_touch(s, d);
  const bson_t *definitions = catalog_file_definitions(s, f->table.file, s->arena);
  table_create(&f->table, definitions);
  return true;
}

// --- its end ---

struct store_file *file_ref(struct store_file *f) {
  f->refs++;
  return f;
}

void file_destroy(struct store_file *f) {
  if (f->own_db.sql) {
    db_close(&f->own_db, false);
    if (!f->forgotten) store_closed(f->store, &f->own_db);
  }
  if (!f->table.prefixed) {
    if (!f->forgotten) store_remove_db(f->store, &f->own_db);
    db_free(&f->own_db);
  } else {
    table_finalize(&f->table);
  }
  table_free(&f->table);
  if (f->heir) file_unref(f->heir);
  free(f);
}

void file_unref(struct store_file *f) {
  if (--f->refs == 0) file_destroy(f);
}

static void close_forgotten(struct store_file *f) {
  if (f->own_db.sql) db_close(&f->own_db, false); // what is in it is of no use any more
  f->store->n_kept -= f->kept_open;
  f->kept_open = false;
}

// Once it is unlinked it cannot be opened again, so it is opened for the scans that stand in it and go on later. Not
// for any number of them: what is past the limit is closed, and those scans end with an error (QueryPlanKilled).
static void keep_open(struct store_file *f) {
  f->kept_open = f->scans && f->store->n_kept < MAX_KEPT_OPEN && file_read(f);
  f->store->n_kept += f->kept_open;
}

void file_scan_ends(struct store_file *f) {
  if (--f->scans == 0 && f->forgotten && !f->table.prefixed) close_forgotten(f);
  file_unref(f);
}

// Scans that are in the file go on reading it: it is only unlinked under them. Those of a dropped collection end.
void file_forget(struct store_file *f, bool dropped) {
  struct store *s = f->store;
  uint32_t id = f->table.file;
  (void)map_remove(s->files, &id, sizeof id);
  if (s->last_file == f) s->last_file = NULL;
  f->shown = NULL;
  f->core = NULL;
  if (f->table.prefixed) {
    if (f->table.exists && file_touch(f)) table_drop(&f->table);
    f->forgotten = true;
    file_unref(f);
    return;
  }
  if (!dropped) keep_open(f);
  if (f->own_db.sql) store_closed(s, &f->own_db);
  store_remove_db(s, &f->own_db);
  f->forgotten = true;
  f->own_db.entry = 0;
  removal_add(s, f, NULL, NULL); // takes the reference
  if (!f->kept_open) close_forgotten(f);
}

// Scans that stand in the file go on over its rows, which are those of this moment, and take each document from the
// heir, where it has the same rid: as it is when it is read, or not at all if it is gone (source.c, scan.c).
void file_merged(struct store_file *f, struct store_file *heir) {
  f->heir = file_ref(heir);
  file_forget(f, false);
}

struct store_file *file_now(struct store_file *f) {
  while (f->heir) f = f->heir;
  return f;
}

// --- ids ---

bool ids_load(struct collection_core *c, struct error *err) {
  c->ids = calloc(1, sizeof *c->ids);
  if (!c->ids) abort();
  ids_init(c->ids, file_path(c->store, c->uuid, "ids.sqlite"));
  struct db *d = &c->ids->db;
  d->applied = c->ids_since - 1;
  store_add_db(c->store, d);
  if (!ids_open(c->ids, false, err)) return can_be_made_anew(c->store, d, c->ids_since, err);
  d->applied = (uint64_t)db_meta_i64(d, "applied", 0);
  d->fresh = is_newer_than_snapshot(c->store, c->ids_since);
  note_applied(c->store, d);
  store_opened(c->store, d);
  return true;
}

static bool open_ids(struct collection_core *c, bool create) {
  struct db *d = &c->ids->db;
  if (d->sql) {
    store_used(c->store, d);
    return true;
  }
  bool there = access(d->path, F_OK) == 0;
  if (!there && !create) return false;
  if (create) must_make_directory(c);
  open_or_die(d, create, c->ids);
  uint64_t applied = (uint64_t)db_meta_i64(d, "applied", 0); // as follow_wal()
  if (applied > d->applied) d->applied = applied;
  store_opened(c->store, d);
  return true;
}

bool ids_read(struct collection_core *c) {
  if (!c->ids || !open_ids(c, false)) return false;
  db_read(&c->ids->db);
  return true;
}

bool ids_touch(struct collection_core *c) {
  struct store *s = c->store;
  if (!c->ids || (c->ids->db.entry != s->entry && s->entry <= c->ids->db.applied)) return false;
  (void)open_ids(c, true);
  return store_touch(s, &c->ids->db);
}

void ids_forget(struct collection_core *c) {
  struct ids *i = c->ids;
  if (!i) return;
  if (i->db.sql) store_closed(c->store, &i->db);
  i->db.entry = 0;
  db_close(&i->db, false);
  store_remove_db(c->store, &i->db);
  c->ids = NULL;
  removal_add(c->store, NULL, i, NULL);
}
