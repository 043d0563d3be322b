// Internal to catalog_client: a find on the config server, document by document.
#ifndef SHARDLET_SHARDING_CATALOG_SCAN_H
#define SHARDLET_SHARDING_CATALOG_SCAN_H

#include "common/net/replica_set.h"

struct catalog_query {
  const char *collection; // of the database config
  const bson_t *filter;
  const bson_t *sort; // NULL = any order
  int64_t limit;      // 0 = all
};

// With read concern majority on the primary (so behind a barrier). Each batch's memory goes with the batch. fn returns
// false to stop with its error.
bool catalog_scan(struct operation *op, struct replica_set *config, const struct catalog_query *q,
                  bool (*fn)(void *ctx, const bson_t *doc, struct error *err), void *ctx, struct error *err);

#endif
