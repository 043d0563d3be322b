// Which shards a filter concerns (reference/sharding.md 6.1, with its oracle table).
#ifndef SHARDLET_SHARDING_TARGETING_H
#define SHARDLET_SHARDING_TARGETING_H

#include "common/sharding/chunk_map.h"

struct targets {
  const char **shards; // names, sorted, without duplicates; point into the map
  size_t n;
  bool exact_key; // the filter fixes the full shard key
};

// Never empty: a contradiction targets the first chunk's shard. simple_collation false: strings, objects and arrays do
// not target.
bool target_filter(struct arena *a, const struct chunk_map *m, const struct match *filter, bool simple_collation,
                   struct targets *out, struct error *err);

#endif
