// Sort patterns, sort keys, the sorter.
#include "json.h"

#include "common/query/sort.h"

static struct sort *parse(struct arena *a, const char *pattern) {
  return sort_parse(a, json(a, pattern), NULL);
}

static void keys(void **state) {
  static const struct {
    const char *pattern, *doc, *key;
  } cases[] = {
      {"{'a': 1}", "{'a': 5}", "[5]"},
      {"{'a': 1, 'b.c': -1}", "{'a': 5, 'b': {'c': 'x'}}", "[5, 'x']"},
      {"{'a': 1}", "{}", "[null]"},
      {"{'a': 1}", "{'a': [3, 1, 2]}", "[1]"},
      {"{'a': -1}", "{'a': [3, 1, 2]}", "[3]"},
      {"{'a': 1}", "{'a': []}", "[{'$undefined': true}]"},
      {"{'a.b': 1}", "{'a': [{'b': 3}, {'b': 1}, {}]}", "[null]"},
      {"{'a.b': 1, 'a.c': 1}", "{'a': [{'b': 1, 'c': 9}, {'b': 2, 'c': 1}]}", "[1, 9]"},
      {"{'a.0': 1}", "{'a': [7, 5]}", "[7]"},
      {"{'a': 1, 'b': -1}", "{'a': [2, 1], 'b': 5}", "[1, 5]"},
      {"{'a': 1}", "{'a': [[2, 3]]}", "[[2, 3]]"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
    struct sort *s = parse(a, cases[i].pattern);
    bson_t *out = arena_bson(a);
    sort_key_values(s, json(a, cases[i].doc), out);
    assert_same_doc(a, cases[i].doc, out, json_array(a, cases[i].key));
  }
}

static void errors(void **state) {
  static const struct {
    const char *pattern;
    int32_t code;
  } cases[] = {
      {"{'a': 2}", 15975},  {"{'a': 'x'}", 15974},  {"{'a': {'$meta': 'textScore'}}", ERR_CommandNotSupported},
      {"{'a.': 1}", 40353}, {"{'a..b': 1}", 15998}, {"{'$a': 1}", 16410},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
    struct error err = {0};
    assert_null(sort_parse(a, json(a, cases[i].pattern), &err));
    assert_code(cases[i].pattern, &err, cases[i].code, NULL);
  }
}

// memcmp of encoded keys, comparison of values and the sorter agree.
static void orders_agree(void **state) {
  static const char *const docs[] = {
      "{'a': 1, 'b': 'x'}", "{'a': 1, 'b': 'y'}", "{'a': 1.0, 'b': 'x'}",    "{'a': null}",
      "{'b': 3}",           "{'a': [5, 0]}",      "{'a': 'z', 'b': [1, 2]}", "{'a': {'$minKey': 1}}",
  };
  enum { N = sizeof docs / sizeof *docs };
  struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
  struct sort *s = parse(a, "{'a': 1, 'b': -1}");
  for (size_t i = 0; i < N; i++) {
    for (size_t k = 0; k < N; k++) {
      struct buf x __attribute__((cleanup(buf_cleanup))) = {0}, y __attribute__((cleanup(buf_cleanup))) = {0};
      bson_t *vx = arena_bson(a), *vy = arena_bson(a);
      sort_key_append(s, json(a, docs[i]), &x);
      sort_key_append(s, json(a, docs[k]), &y);
      sort_key_values(s, json(a, docs[i]), vx);
      sort_key_values(s, json(a, docs[k]), vy);
      size_t n = x.len < y.len ? x.len : y.len;
      int bytes = memcmp(x.data, y.data, n), values = sort_key_values_compare(s, vx, vy);
      if (!bytes) bytes = (x.len > y.len) - (x.len < y.len);
      assert_int_equal((bytes > 0) - (bytes < 0), (values > 0) - (values < 0));
    }
  }
}

static void fill(struct arena *a, struct sorter *x, size_t n) {
  for (size_t i = 0; i < n; i++) {
    bson_t *doc = arena_bson(a);
    bson_append_int32(doc, "a", 1, (int32_t)(i * 7919 % 100));
    bson_append_int32(doc, "at", 2, (int32_t)i);
    assert_true(sorter_add(x, doc, NULL));
  }
  sorter_finish(x);
}

// Ascending, and in the order of arrival where equal.
static size_t count_in_order(struct sorter *x) {
  int64_t last = -1, last_at = -1;
  size_t n = 0;
  for (const bson_t *doc; (doc = sorter_next(x)); n++) {
    int64_t v = doc_i64(doc, "a", -1), at = doc_i64(doc, "at", -1);
    assert_true(v > last || (v == last && at > last_at));
    last = v;
    last_at = at;
  }
  assert_null(sorter_next(x));
  return n;
}

static void sorting(void **state) {
  struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
  struct sort *s = parse(a, "{'a': 1}");
  struct sorter *all = sorter_new(a, s, 0), *some = sorter_new(a, s, 25), *none = sorter_new(a, s, 0);
  fill(a, all, 1000);
  assert_int_equal(count_in_order(all), 1000);
  fill(a, some, 1000);
  const bson_t *first = sorter_next(some);
  assert_int_equal(doc_i64(first, "a", -1), 0);
  assert_int_equal(doc_i64(first, "at", -1), 0);
  assert_int_equal(count_in_order(some), 24);
  sorter_finish(none);
  assert_null(sorter_next(none));
}

static void limits(void **state) {
  struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
  struct error err = {0};
  struct sorter *x = sorter_new(a, parse(a, "{'a': 1, 'b': 1}"), 0);
  assert_false(sorter_add(x, json(a, "{'a': [1, 2], 'b': [3, 4]}"), &err));
  assert_code("parallel arrays", &err, ERR_BadValue, "parallel arrays");
  bson_t *large = arena_bson(a);
  char *text = arena_zalloc(a, 8 * 1024 * 1024);
  bson_append_utf8(large, "x", 1, text, 8 * 1024 * 1024 - 1);
  bool ok = true;
  for (int i = 0; ok && i < 20; i++) ok = sorter_add(x, large, &err);
  assert_false(ok);
  assert_code("more than 100 MiB", &err, ERR_QueryExceededMemoryLimitNoDiskUseAllowed, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(keys),    cmocka_unit_test(errors), cmocka_unit_test(orders_agree),
      cmocka_unit_test(sorting), cmocka_unit_test(limits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
