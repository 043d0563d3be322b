// Cluster-wide defaults of read and write concern, as this router knows them: read from the config servers every ten
// seconds, and at once when they are set here.
#ifndef SHARDLET_MONGOS_RW_DEFAULTS_H
#define SHARDLET_MONGOS_RW_DEFAULTS_H

#include "mongos/shard_call.h"

void rw_defaults_load(struct operation *op, struct router *rt);
void rw_defaults_free(struct router *rt);
// Adds to a body on its way to a shard what the client's command did not say.
void rw_defaults_append(const struct request *r, enum call_kind kind, bson_t *body);

bool run_set_rw_defaults(struct request *r, bson_t *reply, struct error *err);
bool run_get_rw_defaults(struct request *r, bson_t *reply, struct error *err);

#endif
