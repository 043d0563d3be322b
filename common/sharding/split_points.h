// Where to split a range of the shard key: MongoDB's algorithms as a pure state machine that is fed the keys of an
// index scan.
//
// The caller owns the scan (and so may yield between two keys); this owns the counting:
//
//   s = split_points_new(a, &spec);                               // NULL: nothing to split, no scan is needed
//   do {
//     scan the shard key index over the range (from split_points_restart()'s key on, when it is set), for each entry:
//       if (split_points_feed(s, key)) split_points_take(s, key, document of the key);
//       if (split_points_enough(s)) break;
//   } while (!split_points_end(s));                               // false: scan once more, the last points move
//   keys = split_points_result(s, &n);
//
// Source of the algorithms: reference/sharding.md 4.3 (data size) and 4.6 (splitVector), whose figures are the unit
// test.
#ifndef SHARDLET_SHARDING_SPLIT_POINTS_H
#define SHARDLET_SHARDING_SPLIT_POINTS_H

#include "common/base/arena.h"
#include "common/bson/key.h"

enum split_policy {
  SPLIT_BY_SIZE,   // autoSplitVector: pieces of about chunk_bytes, the last few evened out
  SPLIT_HALF_SIZE, // splitVector: a point every half chunk size
  SPLIT_MEDIAN,    // splitVector with force: the median key; the scan is made twice
};

struct split_spec {
  enum split_policy policy;
  int64_t records, bytes; // of the whole local collection, orphans included
  int64_t chunk_bytes;
  int64_t limit;       // at most so many points; 0 = no limit
  int64_t max_objects; // SPLIT_HALF_SIZE: at most so many documents a piece; 0 = 250000
  bool backward;       // the keys are fed in descending order; the result is in ascending order all the same
};

struct split_points; // belongs to its arena

// NULL: the collection is empty or smaller than a chunk, so there is nothing to split (not for SPLIT_MEDIAN, which
// needs records > 0).
struct split_points *split_points_new(struct arena *a, const struct split_spec *spec);
// The next index entry's shard key. true: it is a split point, its document is wanted by split_points_take().
bool split_points_feed(struct split_points *s, struct key key);
void split_points_take(struct split_points *s, struct key key, const bson_t *document); // {customerId: 3784}; copied
bool split_points_enough(const struct split_points *s);                                 // the scan may stop
// At the end of a scan. true: done. false: one more scan is needed, over the keys from split_points_restart() on.
bool split_points_end(struct split_points *s);
struct key split_points_restart(const struct split_points *s); // inclusive; len 0 = the range's beginning
const bson_t *const *split_points_result(const struct split_points *s, size_t *n);
// After the first scan: every entry had the same key (there were entries, but nothing can be split).
bool split_points_single_key(const struct split_points *s);
// The result was cut because a reply would have passed 16 MiB.
bool split_points_continuation(const struct split_points *s);

#endif
