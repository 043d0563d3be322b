// Chooses how a query is answered: by which index, over which ranges, in which direction.
//
// Rules, in this order: the hint; a unique index all of whose fields are fixed to single values (_id first); the index
// with most leading fields fixed to points; then most constrained fields; then one that gives the sort; then the one
// with fewer fields. An index that nothing constrains is used only for its order. Otherwise all documents are scanned.
// A plan is never wrong: whatever the bounds leave open is decided by the filter, which is applied to every document.
#ifndef SHARDLET_NODE_PLANNER_H
#define SHARDLET_NODE_PLANNER_H

#include "common/node/node.h"
#include "common/node/query.h"
#include "common/query/bounds.h"
#include "common/store/scan.h"

// Where documents that this shard does not own are left out (reference/sharding.md 6.4).
enum ownership_filter {
  OWNERSHIP_NONE,      // the request sees everything: no versions, read concern available, not sharded
  OWNERSHIP_KEY_FIXED, // the filter fixes the whole shard key: explain shows no stage, the document is checked silently
  OWNERSHIP_ON_KEY,    // by the index key's bytes, before the document is read
  OWNERSHIP_ON_DOC,
};

struct plan {
  bool empty;             // the filter contradicts itself: nothing is read
  const char *index_name; // NULL: a scan of all documents
  uint32_t index_id;
  const bson_t *index_key;
  bool unique, sparse, partial, multikey, all_points;
  struct index_bounds bounds;
  struct key_range *ranges; // n_ranges 0: all of the index
  size_t n_ranges;
  bool backward;
  bool by_order;      // rows of several files are merged by key (or by insertion)
  bool gives_sort;    // rows come in the order that the query's sort asks for
  bool needs_sort;    // rows have to be sorted afterwards
  bool covers_filter; // the bounds say all that the filter says
  enum ownership_filter ownership;
};

enum { PLAN_MAX_RANGES = 200000 }; // of one scan; more $in values than this are answered by wider ranges and the filter

// Everything in *out lives in `a`; it refers to the index by id and name, not by pointer, so that it outlives catalog
// changes. err BadValue for a hint that names no index.
bool plan_choose(struct arena *a, const struct collection *c, const struct query *q, const struct access *x,
                 struct plan *out, struct error *err);
// The scan for a plan; NULL with err QueryPlanKilled when the index is gone.
struct scan *plan_open_scan(struct arena *a, struct collection *c, const struct plan *p, struct error *err);

// The pieces, for tests.
bool plan_gives_sort(const bson_t *index_key, const struct index_bounds *b, const bson_t *sort, bool *backward);
bool plan_filter_implies(struct arena *a, const struct match *m, const bson_t *partial_filter);

#endif
