// The handlers of the writing commands that have files of their own.
#ifndef SHARDLET_MONGOS_WRITE_COMMANDS_H
#define SHARDLET_MONGOS_WRITE_COMMANDS_H

#include "mongos/router.h"

bool run_find_and_modify(struct request *r, bson_t *reply, struct error *err);
bool run_bulk_write(struct request *r, bson_t *reply, struct error *err);

bool forward_write_to_config(struct request *r, bson_t *reply, struct error *err);

#endif
