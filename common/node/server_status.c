// The serverStatus command.
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/bson/doc.h"
#include "common/net/daemon.h"
#include "common/net/process_status.h"
#include "common/node/commands.h"
#include "common/node/cursors.h"
#include "common/node/internal.h"

enum { LISTEN_LIMIT = 20000 };

void node_append_server_info(const struct node *n, bson_t *out) {
  const char *colon = strrchr(n->host_port, ':');
  char host[256];
  snprintf(host, sizeof host, "%.*s", (int)(colon - n->host_port), n->host_port);
  bson_t info;
  BSON_APPEND_DOCUMENT_BEGIN(out, "serverInfo", &info);
  BSON_APPEND_UTF8(&info, "host", host);
  BSON_APPEND_INT32(&info, "port", (int32_t)strtol(colon + 1, NULL, 10));
  BSON_APPEND_UTF8(&info, "version", shardlet_version);
  BSON_APPEND_UTF8(&info, "gitVersion", shardlet_own_version);
  bson_append_document_end(out, &info);
}

static void append_connections(struct node *n, bson_t *reply) {
  size_t total, current = server_connections(n->server, &total);
  bson_t doc;
  BSON_APPEND_DOCUMENT_BEGIN(reply, "connections", &doc);
  BSON_APPEND_INT32(&doc, "current", (int32_t)current);
  BSON_APPEND_INT32(&doc, "available", LISTEN_LIMIT - (int32_t)current);
  BSON_APPEND_INT32(&doc, "totalCreated", (int32_t)total);
  BSON_APPEND_INT32(&doc, "active", (int32_t)loop_fibers(n->loop));
  bson_append_document_end(reply, &doc);
}

static void append_opcounters(struct node *n, bson_t *reply) {
  const struct opcounters *o = &n->own->ops;
  bson_t doc;
  BSON_APPEND_DOCUMENT_BEGIN(reply, "opcounters", &doc);
  BSON_APPEND_INT64(&doc, "insert", o->insert);
  BSON_APPEND_INT64(&doc, "query", o->query);
  BSON_APPEND_INT64(&doc, "update", o->update);
  BSON_APPEND_INT64(&doc, "delete", o->remove);
  BSON_APPEND_INT64(&doc, "getmore", o->getmore);
  BSON_APPEND_INT64(&doc, "command", o->command);
  bson_append_document_end(reply, &doc);
}

static void append_metrics(struct node *n, bson_t *reply) {
  bson_t metrics, part;
  BSON_APPEND_DOCUMENT_BEGIN(reply, "metrics", &metrics);
  BSON_APPEND_DOCUMENT_BEGIN(&metrics, "commands", &part);
  dispatcher_metrics(n->dispatcher, &part);
  bson_append_document_end(&metrics, &part);
  BSON_APPEND_DOCUMENT_BEGIN(&metrics, "cursor", &part);
  cursors_status(n, &part);
  bson_append_document_end(&metrics, &part);
  bson_append_document_end(reply, &metrics);
}

static void append_repl(struct node *n, bson_t *reply) {
  bson_t doc;
  BSON_APPEND_DOCUMENT_BEGIN(reply, "repl", &doc);
  repl_hello(n->repl, &doc);
  bson_append_document_end(reply, &doc);
}

// Pages of the process, from the kernel.
static void append_memory(bson_t *reply) {
  long size = 0, resident = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  if (f) {
    if (fscanf(f, "%ld %ld", &size, &resident) != 2) size = resident = 0;
    fclose(f);
  }
  long page = sysconf(_SC_PAGESIZE);
  bson_t doc;
  BSON_APPEND_DOCUMENT_BEGIN(reply, "mem", &doc);
  BSON_APPEND_INT32(&doc, "bits", 64);
  BSON_APPEND_INT32(&doc, "resident", (int32_t)(resident * page / (1024 * 1024)));
  BSON_APPEND_INT32(&doc, "virtual", (int32_t)(size * page / (1024 * 1024)));
  BSON_APPEND_BOOL(&doc, "supported", true);
  bson_append_document_end(reply, &doc);
}

static void append_storage_engine(bson_t *reply) {
  bson_t doc;
  BSON_APPEND_DOCUMENT_BEGIN(reply, "storageEngine", &doc);
  BSON_APPEND_UTF8(&doc, "name", "sqlite");
  BSON_APPEND_BOOL(&doc, "supportsCommittedReads", true);
  BSON_APPEND_BOOL(&doc, "persistent", true);
  BSON_APPEND_BOOL(&doc, "readOnly", false);
  bson_append_document_end(reply, &doc);
}

bool server_status_run(struct request *r, bson_t *reply, struct error *err) {
  struct node *n = request_node(r);
  int64_t up_ms = clock_mono_ms() - n->started_ms;
  BSON_APPEND_UTF8(reply, "host", n->host_port);
  BSON_APPEND_UTF8(reply, "version", shardlet_version);
  BSON_APPEND_UTF8(reply, "process", n->program);
  BSON_APPEND_INT64(reply, "pid", getpid());
  BSON_APPEND_DOUBLE(reply, "uptime", (double)(up_ms / 1000));
  BSON_APPEND_INT64(reply, "uptimeMillis", up_ms);
  BSON_APPEND_INT64(reply, "uptimeEstimate", up_ms / 1000);
  BSON_APPEND_DATE_TIME(reply, "localTime", clock_wall_ms());
  append_connections(n, reply);
  network_status_append(n->server, reply);
  append_opcounters(n, reply);
  if (repl_config(n->repl)) append_repl(n, reply);
  if (n->hooks.server_status) n->hooks.server_status(n->hooks.ctx, reply);
  append_storage_engine(reply);
  append_memory(reply);
  append_metrics(n, reply);
  return true;
}
