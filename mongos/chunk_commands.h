// The handlers about chunks, one file a pair.
#ifndef SHARDLET_MONGOS_CHUNK_COMMANDS_H
#define SHARDLET_MONGOS_CHUNK_COMMANDS_H

#include "mongos/router.h"

bool run_split(struct request *r, bson_t *reply, struct error *err);
bool run_merge_chunks(struct request *r, bson_t *reply, struct error *err);
bool run_move_chunk(struct request *r, bson_t *reply, struct error *err);
bool run_move_range(struct request *r, bson_t *reply, struct error *err);

#endif
