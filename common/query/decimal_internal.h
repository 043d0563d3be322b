// Decimal128 taken apart: (-1)^negative * coefficient * 10^exponent.
#ifndef SHARDLET_QUERY_DECIMAL_INTERNAL_H
#define SHARDLET_QUERY_DECIMAL_INTERNAL_H

#include <gmp.h>

#include "common/query/decimal.h"

enum { DECIMAL_DIGITS = 34, DECIMAL_MIN_EXPONENT = -6176, DECIMAL_MAX_EXPONENT = 6111 };

struct decimal {
  mpz_t coefficient; // >= 0
  int64_t exponent;
  bool negative;
  enum { DECIMAL_FINITE, DECIMAL_INFINITE, DECIMAL_NAN } kind;
};

// For `__attribute__((cleanup(decimal_clear)))`; every struct decimal is initialised by unpack or init.
void decimal_init(struct decimal *d); // zero
void decimal_clear(struct decimal *d);
void decimal_unpack(struct decimal *d, bson_decimal128_t packed);
// Rounds half to even. sticky: the exact value is a little more in magnitude than the coefficient says.
bson_decimal128_t decimal_pack(const struct decimal *d, bool sticky);

bson_decimal128_t decimal_nan(void);
bson_decimal128_t decimal_infinity(bool negative);

size_t decimal_length(const mpz_t n);                 // digits; 1 for zero
void decimal_power_of_ten(mpz_t out, uint64_t power); // 10^power
// n / 10^power rounded; sticky as above.
void decimal_shift_right(mpz_t n, uint64_t power, enum decimal_rounding how, bool negative, bool sticky);

#endif
