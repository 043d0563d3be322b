// Exact comparison and normal form of BSON numbers: int32, int64, double and Decimal128 form one order.
#ifndef SHARDLET_BSON_NUMBER_H
#define SHARDLET_BSON_NUMBER_H

#include <bson/bson.h>
#include <stdbool.h>
#include <stdint.h>

enum number_class { NUMBER_NAN, NUMBER_NEGATIVE, NUMBER_ZERO, NUMBER_POSITIVE };

enum { NUMBER_MAX_DIGITS = 34 };

// A number as its magnitude cut off (towards zero) to a double, and, where that lost something, its exact decimal
// digits.
struct number {
  enum number_class cls;
  double magnitude; // >= 0, infinity included
  bool exact;       // magnitude is all of it
  int16_t exponent; // otherwise: value = 0.d1d2d3... * 10^exponent, d1 != 0, no trailing zeros
  uint8_t digits[NUMBER_MAX_DIGITS];
  uint8_t n_digits;
};

void number_of(const bson_value_t *v, struct number *out); // v is a number

// <0, 0, >0. NaN is less than every number and equal to itself.
int number_compare(const bson_value_t *a, const bson_value_t *b);

#endif
