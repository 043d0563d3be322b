// The auto-merger: now and then, neighbouring chunks of a shard that nobody needs apart become one
// (reference/sharding.md 4.5).
//
// Splitting by migrations leaves many small chunks behind; merged, they cost routers and shards less. Only minor
// versions change, so nobody has to refresh.
#include "configsvr/balancer_merge.h"

#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/bson/doc.h"

enum { MERGES_PER_SHARD_MAX = 20 }; // commands for one collection on one shard in one visit

static bool merge_on_shard(struct operation *op, struct balancer_term *term, const char *ns, const char *shard,
                           int64_t *merged, struct error *err) {
  bson_t *body = arena_bson(op->arena);
  bson_append_utf8(body, "_configsvrCommitMergeAllChunksOnShard", -1, ns, -1);
  bson_append_utf8(body, "shard", -1, shard, -1);
  append_majority(body);
  int64_t n = 1;
  for (int i = 0; i < MERGES_PER_SHARD_MAX && n > 0; i++) { // each command takes a limited number of chunks
    const bson_t *reply;
    if (!view_config_call(op, term, "admin", body, &reply, err)) return false;
    n = doc_i64(reply, "numMergedChunks", 0);
    *merged += n;
  }
  return true;
}

static bool merges(const struct collection_type *c) {
  return !c->unsplittable && c->allow_migrations && c->permit_migrations &&
         !(c->has_enable_auto_merge && !c->enable_auto_merge);
}

bool merge_due(const struct balancer_term *term, const struct balancer_view *v) {
  return v->settings.auto_merge && clock_mono_ms() - term->last_merge_ms >= v->merge_interval_ms;
}

bool merge_all(struct operation *op, struct balancer_term *term, const struct balancer_view *v, struct error *err) {
  const bson_t **docs;
  size_t n;
  bson_t none = BSON_INITIALIZER;
  int64_t merged = 0;
  term->last_merge_ms = clock_mono_ms();
  if (!catalog_find(op, term->config, "collections", &none, NULL, 0, &docs, &n, err)) return false;
  for (size_t i = 0; i < n; i++) {
    struct collection_type c;
    if (!collection_type_parse(op->arena, docs[i], &c, err)) return error_prefix(err, "config.collections");
    for (size_t s = 0; merges(&c) && s < v->n_shards; s++) {
      struct error why = {0};
      if (merge_on_shard(op, term, c.ns, v->shards[s].name, &merged, &why)) continue;
      if (!op_check(op, err)) return false;
      log_warn("BALANCER", "Chunks could not be merged", "namespace:s shard:s error:e", c.ns, v->shards[s].name, &why);
    }
  }
  if (merged > 0) log_info("BALANCER", "Auto-merger merged chunks", "mergedChunks:l", merged);
  return true;
}
