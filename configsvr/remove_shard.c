// _configsvrRemoveShard: the first call starts draining, later ones report what is left, the last one removes the
// shard.
#include <string.h>

#include "common/base/log.h"
#include "common/bson/doc.h"
#include "configsvr/balancer.h"
#include "configsvr/chunk_commands.h"
#include "configsvr/commands.h"
#include "configsvr/zone_lists.h"

enum state { STARTED, ONGOING, COMPLETED };

struct removal {
  const char *shard;
  // results
  enum state state;
  int64_t chunks, jumbo;
  const char **databases;
  size_t n_databases;
};

static bool check_others(struct commit *c, const struct removal *x, const struct shard_type *all, size_t n,
                         const struct shard_type *s, struct error *err) {
  size_t others = 0;
  for (size_t i = 0; i < n; i++) others += !all[i].draining && strcmp(all[i].name, x->shard) != 0;
  if (others == 0)
    return error_set(err, ERR_IllegalOperation, "Operation not allowed because it would remove the last shard");
  bson_iter_t it;
  if (!s->tags || !bson_iter_init(&it, s->tags)) return true;
  while (bson_iter_next(&it)) {
    const char *zone = bson_iter_utf8(&it, NULL);
    if (!zone || !zone_has_ranges(c->cs, zone) || !zone_is_only_on(all, n, x->shard, zone)) continue;
    return error_set(err, ERR_ZoneStillInUse,
                     "Operation not allowed because it would remove the only shard for zone %s which has a chunk range "
                     "is associated "
                     "with it",
                     zone);
  }
  return true;
}

static void find_databases(struct commit *c, struct removal *x) {
  const bson_t **docs;
  bson_t *primary = arena_bson(c->arena);
  bson_append_utf8(primary, "primary", -1, x->shard, -1);
  x->n_databases = local_find(&c->cs->node, c->arena, "config.databases", primary, NULL, 0, &docs);
  x->databases = arena_alloc(c->arena, (x->n_databases + 1) * sizeof *x->databases);
  for (size_t i = 0; i < x->n_databases; i++) x->databases[i] = doc_str(docs[i], "_id", "");
}

static bool has_chunks(struct commit *c, const struct removal *x) {
  const bson_t **docs;
  bson_t none = BSON_INITIALIZER;
  size_t n = local_find(&c->cs->node, c->arena, "config.collections", &none, NULL, 0, &docs);
  for (size_t i = 0; i < n; i++) {
    struct chunk_type any;
    uint8_t uuid[16];
    if (doc_uuid(docs[i], "uuid", uuid) && chunk_of_shard(c->cs, c->arena, uuid, x->shard, NULL, &any)) return true;
  }
  return false;
}

static bool log_row(struct commit *c, const struct removal *x, const char *what, struct error *err) {
  bson_t *details = arena_bson(c->arena);
  bson_append_utf8(details, "shard", -1, x->shard, -1);
  return commit_log(c, what, "", details, err);
}

static bool start_draining(struct commit *c, struct removal *x, struct error *err) {
  const bson_t *doc;
  bson_t *set = arena_bson(c->arena);
  bson_append_bool(set, "draining", -1, true);
  x->state = STARTED;
  catalog_read_doc(c->cs, c->arena, "config.shards", x->shard, &doc);
  return commit_put(c, "config.shards", doc_with(c->arena, doc, set, NULL), err) &&
         log_row(c, x, "removeShard.start", err);
}

// Removes the shard and lets another one's topologyTime tell everybody that the topology changed.
static bool finish(struct commit *c, struct removal *x, const struct shard_type *all, size_t n, struct error *err) {
  x->state = COMPLETED;
  for (size_t i = 0; i < n; i++) {
    if (strcmp(all[i].name, x->shard) == 0) continue;
    const bson_t *doc;
    bson_t *set = arena_bson(c->arena);
    doc_append_ts(set, "topologyTime", c->now);
    catalog_read_doc(c->cs, c->arena, "config.shards", all[i].name, &doc);
    if (!commit_put(c, "config.shards", doc_with(c->arena, doc, set, NULL), err)) return false;
    break;
  }
  return commit_delete_str(c, "config.shards", x->shard, err) && log_row(c, x, "removeShard", err);
}

static bool commit_remove(struct commit *c, void *args, struct error *err) {
  struct removal *x = args;
  struct shard_type s, *all;
  size_t n;
  bool found;
  if (!catalog_read_shard(c->cs, c->arena, x->shard, &s, &found, err)) return false;
  if (!found) return error_set(err, ERR_ShardNotFound, "Shard %s does not exist", x->shard);
  if (!catalog_read_shards(c->cs, c->arena, &all, &n, err)) return false;
  find_databases(c, x);
  if (!s.draining) return check_others(c, x, all, n, &s, err) && start_draining(c, x, err);
  x->state = ONGOING;
  return has_chunks(c, x) || x->n_databases > 0 || finish(c, x, all, n, err);
}

static void append_databases(bson_t *reply, struct arena *a, const struct removal *x) {
  bson_t array;
  bson_append_utf8(reply, "note", -1, "you need to drop or movePrimary these databases", -1);
  bson_append_array_begin(reply, "dbsToMove", -1, &array);
  for (size_t i = 0; i < x->n_databases; i++)
    bson_append_utf8(&array, arena_printf(a, "%zu", i), -1, x->databases[i], -1);
  bson_append_array_end(reply, &array);
}

static void report(bson_t *reply, struct arena *a, const struct removal *x) {
  static const char *const messages[] = {"draining started successfully", "draining ongoing",
                                         "removeshard completed successfully"};
  static const char *const states[] = {"started", "ongoing", "completed"};
  bson_append_utf8(reply, "msg", -1, messages[x->state], -1);
  bson_append_utf8(reply, "state", -1, states[x->state], -1);
  if (x->state == ONGOING) {
    bson_t remaining;
    bson_append_document_begin(reply, "remaining", -1, &remaining);
    bson_append_int64(&remaining, "chunks", -1, x->chunks);
    bson_append_int64(&remaining, "dbs", -1, (int64_t)x->n_databases);
    bson_append_int64(&remaining, "jumboChunks", -1, x->jumbo);
    bson_append_document_end(reply, &remaining);
  } else {
    bson_append_utf8(reply, "shard", -1, x->shard, -1);
  }
  if (x->state != COMPLETED) append_databases(reply, a, x);
}

bool config_remove_shard(struct request *r, bson_t *reply, struct error *err) {
  struct removal x = {.shard = r->coll};
  if (!x.shard || !*x.shard) return error_set(err, ERR_BadValue, "%s needs a shard's name", r->name);
  if (strcmp(x.shard, "config") == 0) {
    return error_set(err, ERR_IllegalOperation, "The config server is no shard of this cluster, it cannot be removed");
  }
  static const char *const namespaces[] = {"config.shards", "config.databases", "config.chunks", "config.collections",
                                           "config.tags"};
  if (!commit_run(r->op, config_of(r), namespaces, 5, commit_remove, &x, err)) return false;
  if (x.state == STARTED) log_info("SHARDING", "Starting to drain shard", "shardId:s", x.shard);
  if (x.state == COMPLETED) log_info("SHARDING", "Removed shard", "shardId:s", x.shard);
  if (x.state == ONGOING && !chunks_count(r->op, config_of(r), x.shard, &x.chunks, &x.jumbo, err)) return false;
  report(reply, r->op->arena, &x);
  balancer_wake(config_of(r)->balancer);
  return true;
}
