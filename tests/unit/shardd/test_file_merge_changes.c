// What is noted of changes while files are copied.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/bson/doc.h"
#include "shardd/file_merge_changes.h"

static const uint8_t UUID[16] = {1}, OTHER[16] = {2};
static const uint32_t FILES[] = {30, 10, 20}; // in this order they are copied

struct fixture {
  struct change_list list;
  struct file_changes *c;
  struct collection here, elsewhere;
  struct arena *a;
};

static int setup(void **state) {
  static struct fixture f;
  f = (struct fixture){.a = arena_new(), .c = file_changes_new(UUID, FILES, 3)};
  memcpy(f.here.uuid, UUID, 16);
  memcpy(f.elsewhere.uuid, OTHER, 16);
  changes_init(&f.list);
  *state = &f;
  return 0;
}

static int teardown(void **state) {
  struct fixture *f = *state;
  changes_cleanup(&f->list);
  file_changes_free(f->c);
  arena_free(f->a);
  return 0;
}

static void apply(struct fixture *f) {
  file_changes_entry(f->c, changes_finish(&f->list, 1, 1));
  changes_clear(&f->list);
}

static void put(struct fixture *f, uint32_t file, int64_t rid) {
  bson_t doc = BSON_INITIALIZER;
  BSON_APPEND_INT64(&doc, "_id", rid);
  change_put(&f->list, &f->here, file, rid, &doc);
  apply(f);
  bson_destroy(&doc);
}

static void del(struct fixture *f, uint32_t file, int64_t rid) {
  bson_value_t id = value_int64(rid);
  change_delete(&f->list, &f->here, file, rid, &id);
  apply(f);
}

static void behind_the_place(void **state) {
  struct fixture *f = *state;
  file_changes_copied(f->c, 1, 100); // 30 is copied; 10 up to rid 100
  put(f, 30, 500);
  del(f, 10, 100);
  put(f, 10, 101); // these are read later
  put(f, 20, 1);
  put(f, 77, 1); // no file of it
  assert_int_equal(file_changes_count(f->c), 2);
  struct changed_document d;
  for (int n = 0; n < 2; n++) {
    assert_true(file_changes_take(f->c, f->a, &d));
    assert_true((d.file == 30 && d.rid == 500) || (d.file == 10 && d.rid == 100));
    assert_int_equal(value_i64(&d.id), d.rid);
  }
  assert_false(file_changes_take(f->c, f->a, &d));
  put(f, 10, 100); // taken, and changed again
  put(f, 10, 100);
  assert_int_equal(file_changes_count(f->c), 1);
  assert_true(file_changes_complete(f->c));
}

static void what_cannot_be_told(void **state) {
  struct fixture *f = *state;
  struct key k = {0};
  file_changes_copied(f->c, 3, 0);
  change_range_delete(&f->list, UUID, 77, k, k, 1);
  change_range_delete(&f->list, OTHER, 10, k, k, 1);
  change_index_build(&f->list, UUID, 1, 10, 0, 5);
  change_adopt(&f->list, UUID, 78, k, k);
  apply(f);
  assert_true(file_changes_complete(f->c));
  change_range_delete(&f->list, UUID, 20, k, k, 1);
  apply(f);
  assert_false(file_changes_complete(f->c));
}

static void a_file_that_goes(void **state) {
  struct fixture *f = *state;
  change_unfile(&f->list, UUID, 20);
  apply(f);
  assert_false(file_changes_complete(f->c));
}

static void not_any_number(void **state) {
  struct fixture *f = *state;
  file_changes_copied(f->c, 3, 0);
  for (int64_t rid = 1; rid <= FILE_CHANGES_MAX; rid++) put(f, 10, rid);
  assert_true(file_changes_complete(f->c));
  put(f, 10, FILE_CHANGES_MAX + 1);
  assert_false(file_changes_complete(f->c));
  assert_int_equal(file_changes_count(f->c), FILE_CHANGES_MAX);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(behind_the_place, setup, teardown),
      cmocka_unit_test_setup_teardown(what_cannot_be_told, setup, teardown),
      cmocka_unit_test_setup_teardown(a_file_that_goes, setup, teardown),
      cmocka_unit_test_setup_teardown(not_any_number, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
