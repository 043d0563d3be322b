// Becoming a shard, once and for all.
#include "shardd/identity.h"

#include <string.h>

#include "common/base/log.h"
#include "common/bson/doc.h"

void identity_applied(struct shard *sh, const bson_t *doc) {
  struct error err = {0};
  const char *name = doc_str(doc, "shardName", NULL), *config = doc_str(doc, "configsvrConnectionString", NULL);
  if (sh->name || !name || !config || strcmp(doc_str(doc, "_id", ""), IDENTITY_ID) != 0) return;
  sh->config = replica_set_watch(sh->loop, sh->node.remotes, config, &err);
  if (!sh->config) {
    log_error("SHARDING", "The shard identity names no usable config server", "connectionString:s error:e", config,
              &err);
    return;
  }
  sh->shards = shard_registry_new(sh->loop, sh->node.remotes, sh->config);
  sh->name = strdup(name);
  sh->config_string = strdup(config);
  doc_oid(doc, "clusterId", &sh->cluster_id);
  log_info("SHARDING", "initialized sharding components", "shardName:s configsvrConnectionString:s", name, config);
  event_signal(&sh->changed);
}

void identity_load(struct shard *sh) {
  struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
  bson_value_t id = value_str(IDENTITY_ID);
  const bson_t *doc;
  if (local_find_id(&sh->node, a, IDENTITY_NS, &id, &doc)) identity_applied(sh, doc);
}

static bool same_identity(const struct shard *sh, const char *name, const bson_oid_t *cluster) {
  return !strcmp(sh->name, name) && bson_oid_equal(&sh->cluster_id, cluster);
}

bool identity_give(struct operation *op, struct shard *sh, const bson_t *identity, struct error *err) {
  const char *name = doc_str(identity, "shardName", NULL),
             *config = doc_str(identity, "configsvrConnectionString", NULL);
  bson_oid_t cluster;
  if (!name || !config || !doc_oid(identity, "clusterId", &cluster))
    return error_set(err, ERR_NoSuchKey, "shardIdentity needs shardName, clusterId and configsvrConnectionString");
  struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
  const char *set;
  const char **hosts;
  size_t n;
  if (!replica_set_parse(a, config, &set, &hosts, &n, err)) return false;
  if (sh->name) {
    if (same_identity(sh, name, &cluster)) return true;
    return error_set(
        err, ERR_IllegalOperation,
        "This member is shard %s of another cluster, or under another name, already; its data directory must "
        "be emptied before it can become shard %s",
        sh->name, name);
  }
  bson_t *doc = arena_bson(op->arena);
  BSON_APPEND_UTF8(doc, "_id", IDENTITY_ID);
  BSON_APPEND_UTF8(doc, "shardName", name);
  BSON_APPEND_OID(doc, "clusterId", &cluster);
  BSON_APPEND_UTF8(doc, "configsvrConnectionString", config);
  return local_put_now(op, &sh->node, IDENTITY_NS, doc, err);
}
