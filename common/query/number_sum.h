// Sums of numbers of mixed types, as $add, $sum and $avg make them: integers exactly, doubles with their rounding
// errors carried along (so that a sum over several shards does not depend on how documents are spread), decimals as
// decimals. The result has the widest type that was added; an int32 sum that does not fit becomes an int64, that a
// double.
#ifndef SHARDLET_QUERY_NUMBER_SUM_H
#define SHARDLET_QUERY_NUMBER_SUM_H

#include <bson/bson.h>
#include <stdbool.h>

struct number_sum {   // all zero: the sum of nothing, int32 0
  bson_type_t widest; // BSON_TYPE_EOD while nothing was added
  __int128 integers;
  double high, low; // of doubles: high + low, low holds what rounding cut off high
  double plain;     // the ordinary sum, for infinities and NaN
  bool has_decimal;
  bson_decimal128_t decimals;
};

// How wide a number type is: int32 0, int64 1, double 2, Decimal128 3.
int number_width(bson_type_t type);

void number_sum_add(struct number_sum *s, const bson_value_t *v); // v is a number
bson_value_t number_sum_result(const struct number_sum *s);
double number_sum_double(const struct number_sum *s);
bson_decimal128_t number_sum_decimal(const struct number_sum *s);

// The state as an array, and a state joined with such an array: how a partial sum travels from a shard to the router.
void number_sum_save(const struct number_sum *s, bson_t *array);
bool number_sum_merge(struct number_sum *s, const bson_value_t *array); // false: not such an array

#endif
