// A secondary's metadata: asks the primary to write what is true now, waits until that is applied here, reads it.
//
// A primary that does not answer leaves the secondary without: it refuses versioned reads (seeds: the article on
// secondary reads).
#include "shardd/metadata_secondary.h"

#include <string.h>

#include "common/bson/doc.h"
#include "shardd/cache_writer.h"
#include "shardd/migration_documents.h"

enum {
  FLUSH_TIMEOUT_MS = 30000,
  READ_ATTEMPTS = 10, // the primary writes a large table in several entries: read again until it is whole
  READ_PAUSE_MS = 100,
};

static bool ask_primary(struct operation *op, struct shard *sh, const char *command, const char *name,
                        struct error *err) {
  bson_t *hello = arena_bson(op->arena), *cmd = arena_bson(op->arena);
  repl_hello(sh->node.repl, hello);
  const char *primary = doc_str(hello, "primary", NULL);
  if (!primary)
    return error_set(err, ERR_FailedToSatisfyReadPreference, "No primary to learn the placement of %s from", name);
  bson_append_utf8(cmd, command, -1, name, -1);
  BSON_APPEND_BOOL(cmd, "syncFromConfig", true);
  struct remote_command rc = {.db = "admin", .body = cmd, .timeout_ms = FLUSH_TIMEOUT_MS};
  const bson_t *reply;
  uint64_t ts = 0;
  if (!remote_call(op, sh->node.remotes, primary, &rc, &reply, err)) return false;
  return !doc_timestamp(reply, "operationTime", &ts) || repl_wait_applied(op, sh->node.repl, ts, err);
}

static bool read_chunks(struct operation *op, struct shard *sh, struct routing *r, struct error *err) {
  const bson_t **docs;
  size_t n = local_find(&sh->node, op->arena, cache_chunks_ns(op->arena, r->ns), arena_bson(op->arena), NULL, 0, &docs);
  struct chunk *chunks = arena_zalloc(op->arena, (n + 1) * sizeof *chunks);
  for (size_t i = 0; i < n; i++) {
    bson_t min, max;
    uint64_t lastmod = 0;
    if (!doc_doc(docs[i], "_id", &min) || !doc_doc(docs[i], "max", &max) ||
        !doc_timestamp(docs[i], "lastmod", &lastmod))
      return error_set(err, ERR_IncompatibleShardingMetadata, "A cached chunk of %s cannot be read", r->ns);
    struct chunk *c = &chunks[i];
    c->min_doc = doc_copy(op->arena, &min);
    c->max_doc = doc_copy(op->arena, &max);
    c->min = bound_key(op->arena, c->min_doc);
    c->max = bound_key(op->arena, c->max_doc);
    c->shard = doc_str(docs[i], "shard", "");
    c->major = (uint32_t)(lastmod >> 32);
    c->minor = (uint32_t)lastmod;
  }
  struct chunk_version generation = {.epoch = r->collection.epoch, .timestamp = r->collection.timestamp};
  r->chunks = chunk_map_make(r->collection.key, &generation, chunks, n, err);
  return r->chunks != NULL;
}

static bool read_collection(struct routing *r, const bson_t *row, struct error *err) {
  struct collection_type *t = &r->collection;
  bson_t key;
  *t = (struct collection_type){.ns = r->ns, .allow_migrations = true, .permit_migrations = true};
  if (!doc_uuid(row, "uuid", t->uuid) || !doc_doc(row, "key", &key) || !doc_oid(row, "epoch", &t->epoch) ||
      !doc_timestamp(row, "timestamp", &t->timestamp))
    return error_set(err, ERR_IncompatibleShardingMetadata, "The cached row of %s cannot be read", r->ns);
  t->key = doc_copy(r->arena, &key);
  t->unique = doc_bool(row, "unique", false);
  t->unsplittable = doc_bool(row, "unsplittable", false);
  r->tracked = true;
  return true;
}

// All in one step, so that the rows fit together. *whole false: the primary is in the middle of writing them.
static bool read_cached(struct operation *op, struct shard *sh, struct routing *r, bool *whole, struct error *err) {
  const bson_t *row;
  *whole = true;
  bson_value_t id = value_str(r->ns);
  if (!local_find_id(&sh->node, op->arena, CACHE_COLLECTIONS_NS, &id, &row)) return true;
  if (doc_bool(row, "refreshing", false)) {
    *whole = false;
    return true;
  }
  return read_collection(r, row, err) && read_chunks(op, sh, r, err);
}

bool secondary_load_routing(struct operation *op, struct shard *sh, const char *ns, struct routing **out,
                            struct error *err) {
  if (!ask_primary(op, sh, "_flushRoutingTableCacheUpdates", ns, err)) return false;
  for (int i = 0; i < READ_ATTEMPTS; i++) {
    struct routing *r = routing_new(ns);
    bool whole, ok = read_cached(op, sh, r, &whole, err);
    if (ok && whole) {
      *out = r;
      return true;
    }
    routing_unref(r);
    if (!ok || !op_sleep(op, READ_PAUSE_MS, err)) return false;
  }
  return error_set(err, ERR_ConflictingOperationInProgress, "The placement of %s is being written by the primary", ns);
}

bool secondary_load_database(struct operation *op, struct shard *sh, const char *db, struct database_type *out,
                             bool *exists, struct error *err) {
  if (!ask_primary(op, sh, "_flushDatabaseCacheUpdates", db, err)) return false;
  const bson_t *row;
  bson_t version;
  bson_value_t id = value_str(db);
  *exists = local_find_id(&sh->node, op->arena, CACHE_DATABASES_NS, &id, &row);
  if (!*exists) return true;
  *out = (struct database_type){.name = db, .primary = doc_str(row, "primary", "")};
  return doc_doc(row, "version", &version) && database_version_parse(&version, &out->version, err);
}
