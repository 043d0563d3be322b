// Commands about what this shard is and knows: _addShard, versions, cache flushes, orphans (reference/commands.md 7).
#include <string.h>

#include "common/bson/doc.h"
#include "shardd/cache_writer.h"
#include "shardd/critical_section.h"
#include "shardd/identity.h"
#include "shardd/metadata.h"
#include "shardd/range_deleter.h"

static bool add_shard(struct request *r, bson_t *reply, struct error *err) {
  bson_t identity;
  return request_required_doc(r, "shardIdentity", &identity, err) && identity_give(r->op, shard_of(r), &identity, err);
}

// --- versions ---

static void append_range_pair(bson_t *chunks, uint32_t i, const bson_t *min, const bson_t *max) {
  char text[16];
  const char *name;
  bson_t pair;
  bson_uint32_to_string(i, &name, text, sizeof text);
  BSON_APPEND_ARRAY_BEGIN(chunks, name, &pair);
  BSON_APPEND_DOCUMENT(&pair, "0", min);
  BSON_APPEND_DOCUMENT(&pair, "1", max);
  bson_append_array_end(chunks, &pair);
}

struct own_chunks {
  struct arena *a;
  const struct chunk_map *map;
  const char *shard;
  bson_t *out;
  uint32_t n;
};

static bool append_own_chunk(void *ctx, const struct chunk *c) {
  struct own_chunks *x = ctx;
  const bson_t *min, *max;
  if (strcmp(c->shard, x->shard) != 0) return true;
  chunk_docs(x->map, x->a, c, &min, &max);
  append_range_pair(x->out, x->n++, min, max);
  return true;
}

static void append_metadata(struct operation *op, const struct shard *sh, const struct ns_metadata *n, bson_t *reply) {
  bson_t out, chunks;
  BSON_APPEND_DOCUMENT_BEGIN(reply, "metadata", &out);
  const struct routing *r = n ? n->routing : NULL;
  if (r && r->tracked) {
    struct chunk_version v = chunk_map_version(r->chunks);
    doc_append_ts(&out, "collVersion", chunk_version_lastmod(&v));
    BSON_APPEND_OID(&out, "collVersionEpoch", &v.epoch);
    doc_append_ts(&out, "collVersionTimestamp", v.timestamp);
    doc_append_ts(&out, "shardVersion", chunk_version_lastmod(&n->version));
    BSON_APPEND_OID(&out, "shardVersionEpoch", &n->version.epoch);
    doc_append_ts(&out, "shardVersionTimestamp", n->version.timestamp);
    BSON_APPEND_DOCUMENT(&out, "keyPattern", r->collection.key);
    BSON_APPEND_ARRAY_BEGIN(&out, "chunks", &chunks);
    struct own_chunks x = {.a = op->arena, .map = r->chunks, .shard = sh->name, .out = &chunks};
    chunk_map_all(r->chunks, append_own_chunk, &x);
    bson_append_array_end(&out, &chunks);
  }
  bson_append_document_end(reply, &out);
}

static bool get_shard_version(struct request *r, bson_t *reply, struct error *err) {
  const struct shard *sh = shard_of(r);
  if (!shard_require_identity(sh, err)) return false;
  if (!r->coll) return error_set(err, ERR_InvalidNamespace, "Invalid namespace specified");
  const struct ns_metadata *n = metadata_find_ns(sh->metadata, r->coll);
  BSON_APPEND_UTF8(reply, "configServer", sh->config_string);
  if (n && n->routing)
    doc_append_ts(reply, "global", chunk_version_lastmod(&n->version));
  else
    BSON_APPEND_UTF8(reply, "global", "UNKNOWN");
  if (doc_bool(r->body, "fullMetadata", false)) append_metadata(r->op, sh, n, reply);
  return true;
}

static bool append_version(void *ctx, struct ns_metadata *n) {
  if (n->routing && n->routing->tracked) doc_append_ts(ctx, n->ns, chunk_version_lastmod(&n->version));
  return true;
}

static bool sharding_state(struct request *r, bson_t *reply, struct error *err) {
  struct shard *sh = shard_of(r);
  BSON_APPEND_BOOL(reply, "enabled", shard_enabled(sh));
  if (!shard_enabled(sh)) return true;
  bson_t versions;
  BSON_APPEND_UTF8(reply, "configServer", sh->config_string);
  BSON_APPEND_UTF8(reply, "shardName", sh->name);
  BSON_APPEND_OID(reply, "clusterId", &sh->cluster_id);
  BSON_APPEND_DOCUMENT_BEGIN(reply, "versions", &versions);
  metadata_each(sh->metadata, append_version, &versions);
  bson_append_document_end(reply, &versions);
  return true;
}

static bool get_database_version(struct request *r, bson_t *reply, struct error *err) {
  const struct shard *sh = shard_of(r);
  if (!shard_require_identity(sh, err)) return false;
  const struct db_metadata *d = r->coll ? metadata_database(sh->metadata, r->coll) : NULL;
  if (d && d->exists) {
    database_version_append(reply, "dbVersion", &d->version);
    BSON_APPEND_BOOL(reply, "isPrimaryShardForDb", !strcmp(d->primary, sh->name));
  } else {
    BSON_APPEND_DOCUMENT(reply, "dbVersion", arena_bson(r->op->arena));
  }
  return true;
}

// --- caches ---

// "db.coll" or "db".
static void forget(struct shard *sh, const char *name) {
  if (strchr(name, '.'))
    metadata_invalidate(sh->metadata, name);
  else
    metadata_invalidate_database(sh->metadata, name);
}

static bool flush_router_config(struct request *r, bson_t *reply, struct error *err) {
  struct shard *sh = shard_of(r);
  if (r->coll)
    forget(sh, r->coll);
  else
    metadata_invalidate_everything(sh->metadata);
  BSON_APPEND_BOOL(reply, "flushed", true);
  return true;
}

static bool flush_collection(struct request *r, bson_t *reply, struct error *err) {
  struct shard *sh = shard_of(r);
  if (!shard_require_identity(sh, err)) return false;
  if (!r->coll) return error_set(err, ERR_InvalidNamespace, "Invalid namespace specified");
  if (!section_wait(r->op, metadata_ns(sh->metadata, r->coll), true, err)) return false;
  bool from_config = doc_bool(r->body, "syncFromConfig", true);
  return (!from_config || metadata_refresh(r->op, sh->metadata, r->coll, err)) && cache_flush(r->op, sh, r->coll, err);
}

static bool flush_database(struct request *r, bson_t *reply, struct error *err) {
  struct shard *sh = shard_of(r);
  if (!shard_require_identity(sh, err)) return false;
  if (!r->coll) return error_set(err, ERR_InvalidNamespace, "Invalid database name");
  return metadata_refresh_database(r->op, sh->metadata, r->coll, err) && cache_flush_database(r->op, sh, r->coll, err);
}

static bool invalidate(struct request *r, bson_t *reply, struct error *err) {
  if (!r->coll) return error_set(err, ERR_InvalidNamespace, "Invalid namespace specified");
  forget(shard_of(r), r->coll);
  return true;
}

// --- orphans, shards ---

static bool cleanup_orphaned(struct request *r, bson_t *reply, struct error *err) {
  struct shard *sh = shard_of(r);
  if (!r->coll) return error_set(err, ERR_InvalidNamespace, "Invalid namespace specified");
  while (range_deleter_has_ns(sh->deleter, r->coll))
    if (!range_deleter_wait_change(r->op, sh->deleter, err)) return false;
  return true;
}

static bool get_shard_map(struct request *r, bson_t *reply, struct error *err) {
  const struct shard *sh = shard_of(r);
  if (!shard_enabled(sh)) return error_set(err, ERR_ShardingStateNotInitialized, "Sharding is not enabled");
  return shard_registry_map(r->op, sh->shards, false, reply, err);
}

const struct command shardd_admin_commands[] = {
    {"_addShard", NULL, CMD_WRITE | CMD_ADMIN_ONLY | CMD_INTERNAL, add_shard, "Makes this replica set a shard."},
    {"getShardVersion", NULL, CMD_READ | CMD_ADMIN_ONLY, get_shard_version, "The placement version known here."},
    {"shardingState", NULL, CMD_READ | CMD_ADMIN_ONLY, sharding_state, "Which shard of which cluster this is."},
    {"getDatabaseVersion", NULL, CMD_READ | CMD_ADMIN_ONLY, get_database_version, "The database version known here."},
    {"flushRouterConfig", NULL, CMD_READ | CMD_ADMIN_ONLY, flush_router_config, "Forgets placement metadata."},
    {"_flushRoutingTableCacheUpdates", "forceRoutingTableRefresh", CMD_WRITE | CMD_ADMIN_ONLY | CMD_INTERNAL,
     flush_collection, "Refreshes a collection's metadata and writes it for secondaries."},
    {"_flushRoutingTableCacheUpdatesWithWriteConcern", NULL, CMD_WRITE | CMD_ADMIN_ONLY | CMD_INTERNAL,
     flush_collection, "The same; every write here is one of a majority."},
    {"_flushDatabaseCacheUpdates", NULL, CMD_WRITE | CMD_ADMIN_ONLY | CMD_INTERNAL, flush_database,
     "Refreshes a database's metadata and writes it for secondaries."},
    {"_flushDatabaseCacheUpdatesWithWriteConcern", NULL, CMD_WRITE | CMD_ADMIN_ONLY | CMD_INTERNAL, flush_database,
     "The same; every write here is one of a majority."},
    {"_shardsvrInvalidate", NULL, CMD_READ | CMD_ADMIN_ONLY | CMD_INTERNAL, invalidate,
     "Forgets what is known of a collection or a database."},
    {"cleanupOrphaned", NULL, CMD_WRITE | CMD_ADMIN_ONLY, cleanup_orphaned, "Waits until no orphans are left."},
    {"getShardMap", NULL, CMD_READ | CMD_ADMIN_ONLY, get_shard_map, "The shards of the cluster and their hosts."},
    {0},
};
