// What a filter says, for those who plan by it: the equalities it demands, and its normal form for explain.
#include "common/query/match_internal.h"

#include <stdlib.h>
#include <string.h>

#include "common/bson/path.h"
#include "common/query/type_names.h"
#include "common/query/values.h"

// --- equalities ---

// Does the equality `n` fix `path`? Also {a: {b: 1}} fixes "a.b".
static bool fixes(const struct match_node *n, const char *path, bson_value_t *out) {
  if (n->kind != MATCH_EQ) return false;
  if (strcmp(n->path, path) == 0) {
    *out = n->value;
    return true;
  }
  size_t len = strlen(n->path);
  if (!value_is_doc(&n->value) || strncmp(n->path, path, len) != 0 || path[len] != '.') return false;
  bson_t inside;
  doc_view(&inside, n->value.value.v_doc.data, n->value.value.v_doc.data_len);
  return path_get(&inside, path + len + 1, out);
}

bool match_equality(const struct match *m, const char *path, bson_value_t *out) {
  const struct match_node *root = m->root;
  if (root->kind != MATCH_AND) return fixes(root, path, out);
  // Conjunctions inside conjunctions were flattened by the parser.
  for (size_t i = 0; i < root->n; i++) {
    if (fixes(root->children[i], path, out)) return true;
  }
  return false;
}

void match_each_equality(const struct match *m, bool (*fn)(void *ctx, const char *path, const bson_value_t *v),
                         void *ctx) {
  const struct match_node *root = m->root;
  if (root->kind == MATCH_EQ) {
    fn(ctx, root->path, &root->value);
    return;
  }
  if (root->kind != MATCH_AND) return;
  for (size_t i = 0; i < root->n; i++) {
    const struct match_node *child = root->children[i];
    if (child->kind == MATCH_EQ && !fn(ctx, child->path, &child->value)) return;
  }
}

// --- normal form ---

static void describe_operator(const struct match_node *n, bson_t *out);

static int compare_nodes(const void *a, const void *b) {
  const struct match_node *x = *(const struct match_node *const *)a, *y = *(const struct match_node *const *)b;
  if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
  return x->path && y->path ? strcmp(x->path, y->path) : 0;
}

static void describe_list(const struct match_node *n, const char *name, bson_t *out) {
  const struct match_node **sorted = malloc((n->n + 1) * sizeof(struct match_node *));
  if (!sorted) return;
  for (size_t i = 0; i < n->n; i++) sorted[i] = n->children[i];
  // Only a conjunction's children are sorted: the order of the others is the user's.
  if (n->kind == MATCH_AND) qsort(sorted, n->n, sizeof(struct match_node *), compare_nodes);
  bson_t array, child;
  bson_append_array_begin(out, name, -1, &array);
  for (size_t i = 0; i < n->n; i++) {
    char key[16];
    const char *k;
    bson_uint32_to_string((uint32_t)i, &k, key, sizeof key);
    bson_append_document_begin(&array, k, -1, &child);
    match_describe_node(sorted[i], &child);
    bson_append_document_end(&array, &child);
  }
  bson_append_array_end(out, &array);
  free(sorted);
}

static void append_positions(const struct match_node *n, bson_t *out) {
  bson_t array;
  bson_append_array_begin(out, n->name, -1, &array);
  for (size_t i = 0; i < n->bits.n; i++) {
    char key[16];
    const char *k;
    bson_uint32_to_string((uint32_t)i, &k, key, sizeof key);
    bson_append_int32(&array, k, -1, (int32_t)n->bits.positions[i]);
  }
  bson_append_array_end(out, &array);
}

static void append_types(const struct match_node *n, bson_t *out) {
  bson_t array;
  uint32_t count = 0;
  bson_append_array_begin(out, n->name, -1, &array);
  for (int code = -1; code <= 127; code++) {
    bson_type_t type;
    char key[16];
    const char *k;
    if (!type_from_number(code, &type) || !(n->types & type_bit(type))) continue;
    bson_uint32_to_string(count++, &k, key, sizeof key);
    bson_append_int32(&array, k, -1, code);
  }
  bson_append_array_end(out, &array);
}

static void append_in(const struct match_node *n, bson_t *out) {
  bson_t array;
  bson_append_array_begin(out, "$in", -1, &array);
  for (size_t i = 0; i < n->n_in + n->n_regexes; i++) {
    char key[16];
    const char *k;
    bson_uint32_to_string((uint32_t)i, &k, key, sizeof key);
    doc_append_value(&array, k, i < n->n_in ? &n->in[i] : &n->regex_values[i - n->n_in]);
  }
  bson_append_array_end(out, &array);
}

// Conditions on one path joined in one operator document.
static void describe_operators(const struct match_node *n, const char *name, bson_t *out) {
  bson_t inside;
  bson_append_document_begin(out, name, -1, &inside);
  for (size_t i = 0; i < n->n; i++) {
    const struct match_node *child = n->children[i];
    if (child->kind == MATCH_AND) {
      for (size_t k = 0; k < child->n; k++) describe_operator(child->children[k], &inside);
    } else {
      describe_operator(child, &inside);
    }
  }
  bson_append_document_end(out, &inside);
}

// {$gt: 5}, what stands behind the path.
static void describe_operator(const struct match_node *n, bson_t *out) {
  bson_t inside;
  switch (n->kind) {
  case MATCH_IN: append_in(n, out); return;
  case MATCH_TYPE: append_types(n, out); return;
  case MATCH_BITS: append_positions(n, out); return;
  case MATCH_NOT: describe_operators(n, "$not", out); return;
  case MATCH_ELEM_VALUE: describe_operators(n, "$elemMatch", out); return;
  case MATCH_ELEM_OBJECT:
    bson_append_document_begin(out, "$elemMatch", -1, &inside);
    match_describe_node(n->children[0], &inside);
    bson_append_document_end(out, &inside);
    return;
  case MATCH_REGEX:
    bson_append_utf8(out, "$regex", -1, n->regex_values[0].value.v_regex.regex, -1);
    if (n->regex_values[0].value.v_regex.options[0]) {
      bson_append_utf8(out, "$options", -1, n->regex_values[0].value.v_regex.options, -1);
    }
    return;
  case MATCH_FALSE:
  case MATCH_TRUE: bson_append_int32(out, n->name, -1, 1); return;
  default: doc_append_value(out, n->name, &n->value); return;
  }
}

void match_describe_node(const struct match_node *n, bson_t *out) {
  bson_t inside;
  switch (n->kind) {
  case MATCH_AND:
    if (n->n > 0) describe_list(n, "$and", out);
    return;
  case MATCH_OR: describe_list(n, "$or", out); return;
  case MATCH_NOR: describe_list(n, "$nor", out); return;
  case MATCH_EXPR:
  case MATCH_TRUE:
  case MATCH_FALSE:
    if (n->kind == MATCH_EXPR)
      doc_append_value(out, n->name, &n->value);
    else
      bson_append_int32(out, n->name, -1, 1);
    return;
  default:
    bson_append_document_begin(out, n->path, -1, &inside);
    describe_operator(n, &inside);
    bson_append_document_end(out, &inside);
  }
}

void match_describe(const struct match *m, bson_t *out) {
  match_describe_node(m->root, out);
}
