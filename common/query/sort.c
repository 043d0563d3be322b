// Sort patterns and the sort keys of documents.
#include "common/query/sort_internal.h"

#include <string.h>

#include "common/bson/compare.h"
#include "common/bson/key.h"
#include "common/query/values.h"

static bool parse_direction(struct arena *a, const bson_iter_t *at, bool *descending, struct error *err) {
  bson_iter_t it = *at;
  const bson_value_t *v = bson_iter_value(&it);
  int64_t n;
  if (value_is_doc(v)) {
    return error_set(err, ERR_CommandNotSupported, "sorting by %s is not supported", value_text(a, v));
  }
  if (!value_is_number(v)) {
    return error_set(err, 15974, "Illegal key in $sort specification: %s: %s", bson_iter_key(&it), value_text(a, v));
  }
  if (!value_is_integral(v, &n) || (n != 1 && n != -1)) {
    return error_set(err, 15975, "$sort key ordering must be 1 (for ascending) or -1 (for descending)");
  }
  *descending = n < 0;
  return true;
}

static bool check_path(const char *path, struct error *err) {
  size_t len = strlen(path);
  if (len == 0) return error_set(err, 40352, "FieldPath cannot be constructed with empty string");
  if (path[len - 1] == '.') return error_set(err, 40353, "FieldPath must not end with a '.'.");
  if (path[0] == '.' || strstr(path, "..")) {
    return error_set(err, 15998, "FieldPath field names may not be empty strings.");
  }
  if (path[0] == '$') {
    return error_set(err, 16410,
                     "FieldPath field names may not start with '$'. Consider using $getField or $setField.");
  }
  return true;
}

struct sort *sort_parse(struct arena *a, const bson_t *spec, struct error *err) {
  struct sort *s = arena_zalloc(a, sizeof *s);
  s->pattern = doc_copy(a, spec);
  size_t n = bson_count_keys(spec);
  if (n > SORT_MAX_FIELDS) {
    error_set(err, 13103, "too many keys in sort pattern: at most %d are allowed", SORT_MAX_FIELDS);
    return NULL;
  }
  s->fields = arena_alloc(a, n * sizeof *s->fields);
  bson_iter_t it;
  if (!bson_iter_init(&it, s->pattern)) return s;
  for (; bson_iter_next(&it); s->n++) {
    struct sort_field *f = &s->fields[s->n];
    f->path = bson_iter_key(&it);
    if (!check_path(f->path, err) || !parse_direction(a, &it, &f->descending, err)) return NULL;
  }
  return s;
}

const bson_t *sort_pattern(const struct sort *s) {
  return s->pattern;
}

// --- keys ---

// Where the walk to a field's value stands: at `value`, with `rest` of the path to go (NULL: arrived).
struct cursor {
  const char *rest;
  bson_value_t value;
};

static void arrive(struct cursor *c, bson_value_t v) {
  c->value = v;
  c->rest = NULL;
}

// Walks through documents until the path's end, a dead end (null), or an array that is to be looked through. A numeric
// component indexes into an array.
static void walk(struct cursor *c) {
  while (c->rest) {
    size_t len = strcspn(c->rest, ".");
    bson_iter_t it;
    bool array = value_is_array(&c->value), digits = strspn(c->rest, "0123456789") == len;
    if (array && !digits) return;
    if (!array && !value_is_doc(&c->value)) {
      arrive(c, value_null());
      return;
    }
    bool found = value_iter(&c->value, &it) && bson_iter_find_w_len(&it, c->rest, (int)len);
    if (!found && array) return;
    c->value = found ? *bson_iter_value(&it) : value_null();
    c->rest = found && c->rest[len] ? c->rest + len + 1 : NULL;
  }
}

static int compare_keys(const struct sort *s, const bson_value_t *a, const bson_value_t *b) {
  for (size_t i = 0; i < s->n; i++) {
    int order = value_compare(&a[i], &b[i]);
    if (order) return s->fields[i].descending ? -order : order;
  }
  return 0;
}

struct search {
  const struct sort *sort;
  bson_value_t *best; // the least key so far
  bool any, parallel;
};

static void consider(struct search *x, const struct cursor *at) {
  bson_value_t key[SORT_MAX_FIELDS];
  for (size_t i = 0; i < x->sort->n; i++) key[i] = at[i].value;
  if (!x->any || compare_keys(x->sort, key, x->best) < 0) memcpy(x->best, key, x->sort->n * sizeof *key);
  x->any = true;
}

static bool stands_at_array(const struct cursor *c) {
  // An array that is itself an element is a value like any other.
  return value_is_array(&c->value) && (!c->rest || *c->rest);
}

// Tries every element of the array that the paths lead into; all that lead into the same one move together. An array
// within it is not looked through when a path ends there, so `depth` counts how often arrays were entered.
static void expand(struct search *x, struct cursor *at, const bool *is_element) {
  const uint8_t *array = NULL;
  bson_value_t entered = value_missing();
  for (size_t i = 0; i < x->sort->n; i++) {
    walk(&at[i]);
    if (!stands_at_array(&at[i]) || (is_element[i] && !at[i].rest)) continue;
    if (!array)
      entered = at[i].value;
    else if (array != at[i].value.value.v_doc.data)
      x->parallel = true;
    if (!array) array = entered.value.v_doc.data;
  }
  if (!array) {
    consider(x, at);
    return;
  }
  bson_iter_t it;
  bool any = false;
  struct cursor next[x->sort->n]; // at most SORT_MAX_FIELDS; usually few, which matters as this recurses
  bool element[x->sort->n];
  for (value_iter(&entered, &it); bson_iter_next(&it); any = true) {
    memcpy(next, at, x->sort->n * sizeof *next);
    memcpy(element, is_element, x->sort->n * sizeof *element);
    for (size_t i = 0; i < x->sort->n; i++) {
      if (!value_is_array(&at[i].value) || at[i].value.value.v_doc.data != array) continue;
      next[i].value = *bson_iter_value(&it);
      // A path that goes on does not look through arrays within the array.
      if (next[i].rest && value_is_array(&next[i].value)) arrive(&next[i], value_null());
      element[i] = true;
    }
    expand(x, next, element);
  }
  if (any) return;
  for (size_t i = 0; i < x->sort->n; i++) {
    if (!value_is_array(&at[i].value) || at[i].value.value.v_doc.data != array) continue;
    // An empty array sorts below null.
    arrive(&at[i], at[i].rest ? value_null() : (bson_value_t){.value_type = BSON_TYPE_UNDEFINED});
  }
  expand(x, at, is_element);
}

bool sort_key_of(const struct sort *s, const bson_t *doc, bson_value_t *key) {
  struct cursor at[SORT_MAX_FIELDS];
  bool arrays = false, is_element[SORT_MAX_FIELDS] = {false};
  for (size_t i = 0; i < s->n; i++) {
    at[i] = (struct cursor){s->fields[i].path, value_doc(doc)};
    walk(&at[i]);
    key[i] = at[i].value;
    arrays |= value_is_array(&at[i].value);
  }
  if (!arrays) return true;
  struct search x = {.sort = s, .best = key};
  expand(&x, at, is_element);
  return !x.parallel;
}

void sort_key_append(const struct sort *s, const bson_t *doc, struct buf *to) {
  bson_value_t key[SORT_MAX_FIELDS];
  sort_key_of(s, doc, key);
  for (size_t i = 0; i < s->n; i++) key_append(to, &key[i], s->fields[i].descending);
}

void sort_key_values(const struct sort *s, const bson_t *doc, bson_t *array) {
  bson_value_t key[SORT_MAX_FIELDS];
  sort_key_of(s, doc, key);
  for (size_t i = 0; i < s->n; i++) {
    char text[16];
    const char *name;
    bson_uint32_to_string((uint32_t)i, &name, text, sizeof text);
    doc_append_value(array, name, &key[i]);
  }
}

int sort_key_values_compare(const struct sort *s, const bson_t *a, const bson_t *b) {
  bson_iter_t x, y;
  if (!bson_iter_init(&x, a) || !bson_iter_init(&y, b)) return 0;
  for (size_t i = 0; i < s->n && bson_iter_next(&x) && bson_iter_next(&y); i++) {
    int order = value_compare(bson_iter_value(&x), bson_iter_value(&y));
    if (order) return s->fields[i].descending ? -order : order;
  }
  return 0;
}
