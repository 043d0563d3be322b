// The shard server's process: a node with the version check as its hooks, and the work of a shard around it.
//
// A member becomes primary in this order: stepping_up() forgets all metadata and restores critical sections from the
// log, before anything is served; take_over() then drops what an earlier primary had received in vain, and starts the
// range deleter and the recovery of migrations and DDL operations.
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/bson/doc.h"
#include "common/net/daemon.h"
#include "common/store/change.h"
#include "shardd/background.h"
#include "shardd/cache_writer.h"
#include "shardd/change_log.h"
#include "shardd/ddl_coordinator.h"
#include "shardd/failpoint.h"
#include "shardd/file_merger.h"
#include "shardd/identity.h"
#include "shardd/metadata.h"
#include "shardd/migration_destination.h"
#include "shardd/migration_recovery.h"
#include "shardd/migration_source.h"
#include "shardd/migrations.h"
#include "shardd/range_deleter.h"
#include "shardd/status.h"
#include "shardd/version_check.h"

enum { TAKE_OVER_RETRY_MS = 500 };

static const struct command *const tables[] = {
    shardd_create_commands,          shardd_drop_commands,
    shardd_rename_commands,          shardd_participant_commands,
    shardd_admin_commands,           shardd_donor_commands,
    shardd_recipient_commands,       shardd_split_commands,
    shardd_merge_commands,           shardd_test_commands,
    shardd_move_collection_commands, shardd_collection_copy_commands,
    shardd_balancing_commands,       NULL,
};

// --- roles ---

static void stepping_up(struct operation *op, void *ctx) {
  struct shard *sh = ctx;
  metadata_forget_all(sh->metadata);
  identity_load(sh);
  range_deleter_load(sh->deleter);
  migration_restore_sections(sh);
  sh->counters.unfinished_migrations = local_count(&sh->node, COORDINATORS_NS, arena_bson(op->arena));
}

static void take_over(struct operation *op, void *ctx) {
  struct shard *sh = ctx;
  int64_t term = repl_term(sh->node.repl);
  struct error err = {0};
  while (!migration_recover_received(op, sh, &err)) {
    log_warn("MIGRATE", "Dropping what was received before is tried again", "error:e", &err);
    arena_reset(op->arena); // with it what the failed try still has locked
    if (!op_sleep(op, TAKE_OVER_RETRY_MS, &err)) return;
  }
  sh->recovered_term = term;
  event_signal(&sh->changed);
  background_start(sh, "rangeDeleter", range_deleter_run, sh->deleter);
  background_start(sh, "rangeFileMerger", file_merger_run, sh->file_merger);
  migration_recover_soon(sh);
  ddl_resume_soon(sh);
}

static void role_changed(void *ctx, enum member_state state, int64_t term) {
  struct shard *sh = ctx;
  if (!sh->started || sh->stopping) return;
  if (state == MEMBER_PRIMARY) {
    background_start(sh, "takeOver", take_over, sh);
  } else {
    background_kill(sh, ERR_InterruptedDueToReplStateChange);
    metadata_forget_all(sh->metadata);
  }
  event_signal(&sh->changed);
}

// --- the log ---

// An initial sync: what was known of the old data is not true of the new.
static void replaced(void *ctx) {
  struct shard *sh = ctx;
  if (!sh->started) return;
  metadata_forget_all(sh->metadata);
  identity_load(sh);
  range_deleter_load(sh->deleter);
}

struct applying {
  struct shard *sh;
  uint8_t uuid[16]; // of `collection`: neighbouring changes are mostly of one collection
  struct collection *collection;
};

static struct collection *collection_of(struct applying *a, const uint8_t uuid[16]) {
  if (!a->collection || memcmp(a->uuid, uuid, 16) != 0) {
    memcpy(a->uuid, uuid, 16);
    a->collection = store_collection_by_uuid(a->sh->node.store, uuid);
  }
  return a->collection;
}

// On a secondary what the primary writes to config.cache.* ends what is known here.
static void cache_changed(struct shard *sh, const char *ns, const bson_value_t *id) {
  if (repl_is_primary(sh->node.repl) || id->value_type != BSON_TYPE_UTF8) return;
  if (!strcmp(ns, CACHE_COLLECTIONS_NS)) metadata_invalidate(sh->metadata, id->value.v_utf8.str);
  if (!strcmp(ns, CACHE_DATABASES_NS)) metadata_invalidate_database(sh->metadata, id->value.v_utf8.str);
}

static bool change_applied(void *ctx, const struct change *c) {
  struct applying *a = ctx;
  bool put = !strcmp(c->kind, "p");
  if (!put && strcmp(c->kind, "d") != 0) return true;
  struct collection *coll = collection_of(a, c->uuid);
  struct reception *r = a->sh->migrations->reception;
  if (coll && r && put) reception_put_applied(r, coll, c);
  if (!coll || !coll->internal) return true;
  if (!strcmp(coll->ns, RANGE_DELETIONS_NS))
    range_deleter_applied(a->sh->deleter, &c->id, put ? &c->doc : NULL);
  else if (!strcmp(coll->ns, IDENTITY_NS) && put)
    identity_applied(a->sh, &c->doc);
  else
    cache_changed(a->sh, coll->ns, &c->id);
  return true;
}

static void applied(void *ctx, uint64_t index, const bson_t *entry) {
  struct shard *sh = ctx;
  if (!sh->started) return; // all of it is read once when the replay is over
  const struct donation *d = sh->migrations->donation;
  if (d && d->cloner) capture_entry(cloner_capture(d->cloner), entry);
  file_merger_applied(sh->file_merger, entry);
  struct applying a = {.sh = sh};
  changes_each(entry, change_applied, &a);
}

// --- start and stop ---

static void add_parameters(struct shard *sh) {
  struct shard_parameters *p = &sh->parameters;
  *p = (struct shard_parameters){.orphan_cleanup_delay_secs = 900,
                                 .receive_wait_for_range_deleter_ms = 10000,
                                 .range_deleter_batch_size = INT32_MAX,
                                 .range_deleter_batch_delay_ms = 20,
                                 .max_catch_up_percentage = 10,
                                 .range_file_merge_target_mb = 64,
                                 .range_file_merge_interval_secs = 10};
  struct node *n = &sh->node;
  parameter_add_int(n, "orphanCleanupDelaySecs", &p->orphan_cleanup_delay_secs, 0, INT32_MAX, true);
  parameter_add_int(n, "receiveChunkWaitForRangeDeleterTimeoutMS", &p->receive_wait_for_range_deleter_ms, 0, INT32_MAX,
                    true);
  parameter_add_int(n, "rangeDeleterBatchSize", &p->range_deleter_batch_size, 0, INT32_MAX, true);
  parameter_add_int(n, "rangeDeleterBatchDelayMS", &p->range_deleter_batch_delay_ms, 0, INT32_MAX, true);
  parameter_add_int(n, "maxCatchUpPercentageBeforeBlockingWrites", &p->max_catch_up_percentage, 0, 100, true);
  parameter_add_int(n, "rangeFileMergeTargetMB", &p->range_file_merge_target_mb, 1, 1024, true);
  parameter_add_int(n, "rangeFileMergeIntervalSecs", &p->range_file_merge_interval_secs, 0, 86400, true);
  parameter_add_bool(n, "enableTestCommands", &p->test_commands, false);
}

static struct shard *shard_new(struct loop *l) {
  size_t size = (sizeof(struct shard) + 127) / 128 * 128; // a node may hold documents
  struct shard *sh = memset(aligned_alloc(128, size), 0, size);
  sh->loop = l;
  sh->recovered_term = -1;
  sh->metadata = metadata_new(sh);
  sh->deleter = range_deleter_new(sh);
  sh->migrations = migrations_new(sh);
  sh->ddl_locks = ddl_locks_new();
  sh->failpoints = failpoints_new();
  sh->change_log = change_log_new(sh);
  sh->file_merger = file_merger_new(sh);
  add_parameters(sh);
  return sh;
}

static bool start(struct operation *op, struct loop *l, const struct options *o, void **state, struct error *err) {
  struct shard *sh = shard_new(l);
  struct node_options n = {.program = "shardd",
                           .options = o,
                           .tables = tables,
                           .repl_hooks = {.ctx = sh,
                                          .applied = applied,
                                          .stepping_up = stepping_up,
                                          .role_changed = role_changed,
                                          .replaced = replaced},
                           .daemon = sh};
  version_check_hooks(sh, &n.hooks);
  status_hooks(sh, &n.hooks);
  if (!node_start(op, &sh->node, l, &n, err)) return false; // the process ends
  sh->started = true;
  *state = sh;
  identity_load(sh);
  range_deleter_load(sh->deleter);
  if (repl_is_primary(sh->node.repl)) background_start(sh, "takeOver", take_over, sh);
  return true;
}

static void stop(struct operation *op, void *state) {
  struct shard *sh = state;
  sh->stopping = true;
  background_kill(sh, ERR_InterruptedAtShutdown);
  background_wait(op, sh);
  node_stop(op, &sh->node);
  if (sh->shards) shard_registry_free(sh->shards);
  if (sh->config) replica_set_unwatch(sh->config);
  migrations_free(sh->migrations);
  range_deleter_free(sh->deleter);
  metadata_free(sh->metadata);
  ddl_locks_free(sh->ddl_locks);
  failpoints_free(sh->failpoints);
  change_log_free(sh->change_log);
  file_merger_free(sh->file_merger);
  free(sh->config_string);
  free(sh->name);
  free(sh);
}

int main(int argc, char **argv) {
  size_t n;
  struct daemon d = {.program = "shardd",
                     .summary = "keeps the documents of one shard",
                     .own_options = node_option_table(&n),
                     .start = start,
                     .stop = stop};
  return daemon_main(&d, argc, argv);
}
