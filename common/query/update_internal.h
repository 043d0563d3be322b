// The parsed form of updates: a tree of field names whose leaves are operators.
//
// Invariant (kept by update_tree_leaf): no leaf is above or beside another node of the same path, so that operators do
// not depend on each other's order. Children are kept in the order in which new fields are created: names in
// lexicographic order, array indexes numerically.
#ifndef SHARDLET_QUERY_UPDATE_INTERNAL_H
#define SHARDLET_QUERY_UPDATE_INTERNAL_H

#include "common/query/expression.h"
#include "common/query/sort.h"
#include "common/query/update.h"
#include "common/query/values.h"

struct update_leaf;

// One application to one document.
struct update_run {
  struct arena *arena;
  const bson_t *doc; // the document before
  int position;      // for `$`
  int64_t now_ms;
  bool insert;
  struct error *err;
};

// The new value of a field (missing: the field goes, or stays away) from the old one (missing: not there).
typedef bool update_function(const struct update_leaf *l, struct update_run *r, const bson_value_t *old,
                             bson_value_t *out);

struct update_parser;

// One line of the table of operators.
struct update_operator {
  const char *name;
  update_function *apply;
  // Checks and takes apart the operand; NULL: any operand.
  bool (*parse)(struct update_parser *p, struct update_leaf *l);
  bool creates; // makes the path to a field that is not there
};

struct update_leaf {
  const struct update_operator *op;
  const char *path;
  bson_value_t value;
  // Prepared by parse functions.
  const bson_value_t *values; // $push, $addToSet: what is added; $pullAll: what goes
  size_t n_values;
  bool has_slice, has_position;
  int64_t slice, position;
  struct sort *sort;         // $push of documents by a pattern
  int sort_direction;        // $push of whole values: 1, -1; 0 = not sorted
  const struct match *match; // $pull by condition
  bool timestamp;            // $currentDate
  const char *source;        // $rename: where the value comes from
};

enum update_step { STEP_FIELD, STEP_POSITIONAL, STEP_ALL, STEP_FILTERED };

struct update_node {
  const char *name;
  const char *path; // whole, for errors
  enum update_step step;
  int64_t index;              // of STEP_FIELD: the array index it can be, -1 = none
  const struct match *filter; // STEP_FILTERED
  struct update_leaf *leaf;   // NULL: children
  struct update_node **children;
  size_t n;
};

struct array_filter {
  const char *name;
  struct match *match;
  bool used;
};

struct update_parser {
  struct arena *arena;
  const struct match_options *options;
  struct update_node *root;
  struct array_filter *filters;
  size_t n_filters;
  struct error *err;
};

struct update {
  enum { UPDATE_OPERATORS, UPDATE_REPLACEMENT, UPDATE_PIPELINE } kind;
  struct update_node *root;
  const bson_t *replacement;
  struct transform **stages;
  size_t n_stages;
  struct variables *vars; // of the pipeline
  bool deepens;           // values may come to lie deeper than they were: the result's depth is checked
};

// --- tree (update_tree.c) ---
bool update_tree_leaf(struct update_parser *p, const char *path, struct update_leaf *l); // err: 40, 56, 2
struct update_node *update_tree_child(const struct update_node *n, const char *name, size_t len);
// One node that does what all of them do. NULL: they conflict.
struct update_node *update_tree_merge(struct arena *a, struct update_node *const *nodes, size_t n, struct error *err);
bool update_tree_creates(const struct update_node *n, const struct update_run *r);
bool update_tree_touches(const struct update_node *root, const char *path);

// --- operators ---
const struct update_operator *update_operator_find(const char *name);
bool update_parse_operators(struct update_parser *p, const bson_t *u);
bool update_leaf_is_active(const struct update_leaf *l, const struct update_run *r);
extern const struct update_operator UPDATE_FIELD_OPERATORS[];
extern const struct update_operator UPDATE_ARRAY_OPERATORS[];
extern const struct update_operator UPDATE_RENAME_FROM, UPDATE_RENAME_TO;

// "{_id: 1}" for messages.
const char *update_document_id(const struct update_run *r);

// --- application (update_apply.c) ---
bool update_apply_tree(const struct update_node *root, struct update_run *r, bson_t *out);

#endif
