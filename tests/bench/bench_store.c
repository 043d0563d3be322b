// How much of SQLite's own speed applying entries has: the same 277-byte documents with two indexes (_id and one with
// random keys), through store_apply() and as prepared INSERTs of ready-made rows, a transaction per 20,000. Prints one
// line a measurement.
//
//   bench_store [documents] [folder]
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/bson/doc.h"
#include "common/store/change.h"
#include "common/store/internal.h"

enum { BATCH = 20000 };

static const uint8_t uuid[16] = {1};

struct row {
  const bson_t *doc;
  struct key id, amount;
};

// Neither side waits for the disk, so that the processor's time is what counts, also on a busy machine.
static int64_t cpu_us(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static struct key encode(struct arena *a, const bson_t *doc, const char *field) {
  struct buf b = {0};
  bson_value_t v;
  (void)doc_value(doc, field, &v);
  key_append(&b, &v, false);
  struct key k = key_copy(a, &b);
  buf_free(&b);
  return k;
}

static struct row *make_rows(struct arena *a, size_t n) {
  struct row *rows = arena_alloc(a, n * sizeof *rows);
  char pad[201];
  memset(pad, 'x', 200);
  pad[200] = 0;
  uint64_t random = 1;
  for (size_t i = 0; i < n; i++) {
    bson_t *d = arena_bson(a);
    bson_oid_t oid;
    bson_oid_init(&oid, NULL);
    random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
    BSON_APPEND_OID(d, "_id", &oid);
    BSON_APPEND_INT32(d, "customerId", (int32_t)i);
    BSON_APPEND_UTF8(d, "status", "paid");
    BSON_APPEND_INT32(d, "amount", (int32_t)(random >> 33));
    BSON_APPEND_UTF8(d, "pad", pad);
    rows[i] = (struct row){d, encode(a, d, "_id"), encode(a, d, "amount")};
  }
  return rows;
}

static double raw(const char *folder, const struct row *rows, size_t n) {
  char path[300];
  (void)snprintf(path, sizeof path, "%s/raw.sqlite", folder);
  struct error err = {0};
  struct db d = {.path = path};
  if (!db_open(&d, true, &err)) return 0;
  db_set_cache(&d, 64 << 20);
  db_exec(&d, "CREATE TABLE documents (rid INTEGER PRIMARY KEY, doc BLOB NOT NULL);"
              "CREATE TABLE index_0 (key BLOB NOT NULL, rid INTEGER NOT NULL, PRIMARY KEY (key)) WITHOUT ROWID;"
              "CREATE TABLE index_1 (key BLOB NOT NULL, rid INTEGER NOT NULL, PRIMARY KEY (key, rid)) WITHOUT ROWID");
  sqlite3_stmt *s[3] = {db_prepare(&d, "INSERT INTO documents VALUES (?, ?)"),
                        db_prepare(&d, "INSERT INTO index_0 VALUES (?, ?)"),
                        db_prepare(&d, "INSERT INTO index_1 VALUES (?, ?)")};
  int64_t start = cpu_us();
  for (size_t i = 0; i < n; i++) {
    if (i % BATCH == 0) db_exec(&d, "BEGIN");
    sqlite3_bind_int64(s[0], 1, (int64_t)i + 1);
    bind_blob(s[0], 2, bson_get_data(rows[i].doc), rows[i].doc->len);
    bind_key(s[1], 1, rows[i].id);
    sqlite3_bind_int64(s[1], 2, (int64_t)i + 1);
    bind_key(s[2], 1, rows[i].amount);
    sqlite3_bind_int64(s[2], 2, (int64_t)i + 1);
    for (int k = 0; k < 3; k++) db_run(&d, s[k]);
    if (i % BATCH == BATCH - 1 || i == n - 1) db_exec(&d, "COMMIT");
  }
  double us = (double)(cpu_us() - start) / (double)n;
  for (int k = 0; k < 3; k++) sqlite3_finalize(s[k]);
  db_close(&d, true);
  return us;
}

struct timing {
  double build_us, apply_us; // a document
};

static void insert_all(struct store *s, struct arena *a, const struct row *rows, size_t n, struct timing *t) {
  struct change_list *l = arena_alloc(a, sizeof *l);
  changes_init(l);
  uint64_t index = store_applied(s) + 1;
  bson_t empty, indexes, row, spec;
  bson_init(&empty);
  bson_init(&indexes);
  BSON_APPEND_DOCUMENT_BEGIN(&indexes, "0", &row);
  BSON_APPEND_INT32(&row, "id", 1);
  BSON_APPEND_DOCUMENT_BEGIN(&row, "spec", &spec);
  BCON_APPEND(&spec, "v", BCON_INT32(2), "key", "{", "amount", BCON_INT32(1), "}", "name", BCON_UTF8("amount_1"));
  bson_append_document_end(&row, &spec);
  bson_append_document_end(&indexes, &row);
  change_create(l, uuid, "bench.documents", &empty, 1, &empty, &indexes);
  store_apply(s, index++, changes_finish(l, 1, 1));
  changes_clear(l);
  struct collection *c = store_collection_by_uuid(s, uuid);
  int64_t build = 0, apply = 0, start = cpu_us();
  for (size_t i = 0; i < n; i++) {
    change_put(l, c, 1, (int64_t)i + 1, rows[i].doc);
    if (l->bytes < ENTRY_TARGET_BYTES && i < n - 1) continue;
    const bson_t *entry = changes_finish(l, index, 1);
    int64_t middle = cpu_us();
    store_apply(s, index++, entry);
    changes_clear(l);
    int64_t end = cpu_us();
    if ((index & 15) == 0) store_tune_caches(s); // as store_tick() does
    build += middle - start;
    apply += end - middle;
    start = end;
  }
  t->build_us = (double)build / (double)n;
  t->apply_us = (double)apply / (double)n;
  changes_cleanup(l);
  bson_destroy(&indexes);
}

static void reads(struct store *s, struct arena *a, const struct row *rows, size_t n) {
  struct collection *c = store_collection_by_uuid(s, uuid);
  uint64_t random = 7;
  size_t found = 0;
  struct arena *scratch = arena_new();
  int64_t start = cpu_us();
  for (size_t i = 0; i < n; i++) {
    random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
    bson_value_t id;
    const bson_t *doc;
    (void)doc_value(rows[(random >> 33) % n].doc, "_id", &id);
    arena_reset(scratch);
    found += store_find_id(c, scratch, &id, NULL, NULL, &doc);
  }
  printf("read by _id: %.2f us (%zu found)\n", (double)(cpu_us() - start) / (double)n, found);
  found = 0;
  start = cpu_us();
  for (size_t i = 0; i < n; i++) {
    random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
    struct key low = rows[(random >> 33) % n].amount;
    arena_reset(scratch);
    struct key_range range = {low, key_prefix_end(scratch, low)};
    struct scan *scan =
        scan_open(scratch, c, &(struct scan_spec){.index = c->indexes[1], .ranges = &range, .n_ranges = 1});
    struct scan_row row;
    while (scan_next(scan, &row, NULL)) found += scan_document(scan, &row) != NULL;
    scan_close(scan);
  }
  printf("read by an index: %.2f us (%zu found)\n", (double)(cpu_us() - start) / (double)n, found);
  found = 0;
  start = cpu_us();
  struct scan *scan = scan_open(scratch, c, &(struct scan_spec){0});
  struct scan_row row;
  while (scan_next(scan, &row, NULL)) found += scan_document(scan, &row) != NULL;
  scan_close(scan);
  printf("scan: %.2f us a document (%zu found)\n", (double)(cpu_us() - start) / (double)found, found);
  arena_free(scratch);
}

int main(int argc, char **argv) {
  size_t n = argc > 1 ? (size_t)atol(argv[1]) : 100000;
  char folder[256];
  (void)snprintf(folder, sizeof folder, "%s/bench-store-XXXXXX", argc > 2 ? argv[2] : "/tmp");
  if (!mkdtemp(folder)) return 1;
  struct arena *a = arena_new();
  struct row *rows = make_rows(a, n);
  double raw_us = raw(folder, rows, n);
  struct error err = {0};
  struct store *s = store_open(&(struct store_options){.dbpath = folder, .role = "shardd"}, &err);
  if (!s) {
    (void)fprintf(stderr, "%s\n", err.message);
    return 1;
  }
  store_replay_done(s);
  struct timing t;
  insert_all(s, a, rows, n, &t);
  printf("insert straight into SQLite: %.2f us a document\n", raw_us);
  printf("insert through store_apply: %.2f us (and %.2f us for building the entries), %.0f %% of SQLite's speed\n",
         t.apply_us, t.build_us, 100 * raw_us / t.apply_us);
  reads(s, a, rows, n);
  store_close(s);
  arena_free(a);
  char command[300];
  (void)snprintf(command, sizeof command, "rm -rf '%s'", folder);
  return system(command) == 0 ? 0 : 1;
}
