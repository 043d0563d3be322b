// The query language on documents made from bytes: each byte chooses a type, a name or a number. Whatever comes out is
// parsed as a filter, a projection, an update, a sort pattern, an expression and a pipeline, and what is accepted is
// run.
#include <stdint.h>
#include <string.h>

#include "common/bson/doc.h"
#include "common/query/bounds.h"
#include "common/query/pipeline/pipeline.h"
#include "common/query/projection.h"
#include "common/query/sort.h"
#include "common/query/update.h"

enum { MAX_DEPTH = 6, MAX_FIELDS = 4, MAX_RESULTS = 50 };

struct bytes {
  const uint8_t *data;
  size_t len, at;
};

static uint8_t take(struct bytes *b) {
  return b->at < b->len ? b->data[b->at++] : 0;
}

static const char *const NAMES[] = {
    "a",
    "b",
    "a.b",
    "a.0",
    "a.b.c",
    "a.$",
    "a.$[]",
    "a.$[x]",
    "_id",
    "x",
    "input",
    "as",
    "in",
    "cond",
    "if",
    "then",
    "else",
    "vars",
    "initialValue",
    "branches",
    "case",
    "default",
    "find",
    "replacement",
    "regex",
    "options",
    "chars",
    "date",
    "unit",
    "startDate",
    "endDate",
    "amount",
    "timezone",
    "format",
    "onNull",
    "onError",
    "to",
    "sortBy",
    "inputs",
    "field",
    "value",
    "path",
    "includeArrayIndex",
    "preserveNullAndEmptyArrays",
    "newRoot",
    "size",
    "groupBy",
    "boundaries",
    "output",
    "k",
    "v",
    "binSize",
    "startOfWeek",
    "limit",
    "useLongestLength",
    "defaults",
    // filters
    "$and",
    "$or",
    "$nor",
    "$not",
    "$eq",
    "$ne",
    "$gt",
    "$gte",
    "$lt",
    "$lte",
    "$in",
    "$nin",
    "$exists",
    "$type",
    "$regex",
    "$options",
    "$mod",
    "$all",
    "$elemMatch",
    "$size",
    "$bitsAllSet",
    "$bitsAnyClear",
    "$expr",
    "$comment",
    // updates
    "$set",
    "$unset",
    "$inc",
    "$mul",
    "$min",
    "$max",
    "$rename",
    "$setOnInsert",
    "$currentDate",
    "$push",
    "$each",
    "$slice",
    "$sort",
    "$position",
    "$addToSet",
    "$pull",
    "$pullAll",
    "$pop",
    "$bit",
    "or",
    "xor",
    // stages and accumulators
    "$match",
    "$project",
    "$addFields",
    "$group",
    "$limit",
    "$skip",
    "$count",
    "$unwind",
    "$replaceRoot",
    "$replaceWith",
    "$sample",
    "$sortByCount",
    "$facet",
    "$bucket",
    "$documents",
    "$sum",
    "$avg",
    "$first",
    "$last",
    "$stdDevPop",
    "$mergeObjects",
    "$doingMerge",
    "$willBeMerged",
    // expressions
    "$add",
    "$subtract",
    "$multiply",
    "$divide",
    "$abs",
    "$ceil",
    "$round",
    "$trunc",
    "$sqrt",
    "$pow",
    "$exp",
    "$ln",
    "$log",
    "$log10",
    "$cmp",
    "$cond",
    "$ifNull",
    "$switch",
    "$concat",
    "$substrBytes",
    "$substrCP",
    "$toLower",
    "$strLenCP",
    "$indexOfBytes",
    "$indexOfCP",
    "$split",
    "$trim",
    "$regexMatch",
    "$regexFind",
    "$regexFindAll",
    "$replaceOne",
    "$replaceAll",
    "$arrayElemAt",
    "$concatArrays",
    "$filter",
    "$map",
    "$reduce",
    "$indexOfArray",
    "$range",
    "$reverseArray",
    "$arrayToObject",
    "$objectToArray",
    "$zip",
    "$sortArray",
    "$setUnion",
    "$setIntersection",
    "$setDifference",
    "$setEquals",
    "$setIsSubset",
    "$convert",
    "$toInt",
    "$toLong",
    "$toDouble",
    "$toString",
    "$toBool",
    "$toDate",
    "$toObjectId",
    "$toDecimal",
    "$isNumber",
    "$year",
    "$week",
    "$isoWeek",
    "$dateToString",
    "$dateAdd",
    "$dateDiff",
    "$dateTrunc",
    "$getField",
    "$setField",
    "$literal",
    "$let",
    "$toHashedIndexKey",
    "$bitAnd",
    "$strcasecmp",
};

static const char *const TEXTS[] = {
    "",
    "x",
    "$a",
    "$a.b",
    "$$ROOT",
    "$$this",
    "$$value",
    "$$NOW",
    "$$REMOVE",
    "^a(b|c)*",
    "int",
    "string",
    "date",
    "year",
    "month",
    "week",
    "day",
    "hour",
    "monday",
    "UTC",
    "+02:00",
    "%Y-%m-%d %H:%M",
    "timestamp",
    "12",
    "-7.5",
    "\u00e9\u20ac",
    "2024-02-29T12:00:00Z",
    "507f1f77bcf86cd799439011",
    "a.b",
};

static void append_value(struct bytes *b, bson_t *to, const char *name, int depth);

static void fill(struct bytes *b, bson_t *to, bool array, int depth) {
  unsigned n = take(b) % (MAX_FIELDS + 1);
  for (unsigned i = 0; i < n; i++) {
    char text[16];
    const char *name;
    if (array)
      bson_uint32_to_string(i, &name, text, sizeof text);
    else
      name = NAMES[take(b) % (sizeof NAMES / sizeof *NAMES)];
    append_value(b, to, name, depth);
  }
}

static void append_number(struct bytes *b, bson_t *to, const char *name, unsigned type) {
  static const double doubles[] = {0, -0.0, 1.5, -2.5, 1e300, -1e18, 9.3e18, 1e-310};
  static const int64_t integers[] = {0, 1, -1, 2, 7, 100, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, 1700000000000};
  static const char *const decimals[] = {"0",        "1.5",     "-2.50",   "NaN",
                                         "Infinity", "1E+6000", "1E-6170", "9999999999999999999999999999999999"};
  unsigned which = take(b);
  int64_t n = integers[which % (sizeof integers / sizeof *integers)];
  bson_decimal128_t d;
  switch (type) {
  case 0: bson_append_int32(to, name, -1, (int32_t)n); break;
  case 1: bson_append_int64(to, name, -1, n); break;
  case 2: bson_append_double(to, name, -1, doubles[which % 8]); break;
  case 3: bson_append_date_time(to, name, -1, n); break;
  default: bson_decimal128_from_string(decimals[which % 8], &d); bson_append_decimal128(to, name, -1, &d);
  }
}

static void append_value(struct bytes *b, bson_t *to, const char *name, int depth) {
  bson_t inside;
  unsigned type = take(b) % 16;
  if (depth >= MAX_DEPTH && type >= 9) type -= 9;
  switch (type) {
  case 5: bson_append_utf8(to, name, -1, TEXTS[take(b) % (sizeof TEXTS / sizeof *TEXTS)], -1); break;
  case 6: bson_append_bool(to, name, -1, take(b) & 1); break;
  case 7: bson_append_null(to, name, -1); break;
  case 8:
    if (take(b) % 4 == 0)
      bson_append_minkey(to, name, -1);
    else
      bson_append_regex(to, name, -1, TEXTS[take(b) % 10], take(b) & 1 ? "i" : "");
    break;
  case 9:
  case 10:
  case 11:
    bson_append_array_begin(to, name, -1, &inside);
    fill(b, &inside, true, depth + 1);
    bson_append_array_end(to, &inside);
    break;
  case 12:
  case 13:
  case 14:
  case 15:
    bson_append_document_begin(to, name, -1, &inside);
    fill(b, &inside, false, depth + 1);
    bson_append_document_end(to, &inside);
    break;
  default: append_number(b, to, name, type); break;
  }
}

static const bson_t *make(struct arena *a, struct bytes *b, bool array) {
  bson_t *doc = arena_bson(a);
  fill(b, doc, array, 0);
  return doc;
}

static void try_filter(struct arena *a, const bson_t *spec, const bson_t *doc) {
  struct error err = {0};
  struct match *m = match_parse(a, spec, NULL, &err);
  if (!m) return;
  int position;
  struct index_bounds bounds;
  struct key_range *ranges;
  bson_t *text = arena_bson(a), *pattern = arena_bson(a);
  match_doc_position(m, doc, &position);
  match_ok(m, &err);
  match_describe(m, text);
  bson_append_int32(pattern, "a", -1, 1);
  bson_append_int32(pattern, "a.b", -1, -1);
  bounds_build(a, m, pattern, position & 1, &bounds);
  bounds_ranges(a, &bounds, pattern, 16, &ranges);
  bounds_describe(&bounds, text);
}

static void try_projection(struct arena *a, const bson_t *spec, const bson_t *doc) {
  struct error err = {0};
  struct projection *p = projection_parse(a, spec, true, NULL, NULL, &err);
  if (p) projection_apply(p, a, doc, arena_bson(a), &err);
}

static void try_update(struct arena *a, const bson_t *spec, bool array, const bson_t *filters, const bson_t *doc) {
  struct error err = {0};
  const bson_t *out;
  bool modified;
  struct update *u = update_parse(a, spec, array, filters, NULL, &err);
  if (!u) return;
  if (update_apply(u, a, doc, 0, 1700000000000, false, &out, &modified, &err) && !array) {
    struct error why = {0};
    // What an update makes is a document that may be stored.
    if (!doc_validate(bson_get_data(out), out->len, &why)) __builtin_trap();
  }
  struct match *m = match_parse(a, doc, NULL, &err);
  if (m) update_upsert_document(u, a, m, 1700000000000, &out, &err);
}

struct one_document {
  const bson_t *doc;
  int left;
};

static bool next_document(void *ctx, const bson_t **doc, struct error *err) {
  struct one_document *s = ctx;
  *doc = s->left-- > 0 ? s->doc : NULL;
  return true;
}

static void try_pipeline(struct arena *a, const bson_t *stages, const bson_t *doc) {
  struct error err = {0};
  struct pipeline *p = pipeline_parse(a, stages, variables_new(a, NULL, 0, &err), &err);
  if (!p) return;
  struct pipeline_split split;
  struct one_document source = {doc, 3};
  const bson_t *out;
  pipeline_split(a, p, &split);
  pipeline_describe(p, arena_bson(a));
  pipeline_start(p, (struct doc_source){next_document, &source});
  for (int i = 0; i < MAX_RESULTS && pipeline_next(p, &out, &err) && out; i++) continue;
}

static void try_sort(struct arena *a, const bson_t *spec, const bson_t *doc) {
  struct error err = {0};
  struct sort *s = sort_parse(a, spec, &err);
  if (!s) return;
  struct sorter *x = sorter_new(a, s, 1);
  for (int i = 0; i < 3; i++) sorter_add(x, doc, &err);
  sorter_finish(x);
  sorter_next(x);
}

static void try_expression(struct arena *a, const bson_t *spec, const bson_t *doc) {
  struct error err = {0};
  struct variables *vars = variables_new(a, NULL, 0, &err);
  bson_value_t v = value_doc(spec), out;
  struct expression *e = expression_parse(a, &v, vars, &err);
  if (e) expression_eval(e, a, doc, &out, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct bytes b = {data, size, 0};
  struct arena *a = arena_new();
  unsigned what = take(&b) % 7;
  bool array = what == 5 || what == 6;
  const bson_t *spec = make(a, &b, array), *doc = make(a, &b, false), *filters = NULL;
  if (what == 2 && (take(&b) & 1)) filters = make(a, &b, true);
  switch (what) {
  case 0: try_filter(a, spec, doc); break;
  case 1: try_projection(a, spec, doc); break;
  case 2: try_update(a, spec, false, filters, doc); break;
  case 3: try_sort(a, spec, doc); break;
  case 4: try_expression(a, spec, doc); break;
  case 5: try_update(a, spec, true, NULL, doc); break;
  default: try_pipeline(a, spec, doc); break;
  }
  arena_free(a);
  return 0;
}
