// The operator tables, one a family; each ends with a line without a name.
#ifndef SHARDLET_QUERY_EXPRESSION_FAMILIES_H
#define SHARDLET_QUERY_EXPRESSION_FAMILIES_H

#include "common/query/expression_internal.h"

extern const struct expr_operator EXPR_COMPARE[];     // expression_compare.c: $eq..., $and, $or, $not
extern const struct expr_operator EXPR_CONDITIONAL[]; // expression_compare.c: $cond, $ifNull, $switch
extern const struct expr_operator EXPR_ARITHMETIC[];  // expression_arithmetic.c: $add, $subtract...
extern const struct expr_operator EXPR_MATH[];        // expression_math.c: $sqrt, $pow, $round...
extern const struct expr_operator EXPR_STRING[];      // expression_string.c
extern const struct expr_operator EXPR_TEXT_SEARCH[]; // expression_regex.c: $regexMatch, $replaceOne...
extern const struct expr_operator EXPR_ARRAY[];       // expression_array.c
extern const struct expr_operator EXPR_ARRANGE[];     // expression_arrange.c: $zip, $sortArray
extern const struct expr_operator EXPR_SCOPE[];       // expression_scope.c: $let, $map, $filter, $reduce
extern const struct expr_operator EXPR_SET[];         // expression_set.c
extern const struct expr_operator EXPR_TYPE[];        // expression_type.c: $convert, $toInt...
extern const struct expr_operator EXPR_DATE[];        // expression_date.c: parts and formatting
extern const struct expr_operator EXPR_DATE_MATH[];   // expression_date_math.c: $dateAdd, $dateDiff, $dateTrunc
extern const struct expr_operator EXPR_OBJECT[];      // expression_object.c
extern const struct expr_operator EXPR_REFUSED[];     // expression_operators.c

#endif
