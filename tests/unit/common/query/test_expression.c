// Expressions: every operator family, errors, folding.
#include "json.h"

#include "common/query/expression.h"
#include "common/query/values.h"

// The document that every case is evaluated on.
static const char *const DOC =
    "{'_id': 7, 'i': 5, 'n': -3, 'd': 2.5, 'l': {'$numberLong': '9000000000'}, 's': 'Hello', 'e': '', 'nul': null,"
    " 't': true, 'a': [1, 2, 3], 'o': {'x': 1, 'y': {'z': 'deep'}}, 'items': [{'p': 2, 'q': 3}, {'p': 5, 'q': 1}, "
    "{'q': 9}],"
    " 'when': {'$date': '2024-02-29T13:14:15.678Z'}, 'dec': {'$numberDecimal': '1.10'},"
    " 'id': {'$oid': '507f1f77bcf86cd799439011'}, 'u': 'h\u00e9llo'}";

static bool evaluate(struct arena *a, const char *text, bson_value_t *out, struct error *err) {
  struct variables *vars = variables_new(a, json(a, "{'v': 42, 'w': {'k': 1}}"), 1700000000000, err);
  bson_value_t spec = json_value(a, text);
  struct expression *e = vars ? expression_parse(a, &spec, vars, err) : NULL;
  return e && expression_eval(e, a, json(a, DOC), out, err);
}

struct expr_case {
  const char *expr, *result; // result NULL: missing
};

static void check_cases(const struct expr_case *cases, size_t n) {
  for (size_t i = 0; i < n; i++) {
    struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
    struct error err = {0};
    bson_value_t v;
    if (!evaluate(a, cases[i].expr, &v, &err)) {
      print_error("%s: %d %s\n", cases[i].expr, err.code, err.message);
      fail();
    }
    if (!cases[i].result) {
      if (!value_is_missing(&v)) print_error("%s: %s\n", cases[i].expr, value_text(a, &v));
      assert_true(value_is_missing(&v));
      continue;
    }
    bson_t *got = arena_bson(a);
    if (value_is_missing(&v)) print_error("%s: missing\n", cases[i].expr);
    assert_false(value_is_missing(&v));
    doc_append_value(got, "x", &v);
    assert_same_doc(a, cases[i].expr, got, json(a, arena_printf(a, "{'x': %s}", cases[i].result)));
  }
}
#define CHECK(cases) check_cases(cases, sizeof(cases) / sizeof *(cases))
#define LONG(n) "{'$numberLong': '" #n "'}"
#define DEC(n) "{'$numberDecimal': '" #n "'}"

static void paths_and_literals(void **state) {
  static const struct expr_case cases[] = {
      {"'$i'", "5"},
      {"'$o.y.z'", "'deep'"},
      {"'$missing'", NULL},
      {"'$i.x'", NULL},
      {"'$items.p'", "[2, 5]"},
      {"'$a.0'", "[]"},
      {"'$$ROOT.i'", "5"},
      {"'$$CURRENT.o.x'", "1"},
      {"'$$v'", "42"},
      {"'$$w.k'", "1"},
      {"'$$NOW'", "{'$date': {'$numberLong': '1700000000000'}}"},
      {"'$$REMOVE'", NULL},
      {"5", "5"},
      {"'text'", "'text'"},
      {"{'$literal': '$i'}", "'$i'"},
      {"{'a': '$i', 'b': {'c': '$missing', 'd': 1}}", "{'a': 5, 'b': {'d': 1}}"},
      {"['$i', '$missing', 3]", "[5, null, 3]"},
  };
  CHECK(cases);
}

static void arithmetic(void **state) {
  static const struct expr_case cases[] = {
      {"{'$add': ['$i', 1]}", "6"},
      {"{'$add': []}", "0"},
      {"{'$add': [2147483647, 1]}", LONG(2147483648)},
      {"{'$add': [" LONG(9223372036854775807) ", 1]}", "9.2233720368547758e18"},
      {"{'$add': ['$d', 1]}", "3.5"},
      {"{'$add': [0.1, 0.2, 0.3]}", "0.6"},
      {"{'$add': ['$dec', 1]}", DEC(2.10)},
      {"{'$add': ['$when', 1000]}", "{'$date': '2024-02-29T13:14:16.678Z'}"},
      {"{'$add': ['$i', null]}", "null"},
      {"{'$subtract': ['$i', 7]}", "-2"},
      {"{'$subtract': ['$when', '$when']}", LONG(0)},
      {"{'$subtract': [" LONG(-9223372036854775808) ", 1]}", "-9.2233720368547758e18"},
      {"{'$multiply': ['$i', '$d']}", "12.5"},
      {"{'$multiply': [65536, 65536]}", LONG(4294967296)},
      {"{'$multiply': ['$dec', 2]}", DEC(2.20)},
      {"{'$divide': [1, 4]}", "0.25"},
      {"{'$divide': [" DEC(1) ", 3]}", DEC(0.3333333333333333333333333333333333)},
      {"{'$mod': [-7, 3]}", "-1"},
      {"{'$mod': [7.5, 2]}", "1.5"},
      {"{'$mod': [" DEC(7.5) ", 2]}", DEC(1.5)},
      {"{'$abs': '$n'}", "3"},
      {"{'$abs': -2147483648}", LONG(2147483648)},
      {"{'$ceil': 2.1}", "3.0"},
      {"{'$floor': -2.1}", "-3.0"},
      {"{'$floor': " DEC(-2.1) "}", DEC(-3)},
      {"{'$round': 2.5}", "2.0"},
      {"{'$round': [3.14159, 2]}", "3.14"},
      {"{'$round': [1234, -2]}", "1200"},
      {"{'$round': [1250, -2]}", "1200"},
      {"{'$trunc': [-3.79, 1]}", "-3.7"},
      {"{'$sqrt': 16}", "4.0"},
      {"{'$sqrt': " DEC(2) "}", DEC(1.414213562373095048801688724209698)},
      {"{'$pow': [2, 10]}", "1024"},
      {"{'$pow': [2, 40]}", LONG(1099511627776)},
      {"{'$pow': [2, -1]}", "0.5"},
      {"{'$pow': [" DEC(1.1) ", 2]}", DEC(1.21)},
      {"{'$exp': 0}", "1.0"},
      {"{'$ln': 1}", "0.0"},
      {"{'$log': [8, 2]}", "3.0"},
      {"{'$log10': 1000}", "3.0"},
      {"{'$ln': " DEC(10) "}", DEC(2.302585092994045684017991454684364)},
      {"{'$exp': " DEC(1) "}", DEC(2.718281828459045235360287471352662)},
      {"{'$log10': " DEC(1000) "}", DEC(3)},
      {"{'$bitAnd': [6, 3]}", "2"},
      {"{'$bitOr': [6, " LONG(1) "]}", LONG(7)},
      {"{'$bitNot': 0}", "-1"},
  };
  CHECK(cases);
}

static void comparison_and_logic(void **state) {
  static const struct expr_case cases[] = {
      {"{'$eq': ['$i', 5.0]}", "true"},
      {"{'$eq': ['$missing', null]}", "false"},
      {"{'$gt': [null, '$missing']}", "true"},
      {"{'$lt': [1, 'x']}", "true"},
      {"{'$cmp': ['$i', 9]}", "-1"},
      {"{'$ne': [1, 2]}", "true"},
      {"{'$gte': [2, 2]}", "true"},
      {"{'$lte': [3, 2]}", "false"},
      {"{'$and': [true, 1, 'x']}", "true"},
      {"{'$and': [true, null]}", "false"},
      {"{'$and': []}", "true"},
      {"{'$or': [0, '$missing', '$t']}", "true"},
      {"{'$or': []}", "false"},
      {"{'$not': ['$t']}", "false"},
      {"{'$not': '$missing'}", "true"},
      {"{'$cond': [{'$gt': ['$i', 3]}, 'big', 'small']}", "'big'"},
      {"{'$cond': {'if': false, 'then': 1, 'else': '$s'}}", "'Hello'"},
      {"{'$ifNull': ['$missing', '$nul', 'x']}", "'x'"},
      {"{'$ifNull': ['$i', 'x']}", "5"},
      {"{'$switch': {'branches': [{'case': false, 'then': 1}, {'case': '$t', 'then': 2}]}}", "2"},
      {"{'$switch': {'branches': [{'case': false, 'then': 1}], 'default': '$i'}}", "5"},
      {"{'$cond': [true, 1, {'$divide': [1, 0]}]}", "1"},
  };
  CHECK(cases);
}

static void strings(void **state) {
  static const struct expr_case cases[] = {
      {"{'$concat': ['$s', ' ', 'World']}", "'Hello World'"},
      {"{'$concat': ['$s', null]}", "null"},
      {"{'$toUpper': '$s'}", "'HELLO'"},
      {"{'$toLower': '$s'}", "'hello'"},
      {"{'$toUpper': null}", "''"},
      {"{'$strLenBytes': '$u'}", "6"},
      {"{'$strLenCP': '$u'}", "5"},
      {"{'$substr': ['$s', 1, 3]}", "'ell'"},
      {"{'$substrBytes': ['$s', 2, -1]}", "'llo'"},
      {"{'$substrCP': ['$u', 1, 2]}", "'\u00e9l'"},
      {"{'$substrCP': ['$s', 9, 2]}", "''"},
      {"{'$indexOfBytes': ['$s', 'l']}", "2"},
      {"{'$indexOfBytes': ['$s', 'l', 3]}", "3"},
      {"{'$indexOfCP': ['$u', 'l']}", "2"},
      {"{'$indexOfCP': ['$s', 'z']}", "-1"},
      {"{'$split': ['a-b-', '-']}", "['a', 'b', '']"},
      {"{'$trim': {'input': '  x  '}}", "'x'"},
      {"{'$trim': {'input': 'xxaxx', 'chars': 'x'}}", "'a'"},
      {"{'$ltrim': {'input': '  x '}}", "'x '"},
      {"{'$rtrim': {'input': ' x\u2003'}}", "' x'"},
      {"{'$strcasecmp': ['ABC', 'abd']}", "-1"},
      {"{'$regexMatch': {'input': '$s', 'regex': '^h', 'options': 'i'}}", "true"},
      {"{'$regexMatch': {'input': null, 'regex': 'x'}}", "false"},
      {"{'$regexFind': {'input': 'caf\u00e9 42', 'regex': '(\\\\d)(\\\\d)'}}",
       "{'match': '42', 'idx': 5, 'captures': ['4', '2']}"},
      {"{'$regexFind': {'input': 'x', 'regex': 'y'}}", "null"},
      {"{'$regexFindAll': {'input': 'a1b2', 'regex': '[a-z]'}}",
       "[{'match': 'a', 'idx': 0, 'captures': []}, {'match': 'b', 'idx': 2, 'captures': []}]"},
      {"{'$replaceOne': {'input': 'aXbX', 'find': 'X', 'replacement': '-'}}", "'a-bX'"},
      {"{'$replaceAll': {'input': 'aXbX', 'find': 'X', 'replacement': '-'}}", "'a-b-'"},
  };
  CHECK(cases);
}

static void arrays(void **state) {
  static const struct expr_case cases[] = {
      {"{'$size': '$a'}", "3"},
      {"{'$arrayElemAt': ['$a', -1]}", "3"},
      {"{'$arrayElemAt': ['$a', 9]}", NULL},
      {"{'$first': '$a'}", "1"},
      {"{'$last': '$a'}", "3"},
      {"{'$first': '$missing'}", "null"},
      {"{'$slice': ['$a', 2]}", "[1, 2]"},
      {"{'$slice': ['$a', -2]}", "[2, 3]"},
      {"{'$slice': ['$a', 1, 1]}", "[2]"},
      {"{'$slice': ['$a', -2, 5]}", "[2, 3]"},
      {"{'$concatArrays': ['$a', [9]]}", "[1, 2, 3, 9]"},
      {"{'$concatArrays': ['$a', null]}", "null"},
      {"{'$in': [2, '$a']}", "true"},
      {"{'$indexOfArray': ['$a', 3]}", "2"},
      {"{'$indexOfArray': ['$a', 1, 1]}", "-1"},
      {"{'$range': [0, 6, 2]}", "[0, 2, 4]"},
      {"{'$range': [3, 0, -1]}", "[3, 2, 1]"},
      {"{'$reverseArray': '$a'}", "[3, 2, 1]"},
      {"{'$isArray': '$a'}", "true"},
      {"{'$isArray': [[1]]}", "true"},
      {"{'$map': {'input': '$a', 'as': 'x', 'in': {'$multiply': ['$$x', '$i']}}}", "[5, 10, 15]"},
      {"{'$map': {'input': '$a', 'in': '$$this'}}", "[1, 2, 3]"},
      {"{'$filter': {'input': '$a', 'as': 'x', 'cond': {'$gt': ['$$x', 1]}}}", "[2, 3]"},
      {"{'$filter': {'input': '$a', 'cond': true, 'limit': 2}}", "[1, 2]"},
      {"{'$reduce': {'input': '$a', 'initialValue': 0, 'in': {'$add': ['$$value', '$$this']}}}", "6"},
      {"{'$let': {'vars': {'x': 2, 'y': '$i'}, 'in': {'$add': ['$$x', '$$y']}}}", "7"},
      {"{'$let': {'vars': {'x': 2}, 'in': {'$let': {'vars': {'x': 3, 'y': '$$x'}, 'in': ['$$x', '$$y']}}}}", "[3, 2]"},
      {"{'$arrayToObject': [[['k', 1], ['m', 2], ['k', 3]]]}", "{'k': 3, 'm': 2}"},
      {"{'$arrayToObject': {'$objectToArray': '$o'}}", "{'x': 1, 'y': {'z': 'deep'}}"},
      {"{'$objectToArray': {'a': 1}}", "[{'k': 'a', 'v': 1}]"},
      {"{'$zip': {'inputs': [[1, 2], ['a', 'b', 'c']]}}", "[[1, 'a'], [2, 'b']]"},
      {"{'$zip': {'inputs': [[1], ['a', 'b']], 'useLongestLength': true, 'defaults': [0, 0]}}", "[[1, 'a'], [0, 'b']]"},
      {"{'$sortArray': {'input': [3, 1, 2], 'sortBy': -1}}", "[3, 2, 1]"},
      {"{'$sortArray': {'input': '$items', 'sortBy': {'q': 1}}}", "[{'p': 5, 'q': 1}, {'p': 2, 'q': 3}, {'q': 9}]"},
      {"{'$setUnion': [[2, 1], [3, 1]]}", "[1, 2, 3]"},
      {"{'$setIntersection': [[2, 1], [3, 1]]}", "[1]"},
      {"{'$setDifference': [[3, 1, 2, 3], [1]]}", "[3, 2]"},
      {"{'$setEquals': [[1, 2, 1], [2, 1]]}", "true"},
      {"{'$setIsSubset': [[1], [2, 1]]}", "true"},
      {"{'$anyElementTrue': [[0, 1]]}", "true"},
      {"{'$allElementsTrue': [[0, 1]]}", "false"},
  };
  CHECK(cases);
}

static void types(void **state) {
  static const struct expr_case cases[] = {
      {"{'~type': '$i'}", "'int'"},
      {"{'~type': '$missing'}", "'missing'"},
      {"{'~type': '$when'}", "'date'"},
      {"{'$isNumber': '$l'}", "true"},
      {"{'$toInt': 2.9}", "2"},
      {"{'$toInt': '-12'}", "-12"},
      {"{'$toInt': null}", "null"},
      {"{'$toInt': true}", "1"},
      {"{'$toLong': '$when'}", LONG(1709212455678)},
      {"{'$toLong': '9000000000'}", LONG(9000000000)},
      {"{'$toDouble': '2.5'}", "2.5"},
      {"{'$toDouble': " DEC(1.5) "}", "1.5"},
      {"{'$toDecimal': '1.10'}", DEC(1.10)},
      {"{'$toDecimal': 2.5}", DEC(2.50000000000000)},
      {"{'$toString': 2.5}", "'2.5'"},
      {"{'$toString': '$id'}", "'507f1f77bcf86cd799439011'"},
      {"{'$toString': '$when'}", "'2024-02-29T13:14:15.678Z'"},
      {"{'$toString': true}", "'true'"},
      {"{'$toBool': 'false'}", "true"},
      {"{'$toBool': 0}", "false"},
      {"{'$toObjectId': '507f1f77bcf86cd799439011'}", "{'$oid': '507f1f77bcf86cd799439011'}"},
      {"{'$toDate': '2024-02-29T13:14:15.678Z'}", "{'$date': '2024-02-29T13:14:15.678Z'}"},
      {"{'$toDate': '2024-02-29T15:14+02:00'}", "{'$date': '2024-02-29T13:14:00Z'}"},
      {"{'$toDate': " LONG(5) "}", "{'$date': {'$numberLong': '5'}}"},
      {"{'$toDate': '$id'}", "{'$date': '2012-10-17T21:13:27Z'}"},
      {"{'$convert': {'input': 'x', 'to': 'int', 'onError': -1}}", "-1"},
      {"{'$convert': {'input': null, 'to': 'int', 'onNull': 0}}", "0"},
      {"{'$convert': {'input': '5', 'to': 18}}", LONG(5)},
      {"{'$mergeObjects': ['$o', {'x': 2, 'w': 3}, null]}", "{'x': 2, 'y': {'z': 'deep'}, 'w': 3}"},
      {"{'$getField': 's'}", "'Hello'"},
      {"{'$getField': {'field': 'x', 'input': '$o'}}", "1"},
      {"{'$setField': {'field': 'a.b', 'input': {'c': 1}, 'value': 2}}", "{'c': 1, 'a.b': 2}"},
      {"{'$unsetField': {'field': 'x', 'input': '$o'}}", "{'y': {'z': 'deep'}}"},
      {"{'$toHashedIndexKey': 777}", LONG(-8990214526626424009)},
  };
  CHECK(cases);
}

static void dates(void **state) {
  static const struct expr_case cases[] = {
      {"{'$year': '$when'}", "2024"},
      {"{'$month': '$when'}", "2"},
      {"{'$dayOfMonth': '$when'}", "29"},
      {"{'$hour': '$when'}", "13"},
      {"{'$hour': {'date': '$when', 'timezone': '+02:30'}}", "15"},
      {"{'$minute': '$when'}", "14"},
      {"{'$second': '$when'}", "15"},
      {"{'$millisecond': '$when'}", "678"},
      {"{'$dayOfWeek': '$when'}", "5"},
      {"{'$dayOfYear': '$when'}", "60"},
      {"{'$week': '$when'}", "8"},
      {"{'$isoWeek': '$when'}", "9"},
      {"{'$isoWeekYear': {'$toDate': '2021-01-01'}}", LONG(2020)},
      {"{'$isoDayOfWeek': '$when'}", "4"},
      {"{'$year': null}", "null"},
      {"{'$year': {'$toDate': '1969-12-31T23:59:59.999Z'}}", "1969"},
      {"{'$dateToString': {'date': '$when'}}", "'2024-02-29T13:14:15.678Z'"},
      {"{'$dateToString': {'date': '$when', 'format': '%d/%m/%Y %H:%M:%S.%L %j %u %z %%'}}",
       "'29/02/2024 13:14:15.678 060 4 +0000 %'"},
      {"{'$dateToString': {'date': '$when', 'format': '%H%z', 'timezone': '-0530'}}", "'07-0530'"},
      {"{'$dateToString': {'date': null, 'onNull': 'none'}}", "'none'"},
      {"{'$dateAdd': {'startDate': '$when', 'unit': 'year', 'amount': 1}}", "{'$date': '2025-02-28T13:14:15.678Z'}"},
      {"{'$dateAdd': {'startDate': '$when', 'unit': 'month', 'amount': -1}}", "{'$date': '2024-01-29T13:14:15.678Z'}"},
      {"{'$dateSubtract': {'startDate': '$when', 'unit': 'day', 'amount': 1}}",
       "{'$date': '2024-02-28T13:14:15.678Z'}"},
      {"{'$dateDiff': {'startDate': {'$toDate': '2023-12-31T23:59:00Z'}, 'endDate': '$when', 'unit': 'year'}}",
       LONG(1)},
      {"{'$dateDiff': {'startDate': {'$toDate': '2024-02-01'}, 'endDate': '$when', 'unit': 'week'}}", LONG(4)},
      {"{'$dateDiff': {'startDate': '$when', 'endDate': {'$toDate': '2024-01-01'}, 'unit': 'month'}}", LONG(-1)},
      {"{'$dateTrunc': {'date': '$when', 'unit': 'hour'}}", "{'$date': '2024-02-29T13:00:00Z'}"},
      {"{'$dateTrunc': {'date': '$when', 'unit': 'quarter'}}", "{'$date': '2024-01-01T00:00:00Z'}"},
      {"{'$dateTrunc': {'date': '$when', 'unit': 'week', 'startOfWeek': 'monday'}}",
       "{'$date': '2024-02-26T00:00:00Z'}"},
      {"{'$dateTrunc': {'date': '$when', 'unit': 'minute', 'binSize': 10}}", "{'$date': '2024-02-29T13:10:00Z'}"},
      {"{'$dateTrunc': {'date': '$when', 'unit': 'day', 'timezone': '+12:00'}}", "{'$date': '2024-02-29T12:00:00Z'}"},
  };
  CHECK(cases);
}

static void errors(void **state) {
  static const struct {
    const char *expr;
    int32_t code;
    const char *part;
  } cases[] = {
      {"{'$foo': 1}", ERR_InvalidPipelineOperator, "Unrecognized expression '$foo'"},
      {"{'$add': 1, '$subtract': 2}", 15983, "exactly one field"},
      {"{'$subtract': [1]}", 16020, "Expression $subtract takes exactly 2 arguments. 1 were passed in."},
      {"{'$slice': [1]}", 28667, "takes at least 2 arguments, and at most 3, but 1 were passed in."},
      {"'$'", 16872, "'$' by itself is not a valid FieldPath"},
      {"'$a.'", 40353, "FieldPath must not end with a '.'."},
      {"'$a..b'", 15998, "FieldPath field names may not be empty strings."},
      {"'$$nope'", 17276, "Use of undefined variable: nope"},
      {"'$$CLUSTER_TIME'", ERR_CommandNotSupported, "$$CLUSTER_TIME"},
      {"{'$function': {}}", ERR_CommandNotSupported, "$function"},
      {"{'a.b': 1}", 16412, "FieldPath field names may not contain '.'"},
      {"{'$add': ['$s', 1]}", ERR_TypeMismatch, "$add only supports numeric or date types, not string"},
      {"{'$subtract': ['$s', 1]}", ERR_TypeMismatch, "can't $subtract int from string"},
      {"{'$divide': [1, 0]}", ERR_BadValue, "can't $divide by zero"},
      {"{'$mod': [1, 0]}", 16610, "can't $mod by zero"},
      {"{'$sqrt': -1}", 28714, "$sqrt's argument must be greater than or equal to 0"},
      {"{'$concat': [1]}", 16702, "$concat only supports strings, not int"},
      {"{'$size': '$i'}", 17124, "The argument to $size must be an array, but was of type: int"},
      {"{'$arrayElemAt': ['$i', 0]}", 28689, "must be an array, but is int"},
      {"{'$in': [1, '$i']}", 40081, "$in requires an array as a second argument, found: int"},
      {"{'$map': {'input': '$i', 'in': 1}}", 16883, "input to $map must be an array not int"},
      {"{'$filter': {'input': '$i', 'cond': 1}}", 28651, "input to $filter must be an array not int"},
      {"{'$filter': {'cond': 1}}", 28648, "Missing 'input' parameter to $filter"},
      {"{'$cond': {'if': 1, 'then': 2}}", 17082, "Missing 'else' parameter to $cond"},
      {"{'$switch': {'branches': []}}", 40068, "$switch requires at least one branch."},
      {"{'$switch': {'branches': [{'case': false, 'then': 1}]}}", 40066, "$switch could not find a matching branch"},
      {"{'$toInt': 'x'}", ERR_ConversionFailure, "Failed to parse number 'x' in $convert with no onError value"},
      {"{'$toInt': 1e20}", ERR_ConversionFailure, "Conversion would overflow target type"},
      {"{'$toInt': '$o'}", ERR_ConversionFailure, "Unsupported conversion from object to int"},
      {"{'$toDate': '$i'}", ERR_ConversionFailure, "Unsupported conversion from int to date"},
      {"{'$toObjectId': 'x'}", ERR_ConversionFailure, "expected 24 but found 1"},
      {"{'$year': '$s'}", 16006, "can't convert from BSON type string to Date"},
      {"{'$year': {'date': '$when', 'timezone': 'Europe/Berlin'}}", ERR_CommandNotSupported, "Europe/Berlin"},
      {"{'$dateToString': {'date': '$when', 'format': '%q'}}", 18536, "Invalid format character"},
      {"{'$let': {'vars': {'X': 1}, 'in': 1}}", ERR_FailedToParse, "starts with an invalid character"},
      {"{'$range': [0, 5, 0]}", 34449, "non-zero step"},
      {"{'$regexMatch': {'input': 'x', 'regex': '('}}", 51091, "Regular expression is invalid"},
      {"{'$mergeObjects': ['$i']}", 40400, "$mergeObjects requires object inputs"},
      {"{'$trim': {'input': 'x', 'foo': 1}}", ERR_FailedToParse, "$trim found an unknown argument: foo"},
      {"{'$range': [0, 2147483647]}", ERR_ExceededMemoryLimit, "$range"},
      {"{'$reduce': {'input': {'$range': [0, 40]}, 'initialValue': 'x', 'in': {'$concat': ['$$value', '$$value']}}}",
       ERR_ExceededMemoryLimit, "too much memory"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
    struct error err = {0};
    bson_value_t v;
    if (evaluate(a, cases[i].expr, &v, &err)) print_error("%s: %s\n", cases[i].expr, value_text(a, &v));
    assert_code(cases[i].expr, &err, cases[i].code, cases[i].part);
  }
}

static void constants(void **state) {
  struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
  struct variables *vars = variables_new(a, NULL, 0, NULL);
  bson_value_t v, two = json_value(a, "{'$add': [1, {'$multiply': [1, 1]}]}"),
                  field = json_value(a, "{'$add': [1, '$a']}"), random = json_value(a, "{'$rand': {}}");
  assert_true(expression_is_constant(expression_parse(a, &two, vars, NULL), &v) && value_i64(&v) == 2);
  assert_false(expression_is_constant(expression_parse(a, &field, vars, NULL), &v));
  assert_false(expression_is_constant(expression_parse(a, &random, vars, NULL), &v));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(paths_and_literals),
      cmocka_unit_test(arithmetic),
      cmocka_unit_test(comparison_and_logic),
      cmocka_unit_test(strings),
      cmocka_unit_test(arrays),
      cmocka_unit_test(types),
      cmocka_unit_test(dates),
      cmocka_unit_test(errors),
      cmocka_unit_test(constants),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
