// What a change of a whole collection is made of: its document, its first chunks, its zones.
#ifndef SHARDLET_CONFIGSVR_COLLECTION_PARTS_H
#define SHARDLET_CONFIGSVR_COLLECTION_PARTS_H

#include "configsvr/catalog_read.h"
#include "configsvr/chunk_table.h"

// Rows of config.chunks that one log entry deletes at most: about 1 MB.
enum { CHUNKS_PER_ENTRY = 10000 };

struct new_chunk {
  const bson_t *min, *max;
  const char *shard;
};

// The field `chunks`: [{min, max, shard}] in key order. They must cover the whole key space.
bool parse_new_chunks(struct request *r, struct arena *a, const bson_t *pattern, struct new_chunk **out, size_t *n,
                      struct error *err);
bool whole_key_space(struct arena *a, const bson_t *pattern, const char *shard, struct new_chunk *out,
                     struct error *err);
// Writes the collection's document (uuid, epoch and timestamp are set), its chunks 1|0, 1|1... and where they are.
bool put_collection(struct commit *c, const struct collection_type *coll, const struct new_chunk *chunks, size_t n,
                    struct chunk_version *version, struct error *err);
// Deletes up to `limit` chunks. *more: whether some are left; with more == NULL there must be none.
bool delete_some_chunks(struct commit *c, const uint8_t uuid[16], size_t limit, bool *more, struct error *err);
bool delete_tags(struct commit *c, const char *ns, struct error *err);
bool rename_tags(struct commit *c, const char *from, const char *to, struct error *err);

#endif
