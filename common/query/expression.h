// Aggregation expressions: {$add: ["$a", 1]}. An operator is one function and one line in a table.
#ifndef SHARDLET_QUERY_EXPRESSION_H
#define SHARDLET_QUERY_EXPRESSION_H

#include <bson/bson.h>
#include <stdbool.h>

#include "common/base/arena.h"
#include "common/base/error.h"

struct expression;

// The variables that expressions see: $$ROOT and $$CURRENT are the document, $$NOW, $$name from `let` (values, copied).
struct variables;
struct variables *variables_new(struct arena *a, const bson_t *let, int64_t now_ms, struct error *err);

// The expression belongs to the arena and borrows nothing from spec; vars must live as long. err:
// InvalidPipelineOperator (168) "Unrecognized expression '$foo'"; CommandNotSupported for those that MongoDB has and
// this project has not.
struct expression *expression_parse(struct arena *a, const bson_value_t *spec, struct variables *vars,
                                    struct error *err);

// *out borrows from doc or from `scratch`. A missing field gives type BSON_TYPE_EOD ("missing"). err may be NULL.
bool expression_eval(const struct expression *e, struct arena *scratch, const bson_t *doc, bson_value_t *out,
                     struct error *err);
bool expression_is_constant(const struct expression *e, bson_value_t *out);

#endif
