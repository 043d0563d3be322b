// Operators on arrays: $push, $addToSet, $pull, $pullAll, $pop.
#include <stdlib.h>
#include <string.h>

#include "common/bson/compare.h"
#include "common/bson/key.h"
#include "common/query/match_internal.h"
#include "common/query/type_names.h"
#include "common/query/update_internal.h"

static const char *name_of(const bson_value_t *v) {
  return type_name(v->value_type);
}

struct list {
  struct arena *arena;
  bson_value_t *values;
  size_t n, cap;
};

static void list_insert(struct list *l, size_t at, const bson_value_t *v) {
  l->values = arena_grow(l->arena, l->values, l->n, &l->cap, sizeof *l->values);
  memmove(l->values + at + 1, l->values + at, (l->n - at) * sizeof *l->values);
  l->values[at] = *v;
  l->n++;
}

static struct list list_of(struct arena *a, const bson_value_t *array) {
  struct list l = {.arena = a};
  bson_iter_t it;
  if (!value_is_array(array)) return l;
  for (value_iter(array, &it); bson_iter_next(&it);) list_insert(&l, l.n, bson_iter_value(&it));
  return l;
}

static bson_value_t list_value(const struct list *l) {
  bson_t *doc = arena_bson(l->arena);
  for (size_t i = 0; i < l->n; i++) {
    char text[16];
    const char *key;
    bson_uint32_to_string((uint32_t)i, &key, text, sizeof text);
    doc_append_value(doc, key, &l->values[i]);
  }
  return value_array(doc);
}

static bool not_an_array(const struct update_leaf *l, struct update_run *r, const bson_value_t *old) {
  return error_set(r->err, ERR_BadValue, "The field '%s' must be an array but is of type %s in document %s", l->path,
                   name_of(old), update_document_id(r));
}

static void take_values(struct update_parser *p, struct update_leaf *l, const bson_value_t *array) {
  struct list values = list_of(p->arena, array);
  l->values = values.values;
  l->n_values = values.n;
}

static bool take_one(struct update_parser *p, struct update_leaf *l) {
  l->values = &l->value;
  l->n_values = 1;
  return true;
}

// Whether the operand is {$each: ..., ...}.
static bool has_each(const bson_value_t *v) {
  bson_iter_t it;
  return value_is_doc(v) && value_iter(v, &it) && bson_iter_find(&it, "$each");
}

static bool parse_each(struct update_parser *p, struct update_leaf *l, const bson_value_t *v) {
  if (!value_is_array(v)) {
    return error_set(p->err, ERR_BadValue, "The argument to $each in %s must be an array but it was of type: %s",
                     l->op->name, name_of(v));
  }
  take_values(p, l, v);
  return true;
}

// --- $push ---

static bool parse_push_sort(struct update_parser *p, struct update_leaf *l, const bson_value_t *v) {
  int64_t direction;
  if (value_is_number(v)) {
    if (!value_is_integral(v, &direction) || (direction != 1 && direction != -1)) {
      return error_set(p->err, ERR_BadValue, "The $sort element value must be either 1 or -1");
    }
    l->sort_direction = (int)direction;
    return true;
  }
  if (!value_is_doc(v)) {
    return error_set(p->err, ERR_BadValue,
                     "The $sort is invalid: use 1/-1 to sort the whole element, or {field:1/-1} to "
                     "sort embedded fields");
  }
  bson_t pattern;
  doc_view(&pattern, v->value.v_doc.data, v->value.v_doc.data_len);
  if (bson_empty(&pattern))
    return error_set(p->err, ERR_BadValue, "The $sort pattern is empty when it should be a set of fields.");
  l->sort = sort_parse(p->arena, &pattern, NULL);
  return l->sort || error_set(p->err, ERR_BadValue, "The $sort element value must be either 1 or -1");
}

static bool parse_integer(struct update_parser *p, const char *what, const bson_value_t *v, int64_t *out) {
  if (value_is_number(v) && value_is_integral(v, out)) return true;
  return error_set(p->err, ERR_BadValue, "The value for %s must be an integer value but was given type: %s", what,
                   name_of(v));
}

static bool parse_push(struct update_parser *p, struct update_leaf *l) {
  bson_iter_t it;
  if (!has_each(&l->value)) return take_one(p, l);
  for (value_iter(&l->value, &it); bson_iter_next(&it);) {
    const char *key = bson_iter_key(&it);
    const bson_value_t *v = bson_iter_value(&it);
    if (strcmp(key, "$each") == 0) {
      if (!parse_each(p, l, v)) return false;
    } else if (strcmp(key, "$slice") == 0) {
      l->has_slice = true;
      if (!parse_integer(p, "$slice", v, &l->slice)) return false;
    } else if (strcmp(key, "$position") == 0) {
      l->has_position = true;
      if (!parse_integer(p, "$position", v, &l->position)) return false;
    } else if (strcmp(key, "$sort") == 0) {
      if (!parse_push_sort(p, l, v)) return false;
    } else {
      return error_set(p->err, ERR_BadValue, "Unrecognized clause in $push: %s", key);
    }
  }
  return true;
}

struct sorted {
  bson_value_t v;
  struct buf key;
  size_t at;
  int direction;
};

static int compare_sorted(const void *a, const void *b) {
  const struct sorted *x = a, *y = b;
  size_t n = x->key.len < y->key.len ? x->key.len : y->key.len;
  int order = n ? memcmp(x->key.data, y->key.data, n) : 0;
  if (!order && x->direction) order = value_compare(&x->v, &y->v) * x->direction;
  return order ? order : (x->at > y->at) - (x->at < y->at);
}

static void sort_list(const struct update_leaf *l, struct list *list) {
  static const uint8_t empty[] = {5, 0, 0, 0, 0};
  struct sorted *entries = arena_zalloc(list->arena, list->n * sizeof *entries);
  for (size_t i = 0; i < list->n; i++) {
    bson_t doc;
    const bson_value_t *v = &list->values[i];
    entries[i] = (struct sorted){.v = *v, .at = i, .direction = l->sort_direction};
    if (value_is_doc(v))
      doc_view(&doc, v->value.v_doc.data, v->value.v_doc.data_len);
    else
      doc_view(&doc, empty, sizeof empty); // what is no document has no field to sort by
    if (l->sort) sort_key_append(l->sort, &doc, &entries[i].key);
  }
  if (list->n) qsort(entries, list->n, sizeof *entries, compare_sorted);
  for (size_t i = 0; i < list->n; i++) {
    list->values[i] = entries[i].v;
    buf_free(&entries[i].key);
  }
}

static bool apply_push(const struct update_leaf *l, struct update_run *r, const bson_value_t *old, bson_value_t *out) {
  if (!value_is_missing(old) && !value_is_array(old)) return not_an_array(l, r, old);
  struct list list = list_of(r->arena, old);
  size_t at = list.n;
  if (l->has_position) {
    // From the end when negative; past either end is that end.
    int64_t from_end = l->position < 0 ? (int64_t)list.n + l->position : l->position;
    at = from_end < 0 ? 0 : from_end > (int64_t)list.n ? list.n : (size_t)from_end;
  }
  for (size_t i = 0; i < l->n_values; i++) list_insert(&list, at + i, &l->values[i]);
  if (l->sort || l->sort_direction) sort_list(l, &list);
  if (l->has_slice) {
    size_t keep = (size_t)llabs(l->slice);
    if (keep < list.n) {
      if (l->slice < 0) list.values += list.n - keep;
      list.n = keep;
    }
  }
  *out = list_value(&list);
  return true;
}

// --- $addToSet ---

static bool parse_add_to_set(struct update_parser *p, struct update_leaf *l) {
  bson_iter_t it;
  bool each = value_is_doc(&l->value) && value_iter(&l->value, &it) && bson_iter_next(&it) &&
              strcmp(bson_iter_key(&it), "$each") == 0;
  if (!each) return take_one(p, l);
  if (!parse_each(p, l, bson_iter_value(&it))) return false;
  if (!bson_iter_next(&it)) return true;
  return error_set(p->err, ERR_BadValue, "Found unexpected fields after $each in $addToSet: %s",
                   value_text(p->arena, &l->value));
}

static bool list_contains(const struct list *l, const bson_value_t *v) {
  for (size_t i = 0; i < l->n; i++) {
    if (value_equal(&l->values[i], v)) return true;
  }
  return false;
}

static bool apply_add_to_set(const struct update_leaf *l, struct update_run *r, const bson_value_t *old,
                             bson_value_t *out) {
  if (!value_is_missing(old) && !value_is_array(old)) {
    return error_set(r->err, ERR_BadValue,
                     "Cannot apply $addToSet to non-array field. Field named '%s' has non-array type %s", l->path,
                     name_of(old));
  }
  struct list list = list_of(r->arena, old);
  size_t before = list.n;
  for (size_t i = 0; i < l->n_values; i++) {
    if (!list_contains(&list, &l->values[i])) list_insert(&list, list.n, &l->values[i]);
  }
  *out = list.n == before && !value_is_missing(old) ? *old : list_value(&list);
  return true;
}

// --- $pull, $pullAll, $pop ---

// {$pull: {a: {b: 1}}} is a query on elements that are documents; {$pull: {a: {$gt: 5}}} a condition on the elements
// themselves, as is a regular expression; any other operand is compared for equality.
static bool parse_pull(struct update_parser *p, struct update_leaf *l) {
  if (value_is_doc(&l->value) && !match_is_operator_doc(&l->value)) {
    bson_t filter;
    doc_view(&filter, l->value.value.v_doc.data, l->value.value.v_doc.data_len);
    l->match = match_parse(p->arena, &filter, p->options, p->err);
    return l->match != NULL;
  }
  if (!value_is_doc(&l->value) && l->value.value_type != BSON_TYPE_REGEX) return true;
  bson_t *filter = arena_bson(p->arena);
  doc_append_value(filter, "", &l->value);
  l->match = match_parse(p->arena, filter, p->options, p->err);
  return l->match != NULL;
}

static bool is_pulled(const struct update_leaf *l, const bson_value_t *v) {
  if (!l->match) return value_equal(&l->value, v);
  if (!value_is_doc(&l->value) || match_is_operator_doc(&l->value)) return match_value(l->match, v);
  if (!value_is_doc(v)) return false;
  bson_t doc;
  doc_view(&doc, v->value.v_doc.data, v->value.v_doc.data_len);
  return match_doc(l->match, &doc);
}

static bool keep_if(const struct update_leaf *l, struct update_run *r, const bson_value_t *old,
                    bool (*goes)(const struct update_leaf *l, const bson_value_t *v), bson_value_t *out) {
  *out = *old;
  if (value_is_missing(old)) return true;
  if (!value_is_array(old)) return error_set(r->err, ERR_BadValue, "Cannot apply %s to a non-array value", l->op->name);
  struct list kept = {.arena = r->arena};
  bson_iter_t it;
  for (value_iter(old, &it); bson_iter_next(&it);) {
    if (!goes(l, bson_iter_value(&it))) list_insert(&kept, kept.n, bson_iter_value(&it));
  }
  *out = list_value(&kept);
  return true;
}

static bool apply_pull(const struct update_leaf *l, struct update_run *r, const bson_value_t *old, bson_value_t *out) {
  return keep_if(l, r, old, is_pulled, out);
}

static bool parse_pull_all(struct update_parser *p, struct update_leaf *l) {
  if (!value_is_array(&l->value)) {
    return error_set(p->err, ERR_BadValue, "$pullAll requires an array argument but was given a %s",
                     name_of(&l->value));
  }
  take_values(p, l, &l->value);
  return true;
}

static bool is_listed(const struct update_leaf *l, const bson_value_t *v) {
  for (size_t i = 0; i < l->n_values; i++) {
    if (value_equal(&l->values[i], v)) return true;
  }
  return false;
}

static bool apply_pull_all(const struct update_leaf *l, struct update_run *r, const bson_value_t *old,
                           bson_value_t *out) {
  return keep_if(l, r, old, is_listed, out);
}

static bool parse_pop(struct update_parser *p, struct update_leaf *l) {
  if (!value_is_number(&l->value)) {
    return error_set(p->err, ERR_FailedToParse, "Expected a number in: %s: %s", l->path,
                     value_text(p->arena, &l->value));
  }
  if (!value_is_integral(&l->value, &l->position) || (l->position != 1 && l->position != -1)) {
    return error_set(p->err, ERR_FailedToParse, "$pop expects 1 or -1, found: %s", value_text(p->arena, &l->value));
  }
  return true;
}

static bool apply_pop(const struct update_leaf *l, struct update_run *r, const bson_value_t *old, bson_value_t *out) {
  *out = *old;
  if (value_is_missing(old)) return true;
  if (!value_is_array(old)) {
    return error_set(r->err, ERR_TypeMismatch, "Path '%s' contains an element of non-array type '%s'", l->path,
                     name_of(old));
  }
  struct list list = list_of(r->arena, old);
  if (!list.n) return true;
  if (l->position < 0) list.values++;
  list.n--;
  *out = list_value(&list);
  return true;
}

const struct update_operator UPDATE_ARRAY_OPERATORS[] = {
    {"$push", apply_push, parse_push, true},  {"$addToSet", apply_add_to_set, parse_add_to_set, true},
    {"$pull", apply_pull, parse_pull, false}, {"$pullAll", apply_pull_all, parse_pull_all, false},
    {"$pop", apply_pop, parse_pop, false},    {NULL},
};
