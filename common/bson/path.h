// Dotted paths: "a.b.0.c" through embedded documents and arrays.
#ifndef SHARDLET_BSON_PATH_H
#define SHARDLET_BSON_PATH_H

#include <bson/bson.h>
#include <stdbool.h>

#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/bson/key.h"

// Resolves without expanding arrays except by numeric components. false: missing.
bool path_get(const bson_t *doc, const char *path, bson_value_t *out);

// As path_get(), but an array on the way or at the end is refused: false, and *array says why.
bool path_get_single(const bson_t *doc, const char *path, bson_value_t *out, bool *array);

// Calls fn for every value the path reaches, as the query language sees it: arrays on the way are expanded (their
// documents, not arrays within arrays), a numeric component also indexes. An array at the end of the path is given as
// it is. Where a document on the way lacks the next component fn is called with v == NULL. Stops when fn returns false;
// returns whether it ran through.
bool path_each(const bson_t *doc, const char *path, bool (*fn)(void *ctx, const bson_value_t *v), void *ctx);

// Extracts a shard key or an index key whose path crosses no array. Missing parts become null when `missing_null`.
// false: an array is on the path or is the value (err ShardKeyNotFound), or a part is missing.
bool path_extract_key(struct arena *a, const bson_t *doc, const bson_t *pattern, bool missing_null, bson_t **out,
                      struct error *err);
// The same, encoded (key.h), missing parts null, the values of fields that the pattern calls "hashed" hashed.
bool path_encode_key(struct arena *a, const bson_t *doc, const bson_t *pattern, struct key *out, struct error *err);

#endif
