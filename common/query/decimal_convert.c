// Decimal128 to and from the other numbers.
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/query/decimal_internal.h"

bson_decimal128_t decimal_from_i64(int64_t n) {
  struct decimal d __attribute__((cleanup(decimal_clear)));
  decimal_init(&d);
  uint64_t magnitude = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
  mpz_set_ui(d.coefficient, magnitude);
  d.negative = n < 0;
  return decimal_pack(&d, false);
}

static bson_decimal128_t from_double(double v, int digits) {
  if (isnan(v)) return decimal_nan();
  if (isinf(v)) return decimal_infinity(v < 0);
  // The C library prints doubles exactly rounded, and libbson reads decimal strings exactly.
  char text[64];
  bson_decimal128_t out;
  (void)snprintf(text, sizeof text, "%.*e", digits - 1, v);
  return bson_decimal128_from_string(text, &out) ? out : decimal_nan();
}

bson_decimal128_t decimal_from_double(double v) {
  return from_double(v, DBL_DIG);
}

bson_decimal128_t decimal_from_double_exact(double v) {
  return from_double(v, DECIMAL_DIGITS);
}

bson_decimal128_t decimal_of(const bson_value_t *v) {
  switch (v->value_type) {
  case BSON_TYPE_INT32: return decimal_from_i64(v->value.v_int32);
  case BSON_TYPE_INT64: return decimal_from_i64(v->value.v_int64);
  case BSON_TYPE_DOUBLE: return decimal_from_double(v->value.v_double);
  case BSON_TYPE_DECIMAL128: return v->value.v_decimal128;
  default: return decimal_nan();
  }
}

double decimal_to_double(bson_decimal128_t d) {
  if (decimal_is_nan(d)) return NAN;
  if (decimal_is_infinite(d)) return decimal_is_negative(d) ? -INFINITY : INFINITY;
  char text[BSON_DECIMAL128_STRING];
  bson_decimal128_to_string(&d, text);
  return strtod(text, NULL);
}

bool decimal_to_i64(bson_decimal128_t packed, int64_t *out) {
  packed = decimal_round(packed, 0, DECIMAL_TRUNCATE);
  struct decimal d __attribute__((cleanup(decimal_clear)));
  decimal_unpack(&d, packed);
  *out = 0;
  if (d.kind != DECIMAL_FINITE) return false;
  if (mpz_sgn(d.coefficient) == 0) return true;
  if (d.exponent > 19) return false;
  if (d.exponent > 0) {
    mpz_t power;
    mpz_init(power);
    decimal_power_of_ten(power, (uint64_t)d.exponent);
    mpz_mul(d.coefficient, d.coefficient, power);
    mpz_clear(power);
  }
  if (d.negative) mpz_neg(d.coefficient, d.coefficient);
  if (!mpz_fits_slong_p(d.coefficient)) return false;
  *out = mpz_get_si(d.coefficient);
  return true;
}
