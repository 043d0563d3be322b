// Order-preserving encoding of BSON values: memcmp of two encodings is value_compare() of the values.
//
// Used for index keys in SQLite, chunk bounds and interval maps. A descending field is encoded with all bytes inverted.
// Compound keys are the concatenation of their parts; no encoding is a prefix of a different one. Values that compare
// equal (1, 1.0, NumberLong(1)) encode to the same bytes, so an encoding cannot be decoded; the value itself is kept
// beside it where it is needed.
#ifndef SHARDLET_BSON_KEY_H
#define SHARDLET_BSON_KEY_H

#include <bson/bson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/buf.h"

struct key {
  const uint8_t *data;
  size_t len;
};

void key_append(struct buf *to, const bson_value_t *v, bool descending);

// The values of `doc` in its own order, direction from `pattern` (same number of fields; NULL = all ascending).
void key_append_doc(struct buf *to, const bson_t *doc, const bson_t *pattern);

int key_compare(struct key a, struct key b); // memcmp order, a prefix sorts first
struct key key_copy(struct arena *a, const struct buf *from);

// The smallest key greater than every key that starts with k (k with its last byte below 0xff raised); len 0 = none.
struct key key_prefix_end(struct arena *a, struct key k);

#endif
