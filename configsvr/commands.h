// The handlers of the config server's commands; each is described where it is defined, and declared to clients in
// commands.c.
#ifndef SHARDLET_CONFIGSVR_COMMANDS_H
#define SHARDLET_CONFIGSVR_COMMANDS_H

#include "configsvr/config_server.h"

// add_shard.c, remove_shard.c
bool config_add_shard(struct request *r, bson_t *reply, struct error *err);
bool config_remove_shard(struct request *r, bson_t *reply, struct error *err);
// databases.c
bool config_create_database(struct request *r, bson_t *reply, struct error *err);
bool config_commit_move_primary(struct request *r, bson_t *reply, struct error *err);
bool config_commit_drop_database(struct request *r, bson_t *reply, struct error *err);
// collection_commits.c
bool config_commit_create_collection(struct request *r, bson_t *reply, struct error *err);
bool config_commit_drop_collection(struct request *r, bson_t *reply, struct error *err);
bool config_commit_rename_collection(struct request *r, bson_t *reply, struct error *err);
bool config_commit_move_collection(struct request *r, bson_t *reply, struct error *err);
// collections.c
bool config_configure_collection_balancing(struct request *r, bson_t *reply, struct error *err);
bool config_set_allow_migrations(struct request *r, bson_t *reply, struct error *err);
// chunk_split.c, chunk_merge.c, chunk_migration.c
bool config_commit_chunk_split(struct request *r, bson_t *reply, struct error *err);
bool config_commit_chunks_merge(struct request *r, bson_t *reply, struct error *err);
bool config_commit_merge_all_chunks_on_shard(struct request *r, bson_t *reply, struct error *err);
bool config_commit_chunk_migration(struct request *r, bson_t *reply, struct error *err);
bool config_ensure_chunk_version_is_greater_than(struct request *r, bson_t *reply, struct error *err);
bool config_clear_jumbo_flag(struct request *r, bson_t *reply, struct error *err);
// move_range.c
bool config_move_range(struct request *r, bson_t *reply, struct error *err);
// zones.c
bool config_add_shard_to_zone(struct request *r, bson_t *reply, struct error *err);
bool config_remove_shard_from_zone(struct request *r, bson_t *reply, struct error *err);
bool config_update_zone_key_range(struct request *r, bson_t *reply, struct error *err);
// balancer_commands.c
bool config_balancer_start(struct request *r, bson_t *reply, struct error *err);
bool config_balancer_stop(struct request *r, bson_t *reply, struct error *err);
bool config_balancer_status(struct request *r, bson_t *reply, struct error *err);
bool config_balancer_collection_status(struct request *r, bson_t *reply, struct error *err);

#endif
