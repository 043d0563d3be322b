// Whether a collection can be sharded as asked, and making it ready where it is empty (reference/commands.md 3.2).
#ifndef SHARDLET_SHARDD_SHARD_COLLECTION_CHECKS_H
#define SHARDLET_SHARDD_SHARD_COLLECTION_CHECKS_H

#include "common/sharding/shard_key.h"
#include "shardd/shard.h"

struct shard_collection { // one shardCollection
  const char *ns;
  struct shard_key key;
  bool unique, presplit_hashed_zones, implicitly_create_index, enforce_uniqueness_check;
  bool has_db_version;
  struct database_version db_version;
  bool has_expected_uuid;
  uint8_t expected_uuid[16];

  uint8_t uuid[16];             // the collection's, or the one it gets
  bool empty, created;          // no documents; made here, or its index was
  struct chunk_version version; // result
};

bool shard_collection_parse(struct request *r, struct shard_collection *out, struct error *err);

// What the config server knows already. *done: sharded in the same way. err AlreadyInitialized (23).
bool shard_collection_check_tracked(struct arena *a, const struct shard *sh, struct shard_collection *x,
                                    const struct routing *r, bool *done, struct error *err);

// Options, indexes, documents; called in the critical section. Where there are no documents, collection and index are
// made.
bool shard_collection_prepare(struct operation *op, struct shard *sh, struct shard_collection *x, struct error *err);

#endif
