// What a router tells the config servers on its own: its row in config.mongos, and the shards of --addShards.
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/bson/doc.h"
#include "mongos/rw_defaults.h"
#include "mongos/shard_call.h"

enum { UPTIME_PERIOD_MS = 10000, ADD_SHARD_RETRY_MS = 20, ADD_SHARD_LOG_EVERY = 100, CALL_TIMEOUT_MS = 30000 };

// {update: "mongos", updates: [{q: {_id}, u: {$set: ..., $setOnInsert: {created}}, upsert: true}]}
static bson_t *uptime_command(struct router *rt, struct arena *a) {
  int64_t now = clock_wall_ms();
  bson_t *body = arena_bson(a), updates, entry, q, u, set, list;
  bson_append_utf8(body, "update", -1, "mongos", -1);
  bson_append_array_begin(body, "updates", -1, &updates);
  bson_append_document_begin(&updates, "0", 1, &entry);
  bson_append_document_begin(&entry, "q", -1, &q);
  bson_append_utf8(&q, "_id", -1, rt->host_port, -1);
  bson_append_document_end(&entry, &q);
  bson_append_document_begin(&entry, "u", -1, &u);
  bson_append_document_begin(&u, "$set", -1, &set);
  bson_append_array_begin(&set, "advisoryHostFQDNs", -1, &list);
  bson_append_array_end(&set, &list);
  bson_append_bool(&set, "embeddedRouter", -1, false);
  bson_append_utf8(&set, "mongoVersion", -1, shardlet_version, -1);
  bson_append_date_time(&set, "ping", -1, now);
  bson_append_int64(&set, "up", -1, (now - rt->started_ms) / 1000);
  bson_append_bool(&set, "waiting", -1, true);
  bson_append_document_end(&u, &set);
  bson_append_document_begin(&u, "$setOnInsert", -1, &set);
  bson_append_date_time(&set, "created", -1, rt->started_ms);
  bson_append_document_end(&u, &set);
  bson_append_document_end(&entry, &u);
  bson_append_bool(&entry, "upsert", -1, true);
  bson_append_document_end(&updates, &entry);
  bson_append_array_end(body, &updates);
  append_majority(body);
  return body;
}

static void uptime_run(struct operation *op, void *arg) {
  struct router *rt = arg;
  struct error err = {0};
  do {
    const bson_t *reply;
    if (!config_call(op, rt, "config", uptime_command(rt, op->arena), true, &reply, &err)) {
      log_info("SHARDING", "Failed to report this router's uptime", "error:e", &err);
    }
    rw_defaults_load(op, rt);
    arena_reset(op->arena);
  } while (op_sleep(op, UPTIME_PERIOD_MS, &err));
}

void uptime_start(struct router *rt) {
  operation_start(rt->loop, "uptime", uptime_run, rt);
}

// --- --addShards ---

static bool add_shard(struct operation *op, struct router *rt, const char *connection_string, struct error *err) {
  bson_t *body = arena_bson(op->arena);
  const bson_t *reply;
  bson_append_utf8(body, "_configsvrAddShard", -1, connection_string, -1);
  append_majority(body);
  if (!config_call(op, rt, "admin", body, true, &reply, err)) return false;
  log_info("SHARDING", "Added a shard", "shard:s host:s", doc_str(reply, "shardAdded", ""), connection_string);
  return true;
}

// Whether this set is a shard already: a router that starts again need not wait for the primary of each.
static bool is_shard(struct operation *op, struct router *rt, const char *connection_string) {
  const char *slash = strchr(connection_string, '/');
  struct shard_type *shards;
  struct error err;
  size_t n;
  if (slash == NULL || !shard_registry_all(op, rt->shards, true, &shards, &n, &err)) return false;
  for (size_t i = 0; i < n; i++) {
    if (strncmp(shards[i].host, connection_string, (size_t)(slash + 1 - connection_string)) == 0) return true;
  }
  return false;
}

bool add_shards(struct operation *op, struct router *rt, const char *const *connection_strings, struct error *err) {
  for (const char *const *shard = connection_strings; *shard != NULL; shard++) {
    if (is_shard(op, rt, *shard)) continue;
    for (int tries = 0; !add_shard(op, rt, *shard, err); tries++) {
      if (tries % ADD_SHARD_LOG_EVERY == 0) {
        log_info("SHARDING", "Waiting until a shard can be added", "host:s error:e", *shard, err);
      }
      if (!op_sleep(op, ADD_SHARD_RETRY_MS, err)) return false;
    }
  }
  return true;
}
