// Sort keys as tuples of values.
#ifndef SHARDLET_QUERY_SORT_INTERNAL_H
#define SHARDLET_QUERY_SORT_INTERNAL_H

#include "common/query/sort.h"

enum { SORT_MAX_FIELDS = 32 };

struct sort_field {
  const char *path;
  bool descending;
};

struct sort {
  const bson_t *pattern;
  struct sort_field *fields;
  size_t n;
};

// The document's key as borrowed values. false: its paths lead into different arrays (the key is made all the same).
bool sort_key_of(const struct sort *s, const bson_t *doc, bson_value_t *key);

#endif
