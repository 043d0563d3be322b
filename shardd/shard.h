// A shard: what shardd is besides a member of a replica set.
//
// Without a shard identity (before addShard) everything here rests and shardd is a plain replica-set member. All of it
// belongs to the loop's thread.
#ifndef SHARDLET_SHARDD_SHARD_H
#define SHARDLET_SHARDD_SHARD_H

#include "common/node/local.h"
#include "common/node/node.h"
#include "common/sharding/catalog_client.h"

struct metadata;
struct range_deleter;
struct migrations;
struct ddl_locks;
struct failpoints;
struct change_log;
struct file_merger;

// Of serverStatus.shardingStatistics, in its order (reference/sharding.md 7.3).
struct shard_counters {
  int64_t stale_config_errors;
  int64_t donor_started, donor_committed, donor_aborted;
  int64_t donor_total_ms, donor_clone_ms;
  int64_t critical_section_commit_ms, critical_section_ms, recipient_critical_section_ms;
  int64_t docs_cloned_on_recipient, bytes_cloned_on_recipient;
  int64_t docs_caught_up_on_recipient, bytes_caught_up_on_recipient;
  int64_t docs_cloned_on_donor, bytes_cloned_on_donor;
  int64_t recipient_started;
  int64_t docs_deleted_by_range_deleter, bytes_deleted_by_range_deleter;
  int64_t donor_aborted_by_index_operation;
  int64_t unfinished_migrations; // found by the last step-up
  int64_t refresh_wait_us, incremental_refreshes, full_refreshes, failed_refreshes;
  int64_t active_incremental_refreshes, active_full_refreshes;
};

struct shard_parameters {
  int64_t orphan_cleanup_delay_secs;
  int64_t receive_wait_for_range_deleter_ms;
  int64_t range_deleter_batch_size, range_deleter_batch_delay_ms;
  int64_t max_catch_up_percentage;
  int64_t range_file_merge_target_mb, range_file_merge_interval_secs; // our own; interval 0: never
  bool test_commands;
};

struct shard {
  struct loop *loop;
  struct node node;
  bool started; // node_start() has returned: what follows is complete
  bool stopping;
  struct event changed;          // `started`, the identity, the role, `recovered_term` or `background` changed
  struct background *background; // background.h
  int64_t recovered_term;        // the term whose recovery (migrations, DDL, staged files) is over; -1 = none

  char *name; // of this shard; NULL = no identity yet
  bson_oid_t cluster_id;
  char *config_string;
  struct replica_set *config;
  struct shard_registry *shards;

  struct metadata *metadata;
  struct range_deleter *deleter;
  struct migrations *migrations;
  struct ddl_locks *ddl_locks;
  struct failpoints *failpoints;
  struct change_log *change_log;
  struct file_merger *file_merger;
  struct mutex cache_writing; // one writer of config.cache.* at a time
  struct shard_counters counters;
  struct shard_parameters parameters;
};

// Whether this node is part of a cluster. err ShardingStateNotInitialized (203).
static inline bool shard_enabled(const struct shard *sh) {
  return sh->name != NULL;
}
bool shard_require_identity(const struct shard *sh, struct error *err);

// The shard of a request's daemon.
struct shard *shard_of(const struct request *r);

// Waits until this member is primary and what an earlier primary left undone was taken up (migration_recovery.h).
bool shard_wait_recovered(struct operation *op, struct shard *sh, struct error *err);

// The command tables of shardd's families.
extern const struct command shardd_admin_commands[];
extern const struct command shardd_split_commands[];
extern const struct command shardd_merge_commands[];
extern const struct command shardd_donor_commands[];
extern const struct command shardd_recipient_commands[];
extern const struct command shardd_create_commands[];
extern const struct command shardd_drop_commands[];
extern const struct command shardd_rename_commands[];
extern const struct command shardd_participant_commands[];
extern const struct command shardd_move_collection_commands[];
extern const struct command shardd_collection_copy_commands[];
extern const struct command shardd_balancing_commands[];
extern const struct command shardd_test_commands[];

#endif
