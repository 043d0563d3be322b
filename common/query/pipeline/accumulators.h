// Accumulators of $group. Each can give its result, or a partial value that travels from a shard to the router and is
// merged there with those of the other shards.
#ifndef SHARDLET_QUERY_ACCUMULATORS_H
#define SHARDLET_QUERY_ACCUMULATORS_H

#include "common/query/number_sum.h"
#include "common/query/values.h"

struct map;

// A value that belongs to whoever holds it; the memory is used again when it is replaced.
struct owned_value {
  bson_t *holder; // {"": value}; NULL = never set
  bson_value_t value;
};

struct accumulator {
  const struct accumulator_type *type;
  struct arena *arena; // of the $group; lives as long as the accumulator
  struct number_sum sum;
  int64_t count;
  double mean, squares; // $stdDev: Welford's running mean and sum of squared distances from it
  struct owned_value held;
  bson_t *list; // $push, $addToSet
  uint32_t n;
  struct map *seen; // $addToSet: by encoded value
  bool any;
  size_t bytes; // memory held, roughly
};

struct accumulator_type {
  const char *name;
  // Takes a value in; missing where the expression gave none. false: err is set.
  bool (*add)(struct accumulator *a, const bson_value_t *v, struct error *err);
  bool (*merge)(struct accumulator *a, const bson_value_t *partial, struct error *err); // NULL: as add
  void (*result)(struct accumulator *a, struct arena *scratch, bson_value_t *out);
  void (*partial)(struct accumulator *a, struct arena *scratch, bson_value_t *out); // NULL: as result
  bool refused;
};

const struct accumulator_type *accumulator_find(const char *name);
void accumulator_init(struct accumulator *a, const struct accumulator_type *type, struct arena *arena);

#endif
