// Reading the config server's catalog over the wire: finds, and the routing of one namespace built from them.
#include "common/sharding/catalog_client.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/bson/doc.h"
#include "common/sharding/catalog_scan.h"

enum {
  INCONSISTENT_READS_MAX = 3, // a collection that is changed (dropped, created anew) between two reads of it
  BUILD_IN_POOL_CHUNKS = 4096,
};

struct routing *routing_ref(struct routing *r) {
  r->refs++;
  return r;
}

void routing_unref(struct routing *r) {
  if (!r || --r->refs > 0) return;
  chunk_map_unref(r->chunks);
  arena_free(r->arena); // the routing itself lives in it
}

struct routing *routing_new(const char *ns) {
  struct arena *a = arena_new();
  struct routing *r = arena_zalloc(a, sizeof *r);
  r->arena = a;
  r->refs = 1;
  r->ns = arena_strdup(a, ns);
  return r;
}

// --- documents ---

struct list {
  struct arena *arena;
  const bson_t **docs;
  size_t n, cap;
};

static bool keep(void *ctx, const bson_t *doc, struct error *err) {
  struct list *l = ctx;
  l->docs = arena_grow(l->arena, l->docs, l->n, &l->cap, sizeof *l->docs);
  l->docs[l->n++] = doc_copy(l->arena, doc);
  return true;
}

bool catalog_find(struct operation *op, struct replica_set *config, const char *collection, const bson_t *filter,
                  const bson_t *sort, int64_t limit, const bson_t ***docs, size_t *n, struct error *err) {
  struct list l = {.arena = op->arena};
  struct catalog_query q = {collection, filter, sort, limit};
  if (!catalog_scan(op, config, &q, keep, &l, err)) return false;
  *docs = l.docs;
  *n = l.n;
  return true;
}

static bool find_by_id(struct operation *op, struct replica_set *config, const char *collection, const char *id,
                       const bson_t **doc, struct error *err) {
  bson_t *filter = arena_bson(op->arena);
  bson_append_utf8(filter, "_id", -1, id, -1);
  const bson_t **docs;
  size_t n;
  if (!catalog_find(op, config, collection, filter, NULL, 1, &docs, &n, err)) return false;
  *doc = n ? docs[0] : NULL;
  return true;
}

// --- chunks ---

struct chunk_list { // all chunks read so far, in order of lastmod
  struct arena *arena;
  const struct shard_key *key;
  struct chunk *chunks;
  size_t n, cap;
};

static bool add_chunk(void *ctx, const bson_t *doc, struct error *err) {
  struct chunk_list *l = ctx;
  if (l->n == l->cap) l->chunks = array_grow(l->chunks, &l->cap, l->n + 1, sizeof *l->chunks);
  bson_t min, max; // min goes in as its encoding only: a million documents would be 160 MB
  uint64_t lastmod;
  const char *shard = doc_str(doc, "shard", NULL);
  if (!shard || !doc_doc(doc, "min", &min) || !doc_doc(doc, "max", &max) || !doc_timestamp(doc, "lastmod", &lastmod)) {
    return error_set(err, ERR_IncompatibleShardingMetadata,
                     "A document of config.chunks lacks shard, min, max or lastmod");
  }
  struct chunk *c = &l->chunks[l->n++];
  *c = (struct chunk){.max_doc = doc_copy(l->arena, &max),
                      .shard = arena_strdup(l->arena, shard),
                      .major = (uint32_t)(lastmod >> 32),
                      .minor = (uint32_t)lastmod,
                      .jumbo = doc_bool(doc, "jumbo", false)};
  c->min = bound_key(l->arena, &min);
  c->max = bound_key(l->arena, c->max_doc);
  return true;
}

static int by_min(const void *a, const void *b) {
  return key_compare(((const struct chunk *)a)->min, ((const struct chunk *)b)->min);
}

static bool is_newer(const struct chunk *a, const struct chunk *b) {
  return a->major != b->major ? a->major > b->major : a->minor > b->minor;
}

// A scan that takes several batches may show a chunk and, later in the order of lastmod, what has replaced it
// meanwhile: of two that overlap the newer one holds. (Nothing is missed: every change gets a lastmod behind the scan's
// position.)
static void drop_superseded(struct chunk_list *l) {
  if (l->n == 0) return; // there is no array then
  qsort(l->chunks, l->n, sizeof *l->chunks, by_min);
  size_t kept = 0;
  for (size_t i = 0; i < l->n; i++) {
    struct chunk c = l->chunks[i];
    bool superseded = false;
    while (kept > 0 && key_compare(l->chunks[kept - 1].max, c.min) > 0) {
      if (is_newer(&l->chunks[kept - 1], &c)) {
        superseded = true;
        break;
      }
      kept--;
    }
    if (!superseded) l->chunks[kept++] = c;
  }
  l->n = kept;
}

static bool read_chunks(struct operation *op, struct replica_set *config, const struct collection_type *coll,
                        uint64_t since, struct chunk_list *l, struct error *err) {
  bson_t *filter = arena_bson(op->arena), *sort = arena_bson(op->arena), from;
  doc_append_uuid(filter, "uuid", coll->uuid);
  bson_append_document_begin(filter, "lastmod", -1, &from);
  doc_append_ts(&from, "$gte", since);
  bson_append_document_end(filter, &from);
  bson_append_int32(sort, "lastmod", -1, 1);
  struct catalog_query q = {"chunks", filter, sort, 0};
  return catalog_scan(op, config, &q, add_chunk, l, err);
}

struct build_job {
  const struct collection_type *coll;
  const struct chunk_map *known;
  struct chunk_list *list;
  struct chunk_map *result;
  struct error err;
};

static void build_map(void *arg) {
  struct build_job *j = arg;
  drop_superseded(j->list);
  struct chunk_version generation = {.epoch = j->coll->epoch, .timestamp = j->coll->timestamp};
  j->result = j->known ? chunk_map_update(j->known, j->list->chunks, j->list->n, &j->err)
                       : chunk_map_make(j->coll->key, &generation, j->list->chunks, j->list->n, &j->err);
}

// known: a map of this same generation, or NULL.
static struct chunk_map *make_map(struct operation *op, const struct collection_type *coll,
                                  const struct chunk_map *known, struct chunk_list *l, struct error *err) {
  struct build_job job = {coll, known, l, NULL, {0}};
  // A large table takes a second to build, which is not for the loop's thread. An update shares blocks with maps in
  // use there, and is fast.
  if (!known && l->n > BUILD_IN_POOL_CHUNKS) {
    op_run_in_pool(op, build_map, &job);
  } else {
    build_map(&job);
  }
  if (!job.result) *err = job.err;
  return job.result;
}

static struct chunk_map *load_map(struct operation *op, struct replica_set *config, const struct collection_type *coll,
                                  struct error *err) {
  struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new(); // apart from the operation's, for it may be
                                                                         // large
  struct shard_key key;
  struct chunk_map *m = NULL;
  struct chunk_list l = {.arena = a, .key = &key};
  if (shard_key_parse(a, coll->key, &key, err) && read_chunks(op, config, coll, 0, &l, err))
    m = make_map(op, coll, NULL, &l, err);
  free(l.chunks);
  return m;
}

static bool same_generation(const struct routing *known, const struct collection_type *coll) {
  return known->collection.timestamp == coll->timestamp && bson_oid_equal(&known->collection.epoch, &coll->epoch);
}

// The collection's row, and, in hope that it is of the generation that is known, the chunks that changed since. Both at
// once: they share one barrier on the config server.
struct parallel_read {
  struct replica_set *config;
  const char *ns;
  const struct routing *known; // NULL: only the row
  const bson_t *row;           // NULL = there is none
  struct chunk_list newer;
  bool row_read, newer_read;
  struct error row_error, newer_error;
};

static void read_branch(struct operation *op, size_t i, void *ctx) {
  struct parallel_read *p = ctx;
  if (i == 0) {
    p->row_read = find_by_id(op, p->config, "collections", p->ns, &p->row, &p->row_error);
  } else {
    struct chunk_version v = chunk_map_version(p->known->chunks);
    p->newer_read =
        read_chunks(op, p->config, &p->known->collection, chunk_version_lastmod(&v), &p->newer, &p->newer_error);
  }
}

// The chunks of a row that was read. NULL: err.
static struct chunk_map *chunks_of(struct operation *op, struct parallel_read *p, const struct collection_type *coll,
                                   bool *incremental, struct error *err) {
  *incremental = p->known && same_generation(p->known, coll);
  if (!*incremental) return load_map(op, p->config, coll, err);
  if (p->newer_read) return make_map(op, coll, p->known->chunks, &p->newer, err);
  *err = p->newer_error;
  return NULL;
}

static struct routing *routing_of(struct operation *op, struct parallel_read *p, bool *incremental, struct error *err) {
  if (!p->row_read) {
    *err = p->row_error;
    return NULL;
  }
  struct routing *r = routing_new(p->ns);
  if (!p->row) return r; // not tracked
  r->tracked = true;
  if (collection_type_parse(r->arena, p->row, &r->collection, err))
    r->chunks = chunks_of(op, p, &r->collection, incremental, err);
  if (r->chunks) return r;
  routing_unref(r);
  return NULL;
}

// One try. err IncompatibleShardingMetadata: what was read does not fit together.
static struct routing *load_once(struct operation *op, struct replica_set *config, const char *ns,
                                 struct routing *known, bool *incremental, struct error *err) {
  struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
  struct parallel_read p = {.config = config, .ns = ns, .known = known && known->tracked ? known : NULL};
  p.newer.arena = a;
  if (p.known) p.newer.key = chunk_map_key(p.known->chunks);
  *incremental = false;
  op_parallel(op, p.known ? 2 : 1, read_branch, &p);
  struct routing *r = routing_of(op, &p, incremental, err);
  free(p.newer.chunks);
  return r;
}

bool catalog_load_routing(struct operation *op, struct replica_set *config, const char *ns, struct routing *known,
                          struct routing **out, bool *incremental, struct error *err) {
  for (int tries = 1;; tries++) {
    *out = load_once(op, config, ns, known, incremental, err);
    if (*out) return true;
    if (err->code != ERR_IncompatibleShardingMetadata || tries == INCONSISTENT_READS_MAX) return false;
    log_warn("SHARDING", "Inconsistent chunks were read, reading them again", "namespace:s error:e", ns, err);
    known = NULL;
  }
}

bool catalog_routing_after(const struct routing *known, const bson_t *row, const bson_t *chunks, struct routing **out,
                           struct error *err) {
  struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
  struct chunk_list l = {.arena = a, .key = chunk_map_key(known->chunks)};
  struct routing *r = routing_new(known->ns);
  bson_iter_t it;
  bool ok = collection_type_parse(r->arena, row, &r->collection, err);
  if (ok && !same_generation(known, &r->collection))
    ok = error_set(err, ERR_IncompatibleShardingMetadata, "%s is another collection by now", known->ns);
  bson_iter_init(&it, chunks);
  while (ok && bson_iter_next(&it)) {
    bson_t doc;
    iter_doc(&doc, &it);
    ok = add_chunk(&l, &doc, err);
  }
  r->tracked = true;
  if (ok) r->chunks = chunk_map_update(known->chunks, l.chunks, l.n, err);
  free(l.chunks);
  *out = r->chunks ? r : NULL;
  if (!r->chunks) routing_unref(r);
  return *out != NULL;
}

// --- databases, shards ---

static void fixed_database(struct arena *a, const char *db, struct database_type *out) {
  *out = (struct database_type){.name = arena_strdup(a, db), .primary = "config"};
}

bool catalog_load_database(struct operation *op, struct replica_set *config, const char *db, struct database_type *out,
                           bool *exists, struct error *err) {
  *exists = true;
  if (strcmp(db, "config") == 0 || strcmp(db, "admin") == 0) {
    fixed_database(op->arena, db, out);
    return true;
  }
  const bson_t *doc;
  if (!find_by_id(op, config, "databases", db, &doc, err)) return false;
  *exists = doc != NULL;
  return !doc || database_type_parse(op->arena, doc, out, err);
}

bool catalog_load_shards(struct operation *op, struct replica_set *config, struct shard_type **out, size_t *n,
                         struct error *err) {
  const bson_t **docs;
  bson_t none = BSON_INITIALIZER;
  if (!catalog_find(op, config, "shards", &none, NULL, 0, &docs, n, err)) return false;
  *out = arena_alloc(op->arena, *n * sizeof **out);
  for (size_t i = 0; i < *n; i++) {
    if (!shard_type_parse(op->arena, docs[i], &(*out)[i], err)) return error_prefix(err, "config.shards");
  }
  return true;
}
