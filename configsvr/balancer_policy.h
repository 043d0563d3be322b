// Which chunk the balancer moves, from where to where, and why: pure functions of one collection's state.
//
// The data-size policy of MongoDB 8.0 (reference/sharding.md 4.2) and the classic one of chunk counts (4.6). The
// reasons in order of priority: a shard is draining; a chunk is on a shard that lacks its zone; the load is uneven. A
// shard takes part in one move a round.
#ifndef SHARDLET_CONFIGSVR_BALANCER_POLICY_H
#define SHARDLET_CONFIGSVR_BALANCER_POLICY_H

#include "common/sharding/catalog_types.h"
#include "common/sharding/chunk_map.h"

enum move_reason { REASON_NONE, REASON_DRAINING, REASON_ZONE, REASON_IMBALANCE };

struct policy_shard {
  const char *name;
  bool draining;
  const bson_t *tags; // array of zones, or NULL
  int64_t size;       // of the collection, in bytes, without orphans
  bool available;     // takes part in no move yet; the policy takes it away from those it chooses
};

struct policy_zone { // sorted by min, not overlapping, full keys
  struct key min, max;
  const char *name;
};

struct policy_input {
  const struct chunk_map *chunks;
  struct policy_shard *shards; // in random order: it decides ties
  size_t n_shards;
  const struct policy_zone *zones;
  size_t n_zones;
  int64_t chunk_bytes;
  bool attempt_jumbo; // jumbo chunks in the wrong zone are tried too
  bool classic;       // chunk counts instead of sizes
};

struct policy_move {
  const char *from, *to;
  struct chunk chunk; // a view into the map
  bool whole;         // the whole chunk; otherwise the donor takes as much from its lower bound on as a chunk holds
  int force_jumbo;    // as in move_request.h
  enum move_reason reason;
};

enum { POLICY_MOVES_MAX = 64 }; // of one collection in one round

// Appends to moves[], returns how many. A zone bound inside a chunk makes it return 0 with *crossing set to that chunk:
// it has to be split first (crossing may be NULL).
size_t policy_balance(const struct policy_input *in, struct policy_move moves[POLICY_MOVES_MAX],
                      struct chunk *crossing);
// The zone bounds inside a chunk, in order; returns how many of at most `limit`.
size_t policy_zone_bounds_within(const struct policy_input *in, const struct chunk *c, const struct key **out,
                                 size_t limit);
const char *move_reason_text(enum move_reason r); // as firstComplianceViolation

#endif
