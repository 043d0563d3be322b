// Set operators. A set is an array without regard to order and repetition; results are in ascending order.
#include <stdlib.h>

#include "common/bson/compare.h"
#include "common/query/expression_families.h"
#include "common/query/type_names.h"

struct set {
  bson_value_t *values; // ascending, each once
  size_t n;
};

static const char *name_of(const bson_value_t *v) {
  return type_name(v->value_type);
}

static int by_value(const void *a, const void *b) {
  return value_compare(a, b);
}

static void make_unique(struct set *s) {
  if (s->n) qsort(s->values, s->n, sizeof *s->values, by_value);
  size_t n = 0;
  for (size_t i = 0; i < s->n; i++) {
    if (n == 0 || value_compare(&s->values[n - 1], &s->values[i]) != 0) s->values[n++] = s->values[i];
  }
  s->n = n;
}

static struct set set_of(struct arena *a, const bson_value_t *array) {
  struct set s;
  s.values = array_elements(a, array, &s.n);
  make_unique(&s);
  return s;
}

static bool contains(const struct set *s, const bson_value_t *v) {
  return s->n && bsearch(v, s->values, s->n, sizeof *s->values, by_value);
}

static bson_value_t to_array(struct arena *a, const bson_value_t *values, size_t n) {
  struct array_builder list;
  array_begin(&list, a);
  for (size_t i = 0; i < n; i++) array_add(&list, &values[i]);
  return array_end(&list);
}

static bool any_nullish(const struct expr_call *c) {
  for (size_t i = 0; i < c->n; i++) {
    if (value_is_nullish(&c->args[i])) return true;
  }
  return false;
}

static bool all_arrays(const struct expr_call *c, int code) {
  for (size_t i = 0; i < c->n; i++) {
    if (value_is_array(&c->args[i])) continue;
    return error_set(c->v->err, code, "All operands of %s must be arrays. %zu-th argument is of type: %s",
                     c->e->op->name, i + 1, name_of(&c->args[i]));
  }
  return true;
}

static bool call_set_union(const struct expr_call *c, bson_value_t *out) {
  *out = value_null();
  if (any_nullish(c)) return true;
  if (!all_arrays(c, 17043)) return false;
  size_t total = 0;
  bson_iter_t it;
  for (size_t i = 0; i < c->n; i++) {
    for (value_iter(&c->args[i], &it); bson_iter_next(&it);) total++;
  }
  struct set s = {arena_alloc(c->v->scratch, total * sizeof *s.values), 0};
  for (size_t i = 0; i < c->n; i++) {
    for (value_iter(&c->args[i], &it); bson_iter_next(&it);) s.values[s.n++] = *bson_iter_value(&it);
  }
  make_unique(&s);
  *out = to_array(c->v->scratch, s.values, s.n);
  return true;
}

static bool call_set_intersection(const struct expr_call *c, bson_value_t *out) {
  *out = value_null();
  if (any_nullish(c)) return true;
  if (!all_arrays(c, 17047)) return false;
  struct set result = {NULL, 0};
  for (size_t i = 0; i < c->n; i++) {
    struct set s = set_of(c->v->scratch, &c->args[i]);
    if (i == 0) {
      result = s;
      continue;
    }
    size_t n = 0;
    for (size_t k = 0; k < result.n; k++) {
      if (contains(&s, &result.values[k])) result.values[n++] = result.values[k];
    }
    result.n = n;
  }
  *out = to_array(c->v->scratch, result.values, result.n);
  return true;
}

// In the first array's order, each value once.
static bool call_set_difference(const struct expr_call *c, bson_value_t *out) {
  *out = value_null();
  if (any_nullish(c)) return true;
  for (size_t i = 0; i < 2; i++) {
    if (value_is_array(&c->args[i])) continue;
    return error_set(c->v->err, i ? 17049 : 17048,
                     "both operands of $setDifference must be arrays. %s argument is of type: %s",
                     i ? "Second" : "First", name_of(&c->args[i]));
  }
  struct set without = set_of(c->v->scratch, &c->args[1]), all = set_of(c->v->scratch, &c->args[0]);
  bool *given = arena_zalloc(c->v->scratch, all.n);
  struct array_builder list;
  bson_iter_t it;
  array_begin(&list, c->v->scratch);
  for (value_iter(&c->args[0], &it); bson_iter_next(&it);) {
    const bson_value_t *v = bson_iter_value(&it);
    const bson_value_t *at = bsearch(v, all.values, all.n, sizeof *all.values, by_value);
    if (!at || given[at - all.values] || contains(&without, v)) continue;
    given[at - all.values] = true;
    array_add(&list, v);
  }
  *out = array_end(&list);
  return true;
}

static bool is_subset(const struct set *a, const struct set *b) {
  for (size_t i = 0; i < a->n; i++) {
    if (!contains(b, &a->values[i])) return false;
  }
  return true;
}

static bool call_set_is_subset(const struct expr_call *c, bson_value_t *out) {
  for (size_t i = 0; i < 2; i++) {
    if (value_is_array(&c->args[i])) continue;
    return error_set(c->v->err, i ? 17042 : 17046,
                     "both operands of $setIsSubset must be arrays. %s argument is of type: %s", i ? "Second" : "First",
                     name_of(&c->args[i]));
  }
  struct set a = set_of(c->v->scratch, &c->args[0]), b = set_of(c->v->scratch, &c->args[1]);
  *out = value_bool(is_subset(&a, &b));
  return true;
}

static bool call_set_equals(const struct expr_call *c, bson_value_t *out) {
  if (!all_arrays(c, 17044)) return false;
  struct set first = set_of(c->v->scratch, &c->args[0]);
  bool equal = true;
  for (size_t i = 1; i < c->n && equal; i++) {
    struct set s = set_of(c->v->scratch, &c->args[i]);
    equal = s.n == first.n && is_subset(&s, &first);
  }
  *out = value_bool(equal);
  return true;
}

// $allElementsTrue, $anyElementTrue: of one array.
static bool elements_true(const struct expr_call *c, int code, bool deciding, bson_value_t *out) {
  bson_iter_t it;
  if (!value_is_array(&c->args[0])) {
    return error_set(c->v->err, code, "%s's argument must be an array, but is %s", c->e->op->name,
                     name_of(&c->args[0]));
  }
  *out = value_bool(!deciding);
  for (value_iter(&c->args[0], &it); bson_iter_next(&it);) {
    if (expr_truthy(bson_iter_value(&it)) == deciding) {
      *out = value_bool(deciding);
      break;
    }
  }
  return true;
}

static bool call_all_elements_true(const struct expr_call *c, bson_value_t *out) {
  return elements_true(c, 17040, false, out);
}

static bool call_any_element_true(const struct expr_call *c, bson_value_t *out) {
  return elements_true(c, 17041, true, out);
}

const struct expr_operator EXPR_SET[] = {
    {"$setUnion", NULL, 0, EXPR_VARIADIC, .call = call_set_union},
    {"$setIntersection", NULL, 0, EXPR_VARIADIC, .call = call_set_intersection},
    {"$setDifference", NULL, 2, 2, .call = call_set_difference},
    {"$setIsSubset", NULL, 2, 2, .call = call_set_is_subset},
    {"$setEquals", NULL, 2, EXPR_VARIADIC, .call = call_set_equals},
    {"$allElementsTrue", NULL, 1, 1, .call = call_all_elements_true},
    {"$anyElementTrue", NULL, 1, 1, .call = call_any_element_true},
    {NULL},
};
