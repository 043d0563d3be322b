// A store in a folder of its own, and short ways to apply entries to it.
#ifndef SHARDLET_TEST_STORE_FIXTURE_H
#define SHARDLET_TEST_STORE_FIXTURE_H

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/clock.h"
#include "common/bson/doc.h"
#include "common/store/change.h"
#include "common/store/internal.h"
#include "common/store/scan.h"
#include "common/store/store.h"

static const uint8_t UUID_A[16] = {0xaa, 1}, UUID_B[16] = {0xbb, 2}, UUID_C[16] = {0xcc, 3};

struct fixture {
  char dir[40];
  struct store *s;
  uint64_t index;
  int64_t wall;
  struct change_list *list;
  struct arena *a;
  int32_t turn; // of apply_quarter_mib()
};

__attribute__((unused)) static void remove_tree(const char *path) {
  DIR *dir = opendir(path);
  if (!dir) {
    (void)unlink(path);
    return;
  }
  for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
    char name[512];
    (void)snprintf(name, sizeof name, "%s/%s", path, e->d_name);
    remove_tree(name);
  }
  (void)closedir(dir);
  (void)rmdir(path);
}

__attribute__((unused)) static const char *base_folder(void) {
  // What fsync costs is not the subject here, and in memory it costs nothing.
  return access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
}

__attribute__((unused)) static struct store *open_at(const char *dir) {
  struct error err = {0};
  struct store *s = store_open(&(struct store_options){.dbpath = dir, .role = "shardd"}, &err);
  if (!s) print_error("%s\n", err.message);
  assert_non_null(s);
  return s;
}

__attribute__((unused)) static int fixture_setup(void **state) {
  struct fixture *f = calloc(1, sizeof *f);
  (void)snprintf(f->dir, sizeof f->dir, "%s/store-test-XXXXXX", base_folder());
  assert_non_null(mkdtemp(f->dir));
  f->a = arena_new();
  f->list = arena_alloc(f->a, sizeof *f->list);
  changes_init(f->list);
  f->s = open_at(f->dir);
  store_replay_done(f->s);
  f->wall = 1700000000000;
  *state = f;
  return 0;
}

__attribute__((unused)) static int fixture_teardown(void **state) {
  struct fixture *f = *state;
  store_close(f->s);
  changes_cleanup(f->list);
  arena_free(f->a);
  remove_tree(f->dir);
  free(f);
  return 0;
}

__attribute__((unused)) static void reopen(struct fixture *f) {
  store_close(f->s);
  f->s = open_at(f->dir);
  store_replay_done(f->s);
}

// Applies what the list has as the next entry.
__attribute__((unused)) static void apply(struct fixture *f) {
  f->index++;
  f->wall++;
  store_apply(f->s, f->index, changes_finish(f->list, f->index << 32, f->wall));
  changes_clear(f->list);
}

__attribute__((unused)) static const bson_t *json(struct fixture *f, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  char *text = arena_vprintf(f->a, fmt, ap);
  va_end(ap);
  bson_error_t e;
  bson_t *b = bson_new_from_json((const uint8_t *)text, -1, &e);
  if (!b) print_error("%s: %s\n", text, e.message);
  assert_non_null(b);
  const bson_t *kept = doc_copy(f->a, b);
  bson_destroy(b);
  return kept;
}

__attribute__((unused)) static struct collection *coll(struct fixture *f, const uint8_t uuid[16]) {
  struct collection *c = store_collection_by_uuid(f->s, uuid);
  assert_non_null(c);
  return c;
}

__attribute__((unused)) static void create(struct fixture *f, const uint8_t uuid[16], const char *ns, uint32_t file,
                                           const char *shard_key, const char *indexes) {
  change_create(f->list, uuid, ns, json(f, "{}"), file, json(f, "%s", shard_key), json(f, "%s", indexes));
  apply(f);
}

__attribute__((unused)) static void put(struct fixture *f, const uint8_t uuid[16], uint32_t file, int64_t rid,
                                        const char *doc) {
  change_put(f->list, coll(f, uuid), file, rid, json(f, "%s", doc));
  apply(f);
}

__attribute__((unused)) static void del(struct fixture *f, const uint8_t uuid[16], uint32_t file, int64_t rid,
                                        int32_t id) {
  bson_value_t v = value_int32(id);
  change_delete(f->list, coll(f, uuid), file, rid, &v);
  apply(f);
}

// The encoding of one number, as a bound or an index key.
__attribute__((unused)) static struct key num(struct fixture *f, int32_t n) {
  struct buf b = {0};
  bson_value_t v = value_int32(n);
  key_append(&b, &v, false);
  struct key k = key_copy(f->a, &b);
  buf_free(&b);
  return k;
}

__attribute__((unused)) static struct key extreme(struct fixture *f, bson_type_t type) {
  struct buf b = {0};
  key_append(&b, &(bson_value_t){.value_type = type}, false);
  struct key k = key_copy(f->a, &b);
  buf_free(&b);
  return k;
}

// The _ids (numbers) a scan gives, as "1 2 3".
__attribute__((unused)) static const char *ids_of(struct fixture *f, const uint8_t uuid[16], struct scan_spec spec,
                                                  size_t save_every) {
  struct arena *a = arena_new();
  struct scan *s = scan_open(a, coll(f, uuid), &spec);
  char *text = arena_strdup(f->a, "");
  struct scan_row row;
  struct error err;
  for (size_t n = 1; scan_next(s, &row, &err); n++) {
    const bson_t *doc = scan_document(s, &row);
    if (doc) text = arena_printf(f->a, "%s%s%ld", text, *text ? " " : "", (long)doc_i64(doc, "_id", -1));
    if (save_every && n % save_every == 0) scan_save(s);
  }
  assert_int_equal(err.code, 0);
  arena_free(a);
  return text;
}

__attribute__((unused)) static bool has_id(struct fixture *f, const uint8_t uuid[16], int32_t id, uint32_t file,
                                           int64_t rid) {
  bson_value_t v = value_int32(id);
  uint32_t in = 0;
  int64_t at = 0;
  const bson_t *doc = NULL;
  if (!store_find_id(coll(f, uuid), f->a, &v, &in, &at, &doc)) return false;
  assert_int_equal(doc_i64(doc, "_id", -1), id);
  return in == file && at == rid;
}

// An entry of 256 KiB into file 1 of UUID_A: 64 documents, each another one than before, since SQLite does not write
// again what is there.
__attribute__((unused)) static void apply_quarter_mib(struct fixture *f) {
  static char pad[4000];
  memset(pad, 'x', sizeof pad - 1);
  for (int n = 0; n < 64; n++) {
    bson_t doc = BSON_INITIALIZER;
    int32_t rid = 1 + f->turn++ % 4000;
    BSON_APPEND_INT32(&doc, "_id", rid);
    BSON_APPEND_INT32(&doc, "turn", f->turn);
    BSON_APPEND_UTF8(&doc, "pad", pad);
    change_put(f->list, coll(f, UUID_A), 1, rid, &doc);
    bson_destroy(&doc);
  }
  apply(f);
}

// UUID_A with two documents, and a scan that stands at the first one and is never saved by its owner.
__attribute__((unused)) static struct scan *idle_scan(struct fixture *f, struct arena *a) {
  struct scan_row row;
  create(f, UUID_A, "db.a", 1, "{}", "[]");
  put(f, UUID_A, 1, 5000, "{\"_id\": 5000}");
  put(f, UUID_A, 1, 5001, "{\"_id\": 5001}");
  struct scan *s = scan_open(a, coll(f, UUID_A), &(struct scan_spec){.index = coll(f, UUID_A)->indexes[0]});
  return scan_next(s, &row, NULL) ? s : NULL;
}

#endif
