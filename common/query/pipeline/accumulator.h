// What $group gathers about a group's documents: $sum, $avg, $push... An accumulator is a line in a table and up to
// three functions.
//
// A group of a sharded collection is gathered in two steps: each shard gives partial results, the router merges them.
#ifndef SHARDLET_QUERY_ACCUMULATOR_H
#define SHARDLET_QUERY_ACCUMULATOR_H

#include "common/base/map.h"
#include "common/query/number_sum.h"
#include "common/query/values.h"

struct accumulated { // the state of one accumulator in one group
  struct number_sum sum;
  int64_t n;
  bson_value_t value; // $first, $last, $min, $max, $mergeObjects
  bool has_value;
  double mean, squares; // of deviations (Welford)
  bson_value_t *list;   // $push, $addToSet
  size_t n_list, cap_list;
  struct map *seen; // $addToSet: encoded values
};

struct accumulator {
  const char *name;
  // v is a document's value, or (merging) another's partial result. *bytes grows by what was kept.
  void (*add)(struct arena *a, struct accumulated *s, const bson_value_t *v, size_t *bytes);
  void (*merge)(struct arena *a, struct accumulated *s, const bson_value_t *partial, size_t *bytes); // NULL: as add
  bson_value_t (*result)(struct arena *a, const struct accumulated *s);
  bson_value_t (*partial)(struct arena *a, const struct accumulated *s); // NULL: as result
  bool no_argument;                                                      // $count: {}
  bool refused;
};

const struct accumulator *accumulator_find(const char *name);
void accumulated_free(struct accumulated *s);

#endif
