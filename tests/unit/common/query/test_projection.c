// Projections of find and of $project and $addFields.
#include "json.h"

#include "common/query/projection.h"
#include "common/query/transform.h"

struct projection_case {
  const char *spec, *doc, *result;
};

static void check_find(const struct projection_case *cases, size_t n) {
  for (size_t i = 0; i < n; i++) {
    struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
    struct error err = {0};
    struct projection *p = projection_parse(a, json(a, cases[i].spec), true, NULL, NULL, &err);
    if (!p) print_error("%s: %s\n", cases[i].spec, err.message);
    assert_non_null(p);
    bson_t *out = arena_bson(a);
    assert_true(projection_apply(p, a, json(a, cases[i].doc), out, &err));
    assert_same_doc(a, cases[i].spec, out, json(a, cases[i].result));
  }
}

static void find(void **state) {
  static const struct projection_case cases[] = {
      {"{}", "{'_id': 1, 'a': 2}", "{'_id': 1, 'a': 2}"},
      {"{'a': 1}", "{'_id': 1, 'b': 3, 'a': 2}", "{'_id': 1, 'a': 2}"},
      {"{'a': 1, '_id': 0}", "{'_id': 1, 'b': 3, 'a': 2}", "{'a': 2}"},
      {"{'_id': 0}", "{'_id': 1, 'b': 3}", "{'b': 3}"},
      {"{'_id': 1}", "{'_id': 1, 'b': 3}", "{'_id': 1}"},
      {"{'a': 0}", "{'_id': 1, 'b': 3, 'a': 2}", "{'_id': 1, 'b': 3}"},
      {"{'b': true, 'a': 1.0}", "{'a': 2, 'b': 3}", "{'a': 2, 'b': 3}"},
      {"{'a.b': 1}", "{'_id': 1, 'a': {'b': 1, 'c': 2}}", "{'_id': 1, 'a': {'b': 1}}"},
      {"{'a.b': 1}", "{'a': 5, 'c': 1}", "{}"},
      {"{'a.b': 1}", "{'a': [{'b': 1, 'c': 2}, 5, [{'b': 3}]]}", "{'a': [{'b': 1}, [{'b': 3}]]}"},
      {"{'a': {'b': 1, 'd': 1}}", "{'a': {'b': 1, 'c': 2, 'd': 3}}", "{'a': {'b': 1, 'd': 3}}"},
      {"{'a.b': 0}", "{'a': [{'b': 1, 'c': 2}, 5]}", "{'a': [{'c': 2}, 5]}"},
      {"{'a': 1, 'sum': {'$add': ['$a', '$b']}}", "{'_id': 1, 'b': 3, 'a': 2}", "{'_id': 1, 'a': 2, 'sum': 5}"},
      {"{'x': '$b', 'a': 1}", "{'b': 3, 'a': 2}", "{'a': 2, 'x': 3}"},
      {"{'x': '$missing'}", "{'b': 3}", "{}"},
      {"{'a': {'$slice': 2}}", "{'a': [1, 2, 3], 'b': 1}", "{'a': [1, 2], 'b': 1}"},
      {"{'a': {'$slice': -2}}", "{'a': [1, 2, 3]}", "{'a': [2, 3]}"},
      {"{'a': {'$slice': [1, 1]}}", "{'a': [1, 2, 3]}", "{'a': [2]}"},
      {"{'a': {'$slice': [-5, 2]}}", "{'a': [1, 2, 3]}", "{'a': [1, 2]}"},
      {"{'b': 1, 'a': {'$slice': 1}}", "{'a': [1, 2, 3], 'b': 1, 'c': 1}", "{'a': [1], 'b': 1}"},
      {"{'a': {'$slice': ['$a', 1]}, 'b': 1}", "{'a': [1, 2], 'b': 1}", "{'b': 1, 'a': [1]}"},
      {"{'a': {'$elemMatch': {'b': 2}}, 'c': 1}", "{'a': [{'b': 1}, {'b': 2, 'x': 1}, {'b': 2}], 'c': 5}",
       "{'c': 5, 'a': [{'b': 2, 'x': 1}]}"},
      {"{'a': {'$elemMatch': {'$gt': 1}}}", "{'a': [1, 2, 3]}", "{'a': [2]}"},
      {"{'a': {'$elemMatch': {'$gt': 9}}}", "{'_id': 1, 'a': [1, 2, 3]}", "{'_id': 1}"},
  };
  check_find(cases, sizeof cases / sizeof *cases);
}

static void stages(void **state) {
  static const struct {
    const char *stage, *spec, *doc, *result;
  } cases[] = {
      {"$project", "{'_id': 0, 'shard': '$_id', 'nChunks': '$cnt'}", "{'_id': 'sh1', 'cnt': 3}",
       "{'shard': 'sh1', 'nChunks': 3}"},
      {"$project", "{'_id': {'$ifNull': ['$_id.msg', 'Success']}, 'count': '$count'}", "{'_id': {}, 'count': 2}",
       "{'_id': 'Success', 'count': 2}"},
      {"$project", "{'a.b': {'$add': ['$x', 1]}}", "{'_id': 1, 'x': 1, 'a': [{'q': 1}, 2]}",
       "{'_id': 1, 'a': [{'b': 2}]}"},
      {"$project", "{'a': {'b': '$x'}}", "{'x': 1}", "{'a': {'b': 1}}"},
      {"$addFields", "{'b': 2}", "{'a': 1}", "{'a': 1, 'b': 2}"},
      {"$addFields", "{'a': '$b', 'c': 1}", "{'a': 1, 'b': 2}", "{'a': 2, 'b': 2, 'c': 1}"},
      {"$addFields", "{'a.b': 9}", "{'a': {'x': 1}}", "{'a': {'x': 1, 'b': 9}}"},
      {"$addFields", "{'a.b': 9}", "{'a': [{'x': 1}, 5]}", "{'a': [{'x': 1, 'b': 9}, {'b': 9}]}"},
      {"$addFields", "{'a.b': 9}", "{'a': 5}", "{'a': {'b': 9}}"},
      {"$addFields", "{'a': '$$REMOVE'}", "{'a': 5, 'b': 1}", "{'b': 1}"},
      {"$set", "{'a': 1, 'b': {'c': '$a'}}", "{'a': 5}", "{'a': 1, 'b': {'c': 5}}"},
      {"$unset", "'a'", "{'a': 5, 'b': 1}", "{'b': 1}"},
      {"$unset", "['a.x', 'b']", "{'a': {'x': 1, 'y': 2}, 'b': 1}", "{'a': {'y': 2}}"},
      {"$replaceRoot", "{'newRoot': {'$mergeObjects': ['$a', {'z': 1}]}}", "{'a': {'x': 1}}", "{'x': 1, 'z': 1}"},
      {"$replaceWith", "'$a'", "{'a': {'x': 1}}", "{'x': 1}"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
    struct error err = {0};
    struct variables *vars = variables_new(a, NULL, 0, NULL);
    bson_value_t spec = json_value(a, cases[i].spec);
    struct transform *t = transform_parse(a, cases[i].stage, &spec, vars, &err);
    if (!t) print_error("%s: %s\n", cases[i].spec, err.message);
    assert_non_null(t);
    const bson_t *out;
    assert_true(transform_apply(t, a, json(a, cases[i].doc), &out, &err));
    assert_same_doc(a, cases[i].spec, out, json(a, cases[i].result));
  }
}

static void positional(void **state) {
  struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
  struct error err = {0};
  struct match *m = match_parse(a, json(a, "{'a': {'$gt': 1}}"), NULL, NULL);
  struct projection *p = projection_parse(a, json(a, "{'a.$': 1}"), true, m, NULL, &err);
  assert_non_null(p);
  bson_t *out = arena_bson(a);
  assert_true(projection_apply(p, a, json(a, "{'_id': 1, 'a': [1, 2, 3], 'b': 1}"), out, &err));
  assert_same_doc(a, "a.$", out, json(a, "{'_id': 1, 'a': [2]}"));
  struct match *other = match_parse(a, json(a, "{'_id': 1}"), NULL, NULL);
  p = projection_parse(a, json(a, "{'a.$': 1}"), true, other, NULL, &err);
  assert_false(projection_apply(p, a, json(a, "{'_id': 1, 'a': [1]}"), arena_bson(a), &err));
  assert_code("no position", &err, 51246, NULL);
}

static void errors(void **state) {
  static const struct {
    const char *spec;
    bool find;
    int32_t code;
    const char *part;
  } cases[] = {
      {"{'a': 1, 'b': 0}", true, 31254, "Cannot do exclusion on field b in inclusion projection"},
      {"{'a': 0, 'b': 1}", true, 31253, "Cannot do inclusion on field b in exclusion projection"},
      {"{'a': 1, 'a.b': 1}", true, 31249, "Path collision at a.b remaining portion b"},
      {"{'a.b': 1, 'a': 1}", true, 31250, "Path collision at a"},
      {"{'a': 0, 'b': '$c'}", true, 31252, NULL},
      {"{'$a': 1}", true, 16410, NULL},
      {"{'a.': 1}", true, 40353, NULL},
      {"{'a': {'$foo': 1}}", true, ERR_InvalidPipelineOperator, "Unrecognized expression '$foo'"},
      {"{'a': {'$meta': 'textScore'}}", true, ERR_CommandNotSupported, NULL},
      {"{'a': {'$elemMatch': {'b': 1}}}", false, ERR_InvalidPipelineOperator, "$elemMatch"},
      {"{'a.b': {'$elemMatch': {'b': 1}}}", true, 31275, NULL},
      {"{'a': {}}", true, 51270, NULL},
      {"{}", false, 51272, "must have at least one field"},
      {"{'a.$': 1}", true, 51246, NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
    struct error err = {0};
    assert_null(projection_parse(a, json(a, cases[i].spec), cases[i].find, NULL, NULL, &err));
    assert_code(cases[i].spec, &err, cases[i].code, cases[i].part);
  }
}

static void covered(void **state) {
  struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
  const bson_t *key = json(a, "{'a': 1, 'b.c': 1}");
  static const struct {
    const char *spec;
    bool covered;
  } cases[] = {
      {"{'a': 1, '_id': 0}", true}, {"{'b.c': 1, '_id': 0}", true},        {"{'a': 1}", false},
      {"{'_id': 0}", false},        {"{'a': 1, 'x': 1, '_id': 0}", false}, {"{'a': '$a', '_id': 0}", false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct projection *p = projection_parse(a, json(a, cases[i].spec), true, NULL, NULL, NULL);
    assert_int_equal(projection_covered_by(p, key), cases[i].covered);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(find),   cmocka_unit_test(stages),  cmocka_unit_test(positional),
      cmocka_unit_test(errors), cmocka_unit_test(covered),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
