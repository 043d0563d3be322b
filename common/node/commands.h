// The handlers of the node's command tables, by family.
#ifndef SHARDLET_NODE_COMMANDS_H
#define SHARDLET_NODE_COMMANDS_H

#include "common/net/command.h"

// --- ddl ---
bool create_run(struct request *r, bson_t *reply, struct error *err);
bool drop_run(struct request *r, bson_t *reply, struct error *err);
bool drop_database_run(struct request *r, bson_t *reply, struct error *err);
bool rename_collection_run(struct request *r, bson_t *reply, struct error *err);
bool coll_mod_run(struct request *r, bson_t *reply, struct error *err);
bool create_indexes_run(struct request *r, bson_t *reply, struct error *err);
bool drop_indexes_run(struct request *r, bson_t *reply, struct error *err);
bool list_indexes_run(struct request *r, bson_t *reply, struct error *err);
bool list_collections_run(struct request *r, bson_t *reply, struct error *err);
bool list_databases_run(struct request *r, bson_t *reply, struct error *err);

// --- statistics ---
bool coll_stats_run(struct request *r, bson_t *reply, struct error *err);
bool db_stats_run(struct request *r, bson_t *reply, struct error *err);
bool data_size_run(struct request *r, bson_t *reply, struct error *err);
bool validate_run(struct request *r, bson_t *reply, struct error *err);
bool server_status_run(struct request *r, bson_t *reply, struct error *err);

// --- diagnostics ---
bool hello_run(struct request *r, bson_t *reply, struct error *err);
bool get_parameter_run(struct request *r, bson_t *reply, struct error *err);
bool set_parameter_run(struct request *r, bson_t *reply, struct error *err);
bool current_op_run(struct request *r, bson_t *reply, struct error *err);
bool kill_op_run(struct request *r, bson_t *reply, struct error *err);

#endif
