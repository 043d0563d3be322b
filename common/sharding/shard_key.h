// The shard key pattern: {customerId: 1}, {userId: "hashed"}, {a: 1, b: "hashed"}.
#ifndef SHARDLET_SHARDING_SHARD_KEY_H
#define SHARDLET_SHARDING_SHARD_KEY_H

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/error.h"
#include "common/bson/key.h"
#include "common/query/match.h"

struct shard_key {
  const bson_t *pattern;
  size_t n; // fields
  const char **paths;
  int hashed; // index of the hashed field, -1 = none
};

// err BadValue with MongoDB's texts (commands.md 3.2).
bool shard_key_parse(struct arena *a, const bson_t *pattern, struct shard_key *out, struct error *err);

// A document's key as values ({customerId: 5}; hashed fields hashed; missing = null). err ShardKeyNotFound for arrays.
bool shard_key_of_document(const struct shard_key *k, struct arena *a, const bson_t *doc, const bson_t **out,
                           struct error *err);
// The key that a filter fixes by equality on every field. false: it does not (no error).
bool shard_key_of_filter(const struct shard_key *k, struct arena *a, const struct match *m, const bson_t **out);
// Whether `bound` has exactly the pattern's fields in order, with values a bound can have.
bool shard_key_is_bound(const struct shard_key *k, const bson_t *bound);
// A prefix of the key, completed with MinKey (or MaxKey).
const bson_t *shard_key_extend(const struct shard_key *k, struct arena *a, const bson_t *prefix, bool with_max);
const bson_t *shard_key_global_min(const struct shard_key *k, struct arena *a);
const bson_t *shard_key_global_max(const struct shard_key *k, struct arena *a);
bool shard_key_equal_patterns(const bson_t *a, const bson_t *b); // numeric types aside
// Whether an index with this key can serve the shard key (it is a prefix), sparse/partial/multikey aside.
bool shard_key_prefix_of(const struct shard_key *k, const bson_t *index_key);

// A key or a bound as memcmp-able bytes (all shard key fields ascend).
struct key bound_key(struct arena *a, const bson_t *bound);
// The same of a range's max, as an exclusive end: the all-MaxKey bound is beyond the point that it names, since a
// document with that very key belongs to the last chunk.
struct key bound_end(struct arena *a, const bson_t *max);
bool bound_is_all(const bson_t *bound, bson_type_t type); // BSON_TYPE_MINKEY, BSON_TYPE_MAXKEY: an end of the key space
// "[{ customerId: 1 }, { customerId: 5 })" for messages.
const char *range_text(struct arena *a, const bson_t *min, const bson_t *max);

#endif
