// Versions of collections, shards and databases (reference: MongoDB's chunk_version.h, shard_version.h,
// database_version.h).
//
// A chunk version is {epoch, timestamp, major|minor}: moves raise major, splits and merges minor. A collection's
// version is the highest of its chunks, a shard's the highest of the chunks it has (0|0 when it has none).
#ifndef SHARDLET_SHARDING_VERSION_H
#define SHARDLET_SHARDING_VERSION_H

#include <bson/bson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/error.h"

struct chunk_version {
  bson_oid_t epoch;
  uint64_t timestamp;
  uint32_t major, minor;
};

struct chunk_version chunk_version_unsharded(void); // epoch and timestamp zero, 0|0
struct chunk_version chunk_version_ignored(void);   // "skip the placement check"
bool chunk_version_is_unsharded(const struct chunk_version *v);
bool chunk_version_is_ignored(const struct chunk_version *v);
bool chunk_version_same_generation(const struct chunk_version *a, const struct chunk_version *b);
// What a shard asks: same generation and same major.
bool chunk_version_compatible(const struct chunk_version *received, const struct chunk_version *wanted);
// timestamp, then major, then minor. Not for UNSHARDED or IGNORED.
int chunk_version_compare(const struct chunk_version *a, const struct chunk_version *b);
bool chunk_version_equal(const struct chunk_version *a, const struct chunk_version *b);

// {e, t, v: Timestamp(major, minor)}; a parse error is BadValue or NoSuchKey.
bool chunk_version_parse(const bson_t *doc, struct chunk_version *out, struct error *err);
void chunk_version_append(bson_t *to, const char *name, const struct chunk_version *v);
uint64_t chunk_version_lastmod(const struct chunk_version *v); // the Timestamp's 64 bits
const char *
chunk_version_text(struct arena *a,
                   const struct chunk_version *v); // "{ e: ObjectId(...), t: Timestamp(..), v: Timestamp(11, 1) }"

struct database_version {
  uint8_t uuid[16];
  uint64_t timestamp;
  int32_t last_mod; // 0 = "fixed": admin, config
};
bool database_version_parse(const bson_t *doc, struct database_version *out, struct error *err);
void database_version_append(bson_t *to, const char *name, const struct database_version *v);
bool database_version_equal(const struct database_version *a, const struct database_version *b);

// The errors that stale requests get, with their extra fields (ns, vReceived, vWanted?, shardId). wanted NULL = not
// known.
bool error_stale_config(struct error *err, struct arena *a, const char *ns, const struct chunk_version *received,
                        const struct chunk_version *wanted, const char *shard_id, const char *why);
bool error_stale_db_version(struct error *err, struct arena *a, const char *db, const struct database_version *received,
                            const struct database_version *wanted);
// Reads them back on the router. *has_wanted false: the shard does not know.
bool error_read_stale_config(const struct error *err, const char **ns, struct chunk_version *wanted, bool *has_wanted);

#endif
