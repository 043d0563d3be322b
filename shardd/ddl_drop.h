// Dropping collections, for the operations that are made of it.
#ifndef SHARDLET_SHARDD_DDL_DROP_H
#define SHARDLET_SHARDD_DDL_DROP_H

#include "shardd/ddl_coordinator.h"

// Drops a collection everywhere, tracked or not; nothing when it is not there. The caller is in ddl_enter().
bool ddl_drop_everywhere(struct operation *op, struct shard *sh, const char *ns, struct error *err);

#endif
