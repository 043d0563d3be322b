// Names of BSON types as $type, $convert and error messages use them.
#ifndef SHARDLET_QUERY_TYPE_NAMES_H
#define SHARDLET_QUERY_TYPE_NAMES_H

#include <bson/bson.h>
#include <stdbool.h>
#include <stdint.h>

const char *type_name(bson_type_t type); // "double", "object"...; "missing" for BSON_TYPE_EOD

// The type of an alias or of a number as used by $type ("string", 2, -1 for MinKey). "number" is not one type: false.
bool type_from_name(const char *name, bson_type_t *out);
bool type_from_number(int64_t number, bson_type_t *out);

// A set of types: one bit each.
uint32_t type_bit(bson_type_t type);
uint32_t type_bits_number(void); // int, long, double, decimal

#endif
