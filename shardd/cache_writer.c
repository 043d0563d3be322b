// Writes config.cache.* (reference/sharding.md section 8).
//
// A few changed rows are one entry. More go in batches, between a collection row with `refreshing: true` and one with
// false: who reads meanwhile reads again.
#include "shardd/cache_writer.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/bson/doc.h"
#include "shardd/background.h"
#include "shardd/migration_documents.h"

enum {
  ENTRY_ROWS = 64, // changed chunks that still go into one entry, with whatever else is in it
  BATCH_ROWS = 1000,
};

// --- what is written, and what is newer ---

struct cached {
  bool exists, refreshing;
  bson_oid_t epoch;
  uint64_t timestamp, version;
};

static struct cached read_cached(struct shard *sh, struct arena *a, const char *ns) {
  struct cached c = {0};
  const bson_t *row;
  bson_value_t id = value_str(ns);
  if (!local_find_id(&sh->node, a, CACHE_COLLECTIONS_NS, &id, &row)) return c;
  c.exists = doc_oid(row, "epoch", &c.epoch) && doc_timestamp(row, "timestamp", &c.timestamp);
  c.refreshing = doc_bool(row, "refreshing", false);
  doc_timestamp(row, "lastRefreshedCollectionVersion", &c.version);
  return c;
}

static bool same_generation(const struct cached *c, const struct routing *r) {
  return c->exists && c->timestamp == r->collection.timestamp && bson_oid_equal(&c->epoch, &r->collection.epoch);
}

struct row {
  const bson_t *min, *max;
  const char *shard;
  uint64_t lastmod;
};

struct rows {
  struct arena *a;
  const struct chunk_map *map;
  uint64_t since;
  struct row *rows;
  size_t n, cap;
};

static bool add_newer(void *ctx, const struct chunk *c) {
  struct rows *l = ctx;
  uint64_t lastmod = (uint64_t)c->major << 32 | c->minor;
  if (lastmod <= l->since) return true;
  l->rows = arena_grow(l->a, l->rows, l->n, &l->cap, sizeof *l->rows);
  struct row *row = &l->rows[l->n++];
  *row = (struct row){.shard = arena_strdup(l->a, c->shard), .lastmod = lastmod};
  chunk_docs(l->map, l->a, c, &row->min, &row->max);
  return true;
}

static struct rows newer_rows(struct arena *a, const struct routing *r, uint64_t since) {
  struct rows l = {.a = a, .map = r->chunks, .since = since};
  chunk_map_all(r->chunks, add_newer, &l);
  return l;
}

// --- rows ---

static bool put_collection(struct operation *op, struct shard *sh, struct write *w, const struct routing *r,
                           bool refreshing, struct error *err) {
  const struct collection_type *t = &r->collection;
  struct chunk_version v = chunk_map_version(r->chunks);
  bson_t *row = arena_bson(op->arena);
  BSON_APPEND_UTF8(row, "_id", r->ns);
  doc_append_uuid(row, "uuid", t->uuid);
  BSON_APPEND_DOCUMENT(row, "key", t->key);
  BSON_APPEND_DOCUMENT(row, "defaultCollation", t->default_collation ? t->default_collation : arena_bson(op->arena));
  BSON_APPEND_BOOL(row, "unique", t->unique);
  BSON_APPEND_BOOL(row, "refreshing", refreshing);
  BSON_APPEND_OID(row, "epoch", &t->epoch);
  doc_append_ts(row, "timestamp", t->timestamp);
  // Of a cache that is being written the version is not reached yet: a crash here must not leave it looking complete.
  if (!refreshing) doc_append_ts(row, "lastRefreshedCollectionVersion", chunk_version_lastmod(&v));
  if (t->unsplittable) BSON_APPEND_BOOL(row, "unsplittable", true);
  return local_put(&sh->node, w, CACHE_COLLECTIONS_NS, row, err);
}

// Cached chunks that begin inside [min, max) are superseded by it.
static bool delete_covered(struct operation *op, struct shard *sh, struct write *w, const char *ns,
                           const struct row *row, struct error *err) {
  bson_t *filter = arena_bson(op->arena), range;
  BSON_APPEND_DOCUMENT_BEGIN(filter, "_id", &range);
  BSON_APPEND_DOCUMENT(&range, "$gt", row->min);
  BSON_APPEND_DOCUMENT(&range, "$lt", row->max);
  bson_append_document_end(filter, &range);
  const bson_t **docs;
  size_t n = local_find(&sh->node, op->arena, ns, filter, NULL, 0, &docs);
  for (size_t i = 0; i < n; i++) {
    bson_value_t id;
    if (doc_value(docs[i], "_id", &id) && !local_delete(&sh->node, w, ns, &id, err)) return false;
  }
  return true;
}

static bool put_rows(struct operation *op, struct shard *sh, struct write *w, const char *ns, const struct row *rows,
                     size_t n, bool fresh, struct error *err) {
  const char *to = cache_chunks_ns(op->arena, ns);
  for (size_t i = 0; i < n; i++) {
    bson_t *row = arena_bson(op->arena);
    BSON_APPEND_DOCUMENT(row, "_id", rows[i].min);
    BSON_APPEND_DOCUMENT(row, "max", rows[i].max);
    BSON_APPEND_UTF8(row, "shard", rows[i].shard);
    doc_append_ts(row, "lastmod", rows[i].lastmod);
    if (!fresh && !delete_covered(op, sh, w, to, &rows[i], err)) return false;
    if (!local_put(&sh->node, w, to, row, err)) return false;
  }
  return true;
}

// Forgets all cached chunks at once.
static void drop_chunks(struct operation *op, struct shard *sh, struct write *w, const char *ns) {
  const struct collection *c = store_collection(sh->node.store, cache_chunks_ns(op->arena, ns));
  if (c) change_drop(write_changes(w), c->uuid);
}

bool cache_add(struct operation *op, struct shard *sh, struct write *w, const char *ns, struct error *err) {
  const struct ns_metadata *n = metadata_find_ns(sh->metadata, ns);
  const struct routing *r = n ? n->routing : NULL;
  if (!r || !r->tracked) return true;
  struct cached c = read_cached(sh, op->arena, ns);
  struct chunk_version v = chunk_map_version(r->chunks);
  if (!same_generation(&c, r) || c.refreshing || c.version >= chunk_version_lastmod(&v)) return true;
  struct rows l = newer_rows(op->arena, r, c.version);
  if (l.n > ENTRY_ROWS) return true;
  return put_rows(op, sh, w, ns, l.rows, l.n, false, err) && put_collection(op, sh, w, r, false, err);
}

// --- flushing ---

static bool remove_cached(struct operation *op, struct shard *sh, const char *ns, struct error *err) {
  struct write *w = write_begin(op, sh->node.repl);
  write_atomic(w);
  bson_value_t id = value_str(ns);
  drop_chunks(op, sh, w, ns);
  return local_delete(&sh->node, w, CACHE_COLLECTIONS_NS, &id, err) && write_commit(op, w, err);
}

static bool write_at_once(struct operation *op, struct shard *sh, const struct routing *r, const struct rows *l,
                          struct error *err) {
  struct write *w = write_begin(op, sh->node.repl);
  write_atomic(w);
  return put_rows(op, sh, w, r->ns, l->rows, l->n, false, err) && put_collection(op, sh, w, r, false, err) &&
         write_commit(op, w, err);
}

static bool write_marker(struct operation *op, struct shard *sh, const struct routing *r, bool refreshing, bool drop,
                         struct error *err) {
  struct write *w = write_begin(op, sh->node.repl);
  write_atomic(w);
  if (drop) drop_chunks(op, sh, w, r->ns);
  return put_collection(op, sh, w, r, refreshing, err) && write_commit(op, w, err);
}

static bool write_in_batches(struct operation *op, struct shard *sh, const struct routing *r, const struct rows *l,
                             bool fresh, struct error *err) {
  if (!write_marker(op, sh, r, true, fresh, err)) return false;
  for (size_t at = 0; at < l->n; at += BATCH_ROWS) {
    size_t n = l->n - at < BATCH_ROWS ? l->n - at : BATCH_ROWS;
    struct write *w = write_begin(op, sh->node.repl);
    if (!put_rows(op, sh, w, r->ns, l->rows + at, n, fresh, err) || !write_commit(op, w, err)) return false;
  }
  return write_marker(op, sh, r, false, false, err);
}

static bool flush_routing(struct operation *op, struct shard *sh, const struct routing *r, struct error *err) {
  struct cached c = read_cached(sh, op->arena, r->ns);
  if (!r->tracked) return !c.exists || remove_cached(op, sh, r->ns, err);
  bool fresh = !same_generation(&c, r) || c.refreshing;
  struct chunk_version v = chunk_map_version(r->chunks);
  if (!fresh && c.version >= chunk_version_lastmod(&v)) return true;
  struct rows l = newer_rows(op->arena, r, fresh ? 0 : c.version);
  return fresh || l.n > BATCH_ROWS ? write_in_batches(op, sh, r, &l, fresh, err) : write_at_once(op, sh, r, &l, err);
}

bool cache_flush(struct operation *op, struct shard *sh, const char *ns, struct error *err) {
  if (!mutex_lock(op, &sh->cache_writing, err)) return false;
  const struct ns_metadata *n = metadata_find_ns(sh->metadata, ns);
  struct routing *r = n && n->routing ? routing_ref(n->routing) : NULL;
  bool ok = !r || flush_routing(op, sh, r, err);
  routing_unref(r);
  mutex_unlock(&sh->cache_writing);
  return ok;
}

struct flush {
  struct shard *sh;
  char ns[]; // copied
};

static void flush_in_background(struct operation *op, void *arg) {
  struct flush *f = arg;
  struct error err = {0};
  if (!cache_flush(op, f->sh, f->ns, &err))
    log_debug("SH_REFR", "The cache of a collection's placement was not written", "namespace:s error:e", f->ns, &err);
  free(f);
}

void cache_flush_soon(struct shard *sh, const char *ns) {
  size_t len = strlen(ns) + 1;
  struct flush *f = malloc(sizeof *f + len);
  f->sh = sh;
  memcpy(f->ns, ns, len);
  background_start(sh, "cacheWriter", flush_in_background, f);
}

// Whether the row says what is known. A secondary forgets what it knows whenever the row is written, and asks for it to
// be written when it knows nothing: what is there already must not be written again.
static bool database_is_cached(struct shard *sh, struct arena *a, const char *db, const struct db_metadata *d) {
  const bson_t *row;
  bson_value_t id = value_str(db);
  if (!local_find_id(&sh->node, a, CACHE_DATABASES_NS, &id, &row)) return !d->exists;
  bson_t doc;
  struct database_version v;
  return d->exists && !strcmp(doc_str(row, "primary", ""), d->primary) && doc_doc(row, "version", &doc) &&
         database_version_parse(&doc, &v, NULL) && database_version_equal(&v, &d->version);
}

bool cache_flush_database(struct operation *op, struct shard *sh, const char *db, struct error *err) {
  const struct db_metadata *d = metadata_database(sh->metadata, db);
  if (!d || database_is_cached(sh, op->arena, db, d)) return true;
  bson_value_t id = value_str(db);
  if (!d->exists) return local_delete_now(op, &sh->node, CACHE_DATABASES_NS, &id, err);
  bson_t *row = arena_bson(op->arena);
  BSON_APPEND_UTF8(row, "_id", db);
  BSON_APPEND_UTF8(row, "primary", d->primary);
  database_version_append(row, "version", &d->version);
  return local_put_now(op, &sh->node, CACHE_DATABASES_NS, row, err);
}
