// What the router itself asks of a command's body: the rest is for the shards, which parse it anyway.
#ifndef SHARDLET_MONGOS_BODY_H
#define SHARDLET_MONGOS_BODY_H

#include "common/net/command.h"

// *out is a view of a field's document, empty when the field is missing or null. err: TypeMismatch.
bool body_document(const struct request *r, const char *field, bson_t *out, struct error *err);

// Whether a filter is one: asked where the collection is nowhere, so that no shard would say it.
bool body_filter_check(const struct request *r, const bson_t *filter, struct error *err);

#endif
