// Setting a value at a dotted path of a document, as $addFields and $unwind do.
#include <string.h>

#include "common/query/pipeline/stage.h"

static void set_array(bson_t *out, const char *name, const bson_iter_t *at, const char *rest, const bson_value_t *v);

static void set_nested(bson_t *out, const char *name, const bson_iter_t *at, const char *rest, const bson_value_t *v) {
  if (at && BSON_ITER_HOLDS_ARRAY(at)) {
    set_array(out, name, at, rest, v);
    return;
  }
  bson_t inner, below = BSON_INITIALIZER;
  if (at)
    iter_doc(&inner, at); // empty unless it is a document
  else
    bson_init(&inner);
  document_set(&below, &inner, rest, v);
  // Removing below something that is no document leaves that as it is.
  if (value_is_missing(v) && at && !BSON_ITER_HOLDS_DOCUMENT(at))
    bson_append_iter(out, name, -1, at);
  else if (!value_is_missing(v) || at)
    BSON_APPEND_DOCUMENT(out, name, &below);
  bson_destroy(&below);
}

static void set_array(bson_t *out, const char *name, const bson_iter_t *at, const char *rest, const bson_value_t *v) {
  bson_t array, elements;
  bson_iter_t it;
  iter_doc(&elements, at);
  BSON_APPEND_ARRAY_BEGIN(out, name, &array);
  if (bson_iter_init(&it, &elements)) {
    while (bson_iter_next(&it)) set_nested(&array, bson_iter_key(&it), &it, rest, v);
  }
  bson_append_array_end(out, &array);
}

void document_set(bson_t *out, const bson_t *doc, const char *path, const bson_value_t *v) {
  const char *dot = strchr(path, '.');
  size_t n = dot ? (size_t)(dot - path) : strlen(path);
  bson_iter_t it;
  bool found = false;
  if (bson_iter_init(&it, doc)) {
    while (bson_iter_next(&it)) {
      const char *name = bson_iter_key(&it);
      if (found || strlen(name) != n || memcmp(name, path, n) != 0) {
        bson_append_iter(out, NULL, 0, &it);
        continue;
      }
      found = true;
      if (dot)
        set_nested(out, name, &it, dot + 1, v);
      else if (!value_is_missing(v))
        bson_append_value(out, name, -1, v);
    }
  }
  if (found || value_is_missing(v)) return;
  char *name = bson_strndup(path, n);
  if (dot)
    set_nested(out, name, NULL, dot + 1, v);
  else
    bson_append_value(out, name, -1, v);
  bson_free(name);
}
