// Parses filters: fields, the logical operators and the other operators that stand without a field.
//
// Conjunctions are flattened, and a conjunction or disjunction of one is that one, so that the bounds builder and the
// evaluation see the shortest tree.
#include "common/query/match_internal.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/bson/compare.h"
#include "common/query/values.h"

enum { MATCH_MAX_DEPTH = 100 }; // of nested operators, so that recursion over a tree is bounded

struct match_node *match_node_new(struct match_parser *p, enum match_kind kind, const char *name, const char *path) {
  struct match_node *n = arena_zalloc(p->arena, sizeof *n);
  n->kind = kind;
  n->name = name;
  n->runtime = p->runtime;
  if (path) {
    n->path = path;
    n->parts = path_parts(p->arena, path, &n->n_parts);
  }
  return n;
}

void match_node_add(struct match_parser *p, struct match_node *to, struct match_node *child) {
  if (to->kind == MATCH_AND && child->kind == MATCH_AND) {
    for (size_t i = 0; i < child->n; i++) match_node_add(p, to, child->children[i]);
    return;
  }
  // Powers of two are full: grow there.
  if ((to->n & (to->n + 1)) == 0) {
    struct match_node **grown = arena_alloc(p->arena, (2 * to->n + 1) * sizeof(struct match_node *));
    if (to->n) memcpy(grown, to->children, to->n * sizeof(struct match_node *));
    to->children = grown;
  }
  to->children[to->n++] = child;
}

struct path_part *path_parts(struct arena *a, const char *path, size_t *n) {
  *n = 1;
  for (const char *c = path; *c; c++) *n += *c == '.';
  struct path_part *parts = arena_alloc(a, *n * sizeof *parts);
  const char *at = path;
  for (size_t i = 0; i < *n; i++) {
    size_t len = strcspn(at, ".");
    parts[i] = (struct path_part){arena_strndup(a, at, len), len, -1};
    bool digits = len > 0 && len <= 10 && (len == 1 || at[0] != '0'); // "01" names a field, never an element
    int64_t index = 0;
    for (size_t k = 0; digits && k < len; k++) {
      digits = at[k] >= '0' && at[k] <= '9';
      index = index * 10 + (at[k] - '0');
    }
    if (digits) parts[i].index = index;
    at += len + 1;
  }
  return parts;
}

bool match_is_operator_doc(const bson_value_t *v) {
  bson_iter_t it;
  if (!value_is_doc(v) || !value_iter(v, &it) || !bson_iter_next(&it) || bson_iter_key(&it)[0] != '$') return false;
  // A document with $ref and $id is a DBRef: a value.
  bool ref = false, id = false;
  do {
    ref |= strcmp(bson_iter_key(&it), "$ref") == 0;
    id |= strcmp(bson_iter_key(&it), "$id") == 0;
  } while (bson_iter_next(&it));
  return !(ref && id);
}

struct match_node *match_parse_equality(struct match_parser *p, const char *path, const bson_value_t *v) {
  if (v->value_type == BSON_TYPE_UNDEFINED) {
    error_set(p->err, ERR_BadValue, "cannot compare to undefined");
    return NULL;
  }
  struct match_node *n = match_node_new(p, MATCH_EQ, "$eq", path);
  n->test = match_test_eq;
  n->value = *v;
  return n;
}

// --- operators without a field ---

struct pathless {
  const char *name;
  enum match_kind kind;
  struct match_node *(*parse)(struct match_parser *p, const struct pathless *op, const bson_value_t *arg);
};

static int by_path_then_value(const void *a, const void *b) {
  const struct match_node *x = *(struct match_node *const *)a, *y = *(struct match_node *const *)b;
  bool x_equal = x->kind == MATCH_EQ, y_equal = y->kind == MATCH_EQ;
  if (!x_equal || !y_equal) return (int)y_equal - (int)x_equal; // equalities first
  int c = strcmp(x->path, y->path);
  return c ? c : value_compare(&x->value, &y->value);
}

// Many equalities of one field in an $or are one $in: a document is then tested by a search, not by a walk over all of
// them, and 10,000 of them against the 10,000 documents that they find are not 100,000,000 tests.
static void join_equalities(struct match_parser *p, struct match_node *list) {
  enum { WORTH_IT = 16 };
  if (list->n < WORTH_IT) return;
  qsort(list->children, list->n, sizeof(*list->children), by_path_then_value);
  size_t kept = 0;
  for (size_t i = 0, next; i < list->n; i = next) {
    struct match_node *first = list->children[i];
    next = i + 1;
    while (first->kind == MATCH_EQ && next < list->n && list->children[next]->kind == MATCH_EQ &&
           strcmp(list->children[next]->path, first->path) == 0)
      next++;
    if (next - i < WORTH_IT) {
      for (size_t k = i; k < next; k++) list->children[kept++] = list->children[k];
      continue;
    }
    struct match_node *in = match_node_new(p, MATCH_IN, "$in", first->path);
    in->test = match_test_in;
    in->in = arena_alloc(p->arena, (next - i) * sizeof *in->in);
    for (size_t k = i; k < next; k++) {
      in->in[in->n_in++] = list->children[k]->value;
      in->in_null |= list->children[k]->value.value_type == BSON_TYPE_NULL;
    }
    list->children[kept++] = in;
  }
  list->n = kept;
}

static struct match_node *parse_list(struct match_parser *p, const struct pathless *op, const bson_value_t *arg) {
  bson_iter_t it;
  if (!value_is_array(arg)) {
    error_set(p->err, ERR_BadValue, "%s must be an array", op->name);
    return NULL;
  }
  struct match_node *list = match_node_new(p, op->kind, op->name, NULL);
  size_t entries = 0;
  for (value_iter(arg, &it); bson_iter_next(&it); entries++) {
    if (!BSON_ITER_HOLDS_DOCUMENT(&it)) {
      error_set(p->err, ERR_BadValue, "$or/$and/$nor entries need to be full objects");
      return NULL;
    }
    struct match_node *child = match_parse_object(p, bson_iter_value(&it));
    if (!child) return NULL;
    match_node_add(p, list, child);
  }
  if (entries == 0) {
    error_set(p->err, ERR_BadValue, "$and/$or/$nor must be a nonempty array");
    return NULL;
  }
  if (op->kind == MATCH_OR || op->kind == MATCH_NOR) join_equalities(p, list);
  return list->n == 1 && op->kind != MATCH_NOR ? list->children[0] : list;
}

static struct match_node *parse_expr(struct match_parser *p, const struct pathless *op, const bson_value_t *arg) {
  if (p->sub_document) {
    error_set(p->err, ERR_BadValue, "$expr can only be applied to the top-level document");
    return NULL;
  }
  if (!p->variables) {
    int64_t now = p->options && p->options->now_ms ? p->options->now_ms : clock_wall_ms();
    p->variables = variables_new(p->arena, p->options ? p->options->let : NULL, now, p->err);
    if (!p->variables) return NULL;
  }
  struct match_node *n = match_node_new(p, MATCH_EXPR, op->name, NULL);
  n->value = *arg;
  n->expr = expression_parse(p->arena, arg, p->variables, p->err);
  return n->expr ? n : NULL;
}

static struct match_node *parse_constant(struct match_parser *p, const struct pathless *op, const bson_value_t *arg) {
  int64_t n;
  if (!value_is_number(arg) || !value_is_integral(arg, &n) || n != 1) {
    error_set(p->err, ERR_FailedToParse, "%s must be an integer value of 1", op->name);
    return NULL;
  }
  return match_node_new(p, op->kind, op->name, NULL);
}

static struct match_node *parse_comment(struct match_parser *p, const struct pathless *op, const bson_value_t *arg) {
  return match_node_new(p, MATCH_AND, op->name, NULL); // an empty conjunction, dropped by flattening
}

static struct match_node *parse_dbref(struct match_parser *p, const struct pathless *op, const bson_value_t *arg) {
  return match_parse_equality(p, op->name, arg);
}

static struct match_node *refuse(struct match_parser *p, const struct pathless *op, const bson_value_t *arg) {
  error_set(p->err, ERR_CommandNotSupported, "%s is not supported", op->name);
  return NULL;
}

static const struct pathless PATHLESS[] = {
    {"$and", MATCH_AND, parse_list},
    {"$or", MATCH_OR, parse_list},
    {"$nor", MATCH_NOR, parse_list},
    {"$expr", MATCH_EXPR, parse_expr},
    {"$comment", MATCH_AND, parse_comment},
    {"$alwaysTrue", MATCH_TRUE, parse_constant},
    {"$alwaysFalse", MATCH_FALSE, parse_constant},
    {"$ref", MATCH_EQ, parse_dbref},
    {"$id", MATCH_EQ, parse_dbref},
    {"$db", MATCH_EQ, parse_dbref},
    {"$where", MATCH_TRUE, refuse},
    {"$text", MATCH_TRUE, refuse},
    {"$jsonSchema", MATCH_TRUE, refuse},
    {"$sampleRate", MATCH_TRUE, refuse},
};

static const struct pathless *pathless_find(const char *name) {
  for (size_t i = 0; i < sizeof PATHLESS / sizeof *PATHLESS; i++) {
    if (strcmp(PATHLESS[i].name, name) == 0) return &PATHLESS[i];
  }
  return NULL;
}

bool match_is_pathless_operator(const char *name) {
  const struct pathless *op = pathless_find(name);
  return op && op->parse != parse_dbref;
}

// --- fields ---

bool match_parse_field(struct match_parser *p, const char *path, const bson_value_t *ops, struct match_node *to) {
  bson_iter_t it;
  for (value_iter(ops, &it); bson_iter_next(&it);) {
    const char *name = bson_iter_key(&it);
    const struct match_operator *op = match_operator_find(name);
    if (!op && strcmp(name, "$where") == 0) {
      return error_set(p->err, ERR_BadValue, "$where cannot be applied to a field");
    }
    if (!op) return error_set(p->err, ERR_BadValue, "unknown operator: %s", name);
    struct match_leaf leaf = {p, op, path, bson_iter_value(&it), ops, to};
    if (!op->parse(&leaf)) return false;
  }
  return true;
}

static bool parse_element(struct match_parser *p, const bson_iter_t *at, struct match_node *to) {
  bson_iter_t it = *at;
  const bson_value_t *v = bson_iter_value(&it);
  const char *name = bson_iter_key(&it);
  if (name[0] == '$') {
    const struct pathless *op = pathless_find(name);
    if (!op) {
      return error_set(p->err, ERR_BadValue,
                       "unknown top level operator: %s. If you have a field name that starts with a '$' symbol, "
                       "consider using $getField or $setField.",
                       name);
    }
    struct match_node *n = op->parse(p, op, v);
    if (!n) return false;
    match_node_add(p, to, n);
    return true;
  }
  const char *path = arena_strdup(p->arena, name);
  if (match_is_operator_doc(v)) return match_parse_field(p, path, v, to);
  if (v->value_type == BSON_TYPE_REGEX) return match_parse_regex(p, path, v, to);
  struct match_node *eq = match_parse_equality(p, path, v);
  if (!eq) return false;
  match_node_add(p, to, eq);
  return true;
}

struct match_node *match_parse_object(struct match_parser *p, const bson_value_t *obj) {
  struct match_node *root = match_node_new(p, MATCH_AND, "$and", NULL);
  bson_iter_t it;
  if (!value_iter(obj, &it)) {
    error_set(p->err, ERR_InvalidBSON, "a filter is not a well-formed document");
    return NULL;
  }
  while (bson_iter_next(&it)) {
    if (!parse_element(p, &it, root)) return NULL;
  }
  return root->n == 1 ? root->children[0] : root;
}

static size_t tree_depth(const struct match_node *n, size_t depth) {
  size_t most = depth;
  for (size_t i = 0; i < n->n && most <= MATCH_MAX_DEPTH; i++) {
    size_t below = tree_depth(n->children[i], depth + 1);
    if (below > most) most = below;
  }
  return most;
}

static void free_scratch(void *arg) {
  struct match_runtime *r = arg;
  arena_free(r->scratch);
}

struct match *match_parse(struct arena *a, const bson_t *filter, const struct match_options *o, struct error *err) {
  struct match *m = arena_zalloc(a, sizeof *m);
  m->arena = a;
  m->runtime = arena_zalloc(a, sizeof *m->runtime);
  arena_on_free(a, free_scratch, m->runtime);
  struct match_parser p = {.arena = a, .options = o, .runtime = m->runtime, .err = err};
  const bson_t *copy = doc_copy(a, filter);
  bson_value_t obj = value_raw(BSON_TYPE_DOCUMENT, bson_get_data(copy), copy->len);
  m->root = match_parse_object(&p, &obj);
  if (!m->root) return NULL;
  if (tree_depth(m->root, 0) > MATCH_MAX_DEPTH) {
    error_set(err, ERR_BadValue, "exceeded maximum query tree depth of %d", MATCH_MAX_DEPTH);
    return NULL;
  }
  return m;
}

bool match_always_true(const struct match *m) {
  return m->root->kind == MATCH_TRUE || (m->root->kind == MATCH_AND && m->root->n == 0);
}
