// Files that are merged: the entry, what readers find afterwards, and scans that were open while it happened.
#include "tests/unit/common/store/fixture.h"

enum { FILES = 6, DOCS = 300, ROUNDS = 40, SEEDS = 25, X = 40 };

static const char x_index[] =
    "[{\"id\": 1, \"spec\": {\"v\": 2, \"key\": {\"x\": 1}, \"name\": \"x_1\"}},"
    " {\"id\": 2, \"spec\": {\"v\": 2, \"key\": {\"u\": 1}, \"name\": \"u_1\", \"unique\": true, \"sparse\": true}}]";

static void add_file(struct fixture *f, uint32_t file, bool active) {
  struct key min = num(f, (int)file * 1000), max = num(f, (int)file * 1000 + 1000);
  change_file(f->list, UUID_A, file, min, max);
  if (active) change_adopt(f->list, UUID_A, file, min, max);
  apply(f);
}

static void stage(struct fixture *f, uint32_t file) {
  add_file(f, file, false);
}

static void copy(struct fixture *f, uint32_t to, int64_t rid, const char *doc) {
  change_copy(f->list, coll(f, UUID_A), to, rid, json(f, "%s", doc));
}

static int64_t count(struct fixture *f) {
  struct collection_stats stats;
  collection_stats(coll(f, UUID_A), &stats);
  return stats.count;
}

static uint32_t file_for(struct fixture *f, int32_t key) {
  return collection_file_for(coll(f, UUID_A), num(f, key))->id;
}

// --- the entry ---

static void two_files(struct fixture *f) {
  create(f, UUID_A, "db.a", 1, "{\"k\": 1}", x_index);
  add_file(f, 2, true);
  add_file(f, 3, true);
  put(f, UUID_A, 2, 1, "{\"_id\": 1, \"k\": 2001}");
  put(f, UUID_A, 3, 2, "{\"_id\": 2, \"k\": 3001}");
  put(f, UUID_A, 3, 3, "{\"_id\": 3, \"k\": 3002}");
  put(f, UUID_A, 1, 4, "{\"_id\": 4, \"k\": 1}");
}

static void test_takes_everything(void **state) {
  struct fixture *f = *state;
  two_files(f);
  stage(f, 4);
  copy(f, 4, 1, "{\"_id\": 1, \"k\": 2001}");
  copy(f, 4, 2, "{\"_id\": 2, \"k\": 3001}");
  copy(f, 4, 3, "{\"_id\": 3, \"k\": 3002}");
  apply(f);
  assert_int_equal(count(f), 4); // what is staged does not count, and is not found
  assert_true(has_id(f, UUID_A, 1, 2, 1));
  bson_value_t id = value_int32(3);
  del(f, UUID_A, 3, 3, 3);
  change_uncopy(f->list, coll(f, UUID_A), 4, 3, &id);
  change_merge(f->list, UUID_A, 4, (uint32_t[]){2, 3}, 2);
  apply(f);
  for (int restarted = 0; restarted < 2; restarted++) {
    const struct collection *c = coll(f, UUID_A);
    assert_int_equal(c->n_files, 2);
    assert_int_equal(c->n_intervals, 3); // 1, 4 (2000 to 4000), 1
    assert_int_equal(file_for(f, 2500), 4);
    assert_int_equal(file_for(f, 3500), 4);
    assert_int_equal(file_for(f, 4000), 1);
    assert_int_equal(count(f), 3);
    assert_true(has_id(f, UUID_A, 1, 4, 1) && has_id(f, UUID_A, 2, 4, 2) && has_id(f, UUID_A, 4, 1, 4));
    assert_false(has_id(f, UUID_A, 3, 4, 3));
    assert_string_equal(ids_of(f, UUID_A, (struct scan_spec){.index = c->indexes[0]}, 1), "1 2 4");
    assert_true(collection_file_whole(c, 4));
    reopen(f);
  }
  put(f, UUID_A, 4, 1, "{\"_id\": 1, \"k\": 2001, \"x\": 5}");
  put(f, UUID_A, 2, 1, "{\"_id\": 1, \"k\": 2001, \"x\": 6}"); // a forgotten file: left out
  const bson_t *doc;
  assert_true(store_find_rid(coll(f, UUID_A), f->a, 4, 1, &doc));
  assert_int_equal(doc_i64(doc, "x", 0), 5);
}

static void test_unknown_files_are_left_alone(void **state) {
  struct fixture *f = *state;
  two_files(f);
  change_merge(f->list, UUID_A, 9, (uint32_t[]){2, 3}, 2); // there is no file 9: nothing may be lost
  apply(f);
  assert_int_equal(coll(f, UUID_A)->n_files, 3);
  stage(f, 4);
  change_merge(f->list, UUID_A, 4, (uint32_t[]){2, 7, 4}, 3);
  apply(f);
  assert_int_equal(coll(f, UUID_A)->n_files, 3);
  assert_int_equal(file_for(f, 2500), 4);
  assert_int_equal(file_for(f, 3500), 3);
}

// Copies arrive in any order: a key of a unique index may come before its former owner was changed.
static void test_says_when_keys_collided(void **state) {
  struct fixture *f = *state;
  two_files(f);
  stage(f, 4);
  copy(f, 4, 1, "{\"_id\": 1, \"k\": 2001, \"u\": 7}");
  apply(f);
  assert_true(collection_file_whole(coll(f, UUID_A), 4));
  copy(f, 4, 2, "{\"_id\": 2, \"k\": 3001, \"u\": 7}");
  apply(f);
  assert_false(collection_file_whole(coll(f, UUID_A), 4));
}

static void test_where_it_is_now(void **state) {
  struct fixture *f = *state;
  two_files(f);
  struct collection *before = collection_ref(coll(f, UUID_A));
  stage(f, 4);
  change_merge(f->list, UUID_A, 4, (uint32_t[]){2, 3}, 2);
  apply(f);
  struct collection *between = collection_ref(coll(f, UUID_A));
  stage(f, 5);
  change_merge(f->list, UUID_A, 5, (uint32_t[]){1, 4}, 2);
  apply(f);
  for (uint32_t file = 1; file <= 5; file++) {
    if (file != 5) assert_int_equal(collection_file_now(before, file), 5);
    if (file == 1 || file >= 4) assert_int_equal(collection_file_now(between, file), 5);
  }
  assert_int_equal(collection_file_now(before, 77), 77);
  collection_unref(before);
  collection_unref(between);
}

// A scan that stands in files which were closed to make room can go on: they cannot be opened any more later.
static void test_closed_files_are_kept_for_scans(void **state) {
  struct fixture *f = *state;
  two_files(f);
  f->s->max_open = 1;
  struct arena *a = arena_new();
  struct scan *s = scan_open(a, coll(f, UUID_A), &(struct scan_spec){0});
  struct scan_row row;
  assert_true(scan_next(s, &row, NULL));
  scan_save(s);
  store_trim_open(f->s);
  stage(f, 4);
  copy(f, 4, 1, "{\"_id\": 1, \"k\": 2001}");
  copy(f, 4, 2, "{\"_id\": 2, \"k\": 3001}");
  copy(f, 4, 3, "{\"_id\": 3, \"k\": 3002}");
  change_merge(f->list, UUID_A, 4, (uint32_t[]){2, 3}, 2);
  apply(f);
  assert_int_equal(f->s->n_kept, 2);
  struct error err;
  int rows = 0;
  for (; scan_next(s, &row, &err); rows++) assert_non_null(scan_document(s, &row));
  assert_int_equal(err.code, 0);
  assert_int_equal(rows, 3);
  arena_free(a);
  assert_int_equal(f->s->n_kept, 0);
}

// --- open scans, against a plain list ---

struct model_doc {
  int32_t id, x, n; // n: version
  uint32_t file;
  int64_t rid;
  bool alive, always; // always: there since before the scan, and its key did not change
  int seen;
};

struct model {
  struct fixture *f;
  struct model_doc docs[DOCS * 4];
  size_t n;
  uint32_t active[FILES * 4], next_file;
  size_t n_active;
  uint64_t random;
};

static uint32_t pick(struct model *m, uint32_t below) {
  m->random = m->random * UINT64_C(6364136223846793005) + 1442695040888963407u;
  return (uint32_t)(m->random >> 33) % below;
}

static const bson_t *content(struct model *m, const struct model_doc *d) {
  return json(m->f, "{\"_id\": %d, \"k\": %d, \"x\": %d, \"n\": %d}", d->id, d->id, d->x, d->n);
}

static void write_doc(struct model *m, const struct model_doc *d) {
  change_put(m->f->list, coll(m->f, UUID_A), d->file, d->rid, content(m, d));
  apply(m->f);
}

static void insert(struct model *m) {
  if (m->n == sizeof m->docs / sizeof *m->docs) return;
  struct model_doc *d = &m->docs[m->n++];
  *d = (struct model_doc){.id = (int32_t)(m->n * 7919 % 100003),
                          .x = (int32_t)pick(m, X),
                          .file = m->active[pick(m, (uint32_t)m->n_active)],
                          .rid = (int64_t)m->n,
                          .alive = true};
  write_doc(m, d);
}

static void change(struct model *m) {
  struct model_doc *d = &m->docs[pick(m, (uint32_t)m->n)];
  if (!d->alive) return;
  if (pick(m, 3) == 0) {
    del(m->f, UUID_A, d->file, d->rid, d->id);
    d->alive = d->always = false;
    return;
  }
  d->n++;
  if (pick(m, 2)) {
    d->x = (int32_t)pick(m, X);
    d->always = false;
  }
  write_doc(m, d);
}

static void merge_some(struct model *m) {
  struct fixture *f = m->f;
  if (m->n_active < 2 || m->next_file > 200) return;
  uint32_t from[3], to = m->next_file++;
  size_t n = 0;
  for (; n < 3 && m->n_active; n++) {
    size_t at = pick(m, (uint32_t)m->n_active);
    from[n] = m->active[at];
    m->active[at] = m->active[--m->n_active];
  }
  stage(f, to);
  for (size_t i = 0; i < m->n; i++) {
    struct model_doc *d = &m->docs[i];
    if (!d->alive || (d->file != from[0] && d->file != from[1] && (n < 3 || d->file != from[2]))) continue;
    change_copy(f->list, coll(f, UUID_A), to, d->rid, content(m, d));
    d->file = to;
  }
  change_merge(f->list, UUID_A, to, from, n);
  apply(f);
  m->active[m->n_active++] = to;
}

static void see(struct model *m, struct scan *s, const struct scan_row *row) {
  const bson_t *doc = scan_document(s, row);
  if (!doc) return;
  assert_in_range(row->rid, 1, m->n);
  struct model_doc *d = &m->docs[row->rid - 1];
  assert_true(d->alive);
  assert_int_equal(row->file, d->file);
  assert_int_equal(doc_i64(doc, "n", -1), d->n);
  d->seen++;
}

static void scan_under_merges(struct model *m, const struct scan_spec *spec) {
  for (size_t i = 0; i < m->n; i++) {
    m->docs[i].always = m->docs[i].alive;
    m->docs[i].seen = 0;
  }
  struct arena *a = arena_new();
  bool by_id = !spec->index || spec->index->id == 0; // the index goes with the scan's generation
  struct scan *s = scan_open(a, coll(m->f, UUID_A), spec);
  struct scan_row row;
  struct error err;
  while (scan_next(s, &row, &err)) {
    see(m, s, &row);
    uint32_t what = pick(m, 40);
    if (what == 0) merge_some(m);
    if (what < 4) change(m);
    if (what == 5) insert(m);
    if (what == 6) scan_save(s);
  }
  assert_int_equal(err.code, 0);
  arena_free(a);
  for (size_t i = 0; i < m->n; i++) {
    if (m->docs[i].always) assert_int_equal(m->docs[i].seen, 1);
    if (by_id) assert_in_range(m->docs[i].seen, 0, 1);
  }
}

static void add_files(struct model *m) {
  while (m->n_active < FILES) {
    add_file(m->f, m->next_file, true);
    m->active[m->n_active++] = m->next_file++;
  }
}

// The first file may have an _id index of its own, and the others the ids file.
static void run_model(struct fixture *f, uint64_t seed, const char *first_key, const char *key, int rounds) {
  create(f, UUID_A, "db.a", 1, first_key, x_index);
  change_shard_key(f->list, UUID_A, json(f, "%s", key));
  apply(f);
  struct model *m = arena_zalloc(f->a, sizeof *m);
  *m = (struct model){.f = f, .active = {1}, .n_active = 1, .next_file = 2, .random = seed};
  for (int round = 0; round < rounds; round++) {
    add_files(m);
    while (m->n < DOCS || pick(m, 4)) {
      size_t before = m->n;
      insert(m);
      if (m->n == before) break;
    }
    const struct collection *c = coll(f, UUID_A);
    uint32_t kind = rounds < ROUNDS ? 1 : pick(m, 3); // the latter is about _id
    struct key_range range = {.low = num(f, (int)pick(m, 10)), .high = {0}};
    struct scan_spec spec = {.index = kind == 0 ? NULL : c->indexes[kind - 1],
                             .ranges = &range,
                             .n_ranges = 0,
                             .backward = pick(m, 2),
                             .by_order = pick(m, 2)};
    scan_under_merges(m, &spec);
  }
  int64_t alive = 0;
  for (size_t i = 0; i < m->n; i++) {
    // Where _id is the shard key it names one file, which is not where this test puts documents.
    if (m->docs[i].alive && strcmp(key, "{\"_id\": 1}") != 0)
      assert_true(has_id(f, UUID_A, m->docs[i].id, m->docs[i].file, m->docs[i].rid));
    alive += m->docs[i].alive;
  }
  assert_int_equal(count(f), alive);
}

static void test_scans_own_id(void **state) {
  run_model(*state, 1, "{\"_id\": 1}", "{\"_id\": 1}", ROUNDS);
}

static void test_scans_ids_file(void **state) {
  run_model(*state, 2, "{\"k\": 1}", "{\"k\": 1}", ROUNDS);
}

// The first file's own index goes with its first merge: begins anew with each seed.
static void test_scans_of_both(void **state) {
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    void *own;
    (void)fixture_setup(&own);
    run_model(own, seed, "{}", "{\"k\": 1}", 2);
    (void)fixture_teardown(&own);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_takes_everything, fixture_setup, fixture_teardown),
      cmocka_unit_test_setup_teardown(test_unknown_files_are_left_alone, fixture_setup, fixture_teardown),
      cmocka_unit_test_setup_teardown(test_says_when_keys_collided, fixture_setup, fixture_teardown),
      cmocka_unit_test_setup_teardown(test_where_it_is_now, fixture_setup, fixture_teardown),
      cmocka_unit_test_setup_teardown(test_closed_files_are_kept_for_scans, fixture_setup, fixture_teardown),
      cmocka_unit_test_setup_teardown(test_scans_own_id, fixture_setup, fixture_teardown),
      cmocka_unit_test_setup_teardown(test_scans_ids_file, fixture_setup, fixture_teardown),
      cmocka_unit_test(test_scans_of_both),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
