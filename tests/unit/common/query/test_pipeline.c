// Pipelines: stages, accumulators, what callers take over, errors; and that a pipeline split over shards gives what it
// gives in one piece.
#include "json.h"

#include "common/base/buf.h"
#include "common/query/pipeline/pipeline.h"

struct docs {
  struct arena *arena;
  const bson_t **list;
  size_t n, at;
};

static bool next_doc(void *ctx, const bson_t **doc, struct error *err) {
  struct docs *d = ctx;
  *doc = d->at < d->n ? d->list[d->at++] : NULL;
  return true;
}

static struct docs docs_of(struct arena *a, const bson_t *array) {
  struct docs d = {.arena = a, .list = arena_alloc(a, bson_count_keys(array) * sizeof(bson_t *))};
  bson_iter_t it;
  for (bson_iter_init(&it, array); bson_iter_next(&it);) {
    const bson_value_t *v = bson_iter_value(&it);
    d.list[d.n++] = arena_bson_copy(a, v->value.v_doc.data, v->value.v_doc.data_len);
  }
  return d;
}

static struct pipeline *parse(struct arena *a, const bson_t *stages, struct error *err) {
  return pipeline_parse(a, stages, variables_new(a, NULL, 1700000000000, NULL), err);
}

static bool run(struct arena *a, const bson_t *stages, struct docs *input, bson_t *out, struct error *err) {
  struct pipeline *p = parse(a, stages, err);
  if (!p) return false;
  input->at = 0;
  pipeline_start(p, (struct doc_source){next_doc, input});
  const bson_t *doc;
  for (uint32_t i = 0;; i++) {
    char text[16];
    const char *key;
    if (!pipeline_next(p, &doc, err)) return false;
    if (!doc) return true;
    bson_uint32_to_string(i, &key, text, sizeof text);
    bson_append_document(out, key, -1, doc);
  }
}

static const char *const ITEMS =
    "[{'_id': 1, 'k': 'a', 'n': 5, 't': ['x', 'y']}, {'_id': 2, 'k': 'b', 'n': 7, 't': []},"
    " {'_id': 3, 'k': 'a', 'n': 2.5, 't': ['z']}, {'_id': 4, 'n': null}, {'_id': 5, 'k': 'c', 'n': {'$numberLong': "
    "'4'},"
    " 't': 'single'}]";

static void stages(void **state) {
  static const struct {
    const char *pipeline, *result;
  } cases[] = {
      {"[]", NULL},
      {"[{'$match': {'k': 'a'}}, {'$project': {'_id': 1}}]", "[{'_id': 1}, {'_id': 3}]"},
      {"[{'$sort': {'n': -1}}, {'$limit': 2}, {'$project': {'_id': 1}}]", "[{'_id': 2}, {'_id': 1}]"},
      {"[{'$sort': {'_id': -1}}, {'$skip': 1}, {'$limit': 2}, {'$project': {'_id': 1}}]", "[{'_id': 4}, {'_id': 3}]"},
      {"[{'$skip': 4}, {'$unset': ['k', 'n', 't']}]", "[{'_id': 5}]"},
      {"[{'$skip': 9}]", "[]"},
      {"[{'$group': {'_id': '$k', 'n': {'$sum': '$n'}}}]", "[{'_id': 'a', 'n': 7.5}, {'_id': 'b', 'n': 7}, {'_id': "
                                                           "null, 'n': 0}, {'_id': 'c', 'n': {'$numberLong': '4'}}]"},
      {"[{'$group': {'_id': null, 'n': {'$sum': 1}, 'c': {'$count': {}}}}]", "[{'_id': null, 'n': 5, 'c': 5}]"},
      {"[{'$group': {'_id': 1, 'avg': {'$avg': '$n'}, 'min': {'$min': '$n'}, 'max': {'$max': '$k'}, 'first': "
       "{'$first': '$k'},"
       " 'last': {'$last': '$k'}}}]",
       "[{'_id': 1, 'avg': 4.625, 'min': 2.5, 'max': 'c', 'first': 'a', 'last': 'c'}]"},
      {"[{'$group': {'_id': null, 'k': {'$push': '$k'}, 's': {'$addToSet': '$k'}}}]",
       "[{'_id': null, 'k': ['a', 'b', 'a', 'c'], 's': ['a', 'b', 'c']}]"},
      {"[{'$match': {'_id': {'$lte': 2}}}, {'$group': {'_id': null, 'p': {'$stdDevPop': '$n'}, 's': {'$stdDevSamp': "
       "'$_id'},"
       " 'none': {'$stdDevPop': '$x'}}}]",
       "[{'_id': null, 'p': 1.0, 's': 0.70710678118654757, 'none': null}]"},
      {"[{'$match': {'_id': {'$lte': 2}}}, {'$group': {'_id': null, 'm': {'$mergeObjects': {'a': '$k', 'i': "
       "'$_id'}}}}]",
       "[{'_id': null, 'm': {'a': 'b', 'i': 2}}]"},
      {"[{'$group': {'_id': {'k': '$k'}, 'n': {'$sum': 1}}}, {'$match': {'n': 2}}]", "[{'_id': {'k': 'a'}, 'n': 2}]"},
      {"[{'$group': {'_id': null, 'n': {'$sum': {'$cond': [{'$eq': ['$k', 'a']}, '$n', 0]}}}}]",
       "[{'_id': null, 'n': 7.5}]"},
      {"[{'$unwind': '$t'}, {'$project': {'t': 1}}]",
       "[{'_id': 1, 't': 'x'}, {'_id': 1, 't': 'y'}, {'_id': 3, 't': 'z'}, {'_id': 5, 't': 'single'}]"},
      {"[{'$unwind': {'path': '$t', 'preserveNullAndEmptyArrays': true, 'includeArrayIndex': 'i'}}, {'$unset': ['k', "
       "'n']}]",
       "[{'_id': 1, 't': 'x', 'i': {'$numberLong': '0'}}, {'_id': 1, 't': 'y', 'i': {'$numberLong': '1'}}, {'_id': 2, "
       "'i': null},"
       " {'_id': 3, 't': 'z', 'i': {'$numberLong': '0'}}, {'_id': 4, 'i': null}, {'_id': 5, 't': 'single', 'i': "
       "null}]"},
      {"[{'$count': 'total'}]", "[{'total': 5}]"},
      {"[{'$match': {'x': 1}}, {'$count': 'total'}]", "[]"},
      {"[{'$sortByCount': '$k'}, {'$limit': 1}]", "[{'_id': 'a', 'count': 2}]"},
      {"[{'$match': {'k': 'b'}}, {'$replaceWith': {'only': '$n'}}]", "[{'only': 7}]"},
      {"[{'$bucket': {'groupBy': '$_id', 'boundaries': [0, 2, 4], 'default': 'rest'}}]",
       "[{'_id': 0, 'count': 1}, {'_id': 2, 'count': 2}, {'_id': 'rest', 'count': 2}]"},
      {"[{'$facet': {'a': [{'$match': {'k': 'a'}}, {'$count': 'n'}], 'b': [{'$limit': 1}, {'$project': {'_id': 1}}]}}]",
       "[{'a': [{'n': 2}], 'b': [{'_id': 1}]}]"},
      {"[{'$documents': [{'x': 1}, {'x': {'$add': [1, 1]}}]}, {'$match': {'x': 2}}]", "[{'x': 2}]"},
      {"[{'$documents': [{}]}, {'$limit': 1}, {'$project': {'_id': {'$toHashedIndexKey': {'$literal': 777}}}}]",
       "[{'_id': {'$numberLong': '-8990214526626424009'}}]"},
      {"[{'$sample': {'size': 100}}, {'$count': 'n'}]", "[{'n': 5}]"},
      {"[{'$addFields': {'m': {'$size': {'$ifNull': [{'$cond': [{'$isArray': '$t'}, '$t', null]}, []]}}}}, {'$match': "
       "{'m': 2}},"
       " {'$project': {'m': 1}}]",
       "[{'_id': 1, 'm': 2}]"},
      {"[{'$collStats': {}}, {'$match': {'k': 'b'}}, {'$project': {'_id': 1}}]", "[{'_id': 2}]"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
    struct error err = {0};
    const bson_t *items = json_array(a, ITEMS);
    struct docs input = docs_of(a, items);
    bson_t *out = arena_bson(a);
    if (!run(a, json_array(a, cases[i].pipeline), &input, out, &err)) {
      print_error("%s: %d %s\n", cases[i].pipeline, err.code, err.message);
      fail();
    }
    assert_same_doc(a, cases[i].pipeline, out, cases[i].result ? json_array(a, cases[i].result) : items);
  }
}

static void errors(void **state) {
  static const struct {
    const char *pipeline;
    int32_t code;
    const char *part;
  } cases[] = {
      {"[{'$foo': {}}]", 40324, "Unrecognized pipeline stage name: '$foo'"},
      {"[{}]", 40323, "exactly one field"},
      {"[{'$match': {}, '$limit': 1}]", 40323, "exactly one field"},
      {"[5]", ERR_TypeMismatch, "must be an object"},
      {"[{'$lookup': {}}]", ERR_CommandNotSupported, "$lookup is not supported"},
      {"[{'$limit': 0}]", 15958, "the limit must be positive"},
      {"[{'$limit': 'x'}]", 5107201, "Expected a number in: $limit"},
      {"[{'$skip': -1}]", 5107200, "Expected a non-negative number"},
      {"[{'$match': 5}]", 15959, NULL},
      {"[{'$match': {'a': {'$foo': 1}}}]", ERR_BadValue, "unknown operator: $foo"},
      {"[{'$sort': {}}]", 15976, NULL},
      {"[{'$sort': 5}]", 15973, NULL},
      {"[{'$group': 5}]", 15947, NULL},
      {"[{'$group': {}}]", 15955, "a group specification must include an _id"},
      {"[{'$group': {'_id': 1, 'a': 5}}]", 40234, "The field 'a' must be an accumulator object"},
      {"[{'$group': {'_id': 1, 'a': {'$foo': 5}}}]", 15952, "unknown group operator '$foo'"},
      {"[{'$group': {'_id': 1, 'a': {'$sum': 5, '$avg': 1}}}]", 40238, NULL},
      {"[{'$group': {'_id': 1, 'a.b': {'$sum': 5}}}]", 40235, NULL},
      {"[{'$group': {'_id': 1, 'a': {'$top': {}}}}]", ERR_CommandNotSupported, "$top"},
      {"[{'$unwind': 'a'}]", 28818, "should be prefixed with a '$'"},
      {"[{'$unwind': {}}]", 28812, NULL},
      {"[{'$count': ''}]", 40156, NULL},
      {"[{'$limit': 1}, {'$collStats': {}}]", 40602, "$collStats is only valid as the first stage in a pipeline"},
      {"[{'$out': 'x'}, {'$limit': 1}]", 40601, "$out can only be the final stage in the pipeline"},
      {"[{'$facet': {}}]", 40169, NULL},
      {"[{'$facet': {'a': [{'$out': 'x'}]}}]", 40600, "$out is not allowed to be used within a $facet stage"},
      {"[{'$sample': {'size': -1}}]", 28747, NULL},
      {"[{'$bucket': {'groupBy': '$a', 'boundaries': [2, 1]}}]", 40194, NULL},
      {"[{'$project': {'a': {'$divide': ['$_id', 0]}}}]", ERR_BadValue, "can't $divide by zero"},
      {"[{'$match': {'$expr': {'$divide': ['$_id', 0]}}}]", ERR_BadValue, "can't $divide by zero"},
      {"[{'$bucket': {'groupBy': '$_id', 'boundaries': [0, 2]}}]", 40066, NULL},
      {"[{'$replaceRoot': {'newRoot': '$k'}}]", 40228, NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
    struct error err = {0};
    struct docs input = docs_of(a, json_array(a, ITEMS));
    if (run(a, json_array(a, cases[i].pipeline), &input, arena_bson(a), &err)) {
      print_error("%s was accepted\n", cases[i].pipeline);
    }
    assert_code(cases[i].pipeline, &err, cases[i].code, cases[i].part);
  }
}

static void taken_over(void **state) {
  struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
  struct pipeline *p =
      parse(a,
            json_array(a, "[{'$match': {'a': 1}}, {'$match': {'b': 2}}, {'$sort': {'c': 1}}, {'$skip': 2},"
                          "{'$limit': 3}, {'$out': 'x'}]"),
            NULL);
  bson_value_t argument;
  const bson_t *sort;
  int64_t limit = -1;
  assert_null(pipeline_initial_stage(p, &argument));
  assert_string_equal(pipeline_writing_stage(p, &argument), "$out");
  assert_string_equal(argument.value.v_utf8.str, "x");
  assert_same_doc(a, "match", pipeline_take_match(p), json(a, "{'$and': [{'a': 1}, {'b': 2}]}"));
  assert_true(bson_empty(pipeline_take_match(p)));
  assert_true(pipeline_leading_sort(p, &sort, &limit));
  assert_same_doc(a, "sort", sort, json(a, "{'c': 1}"));
  assert_int_equal(limit, 5);
  assert_int_equal(pipeline_source_limit(p), 0);
  pipeline_drop_leading_sort(p);
  assert_int_equal(pipeline_source_limit(p), 5);
  assert_false(pipeline_runs_anywhere(p));

  p = parse(a, json_array(a, "[{'$collStats': {'count': {}}}, {'$match': {}}]"), NULL);
  assert_string_equal(pipeline_initial_stage(p, &argument), "$collStats");
  assert_true(bson_empty(pipeline_take_match(p)));
  p = parse(a, json_array(a, "[{'$match': {'a': 1}}, {'$project': {'a': 1}}]"), NULL);
  assert_same_doc(a, "one match", pipeline_take_match(p), json(a, "{'a': 1}"));
  assert_true(pipeline_runs_anywhere(p));
}

static void descriptions(void **state) {
  struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
  struct pipeline *p =
      parse(a, json_array(a, "[{'$match': {'a': 1}}, {'$sort': {'c': 1}}, {'$limit': 3}, {'$count': 'n'}]"), NULL);
  bson_t *out = arena_bson(a);
  pipeline_describe(p, out);
  assert_same_doc(
      a, "describe", out,
      json_array(
          a, "[{'$match': {'a': 1}}, {'$sort': {'sortKey': {'c': 1}, 'limit': {'$numberLong': '3'}}}, {'$limit': 3},"
             "{'$group': {'_id': null, 'n': {'$sum': 1}}}, {'$project': {'_id': false}}]"));
}

static void splits(void **state) {
  static const struct {
    const char *pipeline, *shards, *merger, *sort;
  } cases[] = {
      {"[{'$match': {'a': 1}}, {'$project': {'a': 1}}]", "[{'$match': {'a': 1}}, {'$project': {'a': 1}}]", "[]", NULL},
      {"[{'$group': {'_id': '$a', 'n': {'$avg': '$b'}}}, {'$sort': {'_id': 1}}]",
       "[{'$group': {'_id': '$a', 'n': {'$avg': '$b'}, '$willBeMerged': true}}]",
       "[{'$group': {'_id': '$_id', 'n': {'$avg': '$n'}, '$doingMerge': true}}, {'$sort': {'_id': 1}}]", NULL},
      {"[{'$sort': {'a': -1}}, {'$skip': 1}, {'$limit': 2}]",
       "[{'$sort': {'a': -1}}, {'$limit': {'$numberLong': '3'}}]", "[{'$skip': 1}, {'$limit': 2}]", "{'a': -1}"},
      {"[{'$limit': 2}, {'$addFields': {'x': 1}}]", "[{'$limit': 2}]", "[{'$limit': 2}, {'$addFields': {'x': 1}}]",
       NULL},
      {"[{'$skip': 2}, {'$limit': 3}]", "[{'$limit': {'$numberLong': '5'}}]", "[{'$skip': 2}, {'$limit': 3}]", NULL},
      {"[{'$skip': 2}, {'$match': {}}]", "[]", "[{'$skip': 2}, {'$match': {}}]", NULL},
      {"[{'$match': {}}, {'$unwind': '$a'}, {'$out': 'x'}]", "[{'$match': {}}]", "[{'$unwind': '$a'}, {'$out': 'x'}]",
       NULL},
      {"[{'$unwind': '$a'}]", "[{'$unwind': '$a'}]", "[]", NULL},
      {"[{'$collStats': {}}, {'$group': {'_id': null, 'v': {'$sum': '$s'}}}]",
       "[{'$collStats': {}}, {'$group': {'_id': null, 'v': {'$sum': '$s'}, '$willBeMerged': true}}]",
       "[{'$group': {'_id': '$_id', 'v': {'$sum': '$v'}, '$doingMerge': true}}]", NULL},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
    struct pipeline_split split;
    pipeline_split(a, parse(a, json_array(a, cases[i].pipeline), NULL), &split);
    assert_same_doc(a, cases[i].pipeline, split.shards, json_array(a, cases[i].shards));
    assert_same_doc(a, cases[i].pipeline, split.merger, json_array(a, cases[i].merger));
    assert_int_equal(split.merge_sort != NULL, cases[i].sort != NULL);
    if (cases[i].sort) assert_same_doc(a, "sort", split.merge_sort, json(a, cases[i].sort));
  }
}

// Documents with keys of several types and numbers of every kind.
static const bson_t *many_items(struct arena *a) {
  static const char *const numbers[] = {"%d", "%d.25", "{'$numberLong': '%d'}", "{'$numberDecimal': '%d.1'}",
                                        "'text%d'"};
  struct buf text __attribute__((cleanup(buf_cleanup))) = {0};
  buf_printf(&text, "[");
  for (int i = 0; i < 60; i++) {
    buf_printf(&text, "%s{'_id': %d, 'k': %d, 'n': ", i ? ", " : "", i, i * 7 % 5);
    char number[64];
    (void)snprintf(number, sizeof number, numbers[i % 5 == 4 && i % 3 ? 0 : i % (i < 30 ? 3 : 5)], i * 13 % 17);
    buf_printf(&text, "%s, 't': [%d, %d]}", number, i % 3, i % 4);
  }
  buf_printf(&text, "]");
  return json_array(a, buf_str(&text));
}

static void merge_streams(struct arena *a, const bson_t *pattern, bson_t **parts, size_t n, bson_t *out) {
  struct sort *s = sort_parse(a, pattern, NULL);
  struct sorter *x = sorter_new(a, s, 0);
  for (size_t i = 0; i < n; i++) {
    struct docs d = docs_of(a, parts[i]);
    for (size_t k = 0; k < d.n; k++) assert_true(sorter_add(x, d.list[k], NULL));
  }
  sorter_finish(x);
  const bson_t *doc;
  for (uint32_t i = 0; (doc = sorter_next(x)); i++) {
    char text[16];
    const char *key;
    bson_uint32_to_string(i, &key, text, sizeof text);
    bson_append_document(out, key, -1, doc);
  }
}

static void split_gives_the_same(void **state) {
  static const char *const pipelines[] = {
      "[{'$group': {'_id': '$k', 'sum': {'$sum': '$n'}, 'avg': {'$avg': '$n'}, 'c': {'$sum': 1}, 'min': {'$min': '$n'},"
      " 'max': {'$max': '$n'}}}, {'$sort': {'_id': 1}}]",
      "[{'$group': {'_id': null, 'all': {'$push': '$_id'}, 'set': {'$addToSet': '$k'}}}, {'$project': {'_id': 0, 'n': "
      "{'$size': '$all'},"
      " 's': {'$sortArray': {'input': '$set', 'sortBy': 1}}}}]",
      "[{'$match': {'k': {'$lt': 3}}}, {'$unwind': '$t'}, {'$group': {'_id': '$t', 'n': {'$sum': 1}}}, {'$sort': {'n': "
      "-1, '_id': 1}}]",
      "[{'$sort': {'n': 1, '_id': -1}}, {'$skip': 3}, {'$limit': 10}]",
      "[{'$sort': {'_id': 1}}, {'$limit': 7}, {'$count': 'n'}]",
      "[{'$count': 'n'}]",
      "[{'$sort': {'_id': 1}}, {'$group': {'_id': '$k', 'first': {'$first': '$_id'}, 'last': {'$last': '$_id'}}}, "
      "{'$sort': {'_id': 1}}]",
      "[{'$sort': {'_id': 1}}, {'$facet': {'a': [{'$count': 'n'}], 'b': [{'$limit': 2}]}}]",
      "[{'$sortByCount': '$k'}, {'$sort': {'_id': 1}}]",
      "[{'$group': {'_id': '$k', 'd': {'$stdDevPop': '$_id'}}}, {'$sort': {'_id': 1}}, {'$project': {'d': {'$round': "
      "['$d', 9]}}}]",
  };
  enum { SHARDS = 3 };
  for (size_t i = 0; i < sizeof pipelines / sizeof *pipelines; i++) {
    struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
    struct error err = {0};
    struct docs input = docs_of(a, many_items(a)), parts[SHARDS];
    const bson_t *stages_given = json_array(a, pipelines[i]);
    bson_t *whole = arena_bson(a), *merged = arena_bson(a), *all = arena_bson(a), *partial[SHARDS];
    assert_true(run(a, stages_given, &input, whole, &err));
    struct pipeline_split split;
    pipeline_split(a, parse(a, stages_given, NULL), &split);
    uint32_t n = 0;
    for (size_t s = 0; s < SHARDS; s++) {
      parts[s] = (struct docs){.arena = a, .list = arena_alloc(a, input.n * sizeof(bson_t *))};
      for (size_t k = 0; k < input.n; k++) {
        if (k * k % 7 % SHARDS == s) parts[s].list[parts[s].n++] = input.list[k];
      }
      partial[s] = arena_bson(a);
      if (!run(a, split.shards, &parts[s], partial[s], &err)) print_error("%s: %s\n", pipelines[i], err.message);
      struct docs results = docs_of(a, partial[s]);
      for (size_t k = 0; k < results.n; k++) {
        char text[16];
        const char *key;
        bson_uint32_to_string(n++, &key, text, sizeof text);
        bson_append_document(all, key, -1, results.list[k]);
      }
    }
    if (split.merge_sort) {
      bson_reinit(all);
      merge_streams(a, split.merge_sort, partial, SHARDS, all);
    }
    struct docs joined = docs_of(a, all);
    assert_true(run(a, split.merger, &joined, merged, &err));
    assert_same_doc(a, pipelines[i], merged, whole);
  }
}

static void memory_limits(void **state) {
  struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
  struct error err = {0};
  char *text = arena_alloc(a, 4 * 1024 * 1024 + 1);
  memset(text, 'x', 4 * 1024 * 1024);
  text[4 * 1024 * 1024] = 0;
  bson_t *large = arena_bson(a);
  bson_append_utf8(large, "a", 1, text, -1);
  struct docs input = {.arena = a, .list = arena_alloc(a, 40 * sizeof(bson_t *)), .n = 40};
  for (size_t i = 0; i < input.n; i++) input.list[i] = large;
  assert_false(run(a, json_array(a, "[{'$group': {'_id': null, 'x': {'$push': '$a'}}}]"), &input, arena_bson(a), &err));
  assert_code("$group", &err, ERR_QueryExceededMemoryLimitNoDiskUseAllowed, "$group");
  assert_false(run(a, json_array(a, "[{'$sort': {'a': 1}}]"), &input, arena_bson(a), &err));
  assert_code("$sort", &err, ERR_QueryExceededMemoryLimitNoDiskUseAllowed, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(stages),        cmocka_unit_test(errors), cmocka_unit_test(taken_over),
      cmocka_unit_test(descriptions),  cmocka_unit_test(splits), cmocka_unit_test(split_gives_the_same),
      cmocka_unit_test(memory_limits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
