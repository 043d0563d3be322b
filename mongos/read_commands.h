// The handlers of the reading commands, one file each; read_commands.c has their table.
#ifndef SHARDLET_MONGOS_READ_COMMANDS_H
#define SHARDLET_MONGOS_READ_COMMANDS_H

#include "mongos/router.h"

bool run_find(struct request *r, bson_t *reply, struct error *err);
bool run_count(struct request *r, bson_t *reply, struct error *err);
bool run_distinct(struct request *r, bson_t *reply, struct error *err);
bool run_aggregate(struct request *r, bson_t *reply, struct error *err);
bool run_explain(struct request *r, bson_t *reply, struct error *err);

#endif
