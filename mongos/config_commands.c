// Commands that the config servers carry out: balancer, zones, shards. Forwarded under their internal names.
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/bson/doc.h"
#include "mongos/body.h"
#include "mongos/ddl.h"
#include "mongos/forward.h"
#include "mongos/routing_cache.h"
#include "mongos/rw_defaults.h"

// Forwards the whole command; the reply's fields go to the client unless `reply` is NULL.
static bool forward_as(struct request *r, const char *name, bson_t *reply, struct error *err) {
  static const char *const own[] = {"writeConcern", NULL};
  bson_t *body = forward_renamed(r, name, NULL, own);
  append_majority_concern(body, r);
  bool ok = config_forward(r, "admin", body, reply != NULL ? reply : arena_bson(r->op->arena), err);
  if (!ok) name_unsupported(r, err);
  return ok;
}

// --- balancer ---

static bool run_balancer_start(struct request *r, bson_t *reply, struct error *err) {
  return forward_as(r, "_configsvrBalancerStart", NULL, err);
}

static bool run_balancer_stop(struct request *r, bson_t *reply, struct error *err) {
  return forward_as(r, "_configsvrBalancerStop", NULL, err);
}

static bool run_balancer_status(struct request *r, bson_t *reply, struct error *err) {
  return forward_as(r, "_configsvrBalancerStatus", reply, err);
}

static bool run_balancer_collection_status(struct request *r, bson_t *reply, struct error *err) {
  return forward_as(r, "_configsvrBalancerCollectionStatus", reply, err);
}

static bool run_configure_balancing(struct request *r, bson_t *reply, struct error *err) {
  return forward_as(r, "_configsvrConfigureCollectionBalancing", NULL, err);
}

static bool run_set_allow_migrations(struct request *r, bson_t *reply, struct error *err) {
  bool ok = forward_as(r, "_configsvrSetAllowMigrations", NULL, err);
  if (BSON_ITER_HOLDS_UTF8(&r->first)) {
    routing_cache_invalidate(router_of(r)->cache, bson_iter_utf8(&r->first, NULL), NULL, NULL);
  }
  return ok;
}

const struct command router_balancer_commands[] = {
    {"balancerStart", NULL, CMD_WRITE | CMD_ADMIN_ONLY, run_balancer_start, "lets the balancer work"},
    {"balancerStop", NULL, CMD_WRITE | CMD_ADMIN_ONLY, run_balancer_stop, "stops the balancer after its round"},
    {"balancerStatus", NULL, CMD_READ | CMD_ADMIN_ONLY, run_balancer_status, "whether the balancer works"},
    {"balancerCollectionStatus", NULL, CMD_READ | CMD_ADMIN_ONLY, run_balancer_collection_status,
     "whether a collection is balanced, or why not"},
    {"setDefaultRWConcern", NULL, CMD_WRITE | CMD_ADMIN_ONLY, run_set_rw_defaults,
     "sets the read and write concern of commands that name none"},
    {"getDefaultRWConcern", NULL, CMD_READ | CMD_ADMIN_ONLY, run_get_rw_defaults,
     "the read and write concern of commands that name none"},
    {"configureCollectionBalancing", NULL, CMD_WRITE | CMD_ADMIN_ONLY, run_configure_balancing,
     "chunk size and merging of a collection"},
    {"setAllowMigrations", NULL, CMD_WRITE | CMD_ADMIN_ONLY, run_set_allow_migrations,
     "permits or forbids moves of a collection's chunks"},
    {NULL, NULL, 0, NULL, NULL},
};

// --- zones ---

static bool run_add_to_zone(struct request *r, bson_t *reply, struct error *err) {
  return forward_as(r, "_configsvrAddShardToZone", NULL, err);
}

static bool run_remove_from_zone(struct request *r, bson_t *reply, struct error *err) {
  return forward_as(r, "_configsvrRemoveShardFromZone", NULL, err);
}

static bool run_update_zone(struct request *r, bson_t *reply, struct error *err) {
  return forward_as(r, "_configsvrUpdateZoneKeyRange", NULL, err);
}

const struct command router_zone_commands[] = {
    {"addShardToZone", NULL, CMD_WRITE | CMD_ADMIN_ONLY, run_add_to_zone, "puts a shard into a zone"},
    {"removeShardFromZone", NULL, CMD_WRITE | CMD_ADMIN_ONLY, run_remove_from_zone, "takes a shard out of a zone"},
    {"updateZoneKeyRange", NULL, CMD_WRITE | CMD_ADMIN_ONLY, run_update_zone,
     "ties a range of the shard key to a zone"},
    {NULL, NULL, 0, NULL, NULL},
};

// --- shards ---

static bool run_add_shard(struct request *r, bson_t *reply, struct error *err) {
  bool ok = forward_as(r, "_configsvrAddShard", reply, err);
  struct error ignored;
  if (ok) shard_registry_reload(r->op, router_of(r)->shards, &ignored);
  return ok;
}

static bool run_remove_shard(struct request *r, bson_t *reply, struct error *err) {
  bool ok = forward_as(r, "_configsvrRemoveShard", reply, err);
  struct error ignored;
  if (ok) shard_registry_reload(r->op, router_of(r)->shards, &ignored);
  return ok;
}

static bool run_list_shards(struct request *r, bson_t *reply, struct error *err) {
  bson_t filter, array;
  if (!body_document(r, "filter", &filter, err)) return false;
  const bson_t **docs;
  size_t n;
  if (!catalog_find(r->op, router_of(r)->config, "shards", &filter, NULL, 0, &docs, &n, err)) return false;
  bson_append_array_begin(reply, "shards", -1, &array);
  for (size_t i = 0; i < n; i++) {
    char text[16];
    const char *key;
    size_t len = bson_uint32_to_string((uint32_t)i, &key, text, sizeof text);
    bson_append_document(&array, key, (int)len, docs[i]);
  }
  bson_append_array_end(reply, &array);
  return true;
}

static bool run_get_shard_map(struct request *r, bson_t *reply, struct error *err) {
  return shard_registry_map(r->op, router_of(r)->shards, true, reply, err);
}

const struct command router_shard_commands[] = {
    {"addShard", "addshard", CMD_WRITE | CMD_ADMIN_ONLY, run_add_shard, "makes a replica set part of the cluster"},
    {"removeShard", "removeshard", CMD_WRITE | CMD_ADMIN_ONLY, run_remove_shard, "drains a shard, then removes it"},
    {"listShards", "listshards", CMD_READ | CMD_ADMIN_ONLY, run_list_shards, "the cluster's shards"},
    {"getShardMap", NULL, CMD_READ | CMD_ADMIN_ONLY, run_get_shard_map, "which host belongs to which shard"},
    {NULL, NULL, 0, NULL, NULL},
};
