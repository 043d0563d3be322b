// The parsed form of expressions, and what an operator's function needs. An operator is one function and one line in
// the table of its family (expression_<family>.c); the families are listed in expression_operators.c.
#ifndef SHARDLET_QUERY_EXPRESSION_INTERNAL_H
#define SHARDLET_QUERY_EXPRESSION_INTERNAL_H

#include "common/query/expression.h"
#include "common/query/values.h"

// One evaluation: the document, the values of variables, and the memory of intermediate values.
struct evaluation {
  struct arena *scratch;
  const bson_t *doc;
  bson_value_t *slots; // variables bound by $let, $map, $filter, $reduce, by slot number
  struct error *err;   // may be NULL
  size_t produced;     // bytes of strings, arrays and documents made so far
};

struct expr_operator;

// Evaluates a node. A missing value is BSON_TYPE_EOD. false: the evaluation's err is set.
typedef bool expr_eval(const struct expression *e, struct evaluation *v, bson_value_t *out);

// An operator whose arguments are all evaluated before: args[i] is BSON_TYPE_EOD where missing or not given.
struct expr_call {
  struct evaluation *v;
  const struct expression *e;
  const bson_value_t *args;
  size_t n;
};
typedef bool expr_function(const struct expr_call *c, bson_value_t *out);

struct expression {
  expr_eval *eval;
  const struct expr_operator *op; // of operators
  struct expression **args;       // named arguments that were not given are NULL
  size_t n;
  bson_value_t constant; // literals; objects: their spec
  const char **names;    // objects: field names; paths: components
  size_t slot;           // variables; the first of those an operator binds
  const void *extra;     // what an operator's parse function prepared
  size_t n_slots;        // of the whole, at the root
};

struct expr_parser {
  struct arena *arena;
  struct variables *vars;
  struct error *err;
};

enum {
  EXPR_VARIADIC = 127,
  // What one evaluation may make, intermediate values included: $reduce can double a string again and again.
  EXPR_MAX_BYTES = 256 * 1024 * 1024,
};

// One line of a family's table. Either `fields` is NULL and arguments are positional, min..max of them, or `fields`
// lists the names of the arguments in order, required ones with a trailing '*': "input* chars".
struct expr_operator {
  const char *name;
  const char *fields;
  int min, max;
  expr_function *call; // arguments are evaluated first
  expr_eval *eval;     // ... or it evaluates what it needs itself
  // Instead of the ordinary parsing of arguments, or (check) behind it. NULL = nothing special.
  bool (*parse)(struct expr_parser *p, struct expression *e, const bson_value_t *spec);
  bool (*check)(struct expr_parser *p, struct expression *e);
  bool volatile_value; // differs between evaluations ($rand): never folded
  bool refused;        // known, but not there
};

const struct expr_operator *expr_operator_find(const char *name);

// --- parsing, for operators with a parse function of their own ---
struct expression *expr_parse(struct expr_parser *p, const bson_value_t *spec);
bool expr_parse_arguments(struct expr_parser *p, struct expression *e, const bson_value_t *spec);
struct expression *expr_constant(struct arena *a, bson_value_t v);
bool expr_is_constant(const struct expression *e);
// A variable bound from here on, until expr_unbind(); returns its slot.
size_t expr_bind(struct expr_parser *p, const char *name);
void expr_unbind(struct expr_parser *p, size_t n);
bool expr_check_variable_name(struct expr_parser *p, const char *name);

// --- evaluation ---
bool expr_argument(const struct expression *e, size_t i, struct evaluation *v, bson_value_t *out); // NULL: missing
bool expr_evaluate_all(const struct expression *e, struct evaluation *v, bson_value_t **out);
bool expr_account(struct evaluation *v, const bson_value_t *made); // false: too much was made, err is set
bool expr_truthy(const bson_value_t *v);                           // null, undefined, missing, false and 0 are not

const char *expr_date_text(struct arena *a, int64_t ms); // 2024-01-31T12:34:56.789Z

// *merged = the fields of both, by's values winning; fields that *merged had keep their place.
void expr_merge_into(struct arena *a, bson_value_t *merged, const bson_value_t *by);

// --- arrays under construction ---
struct array_builder {
  bson_t *doc;
  uint32_t n;
};
void array_begin(struct array_builder *b, struct arena *a);
void array_add(struct array_builder *b, const bson_value_t *v); // a missing value is added as null
bson_value_t array_end(struct array_builder *b);

// The elements of an array value, borrowed.
bson_value_t *array_elements(struct arena *a, const bson_value_t *array, size_t *n);

#endif
