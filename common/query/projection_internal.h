// The parsed form of projections, shared by find's projections, $project, $addFields and $unset.
#ifndef SHARDLET_QUERY_PROJECTION_INTERNAL_H
#define SHARDLET_QUERY_PROJECTION_INTERNAL_H

#include "common/query/expression.h"
#include "common/query/projection.h"

enum projection_mode {
  PROJECT_INCLUDE, // only what is named
  PROJECT_EXCLUDE, // all but what is named
  PROJECT_ADD,     // everything, and what is computed ($addFields)
};

enum projection_kind {
  NODE_NESTED, // speaks of fields below this one
  NODE_INCLUDE,
  NODE_EXCLUDE,
  NODE_COMPUTED,
  NODE_SLICE,
  NODE_ELEM_MATCH, // the first element that matches, behind the other fields
  NODE_POSITIONAL, // the element that the query matched
};

struct projection_node {
  const char *name;
  enum projection_kind kind;
  struct expression *expr;           // COMPUTED
  const struct match *match;         // ELEM_MATCH: a condition on one element
  int64_t skip, limit;               // SLICE: limit < 0: the last -limit
  struct projection_node **children; // NESTED, in the order of the specification
  size_t n;
  bool adds; // a computed field is at or below this node
};

struct projection {
  enum projection_mode mode;
  struct projection_node *root;
  const struct match *match; // the query, for the positional operator
  bool positional;
  bool simple; // only whole fields included or excluded
  const bson_t *spec;
};

struct projection_node *projection_child(const struct projection_node *n, const char *name, size_t len);

// $addFields, $set.
struct projection *projection_parse_add(struct arena *a, const bson_t *spec, struct variables *vars, struct error *err);
// $project, with the pipeline's variables.
struct projection *projection_parse_stage(struct arena *a, const bson_t *spec, struct variables *vars,
                                          struct error *err);
// $unset: a name or an array of names.
struct projection *projection_parse_unset(struct arena *a, const bson_value_t *spec, struct error *err);

#endif
