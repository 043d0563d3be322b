// Expressions: what is not an operator (literals, field paths, variables, objects and arrays), and how operators and
// their arguments are parsed and evaluated.
#include "common/query/expression_internal.h"

#include <string.h>

#include "common/query/variables.h"

struct variables *variables_new(struct arena *a, const bson_t *let, int64_t now_ms, struct error *err) {
  struct variables *vars = arena_zalloc(a, sizeof *vars);
  vars->arena = a;
  vars->now_ms = now_ms;
  if (!let) return vars;
  vars->let = doc_copy(a, let);
  struct expr_parser p = {.arena = a, .vars = vars, .err = err};
  bson_iter_t it;
  if (!bson_iter_init(&it, vars->let)) return vars;
  while (bson_iter_next(&it)) {
    if (!expr_check_variable_name(&p, bson_iter_key(&it))) return NULL;
  }
  return vars;
}

// --- literals ---

static bool eval_constant(const struct expression *e, struct evaluation *v, bson_value_t *out) {
  *out = e->constant;
  return true;
}

struct expression *expr_constant(struct arena *a, bson_value_t v) {
  struct expression *e = arena_zalloc(a, sizeof *e);
  e->eval = eval_constant;
  e->constant = v;
  return e;
}

bool expr_is_constant(const struct expression *e) {
  return e->eval == eval_constant;
}

// --- field paths ---

static bool path_of_value(const struct expression *e, size_t part, const bson_value_t *from, struct evaluation *v,
                          bson_value_t *out);

static bool path_of_document(const struct expression *e, size_t part, const uint8_t *data, size_t len,
                             struct evaluation *v, bson_value_t *out) {
  bson_iter_t it;
  *out = value_missing();
  if (!bson_iter_init_from_data(&it, data, len)) return true;
  while (bson_iter_next(&it)) {
    if (strcmp(bson_iter_key(&it), e->names[part]) == 0) {
      return path_of_value(e, part + 1, bson_iter_value(&it), v, out);
    }
  }
  return true;
}

// Arrays on the way give an array of what their documents have; numeric components do not index.
static bool path_of_value(const struct expression *e, size_t part, const bson_value_t *from, struct evaluation *v,
                          bson_value_t *out) {
  if (part == e->n) {
    *out = *from;
    return true;
  }
  if (value_is_doc(from)) {
    return path_of_document(e, part, from->value.v_doc.data, from->value.v_doc.data_len, v, out);
  }
  *out = value_missing();
  if (!value_is_array(from)) return true;
  struct array_builder list;
  array_begin(&list, v->scratch);
  bson_iter_t it;
  for (value_iter(from, &it); bson_iter_next(&it);) {
    bson_value_t inner;
    if (!path_of_value(e, part, bson_iter_value(&it), v, &inner)) return false;
    if (!value_is_missing(&inner)) array_add(&list, &inner);
  }
  *out = array_end(&list);
  return true;
}

static bool eval_path(const struct expression *e, struct evaluation *v, bson_value_t *out) {
  return path_of_document(e, 0, bson_get_data(v->doc), v->doc->len, v, out);
}

static bool eval_root(const struct expression *e, struct evaluation *v, bson_value_t *out) {
  *out = value_doc(v->doc);
  return true;
}

static bool eval_variable(const struct expression *e, struct evaluation *v, bson_value_t *out) {
  return path_of_value(e, 0, &v->slots[e->slot], v, out);
}

// Read at each evaluation: one parsed update serves many statements.
static bool eval_now(const struct expression *e, struct evaluation *v, bson_value_t *out) {
  const struct variables *vars = e->extra;
  bson_value_t now = value_date(vars->now_ms);
  return path_of_value(e, 0, &now, v, out);
}

static bool eval_constant_path(const struct expression *e, struct evaluation *v, bson_value_t *out) {
  return path_of_value(e, 0, &e->constant, v, out);
}

// Splits "a.b.c"; an empty path has no components.
static bool parse_path(struct expr_parser *p, struct expression *e, const char *path) {
  size_t n = *path != 0, len = strlen(path);
  for (const char *c = path; *c; c++) n += *c == '.';
  e->names = arena_alloc(p->arena, n * sizeof *e->names);
  if (len && path[len - 1] == '.') return error_set(p->err, 40353, "FieldPath must not end with a '.'.");
  for (e->n = 0; e->n < n; e->n++) {
    size_t part = strcspn(path, ".");
    if (part == 0) return error_set(p->err, 15998, "FieldPath field names may not be empty strings.");
    if (path[0] == '$') {
      return error_set(p->err, 16410,
                       "FieldPath field names may not start with '$'. Consider using $getField or $setField.");
    }
    e->names[e->n] = arena_strndup(p->arena, path, part);
    path += part + 1;
  }
  return true;
}

static struct expression *parse_field_path(struct expr_parser *p, const char *path) {
  struct expression *e = arena_zalloc(p->arena, sizeof *e);
  e->eval = eval_path;
  if (!*path) {
    error_set(p->err, 16872, "'$' by itself is not a valid FieldPath");
    return NULL;
  }
  return parse_path(p, e, path) ? e : NULL;
}

// --- variables ---

bool expr_check_variable_name(struct expr_parser *p, const char *name) {
  if (!*name) return error_set(p->err, 16866, "empty variable names are not allowed");
  // What begins with an upper-case letter is the server's; CURRENT could be bound in MongoDB.
  if (!((name[0] >= 'a' && name[0] <= 'z') || (unsigned char)name[0] >= 0x80)) {
    return error_set(p->err, ERR_FailedToParse, "'%s' starts with an invalid character for a user variable name", name);
  }
  for (const char *c = name; *c; c++) {
    bool word = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') || *c == '_';
    if (!word && (unsigned char)*c < 0x80) {
      return error_set(p->err, ERR_FailedToParse, "'%s' contains an invalid character for a variable name: '%c'", name,
                       *c);
    }
  }
  return true;
}

size_t expr_bind(struct expr_parser *p, const char *name) {
  struct bound_variable *b = arena_alloc(p->arena, sizeof *b);
  *b = (struct bound_variable){arena_strdup(p->arena, name), p->vars->n_slots++, p->vars->innermost};
  p->vars->innermost = b;
  return b->slot;
}

void expr_unbind(struct expr_parser *p, size_t n) {
  while (n--) p->vars->innermost = p->vars->innermost->outer;
}

static struct expression *parse_system_variable(struct expr_parser *p, const char *name, struct expression *e) {
  if (strcmp(name, "ROOT") == 0 || strcmp(name, "CURRENT") == 0) {
    e->eval = e->n ? eval_path : eval_root;
  } else if (strcmp(name, "NOW") == 0) {
    e->eval = eval_now;
    e->extra = p->vars;
  } else if (strcmp(name, "REMOVE") == 0) {
    e->eval = eval_constant_path;
    e->constant = value_missing();
  } else {
    const char *known[] = {"CLUSTER_TIME", "DESCEND", "PRUNE", "KEEP", "SEARCH_META", "USER_ROLES", "JS_SCOPE"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
      if (strcmp(name, known[i]) != 0) continue;
      error_set(p->err, ERR_CommandNotSupported, "the variable $$%s is not supported", name);
      return NULL;
    }
    error_set(p->err, 17276, "Use of undefined variable: %s", name);
    return NULL;
  }
  return e;
}

// "$$name.a.b", without the "$$".
static struct expression *parse_variable(struct expr_parser *p, const char *text) {
  struct expression *e = arena_zalloc(p->arena, sizeof *e);
  size_t len = strcspn(text, ".");
  const char *name = arena_strndup(p->arena, text, len);
  if (!len) {
    error_set(p->err, 16866, "empty variable names are not allowed");
    return NULL;
  }
  if (text[len] == '.' && !text[len + 1]) {
    error_set(p->err, 40353, "FieldPath must not end with a '.'.");
    return NULL;
  }
  if (!parse_path(p, e, text[len] ? text + len + 1 : "")) return NULL;
  for (const struct bound_variable *b = p->vars->innermost; b; b = b->outer) {
    if (strcmp(b->name, name) != 0) continue;
    e->eval = eval_variable;
    e->slot = b->slot;
    return e;
  }
  if (p->vars->let && doc_value(p->vars->let, name, &e->constant)) {
    e->eval = e->n ? eval_constant_path : eval_constant;
    return e;
  }
  return parse_system_variable(p, name, e);
}

// --- objects and arrays ---

static bool eval_object(const struct expression *e, struct evaluation *v, bson_value_t *out) {
  bson_t *doc = arena_bson(v->scratch);
  for (size_t i = 0; i < e->n; i++) {
    bson_value_t field;
    if (!e->args[i]->eval(e->args[i], v, &field)) return false;
    if (!value_is_missing(&field)) doc_append_value(doc, e->names[i], &field);
  }
  *out = value_doc(doc);
  return expr_account(v, out);
}

static bool eval_array(const struct expression *e, struct evaluation *v, bson_value_t *out) {
  struct array_builder list;
  array_begin(&list, v->scratch);
  for (size_t i = 0; i < e->n; i++) {
    bson_value_t element;
    if (!e->args[i]->eval(e->args[i], v, &element)) return false;
    array_add(&list, &element);
  }
  *out = array_end(&list);
  return expr_account(v, out);
}

// Evaluates what depends on nothing once and for all; an expression that fails is left to fail when it is used.
static struct expression *fold(struct expr_parser *p, struct expression *e) {
  if (e->op && (e->op->volatile_value || e->op->parse)) return e;
  for (size_t i = 0; i < e->n; i++) {
    if (e->args[i] && !expr_is_constant(e->args[i])) return e;
  }
  static const uint8_t empty[] = {5, 0, 0, 0, 0};
  struct evaluation v = {.scratch = p->arena, .doc = arena_bson_view(p->arena, empty, sizeof empty)};
  bson_value_t result;
  return e->eval(e, &v, &result) ? expr_constant(p->arena, result) : e;
}

static size_t count_fields(const bson_value_t *v) {
  bson_iter_t it;
  size_t n = 0;
  for (value_iter(v, &it); bson_iter_next(&it);) n++;
  return n;
}

static struct expression *parse_array(struct expr_parser *p, const bson_value_t *spec) {
  struct expression *e = arena_zalloc(p->arena, sizeof *e);
  bson_iter_t it;
  e->eval = eval_array;
  e->args = arena_alloc(p->arena, count_fields(spec) * sizeof(struct expression *));
  for (value_iter(spec, &it); bson_iter_next(&it); e->n++) {
    e->args[e->n] = expr_parse(p, bson_iter_value(&it));
    if (!e->args[e->n]) return NULL;
  }
  return fold(p, e);
}

static struct expression *parse_object(struct expr_parser *p, const bson_value_t *spec) {
  struct expression *e = arena_zalloc(p->arena, sizeof *e);
  bson_iter_t it;
  size_t n = count_fields(spec);
  e->eval = eval_object;
  e->args = arena_alloc(p->arena, n * sizeof(struct expression *));
  e->names = arena_alloc(p->arena, n * sizeof *e->names);
  for (value_iter(spec, &it); bson_iter_next(&it); e->n++) {
    const char *name = bson_iter_key(&it);
    if (!*name) {
      error_set(p->err, 15998, "FieldPath field names may not be empty strings.");
      return NULL;
    }
    if (strchr(name, '.')) {
      error_set(p->err, 16412, "FieldPath field names may not contain '.'. Consider using $getField or $setField.");
      return NULL;
    }
    if (name[0] == '$') {
      error_set(p->err, 16410, "FieldPath field names may not start with '$'. Consider using $getField or $setField.");
      return NULL;
    }
    e->names[e->n] = arena_strdup(p->arena, name);
    e->args[e->n] = expr_parse(p, bson_iter_value(&it));
    if (!e->args[e->n]) return NULL;
  }
  return fold(p, e);
}

// --- operators ---

static bool eval_call(const struct expression *e, struct evaluation *v, bson_value_t *out) {
  bson_value_t *args;
  if (!expr_evaluate_all(e, v, &args)) return false;
  struct expr_call c = {v, e, args, e->n};
  return e->op->call(&c, out) && expr_account(v, out);
}

static bool parse_named(struct expr_parser *p, struct expression *e, const bson_value_t *spec) {
  const char *name = e->op->name;
  if (!value_is_doc(spec)) {
    return error_set(p->err, ERR_FailedToParse, "%s only supports an object as its argument", name);
  }
  size_t n = 1;
  for (const char *c = e->op->fields; *c; c++) n += *c == ' ';
  e->args = arena_zalloc(p->arena, n * sizeof(struct expression *));
  e->n = n;
  bson_iter_t it;
  for (value_iter(spec, &it); bson_iter_next(&it);) {
    const char *key = bson_iter_key(&it), *field = e->op->fields;
    size_t i = 0, len = strcspn(field, "* ");
    while (strlen(key) != len || strncmp(field, key, len) != 0) {
      field += strcspn(field, " ");
      if (!*field) return error_set(p->err, ERR_FailedToParse, "%s found an unknown argument: %s", name, key);
      len = strcspn(++field, "* ");
      i++;
    }
    e->args[i] = expr_parse(p, bson_iter_value(&it));
    if (!e->args[i]) return false;
  }
  const char *field = e->op->fields;
  for (size_t i = 0; i < n; i++, field += strcspn(field, " ") + 1) {
    size_t len = strcspn(field, "* ");
    if (field[len] != '*' || e->args[i]) continue;
    return error_set(p->err, ERR_FailedToParse, "%s requires an '%.*s' argument", name, (int)len, field);
  }
  return true;
}

static bool check_arity(struct expr_parser *p, const struct expr_operator *op, size_t n) {
  if (n >= (size_t)op->min && (op->max == EXPR_VARIADIC || n <= (size_t)op->max)) return true;
  if (op->min == op->max) {
    return error_set(p->err, 16020, "Expression %s takes exactly %d arguments. %zu were passed in.", op->name, op->min,
                     n);
  }
  if (op->max == EXPR_VARIADIC) {
    return error_set(p->err, ERR_FailedToParse, "%s needs at least %d arguments, had: %zu", op->name, op->min, n);
  }
  return error_set(p->err, 28667, "Expression %s takes at least %d arguments, and at most %d, but %zu were passed in.",
                   op->name, op->min, op->max, n);
}

bool expr_parse_arguments(struct expr_parser *p, struct expression *e, const bson_value_t *spec) {
  if (e->op->fields) return parse_named(p, e, spec);
  // One argument may stand without its array.
  size_t n = value_is_array(spec) ? count_fields(spec) : 1;
  if (!check_arity(p, e->op, n)) return false;
  e->args = arena_alloc(p->arena, n * sizeof(struct expression *));
  if (!value_is_array(spec)) {
    e->args[e->n++] = expr_parse(p, spec);
    return e->args[0] != NULL;
  }
  bson_iter_t it;
  for (value_iter(spec, &it); bson_iter_next(&it); e->n++) {
    e->args[e->n] = expr_parse(p, bson_iter_value(&it));
    if (!e->args[e->n]) return false;
  }
  return true;
}

static struct expression *parse_operator(struct expr_parser *p, const char *name, const bson_value_t *spec) {
  const struct expr_operator *op = expr_operator_find(name);
  if (!op) {
    error_set(p->err, ERR_InvalidPipelineOperator, "Unrecognized expression '%s'", name);
    return NULL;
  }
  if (op->refused) {
    error_set(p->err, ERR_CommandNotSupported, "the expression %s is not supported", name);
    return NULL;
  }
  struct expression *e = arena_zalloc(p->arena, sizeof *e);
  e->op = op;
  e->eval = op->eval ? op->eval : eval_call;
  if (!(op->parse ? op->parse(p, e, spec) : expr_parse_arguments(p, e, spec))) return NULL;
  if (op->check && !op->check(p, e)) return NULL;
  return fold(p, e);
}

struct expression *expr_parse(struct expr_parser *p, const bson_value_t *spec) {
  if (value_is_string(spec) && spec->value.v_utf8.len && spec->value.v_utf8.str[0] == '$') {
    const char *text = spec->value.v_utf8.str + 1;
    return *text == '$' ? parse_variable(p, text + 1) : parse_field_path(p, text);
  }
  if (value_is_array(spec)) return parse_array(p, spec);
  if (!value_is_doc(spec)) return expr_constant(p->arena, value_copy(p->arena, spec));
  bson_iter_t it;
  if (!value_iter(spec, &it) || !bson_iter_next(&it) || bson_iter_key(&it)[0] != '$') return parse_object(p, spec);
  size_t n = count_fields(spec);
  if (n != 1) {
    error_set(p->err, 15983,
              "an expression specification must contain exactly one field, the name of the expression. Found %zu "
              "fields in %s",
              n, value_text(p->arena, spec));
    return NULL;
  }
  return parse_operator(p, bson_iter_key(&it), bson_iter_value(&it));
}

// --- the public functions ---

struct expression *expression_parse(struct arena *a, const bson_value_t *spec, struct variables *vars,
                                    struct error *err) {
  struct expr_parser p = {.arena = a, .vars = vars, .err = err};
  struct bound_variable *outer = vars->innermost;
  struct expression *e = expr_parse(&p, spec);
  vars->innermost = outer; // also after an error inside a binding
  if (e) e->n_slots = vars->n_slots;
  return e;
}

bool expression_eval(const struct expression *e, struct arena *scratch, const bson_t *doc, bson_value_t *out,
                     struct error *err) {
  struct evaluation v = {.scratch = scratch, .doc = doc, .err = err};
  if (e->n_slots) v.slots = arena_alloc(scratch, e->n_slots * sizeof *v.slots);
  return e->eval(e, &v, out);
}

bool expression_is_constant(const struct expression *e, bson_value_t *out) {
  if (!expr_is_constant(e)) return false;
  *out = e->constant;
  return true;
}
