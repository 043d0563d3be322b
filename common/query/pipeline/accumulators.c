// Accumulators of $group.
#include "common/query/pipeline/accumulators.h"

#include <math.h>
#include <string.h>

#include "common/base/map.h"
#include "common/bson/compare.h"
#include "common/bson/key.h"
#include "common/query/decimal.h"
#include "common/query/expression_internal.h"

static void hold(struct accumulator *a, const bson_value_t *v) {
  if (!a->held.holder)
    a->held.holder = arena_bson(a->arena);
  else
    bson_reinit(a->held.holder);
  bson_iter_t it;
  doc_append_value(a->held.holder, "", v);
  a->bytes = a->held.holder->len;
  a->any = true;
  if (bson_iter_init(&it, a->held.holder) && bson_iter_next(&it)) a->held.value = *bson_iter_value(&it);
}

static void result_held(struct accumulator *a, struct arena *scratch, bson_value_t *out) {
  *out = a->any ? a->held.value : value_null();
}

static bool bad_partial(const struct accumulator *a, struct error *err) {
  return error_set(err, ERR_InternalError, "a partial result of %s has not the expected form", a->type->name);
}

// --- $sum, $count ---

static bool add_sum(struct accumulator *a, const bson_value_t *v, struct error *err) {
  if (value_is_number(v)) number_sum_add(&a->sum, v);
  return true;
}

static bool merge_sum(struct accumulator *a, const bson_value_t *partial, struct error *err) {
  return number_sum_merge(&a->sum, partial) || bad_partial(a, err);
}

static void result_sum(struct accumulator *a, struct arena *scratch, bson_value_t *out) {
  *out = a->sum.widest == BSON_TYPE_EOD ? value_int32(0) : number_sum_result(&a->sum);
}

static void partial_sum(struct accumulator *a, struct arena *scratch, bson_value_t *out) {
  bson_t *array = arena_bson(scratch);
  number_sum_save(&a->sum, array);
  *out = value_array(array);
}

static bool add_count(struct accumulator *a, const bson_value_t *v, struct error *err) {
  bson_value_t one = value_int32(1);
  number_sum_add(&a->sum, &one);
  return true;
}

// --- $avg: the sum and how many numbers made it ---

static bool add_avg(struct accumulator *a, const bson_value_t *v, struct error *err) {
  if (!value_is_number(v)) return true;
  number_sum_add(&a->sum, v);
  a->count++;
  return true;
}

static bool merge_avg(struct accumulator *a, const bson_value_t *partial, struct error *err) {
  bson_t doc;
  bson_value_t sum;
  if (!value_is_doc(partial)) return bad_partial(a, err);
  doc_view(&doc, partial->value.v_doc.data, partial->value.v_doc.data_len);
  if (!doc_value(&doc, "sum", &sum) || !number_sum_merge(&a->sum, &sum)) return bad_partial(a, err);
  a->count += doc_i64(&doc, "count", 0);
  return true;
}

static void result_avg(struct accumulator *a, struct arena *scratch, bson_value_t *out) {
  if (a->count == 0)
    *out = value_null();
  else if (a->sum.widest != BSON_TYPE_DECIMAL128)
    *out = value_real(number_sum_double(&a->sum) / (double)a->count);
  else
    *out = value_decimal(decimal_divide(number_sum_decimal(&a->sum), decimal_from_i64(a->count)));
}

static void partial_avg(struct accumulator *a, struct arena *scratch, bson_value_t *out) {
  bson_t *doc = arena_bson(scratch), array;
  bson_append_array_begin(doc, "sum", -1, &array);
  number_sum_save(&a->sum, &array);
  bson_append_array_end(doc, &array);
  bson_append_int64(doc, "count", -1, a->count);
  *out = value_doc(doc);
}

// --- $min, $max, $first, $last ---

static bool add_min(struct accumulator *a, const bson_value_t *v, struct error *err) {
  if (!value_is_nullish(v) && (!a->any || value_compare(v, &a->held.value) < 0)) hold(a, v);
  return true;
}

static bool add_max(struct accumulator *a, const bson_value_t *v, struct error *err) {
  if (!value_is_nullish(v) && (!a->any || value_compare(v, &a->held.value) > 0)) hold(a, v);
  return true;
}

static void hold_or_null(struct accumulator *a, const bson_value_t *v) {
  bson_value_t null = value_null();
  hold(a, value_is_missing(v) ? &null : v);
}

static bool add_first(struct accumulator *a, const bson_value_t *v, struct error *err) {
  if (!a->any) hold_or_null(a, v);
  return true;
}

static bool add_last(struct accumulator *a, const bson_value_t *v, struct error *err) {
  hold_or_null(a, v);
  return true;
}

// --- $push, $addToSet ---

static void append(struct accumulator *a, const bson_value_t *v) {
  char text[16];
  const char *key;
  bson_uint32_to_string(a->n++, &key, text, sizeof text);
  doc_append_value(a->list, key, v);
  a->bytes = a->list->len;
}

static bool add_push(struct accumulator *a, const bson_value_t *v, struct error *err) {
  if (!value_is_missing(v)) append(a, v);
  return true;
}

static bool add_to_set(struct accumulator *a, const bson_value_t *v, struct error *err) {
  __attribute__((cleanup(buf_cleanup))) struct buf key = {0};
  if (value_is_missing(v)) return true;
  key_append(&key, v, false);
  if (map_get(a->seen, key.data, key.len)) return true;
  map_put(a->seen, key.data, key.len, a);
  append(a, v);
  a->bytes = a->list->len + map_count(a->seen) * (key.len + 64);
  return true;
}

static bool merge_list(struct accumulator *a, const bson_value_t *partial, struct error *err) {
  bson_iter_t it;
  if (!value_is_array(partial)) return bad_partial(a, err);
  for (value_iter(partial, &it); bson_iter_next(&it);) {
    if (!a->type->add(a, bson_iter_value(&it), err)) return false;
  }
  return true;
}

static void result_list(struct accumulator *a, struct arena *scratch, bson_value_t *out) {
  *out = value_array(a->list);
}

// --- $stdDevPop, $stdDevSamp ---

static bool add_std_dev(struct accumulator *a, const bson_value_t *v, struct error *err) {
  if (!value_is_number(v)) return true;
  double x = value_double(v), distance = x - a->mean;
  a->count++;
  a->mean += distance / (double)a->count;
  a->squares += distance * (x - a->mean);
  return true;
}

// Chan's formula for joining two runs of Welford's algorithm.
static bool merge_std_dev(struct accumulator *a, const bson_value_t *partial, struct error *err) {
  bson_t doc;
  if (!value_is_doc(partial)) return bad_partial(a, err);
  doc_view(&doc, partial->value.v_doc.data, partial->value.v_doc.data_len);
  int64_t count = doc_i64(&doc, "count", 0);
  if (count == 0) return true;
  double total = (double)(a->count + count), distance = doc_double(&doc, "mean", 0) - a->mean;
  a->squares += doc_double(&doc, "m2", 0) + distance * distance * (double)a->count * (double)count / total;
  a->mean += distance * (double)count / total;
  a->count += count;
  return true;
}

static void partial_std_dev(struct accumulator *a, struct arena *scratch, bson_value_t *out) {
  bson_t *doc = arena_bson(scratch);
  bson_append_double(doc, "m2", -1, a->squares);
  bson_append_double(doc, "mean", -1, a->mean);
  bson_append_int64(doc, "count", -1, a->count);
  *out = value_doc(doc);
}

static void result_std_dev_pop(struct accumulator *a, struct arena *scratch, bson_value_t *out) {
  *out = a->count ? value_real(sqrt(a->squares / (double)a->count)) : value_null();
}

static void result_std_dev_samp(struct accumulator *a, struct arena *scratch, bson_value_t *out) {
  *out = a->count > 1 ? value_real(sqrt(a->squares / (double)(a->count - 1))) : value_null();
}

// --- $mergeObjects ---

static bool add_merge_objects(struct accumulator *a, const bson_value_t *v, struct error *err) {
  if (value_is_nullish(v)) return true;
  if (!value_is_doc(v)) {
    return error_set(err, 40400, "$mergeObjects requires object inputs, but an input is no object");
  }
  if (!a->any) {
    hold(a, v);
    return true;
  }
  struct arena *scratch __attribute__((cleanup(arena_cleanup))) = arena_new();
  bson_value_t merged = a->held.value;
  expr_merge_into(scratch, &merged, v);
  hold(a, &merged);
  return true;
}

static void result_merge_objects(struct accumulator *a, struct arena *scratch, bson_value_t *out) {
  *out = a->any ? a->held.value : value_doc(arena_bson(scratch));
}

static const struct accumulator_type TYPES[] = {
    {"$sum", add_sum, merge_sum, result_sum, partial_sum, false},
    {"$count", add_count, merge_sum, result_sum, partial_sum, false},
    {"$avg", add_avg, merge_avg, result_avg, partial_avg, false},
    {"$min", add_min, NULL, result_held, NULL, false},
    {"$max", add_max, NULL, result_held, NULL, false},
    {"$first", add_first, NULL, result_held, NULL, false},
    {"$last", add_last, NULL, result_held, NULL, false},
    {"$push", add_push, merge_list, result_list, NULL, false},
    {"$addToSet", add_to_set, merge_list, result_list, NULL, false},
    {"$stdDevPop", add_std_dev, merge_std_dev, result_std_dev_pop, partial_std_dev, false},
    {"$stdDevSamp", add_std_dev, merge_std_dev, result_std_dev_samp, partial_std_dev, false},
    {"$mergeObjects", add_merge_objects, NULL, result_merge_objects, NULL, false},
    {.name = "$accumulator", .refused = true},
    {.name = "$bottom", .refused = true},
    {.name = "$bottomN", .refused = true},
    {.name = "$firstN", .refused = true},
    {.name = "$lastN", .refused = true},
    {.name = "$maxN", .refused = true},
    {.name = "$median", .refused = true},
    {.name = "$minN", .refused = true},
    {.name = "$percentile", .refused = true},
    {.name = "$top", .refused = true},
    {.name = "$topN", .refused = true},
};

const struct accumulator_type *accumulator_find(const char *name) {
  for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++) {
    if (strcmp(TYPES[i].name, name) == 0) return &TYPES[i];
  }
  return NULL;
}

static void free_seen(void *map) {
  map_free(map, NULL);
}

void accumulator_init(struct accumulator *a, const struct accumulator_type *type, struct arena *arena) {
  *a = (struct accumulator){.type = type, .arena = arena};
  if (type->result == result_list) a->list = arena_bson(arena);
  if (type->add != add_to_set) return;
  a->seen = map_new();
  arena_on_free(arena, free_seen, a->seen);
}
