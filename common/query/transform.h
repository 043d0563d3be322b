// Stages that make one document of each: $project, $addFields and $set, $unset, $replaceRoot and $replaceWith.
// Pipelines run them, and so do updates that are pipelines.
#ifndef SHARDLET_QUERY_TRANSFORM_H
#define SHARDLET_QUERY_TRANSFORM_H

#include "common/query/expression.h"

struct transform;

bool transform_is_stage(const char *name);
struct transform *transform_parse(struct arena *a, const char *stage, const bson_value_t *spec, struct variables *vars,
                                  struct error *err);
// *out belongs to scratch.
bool transform_apply(const struct transform *t, struct arena *scratch, const bson_t *doc, const bson_t **out,
                     struct error *err);

#endif
