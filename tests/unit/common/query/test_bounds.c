// Bounds: texts for known filters, and, for random filters and documents, that no matching document is outside.
#include "json.h"

#include "common/bson/index_keys.h"
#include "common/bson/key.h"
#include "common/query/bounds.h"

static void texts(void **state) {
  static const struct {
    const char *pattern, *filter, *bounds;
    bool covers;
  } cases[] = {
      {"{'a': 1}", "{'a': 5}", "{'a': ['[5, 5]']}", true},
      {"{'a': 1}", "{'a': {'$gt': 5}}", "{'a': ['(5, inf.0]']}", true},
      {"{'a': 1}", "{'a': {'$lte': 5}}", "{'a': ['[-inf.0, 5]']}", true},
      {"{'a': 1}", "{'a': {'$gt': 1, '$lt': 5}}", "{'a': ['(1, 5)']}", true},
      {"{'a': 1}", "{'a': {'$gt': 5, '$lt': 1}}", "{'a': []}", true},
      {"{'a': 1}", "{'a': {'$gt': 'x', '$lt': 'x'}}", "{'a': []}", true},
      {"{'a': 1}", "{'a': {'$gt': 1, '$lt': 'x'}}", "{'a': []}", true},
      {"{'a': -1}", "{'a': {'$gt': 1, '$lt': 5}}", "{'a': ['(5, 1)']}", true},
      {"{'a': 1}", "{'a': {'$in': [3, 1]}}", "{'a': ['[1, 1]', '[3, 3]']}", true},
      {"{'a': 1}", "{'a': {'$in': []}}", "{'a': []}", true},
      {"{'a': 1}", "{'$or': [{'a': 1}, {'a': {'$gt': 5}}]}", "{'a': ['[1, 1]', '(5, inf.0]']}", true},
      {"{'a': 1}", "{'$or': [{'a': 1}, {'b': 1}]}", "{'a': ['[MinKey, MaxKey]']}", false},
      {"{'a': 1}", "{'a': {'$ne': 5}}", "{'a': ['[MinKey, 5)', '(5, MaxKey]']}", true},
      {"{'a': 1}", "{'a': null}", "{'a': ['[null, null]']}", false},
      {"{'a': 1}", "{'a': {'$exists': true}}", "{'a': ['[MinKey, MaxKey]']}", false},
      {"{'a': 1}", "{'a': {'~regex': '^ab'}}", "{'a': ['[\\'ab\\', \\'ac\\')', '[/^ab/, /^ab/]']}", true},
      {"{'a': 1}", "{'a': {'~regex': 'ab'}}", "{'a': ['[\\'\\', {})', '[/ab/, /ab/]']}", false},
      {"{'a': 1}", "{'a': {'$gt': {'$minKey': 1}}}", "{'a': ['(MinKey, MaxKey]']}", true},
      {"{'a': 1}", "{'a': {'$gt': true}}", "{'a': []}", true},
      {"{'a': 1}", "{'a': {'$gte': false}}", "{'a': ['[false, true]']}", true},
      {"{'a': 1}", "{'b': 1}", "{'a': ['[MinKey, MaxKey]']}", false},
      {"{'a': 1, 'b': 1}", "{'a': 1}", "{'a': ['[1, 1]'], 'b': ['[MinKey, MaxKey]']}", true},
      {"{'a': 1, 'b': 1}", "{'a': {'$gt': 1}, 'b': 2}", "{'a': ['(1, inf.0]'], 'b': ['[2, 2]']}", false},
      {"{'a': 1, 'b': 1}", "{'a': {'$in': [1, 2]}, 'b': {'$gt': 2}}",
       "{'a': ['[1, 1]', '[2, 2]'], 'b': ['(2, inf.0]']}", true},
      {"{'a': 'hashed'}", "{'a': 42}", "{'a': ['[-944302157085130861, -944302157085130861]']}", false},
      {"{'a': 'hashed'}", "{'a': {'$gt': 42}}", "{'a': ['[MinKey, MaxKey]']}", false},
      {"{'a.b': 1}", "{'a': {'$elemMatch': {'b': 5}}}", "{'a.b': ['[5, 5]']}", false},
      {"{'a': 1}", "{'a': {'$elemMatch': {'$gt': 1, '$lt': 5}}}", "{'a': ['(1, 5)']}", false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
    struct match *m = match_parse(a, json(a, cases[i].filter), NULL, NULL);
    struct index_bounds b;
    bounds_build(a, m, json(a, cases[i].pattern), false, &b);
    bson_t *out = arena_bson(a);
    bounds_describe(&b, out);
    // Within the expected texts a backslash keeps the next quote: \\' stands for itself.
    char *flat = arena_strdup(a, cases[i].bounds), *to = flat;
    for (const char *c = cases[i].bounds; *c; c++) {
      if (c[0] == '\\' && c[1] == '\'')
        *to++ = *c++, *to++ = '"';
      else
        *to++ = *c == '\'' ? '"' : *c;
    }
    *to = 0;
    bson_error_t why;
    bson_t *parsed = bson_new_from_json((const uint8_t *)flat, -1, &why);
    if (!parsed) print_error("%s: %s\n", flat, why.message);
    assert_non_null(parsed);
    arena_on_free(a, (void (*)(void *))bson_destroy, parsed);
    assert_same_doc(a, cases[i].filter, out, parsed);
    if (b.covers_filter != cases[i].covers) print_error("%s: covers %d\n", cases[i].filter, b.covers_filter);
    assert_int_equal(b.covers_filter, cases[i].covers);
  }
}

// A pattern over one array must not bound its second field by another element's condition.
static void multikey(void **state) {
  struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
  const bson_t *pattern = json(a, "{'a.b': 1, 'a.c': 1}");
  struct index_bounds b;
  struct match *m = match_parse(a, json(a, "{'a.b': 1, 'a.c': 2}"), NULL, NULL);
  assert_true(bounds_build(a, m, pattern, true, &b));
  assert_int_equal(b.n_constrained, 1);
  m = match_parse(a, json(a, "{'a': {'$elemMatch': {'b': 1, 'c': 2}}}"), NULL, NULL);
  assert_true(bounds_build(a, m, pattern, true, &b));
  assert_int_equal(b.n_constrained, 2);
  m = match_parse(a, json(a, "{'a': {'$gt': 1, '$lt': 5}}"), NULL, NULL);
  assert_true(bounds_build(a, m, json(a, "{'a': 1}"), true, &b));
  assert_int_equal(b.fields[0].intervals[0].high.value_type, BSON_TYPE_DOUBLE); // infinity
}

static void points(void **state) {
  struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
  struct index_bounds b;
  struct match *m = match_parse(a, json(a, "{'a': 1, 'b': 2}"), NULL, NULL);
  assert_true(bounds_build(a, m, json(a, "{'a': 1, 'b': 'hashed'}"), false, &b));
  assert_true(b.all_points);
  m = match_parse(a, json(a, "{'a': {'$in': [1, 2, 3, 4, 5]}}"), NULL, NULL);
  assert_true(bounds_build(a, m, json(a, "{'a': 1}"), false, &b));
  assert_false(b.all_points);
  struct key_range *ranges;
  assert_int_equal(bounds_ranges(a, &b, json(a, "{'a': 1}"), 100, &ranges), 5);
  assert_int_equal(bounds_ranges(a, &b, json(a, "{'a': 1}"), 2, &ranges), 2);
  assert_true(key_compare(ranges[0].high, ranges[1].low) <= 0);
  m = match_parse(a, json(a, "{'b': 1}"), NULL, NULL);
  assert_false(bounds_build(a, m, json(a, "{'a': 1}"), false, &b));
  assert_int_equal(bounds_ranges(a, &b, json(a, "{'a': 1}"), 2, &ranges), 1);
}

// --- random filters against random documents ---

struct dice {
  uint64_t state;
};

static unsigned roll(struct dice *d, unsigned n) {
  d->state = d->state * 6364136223846793005ULL + 1442695040888963407ULL;
  return (unsigned)(d->state >> 33) % n;
}

static const char *const VALUES[] = {
    "1",
    "2",
    "3",
    "2.5",
    "null",
    "'x'",
    "'xy'",
    "'y'",
    "true",
    "{'b': 1}",
    "{'$minKey': 1}",
    "{'$maxKey': 1}",
    "{'$numberDouble': 'NaN'}",
    "{'$date': 5}",
    "{'$undefined': true}",
    "{'$oid': '507f1f77bcf86cd799439011'}",
    "{'$numberDecimal': '2.5'}",
    "{'$numberDouble': '-Infinity'}",
};

static const char *random_value(struct arena *a, struct dice *d, int depth) {
  if (depth > 0 && roll(d, 4) == 0) {
    const char *text = "";
    for (unsigned n = roll(d, 4); n; n--) {
      text = arena_printf(a, "%s%s%s", text, *text ? ", " : "", random_value(a, d, depth - 1));
    }
    return arena_printf(a, "[%s]", text);
  }
  if (depth > 0 && roll(d, 4) == 0) {
    return arena_printf(a, "{'b': %s, 'c': %s}", random_value(a, d, depth - 1), random_value(a, d, depth - 1));
  }
  return VALUES[roll(d, sizeof VALUES / sizeof *VALUES)];
}

static const char *operand(struct arena *a, struct dice *d) {
  for (;;) {
    const char *v = random_value(a, d, 1);
    if (!strstr(v, "undefined")) return v;
  }
}

static const char *condition(struct arena *a, struct dice *d, int depth) {
  static const char *const orders[] = {"$gt", "$gte", "$lt", "$lte", "$eq", "$ne"};
  switch (roll(d, depth > 0 ? 10 : 8)) {
  case 0: return arena_printf(a, "{'$in': [%s, %s]}", operand(a, d), operand(a, d));
  case 1: return arena_printf(a, "{'$nin': [%s, %s]}", operand(a, d), operand(a, d));
  case 2: return arena_printf(a, "{'$exists': %s}", roll(d, 2) ? "true" : "false");
  case 3: return arena_printf(a, "{'~type': '%s'}", roll(d, 2) ? "number" : "string");
  case 4: return "{'~regex': '^x'}";
  case 5: return arena_printf(a, "{'$gt': %s, '$lt': %s}", operand(a, d), operand(a, d));
  case 8: return arena_printf(a, "{'$not': %s}", condition(a, d, 0));
  case 9: return arena_printf(a, "{'$elemMatch': %s}", condition(a, d, 0));
  default: return arena_printf(a, "{'%s': %s}", orders[roll(d, 6)], operand(a, d));
  }
}

static const char *random_filter(struct arena *a, struct dice *d, int depth) {
  static const char *const paths[] = {"a", "a.b", "a.c", "b", "b.c"};
  if (depth > 0 && roll(d, 3) == 0) {
    return arena_printf(a, "{'%s': [%s, %s]}", roll(d, 2) ? "$or" : "$and", random_filter(a, d, depth - 1),
                        random_filter(a, d, depth - 1));
  }
  if (roll(d, 6) == 0) {
    return arena_printf(a, "{'a': {'$elemMatch': {'b': %s, 'c': %s}}}", condition(a, d, 0), condition(a, d, 0));
  }
  if (roll(d, 3) == 0) return arena_printf(a, "{'%s': %s}", paths[roll(d, 5)], condition(a, d, 1));
  return arena_printf(a, "{'%s': %s, '%s': %s}", paths[roll(d, 2)], condition(a, d, 1), paths[2 + roll(d, 3)],
                      condition(a, d, 1));
}

static bool inside(const struct key_range *ranges, size_t n, const struct index_keys *keys) {
  for (size_t k = 0; k < keys->n; k++) {
    for (size_t i = 0; i < n; i++) {
      bool below = ranges[i].high.len && key_compare(keys->keys[k], ranges[i].high) >= 0;
      if (key_compare(keys->keys[k], ranges[i].low) >= 0 && !below) return true;
    }
  }
  return false;
}

static void random_bounds(void **state) {
  static const char *const patterns[] = {"{'a': 1}",
                                         "{'a': -1}",
                                         "{'a.b': 1, 'a.c': -1}",
                                         "{'a': 1, 'b': 1}",
                                         "{'b': -1, 'a.b': 1, 'a': 1}",
                                         "{'a': 'hashed'}",
                                         "{'b': 1, 'a': 'hashed'}"};
  struct dice d = {20240131};
  size_t matched = 0, covered = 0;
  for (int round = 0; round < 30000; round++) {
    struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
    const char *filter = random_filter(a, &d, 2);
    const bson_t *pattern = json(a, patterns[roll(&d, sizeof patterns / sizeof *patterns)]);
    const char *text = arena_printf(a, roll(&d, 5) ? "{'a': %s, 'b': %s}" : "{'a': %s, 'z': %s}",
                                    random_value(a, &d, 2), random_value(a, &d, 1));
    const bson_t *doc = json(a, text);
    struct error err = {0};
    struct match *m = match_parse(a, json(a, filter), NULL, &err);
    if (!m) print_error("%s: %s\n", filter, err.message);
    assert_non_null(m);
    struct index_keys keys;
    if (!index_keys_of(a, pattern, doc, &keys, &err)) continue; // arrays where none may be
    struct index_bounds b;
    struct key_range *ranges;
    bounds_build(a, m, pattern, keys.multikey || roll(&d, 4) == 0, &b);
    size_t n = bounds_ranges(a, &b, pattern, 1 + roll(&d, 8), &ranges);
    bool match = match_doc(m, doc), in = inside(ranges, n, &keys), joined = n < bounds_range_count(&b);
    bool wrong = (match && !in) || (in && !match && b.covers_filter && !keys.multikey && !joined);
    if (wrong) {
      bson_t *described = arena_bson(a);
      bounds_describe(&b, described);
      print_error("filter %s\npattern %s\ndocument %s\nmatch %d inside %d covers %d bounds %s\n", filter,
                  show(a, pattern), text, match, in, b.covers_filter, show(a, described));
      fail();
    }
    matched += match;
    covered += b.covers_filter;
  }
  if (matched < 2000 || covered < 150) print_error("%zu matched, %zu covered\n", matched, covered);
  assert_true(matched >= 2000 && covered >= 150); // the test tests something
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(texts),
      cmocka_unit_test(multikey),
      cmocka_unit_test(points),
      cmocka_unit_test(random_bounds),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
