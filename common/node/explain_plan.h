// A plan as explain shows it: a tree of stages, with what each examined (reference/sharding.md section 6.4).
//
// The executor is one loop; the stages are what it does, in order. Which there are, and where SHARDING_FILTER sits:
//
//   no usable index                                       SHARDING_FILTER > COLLSCAN
//   index covers the shard key, no residual filter        FETCH > SHARDING_FILTER > IXSCAN
//   index does not cover it, or residual filter           SHARDING_FILTER > FETCH > IXSCAN
//   covered projection                                    PROJECTION_COVERED > SHARDING_FILTER > IXSCAN
//   the filter fixes the whole shard key                  FETCH > IXSCAN
//   unversioned or available                              no SHARDING_FILTER
//   {_id: v}, not sharded                                 EXPRESS_IXSCAN
#ifndef SHARDLET_NODE_EXPLAIN_PLAN_H
#define SHARDLET_NODE_EXPLAIN_PLAN_H

#include "common/node/executor.h"

enum stage_kind {
  STAGE_EOF,
  STAGE_COLLSCAN,
  STAGE_IXSCAN,
  STAGE_EXPRESS,
  STAGE_FAST_COUNT,
  STAGE_FETCH,
  STAGE_SHARDING_FILTER,
  STAGE_SORT,
  STAGE_SKIP,
  STAGE_PROJECTION_SIMPLE,
  STAGE_PROJECTION_DEFAULT,
  STAGE_PROJECTION_COVERED,
  STAGE_LIMIT,
  STAGE_COUNT,
  STAGE_UPDATE,
  STAGE_DELETE,
};

enum { MAX_STAGES = 10 };

struct plan_tree {
  const struct query *query;
  const struct plan *plan; // NULL: the collection is not there, or nothing is read
  const bson_t *projection;
  int64_t skip, limit;
  enum stage_kind stages[MAX_STAGES]; // root first
  size_t n;
  // What was examined; NULL: the plan only.
  const struct exec_counters *counters;
  int64_t returned; // by the root
  bool at_end;
  // Of a write that was not made.
  int64_t would_match, would_modify;
  bool would_upsert;
};

struct tree_shape {
  enum stage_kind root;     // STAGE_COUNT, STAGE_UPDATE, STAGE_DELETE on top; STAGE_EOF: nothing on top
  const bson_t *projection; // NULL = none
  bool projection_simple, projection_covered;
  int64_t skip, limit;
  bool sharded; // the collection
};

void plan_tree_make(struct plan_tree *t, const struct query *q, const struct plan *p, const struct tree_shape *s);
// The root's fields, with `inputStage` below.
void plan_tree_append(struct arena *a, const struct plan_tree *t, bson_t *out);
// What the index's bounds leave of the filter, as match_describe() writes it; {} when nothing is left.
const bson_t *plan_residual(struct arena *a, const struct query *q, const struct plan *p);

#endif
