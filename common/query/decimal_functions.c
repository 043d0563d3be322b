// exp, ln, log10 and pow of Decimal128.
//
// Computed in fixed point: GMP integers that stand for their value times 10^SCALE. Of the SCALE digits 34 are wanted;
// results near zero (ln of 1.000...01) lose up to 34 more, reducing arguments and squaring back lose about 10.
#include <math.h>

#include "common/query/decimal_internal.h"

enum {
  SCALE = 110,
  LN_ROOTS = 16, // square roots taken to bring an argument near 1
  EXP_HALVINGS = 20,
  POW_DIGITS = 120, // kept of intermediate powers
};

static void scale_of(mpz_t out) {
  decimal_power_of_ten(out, SCALE);
}

// m = ln(m), m >= 1 in fixed point: 2^k * 2 * atanh((r - 1) / (r + 1)) with r the 2^k-th root of m.
static void fixed_ln(mpz_t m) {
  mpz_t one, y, square, term, sum;
  mpz_inits(one, y, square, term, sum, NULL);
  scale_of(one);
  for (int i = 0; i < LN_ROOTS; i++) {
    mpz_mul(m, m, one);
    mpz_sqrt(m, m);
  }
  mpz_sub(y, m, one);
  mpz_add(term, m, one);
  mpz_mul(y, y, one);
  mpz_tdiv_q(y, y, term);
  mpz_mul(square, y, y);
  mpz_tdiv_q(square, square, one);
  mpz_set(term, y);
  for (unsigned long k = 1; mpz_sgn(term) != 0; k += 2) {
    mpz_tdiv_q_ui(m, term, k);
    mpz_add(sum, sum, m);
    mpz_mul(term, term, square);
    mpz_tdiv_q(term, term, one);
  }
  mpz_mul_2exp(m, sum, LN_ROOTS + 1);
  mpz_clears(one, y, square, term, sum, NULL);
}

static void fixed_ln10(mpz_t out) {
  scale_of(out);
  mpz_mul_ui(out, out, 10);
  fixed_ln(out);
}

// r = exp(r), 0 <= r < ln 10, in fixed point: a Taylor series of r / 2^k, squared k times.
static void fixed_exp(mpz_t r) {
  mpz_t one, term, sum;
  mpz_inits(one, term, sum, NULL);
  scale_of(one);
  mpz_tdiv_q_2exp(r, r, EXP_HALVINGS);
  mpz_set(term, one);
  for (unsigned long k = 1; mpz_sgn(term) != 0; k++) {
    mpz_add(sum, sum, term);
    mpz_mul(term, term, r);
    mpz_tdiv_q(term, term, one);
    mpz_tdiv_q_ui(term, term, k);
  }
  for (int i = 0; i < EXP_HALVINGS; i++) {
    mpz_mul(sum, sum, sum);
    mpz_tdiv_q(sum, sum, one);
  }
  mpz_set(r, sum);
  mpz_clears(one, term, sum, NULL);
}

// The natural logarithm of a positive finite number, in fixed point.
static void ln_of(mpz_t out, const struct decimal *d) {
  // d = m * 10^e with 1 <= m < 10.
  int64_t e = d->exponent + (int64_t)decimal_length(d->coefficient) - 1;
  mpz_t power;
  mpz_init(power);
  decimal_power_of_ten(power, SCALE - decimal_length(d->coefficient) + 1);
  mpz_mul(out, d->coefficient, power);
  fixed_ln(out);
  fixed_ln10(power);
  mpz_mul_si(power, power, e);
  mpz_add(out, out, power);
  mpz_clear(power);
}

static bson_decimal128_t pack_fixed(const mpz_t v) {
  struct decimal d __attribute__((cleanup(decimal_clear)));
  decimal_init(&d);
  d.negative = mpz_sgn(v) < 0;
  mpz_abs(d.coefficient, v);
  d.exponent = -SCALE;
  if (mpz_sgn(v) == 0) d.exponent = 0;
  return decimal_pack(&d, false);
}

static bool is_positive_finite(const struct decimal *d) {
  return d->kind == DECIMAL_FINITE && !d->negative && mpz_sgn(d->coefficient) > 0;
}

bson_decimal128_t decimal_ln(bson_decimal128_t x) {
  struct decimal d __attribute__((cleanup(decimal_clear)));
  decimal_unpack(&d, x);
  if (!is_positive_finite(&d)) return d.kind == DECIMAL_INFINITE && !d.negative ? x : decimal_nan();
  mpz_t ln;
  mpz_init(ln);
  ln_of(ln, &d);
  bson_decimal128_t out = pack_fixed(ln);
  mpz_clear(ln);
  return out;
}

bson_decimal128_t decimal_log10(bson_decimal128_t x) {
  struct decimal d __attribute__((cleanup(decimal_clear)));
  decimal_unpack(&d, x);
  if (!is_positive_finite(&d)) return d.kind == DECIMAL_INFINITE && !d.negative ? x : decimal_nan();
  // A power of ten has an exact logarithm.
  size_t length = decimal_length(d.coefficient);
  mpz_t ln, power;
  mpz_inits(ln, power, NULL);
  decimal_power_of_ten(power, length - 1);
  bson_decimal128_t out;
  if (mpz_cmp(power, d.coefficient) == 0) {
    out = decimal_from_i64(d.exponent + (int64_t)length - 1);
  } else {
    ln_of(ln, &d);
    scale_of(power);
    mpz_mul(ln, ln, power);
    fixed_ln10(power);
    mpz_tdiv_q(ln, ln, power);
    out = pack_fixed(ln);
  }
  mpz_clears(ln, power, NULL);
  return out;
}

// exp of a fixed-point number; consumes it.
static bson_decimal128_t exp_of(mpz_t x) {
  struct decimal d __attribute__((cleanup(decimal_clear)));
  decimal_init(&d);
  mpz_t ln10, k;
  mpz_inits(ln10, k, NULL);
  fixed_ln10(ln10);
  mpz_fdiv_qr(k, d.coefficient, x, ln10);
  bson_decimal128_t out;
  if (mpz_cmpabs_ui(k, 10000) > 0) {
    if (mpz_sgn(k) > 0)
      out = decimal_infinity(false);
    else
      out = decimal_from_i64(0);
  } else {
    fixed_exp(d.coefficient);
    d.exponent = mpz_get_si(k) - SCALE;
    out = decimal_pack(&d, true);
  }
  mpz_clears(ln10, k, NULL);
  return out;
}

// A finite number in fixed point; what is behind the last digit is cut off. false: larger than any argument of
// interest.
static bool to_fixed(mpz_t out, const struct decimal *d) {
  if (d->exponent + (int64_t)decimal_length(d->coefficient) > 40) return false;
  mpz_set(out, d->coefficient);
  int64_t shift = d->exponent + SCALE;
  mpz_t power;
  mpz_init(power);
  decimal_power_of_ten(power, (uint64_t)(shift < 0 ? -shift : shift));
  if (shift < 0)
    mpz_tdiv_q(out, out, power);
  else
    mpz_mul(out, out, power);
  mpz_clear(power);
  if (d->negative) mpz_neg(out, out);
  return true;
}

bson_decimal128_t decimal_exp(bson_decimal128_t x) {
  struct decimal d __attribute__((cleanup(decimal_clear)));
  decimal_unpack(&d, x);
  if (d.kind == DECIMAL_NAN) return x;
  mpz_t fixed;
  mpz_init(fixed);
  bson_decimal128_t out;
  if (d.kind == DECIMAL_INFINITE || !to_fixed(fixed, &d)) {
    out = d.negative ? decimal_from_i64(0) : decimal_infinity(false);
  } else {
    out = mpz_sgn(d.coefficient) == 0 ? decimal_from_i64(1) : exp_of(fixed);
  }
  mpz_clear(fixed);
  return out;
}

// Cuts a coefficient to POW_DIGITS.
static void shorten(struct decimal *d) {
  size_t length = decimal_length(d->coefficient);
  if (length <= POW_DIGITS) return;
  decimal_shift_right(d->coefficient, length - POW_DIGITS, DECIMAL_TRUNCATE, false, false);
  d->exponent += (int64_t)(length - POW_DIGITS);
}

// base^n by squaring, n >= 0.
static bson_decimal128_t power_of(const struct decimal *base, uint64_t n) {
  struct decimal square __attribute__((cleanup(decimal_clear))), out __attribute__((cleanup(decimal_clear)));
  decimal_init(&square);
  decimal_init(&out);
  mpz_set(square.coefficient, base->coefficient);
  square.exponent = base->exponent;
  mpz_set_ui(out.coefficient, 1);
  out.negative = base->negative && n % 2;
  for (; n; n /= 2) {
    if (n % 2) {
      mpz_mul(out.coefficient, out.coefficient, square.coefficient);
      out.exponent += square.exponent;
      shorten(&out);
    }
    mpz_mul(square.coefficient, square.coefficient, square.coefficient);
    square.exponent *= 2;
    shorten(&square);
    // Far beyond the format's range already: the sign decides, and numbers stay small.
    if (out.exponent > 100000 || (n > 1 && square.exponent > 100000)) return decimal_infinity(out.negative);
    if (out.exponent < -100000 || (n > 1 && square.exponent < -100000)) return decimal_from_i64(0);
  }
  return decimal_pack(&out, false);
}

bson_decimal128_t decimal_pow(bson_decimal128_t x, bson_decimal128_t y) {
  struct decimal base __attribute__((cleanup(decimal_clear)));
  decimal_unpack(&base, x);
  int64_t n;
  bool finite = base.kind == DECIMAL_FINITE && !decimal_is_nan(y) && !decimal_is_infinite(y);
  // Infinities and NaN go by the rules of the C library's pow().
  if (!finite) return decimal_from_double(pow(decimal_to_double(x), decimal_to_double(y)));
  bson_decimal128_t whole = decimal_round(y, 0, DECIMAL_TRUNCATE);
  bool integral = decimal_is_zero(decimal_subtract(y, whole));
  if (integral && decimal_to_i64(whole, &n) && n > -1000000 && n < 1000000) {
    bson_decimal128_t power = power_of(&base, n < 0 ? (uint64_t)-n : (uint64_t)n);
    return n < 0 ? decimal_divide(decimal_from_i64(1), power) : power;
  }
  if (mpz_sgn(base.coefficient) == 0) return decimal_from_i64(0);
  if (base.negative) return decimal_nan();
  struct decimal exponent __attribute__((cleanup(decimal_clear)));
  decimal_unpack(&exponent, y);
  mpz_t ln, scale;
  mpz_inits(ln, scale, NULL);
  ln_of(ln, &base);
  bool grows = (mpz_sgn(ln) > 0) != exponent.negative;
  bson_decimal128_t out = grows ? decimal_infinity(false) : decimal_from_i64(0);
  struct decimal product __attribute__((cleanup(decimal_clear)));
  decimal_init(&product);
  mpz_mul(product.coefficient, ln, exponent.coefficient);
  product.exponent = exponent.exponent - SCALE;
  product.negative = exponent.negative != (mpz_sgn(ln) < 0);
  mpz_abs(product.coefficient, product.coefficient);
  if (mpz_sgn(ln) == 0)
    out = decimal_from_i64(1);
  else if (to_fixed(scale, &product))
    out = exp_of(scale);
  mpz_clears(ln, scale, NULL);
  return out;
}
