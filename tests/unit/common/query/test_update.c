// Updates: every operator, paths, arrays, conflicts, errors, pipelines, upserts.
#include "json.h"

#include "common/query/update.h"

enum { NOW = 1700000000123 };

struct update_case {
  const char *doc, *update, *result; // result NULL: nothing is modified
};

static struct update *parse(struct arena *a, const char *text, const char *filters, struct error *err) {
  bool is_array = text[0] == '[';
  const bson_t *u = is_array ? json_array(a, text) : json(a, text);
  return update_parse(a, u, is_array, filters ? json_array(a, filters) : NULL, NULL, err);
}

static void check_cases(const struct update_case *cases, size_t n) {
  for (size_t i = 0; i < n; i++) {
    struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
    struct error err = {0};
    struct update *u = parse(a, cases[i].update, NULL, &err);
    if (!u) print_error("%s: %s\n", cases[i].update, err.message);
    assert_non_null(u);
    const bson_t *out, *doc = json(a, cases[i].doc);
    bool modified;
    if (!update_apply(u, a, doc, -1, NOW, false, &out, &modified, &err)) {
      print_error("%s on %s: %d %s\n", cases[i].update, cases[i].doc, err.code, err.message);
      fail();
    }
    const char *expected = cases[i].result ? cases[i].result : cases[i].doc;
    assert_same_doc(a, arena_printf(a, "%s on %s", cases[i].update, cases[i].doc), out, json(a, expected));
    if (modified != (cases[i].result != NULL)) print_error("%s: modified %d\n", cases[i].update, modified);
    assert_int_equal(modified, cases[i].result != NULL);
  }
}
#define CHECK(cases) check_cases(cases, sizeof(cases) / sizeof *(cases))

static void fields(void **state) {
  static const struct update_case cases[] = {
      {"{'_id': 1}", "{'$set': {'b': 2, 'a': 1}}", "{'_id': 1, 'a': 1, 'b': 2}"},
      {"{'_id': 1, 'b': 1}", "{'$set': {'b': 2, 'a': 1}}", "{'_id': 1, 'b': 2, 'a': 1}"},
      {"{'_id': 1, 'a': 1}", "{'$set': {'a': 1}}", NULL},
      {"{'_id': 1, 'a': 1}", "{'$set': {'a': 1.0}}", "{'_id': 1, 'a': 1.0}"},
      {"{'_id': 1, 'a': 1}", "{'$set': {'_id': 1}}", NULL},
      {"{'_id': 1}", "{'$set': {}}", NULL},
      {"{'_id': 1}", "{'$set': {'a.b.c': 1, 'a.d': 2}}", "{'_id': 1, 'a': {'b': {'c': 1}, 'd': 2}}"},
      {"{'a': {'x': 1}}", "{'$set': {'a.b': 1}}", "{'a': {'x': 1, 'b': 1}}"},
      {"{'a': [1, 2]}", "{'$set': {'a.1': 5}}", "{'a': [1, 5]}"},
      {"{'a': [1]}", "{'$set': {'a.3': 5}}", "{'a': [1, null, null, 5]}"},
      {"{'a': [{'b': 1}]}", "{'$set': {'a.0.b': 5}}", "{'a': [{'b': 5}]}"},
      {"{'a': {}}", "{'$set': {'a.10': 1, 'a.2': 2}}", "{'a': {'2': 2, '10': 1}}"},
      {"{'a': 1, 'b': 2}", "{'$unset': {'a': ''}}", "{'b': 2}"},
      {"{'a': {'b': 1}}", "{'$unset': {'a.b': 1}}", "{'a': {}}"},
      {"{'a': [1, 2]}", "{'$unset': {'a.0': 1}}", "{'a': [null, 2]}"},
      {"{'a': 5}", "{'$unset': {'a.b': 1, 'c.d': 1}}", NULL},
      {"{'a': 1}", "{'$setOnInsert': {'b.c': 2}}", NULL},
      {"{'a': 1, 'b': 2}", "{'$rename': {'a': 'c'}}", "{'b': 2, 'c': 1}"},
      {"{'a': 1, 'b': 2}", "{'$rename': {'a': 'b'}}", "{'b': 1}"},
      {"{'a': {'b': 1}}", "{'$rename': {'a.b': 'c.d'}}", "{'a': {}, 'c': {'d': 1}}"},
      {"{'a': 1}", "{'$rename': {'x': 'y.z'}}", NULL},
      {"{}", "{'$currentDate': {'a': true}}", "{'a': {'$date': {'$numberLong': '1700000000123'}}}"},
      {"{}", "{'$currentDate': {'a': {'~type': 'timestamp'}}}", "{'a': {'$timestamp': {'t': 1700000000, 'i': 124}}}"},
      {"{'a': 5}", "{'$min': {'a': 3}}", "{'a': 3}"},
      {"{'a': 5}", "{'$min': {'a': 7}}", NULL},
      {"{'a': 5}", "{'$max': {'a': 7}}", "{'a': 7}"},
      {"{'a': 5}", "{'$max': {'a': 'x', 'b': 1}}", "{'a': 'x', 'b': 1}"},
      {"{'a': 5}", "{'$bit': {'a': {'and': 6}}}", "{'a': 4}"},
      {"{}", "{'$bit': {'a': {'or': {'$numberLong': '5'}}}}", "{'a': {'$numberLong': '5'}}"},
      {"{'a': 5}", "{'$bit': {'a': {'xor': 1, 'or': 8}}}", "{'a': 12}"},
  };
  CHECK(cases);
}

static void numbers(void **state) {
  static const struct update_case cases[] = {
      {"{'a': 1}", "{'$inc': {'a': 2}}", "{'a': 3}"},
      {"{}", "{'$inc': {'a': {'$numberLong': '2'}}}", "{'a': {'$numberLong': '2'}}"},
      {"{'a': 1}", "{'$inc': {'a': {'$numberLong': '2'}}}", "{'a': {'$numberLong': '3'}}"},
      {"{'a': 1}", "{'$inc': {'a': 0.5}}", "{'a': 1.5}"},
      {"{'a': 1}", "{'$inc': {'a': {'$numberDecimal': '0.10'}}}", "{'a': {'$numberDecimal': '1.10'}}"},
      {"{'a': 2147483647}", "{'$inc': {'a': 1}}", "{'a': {'$numberLong': '2147483648'}}"},
      {"{'a': 1}", "{'$inc': {'a': 0}}", NULL},
      {"{'a': {'$numberDouble': 'NaN'}}", "{'$inc': {'a': 1}}", NULL},
      {"{'a': 3}", "{'$mul': {'a': 4}}", "{'a': 12}"},
      {"{}", "{'$mul': {'a': 4.5}}", "{'a': 0.0}"},
      {"{'a': 2147483647}", "{'$mul': {'a': 2}}", "{'a': {'$numberLong': '4294967294'}}"},
      {"{'a': {'$numberDecimal': '1.5'}}", "{'$mul': {'a': 2}}", "{'a': {'$numberDecimal': '3.0'}}"},
  };
  CHECK(cases);
}

static void arrays(void **state) {
  static const struct update_case cases[] = {
      {"{}", "{'$push': {'a': 1}}", "{'a': [1]}"},
      {"{'a': [1]}", "{'$push': {'a': [2, 3]}}", "{'a': [1, [2, 3]]}"},
      {"{'a': [1]}", "{'$push': {'a': {'$each': [2, 3]}}}", "{'a': [1, 2, 3]}"},
      {"{'a': [1]}", "{'$push': {'a': {'$each': []}}}", NULL},
      {"{'a': [1, 2]}", "{'$push': {'a': {'$each': [9], '$position': 1}}}", "{'a': [1, 9, 2]}"},
      {"{'a': [1, 2]}", "{'$push': {'a': {'$each': [9, 8], '$position': -1}}}", "{'a': [1, 9, 8, 2]}"},
      {"{'a': [1, 2]}", "{'$push': {'a': {'$each': [9], '$position': -10}}}", "{'a': [9, 1, 2]}"},
      {"{'a': [3, 1]}", "{'$push': {'a': {'$each': [2], '$sort': 1}}}", "{'a': [1, 2, 3]}"},
      {"{'a': [3, 1]}", "{'$push': {'a': {'$each': [2], '$sort': -1, '$slice': 2}}}", "{'a': [3, 2]}"},
      {"{'a': [1, 2, 3]}", "{'$push': {'a': {'$each': [4], '$slice': -2}}}", "{'a': [3, 4]}"},
      {"{'a': [1]}", "{'$push': {'a': {'$each': [], '$slice': 0}}}", "{'a': []}"},
      {"{'a': [{'b': 2}, {'b': 1}]}", "{'$push': {'a': {'$each': [{'b': 0}], '$sort': {'b': 1}}}}",
       "{'a': [{'b': 0}, {'b': 1}, {'b': 2}]}"},
      {"{'a': {'b': [1]}}", "{'$push': {'a.b': 2, 'a.c': 3}}", "{'a': {'b': [1, 2], 'c': [3]}}"},
      {"{'a': [1]}", "{'$addToSet': {'a': 1}}", NULL},
      {"{'a': [1]}", "{'$addToSet': {'a': 1.0}}", NULL},
      {"{'a': [1]}", "{'$addToSet': {'a': {'$each': [2, 1, 2]}}}", "{'a': [1, 2]}"},
      {"{}", "{'$addToSet': {'a': [1]}}", "{'a': [[1]]}"},
      {"{}", "{'$addToSet': {'a': {'$each': []}}}", "{'a': []}"},
      {"{'a': [1, 2, 1]}", "{'$pull': {'a': 1}}", "{'a': [2]}"},
      {"{'a': [1, 5, 9]}", "{'$pull': {'a': {'$gte': 5}}}", "{'a': [1]}"},
      {"{'a': [{'b': 1, 'c': 2}, {'b': 2}]}", "{'$pull': {'a': {'b': 1}}}", "{'a': [{'b': 2}]}"},
      {"{'a': ['xa', 'b']}", "{'$pull': {'a': {'$regularExpression': {'pattern': '^x', 'options': ''}}}}",
       "{'a': ['b']}"},
      {"{'a': [1, 2, 3]}", "{'$pull': {'a': {'$in': [1, 3]}}}", "{'a': [2]}"},
      {"{'a': [[1], [2]]}", "{'$pull': {'a': [1]}}", "{'a': [[2]]}"},
      {"{}", "{'$pull': {'a': 1}}", NULL},
      {"{'a': [1, 2, 3]}", "{'$pullAll': {'a': [1, 3]}}", "{'a': [2]}"},
      {"{'a': [1, 2, 3]}", "{'$pop': {'a': 1}}", "{'a': [1, 2]}"},
      {"{'a': [1, 2, 3]}", "{'$pop': {'a': -1}}", "{'a': [2, 3]}"},
      {"{'a': []}", "{'$pop': {'a': 1}}", NULL},
      {"{'a': [{'b': 1}, {'b': 2}]}", "{'$set': {'a.$[].b': 9}}", "{'a': [{'b': 9}, {'b': 9}]}"},
      {"{'a': [1, 2]}", "{'$inc': {'a.$[]': 10}}", "{'a': [11, 12]}"},
      {"{'a': [[1], [2, 3]]}", "{'$inc': {'a.$[].$[]': 1}}", "{'a': [[2], [3, 4]]}"},
  };
  CHECK(cases);
}

static void replacements_and_pipelines(void **state) {
  static const struct update_case cases[] = {
      {"{'_id': 1, 'a': 1}", "{'b': 2}", "{'_id': 1, 'b': 2}"},
      {"{'_id': 1, 'a': 1}", "{'_id': 1, 'a': 1}", NULL},
      {"{'_id': 1, 'a': 1}", "{}", "{'_id': 1}"},
      {"{'_id': 1, 'a': 1}", "[{'$set': {'b': {'$add': ['$a', 1]}}}]", "{'_id': 1, 'a': 1, 'b': 2}"},
      {"{'_id': 1, 'a': 1}", "[{'$unset': 'a'}]", "{'_id': 1}"},
      {"{'_id': 1, 'a': {'x': 1}}", "[{'$replaceWith': '$a'}]", "{'_id': 1, 'x': 1}"},
      {"{'_id': 1, 'a': 1, 'b': 2}", "[{'$project': {'b': 1}}, {'$set': {'c': '$$NOW'}}]",
       "{'_id': 1, 'b': 2, 'c': {'$date': {'$numberLong': '1700000000123'}}}"},
      {"{'_id': 1, 'a': [1, 2]}", "[{'$set': {'a': {'$concatArrays': ['$a', [3]]}}}]", "{'_id': 1, 'a': [1, 2, 3]}"},
      {"{'_id': 1}", "[]", NULL},
  };
  CHECK(cases);
}

static void positional(void **state) {
  static const struct {
    const char *doc, *update, *filters;
    int position;
    const char *result;
  } cases[] = {
      {"{'a': [1, 2, 3]}", "{'$set': {'a.$': 9}}", NULL, 1, "{'a': [1, 9, 3]}"},
      {"{'a': [{'b': 1}, {'b': 2}]}", "{'$inc': {'a.$.b': 5}}", NULL, 0, "{'a': [{'b': 6}, {'b': 2}]}"},
      {"{'a': [1, 5, 9]}", "{'$set': {'a.$[x]': 0}}", "[{'x': {'$gte': 5}}]", -1, "{'a': [1, 0, 0]}"},
      {"{'a': [{'b': 1}, {'b': 2}]}", "{'$set': {'a.$[e].c': 0}}", "[{'e.b': 2}]", -1,
       "{'a': [{'b': 1}, {'b': 2, 'c': 0}]}"},
      {"{'a': [{'b': 1}, {'b': 2}]}", "{'$set': {'a.$[e].c': 0, 'a.$[].d': 1}}", "[{'e.b': 2}]", -1,
       "{'a': [{'b': 1, 'd': 1}, {'b': 2, 'c': 0, 'd': 1}]}"},
      {"{'a': [{'b': [1, 2]}, {'b': [2]}]}", "{'$set': {'a.$[].b.$[x]': 0}}", "[{'x': 2}]", -1,
       "{'a': [{'b': [1, 0]}, {'b': [0]}]}"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
    struct error err = {0};
    struct update *u = parse(a, cases[i].update, cases[i].filters, &err);
    if (!u) print_error("%s: %s\n", cases[i].update, err.message);
    assert_non_null(u);
    const bson_t *out;
    bool modified;
    if (!update_apply(u, a, json(a, cases[i].doc), cases[i].position, NOW, false, &out, &modified, &err)) {
      print_error("%s: %s\n", cases[i].update, err.message);
      fail();
    }
    assert_same_doc(a, cases[i].update, out, json(a, cases[i].result));
  }
}

static void parse_errors(void **state) {
  static const struct {
    const char *update, *filters;
    int32_t code;
    const char *part;
  } cases[] = {
      {"{'$foo': {'a': 1}}", NULL, ERR_FailedToParse, "Unknown modifier: $foo. Expected a valid update modifier"},
      {"{'$set': 5}", NULL, ERR_FailedToParse, "Modifiers operate on fields but we found type int instead"},
      {"{'$set': {'a': 1}, 'b': 2}", NULL, ERR_FailedToParse, "Unknown modifier: b"},
      {"{'a': 1, '$set': {'b': 1}}", NULL, ERR_DollarPrefixedFieldName, "The dollar ($) prefixed field '$set'"},
      {"{'$set': {'a': 1}, '$inc': {'a': 1}}", NULL, 40, "Updating the path 'a' would create a conflict at 'a'"},
      {"{'$set': {'a.b': 1, 'a': 1}}", NULL, 40, "Updating the path 'a' would create a conflict at 'a'"},
      {"{'$set': {'a': 1, 'a.b.c': 1}}", NULL, 40, "Updating the path 'a.b.c' would create a conflict at 'a'"},
      {"{'$rename': {'a': 'b'}, '$set': {'b': 1}}", NULL, 40, "conflict at 'b'"},
      {"{'$set': {'': 1}}", NULL, ERR_EmptyFieldName, "An empty update path is not valid."},
      {"{'$set': {'a..b': 1}}", NULL, ERR_EmptyFieldName, "contains an empty field name"},
      {"{'$set': {'a.$x': 1}}", NULL, ERR_DollarPrefixedFieldName, "is not valid for storage"},
      {"{'$set': {'$.a': 1}}", NULL, ERR_BadValue, "first position"},
      {"{'$set': {'a.$.b.$': 1}}", NULL, ERR_BadValue, "Too many positional"},
      {"{'$inc': {'a': 'x'}}", NULL, ERR_TypeMismatch, "Cannot increment with non-numeric argument"},
      {"{'$mul': {'a': null}}", NULL, ERR_TypeMismatch, "Cannot multiply with non-numeric argument"},
      {"{'$rename': {'a': 5}}", NULL, ERR_BadValue, "The 'to' field for $rename must be a string"},
      {"{'$rename': {'a': 'a'}}", NULL, ERR_BadValue, "must differ"},
      {"{'$currentDate': {'a': 5}}", NULL, ERR_BadValue, "is not valid type for $currentDate"},
      {"{'$push': {'a': {'$each': 5}}}", NULL, ERR_BadValue, "The argument to $each in $push must be an array"},
      {"{'$push': {'a': {'$each': [], '$foo': 5}}}", NULL, ERR_BadValue, "Unrecognized clause in $push: $foo"},
      {"{'$push': {'a': {'$each': [], '$slice': 'x'}}}", NULL, ERR_BadValue, "$slice must be an integer value"},
      {"{'$push': {'a': {'$each': [], '$sort': 3}}}", NULL, ERR_BadValue, "either 1 or -1"},
      {"{'$pop': {'a': 2}}", NULL, ERR_FailedToParse, "$pop expects 1 or -1, found: 2"},
      {"{'$pullAll': {'a': 2}}", NULL, ERR_BadValue, "$pullAll requires an array argument"},
      {"{'$bit': {'a': 1}}", NULL, ERR_BadValue, "$bit"},
      {"{'$bit': {'a': {'not': 1}}}", NULL, ERR_BadValue, "only supports 'and', 'or', and 'xor'"},
      {"{'$set': {'a.$[x]': 1}}", NULL, ERR_BadValue, "No array filter found for identifier 'x' in path 'a.$[x]'"},
      {"{'$set': {'a.$[x]': 1}}", "[{'x': 1}, {'y': 1}]", ERR_FailedToParse,
       "The array filter for identifier 'y' was not used"},
      {"{'$set': {'a.$[x]': 1}}", "[{'x': 1}, {'x': 2}]", ERR_FailedToParse, "multiple array filters"},
      {"{'$set': {'a.$[x]': 1}}", "[{'x': 1, 'y': 1}]", ERR_FailedToParse, "single top-level field name"},
      {"{'$set': {'a.$[x]': 1}}", "[{}]", ERR_FailedToParse, "without a top-level field name"},
      {"[{'$match': {}}]", NULL, ERR_InvalidOptions, "$match is not allowed to be used within an update"},
      {"[{'$set': {'a': {'$foo': 1}}}]", NULL, ERR_InvalidPipelineOperator, "Unrecognized expression '$foo'"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
    struct error err = {0};
    struct update *u = parse(a, cases[i].update, cases[i].filters, &err);
    if (u) print_error("%s was accepted\n", cases[i].update);
    assert_null(u);
    assert_code(cases[i].update, &err, cases[i].code, cases[i].part);
  }
}

static void apply_errors(void **state) {
  static const struct {
    const char *doc, *update;
    int32_t code;
    const char *part;
  } cases[] = {
      {"{'_id': 1}", "{'$set': {'_id': 2}}", ERR_ImmutableField, "would modify the immutable field '_id'"},
      {"{'_id': 1}", "{'$set': {'_id': 1.0}}", ERR_ImmutableField, "_id"},
      {"{'_id': 1}", "{'$unset': {'_id': 1}}", ERR_ImmutableField, "_id"},
      {"{'_id': 1}", "{'_id': 2}", ERR_ImmutableField, "was found to have been altered to _id: 2"},
      {"{'_id': 1}", "[{'$set': {'_id': 2}}]", ERR_ImmutableField, "_id"},
      {"{'_id': 1, 'a': 5}", "{'$set': {'a.b': 1}}", ERR_PathNotViable, "Cannot create field 'b' in element {a: 5}"},
      {"{'_id': 1, 'a': [1]}", "{'$set': {'a.b': 1}}", ERR_PathNotViable, "Cannot create field 'b' in element {a: ["},
      {"{'_id': 1, 'a': 'x'}", "{'$inc': {'a': 1}}", ERR_TypeMismatch,
       "Cannot apply $inc to a value of non-numeric type. {_id: 1} has the field 'a' of non-numeric type string"},
      {"{'_id': 1, 'a': {'$numberLong': '9223372036854775807'}}", "{'$inc': {'a': 1}}", ERR_BadValue,
       "Failed to apply $inc operations to current value ((NumberLong)9223372036854775807) for document {_id: 1}"},
      {"{'_id': 1, 'a': 5}", "{'$push': {'a': 1}}", ERR_BadValue,
       "The field 'a' must be an array but is of type int in document {_id: 1}"},
      {"{'_id': 1, 'a': 5}", "{'$addToSet': {'a': 1}}", ERR_BadValue, "non-array"},
      {"{'_id': 1, 'a': 5}", "{'$pull': {'a': 1}}", ERR_BadValue, "Cannot apply $pull to a non-array value"},
      {"{'_id': 1, 'a': 5}", "{'$pop': {'a': 1}}", ERR_TypeMismatch, "non-array type 'int'"},
      {"{'_id': 1, 'a': 'x'}", "{'$bit': {'a': {'or': 1}}}", ERR_BadValue, "non-integral"},
      {"{'_id': 1, 'a': [1]}", "{'$set': {'a.$': 1}}", ERR_BadValue,
       "The positional operator did not find the match needed from the query."},
      {"{'_id': 1}", "{'$set': {'a.$[]': 1}}", ERR_BadValue,
       "The path 'a' must exist in the document in order to apply array updates."},
      {"{'_id': 1, 'a': 5}", "{'$set': {'a.$[]': 1}}", ERR_BadValue,
       "Cannot apply array updates to non-array element {a: 5}"},
      {"{'_id': 1, 'a': [{'b': 1}]}", "{'$set': {'a.$[].b': 1, 'a.0.b': 2}}", 40, "Update created a conflict at 'a."},
      {"{'_id': 1, 'a': []}", "{'$set': {'a.99999999': 1}}", ERR_BadValue, "nulls"},
      {"{'_id': 1, 'a': [{'b': 1}]}", "{'$rename': {'a.0.b': 'c'}}", ERR_BadValue, "array element"},
      {"{'_id': 1}", "[{'$replaceWith': '$x'}]", 40228, "must evaluate to an object"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
    struct error err = {0};
    struct update *u = parse(a, cases[i].update, NULL, &err);
    if (!u) print_error("%s: %s\n", cases[i].update, err.message);
    assert_non_null(u);
    const bson_t *out;
    bool modified;
    if (update_apply(u, a, json(a, cases[i].doc), -1, NOW, false, &out, &modified, &err)) {
      print_error("%s gave %s\n", cases[i].update, show(a, out));
      fail();
    }
    assert_code(cases[i].update, &err, cases[i].code, cases[i].part);
  }
}

static void too_large(void **state) {
  struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
  struct error err = {0};
  char *text = arena_alloc(a, 9 * 1024 * 1024 + 1);
  memset(text, 'x', 9 * 1024 * 1024);
  text[9 * 1024 * 1024] = 0;
  bson_t *doc = arena_bson(a);
  bson_append_utf8(doc, "a", 1, text, -1);
  struct update *u = parse(a, "[{'$set': {'b': '$a'}}]", NULL, &err);
  const bson_t *out;
  bool modified;
  assert_false(update_apply(u, a, doc, -1, NOW, false, &out, &modified, &err));
  assert_code("two times 9 MiB", &err, 17419, "larger than 16777216");
}

static void upserts(void **state) {
  static const struct {
    const char *filter, *update, *result;
    int32_t code;
  } cases[] = {
      {"{'_id': 1, 'b': 2}", "{'$set': {'a': 3}}", "{'_id': 1, 'b': 2, 'a': 3}", 0},
      {"{'_id': 'chunksize'}", "{'$set': {'value': 1}}", "{'_id': 'chunksize', 'value': 1}", 0},
      {"{'_id': 1, 'a': {'$gt': 5}}", "{'$inc': {'n': 1}, '$setOnInsert': {'m': 2}}", "{'_id': 1, 'm': 2, 'n': 1}", 0},
      {"{'_id': 1, 'a.b': 5}", "{'$set': {'a.c': 6}}", "{'_id': 1, 'a': {'b': 5, 'c': 6}}", 0},
      {"{'$and': [{'_id': 1}, {'a': 2}]}", "{'$set': {'b': 3}}", "{'_id': 1, 'a': 2, 'b': 3}", 0},
      {"{'z': 1, '_id': 2}", "{'$set': {'b': 3}}", "{'_id': 2, 'z': 1, 'b': 3}", 0},
      {"{'_id': 1, 'a': 5}", "{'b': 6}", "{'_id': 1, 'b': 6}", 0},
      {"{'a': 5}", "{'_id': 7, 'b': 6}", "{'_id': 7, 'b': 6}", 0},
      {"{'_id': 1, 'a': 5}", "[{'$set': {'c': '$a'}}]", "{'_id': 1, 'a': 5, 'c': 5}", 0},
      {"{'_id': 1}", "{'$set': {'_id': 2}}", NULL, ERR_ImmutableField},
      {"{'a': 1, 'a.b': 2}", "{'$set': {'c': 2}}", NULL, ERR_NotSingleValueField},
      {"{'a': 5}", "{'$set': {'a.b': 2}}", NULL, ERR_PathNotViable},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
    struct error err = {0};
    struct update *u = parse(a, cases[i].update, NULL, &err);
    struct match *m = match_parse(a, json(a, cases[i].filter), NULL, &err);
    const bson_t *out;
    bool ok = update_upsert_document(u, a, m, NOW, &out, &err);
    if (ok != !cases[i].code) print_error("%s: %s\n", cases[i].filter, ok ? show(a, out) : err.message);
    assert_int_equal(ok, !cases[i].code);
    if (ok)
      assert_same_doc(a, cases[i].filter, out, json(a, cases[i].result));
    else
      assert_code(cases[i].filter, &err, cases[i].code, NULL);
  }
}

static void upsert_makes_an_id(void **state) {
  struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
  struct match *m = match_parse(a, json(a, "{'a': 1}"), NULL, NULL);
  const bson_t *out;
  assert_true(update_upsert_document(parse(a, "{'$set': {'b': 1}}", NULL, NULL), a, m, NOW, &out, NULL));
  bson_iter_t it;
  assert_true(bson_iter_init(&it, out) && bson_iter_next(&it));
  assert_string_equal(bson_iter_key(&it), "_id");
  assert_int_equal(bson_iter_type(&it), BSON_TYPE_OID);
  assert_int_equal(bson_count_keys(out), 3);
}

static void touched_paths(void **state) {
  struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
  struct update *u = parse(a, "{'$set': {'a.b': 1, 'c': 1}, '$rename': {'d': 'e'}}", NULL, NULL);
  const char *yes[] = {"a", "a.b", "a.b.x", "c", "d", "e"}, *no[] = {"b", "a.c", "f", "_id"};
  for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) assert_true(update_touches_path(u, yes[i]));
  for (size_t i = 0; i < sizeof no / sizeof *no; i++) assert_false(update_touches_path(u, no[i]));
  assert_true(update_touches_path(parse(a, "{'x': 1}", NULL, NULL), "anything"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fields),        cmocka_unit_test(numbers),
      cmocka_unit_test(arrays),        cmocka_unit_test(replacements_and_pipelines),
      cmocka_unit_test(positional),    cmocka_unit_test(parse_errors),
      cmocka_unit_test(apply_errors),  cmocka_unit_test(too_large),
      cmocka_unit_test(upserts),       cmocka_unit_test(upsert_makes_an_id),
      cmocka_unit_test(touched_paths),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
