// Walking dotted paths.
#include "common/bson/path.h"

#include <stdlib.h>
#include <string.h>

#include "common/bson/doc.h"
#include "common/bson/hash.h"

// The field named by the first component of `path`; *rest: what follows its dot, or NULL.
static bool find_component(const bson_t *doc, const char *path, bson_iter_t *it, const char **rest) {
  const char *dot = strchr(path, '.');
  *rest = dot ? dot + 1 : NULL;
  return doc_get_n(doc, path, dot ? (size_t)(dot - path) : strlen(path), it);
}

static bool is_container(const bson_iter_t *it) {
  return BSON_ITER_HOLDS_DOCUMENT(it) || BSON_ITER_HOLDS_ARRAY(it);
}

bool path_get(const bson_t *doc, const char *path, bson_value_t *out) {
  bson_t at;
  doc_view(&at, bson_get_data(doc), doc->len);
  for (;;) {
    bson_iter_t it;
    const char *rest;
    if (!find_component(&at, path, &it, &rest)) return false;
    if (!rest) {
      *out = *bson_iter_value(&it);
      return true;
    }
    if (!is_container(&it)) return false;
    iter_doc(&at, &it);
    path = rest;
  }
}

static bool is_index(const char *path) {
  size_t digits = strspn(path, "0123456789");
  return digits > 0 && (path[digits] == 0 || path[digits] == '.') && (digits == 1 || path[0] != '0');
}

static bool each_in_document(const bson_t *doc, const char *path, bool (*fn)(void *ctx, const bson_value_t *v),
                             void *ctx);

static bool each_in_array(const bson_t *array, const char *path, bool (*fn)(void *ctx, const bson_value_t *v),
                          void *ctx) {
  bson_iter_t it;
  const char *rest;
  if (is_index(path) && find_component(array, path, &it, &rest)) {
    if (!rest) {
      if (!fn(ctx, bson_iter_value(&it))) return false;
    } else if (is_container(&it)) {
      bson_t inner;
      iter_doc(&inner, &it);
      bool go_on =
          BSON_ITER_HOLDS_ARRAY(&it) ? each_in_array(&inner, rest, fn, ctx) : each_in_document(&inner, rest, fn, ctx);
      if (!go_on) return false;
    }
  }
  if (!bson_iter_init(&it, array)) return true;
  while (bson_iter_next(&it)) {
    if (!BSON_ITER_HOLDS_DOCUMENT(&it)) continue;
    bson_t inner;
    iter_doc(&inner, &it);
    if (!each_in_document(&inner, path, fn, ctx)) return false;
  }
  return true;
}

static bool each_in_document(const bson_t *doc, const char *path, bool (*fn)(void *ctx, const bson_value_t *v),
                             void *ctx) {
  bson_iter_t it;
  const char *rest;
  if (!find_component(doc, path, &it, &rest)) return fn(ctx, NULL);
  if (!rest) return fn(ctx, bson_iter_value(&it));
  if (!is_container(&it)) return fn(ctx, NULL);
  bson_t inner;
  iter_doc(&inner, &it);
  return BSON_ITER_HOLDS_ARRAY(&it) ? each_in_array(&inner, rest, fn, ctx) : each_in_document(&inner, rest, fn, ctx);
}

bool path_each(const bson_t *doc, const char *path, bool (*fn)(void *ctx, const bson_value_t *v), void *ctx) {
  return each_in_document(doc, path, fn, ctx);
}

bool path_get_single(const bson_t *doc, const char *path, bson_value_t *out, bool *array) {
  bson_t at;
  doc_view(&at, bson_get_data(doc), doc->len);
  *array = false;
  for (;;) {
    bson_iter_t it;
    const char *rest;
    if (!find_component(&at, path, &it, &rest)) return false;
    *array = BSON_ITER_HOLDS_ARRAY(&it);
    if (*array) return false;
    if (!rest) {
      *out = *bson_iter_value(&it);
      return true;
    }
    if (!BSON_ITER_HOLDS_DOCUMENT(&it)) return false;
    iter_doc(&at, &it);
    path = rest;
  }
}

static bool refuse_array(struct error *err) {
  return error_set(err, ERR_ShardKeyNotFound, "Shard key cannot contain array values or array descendants.");
}

bool path_extract_key(struct arena *a, const bson_t *doc, const bson_t *pattern, bool missing_null, bson_t **out,
                      struct error *err) {
  bson_t *key = arena_bson(a);
  bson_iter_t it;
  if (!bson_iter_init(&it, pattern)) return error_set(err, ERR_BadValue, "the key pattern is not a document");
  while (bson_iter_next(&it)) {
    const char *path = bson_iter_key(&it);
    bson_value_t v;
    bool array;
    if (!path_get_single(doc, path, &v, &array)) {
      if (array) return refuse_array(err);
      if (!missing_null) return error_set(err, ERR_ShardKeyNotFound, "the key field '%s' is missing", path);
      v = value_null();
    }
    doc_append_value(key, path, &v);
  }
  *out = key;
  return true;
}

bool path_encode_key(struct arena *a, const bson_t *doc, const bson_t *pattern, struct key *out, struct error *err) {
  __attribute__((cleanup(buf_cleanup))) struct buf encoded = {0};
  bson_iter_t it;
  if (!bson_iter_init(&it, pattern)) return error_set(err, ERR_BadValue, "the key pattern is not a document");
  while (bson_iter_next(&it)) {
    bson_value_t v;
    bool array;
    if (!path_get_single(doc, bson_iter_key(&it), &v, &array)) {
      if (array) return refuse_array(err);
      v = value_null();
    }
    if (BSON_ITER_HOLDS_UTF8(&it)) v = value_int64(bson_hash64(&v, 0));
    key_append(&encoded, &v, false);
  }
  *out = key_copy(a, &encoded);
  return true;
}
