// What split, merge and move check on the shard before they ask the config server (reference/commands.md 4.4). Each
// failure is a StaleConfig, so that the router refreshes and looks again.
#ifndef SHARDLET_SHARDD_PLACEMENT_CHECKS_H
#define SHARDLET_SHARDD_PLACEMENT_CHECKS_H

#include "shardd/metadata.h"

// The collection is sharded and of the generation that the sender knew.
bool placement_check_collection(struct arena *a, const struct shard *sh, const struct routing *r,
                                const struct chunk_version *generation, struct error *err);
// [min, max) lies in one chunk of this shard, which is put into *chunk.
bool placement_check_in_chunk(struct arena *a, const struct shard *sh, const struct routing *r, const bson_t *min,
                              const bson_t *max, struct chunk *chunk, struct error *err);
// [min, max) is exactly one chunk of this shard.
bool placement_check_is_chunk(struct arena *a, const struct shard *sh, const struct routing *r, const bson_t *min,
                              const bson_t *max, struct error *err);
// [min, max) is exactly a sequence of chunks of this shard; *n: how many.
bool placement_check_chunks(struct arena *a, const struct shard *sh, const struct routing *r, const bson_t *min,
                            const bson_t *max, size_t *n, struct error *err);

// The fields epoch and timestamp of a request.
bool placement_read_generation(const bson_t *body, const char *epoch, const char *timestamp, struct chunk_version *out,
                               struct error *err);

#endif
