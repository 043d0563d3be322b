// What the balancer sees of the cluster: settings, shards, collections, sizes, chunks and zones.
#include "configsvr/balancer_view.h"

#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/bson/doc.h"

bool view_config_call(struct operation *op, struct balancer_term *term, const char *db, const bson_t *body,
                      const bson_t **reply, struct error *err) {
  return replica_set_call_primary(op, term->config, db, body, VIEW_CALL_TIMEOUT_MS, true, reply, err);
}

bool view_shard_call(struct operation *op, struct balancer_term *term, const char *shard, const char *db,
                     const bson_t *body, int64_t timeout_ms, const bson_t **reply, struct error *err) {
  struct replica_set *set = shard_registry_get(op, term->shards, shard, err);
  return set && replica_set_call_primary(op, set, db, body, timeout_ms, true, reply, err);
}

// --- settings ---

static bool read_parameters(struct operation *op, struct balancer_term *term, struct balancer_view *v,
                            struct error *err) {
  static const char *const names[] = {"balancerMigrationsThrottlingMs", "balancerRoundIntervalMs",
                                      "balancerClassicPolicy", "autoMergerIntervalSecs"};
  bson_t *get = arena_bson(op->arena);
  const bson_t *reply;
  bson_append_int32(get, "getParameter", -1, 1);
  for (size_t i = 0; i < 4; i++) bson_append_int32(get, names[i], -1, 1);
  if (!view_config_call(op, term, "admin", get, &reply, err)) return false;
  v->throttling_ms = doc_i64(reply, names[0], 1000);
  v->interval_ms = doc_i64(reply, names[1], 10000);
  v->classic = doc_bool(reply, names[2], false);
  v->merge_interval_ms = 1000 * doc_i64(reply, names[3], 3600);
  return true;
}

bool view_read_settings(struct operation *op, struct balancer_term *term, struct balancer_view *v, struct error *err) {
  const bson_t **docs;
  size_t n;
  bson_t none = BSON_INITIALIZER;
  return read_parameters(op, term, v, err) &&
         catalog_find(op, term->config, "settings", &none, NULL, 0, &docs, &n, err) &&
         settings_read(docs, n, &v->settings, err);
}

// --- shards ---

bool view_read_shards(struct operation *op, struct balancer_term *term, struct balancer_view *v, struct error *err) {
  struct shard_type *shards;
  if (!shard_registry_all(op, term->shards, true, &shards, &v->n_shards, err)) return false;
  random_shuffle(shards, v->n_shards, sizeof *shards);
  v->shards = arena_zalloc(op->arena, v->n_shards * sizeof *v->shards);
  v->sets = arena_zalloc(op->arena, v->n_shards * sizeof(struct replica_set *));
  for (size_t i = 0; i < v->n_shards; i++) {
    v->shards[i] = (struct policy_shard){
        .name = shards[i].name, .draining = shards[i].draining, .tags = shards[i].tags, .available = true};
    v->sets[i] = shard_registry_get(op, term->shards, shards[i].name, err);
    if (!v->sets[i]) return false;
  }
  return true;
}

// --- collections ---

static bool is_balanced(const struct collection_type *t) {
  return !t->no_balance && t->allow_migrations && t->permit_migrations && !t->defragment && !t->unsplittable;
}

bool view_read_collections(struct operation *op, struct balancer_term *term, const char *ns,
                           struct collection_view **out, size_t *n, struct error *err) {
  const bson_t **docs;
  size_t found;
  bson_t *filter = arena_bson(op->arena);
  if (ns) bson_append_utf8(filter, "_id", -1, ns, -1);
  if (!catalog_find(op, term->config, "collections", filter, NULL, 0, &docs, &found, err)) return false;
  *out = arena_zalloc(op->arena, found * sizeof **out);
  *n = 0;
  for (size_t i = 0; i < found; i++) {
    struct collection_view *c = &(*out)[*n];
    if (!collection_type_parse(op->arena, docs[i], &c->type, err)) return error_prefix(err, "config.collections");
    if (ns || is_balanced(&c->type)) ++*n;
  }
  random_shuffle(*out, *n, sizeof **out);
  return true;
}

// --- sizes ---

struct size_query {
  const struct balancer_view *view;
  struct collection_view *list;
  size_t n;
  const bson_t *body;
  struct error *errors; // by shard
  bool *ok;
};

static const bson_t *size_command(struct arena *a, const struct collection_view *list, size_t n) {
  bson_t *body = arena_bson(a), array, one;
  bson_append_int32(body, "_shardsvrGetStatsForBalancing", -1, 1);
  bson_append_array_begin(body, "collections", -1, &array);
  for (size_t i = 0; i < n; i++) {
    bson_append_document_begin(&array, arena_printf(a, "%zu", i), -1, &one);
    bson_append_utf8(&one, "ns", -1, list[i].type.ns, -1);
    doc_append_uuid(&one, "UUID", list[i].type.uuid);
    bson_append_document_end(&array, &one);
  }
  bson_append_array_end(body, &array);
  bson_append_int32(body, "scaleFactor", -1, 1);
  return body;
}

static void take_sizes(const struct size_query *q, size_t shard, const bson_t *reply) {
  bson_iter_t it, stat;
  if (!bson_iter_init_find(&it, reply, "stats") || !bson_iter_recurse(&it, &stat)) return;
  while (bson_iter_next(&stat)) {
    bson_t one;
    iter_doc(&one, &stat);
    const char *ns = doc_str(&one, "namespace", "");
    for (size_t i = 0; i < q->n; i++) {
      if (strcmp(q->list[i].type.ns, ns) == 0) q->list[i].sizes[shard] = doc_i64(&one, "collSize", 0);
    }
  }
}

static void ask_size(struct operation *op, size_t shard, void *ctx) {
  struct size_query *q = ctx;
  const bson_t *reply;
  q->ok[shard] = replica_set_call_primary(op, q->view->sets[shard], "admin", q->body, VIEW_CALL_TIMEOUT_MS, true,
                                          &reply, &q->errors[shard]);
  if (q->ok[shard]) take_sizes(q, shard, reply);
}

bool view_read_sizes(struct operation *op, const struct balancer_view *v, struct collection_view *list, size_t n,
                     struct error *err) {
  if (n == 0 || v->n_shards == 0) return true;
  struct size_query q = {.view = v, .list = list, .n = n, .body = size_command(op->arena, list, n)};
  q.errors = arena_zalloc(op->arena, v->n_shards * sizeof *q.errors);
  q.ok = arena_zalloc(op->arena, v->n_shards * sizeof *q.ok);
  for (size_t i = 0; i < n; i++) list[i].sizes = arena_zalloc(op->arena, v->n_shards * sizeof(int64_t));
  op_parallel(op, v->n_shards, ask_size, &q);
  for (size_t i = 0; i < v->n_shards; i++) {
    if (q.ok[i]) continue;
    *err = q.errors[i];
    return error_prefix(err, "Could not get the collections' sizes from shard %s", v->shards[i].name);
  }
  return true;
}

// --- chunks and zones ---

void view_forget(struct balancer_term *term, const char *ns) {
  routing_unref(map_removes(term->routings, ns));
}

static bool open_routing(struct operation *op, struct balancer_term *term, struct collection_view *c,
                         struct error *err) {
  struct routing *known = map_gets(term->routings, c->type.ns);
  bool incremental;
  if (known) routing_ref(known); // another may replace it in the map while this one reads
  bool ok = catalog_load_routing(op, term->config, c->type.ns, known, &c->routing, &incremental, err);
  routing_unref(known);
  if (!ok) return false;
  if (!c->routing->tracked) {
    view_forget(term, c->type.ns);
    return true;
  }
  routing_unref(map_puts(term->routings, c->type.ns, routing_ref(c->routing)));
  return true;
}

static bool open_zones(struct operation *op, struct balancer_term *term, struct collection_view *c, struct error *err) {
  bson_t *filter = arena_bson(op->arena), *sort = arena_bson(op->arena);
  const bson_t **docs;
  bson_append_utf8(filter, "ns", -1, c->type.ns, -1);
  bson_append_int32(sort, "min", -1, 1);
  if (!catalog_find(op, term->config, "tags", filter, sort, 0, &docs, &c->n_zones, err)) return false;
  const struct shard_key *key = chunk_map_key(c->routing->chunks);
  c->zones = arena_alloc(op->arena, c->n_zones * sizeof *c->zones);
  c->tags = arena_alloc(op->arena, c->n_zones * sizeof *c->tags);
  for (size_t i = 0; i < c->n_zones; i++) {
    struct tag_type *t = &c->tags[i];
    if (!tag_type_parse(op->arena, docs[i], t, err)) return error_prefix(err, "config.tags of %s", c->type.ns);
    // Zones may be older than the shard key: their bounds are completed as updateZoneKeyRange would have done.
    t->min = shard_key_extend(key, op->arena, t->min, false);
    t->max = shard_key_extend(key, op->arena, t->max, false);
    c->zones[i] = (struct policy_zone){bound_key(op->arena, t->min), bound_key(op->arena, t->max), t->tag};
  }
  return true;
}

bool view_open(struct operation *op, struct balancer_term *term, struct collection_view *c, struct error *err) {
  if (!open_routing(op, term, c, err)) return false;
  if (c->routing->tracked && open_zones(op, term, c, err)) return true;
  if (!c->routing->tracked) error_set(err, ERR_NamespaceNotSharded, "Collection %s was dropped", c->type.ns);
  view_close(c);
  return false;
}

void view_close(struct collection_view *c) {
  routing_unref(c->routing);
  c->routing = NULL;
}

int64_t view_chunk_bytes(const struct balancer_view *v, const struct collection_view *c) {
  return c->type.max_chunk_size_bytes > 0 ? c->type.max_chunk_size_bytes : v->settings.chunk_bytes;
}

struct policy_input view_input(struct balancer_view *v, const struct collection_view *c) {
  for (size_t i = 0; i < v->n_shards; i++) v->shards[i].size = c->sizes[i];
  return (struct policy_input){.chunks = c->routing->chunks,
                               .shards = v->shards,
                               .n_shards = v->n_shards,
                               .zones = c->zones,
                               .n_zones = c->n_zones,
                               .chunk_bytes = view_chunk_bytes(v, c),
                               .attempt_jumbo = v->settings.attempt_jumbo,
                               .classic = v->classic};
}
