// Filters: operators, arrays, null and missing, types, errors, equalities, normal form.
#include "json.h"

#include "common/query/match.h"

struct match_case {
  const char *filter, *doc;
  bool matches;
};

static void check_cases(const struct match_case *cases, size_t n) {
  for (size_t i = 0; i < n; i++) {
    struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
    struct match_options o = {0};
    struct error err = {0};
    struct match *m = match_parse(a, json(a, cases[i].filter), &o, &err);
    if (!m) print_error("%s: %s\n", cases[i].filter, err.message);
    assert_non_null(m);
    if (match_doc(m, json(a, cases[i].doc)) == cases[i].matches) continue;
    print_error("%s on %s: expected %s\n", cases[i].filter, cases[i].doc, cases[i].matches ? "a match" : "none");
    fail();
  }
}
#define CHECK(cases) check_cases(cases, sizeof(cases) / sizeof *(cases))

static void comparison(void **state) {
  static const struct match_case cases[] = {
      {"{}", "{'a': 1}", true},
      {"{'a': 1}", "{'a': 1.0}", true},
      {"{'a': 1}", "{'a': {'$numberLong': '1'}}", true},
      {"{'a': 1}", "{'a': {'$numberDecimal': '1.0'}}", true},
      {"{'a': 1}", "{'a': '1'}", false},
      {"{'a': {'$gt': 1}}", "{'a': 2}", true},
      {"{'a': {'$gt': 1}}", "{'a': 1}", false},
      {"{'a': {'$gte': 1}}", "{'a': 1}", true},
      {"{'a': {'$lt': 1}}", "{'a': 0}", true},
      {"{'a': {'$lte': 1}}", "{'a': 1}", true},
      {"{'a': {'$gt': 1}}", "{'a': 'x'}", false},
      {"{'a': {'$gt': 'a'}}", "{'a': 'b'}", true},
      {"{'a': {'$lt': 'a'}}", "{'a': 1}", false},
      {"{'a': {'$ne': 1}}", "{'a': 2}", true},
      {"{'a': {'$ne': 1}}", "{}", true},
      {"{'a': {'$ne': 1}}", "{'a': [1, 2]}", false},
      {"{'a': {'$gt': 1, '$lt': 5}}", "{'a': [0, 9]}", true},
      {"{'a': {'$gt': {'$minKey': 1}}}", "{'a': 'x'}", true},
      {"{'a': {'$lt': {'$maxKey': 1}}}", "{'a': 1}", true},
      {"{'a': {'$lt': {'$maxKey': 1}}}", "{}", true},
      {"{'a': {'$lte': {'$maxKey': 1}}}", "{'a': {'$maxKey': 1}}", true},
      {"{'a': {'$gt': {'$maxKey': 1}}}", "{'a': {'$maxKey': 1}}", false},
      {"{'a': {'$numberDouble': 'NaN'}}", "{'a': {'$numberDouble': 'NaN'}}", true},
      {"{'a': {'$gte': {'$numberDouble': 'NaN'}}}", "{'a': {'$numberDouble': 'NaN'}}", true},
      {"{'a': {'$gt': {'$numberDouble': 'NaN'}}}", "{'a': 1}", false},
      {"{'a': {'$lt': 5}}", "{'a': {'$numberDouble': 'NaN'}}", false},
      {"{'a': {'$gte': [1]}}", "{'a': [2, 0]}", true},
      {"{'a': {'b': 1}}", "{'a': {'b': 1}}", true},
      {"{'a': {'b': 1}}", "{'a': {'b': 1, 'c': 2}}", false},
      {"{'a': true}", "{'a': 1}", false},
      {"{'a': {'$eq': {'$regularExpression': {'pattern': 'x', 'options': ''}}}}", "{'a': 'x'}", false},
  };
  CHECK(cases);
}

static void null_and_missing(void **state) {
  static const struct match_case cases[] = {
      {"{'a': null}", "{}", true},
      {"{'a': null}", "{'a': null}", true},
      {"{'a': null}", "{'a': 1}", false},
      {"{'a': null}", "{'a': {'$undefined': true}}", false}, // since 8.0
      {"{'a': null}", "{'a': [null]}", true},
      {"{'a': null}", "{'a': []}", false},
      {"{'a.b': null}", "{'a': 5}", true},
      {"{'a.b': null}", "{'a': {}}", true},
      {"{'a.b': null}", "{'a': []}", false},
      {"{'a.b': null}", "{'a': [1, 2]}", false},
      {"{'a.b': null}", "{'a': [{'b': 1}, {}]}", true},
      {"{'a': {'$lte': null}}", "{}", true},
      {"{'a': {'$gt': null}}", "{}", false},
      {"{'a': {'$ne': null}}", "{'a': 1}", true},
      {"{'a': {'$ne': null}}", "{}", false},
      {"{'a': {'$in': [null, 7]}}", "{}", true},
      {"{'a': {'$nin': [null]}}", "{}", false},
      {"{'a': {'$exists': true}}", "{'a': null}", true},
      {"{'a': {'$exists': true}}", "{}", false},
      {"{'a': {'$exists': false}}", "{}", true},
      {"{'a': {'$exists': 0}}", "{'a': 1}", false},
      {"{'a.b': {'$exists': false}}", "{'a': []}", true},
      {"{'a.b': {'$exists': true}}", "{'a': [{}, {'b': 1}]}", true},
  };
  CHECK(cases);
}

static void arrays(void **state) {
  static const struct match_case cases[] = {
      {"{'a': 1}", "{'a': [0, 1]}", true},
      {"{'a': [0, 1]}", "{'a': [0, 1]}", true},
      {"{'a': [0, 1]}", "{'a': [[0, 1]]}", true},
      {"{'a': 1}", "{'a': [[1]]}", false},
      {"{'a.b': 5}", "{'a': [{'b': 5}, 3, {'b': [9, 11]}]}", true},
      {"{'a.b': 11}", "{'a': [{'b': 5}, 3, {'b': [9, 11]}]}", true},
      {"{'a.b': 3}", "{'a': [{'b': 5}, 3]}", false},
      {"{'a.1': 7}", "{'a': [5, 7, 3]}", true},
      {"{'a.1': 5}", "{'a': [5, 7, 3]}", false},
      {"{'a.0': 2}", "{'a': [[1, 2]]}", false}, // an element picked by index is not looked into
      {"{'a.0': [1, 2]}", "{'a': [[1, 2]]}", true},
      {"{'a.1': 4}", "{'a': [5, {'1': 4}, 3]}", true},
      {"{'a.1.b': 4}", "{'a': [5, {'b': 4}]}", true},
      {"{'a.1.b': 4}", "{'a': [5, [{'b': 4}]]}", true},
      {"{'a.01': 7}", "{'a': [5, 7]}", false},
      {"{'a': {'$all': [1, 2]}}", "{'a': [3, 2, 1]}", true},
      {"{'a': {'$all': [1, 4]}}", "{'a': [3, 2, 1]}", false},
      {"{'a': {'$all': [1]}}", "{'a': 1}", true},
      {"{'a': {'$all': []}}", "{'a': []}", false},
      {"{'a': {'$all': [{'$elemMatch': {'b': 1}}, {'$elemMatch': {'b': 2}}]}}", "{'a': [{'b': 1}, {'b': 2}]}", true},
      {"{'a': {'$size': 2}}", "{'a': [1, 2]}", true},
      {"{'a': {'$size': 2}}", "{'a': [1, 2, 3]}", false},
      {"{'a': {'$size': 2}}", "{'a': [[1, 2]]}", false},
      {"{'a': {'$size': 0}}", "{'a': []}", true},
      {"{'a': {'$elemMatch': {'$gt': 1, '$lt': 5}}}", "{'a': [0, 9]}", false},
      {"{'a': {'$elemMatch': {'$gt': 1, '$lt': 5}}}", "{'a': [0, 3]}", true},
      {"{'a': {'$elemMatch': {'$gt': 1}}}", "{'a': 3}", false},
      {"{'a': {'$elemMatch': {'b': 1, 'c': 2}}}", "{'a': [{'b': 1, 'c': 3}, {'b': 2, 'c': 2}]}", false},
      {"{'a': {'$elemMatch': {'b': 1, 'c': 2}}}", "{'a': [{'b': 1, 'c': 3}, {'b': 1, 'c': 2}]}", true},
      {"{'a.b': 1, 'a.c': 2}", "{'a': [{'b': 1, 'c': 3}, {'b': 2, 'c': 2}]}", true},
      {"{'a': {'$elemMatch': {'$or': [{'b': 1}, {'b': 2}]}}}", "{'a': [{'b': 2}]}", true},
      {"{'a': {'$elemMatch': {'$in': [1]}}}", "{'a': [[1]]}", false},
      {"{'a': {'$elemMatch': {'$elemMatch': {'$eq': 1}}}}", "{'a': [[1]]}", true},
      {"{'a': {'$not': {'$elemMatch': {'$eq': 1}}}}", "{'a': [2]}", true},
      {"{'a': {'$elemMatch': {'$not': {'$gt': 5}}}}", "{'a': [6, 4]}", true},
  };
  CHECK(cases);
}

static void logic_and_types(void **state) {
  static const struct match_case cases[] = {
      {"{'$and': [{'a': 1}, {'b': 2}]}", "{'a': 1, 'b': 2}", true},
      {"{'$and': [{'a': 1}, {'b': 2}]}", "{'a': 1, 'b': 3}", false},
      {"{'$or': [{'a': 1}, {'b': 2}]}", "{'a': 0, 'b': 2}", true},
      {"{'$nor': [{'a': 1}, {'b': 2}]}", "{'a': 0, 'b': 2}", false},
      {"{'$nor': [{'a': 1}, {'b': 2}]}", "{}", true},
      {"{'a': {'$not': {'$gt': 5}}}", "{}", true},
      {"{'a': {'$not': {'$gt': 5, '$lt': 10}}}", "{'a': 7}", false},
      {"{'a': {'$not': {'~regex': '^x'}}}", "{'a': 'xy'}", false},
      {"{'$comment': 'hello', 'a': 1}", "{'a': 1}", true},
      {"{'a': {'~type': 'string'}}", "{'a': 'x'}", true},
      {"{'a': {'~type': 2}}", "{'a': ['x']}", true},
      {"{'a': {'~type': 'array'}}", "{'a': []}", true},
      {"{'a': {'~type': 'number'}}", "{'a': {'$numberDecimal': '1'}}", true},
      {"{'a': {'~type': ['bool', 'null']}}", "{'a': null}", true},
      {"{'a': {'~type': ['bool', 'null']}}", "{'a': 1}", false},
      {"{'a': {'~type': 'minKey'}}", "{'a': {'$minKey': 1}}", true},
      {"{'a': {'~type': 'null'}}", "{}", false},
      {"{'a': {'$in': [1, 'x']}}", "{'a': 'x'}", true},
      {"{'a': {'$in': [1, 'x']}}", "{'a': ['y', 'x']}", true},
      {"{'a': {'$in': []}}", "{'a': 1}", false},
      {"{'a': {'$in': [[1, 2]]}}", "{'a': [1, 2]}", true},
      {"{'a': {'$nin': [1, 2]}}", "{'a': 3}", true},
      {"{'a': {'$mod': [4, 1]}}", "{'a': 5}", true},
      {"{'a': {'$mod': [4, 1]}}", "{'a': 5.9}", true},
      {"{'a': {'$mod': [4, 1]}}", "{'a': '5'}", false},
      {"{'a': {'$mod': [4, -1]}}", "{'a': -5}", true},
      {"{'a': {'$mod': [-1, 0]}}", "{'a': {'$numberLong': '-9223372036854775808'}}", true},
      {"{'a': {'$bitsAllSet': 5}}", "{'a': 7}", true},
      {"{'a': {'$bitsAllSet': 5}}", "{'a': 6}", false},
      {"{'a': {'$bitsAllClear': [1, 3]}}", "{'a': 5}", true},
      {"{'a': {'$bitsAnySet': [1, 2]}}", "{'a': 4}", true},
      {"{'a': {'$bitsAnyClear': 7}}", "{'a': 7}", false},
      {"{'a': {'$bitsAllSet': [200]}}", "{'a': -1}", true},
      {"{'a': {'$bitsAllSet': 1}}", "{'a': {'$binary': {'base64': 'AQ==', 'subType': '00'}}}", true},
      {"{'a': {'$bitsAllSet': 1}}", "{'a': 1.5}", false},
  };
  CHECK(cases);
}

static void regular_expressions(void **state) {
  static const struct match_case cases[] = {
      {"{'a': {'$regularExpression': {'pattern': '^ab', 'options': ''}}}", "{'a': 'abc'}", true},
      {"{'a': {'$regularExpression': {'pattern': '^AB', 'options': 'i'}}}", "{'a': 'abc'}", true},
      {"{'a': {'$regularExpression': {'pattern': '^ab', 'options': ''}}}", "{'a': ['x', 'abc']}", true},
      {"{'a': {'$regularExpression': {'pattern': '^ab', 'options': ''}}}",
       "{'a': {'$regularExpression': {'pattern': '^ab', 'options': ''}}}", true},
      {"{'a': {'~regex': 'b.d', '~options': 's'}}", "{'a': 'b\\nd'}", true},
      {"{'a': {'~regex': 'b.d'}}", "{'a': 'b\\nd'}", false},
      {"{'a': {'~options': 'i', '~regex': 'X'}}", "{'a': 'x'}", true},
      {"{'a': {'~regex': '^b$', '~options': 'm'}}", "{'a': 'a\\nb'}", true},
      {"{'a': {'~regex': 'a b', '~options': 'x'}}", "{'a': 'ab'}", true},
      {"{'a': {'$in': [{'$regularExpression': {'pattern': '^b', 'options': ''}}, 3]}}", "{'a': 'bc'}", true},
      {"{'a': {'$all': [{'$regularExpression': {'pattern': '^b', 'options': ''}}, 'c']}}", "{'a': ['b', 'c']}", true},
      {"{'a': {'~regex': '^.$'}}", "{'a': '\u00e9'}", true},
      {"{'a': {'~regex': 'x'}}", "{'a': 5}", false},
  };
  CHECK(cases);
}

static void expressions(void **state) {
  static const struct match_case cases[] = {
      {"{'$expr': {'$gt': ['$a', '$b']}}", "{'a': 2, 'b': 1}", true},
      {"{'$expr': {'$gt': ['$a', '$b']}}", "{'a': 1, 'b': 1}", false},
      {"{'$expr': '$a'}", "{'a': 0}", false},
      {"{'$or': [{'x': 1}, {'$expr': {'$eq': ['$a', 5]}}]}", "{'a': 5}", true},
  };
  CHECK(cases);
}

// An error while matching is no match, and is told afterwards.
static void failures(void **state) {
  struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
  struct error err = {0};
  struct match *m = match_parse(a, json(a, "{'$expr': {'$divide': ['$a', '$b']}}"), NULL, &err);
  assert_non_null(m);
  assert_true(match_doc(m, json(a, "{'a': 2, 'b': 1}")));
  assert_true(match_ok(m, &err));
  assert_false(match_doc(m, json(a, "{'a': 2, 'b': 0}")));
  assert_false(match_ok(m, &err));
  assert_code("division by zero", &err, ERR_BadValue, "can't $divide by zero");
  struct match *r = match_parse(a, json(a, "{'a': {'~regex': '(a+)+$'}}"), NULL, &err);
  assert_non_null(r);
  assert_false(match_doc(r, json(a, "{'a': 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab'}")));
  assert_false(match_ok(r, &err));
  assert_code("endless backtracking", &err, 51156, NULL);
}

static void parse_errors(void **state) {
  static const struct {
    const char *filter;
    int32_t code;
    const char *part;
  } cases[] = {
      {"{'a': {'$foo': 1}}", ERR_BadValue, "unknown operator: $foo"},
      {"{'$foo': 1}", ERR_BadValue, "unknown top level operator: $foo"},
      {"{'$and': 1}", ERR_BadValue, "$and must be an array"},
      {"{'$or': []}", ERR_BadValue, "$and/$or/$nor must be a nonempty array"},
      {"{'$or': [1]}", ERR_BadValue, "$or/$and/$nor entries need to be full objects"},
      {"{'a': {'$in': 1}}", ERR_BadValue, "$in needs an array"},
      {"{'a': {'$in': [{'$gt': 1}]}}", ERR_BadValue, "cannot nest $ under $in"},
      {"{'a': {'$not': 1}}", ERR_BadValue, "$not needs a regex or a document"},
      {"{'a': {'$not': {}}}", ERR_BadValue, "$not cannot be empty"},
      {"{'a': {'$ne': {'$regularExpression': {'pattern': 'x', 'options': ''}}}}", ERR_BadValue, "$ne"},
      {"{'a': {'$gt': {'$regularExpression': {'pattern': 'x', 'options': ''}}}}", ERR_BadValue, "RegEx"},
      {"{'a': {'~regex': '('}}", 51091, "Regular expression is invalid"},
      {"{'a': {'~regex': 'a', '~options': 'q'}}", 51108, "invalid flag in regex options: q"},
      {"{'a': {'~regex': 1}}", ERR_BadValue, "$regex has to be a string"},
      {"{'a': {'~options': 'i'}}", ERR_BadValue, "$options needs a $regex"},
      {"{'a': {'$size': 'x'}}", ERR_BadValue, "Failed to parse $size"},
      {"{'a': {'$size': -1}}", ERR_BadValue, "non-negative"},
      {"{'a': {'$size': 1.5}}", ERR_BadValue, "Expected an integer"},
      {"{'a': {'$mod': 1}}", ERR_BadValue, "malformed mod, needs to be an array"},
      {"{'a': {'$mod': [1]}}", ERR_BadValue, "not enough elements"},
      {"{'a': {'$mod': [1, 2, 3]}}", ERR_BadValue, "too many elements"},
      {"{'a': {'$mod': [0, 1]}}", ERR_BadValue, "divisor cannot be 0"},
      {"{'a': {'~type': 'foo'}}", ERR_BadValue, "Unknown type name alias: foo"},
      {"{'a': {'~type': 99}}", ERR_BadValue, "Invalid numerical type code: 99"},
      {"{'a': {'~type': []}}", ERR_FailedToParse, "must match at least one type"},
      {"{'a': {'$elemMatch': 1}}", ERR_BadValue, "$elemMatch needs an Object"},
      {"{'a': {'$all': 1}}", ERR_BadValue, "$all needs an array"},
      {"{'a': {'$all': [{'$gt': 1}]}}", ERR_BadValue, "no $ expressions in $all"},
      {"{'a': {'$bitsAllSet': -1}}", ERR_BadValue, "non-negative"},
      {"{'a': {'$bitsAllSet': [-1]}}", ERR_BadValue, ">= 0"},
      {"{'a': {'$elemMatch': {'$expr': 1}}}", ERR_BadValue, "$expr can only be applied to the top-level document"},
      {"{'$expr': {'$foo': 1}}", ERR_InvalidPipelineOperator, "Unrecognized expression '$foo'"},
      {"{'$where': 'x'}", ERR_CommandNotSupported, "$where is not supported"},
      {"{'a': {'$geoWithin': 1}}", ERR_CommandNotSupported, "$geoWithin is not supported"},
      {"{'$text': {}}", ERR_CommandNotSupported, "$text"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
    struct error err = {0};
    assert_null(match_parse(a, json(a, cases[i].filter), NULL, &err));
    assert_code(cases[i].filter, &err, cases[i].code, cases[i].part);
  }
}

static void positions(void **state) {
  static const struct {
    const char *filter, *doc;
    int position;
  } cases[] = {
      {"{'a': 7}", "{'a': [5, 7]}", 1},
      {"{'a': 7}", "{'a': 7}", -1},
      {"{'a.b': 4}", "{'a': [{'b': 1}, {'b': 4}]}", 1},
      {"{'a.b': 4}", "{'a': [{'b': [1]}, {'b': [9, 9, 4]}]}", 1},
      {"{'a': {'$elemMatch': {'b': 4}}}", "{'a': [{'b': 1}, {'b': 1}, {'b': 4}]}", 2},
      {"{'x': 1, 'a': {'$gte': 3}}", "{'x': 1, 'a': [1, 3]}", 1},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
    struct match *m = match_parse(a, json(a, cases[i].filter), NULL, NULL);
    int position;
    assert_true(match_doc_position(m, json(a, cases[i].doc), &position));
    if (position != cases[i].position) print_error("%s: %d\n", cases[i].filter, position);
    assert_int_equal(position, cases[i].position);
  }
}

static void array_filters(void **state) {
  static const struct {
    const char *filter, *value;
    bool matches;
  } cases[] = {
      {"{'x': {'$gte': 3}}", "3", true},
      {"{'x': {'$gte': 3}}", "2", false},
      {"{'x.y': 1}", "{'y': 1}", true},
      {"{'x.y': 1}", "{'y': 2}", false},
      {"{'$or': [{'x.y': 1}, {'x.z': 2}]}", "{'z': 2}", true},
      {"{'x': {'$ne': 3}}", "3", false},
      {"{'x.y': null}", "5", true},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
    struct match *m = match_parse(a, json(a, cases[i].filter), NULL, NULL);
    bson_value_t v = json_value(a, cases[i].value);
    assert_int_equal(match_value(m, &v), cases[i].matches);
  }
}

static void equalities(void **state) {
  struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
  bson_value_t v;
  struct match *m = match_parse(a,
                                json(a, "{'a': 1, '$and': [{'b': 2}, {'$and': [{'c.d': 3}]}], 'e': {'f': 4},"
                                        "'g': {'$gt': 5}, '$or': [{'h': 1}, {'h': 2}]}"),
                                NULL, NULL);
  assert_true(match_equality(m, "a", &v) && value_i64(&v) == 1);
  assert_true(match_equality(m, "b", &v) && value_i64(&v) == 2);
  assert_true(match_equality(m, "c.d", &v) && value_i64(&v) == 3);
  assert_true(match_equality(m, "e.f", &v) && value_i64(&v) == 4);
  assert_true(match_equality(m, "e", &v) && v.value_type == BSON_TYPE_DOCUMENT);
  assert_false(match_equality(m, "g", &v));
  assert_false(match_equality(m, "h", &v));
  struct match *one = match_parse(a, json(a, "{'_id': {'$eq': 7}}"), NULL, NULL);
  assert_true(match_equality(one, "_id", &v) && value_i64(&v) == 7);
}

static void descriptions(void **state) {
  static const struct {
    const char *filter, *described;
  } cases[] = {
      {"{}", "{}"},
      {"{'a': 5}", "{'a': {'$eq': 5}}"},
      {"{'s': 'c', 'a': 5}", "{'$and': [{'a': {'$eq': 5}}, {'s': {'$eq': 'c'}}]}"},
      {"{'a': {'$gte': 1, '$lt': 2}}", "{'$and': [{'a': {'$lt': 2}}, {'a': {'$gte': 1}}]}"},
      {"{'a': {'$ne': 1}}", "{'a': {'$not': {'$eq': 1}}}"},
      {"{'a': {'$in': [2, 1]}}", "{'a': {'$in': [1, 2]}}"},
      {"{'$or': [{'b': 1}, {'a': 1}]}", "{'$or': [{'b': {'$eq': 1}}, {'a': {'$eq': 1}}]}"},
      {"{'a': {'$elemMatch': {'$gt': 1, '$lt': 3}}}", "{'a': {'$elemMatch': {'$gt': 1, '$lt': 3}}}"},
      {"{'a': {'$elemMatch': {'b': 1}}}", "{'a': {'$elemMatch': {'b': {'$eq': 1}}}}"},
      {"{'a': {'~regex': 'x', '~options': 'i'}}", "{'a': {'~regex': 'x', '~options': 'i'}}"},
      {"{'a': {'$exists': false}}", "{'a': {'$not': {'$exists': true}}}"},
      {"{'a': {'~type': 'string'}}", "{'a': {'~type': [2]}}"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
    struct match *m = match_parse(a, json(a, cases[i].filter), NULL, NULL);
    bson_t *out = arena_bson(a);
    match_describe(m, out);
    assert_same_doc(a, cases[i].filter, out, json(a, cases[i].described));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(comparison),      cmocka_unit_test(null_and_missing),    cmocka_unit_test(arrays),
      cmocka_unit_test(logic_and_types), cmocka_unit_test(regular_expressions), cmocka_unit_test(expressions),
      cmocka_unit_test(failures),        cmocka_unit_test(parse_errors),        cmocka_unit_test(positions),
      cmocka_unit_test(array_filters),   cmocka_unit_test(equalities),          cmocka_unit_test(descriptions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
