// The handlers of the CRUD commands, as the command table names them.
#ifndef SHARDLET_NODE_CRUD_H
#define SHARDLET_NODE_CRUD_H

#include "common/net/command.h"

bool find_run(struct request *r, bson_t *reply, struct error *err);
bool insert_run(struct request *r, bson_t *reply, struct error *err);
bool update_run(struct request *r, bson_t *reply, struct error *err);
bool delete_run(struct request *r, bson_t *reply, struct error *err);
bool find_and_modify_run(struct request *r, bson_t *reply, struct error *err);
bool count_run(struct request *r, bson_t *reply, struct error *err);
bool distinct_run(struct request *r, bson_t *reply, struct error *err);
bool aggregate_run(struct request *r, bson_t *reply, struct error *err);
bool explain_run(struct request *r, bson_t *reply, struct error *err);

// What explain and {explain: true} answer about an inner command.
bool explain_command(struct request *r, const bson_t *command, const char *verbosity, bson_t *reply, struct error *err);
// The namespace of an aggregate command, "db.$cmd.aggregate" without a collection; NULL with err.
const char *aggregate_namespace(const struct request *r, const bson_iter_t *first, struct arena *a, struct error *err);

#endif
