// $zip and $sortArray.
#include <stdlib.h>
#include <string.h>

#include "common/bson/compare.h"
#include "common/query/expression_families.h"
#include "common/query/sort.h"
#include "common/query/type_names.h"

static const char *name_of(const bson_value_t *v) {
  return type_name(v->value_type);
}

// {inputs: [arrays], useLongestLength: bool, defaults: [values]}
static bool zip_arguments(const struct expr_call *c, const bson_value_t **arrays, const bson_value_t **fill,
                          size_t *n) {
  const bson_value_t *inputs = &c->args[0], *defaults = &c->args[2];
  size_t n_defaults = 0;
  if (!value_is_array(inputs)) {
    return error_set(c->v->err, 34461, "inputs must be an array of expressions, found %s", name_of(inputs));
  }
  *arrays = array_elements(c->v->scratch, inputs, n);
  if (*n == 0) return error_set(c->v->err, 34465, "$zip requires at least one input array");
  if (value_is_missing(defaults)) return true;
  if (!value_is_array(defaults)) {
    return error_set(c->v->err, 34462, "defaults must be an array of expressions, found %s", name_of(defaults));
  }
  if (!expr_truthy(&c->args[1])) {
    return error_set(c->v->err, 34466, "cannot specify defaults unless useLongestLength is true");
  }
  *fill = array_elements(c->v->scratch, defaults, &n_defaults);
  return n_defaults == *n || error_set(c->v->err, 34467, "defaults and inputs must have the same length");
}

static bool call_zip(const struct expr_call *c, bson_value_t *out) {
  bool longest = expr_truthy(&c->args[1]);
  size_t n, rows = 0;
  const bson_value_t *arrays = NULL, *fill = NULL;
  *out = value_null();
  if (!zip_arguments(c, &arrays, &fill, &n)) return false;
  const bson_value_t **columns = arena_alloc(c->v->scratch, n * sizeof(const bson_value_t *));
  size_t *lengths = arena_alloc(c->v->scratch, n * sizeof *lengths);
  for (size_t i = 0; i < n; i++) {
    if (value_is_nullish(&arrays[i])) return true;
    if (!value_is_array(&arrays[i])) {
      return error_set(c->v->err, 34468, "$zip found a non-array expression in input: %s",
                       value_text(c->v->scratch, &arrays[i]));
    }
    columns[i] = array_elements(c->v->scratch, &arrays[i], &lengths[i]);
    if (i == 0 || (longest ? lengths[i] > rows : lengths[i] < rows)) rows = lengths[i];
  }
  struct array_builder list;
  array_begin(&list, c->v->scratch);
  for (size_t row = 0; row < rows; row++) {
    struct array_builder one;
    bson_value_t null = value_null();
    array_begin(&one, c->v->scratch);
    for (size_t i = 0; i < n; i++) array_add(&one, row < lengths[i] ? &columns[i][row] : fill ? &fill[i] : &null);
    bson_value_t v = array_end(&one);
    array_add(&list, &v);
  }
  *out = array_end(&list);
  return true;
}

// --- $sortArray ---

struct sort_entry {
  const bson_value_t *v;
  struct buf key; // of documents sorted by a pattern
  size_t at;
  int direction; // of whole values
};

static int by_sort_key(const void *a, const void *b) {
  const struct sort_entry *x = a, *y = b;
  size_t n = x->key.len < y->key.len ? x->key.len : y->key.len;
  int order = n ? memcmp(x->key.data, y->key.data, n) : 0;
  if (!order && x->direction) order = value_compare(x->v, y->v) * x->direction;
  return order ? order : (x->at > y->at) - (x->at < y->at);
}

static bool call_sort_array(const struct expr_call *c, bson_value_t *out) {
  const bson_value_t *input = &c->args[0], *by = &c->args[1];
  struct sort *sort = NULL;
  int64_t direction = 0;
  *out = value_null();
  if (value_is_nullish(input)) return true;
  if (!value_is_array(input)) {
    return error_set(c->v->err, 2942504, "The input argument to $sortArray must be an array, but was of type: %s",
                     name_of(input));
  }
  if (value_is_doc(by)) {
    bson_t pattern;
    doc_view(&pattern, by->value.v_doc.data, by->value.v_doc.data_len);
    sort = sort_parse(c->v->scratch, &pattern, c->v->err);
    if (!sort) return false;
  } else if (!value_is_integral(by, &direction) || (direction != 1 && direction != -1)) {
    return error_set(c->v->err, 2942507, "The $sort element value must be either 1 or -1");
  }
  size_t n;
  const bson_value_t *elements = array_elements(c->v->scratch, input, &n);
  struct sort_entry *entries = arena_zalloc(c->v->scratch, n * sizeof *entries);
  static const uint8_t empty[] = {5, 0, 0, 0, 0};
  for (size_t i = 0; i < n; i++) {
    entries[i] = (struct sort_entry){.v = &elements[i], .at = i, .direction = (int)direction};
    bson_t doc;
    if (value_is_doc(&elements[i]))
      doc_view(&doc, elements[i].value.v_doc.data, elements[i].value.v_doc.data_len);
    else
      doc_view(&doc, empty, sizeof empty); // has no field, whatever it is
    if (sort) sort_key_append(sort, &doc, &entries[i].key);
  }
  qsort(entries, n, sizeof *entries, by_sort_key);
  struct array_builder list;
  array_begin(&list, c->v->scratch);
  for (size_t i = 0; i < n; i++) {
    array_add(&list, entries[i].v);
    buf_free(&entries[i].key);
  }
  *out = array_end(&list);
  return true;
}

// sortBy is a number or a sort pattern, no expression.
static bool parse_sort_array(struct expr_parser *p, struct expression *e, const bson_value_t *spec) {
  bson_iter_t it;
  if (!value_is_doc(spec)) {
    return error_set(p->err, 2942500, "$sortArray requires an object as an argument, found: %s", name_of(spec));
  }
  e->n = 2;
  e->args = arena_zalloc(p->arena, e->n * sizeof(struct expression *));
  for (value_iter(spec, &it); bson_iter_next(&it);) {
    const bson_value_t *v = bson_iter_value(&it);
    if (strcmp(bson_iter_key(&it), "input") == 0) {
      e->args[0] = expr_parse(p, v);
      if (!e->args[0]) return false;
    } else if (strcmp(bson_iter_key(&it), "sortBy") == 0) {
      e->args[1] = expr_constant(p->arena, value_copy(p->arena, v));
    } else {
      return error_set(p->err, 2942501, "$sortArray found an unknown argument: %s", bson_iter_key(&it));
    }
  }
  if (!e->args[0]) return error_set(p->err, 2942502, "$sortArray requires 'input' to be specified");
  return e->args[1] || error_set(p->err, 2942503, "$sortArray requires 'sortBy' to be specified");
}

const struct expr_operator EXPR_ARRANGE[] = {
    {"$zip", "inputs* useLongestLength defaults", 0, 0, .call = call_zip},
    {"$sortArray", "input* sortBy*", 0, 0, .call = call_sort_array, .parse = parse_sort_array},
    {NULL},
};
