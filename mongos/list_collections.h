// listCollections: the handler.
#ifndef SHARDLET_MONGOS_LIST_COLLECTIONS_H
#define SHARDLET_MONGOS_LIST_COLLECTIONS_H

#include "mongos/router.h"

bool run_list_collections(struct request *r, bson_t *reply, struct error *err);

#endif
