// From a filter's tree to the intervals of each field of a key pattern.
//
// The tree is walked once; every node gives a set of values for each field of the pattern: a superset of what documents
// that satisfy the node can have there. Where a node says nothing, or something that is no interval, that is all
// values.
#include "common/query/bounds.h"

#include <math.h>
#include <string.h>

#include "common/bson/hash.h"
#include "common/query/intervals.h"
#include "common/query/match_internal.h"
#include "common/query/type_names.h"
#include "common/query/values.h"

struct field_set {
  struct interval_set set;
  bool touched; // a condition speaks of the field
  bool exact;   // and the set says all of it
};

// What a node says of all fields.
struct node_bounds {
  struct field_set *fields;
  bool covers; // the sets together say exactly what the node says
};

struct builder {
  struct arena *arena;
  size_t n_fields;
  const int *directions;
  bool multikey;
};

// --- one value or type ---

static const uint8_t EMPTY_DOCUMENT[] = {5, 0, 0, 0, 0};

static bson_value_t empty_document(bson_type_t type) {
  return value_raw(type, EMPTY_DOCUMENT, sizeof EMPTY_DOCUMENT);
}

static bson_value_t oid_of(uint8_t byte) {
  bson_value_t v = {.value_type = BSON_TYPE_OID};
  memset(v.value.v_oid.bytes, byte, sizeof v.value.v_oid.bytes);
  return v;
}

static bson_value_t timestamp_of(uint32_t n) {
  bson_value_t v = {.value_type = BSON_TYPE_TIMESTAMP};
  v.value.v_timestamp.timestamp = n;
  v.value.v_timestamp.increment = n;
  return v;
}

// All values that a comparison with a value of this type can be true for (NaN apart). false: not expressed.
static bool type_range(bson_type_t type, struct interval *out) {
  bson_value_t binary = {.value_type = BSON_TYPE_BINARY};
  switch (type) {
  case BSON_TYPE_INT32:
  case BSON_TYPE_INT64:
  case BSON_TYPE_DOUBLE:
  case BSON_TYPE_DECIMAL128: *out = interval_of(value_real(-INFINITY), true, value_real(INFINITY), true); return true;
  case BSON_TYPE_UTF8:
  case BSON_TYPE_SYMBOL:
    *out = interval_of(value_str(""), true, empty_document(BSON_TYPE_DOCUMENT), false);
    return true;
  case BSON_TYPE_DOCUMENT:
    *out = interval_of(empty_document(BSON_TYPE_DOCUMENT), true, empty_document(BSON_TYPE_ARRAY), false);
    return true;
  case BSON_TYPE_BINARY: *out = interval_of(binary, true, oid_of(0), false); return true;
  case BSON_TYPE_OID: *out = interval_of(oid_of(0), true, oid_of(0xff), true); return true;
  case BSON_TYPE_BOOL: *out = interval_of(value_bool(false), true, value_bool(true), true); return true;
  case BSON_TYPE_DATE_TIME: *out = interval_of(value_date(INT64_MIN), true, value_date(INT64_MAX), true); return true;
  case BSON_TYPE_TIMESTAMP: *out = interval_of(timestamp_of(0), true, timestamp_of(UINT32_MAX), true); return true;
  case BSON_TYPE_NULL:
  case BSON_TYPE_UNDEFINED:
  case BSON_TYPE_MINKEY:
  case BSON_TYPE_MAXKEY: *out = interval_point((bson_value_t){.value_type = type}); return true;
  default: return false;
  }
}

static bool is_nan(const bson_value_t *v) {
  return value_is_number(v) && isnan(value_double(v));
}

static struct interval_set one(struct arena *a, struct interval i) {
  return intervals_from(a, &i, 1);
}

// {a: v}. An array is met by its elements' keys: by the first element's, or as an element itself.
static struct interval_set equal_to(struct arena *a, const bson_value_t *v, bool *exact) {
  *exact = v->value_type != BSON_TYPE_ARRAY && v->value_type != BSON_TYPE_NULL;
  if (v->value_type != BSON_TYPE_ARRAY) return one(a, interval_point(*v));
  bson_iter_t it;
  struct interval two[2] = {interval_point(*v), interval_point((bson_value_t){.value_type = BSON_TYPE_UNDEFINED})};
  if (value_iter(v, &it) && bson_iter_next(&it)) two[1] = interval_point(*bson_iter_value(&it));
  return intervals_from(a, two, 2);
}

// $lt, $lte, $gt, $gte: the part of the operand's type below or above it.
static struct interval_set order_set(struct arena *a, const struct match_node *n, bool *exact) {
  const bson_value_t *v = &n->value;
  bool or_equal = n->kind == MATCH_LTE || n->kind == MATCH_GTE, less = n->kind == MATCH_LT || n->kind == MATCH_LTE;
  struct interval i;
  *exact = v->value_type != BSON_TYPE_NULL;
  if (v->value_type == BSON_TYPE_MINKEY || v->value_type == BSON_TYPE_MAXKEY) {
    i = intervals_all(a).list[0]; // these two compare with every type
  } else if (!type_range(v->value_type, &i)) {
    *exact = false;
    return intervals_all(a);
  } else if (is_nan(v)) {
    i = interval_point(*v);
  }
  if (less) {
    i.high = *v;
    i.high_inclusive = or_equal;
  } else {
    i.low = *v;
    i.low_inclusive = or_equal;
  }
  return one(a, i);
}

// Strings that begin with the pattern's literal prefix, or all strings; and the same regex stored as a value.
static void regex_intervals(struct arena *a, const bson_value_t *re, struct interval out[2], bool *exact) {
  size_t len;
  const char *pattern = re->value.v_regex.regex;
  const char *prefix = regex_prefix(a, pattern, strlen(pattern), re->value.v_regex.options, &len, exact);
  out[1] = interval_point(*re);
  type_range(BSON_TYPE_UTF8, &out[0]);
  if (len == 0) return;
  out[0].low = value_strn(prefix, len);
  // The next string that does not begin so: the last byte plus one. As keys are compared bytewise, it need not be
  // UTF-8; 0xFF never occurs in UTF-8.
  char *after = arena_strndup(a, prefix, len);
  after[len - 1] = (char)((unsigned char)after[len - 1] + 1);
  out[0].high = value_strn(after, len);
}

static struct interval_set in_set(struct arena *a, const struct match_node *n, bool *exact) {
  struct interval *list = arena_alloc(a, (2 * n->n_in + 2 * n->n_regexes) * sizeof *list);
  size_t count = 0;
  *exact = true;
  for (size_t i = 0; i < n->n_in; i++) {
    bool one_exact;
    struct interval_set s = equal_to(a, &n->in[i], &one_exact);
    for (size_t k = 0; k < s.n; k++) list[count++] = s.list[k];
    *exact &= one_exact;
  }
  for (size_t i = 0; i < n->n_regexes; i++) {
    bool one_exact;
    regex_intervals(a, &n->regex_values[i], list + count, &one_exact);
    count += 2;
    *exact &= one_exact;
  }
  return intervals_from(a, list, count);
}

static struct interval_set type_set(struct arena *a, const struct match_node *n) {
  struct interval list[32];
  size_t count = 0;
  for (int code = -1; code <= 127; code++) {
    bson_type_t type;
    if (!type_from_number(code, &type) || !(n->types & type_bit(type))) continue;
    if (!type_range(type, &list[count])) return intervals_all(a);
    if (type_bit(type) & type_bits_number()) list[count].low = value_real(NAN);
    count++;
  }
  return intervals_from(a, list, count);
}

// The set of a leaf, as if it stood under an ordinary (not hashed) field.
static struct interval_set leaf_set(struct arena *a, const struct match_node *n, bool *exact) {
  struct interval i[2];
  *exact = false;
  switch (n->kind) {
  case MATCH_EQ: return equal_to(a, &n->value, exact);
  case MATCH_LT:
  case MATCH_LTE:
  case MATCH_GT:
  case MATCH_GTE: return order_set(a, n, exact);
  case MATCH_IN: return in_set(a, n, exact);
  case MATCH_REGEX: regex_intervals(a, &n->regex_values[0], i, exact); return intervals_from(a, i, 2);
  case MATCH_TYPE: return type_set(a, n);
  case MATCH_MOD: type_range(BSON_TYPE_DOUBLE, &i[0]); return one(a, i[0]);
  default: return intervals_all(a);
  }
}

// Under a hashed field only equalities say anything: the points of their hashes. Different values may share a hash.
static struct interval_set hashed_set(struct arena *a, const struct match_node *n) {
  const bson_value_t *values = n->kind == MATCH_EQ ? &n->value : n->in;
  size_t count = n->kind == MATCH_EQ ? 1 : n->n_in;
  if ((n->kind != MATCH_EQ && n->kind != MATCH_IN) || n->n_regexes) return intervals_all(a);
  struct interval *list = arena_alloc(a, count * sizeof *list);
  for (size_t i = 0; i < count; i++) {
    if (values[i].value_type == BSON_TYPE_ARRAY) return intervals_all(a);
    list[i] = interval_point(value_int64(bson_hash64(&values[i], 0)));
  }
  return intervals_from(a, list, count);
}

// --- nodes ---

static struct node_bounds silent(const struct builder *b, bool covers) {
  struct node_bounds out = {arena_alloc(b->arena, b->n_fields * sizeof *out.fields), covers};
  for (size_t i = 0; i < b->n_fields; i++) out.fields[i] = (struct field_set){intervals_all(b->arena), false, true};
  return out;
}

static bool is_contradiction(const struct builder *b, const struct node_bounds *n) {
  for (size_t i = 0; i < b->n_fields; i++) {
    if (n->fields[i].set.n == 0) return true;
  }
  return false;
}

// paths: those of the pattern's fields, relative to what the node is evaluated against; NULL = not below it.
static struct node_bounds node_bounds(const struct builder *b, const struct match_node *n, const char *const *paths);

static struct node_bounds leaf_bounds(const struct builder *b, const struct match_node *n, const char *const *paths) {
  struct node_bounds out = silent(b, false);
  for (size_t i = 0; i < b->n_fields; i++) {
    if (!paths[i] || strcmp(paths[i], n->path) != 0) continue;
    struct field_set *f = &out.fields[i];
    f->touched = true;
    f->exact = false;
    f->set = b->directions[i] == 0 ? hashed_set(b->arena, n) : leaf_set(b->arena, n, &f->exact);
    out.covers = f->exact;
  }
  return out;
}

// How much a set narrows a scan: points best, then intervals closed by values at both ends.
static int narrowness(const struct interval_set *s) {
  if (intervals_is_all(s)) return 0;
  if (intervals_are_points(s)) return 3;
  return s->list[0].low.value_type != BSON_TYPE_MINKEY && s->list[s->n - 1].high.value_type != BSON_TYPE_MAXKEY ? 2 : 1;
}

// Joins what one more condition says of a field to what was said before. Two conditions on a field whose documents may
// hold arrays can be met by different elements: only one of the two sets may then be used. Returns whether it is `by`.
static bool narrow(const struct builder *b, struct field_set *to, const struct field_set *by, bool intersect) {
  if (!by->touched) return false;
  if (!to->touched) {
    *to = *by;
    return true;
  }
  if (intersect) {
    to->set = intervals_intersect(b->arena, &to->set, &by->set);
    to->exact &= by->exact;
    return false;
  }
  bool better = narrowness(&by->set) > narrowness(&to->set);
  if (better) to->set = by->set;
  to->exact = false;
  return better;
}

static bool same_root(const char *x, const char *y) {
  size_t n = strcspn(x, ".");
  return n == strcspn(y, ".") && memcmp(x, y, n) == 0;
}

// Conditions on "a.b" and "a.c" can be met by different elements of an array a, whose keys are then in different index
// entries: behind the first such field the others must not be bounded. from[k]: the condition that field k's set is of.
static void separate(const struct builder *b, struct field_set *fields, const char *const *paths, const size_t *from) {
  for (size_t k = 1; k < b->n_fields; k++) {
    for (size_t i = 0; i < k && fields[k].touched; i++) {
      if (!fields[i].touched || from[i] == from[k] || !same_root(paths[i], paths[k])) continue;
      fields[k].set = intervals_all(b->arena);
      fields[k].exact = false;
      break;
    }
  }
}

// intersect: the conditions speak of one value.
static struct node_bounds and_bounds(const struct builder *b, const struct match_node *n, const char *const *paths,
                                     bool intersect) {
  struct node_bounds out = silent(b, true);
  size_t *from = arena_zalloc(b->arena, b->n_fields * sizeof *from);
  for (size_t i = 0; i < n->n; i++) {
    struct node_bounds child = node_bounds(b, n->children[i], paths);
    out.covers &= child.covers;
    for (size_t k = 0; k < b->n_fields; k++) {
      if (narrow(b, &out.fields[k], &child.fields[k], intersect)) from[k] = i;
    }
  }
  if (!intersect) separate(b, out.fields, paths, from);
  return out;
}

static struct node_bounds or_bounds(const struct builder *b, const struct match_node *n, const char *const *paths) {
  struct node_bounds out = silent(b, true);
  struct interval_set **sets = arena_alloc(b->arena, b->n_fields * sizeof(struct interval_set *));
  for (size_t k = 0; k < b->n_fields; k++) sets[k] = arena_alloc(b->arena, n->n * sizeof **sets);
  size_t branches = 0, touched = 0;
  for (size_t i = 0; i < n->n; i++) {
    struct node_bounds child = node_bounds(b, n->children[i], paths);
    out.covers &= child.covers;
    if (is_contradiction(b, &child)) continue; // a branch that nothing satisfies adds nothing
    for (size_t k = 0; k < b->n_fields; k++) {
      sets[k][branches] = child.fields[k].set;
      out.fields[k].touched |= child.fields[k].touched;
      out.fields[k].exact &= child.fields[k].exact;
    }
    branches++;
  }
  for (size_t k = 0; k < b->n_fields; k++) {
    out.fields[k].set = intervals_union(b->arena, sets[k], branches);
    touched += out.fields[k].touched;
  }
  // Branches over several fields: the product of the unions is more than the union of the products.
  for (size_t k = 0; k < b->n_fields && touched > 1; k++) out.fields[k].exact &= !out.fields[k].touched;
  out.covers &= touched <= 1;
  return out;
}

// The complement of a condition that its set expresses exactly. (null is none of those: where a path leads through an
// empty array, {$ne: null} matches a document whose index key is null.)
static struct node_bounds not_bounds(const struct builder *b, const struct match_node *n, const char *const *paths) {
  const struct match_node *child = n->children[0];
  struct node_bounds out = silent(b, false);
  bool simple =
      child->kind == MATCH_EQ || child->kind == MATCH_IN || (child->kind >= MATCH_LTE && child->kind <= MATCH_GTE);
  if (!simple) {
    for (size_t i = 0; n->path && i < b->n_fields; i++) {
      if (paths[i] && strcmp(paths[i], n->path) == 0) out.fields[i].touched = true, out.fields[i].exact = false;
    }
    return out;
  }
  struct node_bounds inner = leaf_bounds(b, child, paths);
  for (size_t i = 0; i < b->n_fields; i++) {
    struct field_set *f = &out.fields[i];
    if (!inner.fields[i].touched) continue;
    f->touched = true;
    f->exact = inner.fields[i].exact;
    if (f->exact) f->set = intervals_complement(b->arena, &inner.fields[i].set);
  }
  out.covers = inner.covers;
  return out;
}

// $elemMatch over documents: the children speak of paths below this one.
static struct node_bounds elem_object_bounds(const struct builder *b, const struct match_node *n,
                                             const char *const *paths) {
  const char **below = arena_alloc(b->arena, b->n_fields * sizeof *below);
  size_t len = strlen(n->path);
  for (size_t i = 0; i < b->n_fields; i++) {
    bool inside = paths[i] && strncmp(paths[i], n->path, len) == 0 && paths[i][len] == '.';
    below[i] = inside ? paths[i] + len + 1 : NULL;
  }
  return node_bounds(b, n->children[0], below);
}

// $elemMatch over values: all children speak of one element, so their sets may be intersected.
static struct node_bounds elem_value_bounds(const struct builder *b, const struct match_node *n,
                                            const char *const *paths) {
  const char **self = arena_alloc(b->arena, b->n_fields * sizeof *self);
  for (size_t i = 0; i < b->n_fields; i++) self[i] = paths[i] && strcmp(paths[i], n->path) == 0 ? "" : NULL;
  return and_bounds(b, n, self, true);
}

static struct node_bounds node_bounds(const struct builder *b, const struct match_node *n, const char *const *paths) {
  struct node_bounds out;
  switch (n->kind) {
  case MATCH_AND: return and_bounds(b, n, paths, !b->multikey);
  case MATCH_OR: return or_bounds(b, n, paths);
  case MATCH_NOT: return not_bounds(b, n, paths);
  case MATCH_TRUE: return silent(b, true);
  case MATCH_NOR:
  case MATCH_EXPR: return silent(b, false);
  case MATCH_FALSE:
    out = silent(b, true);
    for (size_t i = 0; i < b->n_fields; i++) out.fields[i] = (struct field_set){{NULL, 0}, true, true};
    return out;
  case MATCH_ELEM_OBJECT: out = elem_object_bounds(b, n, paths); break;
  case MATCH_ELEM_VALUE: out = elem_value_bounds(b, n, paths); break;
  default: return leaf_bounds(b, n, paths);
  }
  // $elemMatch: that there is an array is not said by any interval.
  out.covers = false;
  for (size_t i = 0; i < b->n_fields; i++) out.fields[i].exact &= !out.fields[i].touched;
  return out;
}

// --- the result ---

// Whether bounds_ranges() expresses all of the fields' intervals: single values, then one field of any intervals, and,
// if those are points, one interval of the next field; nothing behind.
static bool ranges_express(const struct index_bounds *b) {
  size_t i = 0;
  while (i < b->n_fields && b->fields[i].n == 1 && interval_is_point(&b->fields[i].intervals[0])) i++;
  if (i < b->n_fields) {
    struct interval_set s = {b->fields[i].intervals, b->fields[i].n};
    i++;
    if (intervals_are_points(&s) && i < b->n_fields && b->fields[i].n == 1) i++;
  }
  for (; i < b->n_fields; i++) {
    struct interval_set s = {b->fields[i].intervals, b->fields[i].n};
    if (!intervals_is_all(&s)) return false;
  }
  return true;
}

static void summarize(struct index_bounds *out) {
  out->all_points = true;
  bool leading = true;
  for (size_t i = 0; i < out->n_fields; i++) {
    struct interval_set s = {out->fields[i].intervals, out->fields[i].n};
    leading &= !intervals_is_all(&s);
    out->n_constrained += leading;
    out->all_points &= s.n == 1 && interval_is_point(&s.list[0]);
  }
  out->covers_filter &= ranges_express(out);
}

bool bounds_build(struct arena *a, const struct match *m, const bson_t *pattern, bool multikey,
                  struct index_bounds *out) {
  *out = (struct index_bounds){.n_fields = bson_count_keys(pattern)};
  out->fields = arena_zalloc(a, out->n_fields * sizeof *out->fields);
  int *directions = arena_alloc(a, out->n_fields * sizeof *directions);
  const char **paths = arena_alloc(a, out->n_fields * sizeof *paths);
  bson_iter_t it;
  size_t i = 0;
  if (!bson_iter_init(&it, pattern)) return false;
  for (; bson_iter_next(&it); i++) {
    paths[i] = bson_iter_key(&it);
    directions[i] = BSON_ITER_HOLDS_UTF8(&it) ? 0 : bson_iter_as_double(&it) < 0 ? -1 : 1;
  }
  struct builder b = {a, out->n_fields, directions, multikey};
  struct node_bounds root = node_bounds(&b, m->root, paths);
  for (i = 0; i < out->n_fields; i++) {
    const struct field_set *f = &root.fields[i];
    out->fields[i] = (struct field_bounds){paths[i], directions[i], f->set.list, f->set.n, f->exact};
  }
  out->covers_filter = root.covers && !multikey;
  summarize(out);
  return out->n_constrained > 0;
}
