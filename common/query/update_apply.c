// Applies an update's tree to a document: walks both side by side and writes the new document.
#include <string.h>

#include "common/query/update_internal.h"

enum { MAX_PADDING = 1500000 }; // nulls that setting a far array element may create

// The new value of what a node speaks of; missing: not there, before or behind.
static bool apply_node(const struct update_node *n, struct update_run *r, const bson_value_t *old, bson_value_t *out);

const char *update_document_id(const struct update_run *r) {
  bson_value_t id;
  if (!doc_value(r->doc, "_id", &id)) return "{no id}";
  return arena_printf(r->arena, "{_id: %s}", value_text(r->arena, &id));
}

static const char *element_text(const struct update_node *n, struct update_run *r, const bson_value_t *v) {
  return arena_printf(r->arena, "{%s: %s}", n->name, value_text(r->arena, v));
}

static bool not_viable(const struct update_node *child, const struct update_node *n, struct update_run *r,
                       const bson_value_t *v) {
  return error_set(r->err, ERR_PathNotViable, "Cannot create field '%s' in element %s", child->name,
                   element_text(n, r, v));
}

// --- documents ---

static size_t child_named(const struct update_node *n, const char *name) {
  size_t i = 0;
  while (i < n->n && (n->children[i]->step != STEP_FIELD || strcmp(n->children[i]->name, name) != 0)) i++;
  return i;
}

static bool apply_fields(const struct update_node *n, struct update_run *r, const bson_value_t *old, bson_t *out) {
  bson_iter_t it;
  bson_value_t v, missing = value_missing();
  bool *there = arena_zalloc(r->arena, n->n);
  if (!value_is_missing(old)) {
    for (value_iter(old, &it); bson_iter_next(&it);) {
      const bson_value_t *field = bson_iter_value(&it);
      size_t i = child_named(n, bson_iter_key(&it));
      if (i == n->n || there[i]) {
        doc_append_value(out, bson_iter_key(&it), field);
        continue;
      }
      there[i] = true;
      if (!apply_node(n->children[i], r, field, &v)) return false;
      if (!value_is_missing(&v)) doc_append_value(out, bson_iter_key(&it), &v);
    }
  }
  for (size_t i = 0; i < n->n; i++) {
    if (there[i]) continue;
    if (!apply_node(n->children[i], r, &missing, &v)) return false;
    if (!value_is_missing(&v)) doc_append_value(out, n->children[i]->name, &v);
  }
  return true;
}

// Steps into arrays have nothing to do where there is no array.
static bool refuse_array_steps(const struct update_node *n, struct update_run *r, const bson_value_t *old) {
  for (size_t i = 0; i < n->n; i++) {
    if (n->children[i]->step == STEP_FIELD || !update_tree_creates(n->children[i], r)) continue;
    if (n->children[i]->step == STEP_POSITIONAL && r->position < 0) {
      return error_set(r->err, ERR_BadValue, "The positional operator did not find the match needed from the query.");
    }
    if (value_is_missing(old)) {
      return error_set(r->err, ERR_BadValue,
                       "The path '%s' must exist in the document in order to apply array updates.", n->path);
    }
    return error_set(r->err, ERR_BadValue, "Cannot apply array updates to non-array element %s",
                     element_text(n, r, old));
  }
  return true;
}

static bool has_array_steps(const struct update_node *n) {
  for (size_t i = 0; i < n->n; i++) {
    if (n->children[i]->step != STEP_FIELD) return true;
  }
  return false;
}

// --- arrays ---

// Whether a child speaks of the element at index i.
static bool speaks_of(const struct update_node *child, const struct update_run *r, int64_t i, const bson_value_t *v) {
  switch (child->step) {
  case STEP_FIELD: return child->index == i;
  case STEP_POSITIONAL: return r->position == i;
  case STEP_ALL: return true;
  default: return match_value(child->filter, v);
  }
}

static bool apply_element(const struct update_node *n, struct update_run *r, int64_t i, const bson_value_t *v,
                          bson_value_t *out) {
  struct update_node **of = arena_alloc(r->arena, n->n * sizeof(struct update_node *));
  size_t count = 0;
  *out = *v;
  for (size_t k = 0; k < n->n; k++) {
    if (speaks_of(n->children[k], r, i, v)) of[count++] = n->children[k];
  }
  if (count == 0) return true;
  const struct update_node *joined = update_tree_merge(r->arena, of, count, r->err);
  if (!joined || !apply_node(joined, r, v, out)) return false;
  if (value_is_missing(out)) *out = value_null(); // an array keeps its other elements' places
  return true;
}

static void append_element(bson_t *out, int64_t i, const bson_value_t *v) {
  char text[16];
  const char *key;
  bson_uint32_to_string((uint32_t)i, &key, text, sizeof text);
  doc_append_value(out, key, v);
}

// Elements behind the array's end: nulls fill the gap.
static bool append_new_elements(const struct update_node *n, struct update_run *r, int64_t size, bson_t *out) {
  bson_value_t v, missing = value_missing(), null = value_null();
  for (size_t k = 0; k < n->n; k++) { // children are in the order of their index
    const struct update_node *child = n->children[k];
    int64_t index = child->step == STEP_POSITIONAL ? r->position : child->index;
    if (child->step == STEP_ALL || child->step == STEP_FILTERED || index < size) continue;
    if (!apply_node(child, r, &missing, &v)) return false;
    if (value_is_missing(&v)) continue;
    if (index - size > MAX_PADDING) {
      return error_set(r->err, ERR_BadValue, "the update at '%s' would fill an array with more than %d nulls",
                       child->path, MAX_PADDING);
    }
    for (; size < index; size++) append_element(out, size, &null);
    append_element(out, size++, &v);
  }
  return true;
}

static bool apply_array(const struct update_node *n, struct update_run *r, const bson_value_t *old, bson_t *out) {
  for (size_t k = 0; k < n->n; k++) {
    const struct update_node *child = n->children[k];
    if (child->step == STEP_POSITIONAL && r->position < 0) {
      return error_set(r->err, ERR_BadValue, "The positional operator did not find the match needed from the query.");
    }
    bool name = child->step == STEP_FIELD && child->index < 0;
    if (name && update_tree_creates(child, r)) return not_viable(child, n, r, old);
  }
  bson_iter_t it;
  bson_value_t v;
  int64_t i = 0;
  for (value_iter(old, &it); bson_iter_next(&it); i++) {
    if (!apply_element(n, r, i, bson_iter_value(&it), &v)) return false;
    append_element(out, i, &v);
  }
  return append_new_elements(n, r, i, out);
}

// --- any node ---

static bool apply_node(const struct update_node *n, struct update_run *r, const bson_value_t *old, bson_value_t *out) {
  *out = *old;
  if (n->leaf) return !update_leaf_is_active(n->leaf, r) || n->leaf->op->apply(n->leaf, r, old, out);
  if (value_is_array(old)) {
    bson_t *array = arena_bson(r->arena);
    if (!apply_array(n, r, old, array)) return false;
    *out = value_array(array);
    return true;
  }
  bool document = value_is_doc(old), missing = value_is_missing(old);
  if (has_array_steps(n)) {
    if (!refuse_array_steps(n, r, old)) return false;
    if (!document) return true;
  }
  if (missing && !update_tree_creates(n, r)) return true;
  if (!document && !missing) {
    for (size_t i = 0; i < n->n; i++) {
      if (update_tree_creates(n->children[i], r)) return not_viable(n->children[i], n, r, old);
    }
    return true;
  }
  bson_t *doc = arena_bson(r->arena);
  if (!apply_fields(n, r, old, doc)) return false;
  if (!missing || !bson_empty(doc)) *out = value_doc(doc);
  return true;
}

bool update_apply_tree(const struct update_node *root, struct update_run *r, bson_t *out) {
  bson_value_t whole = value_doc(r->doc);
  return apply_fields(root, r, &whole, out);
}
