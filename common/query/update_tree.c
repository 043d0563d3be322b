// The tree of an update: paths, conflicts, merging.
#include "common/query/update_internal.h"

#include <stdlib.h>
#include <string.h>

enum { PATH_MAX_PARTS = 180 }; // as deep as documents may be

struct update_node *update_tree_child(const struct update_node *n, const char *name, size_t len) {
  for (size_t i = 0; i < n->n; i++) {
    if (strncmp(n->children[i]->name, name, len) == 0 && !n->children[i]->name[len]) return n->children[i];
  }
  return NULL;
}

// The order in which new fields are created.
static int compare_names(const struct update_node *a, const struct update_node *b) {
  if (a->index >= 0 && b->index >= 0) return (a->index > b->index) - (a->index < b->index);
  return strcmp(a->name, b->name);
}

static void insert_child(struct arena *a, struct update_node *to, struct update_node *child) {
  if ((to->n & (to->n + 1)) == 0) { // full at every 2^k - 1
    struct update_node **grown = arena_alloc(a, (2 * to->n + 1) * sizeof(struct update_node *));
    if (to->n) memcpy(grown, to->children, to->n * sizeof(struct update_node *));
    to->children = grown;
  }
  size_t i = to->n++;
  for (; i && compare_names(to->children[i - 1], child) > 0; i--) to->children[i] = to->children[i - 1];
  to->children[i] = child;
}

static int64_t index_of(const char *name, size_t len) {
  if (len == 0 || len > 9 || (len > 1 && name[0] == '0')) return -1;
  int64_t n = 0;
  for (size_t i = 0; i < len; i++) {
    if (name[i] < '0' || name[i] > '9') return -1;
    n = n * 10 + (name[i] - '0');
  }
  return n;
}

// Finds out what kind of step a component is: a name, `$`, `$[]` or `$[id]`.
static bool classify(struct update_parser *p, struct update_node *n, const char *full, bool first) {
  size_t len = strlen(n->name);
  n->index = index_of(n->name, len);
  if (n->name[0] != '$') return true;
  bool positional = len == 1, all = strcmp(n->name, "$[]") == 0;
  bool filtered = !all && len > 3 && n->name[1] == '[' && n->name[len - 1] == ']';
  if (!positional && !all && !filtered) {
    return error_set(p->err, ERR_DollarPrefixedFieldName,
                     "The dollar ($) prefixed field '%s' in '%s' is not valid for storage.", n->name, full);
  }
  if (first) {
    return error_set(p->err, ERR_BadValue, "Cannot have %s (i.e. '%s') element in the first position in path '%s'",
                     positional ? "positional" : "array filter identifier", n->name, full);
  }
  n->step = positional ? STEP_POSITIONAL : all ? STEP_ALL : STEP_FILTERED;
  for (size_t i = 0; filtered && i < p->n_filters; i++) {
    struct array_filter *f = &p->filters[i];
    if (strncmp(f->name, n->name + 2, len - 3) != 0 || f->name[len - 3]) continue;
    f->used = true;
    n->filter = f->match;
  }
  if (filtered && !n->filter) {
    return error_set(p->err, ERR_BadValue, "No array filter found for identifier '%.*s' in path '%s'", (int)len - 3,
                     n->name + 2, full);
  }
  return true;
}

static bool conflict(struct update_parser *p, const char *path, const char *at) {
  return error_set(p->err, 40, "Updating the path '%s' would create a conflict at '%s'", path, at);
}

bool update_tree_leaf(struct update_parser *p, const char *path, struct update_leaf *l) {
  struct update_node *node = p->root;
  size_t parts = 0, positionals = 0;
  if (!*path) return error_set(p->err, ERR_EmptyFieldName, "An empty update path is not valid.");
  for (const char *at = path;; parts++) {
    size_t len = strcspn(at, ".");
    if (len == 0) {
      return error_set(p->err, ERR_EmptyFieldName,
                       "The update path '%s' contains an empty field name, which is not allowed.", path);
    }
    if (parts == PATH_MAX_PARTS) return error_set(p->err, ERR_Overflow, "The update path '%s' is too deep", path);
    positionals += len == 1 && at[0] == '$';
    if (positionals > 1) {
      return error_set(p->err, ERR_BadValue, "Too many positional (i.e. '$') elements found in path '%s'", path);
    }
    bool last = !at[len];
    const char *so_far = arena_strndup(p->arena, path, (size_t)(at - path) + len);
    struct update_node *child = update_tree_child(node, at, len);
    if (child && (last || child->leaf)) return conflict(p, path, so_far);
    if (!child) {
      child = arena_zalloc(p->arena, sizeof *child);
      child->name = arena_strndup(p->arena, at, len);
      child->path = so_far;
      if (!classify(p, child, path, node == p->root)) return false;
      insert_child(p->arena, node, child);
    }
    node = child;
    if (last) break;
    at += len + 1;
  }
  node->leaf = l;
  return true;
}

struct update_node *update_tree_merge(struct arena *a, struct update_node *const *nodes, size_t n, struct error *err) {
  if (n == 1) return nodes[0];
  for (size_t i = 0; i < n; i++) {
    if (!nodes[i]->leaf) continue;
    error_set(err, 40, "Update created a conflict at '%s'", nodes[i]->path);
    return NULL;
  }
  struct update_node *out = arena_alloc(a, sizeof *out);
  *out = *nodes[0];
  out->children = NULL;
  out->n = 0;
  struct update_node **same = arena_alloc(a, n * sizeof(struct update_node *));
  for (size_t i = 0; i < n; i++) {
    for (size_t k = 0; k < nodes[i]->n; k++) {
      const struct update_node *child = nodes[i]->children[k];
      if (update_tree_child(out, child->name, strlen(child->name))) continue; // joined already
      size_t count = 0;
      for (size_t other = i; other < n; other++) {
        struct update_node *found = update_tree_child(nodes[other], child->name, strlen(child->name));
        if (found) same[count++] = found;
      }
      struct update_node *joined = update_tree_merge(a, same, count, err);
      if (!joined) return NULL;
      insert_child(a, out, joined);
    }
  }
  return out;
}

bool update_tree_creates(const struct update_node *n, const struct update_run *r) {
  if (n->leaf) return n->leaf->op->creates && update_leaf_is_active(n->leaf, r);
  for (size_t i = 0; i < n->n; i++) {
    if (update_tree_creates(n->children[i], r)) return true;
  }
  return false;
}

bool update_tree_touches(const struct update_node *root, const char *path) {
  const struct update_node *node = root;
  for (const char *at = path;;) {
    size_t len = strcspn(at, ".");
    // A step into an array may be any element.
    for (size_t i = 0; i < node->n; i++) {
      if (node->children[i]->step != STEP_FIELD) return true;
    }
    node = update_tree_child(node, at, len);
    if (!node) return false;
    if (node->leaf || !at[len]) return true;
    at += len + 1;
  }
}
