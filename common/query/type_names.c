// Names of BSON types.
#include "common/query/type_names.h"

#include <string.h>

static const struct type_line {
  bson_type_t type;
  const char *name;
} TYPES[] = {
    {BSON_TYPE_EOD, "missing"},         {BSON_TYPE_DOUBLE, "double"},
    {BSON_TYPE_UTF8, "string"},         {BSON_TYPE_DOCUMENT, "object"},
    {BSON_TYPE_ARRAY, "array"},         {BSON_TYPE_BINARY, "binData"},
    {BSON_TYPE_UNDEFINED, "undefined"}, {BSON_TYPE_OID, "objectId"},
    {BSON_TYPE_BOOL, "bool"},           {BSON_TYPE_DATE_TIME, "date"},
    {BSON_TYPE_NULL, "null"},           {BSON_TYPE_REGEX, "regex"},
    {BSON_TYPE_DBPOINTER, "dbPointer"}, {BSON_TYPE_CODE, "javascript"},
    {BSON_TYPE_SYMBOL, "symbol"},       {BSON_TYPE_CODEWSCOPE, "javascriptWithScope"},
    {BSON_TYPE_INT32, "int"},           {BSON_TYPE_TIMESTAMP, "timestamp"},
    {BSON_TYPE_INT64, "long"},          {BSON_TYPE_DECIMAL128, "decimal"},
    {BSON_TYPE_MINKEY, "minKey"},       {BSON_TYPE_MAXKEY, "maxKey"},
};
enum { TYPE_COUNT = sizeof TYPES / sizeof *TYPES };

const char *type_name(bson_type_t type) {
  for (size_t i = 0; i < TYPE_COUNT; i++) {
    if (TYPES[i].type == type) return TYPES[i].name;
  }
  return "unknown";
}

bool type_from_name(const char *name, bson_type_t *out) {
  for (size_t i = 1; i < TYPE_COUNT; i++) { // "missing" is no alias
    if (strcmp(TYPES[i].name, name) == 0) {
      *out = TYPES[i].type;
      return true;
    }
  }
  return false;
}

bool type_from_number(int64_t number, bson_type_t *out) {
  if (number == -1) {
    *out = BSON_TYPE_MINKEY;
    return true;
  }
  for (size_t i = 1; i < TYPE_COUNT; i++) {
    if (TYPES[i].type != BSON_TYPE_MINKEY && (int64_t)TYPES[i].type == number) {
      *out = TYPES[i].type;
      return true;
    }
  }
  return false;
}

uint32_t type_bit(bson_type_t type) {
  // Types are 0x01..0x13, 0x7f and 0xff; the last two take the two highest bits.
  if (type == BSON_TYPE_MINKEY) return 1u << 31;
  if (type == BSON_TYPE_MAXKEY) return 1u << 30;
  return 1u << (uint32_t)type;
}

uint32_t type_bits_number(void) {
  return type_bit(BSON_TYPE_INT32) | type_bit(BSON_TYPE_INT64) | type_bit(BSON_TYPE_DOUBLE) |
         type_bit(BSON_TYPE_DECIMAL128);
}
