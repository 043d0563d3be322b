// $add, $subtract, $multiply, $divide, $mod, $abs, the bit operators.
#include <math.h>

#include "common/query/decimal.h"
#include "common/query/expression_families.h"
#include "common/query/number_sum.h"
#include "common/query/type_names.h"

static bool any_nullish(const struct expr_call *c) {
  for (size_t i = 0; i < c->n; i++) {
    if (value_is_nullish(&c->args[i])) return true;
  }
  return false;
}

static bool is_date(const bson_value_t *v) {
  return v->value_type == BSON_TYPE_DATE_TIME;
}

static const char *name_of(const bson_value_t *v) {
  return type_name(v->value_type);
}

// A number of milliseconds to add to a date: doubles and decimals are rounded.
static bool as_milliseconds(const bson_value_t *v, int64_t *out) {
  if (v->value_type == BSON_TYPE_DECIMAL128) {
    return decimal_to_i64(decimal_round(v->value.v_decimal128, 0, DECIMAL_HALF_EVEN), out);
  }
  double d = v->value_type == BSON_TYPE_DOUBLE ? round(v->value.v_double) : 0;
  if (isnan(d) || d >= 9223372036854775808.0 || d < -9223372036854775808.0) return false;
  *out = v->value_type == BSON_TYPE_DOUBLE ? (int64_t)d : value_i64(v);
  return true;
}

static bool date_overflow(const struct expr_call *c) {
  return error_set(c->v->err, ERR_Overflow, "date overflow in %s", c->e->op->name);
}

static bool call_add(const struct expr_call *c, bson_value_t *out) {
  struct number_sum sum = {0};
  const bson_value_t *date = NULL;
  *out = value_null();
  for (size_t i = 0; i < c->n; i++) {
    const bson_value_t *v = &c->args[i];
    if (value_is_nullish(v)) return true;
    if (is_date(v)) {
      if (date) return error_set(c->v->err, 16612, "only one date allowed in an $add expression");
      date = v;
    } else if (value_is_number(v)) {
      number_sum_add(&sum, v);
    } else {
      return error_set(c->v->err, ERR_TypeMismatch, "$add only supports numeric or date types, not %s", name_of(v));
    }
  }
  *out = number_sum_result(&sum);
  if (!date) return true;
  int64_t by, result;
  if (!as_milliseconds(out, &by) || __builtin_add_overflow(date->value.v_datetime, by, &result))
    return date_overflow(c);
  *out = value_date(result);
  return true;
}

static bool subtract_numbers(const bson_value_t *a, const bson_value_t *b, bson_value_t *out) {
  int wa = number_width(a->value_type), wb = number_width(b->value_type), width = wa > wb ? wa : wb;
  int64_t n = 0;
  if (width == 3) {
    *out = value_decimal(decimal_subtract(decimal_of(a), decimal_of(b)));
  } else if (width == 2 || __builtin_sub_overflow(value_i64(a), value_i64(b), &n)) {
    *out = value_real(value_double(a) - value_double(b));
  } else {
    *out = width == 1 ? value_int64(n) : value_number(n);
  }
  return true;
}

static bool call_subtract(const struct expr_call *c, bson_value_t *out) {
  const bson_value_t *a = &c->args[0], *b = &c->args[1];
  *out = value_null();
  if (any_nullish(c)) return true;
  if (value_is_number(a) && value_is_number(b)) return subtract_numbers(a, b, out);
  int64_t by, result;
  if (is_date(a) && is_date(b)) {
    if (__builtin_sub_overflow(a->value.v_datetime, b->value.v_datetime, &result)) return date_overflow(c);
    *out = value_int64(result);
    return true;
  }
  if (is_date(a) && value_is_number(b)) {
    if (!as_milliseconds(b, &by) || __builtin_sub_overflow(a->value.v_datetime, by, &result)) return date_overflow(c);
    *out = value_date(result);
    return true;
  }
  return error_set(c->v->err, ERR_TypeMismatch, "can't $subtract %s from %s", name_of(b), name_of(a));
}

static bool call_multiply(const struct expr_call *c, bson_value_t *out) {
  int64_t integers = 1;
  double doubles = 1;
  bson_decimal128_t decimals = decimal_from_i64(1);
  int width = 0;
  bool overflow = false;
  *out = value_null();
  for (size_t i = 0; i < c->n; i++) {
    const bson_value_t *v = &c->args[i];
    if (value_is_nullish(v)) return true;
    if (!value_is_number(v)) {
      return error_set(c->v->err, ERR_TypeMismatch, "$multiply only supports numeric types, not %s", name_of(v));
    }
    int w = number_width(v->value_type);
    width = w > width ? w : width;
    if (w < 2) overflow |= __builtin_mul_overflow(integers, value_i64(v), &integers);
    doubles *= value_double(v);
  }
  // Only when a decimal takes part are the slow products made.
  for (size_t i = 0; width == 3 && i < c->n; i++) decimals = decimal_multiply(decimals, decimal_of(&c->args[i]));
  if (width == 3)
    *out = value_decimal(decimals);
  else if (width == 2 || overflow)
    *out = value_real(doubles);
  else
    *out = width == 1 ? value_int64(integers) : value_number(integers);
  return true;
}

static bool call_divide(const struct expr_call *c, bson_value_t *out) {
  const bson_value_t *a = &c->args[0], *b = &c->args[1];
  *out = value_null();
  if (value_is_number(a) && value_is_number(b)) {
    if (a->value_type == BSON_TYPE_DECIMAL128 || b->value_type == BSON_TYPE_DECIMAL128) {
      bson_decimal128_t divisor = decimal_of(b);
      if (decimal_is_zero(divisor)) return error_set(c->v->err, ERR_BadValue, "can't $divide by zero");
      *out = value_decimal(decimal_divide(decimal_of(a), divisor));
      return true;
    }
    if (value_double(b) == 0) return error_set(c->v->err, ERR_BadValue, "can't $divide by zero");
    *out = value_real(value_double(a) / value_double(b));
    return true;
  }
  if (any_nullish(c)) return true;
  return error_set(c->v->err, ERR_TypeMismatch, "$divide only supports numeric types, not %s and %s", name_of(a),
                   name_of(b));
}

static bool call_mod(const struct expr_call *c, bson_value_t *out) {
  const bson_value_t *a = &c->args[0], *b = &c->args[1];
  *out = value_null();
  if (!value_is_number(a) || !value_is_number(b)) {
    if (any_nullish(c)) return true;
    return error_set(c->v->err, 16611, "$mod only supports numeric types, not %s and %s", name_of(a), name_of(b));
  }
  int wa = number_width(a->value_type), wb = number_width(b->value_type), width = wa > wb ? wa : wb;
  bool zero = wb == 3 ? decimal_is_zero(b->value.v_decimal128) : value_double(b) == 0;
  if (zero) return error_set(c->v->err, 16610, "can't $mod by zero");
  if (width == 3) {
    *out = value_decimal(decimal_modulo(decimal_of(a), decimal_of(b)));
  } else if (width == 2) {
    *out = value_real(fmod(value_double(a), value_double(b)));
  } else {
    int64_t divisor = value_i64(b), rest = divisor == -1 ? 0 : value_i64(a) % divisor; // INT64_MIN % -1 traps
    *out = width == 1 ? value_int64(rest) : value_int32((int32_t)rest);
  }
  return true;
}

static bool call_abs(const struct expr_call *c, bson_value_t *out) {
  const bson_value_t *v = &c->args[0];
  *out = value_null();
  if (value_is_nullish(v)) return true;
  switch (v->value_type) {
  case BSON_TYPE_INT32:
    *out = value_number(v->value.v_int32 < 0 ? -(int64_t)v->value.v_int32 : v->value.v_int32);
    break;
  case BSON_TYPE_INT64:
    if (v->value.v_int64 == INT64_MIN) return error_set(c->v->err, 28680, "can't take $abs of long long min");
    *out = value_int64(v->value.v_int64 < 0 ? -v->value.v_int64 : v->value.v_int64);
    break;
  case BSON_TYPE_DOUBLE: *out = value_real(fabs(v->value.v_double)); break;
  case BSON_TYPE_DECIMAL128: *out = value_decimal(decimal_abs(v->value.v_decimal128)); break;
  default: return error_set(c->v->err, 28765, "$abs only supports numeric types, not %s", name_of(v));
  }
  return true;
}

// --- bits ---

static bool bits(const struct expr_call *c, int64_t start, int64_t (*join)(int64_t, int64_t), bson_value_t *out) {
  bool wide = false;
  *out = value_null();
  if (any_nullish(c)) return true;
  for (size_t i = 0; i < c->n; i++) {
    const bson_value_t *v = &c->args[i];
    if (v->value_type != BSON_TYPE_INT32 && v->value_type != BSON_TYPE_INT64) {
      return error_set(c->v->err, ERR_TypeMismatch, "%s only supports int and long operands, not %s.", c->e->op->name,
                       name_of(v));
    }
    wide |= v->value_type == BSON_TYPE_INT64;
    start = join(start, value_i64(v));
  }
  *out = wide ? value_int64(start) : value_int32((int32_t)start);
  return true;
}

static int64_t bit_and(int64_t a, int64_t b) {
  return a & b;
}

static int64_t bit_or(int64_t a, int64_t b) {
  return a | b;
}

static int64_t bit_xor(int64_t a, int64_t b) {
  return a ^ b;
}

static bool call_bit_and(const struct expr_call *c, bson_value_t *out) {
  return bits(c, -1, bit_and, out);
}

static bool call_bit_or(const struct expr_call *c, bson_value_t *out) {
  return bits(c, 0, bit_or, out);
}

static bool call_bit_xor(const struct expr_call *c, bson_value_t *out) {
  return bits(c, 0, bit_xor, out);
}

static bool call_bit_not(const struct expr_call *c, bson_value_t *out) {
  return bits(c, -1, bit_xor, out);
}

const struct expr_operator EXPR_ARITHMETIC[] = {
    {"$add", NULL, 0, EXPR_VARIADIC, .call = call_add},
    {"$subtract", NULL, 2, 2, .call = call_subtract},
    {"$multiply", NULL, 0, EXPR_VARIADIC, .call = call_multiply},
    {"$divide", NULL, 2, 2, .call = call_divide},
    {"$mod", NULL, 2, 2, .call = call_mod},
    {"$abs", NULL, 1, 1, .call = call_abs},
    {"$bitAnd", NULL, 0, EXPR_VARIADIC, .call = call_bit_and},
    {"$bitOr", NULL, 0, EXPR_VARIADIC, .call = call_bit_or},
    {"$bitXor", NULL, 0, EXPR_VARIADIC, .call = call_bit_xor},
    {"$bitNot", NULL, 1, 1, .call = call_bit_not},
    {NULL},
};
