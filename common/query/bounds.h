// Which part of an index (or of a shard key's space) a filter can be answered from.
//
// bounds_build() looks at the filter as if the key pattern were the only index. The result is a list of closed-open
// ranges in the key encoding, in index order and not overlapping, that together contain every matching document's key.
#ifndef SHARDLET_QUERY_BOUNDS_H
#define SHARDLET_QUERY_BOUNDS_H

#include <bson/bson.h>
#include <stdbool.h>

#include "common/base/arena.h"
#include "common/bson/key.h"
#include "common/query/match.h"

struct interval { // of one field, in ascending value order
  bson_value_t low, high;
  bool low_inclusive, high_inclusive;
};

struct field_bounds {
  const char *path;
  int direction; // 1, -1; hashed: 0 (intervals are of hashes, only points are possible)
  struct interval *intervals;
  size_t n;   // 0: nothing can match
  bool exact; // the intervals say all that the filter says of this field (no residual filter needed for it)
};

struct index_bounds {
  struct field_bounds *fields;
  size_t n_fields;
  size_t n_constrained; // leading fields whose intervals are less than [MinKey, MaxKey]
  bool all_points;      // every field is fixed to one value (a point lookup)
  bool covers_filter; // no residual filter is needed when the index is not multikey and bounds_ranges() joined nothing
};

// multikey: the index has expanded arrays, so that bounds of different conditions on one path must not be intersected.
// false: no bound at all on the first field (a full index scan would be needed). The result is still filled. It borrows
// from the match and from the pattern.
bool bounds_build(struct arena *a, const struct match *m, const bson_t *pattern, bool multikey,
                  struct index_bounds *out);

// As ranges of encoded keys for a scan, in the pattern's directions: leading point fields are fixed, the first field
// with several intervals multiplies, later fields contribute their overall range (exactness is the filter's job).
// At most `limit` ranges: beyond it neighbouring ones are joined. No range at all: nothing can match.
struct key_range {
  struct key low, high; // high exclusive; len 0 of high = to the end
};
size_t bounds_ranges(struct arena *a, const struct index_bounds *b, const bson_t *pattern, size_t limit,
                     struct key_range **out);
// How many ranges there are when none is joined.
size_t bounds_range_count(const struct index_bounds *b);

// {a: ["[1, 1]"], b: ["(5, MaxKey]"]} for explain.
void bounds_describe(const struct index_bounds *b, bson_t *out);

#endif
