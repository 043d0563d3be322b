// Where a namespace is, as this router believes.
#include "mongos/placement.h"

#include <string.h>

#include "common/bson/doc.h"
#include "common/bson/path.h"
#include "common/sharding/targeting.h"
#include "mongos/routing_cache.h"
#include "mongos/shard_call.h"

static void release_routing(void *routing) {
  routing_unref(routing);
}

bool database_is_on_config(const char *db) {
  return strcmp(db, "config") == 0 || strcmp(db, "admin") == 0;
}

static bool create_database(struct operation *op, struct router *rt, const char *db, struct error *err) {
  bson_t *body = arena_bson(op->arena);
  bson_append_utf8(body, "_configsvrCreateDatabase", -1, db, -1);
  append_majority(body);
  const bson_t *reply;
  return config_call(op, rt, "admin", body, true, &reply, err);
}

bool placement_get_database(struct operation *op, struct router *rt, const char *db, bool create, struct placement *out,
                            struct error *err) {
  *out = (struct placement){.kind = PLACE_NOWHERE, .ns = db, .db = db};
  if (database_is_on_config(db)) {
    out->kind = PLACE_CONFIG;
    return true;
  }
  if (strcmp(db, "local") == 0) {
    return error_set(err, ERR_InvalidNamespace,
                     "every member has a database 'local' of its own: connect to that member directly");
  }
  struct database_type found;
  bool exists;
  if (!routing_cache_database(op, rt->cache, db, &found, &exists, err)) return false;
  if (!exists && create) {
    if (!create_database(op, rt, db, err)) return false;
    routing_cache_invalidate_database(rt->cache, db, NULL);
    if (!routing_cache_database(op, rt->cache, db, &found, &exists, err)) return false;
    if (!exists) return error_set(err, ERR_NamespaceNotFound, "database %s not found", db); // dropped at once
  }
  if (!exists) return true;
  out->kind = PLACE_PRIMARY;
  out->primary = found.primary;
  out->db_version = found.version;
  return true;
}

bool placement_get(struct operation *op, struct router *rt, const char *ns, bool create, struct placement *out,
                   struct error *err) {
  if (!placement_get_database(op, rt, namespace_database(op->arena, ns), create, out, err)) return false;
  out->ns = ns;
  if (out->kind != PLACE_PRIMARY) return true;
  if (!routing_cache_get(op, rt->cache, ns, &out->routing, err)) return false;
  arena_on_free(op->arena, release_routing, out->routing);
  if (out->routing->tracked) out->kind = PLACE_CHUNKS;
  return true;
}

bool placement_sharded(const struct placement *p) {
  return p->kind == PLACE_CHUNKS && !p->routing->collection.unsplittable;
}

const struct shard_key *placement_key(const struct placement *p) {
  return chunk_map_key(p->routing->chunks);
}

static bool is_simple(const bson_t *collation) {
  return strcmp(doc_str(collation, "locale", "simple"), "simple") == 0;
}

// Whether the filter compares strings byte by byte, as the shard key does.
static bool simple_collation(const struct placement *p, const bson_t *body) {
  bson_t collation;
  if (body != NULL && doc_doc(body, "collation", &collation) && !bson_empty(&collation)) return is_simple(&collation);
  if (p->kind != PLACE_CHUNKS || p->routing->collection.default_collation == NULL) return true;
  return is_simple(p->routing->collection.default_collation);
}

// --- targets ---

struct target target_config(void) {
  return (struct target){0};
}

struct target target_unversioned(const char *shard) {
  return (struct target){.shard = shard};
}

struct target target_primary(const struct placement *p) {
  return (struct target){.shard = p->primary,
                         .versioned = true,
                         .version = chunk_version_unsharded(),
                         .db_versioned = true,
                         .db_version = p->db_version};
}

struct target target_database(const struct placement *p) {
  return (struct target){.shard = p->primary, .db_versioned = true, .db_version = p->db_version};
}

struct target target_shard(const struct placement *p, const char *shard) {
  return (struct target){
      .shard = shard, .versioned = true, .version = chunk_map_shard_version(p->routing->chunks, shard)};
}

void target_append_versions(const struct target *t, bson_t *body) {
  if (t->versioned) chunk_version_append(body, "shardVersion", &t->version);
  if (t->db_versioned) database_version_append(body, "databaseVersion", &t->db_version);
}

// A value that a filter may give for equality in its plainest form: {field: value}.
static bool plain_value(const bson_value_t *v, bool simple) {
  switch (v->value_type) {
  case BSON_TYPE_ARRAY:
  case BSON_TYPE_REGEX:
  case BSON_TYPE_UNDEFINED: return false;
  case BSON_TYPE_UTF8:
  case BSON_TYPE_SYMBOL: return simple;
  case BSON_TYPE_DOCUMENT: {
    bson_t doc;
    doc_view(&doc, v->value.v_doc.data, v->value.v_doc.data_len);
    bson_iter_t it;
    if (!simple || !bson_iter_init(&it, &doc)) return false;
    return !bson_iter_next(&it) || bson_iter_key(&it)[0] != '$';
  }
  default: return true;
  }
}

// The common case without parsing the filter: each field of the shard key stands in it with a plain value.
static bool plain_key(struct arena *a, const struct placement *p, const bson_t *filter, bool simple,
                      struct chunk *out) {
  const struct shard_key *k = placement_key(p);
  for (size_t i = 0; i < k->n; i++) {
    bson_value_t v;
    if (strchr(k->paths[i], '.') != NULL || !doc_value(filter, k->paths[i], &v)) return false;
    if (!plain_value(&v, simple)) return false;
  }
  struct key key;
  struct error ignored;
  if (!path_encode_key(a, filter, k->pattern, &key, &ignored)) return false;
  chunk_map_find(p->routing->chunks, key, out);
  return true;
}

static struct target *one_target(struct arena *a, struct target t, size_t *n) {
  struct target *one = arena_alloc(a, sizeof *one);
  *one = t;
  *n = 1;
  return one;
}

bool placement_targets(struct arena *a, const struct placement *p, const struct filter_spec *f, struct target **out,
                       size_t *n, bool *exact, struct error *err) {
  *exact = false;
  if (!placement_sharded(p)) {
    *n = placement_all(a, p, out);
    return true;
  }
  bool simple = simple_collation(p, f->options);
  struct chunk chunk;
  if (plain_key(a, p, f->filter, simple, &chunk)) {
    *exact = true;
    *out = one_target(a, target_shard(p, chunk.shard), n);
    return true;
  }
  bson_t let;
  struct match_options o = {.let = f->command != NULL && doc_doc(f->command, "let", &let) ? &let : NULL};
  const struct match *match = match_parse(a, f->filter, &o, err);
  if (match == NULL) return false;
  struct targets found;
  if (!target_filter(a, p->routing->chunks, match, simple, &found, err)) return false;
  *exact = found.exact_key;
  *n = found.n;
  *out = arena_alloc(a, found.n * sizeof **out);
  for (size_t i = 0; i < found.n; i++) (*out)[i] = target_shard(p, found.shards[i]);
  return true;
}

struct gather_shards {
  struct arena *arena;
  const struct placement *p;
  struct target *targets;
  size_t n, cap;
};

static bool gather_shard(void *ctx, const char *shard) {
  struct gather_shards *g = ctx;
  g->targets = arena_grow(g->arena, g->targets, g->n, &g->cap, sizeof *g->targets);
  g->targets[g->n++] = target_shard(g->p, shard);
  return true;
}

size_t placement_all(struct arena *a, const struct placement *p, struct target **out) {
  size_t n = 1;
  if (p->kind == PLACE_CONFIG) {
    *out = one_target(a, target_config(), &n);
    return n;
  }
  if (p->kind == PLACE_PRIMARY) {
    *out = one_target(a, target_primary(p), &n);
    return n;
  }
  struct gather_shards g = {.arena = a, .p = p};
  if (p->kind == PLACE_CHUNKS) chunk_map_shards(p->routing->chunks, gather_shard, &g);
  *out = g.targets;
  return g.n;
}

static bool count_shard(void *ctx, const char *shard) {
  ++*(size_t *)ctx;
  return true;
}

void placement_count(struct router *rt, enum targeted_family family, const struct placement *p, size_t n_targets) {
  enum targeted_width width = TARGETED_UNSHARDED;
  if (placement_sharded(p)) {
    size_t owners = 0;
    chunk_map_shards(p->routing->chunks, count_shard, &owners);
    width = n_targets == 1 ? TARGETED_ONE : n_targets >= owners ? TARGETED_ALL : TARGETED_MANY;
  }
  rt->targeted[family][width]++;
}
