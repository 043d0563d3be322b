// Dates and zones as arguments of expressions.
#ifndef SHARDLET_QUERY_EXPRESSION_DATES_H
#define SHARDLET_QUERY_EXPRESSION_DATES_H

#include "common/query/expression_internal.h"

bool expr_date_of(struct evaluation *v, const bson_value_t *from, int64_t *ms);        // a date, timestamp or ObjectId
bool expr_zone_of(struct evaluation *v, const bson_value_t *zone, int64_t *offset_ms); // missing: UTC

#endif
