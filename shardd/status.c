// serverStatus.sharding and serverStatus.shardingStatistics, in MongoDB's order (reference/sharding.md 7.3);
// numOrphanDocs.
#include "shardd/status.h"

#include "common/bson/doc.h"
#include "shardd/file_merger.h"
#include "shardd/metadata.h"
#include "shardd/migrations.h"
#include "shardd/range_deleter.h"

enum { DEFAULT_CHUNK_BYTES = 128 * 1024 * 1024 };

struct counter {
  const char *name;
  int64_t value;
};

static void append_counters(bson_t *to, const struct counter *c, size_t n) {
  for (size_t i = 0; i < n; i++) bson_append_int64(to, c[i].name, -1, c[i].value);
}

static void append_migration_counters(const struct shard *sh, bson_t *to) {
  const struct shard_counters *c = &sh->counters;
  const struct counter list[] = {
      {"countStaleConfigErrors", c->stale_config_errors},
      {"countDonorMoveChunkStarted", c->donor_started},
      {"countDonorMoveChunkCommitted", c->donor_committed},
      {"countDonorMoveChunkAborted", c->donor_aborted},
      {"totalDonorMoveChunkTimeMillis", c->donor_total_ms},
      {"totalDonorChunkCloneTimeMillis", c->donor_clone_ms},
      {"totalCriticalSectionCommitTimeMillis", c->critical_section_commit_ms},
      {"totalCriticalSectionTimeMillis", c->critical_section_ms},
      {"totalRecipientCriticalSectionTimeMillis", c->recipient_critical_section_ms},
      {"countDocsClonedOnRecipient", c->docs_cloned_on_recipient},
      {"countBytesClonedOnRecipient", c->bytes_cloned_on_recipient},
      {"countDocsClonedOnCatchUpOnRecipient", c->docs_caught_up_on_recipient},
      {"countBytesClonedOnCatchUpOnRecipient", c->bytes_caught_up_on_recipient},
      {"countDocsClonedOnDonor", c->docs_cloned_on_donor},
      {"countBytesClonedOnDonor", c->bytes_cloned_on_donor},
      {"countRecipientMoveChunkStarted", c->recipient_started},
      {"countDocsDeletedByRangeDeleter", c->docs_deleted_by_range_deleter},
      {"countBytesDeletedByRangeDeleter", c->bytes_deleted_by_range_deleter},
      {"countDonorMoveChunkLockTimeout", 0},
      {"countDonorMoveChunkAbortConflictingIndexOperation", c->donor_aborted_by_index_operation},
      {"unfinishedMigrationFromPreviousPrimary", c->unfinished_migrations},
  };
  append_counters(to, list, sizeof list / sizeof *list);
  BSON_APPEND_INT32(to, "chunkMigrationConcurrency", 1);
  const struct counter rest[] = {
      {"unauthorizedDirectShardOps", 0},
      {"countTransitionToDedicatedConfigServerStarted", 0},
      {"countTransitionToDedicatedConfigServerCompleted", 0},
      {"countTransitionFromDedicatedConfigServerCompleted", 0},
  };
  append_counters(to, rest, sizeof rest / sizeof *rest);
}

static void append_catalog_cache(const struct shard *sh, bson_t *to) {
  const struct shard_counters *c = &sh->counters;
  size_t databases, collections = metadata_count(sh->metadata, &databases);
  const struct counter list[] = {
      {"numDatabaseEntries", (int64_t)databases},
      {"numCollectionEntries", (int64_t)collections},
      {"numIndexEntries", 0},
      {"countStaleConfigErrors", c->stale_config_errors},
      {"totalRefreshWaitTimeMicros", c->refresh_wait_us},
      {"numActiveIncrementalRefreshes", c->active_incremental_refreshes},
      {"countIncrementalRefreshesStarted", c->incremental_refreshes},
      {"numActiveFullRefreshes", c->active_full_refreshes},
      {"countFullRefreshesStarted", c->full_refreshes},
      {"countFailedRefreshes", c->failed_refreshes},
  };
  bson_t child;
  BSON_APPEND_DOCUMENT_BEGIN(to, "catalogCache", &child);
  append_counters(&child, list, sizeof list / sizeof *list);
  bson_append_document_end(to, &child);
}

static void append_sharding(const struct shard *sh, bson_t *reply) {
  bson_t out;
  BSON_APPEND_DOCUMENT_BEGIN(reply, "sharding", &out);
  BSON_APPEND_UTF8(&out, "configsvrConnectionString", sh->config_string);
  BSON_APPEND_INT64(&out, "maxChunkSizeInBytes", DEFAULT_CHUNK_BYTES);
  migrations_status(sh->migrations, &out);
  bson_append_document_end(reply, &out);
}

static void server_status(void *ctx, bson_t *reply) {
  const struct shard *sh = ctx;
  bson_t out;
  if (shard_enabled(sh)) append_sharding(sh, reply);
  BSON_APPEND_DOCUMENT_BEGIN(reply, "shardingStatistics", &out);
  append_migration_counters(sh, &out);
  append_catalog_cache(sh, &out);
  doc_append_num(&out, "rangeDeleterTasks", (int64_t)range_deleter_count(sh->deleter));
  BSON_APPEND_BOOL(&out, "configServerInShardCache", false);
  bson_append_document_end(reply, &out);
  file_merger_status(sh->file_merger, reply);
}

static void collection_stats_hook(void *ctx, const struct collection *c, bson_t *storage_stats) {
  const struct shard *sh = ctx;
  int64_t files = 0;
  for (size_t i = 0; i < c->n_files; i++) files += c->files[i]->state == FILE_ACTIVE;
  doc_append_num(storage_stats, "numOrphanDocs", range_deleter_orphans(sh->deleter, c->uuid));
  doc_append_num(storage_stats, "numRangeFiles", files);
}

void status_hooks(struct shard *sh, struct node_hooks *hooks) {
  hooks->server_status = server_status;
  hooks->collection_stats = collection_stats_hook;
}
