// MongoDB's order of BSON values: MinKey, undefined, null, numbers (by value across types), strings and symbols,
// objects, arrays, BinData, ObjectId, booleans, dates, timestamps, regular expressions, DBPointer, code, code with
// scope, MaxKey. Missing sorts with null in queries and sorts.
#ifndef SHARDLET_BSON_COMPARE_H
#define SHARDLET_BSON_COMPARE_H

#include <bson/bson.h>
#include <stdbool.h>

int value_canonical_type(bson_type_t type); // -1 (MinKey) .. 127 (MaxKey), as reference/sharding.md section 9
int value_compare(const bson_value_t *a, const bson_value_t *b); // <0, 0, >0
bool value_equal(const bson_value_t *a, const bson_value_t *b);
int doc_compare(const bson_t *a, const bson_t *b);        // field by field, names count
int doc_compare_values(const bson_t *a, const bson_t *b); // as index keys: names ignored
// By a key pattern {a: 1, b: -1}: the values of two index keys in the pattern's order.
int doc_compare_pattern(const bson_t *a, const bson_t *b, const bson_t *pattern);

#endif
