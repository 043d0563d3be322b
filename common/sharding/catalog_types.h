// The documents of config.*: one struct each, read and written in MongoDB's field order (reference/sharding.md 1.1).
#ifndef SHARDLET_SHARDING_CATALOG_TYPES_H
#define SHARDLET_SHARDING_CATALOG_TYPES_H

#include "common/sharding/version.h"

struct shard_type {
  const char *name, *host;
  bool draining;
  const bson_t *tags; // array, NULL = none
  uint64_t topology_time;
};

struct database_type {
  const char *name, *primary;
  struct database_version version;
};

struct collection_type {
  const char *ns;
  bson_oid_t epoch;
  int64_t lastmod_ms;
  uint64_t timestamp;
  uint8_t uuid[16];
  const bson_t *key;
  const bson_t *default_collation; // NULL = simple
  bool unique;
  int64_t max_chunk_size_bytes; // 0 = not set
  bool no_balance;
  bool allow_migrations;  // true when absent
  bool permit_migrations; // true when absent
  bool has_enable_auto_merge, enable_auto_merge;
  bool defragment;
  bool unsplittable;
};

struct chunk_history {
  uint64_t valid_after;
  const char *shard;
};

struct chunk_type {
  bson_oid_t id;
  uint8_t uuid[16];
  const bson_t *min, *max;
  const char *shard;
  uint32_t major, minor;
  bool has_jumbo, jumbo;
  uint64_t on_current_shard_since;
  struct chunk_history *history; // newest first
  size_t n_history;
};

struct tag_type {
  bson_oid_t id;
  const char *ns;
  const bson_t *min, *max;
  const char *tag;
};

// Everything in *out points into `doc` or the arena. err NoSuchKey/TypeMismatch naming the field.
bool shard_type_parse(struct arena *a, const bson_t *doc, struct shard_type *out, struct error *err);
bool database_type_parse(struct arena *a, const bson_t *doc, struct database_type *out, struct error *err);
bool collection_type_parse(struct arena *a, const bson_t *doc, struct collection_type *out, struct error *err);
bool chunk_type_parse(struct arena *a, const bson_t *doc, struct chunk_type *out, struct error *err);
bool tag_type_parse(struct arena *a, const bson_t *doc, struct tag_type *out, struct error *err);
bool tags_name_zone(const bson_t *tags, const char *zone); // tags: a shard's, may be NULL
const bson_t *shard_type_doc(struct arena *a, const struct shard_type *t);
const bson_t *database_type_doc(struct arena *a, const struct database_type *t);
const bson_t *collection_type_doc(struct arena *a, const struct collection_type *t);
const bson_t *chunk_type_doc(struct arena *a, const struct chunk_type *t);
const bson_t *tag_type_doc(struct arena *a, const struct tag_type *t);

#endif
