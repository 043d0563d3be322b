// Writing a BSON array element by element.
#ifndef SHARDLET_SHARDD_BSON_ARRAY_H
#define SHARDLET_SHARDD_BSON_ARRAY_H

#include <bson/bson.h>

struct bson_array {
  bson_t *bson; // begun and ended by the caller
  uint32_t n;
  size_t bytes; // added so far
};

static inline void bson_array_add(struct bson_array *a, const bson_t *doc) {
  char text[16];
  const char *name;
  size_t len = bson_uint32_to_string(a->n++, &name, text, sizeof text);
  bson_append_document(a->bson, name, (int)len, doc);
  a->bytes += doc->len + len + 2;
}

#endif
