// The accumulators of $group.
#include "common/query/pipeline/accumulator.h"

#include <math.h>
#include <string.h>

#include "common/bson/compare.h"
#include "common/bson/key.h"
#include "common/query/decimal.h"
#include "common/query/expression_internal.h"

static bool is_null_or_missing(const bson_value_t *v) {
  return value_is_nullish(v);
}

// Borrowed fields of a partial result, which is a document.
static bool partial_field(const bson_value_t *partial, const char *name, bson_value_t *out) {
  bson_t doc;
  if (!value_is_doc(partial)) return false;
  doc_view(&doc, partial->value.v_doc.data, partial->value.v_doc.data_len);
  return doc_value(&doc, name, out);
}

// --- $sum, $count, $avg ---

static void sum_add(struct arena *a, struct accumulated *s, const bson_value_t *v, size_t *bytes) {
  if (!value_is_number(v)) return;
  number_sum_add(&s->sum, v);
  s->n++;
}

static bson_value_t sum_result(struct arena *a, const struct accumulated *s) {
  return number_sum_result(&s->sum);
}

static bson_value_t sum_partial(struct arena *a, const struct accumulated *s) {
  bson_t *doc = arena_bson(a), array;
  BSON_APPEND_ARRAY_BEGIN(doc, "sum", &array);
  number_sum_save(&s->sum, &array);
  bson_append_array_end(doc, &array);
  BSON_APPEND_INT64(doc, "count", s->n);
  return value_doc(doc);
}

static void sum_merge(struct arena *a, struct accumulated *s, const bson_value_t *partial, size_t *bytes) {
  bson_value_t sum, count;
  if (!partial_field(partial, "sum", &sum) || !partial_field(partial, "count", &count)) return;
  if (number_sum_merge(&s->sum, &sum)) s->n += value_i64(&count);
}

static void count_add(struct arena *a, struct accumulated *s, const bson_value_t *v, size_t *bytes) {
  s->n++;
}

static void count_merge(struct arena *a, struct accumulated *s, const bson_value_t *partial, size_t *bytes) {
  s->n += value_i64(partial);
}

static bson_value_t count_result(struct arena *a, const struct accumulated *s) {
  return value_number(s->n);
}

static bson_value_t avg_result(struct arena *a, const struct accumulated *s) {
  if (!s->n) return value_null();
  if (s->sum.has_decimal) return value_decimal(decimal_divide(number_sum_decimal(&s->sum), decimal_from_i64(s->n)));
  return value_real(number_sum_double(&s->sum) / (double)s->n);
}

// --- $first, $last, $min, $max ---

static void keep_value(struct arena *a, struct accumulated *s, const bson_value_t *v, size_t *bytes) {
  s->value = value_copy(a, v);
  s->has_value = true;
  if (v->value_type == BSON_TYPE_UTF8)
    *bytes += v->value.v_utf8.len;
  else if (value_is_doc(v) || value_is_array(v))
    *bytes += v->value.v_doc.data_len;
}

static void first_add(struct arena *a, struct accumulated *s, const bson_value_t *v, size_t *bytes) {
  if (!s->has_value) keep_value(a, s, v, bytes);
}

static void last_add(struct arena *a, struct accumulated *s, const bson_value_t *v, size_t *bytes) {
  keep_value(a, s, v, bytes);
}

static void min_add(struct arena *a, struct accumulated *s, const bson_value_t *v, size_t *bytes) {
  if (!is_null_or_missing(v) && (!s->has_value || value_compare(v, &s->value) < 0)) keep_value(a, s, v, bytes);
}

static void max_add(struct arena *a, struct accumulated *s, const bson_value_t *v, size_t *bytes) {
  if (!is_null_or_missing(v) && (!s->has_value || value_compare(v, &s->value) > 0)) keep_value(a, s, v, bytes);
}

static bson_value_t kept_result(struct arena *a, const struct accumulated *s) {
  return s->has_value && !value_is_missing(&s->value) ? s->value : value_null();
}

// --- $push, $addToSet ---

static void list_append(struct arena *a, struct accumulated *s, const bson_value_t *v, size_t *bytes) {
  if (s->n_list == s->cap_list) {
    size_t cap = s->cap_list ? s->cap_list * 2 : 4;
    bson_value_t *grown = arena_alloc(a, cap * sizeof *grown);
    if (s->n_list) memcpy(grown, s->list, s->n_list * sizeof *grown);
    s->list = grown;
    s->cap_list = cap;
    *bytes += cap * sizeof *grown;
  }
  keep_value(a, s, v, bytes);
  s->list[s->n_list++] = s->value;
}

static void push_add(struct arena *a, struct accumulated *s, const bson_value_t *v, size_t *bytes) {
  if (!value_is_missing(v)) list_append(a, s, v, bytes);
}

static void set_add(struct arena *a, struct accumulated *s, const bson_value_t *v, size_t *bytes) {
  if (value_is_missing(v)) return;
  __attribute__((cleanup(buf_cleanup))) struct buf key = {0};
  key_append(&key, v, false);
  if (!s->seen) s->seen = map_new();
  if (map_get(s->seen, key.data, key.len)) return;
  (void)map_put(s->seen, key.data, key.len, s);
  *bytes += key.len;
  list_append(a, s, v, bytes);
}

static bson_value_t list_result(struct arena *a, const struct accumulated *s) {
  struct array_builder b;
  array_begin(&b, a);
  for (size_t i = 0; i < s->n_list; i++) array_add(&b, &s->list[i]);
  return array_end(&b);
}

static void push_merge(struct arena *a, struct accumulated *s, const bson_value_t *partial, size_t *bytes) {
  bson_iter_t it;
  if (!value_is_array(partial)) return;
  for (value_iter(partial, &it); bson_iter_next(&it);) push_add(a, s, bson_iter_value(&it), bytes);
}

static void set_merge(struct arena *a, struct accumulated *s, const bson_value_t *partial, size_t *bytes) {
  bson_iter_t it;
  if (!value_is_array(partial)) return;
  for (value_iter(partial, &it); bson_iter_next(&it);) set_add(a, s, bson_iter_value(&it), bytes);
}

// --- $stdDevPop, $stdDevSamp: Welford's method, merged as Chan et al. describe ---

static void deviation_add(struct arena *a, struct accumulated *s, const bson_value_t *v, size_t *bytes) {
  if (!value_is_number(v)) return;
  double x = value_double(v), delta = x - s->mean;
  s->n++;
  s->mean += delta / (double)s->n;
  s->squares += delta * (x - s->mean);
}

static bson_value_t deviation_partial(struct arena *a, const struct accumulated *s) {
  bson_t *doc = arena_bson(a);
  BSON_APPEND_DOUBLE(doc, "m2", s->squares);
  BSON_APPEND_DOUBLE(doc, "mean", s->mean);
  BSON_APPEND_INT64(doc, "count", s->n);
  return value_doc(doc);
}

static void deviation_merge(struct arena *a, struct accumulated *s, const bson_value_t *partial, size_t *bytes) {
  bson_value_t squares, mean, count;
  if (!partial_field(partial, "m2", &squares) || !partial_field(partial, "mean", &mean) ||
      !partial_field(partial, "count", &count) || value_i64(&count) == 0) {
    return;
  }
  double n = (double)s->n, m = (double)value_i64(&count), delta = value_double(&mean) - s->mean;
  s->squares += value_double(&squares) + delta * delta * n * m / (n + m);
  s->mean = (n * s->mean + m * value_double(&mean)) / (n + m);
  s->n += value_i64(&count);
}

static bson_value_t deviation_pop(struct arena *a, const struct accumulated *s) {
  return s->n ? value_real(sqrt(s->squares / (double)s->n)) : value_null();
}

static bson_value_t deviation_samp(struct arena *a, const struct accumulated *s) {
  return s->n > 1 ? value_real(sqrt(s->squares / (double)(s->n - 1))) : value_null();
}

// --- $mergeObjects ---

static void objects_add(struct arena *a, struct accumulated *s, const bson_value_t *v, size_t *bytes) {
  if (!value_is_doc(v)) return;
  if (!s->has_value) {
    keep_value(a, s, v, bytes);
    return;
  }
  expr_merge_into(a, &s->value, v);
  *bytes += v->value.v_doc.data_len;
}

static bson_value_t objects_result(struct arena *a, const struct accumulated *s) {
  return s->has_value ? s->value : value_doc(arena_bson(a));
}

static const struct accumulator accumulators[] = {
    {.name = "$sum", .add = sum_add, .merge = sum_merge, .result = sum_result, .partial = sum_partial},
    {.name = "$count", .add = count_add, .merge = count_merge, .result = count_result, .no_argument = true},
    {.name = "$avg", .add = sum_add, .merge = sum_merge, .result = avg_result, .partial = sum_partial},
    {.name = "$min", .add = min_add, .result = kept_result},
    {.name = "$max", .add = max_add, .result = kept_result},
    {.name = "$first", .add = first_add, .result = kept_result},
    {.name = "$last", .add = last_add, .result = kept_result},
    {.name = "$push", .add = push_add, .merge = push_merge, .result = list_result},
    {.name = "$addToSet", .add = set_add, .merge = set_merge, .result = list_result},
    {.name = "$stdDevPop",
     .add = deviation_add,
     .merge = deviation_merge,
     .result = deviation_pop,
     .partial = deviation_partial},
    {.name = "$stdDevSamp",
     .add = deviation_add,
     .merge = deviation_merge,
     .result = deviation_samp,
     .partial = deviation_partial},
    {.name = "$mergeObjects", .add = objects_add, .result = objects_result},
    {.name = "$accumulator", .refused = true},
    {.name = "$top", .refused = true},
    {.name = "$topN", .refused = true},
    {.name = "$bottom", .refused = true},
    {.name = "$bottomN", .refused = true},
    {.name = "$firstN", .refused = true},
    {.name = "$lastN", .refused = true},
    {.name = "$minN", .refused = true},
    {.name = "$maxN", .refused = true},
    {.name = "$median", .refused = true},
    {.name = "$percentile", .refused = true},
};

const struct accumulator *accumulator_find(const char *name) {
  for (size_t i = 0; i < sizeof accumulators / sizeof *accumulators; i++) {
    if (strcmp(accumulators[i].name, name) == 0) return &accumulators[i];
  }
  return NULL;
}

void accumulated_free(struct accumulated *s) {
  map_free(s->seen, NULL);
  s->seen = NULL;
}
