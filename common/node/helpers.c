// Small readers and holders that the node's commands share.
#include "common/node/internal.h"

#include "common/bson/doc.h"

const bson_t *iter_child(struct arena *a, const bson_iter_t *it) {
  const uint8_t *data = NULL;
  uint32_t len = 0;
  if (BSON_ITER_HOLDS_ARRAY(it)) {
    bson_iter_array(it, &len, &data);
  } else if (BSON_ITER_HOLDS_DOCUMENT(it)) {
    bson_iter_document(it, &len, &data);
  } else {
    return arena_bson(a);
  }
  return arena_bson_view(a, data, len);
}

const bson_t *value_child(struct arena *a, const bson_value_t *v) {
  if (v->value_type != BSON_TYPE_DOCUMENT && v->value_type != BSON_TYPE_ARRAY) return arena_bson(a);
  return arena_bson_view(a, v->value.v_doc.data, v->value.v_doc.data_len);
}

bool optional_doc(struct arena *a, const bson_t *doc, const char *field, bool array, const bson_t **out,
                  struct error *err) {
  bson_iter_t it;
  *out = NULL;
  if (!doc_get(doc, field, &it) || BSON_ITER_HOLDS_NULL(&it)) return true;
  if (array ? !BSON_ITER_HOLDS_ARRAY(&it) : !BSON_ITER_HOLDS_DOCUMENT(&it)) {
    return error_set(err, ERR_TypeMismatch, "Field '%s' must be an %s", field, array ? "array" : "object");
  }
  *out = iter_child(a, &it);
  return true;
}

bool optional_count(const bson_t *doc, const char *field, int64_t *out, struct error *err) {
  bson_iter_t it;
  if (!doc_get(doc, field, &it) || BSON_ITER_HOLDS_NULL(&it)) return true;
  if (!iter_is_number(&it)) return error_set(err, ERR_TypeMismatch, "Field '%s' must be a number", field);
  *out = iter_i64(&it);
  if (*out < 0) {
    return error_set(err, ERR_BadValue, "BSON field '%s' value must be >= 0, actual value '%lld'", field,
                     (long long)*out);
  }
  return true;
}

static void unref_collection(void *arg) {
  collection_unref(arg);
}

struct collection *collection_hold(struct arena *a, struct collection *c) {
  collection_ref(c);
  arena_on_free(a, unref_collection, c);
  return c;
}

static void free_child(void *arg) {
  arena_free(arg);
}

struct arena *arena_child(struct arena *parent) {
  struct arena *child = arena_new();
  arena_on_free(parent, free_child, child);
  return child;
}

static void free_map(void *arg) {
  map_free(arg, NULL);
}

struct map *map_in_arena(struct arena *a) {
  struct map *m = map_new();
  arena_on_free(a, free_map, m);
  return m;
}
