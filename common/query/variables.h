// The variables that expressions see; shared by the parser of expressions and of pipelines.
#ifndef SHARDLET_QUERY_VARIABLES_H
#define SHARDLET_QUERY_VARIABLES_H

#include "common/query/expression.h"

struct bound_variable { // by $let, $map..., while their bodies are parsed
  const char *name;
  size_t slot;
  struct bound_variable *outer;
};

struct variables {
  struct arena *arena;
  const bson_t *let; // names and values from the command; may be NULL
  int64_t now_ms;    // $$NOW; may be changed between evaluations
  struct bound_variable *innermost;
  size_t n_slots; // given out so far
};

#endif
