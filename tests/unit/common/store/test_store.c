// Collections, documents and indexes: applying entries and reading what they did, also after a restart.
#include "tests/unit/common/store/fixture.h"

#define INDEX_X "[{\"id\": 1, \"spec\": {\"v\": 2, \"key\": {\"x\": 1}, \"name\": \"x_1\"}}]"

static void test_documents(void **state) {
  struct fixture *f = *state;
  create(f, UUID_A, "db.a", 1, "{}", INDEX_X);
  struct collection *c = store_collection(f->s, "db.a");
  assert_non_null(c);
  assert_string_equal(c->db, "db");
  assert_string_equal(c->name, "a");
  assert_int_equal(c->n_indexes, 2);
  assert_string_equal(c->indexes[0]->name, "_id_");
  assert_int_equal(c->n_files, 1);
  assert_int_equal(collection_next_rid(c), 1);
  put(f, UUID_A, 1, 1, "{\"_id\": 10, \"x\": 5}");
  put(f, UUID_A, 1, 2, "{\"_id\": 20, \"x\": 3}");
  put(f, UUID_A, 1, 3, "{\"_id\": 30}");
  assert_true(has_id(f, UUID_A, 20, 1, 2));
  assert_false(has_id(f, UUID_A, 21, 1, 2));
  assert_string_equal(ids_of(f, UUID_A, (struct scan_spec){0}, 0), "10 20 30");
  const struct index *x = collection_index(coll(f, UUID_A), "x_1");
  assert_ptr_equal(x, collection_index_by_key(coll(f, UUID_A), json(f, "{\"x\": 1.0}")));
  assert_string_equal(ids_of(f, UUID_A, (struct scan_spec){.index = x}, 0), "30 20 10");
  assert_string_equal(ids_of(f, UUID_A, (struct scan_spec){.index = x, .backward = true}, 1), "10 20 30");
  put(f, UUID_A, 1, 2, "{\"_id\": 20, \"x\": 9}");
  assert_string_equal(ids_of(f, UUID_A, (struct scan_spec){.index = x}, 1), "30 10 20");
  struct collection_stats stats;
  collection_stats(coll(f, UUID_A), &stats);
  assert_int_equal(stats.count, 3);
  assert_int_equal(stats.bytes, json(f, "{\"_id\": 1, \"x\": 1}")->len * 2 + json(f, "{\"_id\": 1}")->len);
  assert_int_equal(coll(f, UUID_A)->files[0]->count, 3);
  del(f, UUID_A, 1, 1, 10);
  assert_string_equal(ids_of(f, UUID_A, (struct scan_spec){.index = x}, 0), "30 20");
  assert_false(has_id(f, UUID_A, 10, 1, 1));
  reopen(f);
  assert_int_equal(store_applied(f->s), f->index);
  assert_int_equal(store_replay_target(f->s), f->index);
  assert_true(has_id(f, UUID_A, 20, 1, 2));
  x = collection_index(coll(f, UUID_A), "x_1");
  assert_string_equal(ids_of(f, UUID_A, (struct scan_spec){.index = x}, 0), "30 20");
  collection_stats(coll(f, UUID_A), &stats);
  assert_int_equal(stats.count, 2);
  assert_int_equal(collection_next_rid(coll(f, UUID_A)), 4);
}

static void test_rids_are_not_used_again(void **state) {
  struct fixture *f = *state;
  create(f, UUID_A, "db.a", 1, "{}", "[]");
  put(f, UUID_A, 1, 7, "{\"_id\": 1}");
  del(f, UUID_A, 1, 7, 1);
  assert_int_equal(collection_next_rid(coll(f, UUID_A)), 8);
  reopen(f);
  assert_int_equal(collection_next_rid(coll(f, UUID_A)), 8);
  assert_int_equal(collection_next_rid(coll(f, UUID_A)), 9);
  store_reset_counters(f->s);
  assert_int_equal(collection_next_rid(coll(f, UUID_A)), 8);
  assert_int_equal(store_next_file_id(f->s), 2);
  assert_int_equal(store_next_file_id(f->s), 3);
  assert_int_equal(collection_next_index_id(coll(f, UUID_A)), 1);
}

// An entry that a file has already changes nothing.
static void test_skips_what_is_there(void **state) {
  struct fixture *f = *state;
  create(f, UUID_A, "db.a", 1, "{}", "[]");
  put(f, UUID_A, 1, 1, "{\"_id\": 1, \"x\": 1}");
  change_put(f->list, coll(f, UUID_A), 1, 1, json(f, "{\"_id\": 1, \"x\": 2}"));
  store_apply(f->s, f->index, changes_finish(f->list, 1, 1)); // the same index again
  changes_clear(f->list);
  const bson_t *doc;
  assert_true(store_find_rid(coll(f, UUID_A), f->a, 1, 1, &doc));
  assert_int_equal(doc_i64(doc, "x", 0), 1);
  // One for a file nobody knows: skipped, too.
  change_put(f->list, coll(f, UUID_A), 99, 1, json(f, "{\"_id\": 1}"));
  apply(f);
}

static void test_multikey(void **state) {
  struct fixture *f = *state;
  create(f, UUID_A, "db.a", 1, "{}", INDEX_X);
  put(f, UUID_A, 1, 1, "{\"_id\": 1, \"x\": 4}");
  struct collection *before = collection_ref(coll(f, UUID_A));
  assert_false(before->indexes[1]->multikey);
  put(f, UUID_A, 1, 2, "{\"_id\": 2, \"x\": [5, 3, 5]}");
  struct collection *c = coll(f, UUID_A);
  assert_true(c->indexes[1]->multikey);
  assert_true(c->generation > before->generation);
  collection_unref(before);
  assert_string_equal(ids_of(f, UUID_A, (struct scan_spec){.index = c->indexes[1]}, 0), "2 1");
  assert_string_equal(ids_of(f, UUID_A, (struct scan_spec){.index = c->indexes[1]}, 1), "2 1");
  struct key_range two[2] = {{num(f, 3), num(f, 4)}, {num(f, 5), num(f, 6)}};
  assert_string_equal(ids_of(f, UUID_A, (struct scan_spec){.index = c->indexes[1], .ranges = two, .n_ranges = 2}, 0),
                      "2");
  put(f, UUID_A, 1, 2, "{\"_id\": 2, \"x\": [9]}");
  assert_string_equal(ids_of(f, UUID_A, (struct scan_spec){.index = c->indexes[1]}, 0), "1 2");
  assert_int_equal(collection_index_bytes(c, c->indexes[1]), 2 * ((int64_t)num(f, 1).len + 8));
  reopen(f);
  assert_true(coll(f, UUID_A)->indexes[1]->multikey);
}

static void test_sparse_partial_hashed(void **state) {
  struct fixture *f = *state;
  create(f, UUID_A, "db.a", 1, "{}",
         "[{\"id\": 1, \"spec\": {\"v\": 2, \"key\": {\"x\": 1}, \"name\": \"x_1\", \"sparse\": true}},"
         " {\"id\": 2, \"spec\": {\"v\": 2, \"key\": {\"y\": -1}, \"name\": \"y_-1\","
         "   \"partialFilterExpression\": {\"y\": {\"$gt\": 10}}}},"
         " {\"id\": 3, \"spec\": {\"v\": 2, \"key\": {\"x\": \"hashed\"}, \"name\": \"x_hashed\"}}]");
  put(f, UUID_A, 1, 1, "{\"_id\": 1, \"y\": 5}");
  put(f, UUID_A, 1, 2, "{\"_id\": 2, \"x\": 1, \"y\": 15}");
  put(f, UUID_A, 1, 3, "{\"_id\": 3, \"y\": 25}");
  struct collection *c = coll(f, UUID_A);
  assert_true(c->indexes[1]->sparse);
  assert_non_null(c->indexes[2]->partial_filter);
  assert_string_equal(ids_of(f, UUID_A, (struct scan_spec){.index = c->indexes[1]}, 0), "2");
  assert_string_equal(ids_of(f, UUID_A, (struct scan_spec){.index = c->indexes[2]}, 0), "3 2");
  put(f, UUID_A, 1, 3, "{\"_id\": 3, \"y\": 1}"); // leaves the partial index
  assert_string_equal(ids_of(f, UUID_A, (struct scan_spec){.index = c->indexes[2]}, 0), "2");
  assert_int_equal(strlen(ids_of(f, UUID_A, (struct scan_spec){.index = c->indexes[3]}, 0)), 5);
}

static void test_unique(void **state) {
  struct fixture *f = *state;
  create(f, UUID_A, "db.a", 1, "{}",
         "[{\"id\": 1, \"spec\": {\"v\": 2, \"key\": {\"x\": 1}, \"name\": \"x_1\", \"unique\": true}}]");
  put(f, UUID_A, 1, 1, "{\"_id\": 1, \"x\": 5}");
  struct collection *c = coll(f, UUID_A);
  uint32_t file;
  int64_t rid;
  assert_true(store_find_unique(c, c->indexes[1], num(f, 5), &file, &rid));
  assert_int_equal(rid, 1);
  assert_false(store_find_unique(c, c->indexes[1], num(f, 6), &file, &rid));
  assert_true(store_find_unique(c, c->indexes[0], num(f, 1), &file, &rid));
  // A primary does not propose this. Should it happen, the first one keeps the key, on every member alike.
  put(f, UUID_A, 1, 2, "{\"_id\": 2, \"x\": 5}");
  assert_true(store_find_unique(c, c->indexes[1], num(f, 5), &file, &rid));
  assert_int_equal(rid, 1);
  del(f, UUID_A, 1, 2, 2);
  assert_true(store_find_unique(c, c->indexes[1], num(f, 5), &file, &rid));
}

static const char SPEC_Y[] = "{\"v\": 2, \"key\": {\"y\": 1}, \"name\": \"y_1\"}";
static const char SPEC_Y_UNIQUE[] = "{\"v\": 2, \"key\": {\"y\": 1}, \"name\": \"y_1\", \"unique\": true}";

static struct slice_result build(struct fixture *f, int64_t after, int32_t n) {
  change_index_build(f->list, UUID_A, 4, 1, after, n);
  apply(f);
  struct slice_result r;
  assert_true(store_last_slice(f->s, UUID_A, &r));
  return r;
}

static void test_index_build(void **state) {
  struct fixture *f = *state;
  create(f, UUID_A, "db.a", 1, "{}", "[]");
  for (int i = 1; i <= 10; i++) put(f, UUID_A, 1, i, arena_printf(f->a, "{\"_id\": %d, \"y\": %d}", i, 100 - i));
  change_index(f->list, UUID_A, 4, json(f, SPEC_Y));
  apply(f);
  struct collection *c = coll(f, UUID_A);
  assert_int_equal(c->n_indexes, 2);
  assert_false(c->indexes[1]->ready);
  struct slice_result r = build(f, 0, 4);
  assert_int_equal(r.n, 4);
  assert_int_equal(r.last_rid, 4);
  assert_false(r.done);
  put(f, UUID_A, 1, 2, "{\"_id\": 2, \"y\": 1}"); // maintained meanwhile: behind the slices
  put(f, UUID_A, 1, 9, "{\"_id\": 9, \"y\": 2}"); // and before them
  put(f, UUID_A, 1, 11, "{\"_id\": 11, \"y\": 3}");
  r = build(f, r.last_rid, 4);
  assert_false(r.done);
  r = build(f, r.last_rid, 4);
  assert_true(r.done);
  assert_int_equal(r.n, 3);
  assert_false(r.duplicate);
  change_index_ready(f->list, UUID_A, 4);
  apply(f);
  c = coll(f, UUID_A);
  assert_true(c->indexes[1]->ready);
  assert_string_equal(ids_of(f, UUID_A, (struct scan_spec){.index = c->indexes[1]}, 3), "2 9 11 10 8 7 6 5 4 3 1");
  change_unindex(f->list, UUID_A, 4);
  apply(f);
  assert_int_equal(coll(f, UUID_A)->n_indexes, 1);
  assert_int_equal(collection_next_index_id(coll(f, UUID_A)), 5);
  reopen(f);
  assert_int_equal(coll(f, UUID_A)->n_indexes, 1);
  assert_int_equal(collection_next_index_id(coll(f, UUID_A)), 5);
}

static void test_unique_build_meets_duplicates(void **state) {
  struct fixture *f = *state;
  create(f, UUID_A, "db.a", 1, "{}", "[]");
  for (int i = 1; i <= 6; i++) put(f, UUID_A, 1, i, arena_printf(f->a, "{\"_id\": %d, \"y\": %d}", i, i == 5 ? 2 : i));
  change_index(f->list, UUID_A, 4, json(f, SPEC_Y_UNIQUE));
  apply(f);
  struct slice_result r = build(f, 0, 3);
  assert_false(r.duplicate);
  r = build(f, r.last_rid, 3);
  assert_true(r.duplicate);
  assert_false(r.done);
  assert_int_equal(value_i64(&r.duplicate_id), 5);
  change_unindex(f->list, UUID_A, 4);
  apply(f);
  // A key that was put behind the slices.
  change_index(f->list, UUID_A, 5, json(f, SPEC_Y_UNIQUE));
  apply(f);
  change_index_build(f->list, UUID_A, 5, 1, 0, 4);
  apply(f);
  put(f, UUID_A, 1, 1, "{\"_id\": 1, \"y\": 3}");
  put(f, UUID_A, 1, 5, "{\"_id\": 5, \"y\": 50}");
  change_index_build(f->list, UUID_A, 5, 1, 4, 10);
  apply(f);
  assert_true(store_last_slice(f->s, UUID_A, &r));
  assert_true(r.duplicate);
}

static void test_keys_that_cannot_be_made(void **state) {
  struct fixture *f = *state;
  create(f, UUID_A, "db.a", 1, "{}", "[]");
  put(f, UUID_A, 1, 1, "{\"_id\": 1, \"y\": [1, 2], \"z\": [3, 4]}");
  change_index(f->list, UUID_A, 4, json(f, "{\"v\": 2, \"key\": {\"y\": 1, \"z\": 1}, \"name\": \"yz\"}"));
  apply(f);
  struct slice_result r = build(f, 0, 10);
  assert_int_equal(r.failed, ERR_CannotIndexParallelArrays);
}

static void test_catalog_changes(void **state) {
  struct fixture *f = *state;
  create(f, UUID_A, "db.a", 1, "{}", "[]");
  create(f, UUID_B, "db.b", 2, "{}", "[]");
  put(f, UUID_A, 1, 1, "{\"_id\": 1}");
  struct collection *old_b = collection_ref(coll(f, UUID_B)), *old_a = collection_ref(coll(f, UUID_A));
  change_options(f->list, UUID_A, json(f, "{\"validationLevel\": \"off\"}"));
  apply(f);
  assert_string_equal(doc_str(coll(f, UUID_A)->options, "validationLevel", ""), "off");
  assert_true(bson_empty(old_a->options));
  change_rename(f->list, UUID_A, "db.b", UUID_B);
  apply(f);
  assert_true(old_b->dropped);
  assert_false(old_a->dropped);
  assert_string_equal(old_a->ns, "db.a");
  assert_null(store_collection(f->s, "db.a"));
  assert_null(store_collection_by_uuid(f->s, UUID_B));
  assert_memory_equal(store_collection(f->s, "db.b")->uuid, UUID_A, 16);
  assert_true(has_id(f, UUID_A, 1, 1, 1));
  collection_unref(old_a);
  collection_unref(old_b);
  reopen(f);
  assert_memory_equal(store_collection(f->s, "db.b")->uuid, UUID_A, 16);
  assert_string_equal(doc_str(coll(f, UUID_A)->options, "validationLevel", ""), "off");
  struct stat st;
  char *path = file_path(f->s, UUID_B, "");
  assert_int_not_equal(stat(path, &st), 0); // unlinked, with its directory
  free(path);
  change_drop(f->list, UUID_A);
  apply(f);
  assert_null(store_collection(f->s, "db.b"));
  reopen(f);
  assert_null(store_collection(f->s, "db.b"));
}

static bool append_ns(void *ctx, struct collection *c) {
  strcat(ctx, c->ns);
  strcat(ctx, " ");
  return true;
}

static void test_views_and_listing(void **state) {
  struct fixture *f = *state;
  create(f, UUID_B, "db.b", 2, "{}", "[]");
  change_create(f->list, UUID_A, "db.a", json(f, "{\"viewOn\": \"b\", \"pipeline\": []}"), 0, json(f, "{}"),
                json(f, "[]"));
  apply(f);
  create(f, UUID_C, "config.c", 3, "{}", "[]");
  assert_int_equal(coll(f, UUID_A)->n_files, 0);
  assert_int_equal(coll(f, UUID_A)->n_indexes, 0);
  assert_string_equal(ids_of(f, UUID_A, (struct scan_spec){0}, 0), "");
  char text[100] = "";
  store_each_collection(f->s, append_ns, text);
  assert_string_equal(text, "config.c db.a db.b ");
  reopen(f);
  assert_int_equal(coll(f, UUID_A)->n_files, 0);
}

static void test_internal_collections(void **state) {
  struct fixture *f = *state;
  create(f, UUID_A, "config.chunks", 1, "{}",
         "[{\"id\": 1, \"spec\": {\"v\": 2, \"key\": {\"x\": 1}, \"name\": \"x_1\", \"unique\": true}}]");
  create(f, UUID_B, "admin.system.version", 2, "{}", "[]");
  assert_true(coll(f, UUID_A)->internal);
  for (int i = 1; i <= 5; i++) {
    change_put(f->list, coll(f, UUID_A), 1, i, json(f, "{\"_id\": %d, \"x\": %d}", i, -i));
    change_put(f->list, coll(f, UUID_B), 2, i, json(f, "{\"_id\": %d}", i + 10));
  }
  apply(f);
  const struct index *x = coll(f, UUID_A)->indexes[1];
  assert_string_equal(ids_of(f, UUID_A, (struct scan_spec){.index = x}, 2), "5 4 3 2 1");
  assert_true(has_id(f, UUID_B, 13, 2, 3));
  change_index(f->list, UUID_B, 1, json(f, SPEC_Y));
  change_index_ready(f->list, UUID_B, 1);
  apply(f);
  reopen(f);
  x = coll(f, UUID_A)->indexes[1];
  uint32_t file;
  int64_t rid;
  assert_true(store_find_unique(coll(f, UUID_A), x, num(f, -4), &file, &rid));
  assert_int_equal(rid, 4);
  change_drop(f->list, UUID_A);
  apply(f);
  assert_null(store_collection(f->s, "config.chunks"));
  assert_string_equal(ids_of(f, UUID_B, (struct scan_spec){0}, 0), "11 12 13 14 15");
  reopen(f);
  assert_string_equal(ids_of(f, UUID_B, (struct scan_spec){0}, 0), "11 12 13 14 15");
  assert_int_equal(coll(f, UUID_B)->files[0]->count, 5);
}

static void test_local_state(void **state) {
  struct fixture *f = *state;
  const bson_t *value;
  assert_false(store_local_get(f->s, f->a, "set", &value));
  store_local_put(f->s, "set", json(f, "{\"name\": \"sh1\"}"));
  store_local_put(f->s, "set", json(f, "{\"name\": \"sh2\"}"));
  reopen(f);
  assert_true(store_local_get(f->s, f->a, "set", &value));
  assert_string_equal(doc_str(value, "name", ""), "sh2");
}

// More files than may be open: all of them are written and read.
static void test_few_open_files(void **state) {
  struct fixture *f = *state;
  store_close(f->s);
  struct error err = {0};
  struct store_options o = {.dbpath = f->dir, .role = "shardd", .max_open_files = 4};
  f->s = store_open(&o, &err);
  assert_non_null(f->s);
  create(f, UUID_A, "db.a", 1, "{\"_id\": 1}", "[]");
  for (uint32_t n = 2; n <= 12; n++) {
    change_file(f->list, UUID_A, n, num(f, (int)n * 10), num(f, (int)n * 10 + 10));
    change_adopt(f->list, UUID_A, n, num(f, (int)n * 10), num(f, (int)n * 10 + 10));
    apply(f);
  }
  for (int round = 0; round < 3; round++) {
    for (uint32_t n = 2; n <= 12; n++) {
      int32_t id = (int32_t)n * 10 + round;
      struct key k = num(f, id);
      assert_int_equal(collection_file_for(coll(f, UUID_A), k)->id, n);
      put(f, UUID_A, n, id, arena_printf(f->a, "{\"_id\": %d, \"y\": %d}", id, 1000 - id));
    }
    assert_true(f->s->n_open <= 4);
  }
  change_index(f->list, UUID_A, 1, json(f, SPEC_Y));
  apply(f);
  assert_true(f->s->n_open <= 4);
  for (uint32_t n = 2; n <= 12; n++) {
    assert_true(has_id(f, UUID_A, (int32_t)n * 10 + 1, n, n * 10 + 1));
    change_index_build(f->list, UUID_A, 1, n, 0, 100);
    apply(f);
  }
  const struct index *y = coll(f, UUID_A)->indexes[1];
  const char *merged = ids_of(f, UUID_A, (struct scan_spec){.index = y, .by_order = true}, 5);
  assert_int_equal(strncmp(merged, "122 121 120 112 111 110 102 ", 28), 0);
  reopen(f);
  y = coll(f, UUID_A)->indexes[1];
  assert_string_equal(ids_of(f, UUID_A, (struct scan_spec){.index = y, .by_order = true}, 1), merged);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_documents, fixture_setup, fixture_teardown),
      cmocka_unit_test_setup_teardown(test_rids_are_not_used_again, fixture_setup, fixture_teardown),
      cmocka_unit_test_setup_teardown(test_skips_what_is_there, fixture_setup, fixture_teardown),
      cmocka_unit_test_setup_teardown(test_multikey, fixture_setup, fixture_teardown),
      cmocka_unit_test_setup_teardown(test_sparse_partial_hashed, fixture_setup, fixture_teardown),
      cmocka_unit_test_setup_teardown(test_unique, fixture_setup, fixture_teardown),
      cmocka_unit_test_setup_teardown(test_index_build, fixture_setup, fixture_teardown),
      cmocka_unit_test_setup_teardown(test_unique_build_meets_duplicates, fixture_setup, fixture_teardown),
      cmocka_unit_test_setup_teardown(test_keys_that_cannot_be_made, fixture_setup, fixture_teardown),
      cmocka_unit_test_setup_teardown(test_catalog_changes, fixture_setup, fixture_teardown),
      cmocka_unit_test_setup_teardown(test_views_and_listing, fixture_setup, fixture_teardown),
      cmocka_unit_test_setup_teardown(test_internal_collections, fixture_setup, fixture_teardown),
      cmocka_unit_test_setup_teardown(test_local_state, fixture_setup, fixture_teardown),
      cmocka_unit_test_setup_teardown(test_few_open_files, fixture_setup, fixture_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
