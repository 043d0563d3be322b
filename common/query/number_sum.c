// Sums of numbers of mixed types.
#include "common/query/number_sum.h"

#include <math.h>
#include <string.h>

#include "common/query/decimal.h"
#include "common/query/values.h"

int number_width(bson_type_t type) {
  return type == BSON_TYPE_INT32 ? 0 : type == BSON_TYPE_INT64 ? 1 : type == BSON_TYPE_DOUBLE ? 2 : 3;
}

// Knuth's two-sum: what `high + v` loses goes to low.
static void add_double(struct number_sum *s, double v) {
  double sum = s->high + v, part = sum - s->high;
  s->low += (s->high - (sum - part)) + (v - part);
  s->high = sum;
  s->plain += v;
}

static void add_decimal(struct number_sum *s, bson_decimal128_t d) {
  s->decimals = s->has_decimal ? decimal_add(s->decimals, d) : d;
  s->has_decimal = true;
}

static void widen(struct number_sum *s, bson_type_t type) {
  if (s->widest == BSON_TYPE_EOD || number_width(type) > number_width(s->widest)) s->widest = type;
}

void number_sum_add(struct number_sum *s, const bson_value_t *v) {
  widen(s, v->value_type);
  switch (v->value_type) {
  case BSON_TYPE_INT32: s->integers += v->value.v_int32; break;
  case BSON_TYPE_INT64: s->integers += v->value.v_int64; break;
  case BSON_TYPE_DOUBLE: add_double(s, v->value.v_double); break;
  default: add_decimal(s, v->value.v_decimal128); break;
  }
}

double number_sum_double(const struct number_sum *s) {
  struct number_sum all = *s;
  double high = (double)s->integers;
  add_double(&all, high);
  add_double(&all, (double)(s->integers - (__int128)high));
  double sum = all.high + all.low;
  if (!isfinite(sum)) sum = all.plain;
  return s->has_decimal ? sum + decimal_to_double(s->decimals) : sum;
}

static bson_decimal128_t integers_as_decimal(__int128 n) {
  // In two halves, since decimals are made from int64s: high * 2^62 + low.
  int64_t high = (int64_t)(n >> 62), low = (int64_t)(n & (((__int128)1 << 62) - 1));
  bson_decimal128_t scaled = decimal_multiply(decimal_from_i64(high), decimal_from_i64((int64_t)1 << 62));
  return decimal_add(scaled, decimal_from_i64(low));
}

bson_decimal128_t number_sum_decimal(const struct number_sum *s) {
  bson_decimal128_t sum = integers_as_decimal(s->integers);
  if (s->plain != 0 || s->high != 0 || isnan(s->plain)) {
    double doubles = s->high + s->low;
    if (!isfinite(doubles)) {
      sum = decimal_add(sum, decimal_from_double(s->plain));
    } else {
      sum = decimal_add(sum, decimal_from_double_exact(s->high));
      sum = decimal_add(sum, decimal_from_double_exact(s->low));
    }
  }
  return s->has_decimal ? decimal_add(sum, s->decimals) : sum;
}

bson_value_t number_sum_result(const struct number_sum *s) {
  switch (s->widest) {
  case BSON_TYPE_DECIMAL128: return value_decimal(number_sum_decimal(s));
  case BSON_TYPE_DOUBLE: return value_real(number_sum_double(s));
  default: break;
  }
  if (s->integers > INT64_MAX || s->integers < INT64_MIN) return value_real(number_sum_double(s));
  int64_t n = (int64_t)s->integers;
  return s->widest == BSON_TYPE_INT64 ? value_int64(n) : value_number(n);
}

// [type, integers' low and high half, doubles' high, low and plain sum, decimals (absent: none)]
void number_sum_save(const struct number_sum *s, bson_t *array) {
  bson_append_int32(array, "0", 1, (int32_t)s->widest);
  bson_append_int64(array, "1", 1, (int64_t)(uint64_t)s->integers);
  bson_append_int64(array, "2", 1, (int64_t)(s->integers >> 64));
  bson_append_double(array, "3", 1, s->high);
  bson_append_double(array, "4", 1, s->low);
  bson_append_double(array, "5", 1, s->plain);
  if (s->has_decimal) bson_append_decimal128(array, "6", 1, &s->decimals);
}

bool number_sum_merge(struct number_sum *s, const bson_value_t *array) {
  bson_t doc;
  bson_value_t decimals;
  if (!value_is_array(array)) return false;
  doc_view(&doc, array->value.v_doc.data, array->value.v_doc.data_len);
  if (bson_count_keys(&doc) < 6) return false;
  bson_type_t type = (bson_type_t)doc_i64(&doc, "0", 0);
  if (type == BSON_TYPE_EOD) return true;
  widen(s, type);
  s->integers += (__int128)doc_i64(&doc, "2", 0) * ((__int128)1 << 64) + (uint64_t)doc_i64(&doc, "1", 0);
  double plain = s->plain + doc_double(&doc, "5", 0);
  add_double(s, doc_double(&doc, "3", 0));
  add_double(s, doc_double(&doc, "4", 0));
  s->plain = plain;
  if (doc_value(&doc, "6", &decimals) && decimals.value_type == BSON_TYPE_DECIMAL128) {
    add_decimal(s, decimals.value.v_decimal128);
  }
  return true;
}
