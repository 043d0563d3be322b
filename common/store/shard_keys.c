// The shard key as the store needs it: what a key says about _id, and bounds that stand for everything.
#include <string.h>

#include "common/bson/doc.h"
#include "common/store/table.h"

bool shard_key_determines_id(const bson_t *pattern) {
  bson_iter_t it;
  if (!bson_iter_init(&it, pattern) || !bson_iter_next(&it)) return true;
  return strcmp(bson_iter_key(&it), "_id") == 0 && !bson_iter_next(&it);
}

// Whether the bound is `fields` times a value that is encoded as this one byte.
static bool is_all(struct key bound, uint32_t fields, bson_type_t type) {
  __attribute__((cleanup(buf_cleanup))) struct buf one = {0};
  key_append(&one, &(bson_value_t){.value_type = type}, false);
  if (!fields || bound.len != fields * one.len) return false;
  for (size_t at = 0; at < bound.len; at += one.len) {
    if (memcmp(bound.data + at, one.data, one.len) != 0) return false;
  }
  return true;
}

void shard_key_normalize_range(const bson_t *pattern, struct key *min, struct key *max) {
  uint32_t fields = bson_count_keys(pattern);
  if (is_all(*min, fields, BSON_TYPE_MINKEY)) *min = (struct key){0};
  if (is_all(*max, fields, BSON_TYPE_MAXKEY)) *max = (struct key){0};
}
