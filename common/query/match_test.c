// What each leaf operator says of one value. v == NULL: the field is missing.
#include "common/query/match_internal.h"

#include <math.h>
#include <string.h>

#include "common/bson/compare.h"
#include "common/query/type_names.h"
#include "common/query/values.h"

static bool is_nan(const bson_value_t *v) {
  if (v->value_type == BSON_TYPE_DOUBLE) return isnan(v->value.v_double);
  // A Decimal128 is NaN when its five combination bits are 11111.
  return v->value_type == BSON_TYPE_DECIMAL128 && (v->value.v_decimal128.high >> 58 & 0x1f) == 0x1f;
}

bool match_test_eq(const struct match_node *n, const bson_value_t *v) {
  if (!v) return n->value.value_type == BSON_TYPE_NULL;
  if (value_canonical_type(v->value_type) != value_canonical_type(n->value.value_type)) return false;
  return value_equal(v, &n->value);
}

// $lt, $lte, $gt, $gte compare within one canonical type only ("type bracketing"); MinKey and MaxKey compare with all.
bool match_test_order(const struct match_node *n, const bson_value_t *v) {
  const bson_value_t *bound = &n->value;
  bool or_equal = n->kind == MATCH_LTE || n->kind == MATCH_GTE, less = n->kind == MATCH_LT || n->kind == MATCH_LTE;
  if (!v) {
    if (bound->value_type == BSON_TYPE_NULL) return or_equal;
    return bound->value_type == (less ? BSON_TYPE_MAXKEY : BSON_TYPE_MINKEY);
  }
  if (value_canonical_type(v->value_type) != value_canonical_type(bound->value_type)) {
    return bound->value_type == (less ? BSON_TYPE_MAXKEY : BSON_TYPE_MINKEY);
  }
  // NaN is neither less nor greater than anything, and equal to itself.
  bool nan = is_nan(v), bound_nan = is_nan(bound);
  if (nan || bound_nan) return or_equal && nan && bound_nan;
  int c = value_compare(v, bound);
  if (c == 0) return or_equal;
  return less ? c < 0 : c > 0;
}

static bool matches_regex(const struct match_node *n, size_t i, const bson_value_t *v) {
  if (v->value_type == BSON_TYPE_REGEX) return value_equal(v, &n->regex_values[i]);
  const char *text;
  size_t len;
  if (v->value_type == BSON_TYPE_UTF8) {
    text = v->value.v_utf8.str;
    len = v->value.v_utf8.len;
  } else if (v->value_type == BSON_TYPE_SYMBOL) {
    text = v->value.v_symbol.symbol;
    len = v->value.v_symbol.len;
  } else {
    return false;
  }
  // The first failure is kept; a struct error is large, so it is only written to the place that keeps it.
  struct error *failure = &n->runtime->failure;
  return regex_search(n->regexes[i], text, len, 0, failure->code ? NULL : failure) == 1;
}

bool match_test_regex(const struct match_node *n, const bson_value_t *v) {
  return v && matches_regex(n, 0, v);
}

bool match_test_in(const struct match_node *n, const bson_value_t *v) {
  if (!v) return n->in_null;
  size_t low = 0, high = n->n_in;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    int c = value_compare(v, &n->in[middle]);
    if (c == 0) return true;
    if (c < 0)
      high = middle;
    else
      low = middle + 1;
  }
  for (size_t i = 0; i < n->n_regexes; i++) {
    if (matches_regex(n, i, v)) return true;
  }
  return false;
}

bool match_test_mod(const struct match_node *n, const bson_value_t *v) {
  if (!v || !value_is_number(v)) return false;
  double d = value_double(v);
  if (isnan(d) || isinf(d) || d >= 9223372036854775808.0 || d < -9223372036854775808.0) return false;
  if (n->divisor == -1) return n->remainder == 0; // INT64_MIN % -1 traps
  return value_i64(v) % n->divisor == n->remainder;
}

bool match_test_exists(const struct match_node *n, const bson_value_t *v) {
  return v != NULL;
}

bool match_test_type(const struct match_node *n, const bson_value_t *v) {
  return v && (n->types & type_bit(v->value_type));
}

bool match_test_size(const struct match_node *n, const bson_value_t *v) {
  if (!v || !value_is_array(v)) return false;
  int64_t count = 0;
  bson_iter_t it;
  for (value_iter(v, &it); bson_iter_next(&it);) {
    if (++count > n->size) return false;
  }
  return count == n->size;
}
