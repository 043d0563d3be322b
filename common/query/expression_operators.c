// The families of operators, and those operators of MongoDB that are refused by name.
#include "common/query/expression_families.h"

#include <string.h>

const struct expr_operator EXPR_REFUSED[] = {
    {"$accumulator", .refused = true},   {"$binarySize", .refused = true},     {"$bsonSize", .refused = true},
    {"$dateFromParts", .refused = true}, {"$dateFromString", .refused = true}, {"$function", .refused = true},
    {"$maxN", .refused = true},          {"$median", .refused = true},         {"$meta", .refused = true},
    {"$minN", .refused = true},          {"$percentile", .refused = true},     {"$sampleRate", .refused = true},
    {"$tsIncrement", .refused = true},   {"$tsSecond", .refused = true},       {NULL},
};

static const struct expr_operator *find_in(const struct expr_operator *table, const char *name) {
  for (; table->name; table++) {
    if (strcmp(table->name, name) == 0) return table;
  }
  return NULL;
}

const struct expr_operator *expr_operator_find(const char *name) {
  const struct expr_operator *const families[] = {
      EXPR_COMPARE,     EXPR_CONDITIONAL, EXPR_ARITHMETIC, EXPR_MATH,   EXPR_STRING,
      EXPR_TEXT_SEARCH, EXPR_ARRAY,       EXPR_ARRANGE,    EXPR_SCOPE,  EXPR_SET,
      EXPR_TYPE,        EXPR_DATE,        EXPR_DATE_MATH,  EXPR_OBJECT, EXPR_REFUSED,
  };
  for (size_t i = 0; i < sizeof families / sizeof(const struct expr_operator *); i++) {
    const struct expr_operator *op = find_in(families[i], name);
    if (op) return op;
  }
  return NULL;
}
