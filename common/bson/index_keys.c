// Index keys of a document.
//
// Without arrays a document has one key. Where a path meets an array, the document has a key for each element; all
// paths that meet an array must meet the same one (CannotIndexParallelArrays), and are expanded together.
#include "common/bson/index_keys.h"

#include <stdlib.h>
#include <string.h>

#include "common/bson/doc.h"
#include "common/bson/hash.h"
#include "common/bson/path.h"

enum { MAX_FIELDS = 32 }; // of an index, as MongoDB's limit

struct field {
  const char *rest;   // path still to walk, from `value`; NULL: value is final
  bson_value_t value; // where the walk stands; EOD = missing
  const char *name;   // the whole path, for errors
  bool descending, hashed;
};

struct extraction {
  struct arena *arena;
  struct index_keys *out;
  size_t cap;
  size_t n_fields;
  bool any_present;
};

// Walks a field on through documents until its end, a dead end, or an array that has to be expanded.
static void walk(struct field *f) {
  while (f->rest) {
    if (f->value.value_type == BSON_TYPE_ARRAY) {
      // A numeric component indexes into the array; otherwise the array is expanded by the caller.
      size_t digits = strspn(f->rest, "0123456789");
      if (!digits || (f->rest[digits] && f->rest[digits] != '.')) return;
    } else if (f->value.value_type != BSON_TYPE_DOCUMENT) {
      f->value = (bson_value_t){.value_type = BSON_TYPE_EOD};
      f->rest = NULL;
      return;
    }
    bson_t doc;
    doc_view(&doc, f->value.value.v_doc.data, f->value.value.v_doc.data_len);
    const char *dot = strchr(f->rest, '.');
    bson_iter_t it;
    bool found = doc_get_n(&doc, f->rest, dot ? (size_t)(dot - f->rest) : strlen(f->rest), &it);
    if (!found && f->value.value_type == BSON_TYPE_ARRAY)
      return; // no such position: as a name in the array's documents
    f->value = found ? *bson_iter_value(&it) : (bson_value_t){.value_type = BSON_TYPE_EOD};
    f->rest = found && dot ? dot + 1 : NULL;
  }
}

static bool add_key(struct extraction *x, const struct field *fields, struct error *err) {
  __attribute__((cleanup(buf_cleanup))) struct buf key = {0};
  for (size_t i = 0; i < x->n_fields; i++) {
    const struct field *f = &fields[i];
    bson_value_t v = f->value.value_type == BSON_TYPE_EOD ? value_null() : f->value;
    if (f->value.value_type != BSON_TYPE_EOD) x->any_present = true;
    if (f->hashed) v = value_int64(bson_hash64(&v, 0));
    key_append(&key, &v, f->descending);
  }
  x->out->keys = arena_grow(x->arena, x->out->keys, x->out->n, &x->cap, sizeof *x->out->keys);
  x->out->keys[x->out->n++] = key_copy(x->arena, &key);
  return true;
}

static bool extract(struct extraction *x, const struct field *from, int depth, struct error *err) {
  struct field fields[MAX_FIELDS];
  memcpy(fields, from, x->n_fields * sizeof *fields);
  const struct field *expanded = NULL;
  for (size_t i = 0; i < x->n_fields; i++) {
    struct field *f = &fields[i];
    walk(f);
    if (f->value.value_type != BSON_TYPE_ARRAY) continue;
    if (depth > 0 && !f->rest && from[i].value.value_type == BSON_TYPE_ARRAY && !from[i].rest)
      continue; // an array in an array
    if (f->hashed) {
      return error_set(err, 16766, "hashed indexes do not currently support array values. Found array for path: %s",
                       f->name);
    }
    if (expanded && expanded->value.value.v_doc.data != f->value.value.v_doc.data) {
      return error_set(err, ERR_CannotIndexParallelArrays, "cannot index parallel arrays [%s] [%s]", f->name,
                       expanded->name);
    }
    expanded = f;
  }
  if (!expanded) return add_key(x, fields, err);
  x->out->multikey = true;
  const uint8_t *array_data = expanded->value.value.v_doc.data;
  bson_t array;
  doc_view(&array, array_data, expanded->value.value.v_doc.data_len);
  bson_iter_t it;
  bool any = false;
  if (!bson_iter_init(&it, &array)) return true;
  while (bson_iter_next(&it)) {
    struct field element[MAX_FIELDS];
    memcpy(element, fields, x->n_fields * sizeof *element);
    for (size_t i = 0; i < x->n_fields; i++) {
      if (fields[i].value.value_type != BSON_TYPE_ARRAY || fields[i].value.value.v_doc.data != array_data) continue;
      element[i].value = *bson_iter_value(&it);
      // An array within the array is not expanded again when the path goes on: its documents are not reached.
      if (element[i].rest && element[i].value.value_type == BSON_TYPE_ARRAY) {
        element[i].value = (bson_value_t){.value_type = BSON_TYPE_EOD};
        element[i].rest = NULL;
      }
    }
    any = true;
    if (!extract(x, element, depth + 1, err)) return false;
  }
  if (any) return true;
  // An empty array: undefined where the path ends at it, null where it goes on.
  for (size_t i = 0; i < x->n_fields; i++) {
    if (fields[i].value.value_type != BSON_TYPE_ARRAY || fields[i].value.value.v_doc.data != array_data) continue;
    fields[i].value.value_type = fields[i].rest ? BSON_TYPE_EOD : BSON_TYPE_UNDEFINED;
    fields[i].rest = NULL;
  }
  return add_key(x, fields, err);
}

static int by_key(const void *a, const void *b) {
  return key_compare(*(const struct key *)a, *(const struct key *)b);
}

static void sort_unique(struct index_keys *k) {
  if (k->n < 2) return;
  qsort(k->keys, k->n, sizeof *k->keys, by_key);
  size_t n = 1;
  for (size_t i = 1; i < k->n; i++) {
    if (key_compare(k->keys[i], k->keys[n - 1]) != 0) k->keys[n++] = k->keys[i];
  }
  k->n = n;
}

// Most documents: no path meets an array, so there is one key. false: some path does.
static bool plain_key(struct arena *a, const bson_t *pattern, const bson_t *doc, struct index_keys *out) {
  __attribute__((cleanup(buf_cleanup))) struct buf key = {0};
  bool any_present = false;
  bson_iter_t it;
  if (!bson_iter_init(&it, pattern)) return false;
  for (size_t n = 0; bson_iter_next(&it); n++) {
    bson_value_t v;
    bool array, there = path_get_single(doc, bson_iter_key(&it), &v, &array);
    if ((!there && array) || n == MAX_FIELDS) return false;
    any_present = any_present || there;
    if (!there) v = value_null();
    if (BSON_ITER_HOLDS_UTF8(&it)) v = value_int64(bson_hash64(&v, 0));
    key_append(&key, &v, iter_is_number(&it) && iter_i64(&it) < 0);
  }
  out->keys = arena_alloc(a, sizeof *out->keys);
  out->keys[0] = key_copy(a, &key);
  out->n = 1;
  out->all_missing = !any_present;
  return true;
}

bool index_keys_of(struct arena *a, const bson_t *pattern, const bson_t *doc, struct index_keys *out,
                   struct error *err) {
  *out = (struct index_keys){0};
  if (plain_key(a, pattern, doc, out)) return true;
  struct extraction x = {.arena = a, .out = out};
  struct field fields[MAX_FIELDS];
  bson_iter_t it;
  if (!bson_iter_init(&it, pattern)) return error_set(err, ERR_CannotCreateIndex, "the key pattern is not a document");
  while (bson_iter_next(&it)) {
    if (x.n_fields == MAX_FIELDS)
      return error_set(err, ERR_CannotCreateIndex, "an index has at most %d fields", MAX_FIELDS);
    struct field *f = &fields[x.n_fields++];
    f->rest = f->name = bson_iter_key(&it);
    f->value = value_doc(doc);
    f->hashed = BSON_ITER_HOLDS_UTF8(&it);
    f->descending = iter_is_number(&it) && iter_i64(&it) < 0;
  }
  if (!extract(&x, fields, 0, err)) return false;
  out->all_missing = !x.any_present;
  sort_unique(out);
  return true;
}
