// Decimal128 arithmetic over GMP integers: taking apart, putting together with one rounding, and the four operations.
#include "common/query/decimal_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// The format (BID): sign, 14 bits of exponent with a bias, 113 bits of coefficient. When the two bits behind the sign
// are set, the coefficient is out of range (and counts as zero), or the value is infinite or NaN.
enum { BIAS = 6176, COEFFICIENT_HIGH_BITS = 49 };
static const uint64_t SIGN = 1ULL << 63, INFINITE_BITS = 0x7800000000000000ULL, NAN_BITS = 0x7c00000000000000ULL;

void decimal_init(struct decimal *d) {
  mpz_init(d->coefficient);
  d->exponent = 0;
  d->negative = false;
  d->kind = DECIMAL_FINITE;
}

void decimal_clear(struct decimal *d) {
  mpz_clear(d->coefficient);
}

bson_decimal128_t decimal_nan(void) {
  return (bson_decimal128_t){.high = NAN_BITS, .low = 0};
}

bson_decimal128_t decimal_infinity(bool negative) {
  return (bson_decimal128_t){.high = INFINITE_BITS | (negative ? SIGN : 0), .low = 0};
}

bool decimal_is_nan(bson_decimal128_t d) {
  return (d.high & NAN_BITS) == NAN_BITS;
}

bool decimal_is_infinite(bson_decimal128_t d) {
  return (d.high & NAN_BITS) == INFINITE_BITS;
}

bool decimal_is_negative(bson_decimal128_t d) {
  return d.high & SIGN;
}

void decimal_power_of_ten(mpz_t out, uint64_t power) {
  mpz_ui_pow_ui(out, 10, power);
}

size_t decimal_length(const mpz_t n) {
  size_t digits = mpz_sizeinbase(n, 10); // exact or one too many
  if (digits < 2) return 1;
  mpz_t limit;
  mpz_init(limit);
  decimal_power_of_ten(limit, digits - 1);
  bool fewer = mpz_cmp(n, limit) < 0;
  mpz_clear(limit);
  return digits - fewer;
}

void decimal_unpack(struct decimal *d, bson_decimal128_t packed) {
  decimal_init(d);
  d->negative = packed.high & SIGN;
  if (decimal_is_nan(packed)) {
    d->kind = DECIMAL_NAN;
    return;
  }
  if (decimal_is_infinite(packed)) {
    d->kind = DECIMAL_INFINITE;
    return;
  }
  if ((packed.high >> 61 & 3) == 3) {
    d->exponent = (int64_t)(packed.high >> 47 & 0x3fff) - BIAS;
    return;
  }
  d->exponent = (int64_t)(packed.high >> COEFFICIENT_HIGH_BITS & 0x3fff) - BIAS;
  uint64_t words[2] = {packed.low, packed.high & ((1ULL << COEFFICIENT_HIGH_BITS) - 1)};
  mpz_import(d->coefficient, 2, -1, sizeof *words, 0, 0, words);
  if (decimal_length(d->coefficient) > DECIMAL_DIGITS) mpz_set_ui(d->coefficient, 0);
}

static bool rounds_up(enum decimal_rounding how, bool negative, int against_half, bool odd, bool inexact) {
  switch (how) {
  case DECIMAL_HALF_EVEN: return against_half > 0 || (against_half == 0 && odd);
  case DECIMAL_FLOOR: return negative && inexact;
  case DECIMAL_CEILING: return !negative && inexact;
  default: return false;
  }
}

void decimal_shift_right(mpz_t n, uint64_t power, enum decimal_rounding how, bool negative, bool sticky) {
  mpz_t divisor, rest;
  mpz_inits(divisor, rest, NULL);
  // Past all digits nothing but the fact that there was something matters.
  uint64_t most = decimal_length(n) + 1;
  decimal_power_of_ten(divisor, power < most ? power : most);
  mpz_tdiv_qr(n, rest, n, divisor);
  bool inexact = sticky || mpz_sgn(rest) != 0;
  mpz_mul_2exp(rest, rest, 1);
  int against_half = mpz_cmp(rest, divisor);
  if (against_half == 0 && sticky) against_half = 1;
  if (rounds_up(how, negative, against_half, mpz_odd_p(n), inexact)) mpz_add_ui(n, n, 1);
  mpz_clears(divisor, rest, NULL);
}

// Brings coefficient and exponent into the format's range. false: too large.
static bool fit(struct decimal *d, bool sticky) {
  size_t digits = decimal_length(d->coefficient);
  uint64_t drop = digits > DECIMAL_DIGITS ? digits - DECIMAL_DIGITS : 0;
  if (d->exponent + (int64_t)drop < DECIMAL_MIN_EXPONENT) drop = (uint64_t)(DECIMAL_MIN_EXPONENT - d->exponent);
  if (drop) {
    decimal_shift_right(d->coefficient, drop, DECIMAL_HALF_EVEN, d->negative, sticky);
    d->exponent += (int64_t)drop;
    // 999..9 may have become 1000..0, with one digit more.
    if (decimal_length(d->coefficient) > DECIMAL_DIGITS) {
      mpz_divexact_ui(d->coefficient, d->coefficient, 10);
      d->exponent++;
    }
  }
  if (mpz_sgn(d->coefficient) == 0) {
    if (d->exponent > DECIMAL_MAX_EXPONENT) d->exponent = DECIMAL_MAX_EXPONENT;
    return true;
  }
  if (d->exponent <= DECIMAL_MAX_EXPONENT) return true;
  // A large exponent can be traded for zeros behind a short coefficient.
  uint64_t excess = (uint64_t)(d->exponent - DECIMAL_MAX_EXPONENT);
  if (excess + decimal_length(d->coefficient) > DECIMAL_DIGITS) return false;
  mpz_t power;
  mpz_init(power);
  decimal_power_of_ten(power, excess);
  mpz_mul(d->coefficient, d->coefficient, power);
  mpz_clear(power);
  d->exponent = DECIMAL_MAX_EXPONENT;
  return true;
}

bson_decimal128_t decimal_pack(const struct decimal *d, bool sticky) {
  if (d->kind == DECIMAL_NAN) return decimal_nan();
  if (d->kind == DECIMAL_INFINITE) return decimal_infinity(d->negative);
  struct decimal r __attribute__((cleanup(decimal_clear)));
  decimal_init(&r);
  mpz_set(r.coefficient, d->coefficient);
  r.exponent = d->exponent;
  r.negative = d->negative;
  if (sticky && decimal_length(r.coefficient) <= DECIMAL_DIGITS) {
    // Room behind the last digit, so that what follows it takes part in the one rounding.
    mpz_mul_ui(r.coefficient, r.coefficient, 10);
    r.exponent--;
  }
  if (!fit(&r, sticky)) return decimal_infinity(d->negative);
  uint64_t words[2] = {0, 0};
  mpz_export(words, NULL, -1, sizeof *words, 0, 0, r.coefficient);
  bson_decimal128_t out = {.low = words[0], .high = words[1]};
  out.high |= (uint64_t)(r.exponent + BIAS) << COEFFICIENT_HIGH_BITS;
  if (r.negative) out.high |= SIGN;
  return out;
}

bool decimal_is_zero(bson_decimal128_t packed) {
  struct decimal d __attribute__((cleanup(decimal_clear)));
  decimal_unpack(&d, packed);
  return d.kind == DECIMAL_FINITE && mpz_sgn(d.coefficient) == 0;
}

bson_decimal128_t decimal_negate(bson_decimal128_t d) {
  d.high ^= SIGN;
  return d;
}

bson_decimal128_t decimal_abs(bson_decimal128_t d) {
  d.high &= ~SIGN;
  return d;
}

// Multiplies the coefficient so that the exponent becomes `exponent`, which is not larger.
static void lower_exponent(struct decimal *d, int64_t exponent) {
  if (d->exponent == exponent) return;
  mpz_t power;
  mpz_init(power);
  decimal_power_of_ten(power, (uint64_t)(d->exponent - exponent));
  mpz_mul(d->coefficient, d->coefficient, power);
  mpz_clear(power);
  d->exponent = exponent;
}

static void align(struct decimal *a, struct decimal *b) {
  int64_t exponent = a->exponent < b->exponent ? a->exponent : b->exponent;
  lower_exponent(a, exponent);
  lower_exponent(b, exponent);
}

bson_decimal128_t decimal_add(bson_decimal128_t x, bson_decimal128_t y) {
  struct decimal a __attribute__((cleanup(decimal_clear))), b __attribute__((cleanup(decimal_clear)));
  decimal_unpack(&a, x);
  decimal_unpack(&b, y);
  if (a.kind == DECIMAL_NAN || b.kind == DECIMAL_NAN) return decimal_nan();
  if (a.kind == DECIMAL_INFINITE || b.kind == DECIMAL_INFINITE) {
    if (a.kind == b.kind && a.negative != b.negative) return decimal_nan();
    return a.kind == DECIMAL_INFINITE ? x : y;
  }
  align(&a, &b);
  if (a.negative) mpz_neg(a.coefficient, a.coefficient);
  if (b.negative) mpz_neg(b.coefficient, b.coefficient);
  bool both_negative = a.negative && b.negative;
  mpz_add(a.coefficient, a.coefficient, b.coefficient);
  // An exact zero is positive, unless both were negative.
  a.negative = mpz_sgn(a.coefficient) < 0 || (mpz_sgn(a.coefficient) == 0 && both_negative);
  mpz_abs(a.coefficient, a.coefficient);
  return decimal_pack(&a, false);
}

bson_decimal128_t decimal_subtract(bson_decimal128_t x, bson_decimal128_t y) {
  return decimal_add(x, decimal_is_nan(y) ? y : decimal_negate(y));
}

bson_decimal128_t decimal_multiply(bson_decimal128_t x, bson_decimal128_t y) {
  struct decimal a __attribute__((cleanup(decimal_clear))), b __attribute__((cleanup(decimal_clear)));
  decimal_unpack(&a, x);
  decimal_unpack(&b, y);
  if (a.kind == DECIMAL_NAN || b.kind == DECIMAL_NAN) return decimal_nan();
  bool negative = a.negative != b.negative;
  if (a.kind == DECIMAL_INFINITE || b.kind == DECIMAL_INFINITE) {
    const struct decimal *other = a.kind == DECIMAL_INFINITE ? &b : &a;
    bool zero = other->kind == DECIMAL_FINITE && mpz_sgn(other->coefficient) == 0;
    return zero ? decimal_nan() : decimal_infinity(negative);
  }
  mpz_mul(a.coefficient, a.coefficient, b.coefficient);
  a.exponent += b.exponent;
  a.negative = negative;
  return decimal_pack(&a, false);
}

// Takes zeros from the coefficient's end while the exponent is below `ideal`.
static void strip_zeros(struct decimal *d, int64_t ideal) {
  while (d->exponent < ideal && mpz_sgn(d->coefficient) != 0 && mpz_divisible_ui_p(d->coefficient, 10)) {
    mpz_divexact_ui(d->coefficient, d->coefficient, 10);
    d->exponent++;
  }
}

bson_decimal128_t decimal_divide(bson_decimal128_t x, bson_decimal128_t y) {
  struct decimal a __attribute__((cleanup(decimal_clear))), b __attribute__((cleanup(decimal_clear)));
  decimal_unpack(&a, x);
  decimal_unpack(&b, y);
  bool negative = a.negative != b.negative;
  if (a.kind == DECIMAL_NAN || b.kind == DECIMAL_NAN) return decimal_nan();
  if (a.kind == DECIMAL_INFINITE) return b.kind == DECIMAL_INFINITE ? decimal_nan() : decimal_infinity(negative);
  if (b.kind == DECIMAL_INFINITE) {
    mpz_set_ui(a.coefficient, 0);
    a.exponent = DECIMAL_MIN_EXPONENT;
    a.negative = negative;
    return decimal_pack(&a, false);
  }
  if (mpz_sgn(b.coefficient) == 0) {
    return mpz_sgn(a.coefficient) == 0 ? decimal_nan() : decimal_infinity(negative);
  }
  int64_t ideal = a.exponent - b.exponent;
  // Enough digits that the quotient has two more than are kept.
  uint64_t shift = decimal_length(b.coefficient) + DECIMAL_DIGITS + 2;
  lower_exponent(&a, a.exponent - (int64_t)shift);
  mpz_t rest;
  mpz_init(rest);
  mpz_tdiv_qr(a.coefficient, rest, a.coefficient, b.coefficient);
  bool sticky = mpz_sgn(rest) != 0;
  mpz_clear(rest);
  a.exponent -= b.exponent;
  a.negative = negative;
  if (!sticky) strip_zeros(&a, ideal);
  return decimal_pack(&a, sticky);
}

bson_decimal128_t decimal_modulo(bson_decimal128_t x, bson_decimal128_t y) {
  struct decimal a __attribute__((cleanup(decimal_clear))), b __attribute__((cleanup(decimal_clear)));
  decimal_unpack(&a, x);
  decimal_unpack(&b, y);
  if (a.kind != DECIMAL_FINITE || b.kind == DECIMAL_NAN) return decimal_nan();
  if (b.kind == DECIMAL_INFINITE) return x;
  if (mpz_sgn(b.coefficient) == 0) return decimal_nan();
  align(&a, &b);
  mpz_tdiv_r(a.coefficient, a.coefficient, b.coefficient);
  return decimal_pack(&a, false);
}

bson_decimal128_t decimal_sqrt(bson_decimal128_t x) {
  struct decimal a __attribute__((cleanup(decimal_clear)));
  decimal_unpack(&a, x);
  if (a.kind == DECIMAL_NAN) return decimal_nan();
  bool zero = a.kind == DECIMAL_FINITE && mpz_sgn(a.coefficient) == 0;
  if (a.negative && !zero) return decimal_nan();
  if (a.kind == DECIMAL_INFINITE) return x;
  int64_t ideal = a.exponent >= 0 ? a.exponent / 2 : -((1 - a.exponent) / 2);
  // An even exponent, and twice the digits that are kept.
  int64_t lower = a.exponent - 2 * (DECIMAL_DIGITS + 2);
  if (lower % 2) lower--;
  lower_exponent(&a, lower);
  mpz_t rest;
  mpz_init(rest);
  mpz_sqrtrem(a.coefficient, rest, a.coefficient);
  bool sticky = mpz_sgn(rest) != 0;
  mpz_clear(rest);
  a.exponent /= 2;
  if (!sticky) strip_zeros(&a, ideal);
  return decimal_pack(&a, sticky);
}

bson_decimal128_t decimal_round(bson_decimal128_t x, int places, enum decimal_rounding how) {
  struct decimal a __attribute__((cleanup(decimal_clear)));
  decimal_unpack(&a, x);
  if (a.kind != DECIMAL_FINITE || a.exponent >= -(int64_t)places) return x;
  decimal_shift_right(a.coefficient, (uint64_t)(-(int64_t)places - a.exponent), how, a.negative, false);
  a.exponent = -(int64_t)places;
  return decimal_pack(&a, false);
}
