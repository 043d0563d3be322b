// Range files: staged, active, forgotten; intervals; the ids file; deleting ranges.
#include "tests/unit/common/store/fixture.h"

#define BY_X "[{\"id\": 1, \"spec\": {\"v\": 2, \"key\": {\"x\": 1}, \"name\": \"x_1\"}}]"

static void stage(struct fixture *f, uint32_t file, int min, int max) {
  change_file(f->list, UUID_A, file, num(f, min), num(f, max));
  apply(f);
}

static void adopt(struct fixture *f, uint32_t file, struct key min, struct key max) {
  change_adopt(f->list, UUID_A, file, min, max);
  apply(f);
}

static void unfile(struct fixture *f, uint32_t file) {
  change_unfile(f->list, UUID_A, file);
  apply(f);
}

static uint32_t file_for(struct fixture *f, int x) {
  return collection_file_for(coll(f, UUID_A), num(f, x))->id;
}

static struct slice_result delete_range(struct fixture *f, uint32_t file, struct key min, struct key max, int32_t n) {
  change_range_delete(f->list, UUID_A, file, min, max, n);
  apply(f);
  struct slice_result r;
  assert_true(store_last_slice(f->s, UUID_A, &r));
  return r;
}

static bool on_disk(struct fixture *f, const char *name) {
  char *path = file_path(f->s, UUID_A, name);
  bool there = access(path, F_OK) == 0;
  free(path);
  return there;
}

static void test_intervals(void **state) {
  struct fixture *f = *state;
  create(f, UUID_A, "db.a", 1, "{\"x\": 1}", BY_X);
  assert_int_equal(file_for(f, 5), 1);
  stage(f, 2, 10, 20);
  assert_int_equal(coll(f, UUID_A)->n_files, 2);
  assert_int_equal(coll(f, UUID_A)->files[1]->state, FILE_STAGED);
  assert_int_equal(file_for(f, 15), 1); // not yet
  adopt(f, 2, num(f, 10), num(f, 20));
  assert_int_equal(file_for(f, 9), 1);
  assert_int_equal(file_for(f, 10), 2);
  assert_int_equal(file_for(f, 19), 2);
  assert_int_equal(file_for(f, 20), 1);
  assert_int_equal(coll(f, UUID_A)->n_intervals, 3);
  stage(f, 3, 0, 15);
  adopt(f, 3, extreme(f, BSON_TYPE_MINKEY), num(f, 15));
  assert_int_equal(file_for(f, -100), 3);
  assert_int_equal(file_for(f, 14), 3);
  assert_int_equal(file_for(f, 15), 2);
  assert_int_equal(coll(f, UUID_A)->intervals[0].min.len, 0);
  stage(f, 4, 0, 0);
  adopt(f, 4, num(f, 18), extreme(f, BSON_TYPE_MAXKEY));
  assert_int_equal(file_for(f, 17), 2);
  assert_int_equal(file_for(f, 1000), 4);
  assert_int_equal(coll(f, UUID_A)->n_intervals, 3);
  reopen(f);
  assert_int_equal(file_for(f, 14), 3);
  assert_int_equal(file_for(f, 17), 2);
  assert_int_equal(file_for(f, 18), 4);
  unfile(f, 4);
  assert_int_equal(file_for(f, 18), 1); // the lowest active one
  unfile(f, 1);
  assert_int_equal(file_for(f, 18), 2);
  unfile(f, 3);
  unfile(f, 2); // the last one stays
  assert_int_equal(coll(f, UUID_A)->n_files, 1);
  assert_int_equal(coll(f, UUID_A)->n_intervals, 1);
  assert_int_equal(store_next_file_id(f->s), 5);
  reopen(f);
  assert_true(on_disk(f, "2.sqlite"));
  assert_false(on_disk(f, "1.sqlite"));
  assert_false(on_disk(f, "4.sqlite-wal"));
}

static void test_ids_file(void **state) {
  struct fixture *f = *state;
  create(f, UUID_A, "db.a", 1, "{\"x\": 1}", BY_X);
  assert_true(coll(f, UUID_A)->indexes[0]->in_ids_file);
  put(f, UUID_A, 1, 1, "{\"_id\": 1, \"x\": 11}");
  put(f, UUID_A, 1, 2, "{\"_id\": 2, \"x\": 12}");
  assert_true(has_id(f, UUID_A, 2, 1, 2));
  // A document moves away and comes back in another file: its old place may still be in the ids file.
  stage(f, 2, 12, 20);
  put(f, UUID_A, 2, 12, "{\"_id\": 2, \"x\": 12, \"new\": true}");
  assert_true(has_id(f, UUID_A, 2, 1, 2)); // staged: not found by _id
  uint32_t file;
  int64_t rid;
  assert_true(store_find_unique(coll(f, UUID_A), coll(f, UUID_A)->indexes[0], num(f, 2), &file, &rid));
  assert_int_equal(rid, 2);
  struct slice_result r = delete_range(f, 1, num(f, 12), num(f, 20), 100);
  assert_int_equal(r.n, 1);
  assert_true(r.done);
  assert_false(has_id(f, UUID_A, 2, 2, 12));
  adopt(f, 2, num(f, 12), num(f, 20));
  assert_true(has_id(f, UUID_A, 2, 2, 12));
  assert_false(store_find_id(coll(f, UUID_A), f->a, &(bson_value_t){.value_type = BSON_TYPE_NULL}, NULL, NULL, NULL));
  // By order of _id, over both files, through the ids file.
  put(f, UUID_A, 1, 20, "{\"_id\": 0, \"x\": 5}");
  put(f, UUID_A, 2, 21, "{\"_id\": 9, \"x\": 15}");
  const struct index *by_id = coll(f, UUID_A)->indexes[0];
  for (size_t every = 0; every < 3; every++) {
    assert_string_equal(ids_of(f, UUID_A, (struct scan_spec){.index = by_id}, every), "0 1 2 9");
    assert_string_equal(ids_of(f, UUID_A, (struct scan_spec){.index = by_id, .backward = true}, every), "9 2 1 0");
    assert_string_equal(ids_of(f, UUID_A, (struct scan_spec){.index = by_id, .only_file = 2}, every), "2 9");
  }
  struct key_range some = {num(f, 1), num(f, 9)};
  assert_string_equal(ids_of(f, UUID_A, (struct scan_spec){.index = by_id, .ranges = &some, .n_ranges = 1}, 1), "1 2");
  assert_string_equal(
      ids_of(f, UUID_A, (struct scan_spec){.index = by_id, .ranges = &some, .n_ranges = 1, .backward = true}, 1),
      "2 1");
  del(f, UUID_A, 2, 12, 2);
  assert_false(has_id(f, UUID_A, 2, 2, 12));
  reopen(f);
  assert_true(has_id(f, UUID_A, 9, 2, 21));
  unfile(f, 2);
  assert_false(has_id(f, UUID_A, 9, 2, 21));
  assert_true(has_id(f, UUID_A, 1, 1, 1));
}

static void test_stale_ids_are_purged(void **state) {
  struct fixture *f = *state;
  create(f, UUID_A, "db.a", 1, "{\"x\": 1}", BY_X);
  stage(f, 2, 1000, 9000);
  for (int i = 1; i <= 5000; i++) {
    uint32_t file = i % 2 ? 1 : 2;
    change_put(f->list, coll(f, UUID_A), file, i, json(f, "{\"_id\": %d, \"x\": %d}", i, (int)file * 1000));
    if (i % 500 == 0) apply(f);
  }
  const struct ids *ids = core_of(coll(f, UUID_A))->ids;
  assert_int_equal(ids->entries, 5000);
  unfile(f, 2);
  assert_true(f->s->stale_ids);
  for (int n = 0; n < 6 && f->s->stale_ids; n++) ids_purge(f->s);
  assert_false(f->s->stale_ids);
  assert_int_equal(ids->entries, 2500);
  assert_true(has_id(f, UUID_A, 4999, 1, 4999));
  reopen(f);
  ids_purge(f->s);
  assert_false(f->s->stale_ids);
}

static void test_becomes_sharded_in_place(void **state) {
  struct fixture *f = *state;
  create(f, UUID_A, "db.a", 1, "{}", BY_X);
  put(f, UUID_A, 1, 1, "{\"_id\": 1, \"x\": 5}");
  put(f, UUID_A, 1, 2, "{\"_id\": 2, \"x\": 50}");
  assert_false(coll(f, UUID_A)->indexes[0]->in_ids_file);
  change_shard_key(f->list, UUID_A, json(f, "{\"x\": 1}"));
  apply(f);
  assert_int_equal(doc_i64(coll(f, UUID_A)->shard_key, "x", 0), 1);
  assert_false(coll(f, UUID_A)->indexes[0]->in_ids_file); // the file keeps its own
  assert_true(has_id(f, UUID_A, 2, 1, 2));
  stage(f, 2, 100, 200);
  put(f, UUID_A, 2, 3, "{\"_id\": 3, \"x\": 150}");
  adopt(f, 2, num(f, 100), num(f, 200));
  assert_true(coll(f, UUID_A)->indexes[0]->in_ids_file);
  assert_true(has_id(f, UUID_A, 2, 1, 2));
  assert_true(has_id(f, UUID_A, 3, 2, 3));
  const struct index *by_id = coll(f, UUID_A)->indexes[0];
  put(f, UUID_A, 1, 4, "{\"_id\": 4, \"x\": 6}");
  assert_string_equal(ids_of(f, UUID_A, (struct scan_spec){.index = by_id, .by_order = true}, 1), "1 2 3 4");
  assert_string_equal(ids_of(f, UUID_A, (struct scan_spec){.index = by_id, .by_order = true, .backward = true}, 1),
                      "4 3 2 1");
  struct slice_result r = delete_range(f, 1, num(f, 0), num(f, 10), 1);
  assert_int_equal(r.n, 1);
  assert_false(r.done);
  r = delete_range(f, 1, num(f, 0), num(f, 10), 2);
  assert_int_equal(r.n, 1);
  assert_true(r.done);
  assert_false(has_id(f, UUID_A, 4, 1, 4));
  reopen(f);
  assert_true(has_id(f, UUID_A, 2, 1, 2));
  assert_true(has_id(f, UUID_A, 3, 2, 3));
  // And back.
  unfile(f, 2);
  change_shard_key(f->list, UUID_A, json(f, "{}"));
  apply(f);
  assert_int_equal(coll(f, UUID_A)->n_intervals, 1);
}

static void test_shard_key_is_hashed_id(void **state) {
  struct fixture *f = *state;
  create(f, UUID_A, "db.a", 1, "{\"_id\": \"hashed\"}",
         "[{\"id\": 1, \"spec\": {\"v\": 2, \"key\": {\"_id\": \"hashed\"}, \"name\": \"_id_hashed\"}}]");
  assert_false(coll(f, UUID_A)->indexes[0]->in_ids_file);
  stage(f, 2, 0, 0);
  struct key zero;
  struct buf b = {0};
  bson_value_t v = value_int64(0);
  key_append(&b, &v, false);
  zero = key_copy(f->a, &b);
  buf_free(&b);
  adopt(f, 2, zero, (struct key){0});
  int counts[3] = {0};
  for (int i = 1; i <= 100; i++) {
    const bson_t *doc = json(f, "{\"_id\": %d}", i);
    struct key k;
    assert_true(collection_shard_key_of(coll(f, UUID_A), f->a, doc, &k, NULL));
    uint32_t file = collection_file_for(coll(f, UUID_A), k)->id;
    change_put(f->list, coll(f, UUID_A), file, i, doc);
    apply(f);
    assert_true(has_id(f, UUID_A, i, file, i));
    counts[file]++;
  }
  assert_true(counts[1] > 20 && counts[2] > 20);
  struct slice_result r = delete_range(f, 2, zero, extreme(f, BSON_TYPE_MAXKEY), 1000);
  assert_int_equal(r.n, counts[2]);
  assert_int_equal(coll(f, UUID_A)->files[1]->count, 0);
}

// Without an index that begins with the shard key a range is found by looking at every document.
static void test_range_without_index(void **state) {
  struct fixture *f = *state;
  create(f, UUID_A, "db.a", 1, "{\"x\": 1, \"y\": 1}", "[]");
  for (int i = 1; i <= 10; i++) put(f, UUID_A, 1, i, arena_printf(f->a, "{\"_id\": %d, \"x\": %d, \"y\": 1}", i, i));
  put(f, UUID_A, 1, 11, "{\"_id\": 11}"); // null, null
  struct slice_result r = delete_range(f, 1, num(f, 3), num(f, 7), 3);
  assert_int_equal(r.n, 3);
  assert_false(r.done);
  r = delete_range(f, 1, num(f, 3), num(f, 7), 3);
  assert_int_equal(r.n, 1);
  assert_true(r.done);
  assert_string_equal(ids_of(f, UUID_A, (struct scan_spec){0}, 0), "1 2 7 8 9 10 11");
  r = delete_range(f, 1, (struct key){0}, num(f, 2), 10);
  assert_string_equal(ids_of(f, UUID_A, (struct scan_spec){0}, 0), "2 7 8 9 10");
  r = delete_range(f, 1, (struct key){0}, (struct key){0}, 100);
  assert_int_equal(r.n, 5);
}

// A scan that stands in a file goes on reading it when only the file is forgotten, and ends when the collection is
// dropped.
static void test_scan_of_a_forgotten_file(void **state) {
  struct fixture *f = *state;
  create(f, UUID_A, "db.a", 1, "{\"x\": 1}", BY_X);
  stage(f, 2, 0, 0);
  adopt(f, 2, num(f, 100), num(f, 200));
  for (int i = 1; i <= 3; i++) put(f, UUID_A, 2, i, arena_printf(f->a, "{\"_id\": %d, \"x\": %d}", i, 100 + i));
  struct arena *a = arena_new();
  struct scan *s = scan_open(a, coll(f, UUID_A), &(struct scan_spec){.index = coll(f, UUID_A)->indexes[1]});
  struct scan_row row;
  struct error err;
  assert_true(scan_next(s, &row, &err));
  unfile(f, 2);
  assert_int_equal(coll(f, UUID_A)->n_files, 1);
  struct removal *gone = removal_take(f->s, UINT64_MAX);
  assert_non_null(gone);
  removal_unlink(gone);
  removal_free(gone);
  assert_false(on_disk(f, "2.sqlite"));
  assert_true(scan_next(s, &row, &err));
  assert_int_equal(row.rid, 2);
  assert_int_equal(doc_i64(scan_document(s, &row), "_id", 0), 2);
  scan_save(s);
  assert_true(scan_next(s, &row, &err));
  assert_false(scan_next(s, &row, &err));
  assert_int_equal(err.code, 0);
  scan_close(s);
  // One opened on the old generation, after the file is closed.
  s = scan_open(a, coll(f, UUID_A), &(struct scan_spec){0});
  change_drop(f->list, UUID_A);
  apply(f);
  assert_false(scan_next(s, &row, &err));
  assert_int_equal(err.code, ERR_QueryPlanKilled);
  arena_free(a);
}

static void test_scan_of_a_dropped_index(void **state) {
  struct fixture *f = *state;
  create(f, UUID_A, "db.a", 1, "{}", BY_X);
  put(f, UUID_A, 1, 1, "{\"_id\": 1, \"x\": 1}");
  put(f, UUID_A, 1, 2, "{\"_id\": 2, \"x\": 2}");
  struct arena *a = arena_new();
  struct scan *s = scan_open(a, coll(f, UUID_A), &(struct scan_spec){.index = coll(f, UUID_A)->indexes[1]});
  struct scan_row row;
  struct error err;
  assert_true(scan_next(s, &row, &err));
  change_unindex(f->list, UUID_A, 1); // while it stands on a row
  apply(f);
  assert_false(scan_next(s, &row, &err));
  assert_int_equal(err.code, ERR_QueryPlanKilled);
  arena_free(a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_intervals, fixture_setup, fixture_teardown),
      cmocka_unit_test_setup_teardown(test_ids_file, fixture_setup, fixture_teardown),
      cmocka_unit_test_setup_teardown(test_stale_ids_are_purged, fixture_setup, fixture_teardown),
      cmocka_unit_test_setup_teardown(test_becomes_sharded_in_place, fixture_setup, fixture_teardown),
      cmocka_unit_test_setup_teardown(test_shard_key_is_hashed_id, fixture_setup, fixture_teardown),
      cmocka_unit_test_setup_teardown(test_range_without_index, fixture_setup, fixture_teardown),
      cmocka_unit_test_setup_teardown(test_scan_of_a_forgotten_file, fixture_setup, fixture_teardown),
      cmocka_unit_test_setup_teardown(test_scan_of_a_dropped_index, fixture_setup, fixture_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
