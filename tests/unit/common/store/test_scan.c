// Scans against a plain list: random documents over several files, every kind of scan, saved and changed at random
// moments.
#include "tests/unit/common/store/fixture.h"

enum { FILES = 4, DOCS = 400, X = 40 };

struct model_doc {
  int32_t id, x; // x -1: none
  uint32_t file;
  int64_t rid;
  bool alive;
};

struct model {
  struct model_doc docs[DOCS];
  size_t n;
  uint64_t random;
};

static uint32_t pick(struct model *m, uint32_t below) {
  m->random = m->random * UINT64_C(6364136223846793005) + 1442695040888963407u;
  return (uint32_t)(m->random >> 33) % below;
}

static void write_doc(struct fixture *f, struct model_doc *d) {
  const char *text = d->x < 0
                         ? arena_printf(f->a, "{\"_id\": %d}", d->id)
                         : arena_printf(f->a, "{\"_id\": %d, \"x\": %d, \"k\": %d}", d->id, d->x, (int)d->file * 1000);
  change_put(f->list, coll(f, UUID_A), d->file, d->rid, json(f, "%s", text));
  apply(f);
}

static void add(struct fixture *f, struct model *m) {
  struct model_doc *d = &m->docs[m->n++];
  *d = (struct model_doc){(int32_t)(m->n * 7919 % 10007), (int32_t)pick(m, X + 1) - 1, 1 + pick(m, FILES),
                          (int64_t)m->n, true};
  write_doc(f, d);
}

static void set_up_files(struct fixture *f, const char *key) {
  create(f, UUID_A, "db.a", 1, key, "[{\"id\": 1, \"spec\": {\"v\": 2, \"key\": {\"x\": -1}, \"name\": \"x_-1\"}}]");
  for (uint32_t n = 2; n <= FILES; n++) {
    change_file(f->list, UUID_A, n, num(f, (int)n * 1000), num(f, (int)n * 1000 + 1000));
    change_adopt(f->list, UUID_A, n, num(f, (int)n * 1000), num(f, (int)n * 1000 + 1000));
    apply(f);
  }
}

static bool by_x, descending; // what qsort compares by

static int compare(const void *a, const void *b) {
  const struct model_doc *x = *(struct model_doc *const *)a, *y = *(struct model_doc *const *)b;
  int order = 0;
  if (by_x) order = (x->x < y->x) - (x->x > y->x); // the index is descending
  if (!order) order = (x->rid > y->rid) - (x->rid < y->rid);
  return descending ? -order : order;
}

// What a merged scan gives, as ids_of() writes it. x in [low, high]; file 0 = all.
static const char *expected(struct fixture *f, struct model *m, bool index, bool backward, int low, int high,
                            uint32_t file) {
  struct model_doc *list[DOCS];
  size_t n = 0;
  for (size_t i = 0; i < m->n; i++) {
    struct model_doc *d = &m->docs[i];
    if (d->alive && (!file || d->file == file) && (!index || (d->x >= low && d->x <= high))) list[n++] = d;
  }
  by_x = index;
  descending = backward;
  qsort(list, n, sizeof(*list), compare);
  struct buf out = {0};
  for (size_t i = 0; i < n; i++) buf_printf(&out, "%s%d", i ? " " : "", list[i]->id);
  const char *text = arena_strdup(f->a, buf_str(&out));
  buf_free(&out);
  return text;
}

static struct key x_key(struct fixture *f, int x) {
  struct buf b = {0};
  bson_value_t v = x < 0 ? value_null() : value_int32(x);
  key_append(&b, &v, true);
  struct key k = key_copy(f->a, &b);
  buf_free(&b);
  return k;
}

static void check_all(struct fixture *f, struct model *m) {
  const struct index *x = coll(f, UUID_A)->indexes[1];
  for (int back = 0; back < 2; back++) {
    for (size_t every = 0; every < 4; every++) {
      for (uint32_t file = 0; file <= FILES; file++) {
        struct scan_spec all = {.backward = back, .by_order = true, .only_file = file};
        assert_string_equal(ids_of(f, UUID_A, all, every), expected(f, m, false, back, 0, 0, file));
        int high = (int)pick(m, X), low = (int)pick(m, (uint32_t)high + 1) - 1;
        struct key_range r = {x_key(f, high), key_prefix_end(f->a, x_key(f, low))};
        struct scan_spec some = {
            .index = x, .ranges = &r, .n_ranges = 1, .backward = back, .by_order = true, .only_file = file};
        assert_string_equal(ids_of(f, UUID_A, some, every), expected(f, m, true, back, low, high, file));
      }
    }
  }
}

static void random_documents(void **state, const char *key) {
  struct fixture *f = *state;
  struct model *m = arena_zalloc(f->a, sizeof *m);
  m->random = 5;
  set_up_files(f, key);
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < 60; i++) add(f, m);
    for (int i = 0; i < 30; i++) {
      struct model_doc *d = &m->docs[pick(m, (uint32_t)m->n)];
      if (!d->alive) continue;
      if (pick(m, 2)) {
        d->x = (int32_t)pick(m, X + 1) - 1;
        write_doc(f, d);
      } else {
        d->alive = false;
        del(f, UUID_A, d->file, d->rid, d->id);
      }
    }
    check_all(f, m);
    if (round == 1) reopen(f);
    for (size_t i = 0; i < m->n; i++)
      assert_int_equal(has_id(f, UUID_A, m->docs[i].id, m->docs[i].file, m->docs[i].rid), m->docs[i].alive);
  }
}

static void test_random_with_ids_file(void **state) {
  random_documents(state, "{\"k\": 1}");
}

static void test_random_unsharded_key(void **state) {
  random_documents(state, "{}");
}

// Nothing that was there all the time is missed or given twice, whatever is written between two rows.
static void test_changes_between_rows(void **state) {
  struct fixture *f = *state;
  struct model *m = arena_zalloc(f->a, sizeof *m);
  m->random = 9;
  set_up_files(f, "{\"k\": 1}");
  for (int i = 0; i < 120; i++) add(f, m);
  for (int variant = 0; variant < 8; variant++) {
    struct arena *a = arena_new();
    const struct index *index = variant & 1   ? coll(f, UUID_A)->indexes[1]
                                : variant & 4 ? coll(f, UUID_A)->indexes[0]
                                              : NULL;
    struct scan *s =
        scan_open(a, coll(f, UUID_A), &(struct scan_spec){.index = index, .by_order = true, .backward = variant & 2});
    bool seen[DOCS] = {false}, touched[DOCS] = {false};
    struct scan_row row;
    struct error err;
    while (scan_next(s, &row, &err)) {
      struct model_doc *d = &m->docs[row.rid - 1];
      assert_int_equal(d->file, row.file);
      assert_true(!seen[row.rid - 1] || touched[row.rid - 1]);
      seen[row.rid - 1] = true;
      if (pick(m, 3)) continue;
      if (pick(m, 2)) scan_save(s); // applying saves it anyway
      size_t at = pick(m, (uint32_t)m->n);
      d = &m->docs[at];
      touched[at] = true;
      if (d->alive) {
        if (pick(m, 6) == 0) {
          d->alive = false;
          del(f, UUID_A, d->file, d->rid, d->id);
        } else {
          d->x = (int32_t)pick(m, X);
          write_doc(f, d);
        }
      }
      if (pick(m, 4) == 0) store_commit_all(f->s);
    }
    assert_int_equal(err.code, 0);
    for (size_t i = 0; i < m->n; i++) {
      if (m->docs[i].alive && !touched[i]) assert_true(seen[i]);
    }
    arena_free(a);
  }
}

static void test_several_ranges(void **state) {
  struct fixture *f = *state;
  create(f, UUID_A, "db.a", 1, "{}", "[{\"id\": 1, \"spec\": {\"v\": 2, \"key\": {\"x\": 1}, \"name\": \"x_1\"}}]");
  for (int i = 1; i <= 20; i++) put(f, UUID_A, 1, i, arena_printf(f->a, "{\"_id\": %d, \"x\": %d}", i, i));
  struct key_range r[3] = {{num(f, 2), num(f, 4)}, {num(f, 7), num(f, 7)}, {num(f, 18), {0}}};
  const struct index *x = coll(f, UUID_A)->indexes[1];
  for (size_t every = 0; every < 3; every++) {
    assert_string_equal(ids_of(f, UUID_A, (struct scan_spec){.index = x, .ranges = r, .n_ranges = 3}, every),
                        "2 3 18 19 20");
    assert_string_equal(
        ids_of(f, UUID_A, (struct scan_spec){.index = x, .ranges = r, .n_ranges = 3, .backward = true}, every),
        "20 19 18 3 2");
  }
  struct arena *a = arena_new();
  struct scan *s = scan_open(a, coll(f, UUID_A), &(struct scan_spec){.index = x, .ranges = r, .n_ranges = 3});
  struct scan_row row;
  while (scan_next(s, &row, NULL)) scan_save(s);
  assert_int_equal(scan_keys_examined(s), 5);
  assert_int_equal(scan_seeks(s), 3);
  assert_int_equal(f->s->active == NULL, 1);
  arena_free(a);
}

// A document's bytes stay valid while another scan reads the same file.
static void test_two_scans(void **state) {
  struct fixture *f = *state;
  create(f, UUID_A, "db.a", 1, "{}", "[{\"id\": 1, \"spec\": {\"v\": 2, \"key\": {\"x\": 1}, \"name\": \"x_1\"}}]");
  for (int i = 1; i <= 5; i++) put(f, UUID_A, 1, i, arena_printf(f->a, "{\"_id\": %d, \"x\": %d}", i, i));
  struct arena *a = arena_new();
  const struct index *x = coll(f, UUID_A)->indexes[1];
  struct scan *outer = scan_open(a, coll(f, UUID_A), &(struct scan_spec){.index = x});
  struct scan_row row, inner_row;
  int pairs = 0;
  while (scan_next(outer, &row, NULL)) {
    const bson_t *doc = scan_document(outer, &row);
    struct scan *inner = scan_open(a, coll(f, UUID_A), &(struct scan_spec){.index = x});
    while (scan_next(inner, &inner_row, NULL)) {
      const bson_t *other = scan_document(inner, &inner_row);
      pairs += doc_i64(doc, "_id", 0) == row.rid && doc_i64(other, "_id", 0) == inner_row.rid;
    }
    scan_close(inner);
    assert_int_equal(doc_i64(doc, "_id", 0), row.rid);
  }
  assert_int_equal(pairs, 25);
  arena_free(a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_random_with_ids_file, fixture_setup, fixture_teardown),
      cmocka_unit_test_setup_teardown(test_random_unsharded_key, fixture_setup, fixture_teardown),
      cmocka_unit_test_setup_teardown(test_changes_between_rows, fixture_setup, fixture_teardown),
      cmocka_unit_test_setup_teardown(test_several_ranges, fixture_setup, fixture_teardown),
      cmocka_unit_test_setup_teardown(test_two_scans, fixture_setup, fixture_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
