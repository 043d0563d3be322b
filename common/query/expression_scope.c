// Operators that bind variables: $let, $map, $filter, $reduce.
//
// A bound variable has a slot in the evaluation; its number is fixed when the expression is parsed. What these
// operators evaluate for every element is bounded by the array's length.
#include <string.h>

#include "common/query/expression_families.h"
#include "common/query/type_names.h"

static const char *name_of(const bson_value_t *v) {
  return type_name(v->value_type);
}

// Field `name` of an operator's argument, missing when not there; fails for fields that are not in `known`.
struct named_field {
  const char *name;
  bson_value_t value;
};

static bool read_fields(struct expr_parser *p, const char *op, const bson_value_t *spec, struct named_field *fields,
                        size_t n) {
  bson_iter_t it;
  if (!value_is_doc(spec)) {
    return error_set(p->err, 28646, "%s only supports an object as its argument", op);
  }
  for (size_t i = 0; i < n; i++) fields[i].value = value_missing();
  for (value_iter(spec, &it); bson_iter_next(&it);) {
    size_t i = 0;
    while (i < n && strcmp(fields[i].name, bson_iter_key(&it)) != 0) i++;
    if (i == n) return error_set(p->err, 28647, "Unrecognized parameter to %s: %s", op, bson_iter_key(&it));
    fields[i].value = *bson_iter_value(&it);
  }
  return true;
}

static bool require(struct expr_parser *p, const char *op, const struct named_field *f, int code) {
  return !value_is_missing(&f->value) || error_set(p->err, code, "Missing '%s' parameter to %s", f->name, op);
}

static bool parse_into(struct expr_parser *p, struct expression **to, const bson_value_t *spec) {
  *to = expr_parse(p, spec);
  return *to != NULL;
}

// The name in `as`, "this" when it is not given.
static bool variable_of(struct expr_parser *p, const struct named_field *as, const char **name) {
  *name = "this";
  if (value_is_missing(&as->value)) return true;
  if (!value_is_string(&as->value)) return error_set(p->err, ERR_FailedToParse, "'as' must be a string");
  *name = as->value.value.v_utf8.str;
  return expr_check_variable_name(p, *name);
}

// --- $let: args are the variables' values, then the body ---

static bool eval_let(const struct expression *e, struct evaluation *v, bson_value_t *out) {
  // Values do not see the variables bound beside them: their slots are theirs alone.
  for (size_t i = 0; i + 1 < e->n; i++) {
    if (!expr_argument(e, i, v, &v->slots[e->slot + i])) return false;
  }
  return expr_argument(e, e->n - 1, v, out);
}

static bool parse_let(struct expr_parser *p, struct expression *e, const bson_value_t *spec) {
  struct named_field f[] = {{.name = "vars"}, {.name = "in"}};
  if (!value_is_doc(spec)) return error_set(p->err, 16874, "$let only supports an object as its argument");
  if (!read_fields(p, "$let", spec, f, 2) || !require(p, "$let", &f[0], 16876) || !require(p, "$let", &f[1], 16877)) {
    return false;
  }
  if (!value_is_doc(&f[0].value)) {
    return error_set(p->err, ERR_FailedToParse, "invalid parameter: expected an object (vars)");
  }
  bson_iter_t it;
  size_t n = 0, bound = 0;
  for (value_iter(&f[0].value, &it); bson_iter_next(&it);) n++;
  e->n = n + 1;
  e->args = arena_zalloc(p->arena, e->n * sizeof(struct expression *));
  size_t i = 0;
  for (value_iter(&f[0].value, &it); bson_iter_next(&it); i++) {
    if (!expr_check_variable_name(p, bson_iter_key(&it))) return false;
    if (!parse_into(p, &e->args[i], bson_iter_value(&it))) return false;
  }
  for (value_iter(&f[0].value, &it); bson_iter_next(&it); bound++) {
    size_t slot = expr_bind(p, bson_iter_key(&it));
    if (bound == 0) e->slot = slot; // the others follow it
  }
  bool ok = parse_into(p, &e->args[n], &f[1].value);
  expr_unbind(p, bound);
  return ok;
}

// --- $map: args are input and body ---

static bool eval_map(const struct expression *e, struct evaluation *v, bson_value_t *out) {
  bson_value_t input, mapped;
  if (!expr_argument(e, 0, v, &input)) return false;
  *out = value_null();
  if (value_is_nullish(&input)) return true;
  if (!value_is_array(&input))
    return error_set(v->err, 16883, "input to $map must be an array not %s", name_of(&input));
  struct array_builder list;
  bson_iter_t it;
  array_begin(&list, v->scratch);
  for (value_iter(&input, &it); bson_iter_next(&it);) {
    v->slots[e->slot] = *bson_iter_value(&it);
    if (!expr_argument(e, 1, v, &mapped)) return false;
    array_add(&list, &mapped);
  }
  *out = array_end(&list);
  return true;
}

static bool parse_map(struct expr_parser *p, struct expression *e, const bson_value_t *spec) {
  struct named_field f[] = {{.name = "input"}, {.name = "as"}, {.name = "in"}};
  const char *name;
  if (!read_fields(p, "$map", spec, f, 3) || !require(p, "$map", &f[0], 16880) || !require(p, "$map", &f[2], 16882) ||
      !variable_of(p, &f[1], &name)) {
    return false;
  }
  e->n = 2;
  e->args = arena_zalloc(p->arena, e->n * sizeof(struct expression *));
  if (!parse_into(p, &e->args[0], &f[0].value)) return false;
  e->slot = expr_bind(p, name);
  bool ok = parse_into(p, &e->args[1], &f[2].value);
  expr_unbind(p, 1);
  return ok;
}

// --- $filter: args are input, condition, limit (NULL: none) ---

static bool filter_limit(const struct expression *e, struct evaluation *v, int64_t *limit) {
  bson_value_t n;
  *limit = INT64_MAX;
  if (!expr_argument(e, 2, v, &n)) return false;
  if (value_is_nullish(&n)) return true;
  if (!value_is_number(&n) || !value_is_integral(&n, limit)) {
    return error_set(v->err, 327391, "$filter: limit must be represented as a 32-bit integral value: %s",
                     value_text(v->scratch, &n));
  }
  return *limit > 0 || error_set(v->err, 327392, "$filter: limit must be greater than 0: %lld", (long long)*limit);
}

static bool eval_filter(const struct expression *e, struct evaluation *v, bson_value_t *out) {
  bson_value_t input, keep;
  int64_t limit;
  if (!expr_argument(e, 0, v, &input)) return false;
  *out = value_null();
  if (value_is_nullish(&input)) return true;
  if (!value_is_array(&input)) {
    return error_set(v->err, 28651, "input to $filter must be an array not %s", name_of(&input));
  }
  if (!filter_limit(e, v, &limit)) return false;
  struct array_builder list;
  bson_iter_t it;
  array_begin(&list, v->scratch);
  for (value_iter(&input, &it); list.n < limit && bson_iter_next(&it);) {
    v->slots[e->slot] = *bson_iter_value(&it);
    if (!expr_argument(e, 1, v, &keep)) return false;
    if (expr_truthy(&keep)) array_add(&list, bson_iter_value(&it));
  }
  *out = array_end(&list);
  return true;
}

static bool parse_filter(struct expr_parser *p, struct expression *e, const bson_value_t *spec) {
  struct named_field f[] = {{.name = "input"}, {.name = "as"}, {.name = "cond"}, {.name = "limit"}};
  const char *name;
  if (!read_fields(p, "$filter", spec, f, 4) || !require(p, "$filter", &f[0], 28648) ||
      !require(p, "$filter", &f[2], 28650) || !variable_of(p, &f[1], &name)) {
    return false;
  }
  e->n = 3;
  e->args = arena_zalloc(p->arena, e->n * sizeof(struct expression *));
  if (!parse_into(p, &e->args[0], &f[0].value)) return false;
  if (!value_is_missing(&f[3].value) && !parse_into(p, &e->args[2], &f[3].value)) return false;
  e->slot = expr_bind(p, name);
  bool ok = parse_into(p, &e->args[1], &f[2].value);
  expr_unbind(p, 1);
  return ok;
}

// --- $reduce: args are input, initial value, body; slots are $$value and $$this ---

static bool eval_reduce(const struct expression *e, struct evaluation *v, bson_value_t *out) {
  bson_value_t input, value;
  if (!expr_argument(e, 0, v, &input)) return false;
  *out = value_null();
  if (value_is_nullish(&input)) return true;
  if (!value_is_array(&input)) {
    return error_set(v->err, 40080, "$reduce requires that 'input' be an array, found: %s",
                     value_text(v->scratch, &input));
  }
  if (!expr_argument(e, 1, v, &value)) return false;
  bson_iter_t it;
  for (value_iter(&input, &it); bson_iter_next(&it);) {
    v->slots[e->slot] = value;
    v->slots[e->slot + 1] = *bson_iter_value(&it);
    if (!expr_argument(e, 2, v, &value)) return false;
  }
  *out = value;
  return true;
}

static bool parse_reduce(struct expr_parser *p, struct expression *e, const bson_value_t *spec) {
  struct named_field f[] = {{.name = "input"}, {.name = "initialValue"}, {.name = "in"}};
  if (!value_is_doc(spec)) {
    return error_set(p->err, 40075, "$reduce requires an object as an argument, found: %s", name_of(spec));
  }
  if (!read_fields(p, "$reduce", spec, f, 3) || !require(p, "$reduce", &f[0], 40077) ||
      !require(p, "$reduce", &f[1], 40078) || !require(p, "$reduce", &f[2], 40079)) {
    return false;
  }
  e->n = 3;
  e->args = arena_zalloc(p->arena, e->n * sizeof(struct expression *));
  if (!parse_into(p, &e->args[0], &f[0].value) || !parse_into(p, &e->args[1], &f[1].value)) return false;
  e->slot = expr_bind(p, "value");
  expr_bind(p, "this");
  bool ok = parse_into(p, &e->args[2], &f[2].value);
  expr_unbind(p, 2);
  return ok;
}

const struct expr_operator EXPR_SCOPE[] = {
    {"$let", NULL, 1, 1, .eval = eval_let, .parse = parse_let},
    {"$map", NULL, 1, 1, .eval = eval_map, .parse = parse_map},
    {"$filter", NULL, 1, 1, .eval = eval_filter, .parse = parse_filter},
    {"$reduce", NULL, 1, 1, .eval = eval_reduce, .parse = parse_reduce},
    {NULL},
};
