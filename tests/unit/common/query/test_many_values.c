// Filters with thousands of values: they say what the same filter with few says, and cost n log n: the bound is
// relative to a smaller filter measured in the same run.
#include "json.h"

#include <time.h>

#include "common/query/bounds.h"
#include "common/query/match.h"
#include "common/query/values.h"

enum { SMALL = 1000, FACTOR = 32, SLACK = 8 }; // n times as many may cost n * SLACK, far below n * n

static const bson_t *in_filter(struct arena *a, int n) {
  bson_t *filter = arena_bson(a), field, list;
  BSON_APPEND_DOCUMENT_BEGIN(filter, "k", &field);
  BSON_APPEND_ARRAY_BEGIN(&field, "$in", &list);
  for (int i = 0; i < n; i++) BSON_APPEND_INT32(&list, arena_printf(a, "%d", i), (i * 7919) % n);
  bson_append_array_end(&field, &list);
  bson_append_document_end(filter, &field);
  return filter;
}

static const bson_t *or_filter(struct arena *a, int n) {
  bson_t *filter = arena_bson(a), list, clause;
  BSON_APPEND_ARRAY_BEGIN(filter, "$or", &list);
  for (int i = 0; i < n; i++) {
    BSON_APPEND_DOCUMENT_BEGIN(&list, arena_printf(a, "%d", i), &clause);
    BSON_APPEND_INT32(&clause, "k", (i * 7919) % n);
    bson_append_document_end(&list, &clause);
  }
  bson_append_array_end(filter, &list);
  return filter;
}

// Milliseconds of this process to parse the filter, to make bounds of it and to test n documents.
static double cost(const bson_t *(*make)(struct arena *a, int n), int n, bool hashed) {
  struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
  const bson_t *filter = make(a, n);
  const bson_t *pattern = json(a, hashed ? "{'k': 'hashed'}" : "{'k': 1}");
  struct index_bounds bounds;
  struct key_range *ranges;
  clock_t start = clock();
  struct match *m = match_parse(a, filter, NULL, NULL);
  assert_non_null(m);
  assert_true(bounds_build(a, m, pattern, false, &bounds));
  assert_int_equal(bounds_ranges(a, &bounds, pattern, 1000000, &ranges), n);
  for (int i = 0; i < n; i++) {
    bson_t doc = BSON_INITIALIZER;
    BSON_APPEND_INT32(&doc, "k", i);
    assert_true(match_doc(m, &doc));
    bson_destroy(&doc);
  }
  return (double)(clock() - start) * 1000 / CLOCKS_PER_SEC;
}

static void check_growth(const char *what, const bson_t *(*make)(struct arena *a, int n), bool hashed) {
  double small = cost(make, SMALL, hashed), large = cost(make, SMALL * FACTOR, hashed);
  print_message("%s of %d: %.1f ms, of %d: %.1f ms\n", what, SMALL, small, SMALL * FACTOR, large);
  assert_true(large <= (small + 1) * FACTOR * SLACK);
}

static void grows_gently(void **state) {
  check_growth("$in", in_filter, false);
  check_growth("$in of a hashed key", in_filter, true);
  check_growth("$or", or_filter, false);
  check_growth("$or of a hashed key", or_filter, true);
}

// A clause of every kind beside forty equalities of two fields.
static void means_the_same(void **state) {
  struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
  struct buf text = {0};
  for (int i = 0; i < 40; i++) buf_printf(&text, "{'%s': %d}, ", i % 2 ? "a" : "b.c", i);
  const char *many = buf_str(&text);
  static const struct {
    const char *doc;
    bool matches;
  } cases[] = {
      {"{'a': 1, 'z': 1}", true},
      {"{'a': 2, 'z': 1}", false},
      {"{'a': [2, 39], 'z': 1}", true},
      {"{'a': {'$numberLong': '7'}, 'z': 1}", true},
      {"{'a': '1', 'z': 1, 'b': {'c': 3}}", false},
      {"{'a': 0, 'z': 1, 'b': {'c': 38}}", true},
      {"{'a': 0, 'z': 1, 'b': [{'c': 1}, {'c': 2}]}", true},
      {"{'a': 0, 'z': {'x': 5}}", true},
      {"{'a': 0, 'z': 50}", true},
      {"{'a': 0, 'z': 1}", false},
      {"{'a': 0}", true}, // z: null
      {"{'a': [[3]], 'z': 1}", false},
      {"{'a': [8, [9]], 'z': 1}", true},
  };
  const char *more = "{'z': {'$gt': 40}}, {'z': null}, {'z': {'x': 5}}, {'a': [9]}, {'a': 1, 'q': 1}";
  struct match *any = match_parse(a, json(a, arena_printf(a, "{'$or': [%s%s]}", many, more)), NULL, NULL);
  struct match *none = match_parse(a, json(a, arena_printf(a, "{'$nor': [%s%s]}", many, more)), NULL, NULL);
  assert_non_null(any);
  assert_non_null(none);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    if (match_doc(any, json(a, cases[i].doc)) != cases[i].matches) fail_msg("%s", cases[i].doc);
    assert_int_equal(match_doc(none, json(a, cases[i].doc)), !cases[i].matches);
  }
  buf_free(&text);
}

static void null_among_them(void **state) {
  struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
  struct buf text = {0};
  for (int i = 0; i < 20; i++) buf_printf(&text, "{'a': %d}, ", i);
  struct match *m = match_parse(a, json(a, arena_printf(a, "{'$or': [%s{'a': null}]}", buf_str(&text))), NULL, NULL);
  assert_non_null(m);
  assert_true(match_doc(m, json(a, "{'b': 1}")));
  assert_true(match_doc(m, json(a, "{'a': null}")));
  assert_false(match_doc(m, json(a, "{'a': 'x'}")));
  buf_free(&text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(grows_gently),
      cmocka_unit_test(means_the_same),
      cmocka_unit_test(null_among_them),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
