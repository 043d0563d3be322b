// serverStatus of a router.
#include "mongos/server_status.h"

#include <stdio.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/bson/doc.h"
#include "common/net/process_status.h"
#include "mongos/router_cursor.h"
#include "mongos/routing_cache.h"

static const char *const family_names[TARGETED_FAMILIES] = {"find", "insert", "update", "delete", "aggregate"};
static const char *const width_names[TARGETED_WIDTHS] = {"allShards", "manyShards", "oneShard", "unsharded"};

static void append_connections(struct router *rt, bson_t *reply) {
  size_t created = 0, current = server_connections(rt->server, &created);
  bson_t doc;
  bson_append_document_begin(reply, "connections", -1, &doc);
  doc_append_num(&doc, "current", (int64_t)current);
  doc_append_num(&doc, "totalCreated", (int64_t)created);
  doc_append_num(&doc, "active", (int64_t)loop_fibers(rt->loop));
  bson_append_document_end(reply, &doc);
}

static void append_opcounters(struct router *rt, bson_t *reply) {
  static const char *const names[OPCOUNTERS] = {"insert", "query", "update", "delete", "getmore", "command"};
  bson_t doc;
  bson_append_document_begin(reply, "opcounters", -1, &doc);
  for (int i = 0; i < OPCOUNTERS; i++) bson_append_int64(&doc, names[i], -1, rt->ops[i]);
  bson_append_document_end(reply, &doc);
}

static void append_memory(bson_t *reply) {
  enum { MEGABYTE = 1024 * 1024 };
  long pages = 0, resident = 0;
  FILE *f = fopen("/proc/self/statm", "re");
  if (f != NULL) {
    if (fscanf(f, "%ld %ld", &pages, &resident) != 2) pages = resident = 0;
    fclose(f);
  }
  long page = sysconf(_SC_PAGESIZE);
  bson_t doc;
  bson_append_document_begin(reply, "mem", -1, &doc);
  bson_append_int32(&doc, "bits", -1, 64);
  doc_append_num(&doc, "resident", resident * page / MEGABYTE);
  doc_append_num(&doc, "virtual", pages * page / MEGABYTE);
  bson_append_bool(&doc, "supported", -1, true);
  bson_append_document_end(reply, &doc);
}

static void append_metrics(struct router *rt, bson_t *reply) {
  bson_t metrics, part;
  bson_append_document_begin(reply, "metrics", -1, &metrics);
  bson_append_document_begin(&metrics, "commands", -1, &part);
  dispatcher_metrics(rt->dispatcher, &part);
  bson_append_document_end(&metrics, &part);
  bson_append_document_begin(&metrics, "cursor", -1, &part);
  router_cursors_status(rt->cursors, &part);
  bson_append_document_end(&metrics, &part);
  bson_append_document_end(reply, &metrics);
}

static void append_sharding(struct router *rt, bson_t *reply) {
  bson_t doc, part, family;
  bson_append_document_begin(reply, "sharding", -1, &doc);
  bson_append_utf8(&doc, "configsvrConnectionString", -1, replica_set_string(rt->config), -1);
  bson_append_document_end(reply, &doc);
  bson_append_document_begin(reply, "shardingStatistics", -1, &doc);
  bson_append_document_begin(&doc, "numHostsTargeted", -1, &part);
  for (int f = 0; f < TARGETED_FAMILIES; f++) {
    bson_append_document_begin(&part, family_names[f], -1, &family);
    for (int w = 0; w < TARGETED_WIDTHS; w++) doc_append_num(&family, width_names[w], rt->targeted[f][w]);
    bson_append_document_end(&part, &family);
  }
  bson_append_document_end(&doc, &part);
  bson_append_document_begin(&doc, "catalogCache", -1, &part);
  routing_cache_status(rt->cache, &part);
  bson_append_document_end(&doc, &part);
  bson_append_bool(&doc, "configServerInShardCache", -1, false);
  bson_append_document_end(reply, &doc);
}

bool run_server_status(struct request *r, bson_t *reply, struct error *err) {
  struct router *rt = router_of(r);
  int64_t up_ms = clock_wall_ms() - rt->started_ms;
  bson_append_utf8(reply, "host", -1, rt->host_port, -1);
  bson_append_utf8(reply, "version", -1, shardlet_version, -1);
  bson_append_utf8(reply, "process", -1, "mongos", -1);
  bson_append_int64(reply, "pid", -1, getpid());
  bson_append_double(reply, "uptime", -1, (double)(up_ms / 1000));
  bson_append_int64(reply, "uptimeMillis", -1, up_ms);
  bson_append_int64(reply, "uptimeEstimate", -1, up_ms / 1000);
  bson_append_date_time(reply, "localTime", -1, clock_wall_ms());
  append_connections(rt, reply);
  network_status_append(rt->server, reply);
  append_opcounters(rt, reply);
  append_sharding(rt, reply);
  append_memory(reply);
  append_metrics(rt, reply);
  return true;
}
