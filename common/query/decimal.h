// Decimal128 arithmetic, computed exactly over GMP integers and rounded once, half to even, to 34 digits (IEEE
// 754-2008, as MongoDB's). Results that are too large become infinite, those too small become subnormal or zero.
#ifndef SHARDLET_QUERY_DECIMAL_H
#define SHARDLET_QUERY_DECIMAL_H

#include <bson/bson.h>
#include <stdbool.h>
#include <stdint.h>

bool decimal_is_nan(bson_decimal128_t d);
bool decimal_is_infinite(bson_decimal128_t d);
bool decimal_is_zero(bson_decimal128_t d);
bool decimal_is_negative(bson_decimal128_t d);

bson_decimal128_t decimal_from_i64(int64_t n);
bson_decimal128_t decimal_from_double(double d);       // to 15 digits, as MongoDB converts doubles
bson_decimal128_t decimal_from_double_exact(double d); // to 34 digits
bson_decimal128_t decimal_of(const bson_value_t *v);   // any number
double decimal_to_double(bson_decimal128_t d);
// Truncated towards zero. false: NaN, infinite or out of range.
bool decimal_to_i64(bson_decimal128_t d, int64_t *out);

bson_decimal128_t decimal_add(bson_decimal128_t a, bson_decimal128_t b);
bson_decimal128_t decimal_subtract(bson_decimal128_t a, bson_decimal128_t b);
bson_decimal128_t decimal_multiply(bson_decimal128_t a, bson_decimal128_t b);
bson_decimal128_t decimal_divide(bson_decimal128_t a, bson_decimal128_t b);
bson_decimal128_t decimal_modulo(bson_decimal128_t a, bson_decimal128_t b); // has the sign of a
bson_decimal128_t decimal_negate(bson_decimal128_t d);
bson_decimal128_t decimal_abs(bson_decimal128_t d);
bson_decimal128_t decimal_sqrt(bson_decimal128_t d); // NaN below zero

enum decimal_rounding { DECIMAL_HALF_EVEN, DECIMAL_TRUNCATE, DECIMAL_FLOOR, DECIMAL_CEILING };
// To `places` digits behind the point (negative: before it).
bson_decimal128_t decimal_round(bson_decimal128_t d, int places, enum decimal_rounding how);

// Correct to 34 digits but for the last one.
bson_decimal128_t decimal_exp(bson_decimal128_t d);
bson_decimal128_t decimal_ln(bson_decimal128_t d); // of a positive number
bson_decimal128_t decimal_log10(bson_decimal128_t d);
bson_decimal128_t decimal_pow(bson_decimal128_t base, bson_decimal128_t exponent);

#endif
