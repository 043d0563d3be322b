// Parses projections into a tree of fields.
#include "common/query/projection_internal.h"

#include <string.h>

#include "common/base/clock.h"
#include "common/query/values.h"

struct parser {
  struct arena *arena;
  struct projection *out;
  struct variables *vars;
  const struct match_options *options;
  bool find;    // $slice, $elemMatch and "a.$" are allowed
  bool decided; // the mode is fixed by a field other than _id
  bool id_excluded;
  bool id_included;
  struct error *err;
};

struct projection_node *projection_child(const struct projection_node *n, const char *name, size_t len) {
  for (size_t i = 0; i < n->n; i++) {
    if (strncmp(n->children[i]->name, name, len) == 0 && !n->children[i]->name[len]) return n->children[i];
  }
  return NULL;
}

static struct projection_node *add_child(struct parser *p, struct projection_node *to, const char *name, size_t len) {
  if ((to->n & (to->n + 1)) == 0) { // full at every 2^k - 1
    struct projection_node **grown = arena_alloc(p->arena, (2 * to->n + 1) * sizeof(struct projection_node *));
    if (to->n) memcpy(grown, to->children, to->n * sizeof(struct projection_node *));
    to->children = grown;
  }
  struct projection_node *child = arena_zalloc(p->arena, sizeof *child);
  child->name = arena_strndup(p->arena, name, len);
  to->children[to->n++] = child;
  return child;
}

static bool check_name(struct parser *p, const char *name, size_t len) {
  if (len == 0) return error_set(p->err, 15998, "FieldPath field names may not be empty strings.");
  if (name[0] == '$') {
    return error_set(p->err, 16410,
                     "FieldPath field names may not start with '$'. Consider using $getField or $setField.");
  }
  return true;
}

// The leaf for a dotted path below `from`; paths may not lead through or to what was named before.
static struct projection_node *leaf_at(struct parser *p, struct projection_node *from, const char *path) {
  size_t total = strlen(path);
  if (total && path[total - 1] == '.') {
    error_set(p->err, 40353, "FieldPath must not end with a '.'.");
    return NULL;
  }
  for (const char *at = path;;) {
    size_t len = strcspn(at, ".");
    if (!check_name(p, at, len)) return NULL;
    struct projection_node *child = projection_child(from, at, len);
    bool last = !at[len];
    if (child && (last || child->kind != NODE_NESTED)) {
      if (last)
        error_set(p->err, 31250, "Path collision at %s", path);
      else
        error_set(p->err, 31249, "Path collision at %s remaining portion %s", path, at + len + 1);
      return NULL;
    }
    if (!child) child = add_child(p, from, at, len);
    if (last) return child;
    from = child;
    at += len + 1;
  }
}

// Fixes the mode by the first field that speaks for one, and refuses what speaks for the other.
static bool decide(struct parser *p, enum projection_mode mode, const char *path) {
  if (!p->decided) {
    p->decided = true;
    p->out->mode = mode;
    return true;
  }
  if (p->out->mode == mode) return true;
  if (mode == PROJECT_EXCLUDE) {
    return error_set(p->err, 31254, "Cannot do exclusion on field %s in inclusion projection", path);
  }
  return error_set(p->err, 31253, "Cannot do inclusion on field %s in exclusion projection", path);
}

static bool is_boolean_like(const bson_value_t *v) {
  return v->value_type == BSON_TYPE_BOOL || value_is_number(v);
}

static bool add_computed(struct parser *p, struct projection_node *from, const char *path, const char *full,
                         const bson_value_t *v) {
  if (p->out->mode != PROJECT_ADD) {
    if (p->decided && p->out->mode == PROJECT_EXCLUDE) {
      return error_set(p->err, 31252, "Cannot use an expression in an exclusion projection: field %s", full);
    }
    if (strcmp(full, "_id") != 0 && !decide(p, PROJECT_INCLUDE, full)) return false;
    if (strcmp(full, "_id") == 0) p->id_included = true;
  }
  struct projection_node *leaf = leaf_at(p, from, path);
  if (!leaf) return false;
  leaf->kind = NODE_COMPUTED;
  leaf->expr = expression_parse(p->arena, v, p->vars, p->err);
  p->out->simple = false;
  return leaf->expr != NULL;
}

// --- find's own operators ---

static bool add_slice(struct parser *p, struct projection_node *from, const char *path, const bson_value_t *arg) {
  struct projection_node *leaf = leaf_at(p, from, path);
  if (!leaf) return false;
  leaf->kind = NODE_SLICE;
  p->out->simple = false;
  if (value_is_number(arg)) {
    leaf->limit = value_i64(arg);
    return true;
  }
  bson_iter_t it;
  int64_t numbers[2];
  size_t n = 0;
  if (!value_is_array(arg)) {
    return error_set(p->err, 28667, "Invalid $slice syntax. The given syntax %s did not match the find() syntax",
                     value_text(p->arena, arg));
  }
  for (value_iter(arg, &it); bson_iter_next(&it); n++) {
    if (n == 2 || !iter_is_number(&it))
      return error_set(p->err, 28724, "$slice takes a number or an array of two numbers");
    numbers[n] = iter_i64(&it);
  }
  if (n != 2) return error_set(p->err, 28724, "$slice takes a number or an array of two numbers");
  leaf->skip = numbers[0];
  leaf->limit = numbers[1];
  return leaf->limit > 0 ||
         error_set(p->err, 28729, "Third argument to $slice must be positive: %lld", (long long)leaf->limit);
}

static bool add_elem_match(struct parser *p, struct projection_node *from, const char *path, const char *full,
                           const bson_value_t *arg) {
  if (strchr(full, '.')) return error_set(p->err, 31275, "Cannot use $elemMatch projection on a nested field.");
  if (!value_is_doc(arg))
    return error_set(p->err, 31274, "elemMatch: Invalid argument, object required, but got %s",
                     value_text(p->arena, arg));
  if (!decide(p, PROJECT_INCLUDE, full)) return false;
  struct projection_node *leaf = leaf_at(p, from, path);
  if (!leaf) return false;
  leaf->kind = NODE_ELEM_MATCH;
  p->out->simple = false;
  // {"": [v]} is matched against {"": {$elemMatch: arg}}, an element at a time.
  bson_t *filter = arena_bson(p->arena), operators;
  bson_append_document_begin(filter, "", 0, &operators);
  doc_append_value(&operators, "$elemMatch", arg);
  bson_append_document_end(filter, &operators);
  leaf->match = match_parse(p->arena, filter, p->options, p->err);
  return leaf->match != NULL;
}

static bool add_positional(struct parser *p, struct projection_node *from, const char *path, const bson_value_t *v) {
  size_t len = strlen(path);
  if (!is_boolean_like(v) || !value_truthy(v)) {
    return error_set(p->err, 31395, "positional projection cannot be used with exclusion");
  }
  if (p->out->positional) {
    return error_set(p->err, 31276, "Cannot specify more than one positional projection per query.");
  }
  if (!p->out->match) {
    return error_set(p->err, 51246,
                     "Executor error during find command :: caused by :: positional operator '.$' "
                     "requires a query");
  }
  if (!decide(p, PROJECT_INCLUDE, path)) return false;
  struct projection_node *leaf = leaf_at(p, from, arena_strndup(p->arena, path, len - 2));
  if (!leaf) return false;
  leaf->kind = NODE_POSITIONAL;
  p->out->positional = true;
  p->out->simple = false;
  return true;
}

// --- the specification ---

static bool add_field(struct parser *p, struct projection_node *from, const char *path, const char *full,
                      const bson_value_t *v, int depth);

// {a: {b: 1, c: 0}} speaks of a.b and a.c.
static bool add_nested(struct parser *p, struct projection_node *from, const char *path, const char *full,
                       const bson_value_t *v, int depth) {
  bson_iter_t it;
  size_t n = 0;
  struct projection_node *node = from;
  for (const char *at = path; *at;) { // the inner node, which several fields may share
    size_t len = strcspn(at, ".");
    if (!check_name(p, at, len)) return false;
    struct projection_node *child = projection_child(node, at, len);
    if (child && child->kind != NODE_NESTED) return error_set(p->err, 31250, "Path collision at %s", full);
    node = child ? child : add_child(p, node, at, len);
    at += len + (at[len] == '.');
  }
  for (value_iter(v, &it); bson_iter_next(&it); n++) {
    const char *name = bson_iter_key(&it);
    if (name[0] == '$') {
      return error_set(p->err, 16410,
                       "FieldPath field names may not start with '$'. Consider using $getField or $setField.");
    }
    const char *below = arena_printf(p->arena, "%s.%s", full, name);
    if (!add_field(p, node, name, below, bson_iter_value(&it), depth + 1)) return false;
  }
  return n || error_set(p->err, 51270, "An empty sub-projection is not a valid value. Found empty object at path");
}

static bool add_operator(struct parser *p, struct projection_node *from, const char *path, const char *full,
                         const bson_value_t *v) {
  bson_iter_t it;
  value_iter(v, &it);
  bson_iter_next(&it);
  const char *name = bson_iter_key(&it);
  bool own = p->find && p->out->mode != PROJECT_ADD;
  if (strcmp(name, "$meta") == 0) {
    return error_set(p->err, ERR_CommandNotSupported, "the projection %s is not supported", value_text(p->arena, v));
  }
  // An array of two numbers or a number is find's $slice; with an array in front it is the expression.
  if (own && strcmp(name, "$slice") == 0) {
    bson_iter_t first;
    const bson_value_t *arg = bson_iter_value(&it);
    bool expression =
        value_is_array(arg) && value_iter(arg, &first) && bson_iter_next(&first) && !iter_is_number(&first);
    if (!expression) return add_slice(p, from, path, arg);
  }
  if (own && strcmp(name, "$elemMatch") == 0) return add_elem_match(p, from, path, full, bson_iter_value(&it));
  return add_computed(p, from, path, full, v);
}

static bool add_flag(struct parser *p, struct projection_node *from, const char *path, const char *full, bool include) {
  if (strcmp(full, "_id") == 0) {
    p->id_excluded = !include;
    p->id_included = include;
  } else if (!decide(p, include ? PROJECT_INCLUDE : PROJECT_EXCLUDE, full)) {
    return false;
  }
  struct projection_node *leaf = leaf_at(p, from, path);
  if (!leaf) return false;
  leaf->kind = include ? NODE_INCLUDE : NODE_EXCLUDE;
  return true;
}

static bool add_field(struct parser *p, struct projection_node *from, const char *path, const char *full,
                      const bson_value_t *v, int depth) {
  size_t len = strlen(path);
  if (depth > DOC_MAX_DEPTH) return error_set(p->err, ERR_Overflow, "the projection is nested too deep");
  if (p->find && len > 2 && strcmp(path + len - 2, ".$") == 0) return add_positional(p, from, path, v);
  if (p->out->mode != PROJECT_ADD && is_boolean_like(v)) return add_flag(p, from, path, full, value_truthy(v));
  if (value_is_doc(v)) {
    bson_iter_t it;
    bool empty = !value_iter(v, &it) || !bson_iter_next(&it);
    if (!empty && bson_iter_key(&it)[0] == '$') return add_operator(p, from, path, full, v);
    if (!empty || p->out->mode != PROJECT_ADD) return add_nested(p, from, path, full, v, depth);
  }
  return add_computed(p, from, path, full, v);
}

// Whether a computed field is at or below the node.
static bool mark_adds(struct projection_node *n) {
  n->adds = n->kind == NODE_COMPUTED || n->kind == NODE_ELEM_MATCH;
  for (size_t i = 0; i < n->n; i++) n->adds |= mark_adds(n->children[i]);
  return n->adds;
}

static bool parse_fields(struct parser *p, struct error *err) {
  bson_iter_t it;
  if (!bson_iter_init(&it, p->out->spec)) return error_set(err, ERR_InvalidBSON, "a projection is not a document");
  while (bson_iter_next(&it)) {
    const char *path = bson_iter_key(&it);
    if (!add_field(p, p->out->root, path, path, bson_iter_value(&it), 0)) return false;
  }
  if (!p->decided && p->out->mode != PROJECT_ADD) {
    // Only _id was spoken of, or $slice, which keeps everything else.
    p->out->mode = p->id_included ? PROJECT_INCLUDE : PROJECT_EXCLUDE;
  }
  bool mentions_id = p->id_excluded || p->id_included || projection_child(p->out->root, "_id", 3);
  if (p->out->mode == PROJECT_INCLUDE && !mentions_id) add_child(p, p->out->root, "_id", 3)->kind = NODE_INCLUDE;
  mark_adds(p->out->root);
  return true;
}

static struct parser parser_new(struct arena *a, const bson_t *spec, struct variables *vars, struct error *err) {
  struct parser p = {.arena = a, .vars = vars, .err = err};
  p.out = arena_zalloc(a, sizeof *p.out);
  p.out->root = arena_zalloc(a, sizeof *p.out->root);
  p.out->spec = doc_copy(a, spec);
  p.out->simple = true;
  p.out->mode = PROJECT_EXCLUDE;
  return p;
}

struct projection *projection_parse(struct arena *a, const bson_t *spec, bool find, const struct match *m,
                                    const struct match_options *o, struct error *err) {
  int64_t now = o && o->now_ms ? o->now_ms : clock_wall_ms();
  struct variables *vars = variables_new(a, o ? o->let : NULL, now, err);
  if (!vars) return NULL;
  if (!find) return projection_parse_stage(a, spec, vars, err);
  struct parser p = parser_new(a, spec, vars, err);
  p.find = true;
  p.options = o;
  p.out->match = m;
  return parse_fields(&p, err) ? p.out : NULL;
}

struct projection *projection_parse_stage(struct arena *a, const bson_t *spec, struct variables *vars,
                                          struct error *err) {
  struct parser p = parser_new(a, spec, vars, err);
  if (bson_empty(spec)) {
    error_set(err, 51272, "Invalid $project :: caused by :: projection specification must have at least one field");
    return NULL;
  }
  return parse_fields(&p, err) ? p.out : NULL;
}

struct projection *projection_parse_add(struct arena *a, const bson_t *spec, struct variables *vars,
                                        struct error *err) {
  struct parser p = parser_new(a, spec, vars, err);
  p.out->mode = PROJECT_ADD;
  p.decided = true;
  if (bson_empty(spec)) {
    error_set(err, 40177, "Invalid $addFields :: caused by :: specification must have at least one field");
    return NULL;
  }
  return parse_fields(&p, err) ? p.out : NULL;
}

struct projection *projection_parse_unset(struct arena *a, const bson_value_t *spec, struct error *err) {
  bson_t *fields = arena_bson(a);
  bson_iter_t it;
  if (value_is_string(spec)) {
    bson_append_int32(fields, spec->value.v_utf8.str, -1, 0);
  } else if (value_is_array(spec)) {
    for (value_iter(spec, &it); bson_iter_next(&it);) {
      if (!BSON_ITER_HOLDS_UTF8(&it)) {
        error_set(err, 31120, "$unset specification must be a string or an array containing only string values");
        return NULL;
      }
      bson_append_int32(fields, bson_iter_utf8(&it, NULL), -1, 0);
    }
  } else {
    error_set(err, 31002, "$unset specification must be a string or an array");
    return NULL;
  }
  if (bson_empty(fields)) {
    error_set(err, 31119, "$unset specification must be a string or an array with at least one field");
    return NULL;
  }
  struct parser p = parser_new(a, fields, NULL, err);
  return parse_fields(&p, err) ? p.out : NULL;
}

bool projection_covered_by(const struct projection *p, const bson_t *pattern) {
  if (p->mode != PROJECT_INCLUDE || !p->simple) return false;
  bson_iter_t it;
  if (!bson_iter_init(&it, p->spec)) return false;
  bool id_said = false;
  while (bson_iter_next(&it)) {
    if (!is_boolean_like(bson_iter_value(&it))) return false; // nested fields
    id_said |= strcmp(bson_iter_key(&it), "_id") == 0;
    if (bson_iter_as_bool(&it) && !doc_has(pattern, bson_iter_key(&it))) return false;
  }
  return id_said || doc_has(pattern, "_id");
}
