// The parsed form of a filter, shared by the parser, the evaluation, the bounds builder and the descriptions.
#ifndef SHARDLET_QUERY_MATCH_INTERNAL_H
#define SHARDLET_QUERY_MATCH_INTERNAL_H

#include "common/query/expression.h"
#include "common/query/match.h"
#include "common/query/regex.h"

// In the order in which explain sorts the children of a logical node.
enum match_kind {
  MATCH_AND,
  MATCH_OR,
  MATCH_ELEM_OBJECT, // children[0] is matched against each element that is a document or an array
  MATCH_ELEM_VALUE,  // all children are matched against each element itself
  MATCH_SIZE,
  MATCH_EQ,
  MATCH_LTE,
  MATCH_LT,
  MATCH_GT,
  MATCH_GTE,
  MATCH_REGEX,
  MATCH_MOD,
  MATCH_EXISTS,
  MATCH_IN,
  MATCH_BITS,
  MATCH_NOT,
  MATCH_NOR,
  MATCH_TYPE,
  MATCH_FALSE,
  MATCH_TRUE,
  MATCH_EXPR,
};

struct path_part {
  const char *name;
  size_t len;
  int64_t index; // the array index that this component can be, -1 = none
};

struct match_node;

// Tests one value; v == NULL means that the field is missing.
typedef bool match_test(const struct match_node *n, const bson_value_t *v);

struct bits_test {
  enum { BITS_ALL_SET, BITS_ALL_CLEAR, BITS_ANY_SET, BITS_ANY_CLEAR } mode;
  uint32_t *positions; // bits to look at, ascending
  size_t n;
};

struct match_node {
  enum match_kind kind;
  const char *name;        // "$gt": how it is described
  const char *path;        // leaves, $elemMatch, field level $not; "" for an element itself
  struct path_part *parts; // of path; n_parts is 0 for nodes without a path
  size_t n_parts;
  match_test *test; // leaves: everything but AND, OR, NOR, NOT, TRUE, FALSE, EXPR and the two $elemMatch

  bson_value_t value; // the operand: EQ, LT.., SIZE, MOD, BITS, TYPE (as written)
  struct match_node **children;
  size_t n;

  // By kind.
  bson_value_t *in; // IN: operands but regexes, sorted
  size_t n_in;
  bool in_null;               // IN: null is among them
  struct regex **regexes;     // REGEX: one; IN: those listed
  bson_value_t *regex_values; // ... as BSON regexes, for bounds, for equality with stored regexes and descriptions
  size_t n_regexes;
  uint32_t types;                // TYPE
  int64_t divisor, remainder;    // MOD
  int64_t size;                  // SIZE
  struct bits_test bits;         // BITS
  struct expression *expr;       // EXPR
  struct match_runtime *runtime; // EXPR, REGEX, IN
};

// What changes while a filter is used: the scratch memory of $expr and the first failure. A match without $expr and
// regular expressions never writes it.
struct match_runtime {
  struct arena *scratch; // created at the first use
  struct error failure;  // code 0 = none
};

struct match {
  struct match_node *root;
  struct arena *arena;
  struct match_runtime *runtime;
};

// Where a filter is being parsed.
struct match_parser {
  struct arena *arena;
  const struct match_options *options;
  struct variables *variables; // made at the first $expr
  struct match_runtime *runtime;
  bool sub_document; // inside $elemMatch: $expr is not allowed
  struct error *err;
};

// --- parsing ---
struct match_node *match_node_new(struct match_parser *p, enum match_kind kind, const char *name, const char *path);
void match_node_add(struct match_parser *p, struct match_node *to, struct match_node *child);
struct path_part *path_parts(struct arena *a, const char *path, size_t *n);

struct match_node *match_parse_object(struct match_parser *p, const bson_value_t *obj); // a conjunction of fields
// {$gt: 1, $lt: 5} of one field: adds a node for each to `to`.
bool match_parse_field(struct match_parser *p, const char *path, const bson_value_t *ops, struct match_node *to);
struct match_node *match_parse_equality(struct match_parser *p, const char *path, const bson_value_t *v);
bool match_is_operator_doc(const bson_value_t *v); // {$gt: ..}; not a DBRef
bool match_is_pathless_operator(const char *name);

// An operator that stands under a field, being parsed.
struct match_leaf {
  struct match_parser *p;
  const struct match_operator *op;
  const char *path;
  const bson_value_t *arg;     // what it is given
  const bson_value_t *context; // the whole operator document (for $regex and $options), or NULL
  struct match_node *to;       // the conjunction that receives the parsed node
};

// One line of the table of those operators.
struct match_operator {
  const char *name;
  enum match_kind kind;
  bool (*parse)(const struct match_leaf *l); // false: l->p->err is set
};
const struct match_operator *match_operator_find(const char *name);

bool match_parse_bits(const struct match_leaf *l);
// {a: /re/}, without an operator.
bool match_parse_regex(struct match_parser *p, const char *path, const bson_value_t *re, struct match_node *to);

// --- evaluation ---
match_test match_test_eq, match_test_order, match_test_regex, match_test_mod, match_test_exists, match_test_in,
    match_test_type, match_test_size, match_test_bits;

// A node against one value itself, without looking into arrays ($elemMatch's elements).
bool match_node_value(const struct match_node *n, const bson_value_t *v);
bool match_node_doc(const struct match_node *n, const uint8_t *data, size_t len, int *position);

void match_fail(struct match_runtime *r, const struct error *err); // keeps the first

// --- description ---
void match_describe_node(const struct match_node *n, bson_t *out);

#endif
