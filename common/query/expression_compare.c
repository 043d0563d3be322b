// Comparison, boolean and conditional operators.
#include "common/query/expression_families.h"

#include <string.h>

#include "common/bson/compare.h"

// --- comparison: over the whole order of BSON, missing below null ---

static int compare(const struct expr_call *c) {
  const bson_value_t *a = &c->args[0], *b = &c->args[1];
  // Missing sorts with undefined but below it, so that it equals only itself.
  if (value_is_missing(a) || value_is_missing(b)) {
    if (value_is_missing(a) && value_is_missing(b)) return 0;
    if (value_is_missing(a)) return b->value_type == BSON_TYPE_MINKEY ? 1 : -1;
    return a->value_type == BSON_TYPE_MINKEY ? -1 : 1;
  }
  int order = value_compare(a, b);
  return (order > 0) - (order < 0);
}

static bool call_eq(const struct expr_call *c, bson_value_t *out) {
  *out = value_bool(compare(c) == 0);
  return true;
}

static bool call_ne(const struct expr_call *c, bson_value_t *out) {
  *out = value_bool(compare(c) != 0);
  return true;
}

static bool call_gt(const struct expr_call *c, bson_value_t *out) {
  *out = value_bool(compare(c) > 0);
  return true;
}

static bool call_gte(const struct expr_call *c, bson_value_t *out) {
  *out = value_bool(compare(c) >= 0);
  return true;
}

static bool call_lt(const struct expr_call *c, bson_value_t *out) {
  *out = value_bool(compare(c) < 0);
  return true;
}

static bool call_lte(const struct expr_call *c, bson_value_t *out) {
  *out = value_bool(compare(c) <= 0);
  return true;
}

static bool call_cmp(const struct expr_call *c, bson_value_t *out) {
  *out = value_int32(compare(c));
  return true;
}

// --- boolean: $and and $or stop at the first argument that decides ---

static bool eval_until(const struct expression *e, struct evaluation *v, bool deciding, bson_value_t *out) {
  for (size_t i = 0; i < e->n; i++) {
    bson_value_t arg;
    if (!expr_argument(e, i, v, &arg)) return false;
    if (expr_truthy(&arg) != deciding) continue;
    *out = value_bool(deciding);
    return true;
  }
  *out = value_bool(!deciding);
  return true;
}

static bool eval_and(const struct expression *e, struct evaluation *v, bson_value_t *out) {
  return eval_until(e, v, false, out);
}

static bool eval_or(const struct expression *e, struct evaluation *v, bson_value_t *out) {
  return eval_until(e, v, true, out);
}

static bool call_not(const struct expr_call *c, bson_value_t *out) {
  *out = value_bool(!expr_truthy(&c->args[0]));
  return true;
}

const struct expr_operator EXPR_COMPARE[] = {
    {"$eq", NULL, 2, 2, .call = call_eq},
    {"$ne", NULL, 2, 2, .call = call_ne},
    {"$gt", NULL, 2, 2, .call = call_gt},
    {"$gte", NULL, 2, 2, .call = call_gte},
    {"$lt", NULL, 2, 2, .call = call_lt},
    {"$lte", NULL, 2, 2, .call = call_lte},
    {"$cmp", NULL, 2, 2, .call = call_cmp},
    {"$and", NULL, 0, EXPR_VARIADIC, .eval = eval_and},
    {"$or", NULL, 0, EXPR_VARIADIC, .eval = eval_or},
    {"$not", NULL, 1, 1, .call = call_not},
    {NULL},
};

// --- conditional ---

static bool eval_cond(const struct expression *e, struct evaluation *v, bson_value_t *out) {
  bson_value_t test;
  if (!expr_argument(e, 0, v, &test)) return false;
  return expr_argument(e, expr_truthy(&test) ? 1 : 2, v, out);
}

// {$cond: [a, b, c]} or {$cond: {if: a, then: b, else: c}}.
static bool parse_cond(struct expr_parser *p, struct expression *e, const bson_value_t *spec) {
  if (!value_is_doc(spec)) return expr_parse_arguments(p, e, spec);
  static const char *const names[] = {"if", "then", "else"};
  static const int missing[] = {17080, 17081, 17082};
  e->args = arena_zalloc(p->arena, 3 * sizeof(struct expression *));
  e->n = 3;
  bson_iter_t it;
  for (value_iter(spec, &it); bson_iter_next(&it);) {
    size_t i = 0;
    while (i < 3 && strcmp(names[i], bson_iter_key(&it)) != 0) i++;
    if (i == 3) return error_set(p->err, 17083, "Unrecognized parameter to $cond: %s", bson_iter_key(&it));
    e->args[i] = expr_parse(p, bson_iter_value(&it));
    if (!e->args[i]) return false;
  }
  for (size_t i = 0; i < 3; i++) {
    if (!e->args[i]) return error_set(p->err, missing[i], "Missing '%s' parameter to $cond", names[i]);
  }
  return true;
}

static bool eval_if_null(const struct expression *e, struct evaluation *v, bson_value_t *out) {
  for (size_t i = 0; i < e->n; i++) {
    if (!expr_argument(e, i, v, out)) return false;
    if (!value_is_nullish(out)) return true;
  }
  return true;
}

static bool check_if_null(struct expr_parser *p, struct expression *e) {
  return e->n >= 2 || error_set(p->err, 1257300, "$ifNull needs at least two arguments, had: %zu", e->n);
}

// Arguments: case, then, case, then..., default (NULL when there is none).
static bool eval_switch(const struct expression *e, struct evaluation *v, bson_value_t *out) {
  for (size_t i = 0; i + 1 < e->n; i += 2) {
    bson_value_t test;
    if (!expr_argument(e, i, v, &test)) return false;
    if (expr_truthy(&test)) return expr_argument(e, i + 1, v, out);
  }
  if (e->args[e->n - 1]) return expr_argument(e, e->n - 1, v, out);
  return error_set(v->err, 40066,
                   "$switch could not find a matching branch for an input, and no default was specified.");
}

static bool parse_branch(struct expr_parser *p, struct expression *e, size_t i, const bson_value_t *branch) {
  if (!value_is_doc(branch)) {
    return error_set(p->err, 40062, "$switch expected each branch to be an object, found: %s",
                     value_text(p->arena, branch));
  }
  bson_iter_t it;
  for (value_iter(branch, &it); bson_iter_next(&it);) {
    const char *key = bson_iter_key(&it);
    bool is_case = strcmp(key, "case") == 0;
    if (!is_case && strcmp(key, "then") != 0) {
      return error_set(p->err, 40063, "$switch found an unknown argument to a branch: %s", key);
    }
    e->args[i + !is_case] = expr_parse(p, bson_iter_value(&it));
    if (!e->args[i + !is_case]) return false;
  }
  if (!e->args[i]) return error_set(p->err, 40064, "$switch requires each branch have a 'case' expression");
  if (!e->args[i + 1]) return error_set(p->err, 40065, "$switch requires each branch have a 'then' expression.");
  return true;
}

static bool parse_switch(struct expr_parser *p, struct expression *e, const bson_value_t *spec) {
  bson_iter_t it, branch;
  if (!value_is_doc(spec)) return error_set(p->err, 40060, "$switch requires an object as an argument");
  size_t n = 0;
  for (value_iter(spec, &it); bson_iter_next(&it);) {
    const char *key = bson_iter_key(&it);
    if (strcmp(key, "default") == 0) continue;
    if (strcmp(key, "branches") != 0) return error_set(p->err, 40067, "$switch found an unknown argument: %s", key);
    if (!BSON_ITER_HOLDS_ARRAY(&it)) return error_set(p->err, 40061, "$switch expected an array for 'branches'");
    for (value_iter(bson_iter_value(&it), &branch); bson_iter_next(&branch);) n++;
  }
  if (n == 0) return error_set(p->err, 40068, "$switch requires at least one branch.");
  e->n = 2 * n + 1;
  e->args = arena_zalloc(p->arena, e->n * sizeof(struct expression *));
  for (value_iter(spec, &it); bson_iter_next(&it);) {
    if (strcmp(bson_iter_key(&it), "default") == 0) {
      e->args[2 * n] = expr_parse(p, bson_iter_value(&it));
      if (!e->args[2 * n]) return false;
      continue;
    }
    size_t i = 0;
    for (value_iter(bson_iter_value(&it), &branch); bson_iter_next(&branch); i += 2) {
      if (!parse_branch(p, e, i, bson_iter_value(&branch))) return false;
    }
  }
  return true;
}

const struct expr_operator EXPR_CONDITIONAL[] = {
    {"$cond", NULL, 3, 3, .eval = eval_cond, .parse = parse_cond},
    {"$ifNull", NULL, 0, EXPR_VARIADIC, .eval = eval_if_null, .check = check_if_null},
    {"$switch", NULL, 1, 1, .eval = eval_switch, .parse = parse_switch},
    {NULL},
};
