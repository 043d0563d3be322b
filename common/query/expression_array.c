// Array operators.
#include "common/bson/compare.h"
#include "common/query/expression_families.h"
#include "common/query/type_names.h"

enum { RANGE_MAX_BYTES = DOC_MAX_BYTES }; // of what $range may make: no larger array can be stored or returned

static const char *name_of(const bson_value_t *v) {
  return type_name(v->value_type);
}

static bool call_is_array(const struct expr_call *c, bson_value_t *out) {
  *out = value_bool(value_is_array(&c->args[0]));
  return true;
}

static bool call_size(const struct expr_call *c, bson_value_t *out) {
  const bson_value_t *v = &c->args[0];
  if (!value_is_array(v)) {
    return error_set(c->v->err, 17124, "The argument to $size must be an array, but was of type: %s", name_of(v));
  }
  bson_iter_t it;
  int32_t n = 0;
  for (value_iter(v, &it); bson_iter_next(&it);) n++;
  *out = value_int32(n);
  return true;
}

// The element at `index`, counted from the end when negative; missing where there is none.
static bson_value_t element_at(const bson_value_t *array, int64_t index) {
  bson_iter_t it;
  if (index < 0) {
    for (value_iter(array, &it); bson_iter_next(&it);) index++;
    if (index < 0) return value_missing();
  }
  for (value_iter(array, &it); bson_iter_next(&it);) {
    if (index-- == 0) return *bson_iter_value(&it);
  }
  return value_missing();
}

static bool call_array_elem_at(const struct expr_call *c, bson_value_t *out) {
  const bson_value_t *array = &c->args[0], *at = &c->args[1];
  int64_t index;
  *out = value_null();
  if (value_is_nullish(array) || value_is_nullish(at)) return true;
  if (!value_is_array(array)) {
    return error_set(c->v->err, 28689, "$arrayElemAt's first argument must be an array, but is %s", name_of(array));
  }
  if (!value_is_number(at)) {
    return error_set(c->v->err, 28690, "$arrayElemAt's second argument must be a numeric value, but is %s",
                     name_of(at));
  }
  if (!value_is_integral(at, &index) || index > INT32_MAX || index < INT32_MIN) {
    return error_set(c->v->err, 28691, "$arrayElemAt's second argument must be representable as a 32-bit integer: %s",
                     value_text(c->v->scratch, at));
  }
  *out = element_at(array, index);
  return true;
}

static bool end_of_array(const struct expr_call *c, int64_t index, bson_value_t *out) {
  *out = value_null();
  if (value_is_nullish(&c->args[0])) return true;
  if (!value_is_array(&c->args[0])) {
    return error_set(c->v->err, 28689, "%s's argument must be an array, but is %s", c->e->op->name,
                     name_of(&c->args[0]));
  }
  *out = element_at(&c->args[0], index);
  return true;
}

static bool call_first(const struct expr_call *c, bson_value_t *out) {
  return end_of_array(c, 0, out);
}

static bool call_last(const struct expr_call *c, bson_value_t *out) {
  return end_of_array(c, -1, out);
}

static bool slice_number(const struct expr_call *c, size_t i, int64_t *out) {
  static const int not_numeric[] = {0, 28725, 28727}, not_integral[] = {0, 28726, 28728};
  const char *which = i == 1 ? "Second" : "Third";
  if (!value_is_number(&c->args[i])) {
    return error_set(c->v->err, not_numeric[i], "%s argument to $slice must be numeric, but is of type: %s", which,
                     name_of(&c->args[i]));
  }
  if (!value_is_integral(&c->args[i], out)) {
    return error_set(c->v->err, not_integral[i], "%s argument to $slice can't be represented as a 32-bit integer: %s",
                     which, value_text(c->v->scratch, &c->args[i]));
  }
  return true;
}

// [array, n]: the first n or, when negative, the last; [array, position, n].
static bool call_slice(const struct expr_call *c, bson_value_t *out) {
  *out = value_null();
  for (size_t i = 0; i < c->n; i++) {
    if (value_is_nullish(&c->args[i])) return true;
  }
  if (!value_is_array(&c->args[0])) {
    return error_set(c->v->err, 28724, "First argument to $slice must be an array, but is of type: %s",
                     name_of(&c->args[0]));
  }
  size_t n;
  const bson_value_t *elements = array_elements(c->v->scratch, &c->args[0], &n);
  int64_t first, count, size = (int64_t)n;
  if (!slice_number(c, 1, &first)) return false;
  if (c->n == 2) {
    count = first < 0 ? -first : first;
    first = first < 0 && count < size ? size - count : 0;
  } else {
    if (!slice_number(c, 2, &count)) return false;
    if (count <= 0) {
      return error_set(c->v->err, 28729, "Third argument to $slice must be positive: %s",
                       value_text(c->v->scratch, &c->args[2]));
    }
    if (first < 0) first = -first < size ? size + first : 0;
  }
  struct array_builder list;
  array_begin(&list, c->v->scratch);
  for (int64_t i = first; i < size && i - first < count; i++) array_add(&list, &elements[i]);
  *out = array_end(&list);
  return true;
}

static bool call_concat_arrays(const struct expr_call *c, bson_value_t *out) {
  struct array_builder list;
  array_begin(&list, c->v->scratch);
  *out = value_null();
  for (size_t i = 0; i < c->n; i++) {
    bson_iter_t it;
    if (value_is_nullish(&c->args[i])) return true;
    if (!value_is_array(&c->args[i])) {
      return error_set(c->v->err, 28664, "$concatArrays only supports arrays, not %s", name_of(&c->args[i]));
    }
    for (value_iter(&c->args[i], &it); bson_iter_next(&it);) array_add(&list, bson_iter_value(&it));
  }
  *out = array_end(&list);
  return true;
}

static bool call_in(const struct expr_call *c, bson_value_t *out) {
  bson_iter_t it;
  if (!value_is_array(&c->args[1])) {
    return error_set(c->v->err, 40081, "$in requires an array as a second argument, found: %s", name_of(&c->args[1]));
  }
  *out = value_bool(false);
  if (value_is_missing(&c->args[0])) return true;
  for (value_iter(&c->args[1], &it); bson_iter_next(&it);) {
    if (value_equal(&c->args[0], bson_iter_value(&it))) {
      *out = value_bool(true);
      break;
    }
  }
  return true;
}

static bool index_limit(const struct expr_call *c, size_t i, const char *what, int64_t otherwise, int64_t *out) {
  *out = otherwise;
  if (i >= c->n) return true;
  if (!value_is_number(&c->args[i]) || !value_is_integral(&c->args[i], out)) {
    return error_set(c->v->err, 40096,
                     "$indexOfArray requires an integral %s index, found a value of type: %s, with "
                     "value: %s",
                     what, name_of(&c->args[i]), value_text(c->v->scratch, &c->args[i]));
  }
  if (*out >= 0) return true;
  return error_set(c->v->err, 40097, "$indexOfArray requires a nonnegative %s index, found: %lld", what,
                   (long long)*out);
}

static bool call_index_of_array(const struct expr_call *c, bson_value_t *out) {
  int64_t from, to;
  *out = value_null();
  if (value_is_nullish(&c->args[0])) return true;
  if (!value_is_array(&c->args[0])) {
    return error_set(c->v->err, 40090, "$indexOfArray requires an array as a first argument, found: %s",
                     name_of(&c->args[0]));
  }
  if (!index_limit(c, 2, "starting", 0, &from) || !index_limit(c, 3, "ending", INT64_MAX, &to)) return false;
  bson_iter_t it;
  int64_t i = 0;
  *out = value_int32(-1);
  for (value_iter(&c->args[0], &it); bson_iter_next(&it) && i < to; i++) {
    if (i < from || value_is_missing(&c->args[1]) || !value_equal(bson_iter_value(&it), &c->args[1])) continue;
    *out = value_number(i);
    break;
  }
  return true;
}

static bool range_number(const struct expr_call *c, size_t i, int64_t *out) {
  static const char *const what[] = {"starting", "ending", "step"};
  static const int codes[] = {34443, 34445, 34447};
  const bson_value_t *v = &c->args[i];
  if (!value_is_number(v)) {
    return error_set(c->v->err, codes[i], "$range requires a numeric %s value, found value of type: %s", what[i],
                     name_of(v));
  }
  if (!value_is_integral(v, out) || *out > INT32_MAX || *out < INT32_MIN) {
    return error_set(c->v->err, codes[i] + 1,
                     "$range requires a %s value that can be represented as a 32-bit integer, "
                     "found value: %s",
                     what[i], value_text(c->v->scratch, v));
  }
  return true;
}

static bool call_range(const struct expr_call *c, bson_value_t *out) {
  int64_t from = 0, to = 0, step = 1;
  if (!range_number(c, 0, &from) || !range_number(c, 1, &to)) return false;
  if (c->n == 3 && !range_number(c, 2, &step)) return false;
  if (step == 0) return error_set(c->v->err, 34449, "$range requires a non-zero step value");
  enum { LEAST_BYTES = 7 }; // of an element: type, a name of one digit and its end, the number
  int64_t count = (to - from) / step;
  if (count > RANGE_MAX_BYTES / LEAST_BYTES) {
    return error_set(c->v->err, ERR_ExceededMemoryLimit, "$range would use too much memory, more than %d bytes",
                     RANGE_MAX_BYTES);
  }
  struct array_builder list;
  array_begin(&list, c->v->scratch);
  for (; step > 0 ? from < to : from > to; from += step) {
    bson_value_t v = value_int32((int32_t)from);
    array_add(&list, &v);
    if (list.doc->len > RANGE_MAX_BYTES) {
      return error_set(c->v->err, ERR_ExceededMemoryLimit, "$range would use too much memory, more than %d bytes",
                       RANGE_MAX_BYTES);
    }
  }
  *out = array_end(&list);
  return true;
}

static bool call_reverse_array(const struct expr_call *c, bson_value_t *out) {
  *out = value_null();
  if (value_is_nullish(&c->args[0])) return true;
  if (!value_is_array(&c->args[0])) {
    return error_set(c->v->err, 34435, "The argument to $reverseArray must be an array, but was of type: %s",
                     name_of(&c->args[0]));
  }
  size_t n;
  const bson_value_t *elements = array_elements(c->v->scratch, &c->args[0], &n);
  struct array_builder list;
  array_begin(&list, c->v->scratch);
  while (n) array_add(&list, &elements[--n]);
  *out = array_end(&list);
  return true;
}

const struct expr_operator EXPR_ARRAY[] = {
    {"$isArray", NULL, 1, 1, .call = call_is_array},
    {"$size", NULL, 1, 1, .call = call_size},
    {"$arrayElemAt", NULL, 2, 2, .call = call_array_elem_at},
    {"$first", NULL, 1, 1, .call = call_first},
    {"$last", NULL, 1, 1, .call = call_last},
    {"$slice", NULL, 2, 3, .call = call_slice},
    {"$concatArrays", NULL, 0, EXPR_VARIADIC, .call = call_concat_arrays},
    {"$in", NULL, 2, 2, .call = call_in},
    {"$indexOfArray", NULL, 2, 4, .call = call_index_of_array},
    {"$range", NULL, 2, 3, .call = call_range},
    {"$reverseArray", NULL, 1, 1, .call = call_reverse_array},
    {NULL},
};
