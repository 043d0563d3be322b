// Statistics of collections: collStats, $collStats, dbStats.
#ifndef SHARDLET_NODE_STATS_H
#define SHARDLET_NODE_STATS_H

#include "common/node/node.h"

// size, count, avgObjSize?, numOrphanDocs, storageSize, freeStorageSize, capped, nindexes, indexSizes...; sizes divided
// by `scale`. c NULL: of a collection that is not there.
void storage_stats_append(struct node *n, const struct collection *c, int64_t scale, bson_t *out);
bool stats_scale(const bson_t *doc, int64_t *scale, struct error *err); // the field `scale`, 1 when absent

#endif
