// Evaluates a filter: walks a path through documents and arrays, and tests what it finds.
//
// How a path is walked (MongoDB's rules). A field name leads into documents. An array on the way is looked through:
// each element that is a document is searched for the rest of the path, and a numeric component also picks the element
// with this index. Where the path ends at an array, its elements are tested first and the array itself last; but an
// element picked by index as the last component is tested only as itself. A missing field is tested as "missing" (NULL)
// where a document lacks it or a scalar stands in the way; an array without a fitting element gives nothing to test.
#include "common/query/match_internal.h"

#include <string.h>

#include "common/query/values.h"

// What a node is evaluated against.
struct subject {
  enum { OF_DOCUMENT, OF_VALUE, OF_BOUND } mode;
  const uint8_t *data; // OF_DOCUMENT
  size_t len;
  const bson_value_t *value; // OF_VALUE: itself, not looked into; OF_BOUND: stands for the first component of paths
};

static bool evaluate(const struct match_node *n, const struct subject *s, int *position);
static bool walk_doc(const struct match_node *n, size_t part, const uint8_t *data, size_t len, int *position);

void match_fail(struct match_runtime *r, const struct error *err) {
  if (r->failure.code == 0) r->failure = *err;
}

// One element of an array against an $elemMatch.
static bool element_matches(const struct match_node *n, const bson_value_t *v) {
  struct subject s = {.mode = OF_VALUE, .value = v};
  if (n->kind == MATCH_ELEM_OBJECT) {
    if (!value_is_doc(v) && !value_is_array(v)) return false;
    s = (struct subject){.mode = OF_DOCUMENT, .data = v->value.v_doc.data, .len = v->value.v_doc.data_len};
  }
  for (size_t i = 0; i < n->n; i++) {
    if (!evaluate(n->children[i], &s, NULL)) return false;
  }
  return true;
}

static bool elem_match(const struct match_node *n, const bson_value_t *v, int *position) {
  if (!v || !value_is_array(v)) return false;
  bson_iter_t it;
  int i = 0;
  for (value_iter(v, &it); bson_iter_next(&it); i++) {
    if (!element_matches(n, bson_iter_value(&it))) continue;
    if (position) *position = i;
    return true;
  }
  return false;
}

static bool is_elem_match(const struct match_node *n) {
  return n->kind == MATCH_ELEM_OBJECT || n->kind == MATCH_ELEM_VALUE;
}

// A value where the path ends, itself.
static bool test_value(const struct match_node *n, const bson_value_t *v, int *position) {
  return is_elem_match(n) ? elem_match(n, v, position) : n->test(n, v);
}

// A value where the path ends, reached by a field's name: arrays are looked into.
static bool test_leaf(const struct match_node *n, const bson_value_t *v, int *position) {
  // $elemMatch and $size speak of the array; for $exists its elements say nothing new.
  bool looks_into = !is_elem_match(n) && n->kind != MATCH_SIZE && n->kind != MATCH_EXISTS;
  if (looks_into && value_is_array(v)) {
    bson_iter_t it;
    int i = 0;
    for (value_iter(v, &it); bson_iter_next(&it); i++) {
      if (!n->test(n, bson_iter_value(&it))) continue;
      if (position) *position = i;
      return true;
    }
  }
  return test_value(n, v, position);
}

// The element itself picked by index, with the rest of the path behind it.
static bool walk_index(const struct match_node *n, size_t part, const bson_value_t *v, int index, int *position);

static bool walk_array(const struct match_node *n, size_t part, const bson_value_t *array, int *position) {
  bson_iter_t it;
  int i = 0;
  int64_t index = n->parts[part].index;
  for (value_iter(array, &it); bson_iter_next(&it); i++) {
    bool document = BSON_ITER_HOLDS_DOCUMENT(&it);
    if (!document && i != index) continue;
    const bson_value_t *v = bson_iter_value(&it);
    if (document && walk_doc(n, part, v->value.v_doc.data, v->value.v_doc.data_len, position)) {
      // Of nested arrays the outermost that was looked through counts.
      if (position) *position = i;
      return true;
    }
    if (i == index && walk_index(n, part, v, i, position)) return true;
  }
  return false;
}

static bool walk_index(const struct match_node *n, size_t part, const bson_value_t *v, int index, int *position) {
  if (part + 1 == n->n_parts) {
    if (!test_value(n, v, position)) return false;
    if (position && !is_elem_match(n)) *position = index;
    return true;
  }
  if (value_is_doc(v)) return walk_doc(n, part + 1, v->value.v_doc.data, v->value.v_doc.data_len, position);
  return value_is_array(v) && walk_array(n, part + 1, v, position);
}

// v was reached by the name of component part - 1.
static bool walk_value(const struct match_node *n, size_t part, const bson_value_t *v, int *position) {
  if (part == n->n_parts) return test_leaf(n, v, position);
  if (value_is_doc(v)) return walk_doc(n, part, v->value.v_doc.data, v->value.v_doc.data_len, position);
  if (value_is_array(v)) return walk_array(n, part, v, position);
  return test_value(n, NULL, position);
}

static bool walk_doc(const struct match_node *n, size_t part, const uint8_t *data, size_t len, int *position) {
  bson_iter_t it;
  const struct path_part *p = &n->parts[part];
  if (!bson_iter_init_from_data(&it, data, len)) return false;
  while (bson_iter_next(&it)) {
    if (bson_iter_key_len(&it) == p->len && memcmp(bson_iter_key(&it), p->name, p->len) == 0) {
      return walk_value(n, part + 1, bson_iter_value(&it), position);
    }
  }
  return test_value(n, NULL, position);
}

static bool evaluate_expr(const struct match_node *n, const struct subject *s) {
  if (s->mode != OF_DOCUMENT) return false;
  struct match_runtime *r = n->runtime;
  if (!r->scratch) r->scratch = arena_new();
  const bson_t *doc = arena_bson_view(r->scratch, s->data, s->len);
  bson_value_t result;
  struct error *failure = r->failure.code ? NULL : &r->failure;
  bool ok = expression_eval(n->expr, r->scratch, doc, &result, failure);
  bool truthy = ok && !value_is_nullish(&result) && value_truthy(&result);
  arena_reset(r->scratch);
  return truthy;
}

static bool evaluate_leaf(const struct match_node *n, const struct subject *s, int *position) {
  switch (s->mode) {
  case OF_DOCUMENT: return walk_doc(n, 0, s->data, s->len, position);
  case OF_BOUND: return walk_value(n, 1, s->value, position);
  default: return test_value(n, s->value, position);
  }
}

static bool evaluate_any(const struct match_node *n, const struct subject *s) {
  for (size_t i = 0; i < n->n; i++) {
    // A disjunction does not say which element matched, nor does a negation.
    if (evaluate(n->children[i], s, NULL)) return true;
  }
  return false;
}

static bool evaluate(const struct match_node *n, const struct subject *s, int *position) {
  switch (n->kind) {
  case MATCH_AND:
    for (size_t i = 0; i < n->n; i++) {
      if (!evaluate(n->children[i], s, position)) return false;
    }
    return true;
  case MATCH_OR: return evaluate_any(n, s);
  case MATCH_NOR: return !evaluate_any(n, s);
  case MATCH_NOT: return !evaluate(n->children[0], s, NULL);
  case MATCH_TRUE: return true;
  case MATCH_FALSE: return false;
  case MATCH_EXPR: return evaluate_expr(n, s);
  default: return evaluate_leaf(n, s, position);
  }
}

bool match_node_doc(const struct match_node *n, const uint8_t *data, size_t len, int *position) {
  struct subject s = {.mode = OF_DOCUMENT, .data = data, .len = len};
  return evaluate(n, &s, position);
}

bool match_node_value(const struct match_node *n, const bson_value_t *v) {
  struct subject s = {.mode = OF_VALUE, .value = v};
  return evaluate(n, &s, NULL);
}

bool match_doc(const struct match *m, const bson_t *doc) {
  return match_node_doc(m->root, bson_get_data(doc), doc->len, NULL) && m->runtime->failure.code == 0;
}

bool match_doc_position(const struct match *m, const bson_t *doc, int *position) {
  *position = -1;
  return match_node_doc(m->root, bson_get_data(doc), doc->len, position) && m->runtime->failure.code == 0;
}

bool match_value(const struct match *m, const bson_value_t *v) {
  struct subject s = {.mode = OF_BOUND, .value = v};
  return evaluate(m->root, &s, NULL) && m->runtime->failure.code == 0;
}

bool match_ok(const struct match *m, struct error *err) {
  if (m->runtime->failure.code == 0) return true;
  if (err) *err = m->runtime->failure;
  return false;
}
