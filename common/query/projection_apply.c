// Applies projections to documents.
//
// Fields of the document come first, in their own order; computed fields that it has not come behind them, in the order
// of the specification. Below an array a nested projection applies to each element that is a document.
#include <string.h>

#include "common/query/projection_internal.h"
#include "common/query/values.h"

struct application {
  const struct projection *p;
  struct arena *scratch;
  const bson_t *doc; // what expressions see
  int position;      // of the element that the query matched, -1 = none
  struct error *err;
};

static bool apply_document(struct application *x, const struct projection_node *n, const bson_value_t *doc,
                           bson_t *out);

static bool append_computed(struct application *x, const struct projection_node *n, bson_t *out) {
  bson_value_t v;
  if (!expression_eval(n->expr, x->scratch, x->doc, &v, x->err)) return false;
  if (!value_is_missing(&v)) doc_append_value(out, n->name, &v);
  return true;
}

// --- nested fields ---

// *result: missing when nothing is left of the value.
static bool apply_value(struct application *x, const struct projection_node *n, const bson_value_t *v,
                        bson_value_t *result) {
  bson_t *out = arena_bson(x->scratch);
  if (value_is_doc(v)) {
    if (!apply_document(x, n, v, out)) return false;
    *result = value_doc(out);
    return true;
  }
  if (!value_is_array(v)) {
    *result = x->p->mode == PROJECT_INCLUDE ? value_missing() : *v;
    if (x->p->mode != PROJECT_ADD || !n->adds) return true;
    // A computed field below takes the scalar's place.
    bson_value_t none = value_doc(arena_bson(x->scratch));
    if (!apply_document(x, n, &none, out)) return false;
    *result = value_doc(out);
    return true;
  }
  bson_iter_t it;
  uint32_t i = 0;
  for (value_iter(v, &it); bson_iter_next(&it);) {
    bson_value_t element;
    char text[16];
    const char *key;
    if (!apply_value(x, n, bson_iter_value(&it), &element)) return false;
    if (value_is_missing(&element)) continue;
    bson_uint32_to_string(i++, &key, text, sizeof text);
    doc_append_value(out, key, &element);
  }
  *result = value_array(out);
  return true;
}

// --- arrays cut down ---

static bson_value_t elements_from(struct application *x, const bson_value_t *array, int64_t first, int64_t count) {
  bson_t *out = arena_bson(x->scratch);
  bson_iter_t it;
  int64_t i = 0;
  uint32_t kept = 0;
  for (value_iter(array, &it); bson_iter_next(&it); i++) {
    if (i < first) continue;
    if (i - first >= count) break;
    char text[16];
    const char *key;
    bson_uint32_to_string(kept++, &key, text, sizeof text);
    doc_append_value(out, key, bson_iter_value(&it));
  }
  return value_array(out);
}

static bson_value_t apply_slice(struct application *x, const struct projection_node *n, const bson_value_t *v) {
  if (!value_is_array(v)) return *v;
  bson_iter_t it;
  int64_t size = 0, first = n->skip, count = n->limit;
  for (value_iter(v, &it); bson_iter_next(&it);) size++;
  if (count < 0) { // the last ones; "[skip, limit]" has no negative limit
    first = count <= -size ? 0 : size + count;
    count = size;
  } else if (first < 0) {
    first = first <= -size ? 0 : size + first;
  }
  return elements_from(x, v, first, count);
}

static bool append_positional(struct application *x, const struct projection_node *n, const bson_value_t *v,
                              bson_t *out) {
  bson_value_t one = *v;
  if (value_is_array(v)) {
    if (x->position < 0) {
      return error_set(x->err, 51246,
                       "Executor error during find command :: caused by :: positional operator '.$' "
                       "couldn't find a matching element in the array");
    }
    one = elements_from(x, v, x->position, 1);
  }
  doc_append_value(out, n->name, &one);
  return true;
}

// The first element that matches, as an array of one; nothing when none does.
static void append_elem_match(struct application *x, const struct projection_node *n, const bson_value_t *v,
                              bson_t *out) {
  if (!value_is_array(v)) return;
  bson_iter_t it;
  int64_t i = 0;
  for (value_iter(v, &it); bson_iter_next(&it); i++) {
    bson_value_t one = elements_from(x, v, i, 1);
    if (!match_value(n->match, &one)) continue;
    doc_append_value(out, n->name, &one);
    return;
  }
}

// --- documents ---

// A field that the document has and the projection speaks of. *done: it needs no second look behind the others.
static bool apply_field(struct application *x, const struct projection_node *n, const bson_value_t *v, bson_t *out,
                        bool *done) {
  bson_value_t result;
  *done = true;
  switch (n->kind) {
  case NODE_INCLUDE: doc_append_value(out, n->name, v); return true;
  case NODE_EXCLUDE: return true;
  case NODE_SLICE:
    result = apply_slice(x, n, v);
    doc_append_value(out, n->name, &result);
    return true;
  case NODE_POSITIONAL: return append_positional(x, n, v, out);
  case NODE_COMPUTED:
    if (x->p->mode == PROJECT_ADD) return append_computed(x, n, out);
    *done = false;
    return true;
  case NODE_ELEM_MATCH: *done = false; return true;
  default: break;
  }
  if (!apply_value(x, n, v, &result)) return false;
  *done = !value_is_missing(&result);
  if (*done) doc_append_value(out, n->name, &result);
  return true;
}

// What comes behind the document's own fields.
static bool append_rest(struct application *x, const struct projection_node *n, const bson_value_t *doc,
                        const bool *done, bson_t *out) {
  bson_t view;
  bson_value_t v;
  for (size_t i = 0; i < n->n; i++) {
    const struct projection_node *child = n->children[i];
    if (done[i] || !child->adds) continue;
    if (child->kind == NODE_COMPUTED) {
      if (!append_computed(x, child, out)) return false;
    } else if (child->kind == NODE_ELEM_MATCH) {
      doc_view(&view, doc->value.v_doc.data, doc->value.v_doc.data_len);
      if (doc_value(&view, child->name, &v)) append_elem_match(x, child, &v, out);
    } else {
      bson_value_t none = value_doc(arena_bson(x->scratch));
      if (!apply_value(x, child, &none, &v)) return false;
      doc_append_value(out, child->name, &v);
    }
  }
  return true;
}

static size_t index_of(const struct projection_node *n, const char *name) {
  size_t i = 0;
  while (i < n->n && strcmp(n->children[i]->name, name) != 0) i++;
  return i;
}

static bool apply_document(struct application *x, const struct projection_node *n, const bson_value_t *doc,
                           bson_t *out) {
  bson_iter_t it;
  bool *done = arena_zalloc(x->scratch, n->n);
  for (value_iter(doc, &it); bson_iter_next(&it);) {
    size_t i = index_of(n, bson_iter_key(&it));
    if (i == n->n) {
      if (x->p->mode != PROJECT_INCLUDE) doc_append_value(out, bson_iter_key(&it), bson_iter_value(&it));
    } else if (!apply_field(x, n->children[i], bson_iter_value(&it), out, &done[i])) {
      return false;
    }
  }
  return append_rest(x, n, doc, done, out);
}

bool projection_apply(const struct projection *p, struct arena *scratch, const bson_t *doc, bson_t *out,
                      struct error *err) {
  struct application x = {.p = p, .scratch = scratch, .doc = doc, .position = -1, .err = err};
  if (p->positional) match_doc_position(p->match, doc, &x.position);
  bson_value_t whole = value_doc(doc);
  return apply_document(&x, p->root, &whole, out);
}
