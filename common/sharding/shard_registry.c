// The shards by name, as replica sets to talk to.
//
// Filled from config.shards: at first use, when a name is not known, and when asked to reload. One reload at a time;
// whoever waited for one that began after his question takes its outcome.
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/map.h"
#include "common/bson/doc.h"
#include "common/sharding/catalog_client.h"

struct entry {
  char *host; // connection string as stored
  struct replica_set *set;
};

struct shard_registry {
  struct loop *loop;
  struct remotes *remotes;
  struct replica_set *config;
  struct map *by_name;       // name -> struct entry
  struct arena *arena;       // of `shards`; replaced with them
  struct shard_type *shards; // sorted by name
  size_t n_shards;
  bool loaded;
  struct mutex reloading;
  uint64_t begun, finished; // reloads: numbers of the last one begun and the last one that succeeded
};

struct shard_registry *shard_registry_new(struct loop *l, struct remotes *r, struct replica_set *config) {
  struct shard_registry *g = calloc(1, sizeof *g);
  if (!g) log_fatal("SHARDING", "Out of memory", NULL);
  g->loop = l;
  g->remotes = r;
  g->config = config;
  g->by_name = map_new();
  g->arena = arena_new();
  return g;
}

static void entry_free(void *value) {
  struct entry *e = value;
  replica_set_unwatch(e->set);
  free(e->host);
  free(e);
}

void shard_registry_free(struct shard_registry *g) {
  if (!g) return;
  map_free(g->by_name, entry_free);
  arena_free(g->arena);
  free(g);
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const struct shard_type *)a)->name, ((const struct shard_type *)b)->name);
}

static bool watch(struct shard_registry *g, const struct shard_type *s, struct error *err) {
  struct entry *e = map_gets(g->by_name, s->name);
  if (e && strcmp(e->host, s->host) == 0) return true;
  // The same set with other hosts: a second watch adds them as seeds, and the first one is then given back.
  struct replica_set *set = replica_set_watch(g->loop, g->remotes, s->host, err);
  if (!set) return error_prefix(err, "shard %s", s->name);
  struct entry *fresh = calloc(1, sizeof *fresh);
  if (!fresh) log_fatal("SHARDING", "Out of memory", NULL);
  fresh->host = strdup(s->host);
  fresh->set = set;
  e = map_puts(g->by_name, s->name, fresh);
  if (e) entry_free(e);
  return true;
}

// Takes over what was read. Shards that are gone stay watched: an operation may be talking to one (they are few).
static bool adopt(struct shard_registry *g, const bson_t **docs, size_t n, struct error *err) {
  struct arena *a = arena_new();
  struct shard_type *shards = arena_alloc(a, n * sizeof *shards);
  for (size_t i = 0; i < n; i++) {
    if (!shard_type_parse(a, docs[i], &shards[i], err) || !watch(g, &shards[i], err)) {
      arena_free(a);
      return false;
    }
  }
  qsort(shards, n, sizeof *shards, by_name);
  arena_free(g->arena);
  g->arena = a;
  g->shards = shards;
  g->n_shards = n;
  g->loaded = true;
  return true;
}

static bool read_shards(struct operation *op, struct shard_registry *g, struct error *err) {
  const bson_t **docs;
  size_t n;
  bson_t none = BSON_INITIALIZER;
  return catalog_find(op, g->config, "shards", &none, NULL, 0, &docs, &n, err) && adopt(g, docs, n, err);
}

bool shard_registry_reload(struct operation *op, struct shard_registry *g, struct error *err) {
  uint64_t seen = g->begun;
  if (!mutex_lock(op, &g->reloading, err)) return false;
  bool ok = true;
  if (g->finished <= seen) {
    uint64_t mine = ++g->begun;
    ok = read_shards(op, g, err);
    if (ok) g->finished = mine;
  }
  mutex_unlock(&g->reloading);
  return ok;
}

static bool known(const struct shard_registry *g, const char *shard) {
  for (size_t i = 0; i < g->n_shards; i++) {
    if (strcmp(g->shards[i].name, shard) == 0) return true;
  }
  return false;
}

struct replica_set *shard_registry_get(struct operation *op, struct shard_registry *g, const char *shard,
                                       struct error *err) {
  if (!known(g, shard) && !shard_registry_reload(op, g, err)) return NULL;
  if (!known(g, shard)) {
    error_set(err, ERR_ShardNotFound, "Shard %s not found", shard);
    return NULL;
  }
  struct entry *e = map_gets(g->by_name, shard);
  return e->set;
}

static const bson_t *copy_tags(struct arena *a, const bson_t *tags) {
  return tags ? doc_copy(a, tags) : NULL;
}

bool shard_registry_all(struct operation *op, struct shard_registry *g, bool reload, struct shard_type **out, size_t *n,
                        struct error *err) {
  if ((reload || !g->loaded) && !shard_registry_reload(op, g, err)) return false;
  *n = g->n_shards;
  *out = arena_alloc(op->arena, g->n_shards * sizeof **out);
  for (size_t i = 0; i < g->n_shards; i++) {
    struct shard_type *to = &(*out)[i];
    *to = g->shards[i];
    to->name = arena_strdup(op->arena, to->name);
    to->host = arena_strdup(op->arena, to->host);
    to->tags = copy_tags(op->arena, to->tags);
  }
  return true;
}

// Adds a set's connection string to the three parts of the map.
static void append_set(struct arena *a, const char *name, const char *connection_string, bson_t *map, bson_t *hosts,
                       bson_t *strings) {
  const char *set, **list;
  size_t n;
  bson_append_utf8(map, name, -1, connection_string, -1);
  bson_append_utf8(strings, connection_string, -1, name, -1);
  if (!replica_set_parse(a, connection_string, &set, &list, &n, NULL)) return;
  for (size_t i = 0; i < n; i++) bson_append_utf8(hosts, list[i], -1, name, -1);
}

bool shard_registry_map(struct operation *op, struct shard_registry *g, bool reload, bson_t *reply, struct error *err) {
  struct arena *a = op->arena;
  bson_t *map = arena_bson(a), *hosts = arena_bson(a), *strings = arena_bson(a);
  if ((reload || !g->loaded) && !shard_registry_reload(op, g, err)) return false;
  for (size_t i = 0; i < g->n_shards; i++) append_set(a, g->shards[i].name, g->shards[i].host, map, hosts, strings);
  append_set(a, "config", replica_set_string(g->config), map, hosts, strings);
  bson_append_document(reply, "map", -1, map);
  bson_append_document(reply, "hosts", -1, hosts);
  bson_append_document(reply, "connStrings", -1, strings);
  return true;
}
