// getShardVersion and flushRouterConfig: looking into this router's cache, and emptying it.
#include <string.h>

#include "common/bson/doc.h"
#include "mongos/ddl.h"
#include "mongos/routing_cache.h"

// What fits into a reply; a longer list of chunks is not given at all.
enum { CHUNK_LIST_MAX_BYTES = 16 * 1024 * 1024 - 64 * 1024 };

struct chunk_list {
  const struct chunk_map *map;
  struct arena *arena;
  bson_t *array;
  uint32_t n;
  bool too_long;
};

static bool add_chunk(void *ctx, const struct chunk *c) {
  struct chunk_list *l = ctx;
  const bson_t *min, *max;
  char text[16];
  const char *key;
  bson_t pair;
  if (l->array->len > CHUNK_LIST_MAX_BYTES) {
    l->too_long = true;
    return false;
  }
  chunk_docs(l->map, l->arena, c, &min, &max);
  size_t len = bson_uint32_to_string(l->n++, &key, text, sizeof text);
  bson_append_array_begin(l->array, key, (int)len, &pair);
  bson_append_document(&pair, "0", 1, min);
  bson_append_document(&pair, "1", 1, max);
  bson_append_array_end(l->array, &pair);
  return true;
}

static bool database_version(struct request *r, const char *db, bson_t *reply, struct error *err) {
  struct database_type found;
  bool exists;
  if (!routing_cache_database(r->op, router_of(r)->cache, db, &found, &exists, err)) return false;
  if (!exists) return error_set(err, ERR_NamespaceNotFound, "database %s not found", db);
  bson_append_utf8(reply, "primaryShard", -1, found.primary, -1);
  database_version_append(reply, "version", &found.version);
  return true;
}

// Shows what is cached, also when it is known to be old: only a collection never looked at is loaded.
static bool run_get_shard_version(struct request *r, bson_t *reply, struct error *err) {
  struct router *rt = router_of(r);
  if (!BSON_ITER_HOLDS_UTF8(&r->first)) {
    return error_set(err, ERR_TypeMismatch, "getShardVersion takes a namespace as a string");
  }
  const char *ns = bson_iter_utf8(&r->first, NULL);
  if (strchr(ns, '.') == NULL) return database_version(r, ns, reply, err);
  struct placement p;
  struct routing *cached = routing_cache_peek(rt->cache, ns);
  if (cached == NULL) {
    if (!namespace_valid(ns, err) || !placement_get(r->op, rt, ns, false, &p, err)) return false;
    cached = p.routing;
  }
  if (cached == NULL || !cached->tracked) {
    return error_set(err, ERR_NamespaceNotFound, "Collection %s does not have a routing table.", ns);
  }
  struct chunk_version v = chunk_map_version(cached->chunks);
  doc_append_ts(reply, "version", chunk_version_lastmod(&v));
  bson_append_oid(reply, "versionEpoch", -1, &v.epoch);
  doc_append_ts(reply, "versionTimestamp", v.timestamp);
  if (!doc_bool(r->body, "fullMetadata", false)) return true;
  struct chunk_list l = {.map = cached->chunks, .arena = r->op->arena, .array = arena_bson(r->op->arena)};
  chunk_map_all(cached->chunks, add_chunk, &l);
  if (l.too_long) {
    bson_append_bool(reply, "exceededSize", -1, true);
  } else {
    bson_append_array(reply, "chunks", -1, l.array);
  }
  return true;
}

static bool run_flush_router_config(struct request *r, bson_t *reply, struct error *err) {
  struct routing_cache *cache = router_of(r)->cache;
  const char *what = BSON_ITER_HOLDS_UTF8(&r->first) ? bson_iter_utf8(&r->first, NULL) : NULL;
  if (what == NULL) {
    routing_cache_forget_all(cache);
  } else if (strchr(what, '.') == NULL) {
    routing_cache_forget_database(cache, what);
  } else {
    routing_cache_forget(cache, what);
  }
  bson_append_bool(reply, "flushed", -1, true);
  return true;
}

const struct command router_cache_commands[] = {
    {"getShardVersion", NULL, CMD_READ | CMD_ADMIN_ONLY, run_get_shard_version, "the version this router believes in"},
    {"flushRouterConfig", "flushrouterconfig", CMD_READ | CMD_ADMIN_ONLY, run_flush_router_config,
     "forgets cached routing tables"},
    {NULL, NULL, 0, NULL, NULL},
};
