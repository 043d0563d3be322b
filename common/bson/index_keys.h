// The keys that a document has in an index.
#ifndef SHARDLET_BSON_INDEX_KEYS_H
#define SHARDLET_BSON_INDEX_KEYS_H

#include <bson/bson.h>
#include <stdbool.h>

#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/bson/key.h"

struct index_keys {
  struct key *keys; // encoded, sorted, without duplicates, in the pattern's directions
  size_t n;
  bool multikey;    // an array was expanded
  bool all_missing; // no field of the pattern is there (a sparse index skips the document)
};

// pattern: {a: 1, "b.c": -1, d: "hashed"}; other values ("text", "2dsphere") must have been refused before.
// err: CannotIndexParallelArrays (171), Location16766 for an array under a hashed field.
bool index_keys_of(struct arena *a, const bson_t *pattern, const bson_t *doc, struct index_keys *out,
                   struct error *err);

#endif
