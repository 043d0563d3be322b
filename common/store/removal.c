// Unlinking files that the catalog has forgotten: only once the commit that forgot them is durable.
//
// Until then a crash would bring the catalog back that knows them. What was forgotten is a list, in order; a
// collection's directory comes after its files. Files that no catalog ever knew (it was lost with a crash, and the
// replay did not bring it back) are removed after replay.
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/store/internal.h"

void removal_add(struct store *s, struct store_file *f, struct ids *i, char *directory) {
  struct removal *r = calloc(1, sizeof *r);
  if (!r) abort();
  *r = (struct removal){.entry = s->entry, .file = f, .ids = i, .directory = directory};
  if (!s->removals_end) s->removals_end = &s->removals;
  *s->removals_end = r;
  s->removals_end = &r->next;
}

static bool in_use(const struct removal *r) {
  return (r->file && r->file->own_db.pins) || (r->ids && r->ids->db.pins);
}

struct removal *removal_take(struct store *s, uint64_t durable) {
  struct removal *taken = NULL, **end = &taken;
  while (s->removals && s->removals->entry <= durable && !in_use(s->removals)) {
    *end = s->removals;
    s->removals = s->removals->next;
    (*end)->next = NULL;
    end = &(*end)->next;
  }
  if (!s->removals) s->removals_end = &s->removals;
  return taken;
}

void unlink_database(const char *path) {
  static const char *const suffixes[] = {"-wal", "-shm", "-journal",
                                         ""}; // the database last: with it goes the right to ask
  for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
    char *name = NULL;
    if (asprintf(&name, "%s%s", path, suffixes[i]) < 0) abort();
    (void)unlink(name);
    free(name);
  }
}

void removal_unlink(const struct removal *list) {
  for (const struct removal *r = list; r; r = r->next) {
    if (r->file) unlink_database(r->file->own_db.path);
    if (r->ids) unlink_database(r->ids->db.path);
    if (r->directory) (void)rmdir(r->directory); // not empty: a file of an earlier removal is still in use
  }
}

void removal_free(struct removal *list) {
  while (list) {
    struct removal *r = list;
    list = r->next;
    if (r->file) file_unref(r->file);
    if (r->ids) {
      db_free(&r->ids->db);
      free(r->ids);
    }
    free(r->directory);
    free(r);
  }
}

// --- what is on disk ---

static int hex(char c) {
  const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c) : NULL;
  return at ? (int)(at - digits) : -1;
}

// The name of a collection's directory: a UUID in lower case.
static bool parse_uuid(const char *text, uint8_t uuid[16]) {
  if (strlen(text) != 36) return false;
  size_t n = 0;
  for (size_t at = 0; at < 36;) {
    if (at == 8 || at == 13 || at == 18 || at == 23) {
      if (text[at++] != '-') return false;
      continue;
    }
    int high = hex(text[at]), low = hex(text[at + 1]);
    if (high < 0 || low < 0) return false;
    uuid[n++] = (uint8_t)(high << 4 | low);
    at += 2;
  }
  return n == 16;
}

// "<file id>.sqlite" (the id), or "ids.sqlite" (0). Also with -wal, -shm or -journal behind it.
static bool parse_file(const char *name, uint32_t *id, bool *database) {
  char *rest;
  if (strncmp(name, "ids", 3) == 0) {
    *id = 0;
    rest = (char *)name + 3;
  } else {
    unsigned long n = strtoul(name, &rest, 10);
    if (rest == name || n == 0 || n > UINT32_MAX) return false;
    *id = (uint32_t)n;
  }
  if (strncmp(rest, ".sqlite", 7) != 0) return false;
  rest += 7;
  *database = *rest == 0;
  return *database || strcmp(rest, "-wal") == 0 || strcmp(rest, "-shm") == 0 || strcmp(rest, "-journal") == 0;
}

bool store_is_directory(const char *name) {
  uint8_t uuid[16];
  return parse_uuid(name, uuid);
}

bool store_is_file(const char *name) {
  uint32_t id;
  bool database;
  return parse_file(name, &id, &database) && database;
}

struct walk {
  struct store *store;
  void (*fn)(struct walk *w, const uint8_t uuid[16], uint32_t id, bool database, const char *path);
  uint64_t applied;
};

static void walk_directory(struct walk *w, const char *path, const uint8_t uuid[16]) {
  DIR *dir = opendir(path);
  if (!dir) return;
  for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
    uint32_t id;
    bool database;
    if (!parse_file(e->d_name, &id, &database)) continue;
    char *name = NULL;
    if (asprintf(&name, "%s/%s", path, e->d_name) < 0) abort();
    w->fn(w, uuid, id, database, name);
    free(name);
  }
  (void)closedir(dir);
}

static void walk_files(struct walk *w, const char *dbpath, bool remove_empty) {
  DIR *dir = opendir(dbpath);
  if (!dir) return;
  for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
    uint8_t uuid[16];
    if (!parse_uuid(e->d_name, uuid)) continue;
    char *name = NULL;
    if (asprintf(&name, "%s/%s", dbpath, e->d_name) < 0) abort();
    walk_directory(w, name, uuid);
    if (remove_empty) (void)rmdir(name);
    free(name);
  }
  (void)closedir(dir);
}

static void note_any(struct walk *w, const uint8_t uuid[16], uint32_t id, bool database, const char *path) {
  w->applied = 1;
}

bool directory_has_data(const char *dbpath) {
  char *name = NULL;
  if (asprintf(&name, "%s/internal.sqlite", dbpath) < 0) abort();
  bool internal = access(name, F_OK) == 0;
  free(name);
  struct walk w = {.fn = note_any};
  walk_files(&w, dbpath, false);
  return internal || w.applied;
}

static bool is_known(struct store *s, const uint8_t uuid[16], uint32_t id) {
  const struct collection_core *c = map_get(s->by_uuid, uuid, 16);
  if (!c) return false;
  return id ? core_file(c, id) != NULL : c->ids != NULL;
}

static void note_applied(struct walk *w, const uint8_t uuid[16], uint32_t id, bool database, const char *path) {
  if (!database || is_known(w->store, uuid, id)) return;
  struct db d = {.path = (char *)path};
  struct error err = {0};
  if (!db_open(&d, false, &err)) return; // the replay makes it again, or it is removed
  uint64_t applied = (uint64_t)db_meta_i64(&d, "applied", 0);
  if (applied > w->applied) w->applied = applied;
  db_close(&d, true);
}

uint64_t unknown_files_applied(struct store *s) {
  struct walk w = {.store = s, .fn = note_applied};
  walk_files(&w, s->dbpath, false);
  return w.applied;
}

static void remove_unknown(struct walk *w, const uint8_t uuid[16], uint32_t id, bool database, const char *path) {
  if (is_known(w->store, uuid, id)) return;
  if (database) log_info("STORAGE", "Removing a file that no collection knows", "path:s", path);
  (void)unlink(path);
}

void remove_unknown_files(struct store *s) {
  struct walk w = {.store = s, .fn = remove_unknown};
  walk_files(&w, s->dbpath, true);
}

void remove_unknown_tables(struct store *s) {
  struct db *d = &s->internal;
  size_t n = 0, cap = 0;
  uint32_t *ids = NULL;
  sqlite3_stmt *q = db_prepare(d, "SELECT name FROM meta WHERE name LIKE '%.definitions'");
  while (db_step(d, q)) {
    uint32_t id = (uint32_t)strtoul((const char *)sqlite3_column_text(q, 0), NULL, 10);
    if (map_get(s->files, &id, sizeof id)) continue;
    ids = array_grow(ids, &cap, n + 1, sizeof *ids);
    ids[n++] = id;
  }
  sqlite3_finalize(q);
  for (size_t i = 0; i < n; i++) {
    struct table t = {.db = d, .file = ids[i], .prefixed = true};
    struct error err = {0};
    db_write(d);
    if (table_load(&t, &err)) table_drop(&t);
    table_free(&t);
  }
  free(ids);
}
