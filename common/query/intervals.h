// Sets of values of one field, as sorted lists of intervals that neither overlap nor touch.
#ifndef SHARDLET_QUERY_INTERVALS_H
#define SHARDLET_QUERY_INTERVALS_H

#include "common/query/bounds.h"

struct interval_set {
  struct interval *list; // ascending
  size_t n;              // 0 = no value at all
};

struct interval interval_of(bson_value_t low, bool low_inclusive, bson_value_t high, bool high_inclusive);
struct interval interval_point(bson_value_t v);
bool interval_is_point(const struct interval *i);

struct interval_set intervals_all(struct arena *a); // [MinKey, MaxKey]
bool intervals_is_all(const struct interval_set *s);
bool intervals_are_points(const struct interval_set *s); // an empty set as well

// Of n intervals in any order, overlapping or not; an interval that holds nothing is dropped.
struct interval_set intervals_from(struct arena *a, const struct interval *list, size_t n);
struct interval_set intervals_union(struct arena *a, const struct interval_set *sets, size_t n);
struct interval_set intervals_intersect(struct arena *a, const struct interval_set *x, const struct interval_set *y);
struct interval_set intervals_complement(struct arena *a, const struct interval_set *s);

#endif
