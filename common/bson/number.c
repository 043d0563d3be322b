// Numbers of four types in one order, exactly. Decimal128 goes through GMP, the other types never do.
#include "common/bson/number.h"

#include <float.h>
#include <gmp.h>
#include <math.h>
#include <string.h>

static void set_double(struct number *n, double d) {
  n->exact = true;
  if (isnan(d))
    n->cls = NUMBER_NAN;
  else if (d == 0)
    n->cls = NUMBER_ZERO;
  else
    n->cls = d < 0 ? NUMBER_NEGATIVE : NUMBER_POSITIVE;
  n->magnitude = isnan(d) ? 0 : fabs(d);
}

// Digits without trailing zeros, and where the point is.
static void set_digits(struct number *n, const char *text, size_t len, int exponent_of_last) {
  while (len > 1 && text[len - 1] == '0') {
    len--;
    exponent_of_last++;
  }
  n->n_digits = (uint8_t)len;
  for (size_t i = 0; i < len; i++) n->digits[i] = (uint8_t)(text[i] - '0');
  n->exponent = (int16_t)(exponent_of_last + (int)len);
}

static void set_int64(struct number *n, int64_t v) {
  double d = (double)v;
  uint64_t magnitude = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
  if (magnitude <= (UINT64_C(1) << 53)) {
    set_double(n, d);
    return;
  }
  double cut = fabs(d);
  // (double) rounds to nearest; 2^63 and everything below it is exact as uint64_t.
  if (cut >= 9223372036854775808.0 ? magnitude < (UINT64_C(1) << 63) : (uint64_t)cut > magnitude)
    cut = nextafter(cut, 0);
  n->cls = v < 0 ? NUMBER_NEGATIVE : NUMBER_POSITIVE;
  n->magnitude = cut;
  n->exact = (uint64_t)cut == magnitude;
  if (n->exact) return;
  char text[24];
  size_t len = 0;
  for (uint64_t m = magnitude; m; m /= 10) text[len++] = (char)('0' + m % 10);
  for (size_t i = 0; i < len / 2; i++) {
    char c = text[i];
    text[i] = text[len - 1 - i];
    text[len - 1 - i] = c;
  }
  set_digits(n, text, len, 0);
}

// Splits "-123.45E+6" into digits (without leading zeros) and the exponent of the last one. Returns the digits' number.
static size_t split_decimal(const char *s, char digits[NUMBER_MAX_DIGITS + 1], int *exponent) {
  size_t len = 0;
  int behind_point = 0;
  bool point = false;
  *exponent = 0;
  for (; *s; s++) {
    if (*s == '.')
      point = true;
    else if (*s == 'E' || *s == 'e') {
      *exponent = (int)strtol(s + 1, NULL, 10);
      break;
    } else if (*s >= '0' && *s <= '9') {
      behind_point += point;
      if ((len || *s != '0') && len < NUMBER_MAX_DIGITS) digits[len++] = *s;
    }
  }
  digits[len] = 0;
  *exponent -= behind_point;
  return len;
}

// The sign of (digits * 10^exponent) - d, exactly. d is finite and not negative.
static int compare_exact(const char *digits, int exponent, double d) {
  int binary;
  double mantissa = frexp(d, &binary); // d = mantissa * 2^binary
  mpz_t left, right, power;
  mpz_init_set_str(left, digits, 10);
  mpz_init_set_d(right, ldexp(mantissa, 53)); // an integer
  binary -= 53;
  mpz_init(power);
  // Bring both sides to integers: multiply with 10^|exponent| and 2^|binary| where they stand in the denominator.
  mpz_ui_pow_ui(power, 10, (unsigned long)(exponent < 0 ? -exponent : exponent));
  mpz_mul(exponent < 0 ? right : left, exponent < 0 ? right : left, power);
  mpz_mul_2exp(binary < 0 ? left : right, binary < 0 ? left : right, (mp_bitcnt_t)(binary < 0 ? -binary : binary));
  int order = mpz_cmp(left, right);
  mpz_clears(left, right, power, NULL);
  return order;
}

static void set_decimal(struct number *n, const bson_decimal128_t *value) {
  char text[BSON_DECIMAL128_STRING];
  char digits[NUMBER_MAX_DIGITS + 1];
  bson_decimal128_to_string(value, text);
  bool negative = text[0] == '-';
  const char *s = text + negative;
  if (!strcmp(s, "NaN")) {
    set_double(n, NAN);
    return;
  }
  if (!strcmp(s, "Infinity")) {
    set_double(n, negative ? -INFINITY : INFINITY);
    return;
  }
  int exponent;
  size_t len = split_decimal(s, digits, &exponent);
  if (len == 0) {
    set_double(n, 0);
    return;
  }
  double cut = strtod(s, NULL);
  if (isinf(cut)) cut = DBL_MAX;
  int order = compare_exact(digits, exponent, cut);
  if (order < 0) {
    cut = nextafter(cut, 0);
    order = 1; // the double below the nearest one is less than the value
  }
  n->cls = negative ? NUMBER_NEGATIVE : NUMBER_POSITIVE;
  n->magnitude = cut;
  n->exact = order == 0;
  if (!n->exact) set_digits(n, digits, len, exponent);
}

void number_of(const bson_value_t *v, struct number *out) {
  out->n_digits = 0;
  out->exponent = 0;
  switch (v->value_type) {
  case BSON_TYPE_INT32: set_double(out, v->value.v_int32); break;
  case BSON_TYPE_INT64: set_int64(out, v->value.v_int64); break;
  case BSON_TYPE_DECIMAL128: set_decimal(out, &v->value.v_decimal128); break;
  default: set_double(out, v->value.v_double); break;
  }
}

static int compare_magnitudes(const struct number *a, const struct number *b) {
  if (a->magnitude != b->magnitude) return a->magnitude < b->magnitude ? -1 : 1;
  if (a->exact || b->exact) return (int)b->exact - (int)a->exact; // what is cut off makes a number larger
  if (a->exponent != b->exponent) return a->exponent < b->exponent ? -1 : 1;
  size_t n = a->n_digits < b->n_digits ? a->n_digits : b->n_digits;
  int order = memcmp(a->digits, b->digits, n);
  return order ? order : (int)a->n_digits - (int)b->n_digits;
}

int number_compare(const bson_value_t *a, const bson_value_t *b) {
  if (a->value_type == BSON_TYPE_INT32 && b->value_type == BSON_TYPE_INT32) {
    return (a->value.v_int32 > b->value.v_int32) - (a->value.v_int32 < b->value.v_int32);
  }
  if (a->value_type == BSON_TYPE_INT64 && b->value_type == BSON_TYPE_INT64) {
    return (a->value.v_int64 > b->value.v_int64) - (a->value.v_int64 < b->value.v_int64);
  }
  struct number x, y;
  number_of(a, &x);
  number_of(b, &y);
  if (x.cls != y.cls) return x.cls < y.cls ? -1 : 1;
  if (x.cls == NUMBER_NAN || x.cls == NUMBER_ZERO) return 0;
  int order = compare_magnitudes(&x, &y);
  return x.cls == NUMBER_NEGATIVE ? -order : order;
}
