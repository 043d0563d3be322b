// The hello command (isMaster, ismaster): who this member is, as drivers and monitors ask.
//
// Its topologyVersion changes whenever what it says about the set does: role, primary, configuration. That is compared
// every 100 ms, at every change of role and at every hello, so the version that is answered fits what is answered.
#include "common/node/commands.h"

#include <string.h>

#include "common/base/clock.h"
#include "common/bson/doc.h"
#include "common/node/internal.h"

enum { MAX_WIRE_VERSION = 25, SESSION_TIMEOUT_MINUTES = 30, CONFIG_SERVER_MODE = 2 };

// The compressors that both sides have, in the client's order; the first one is used for replies.
static void negotiate_compression(struct request *r, bson_t *reply) {
  bson_iter_t it, name;
  if (!doc_get(r->body, "compression", &it) || !BSON_ITER_HOLDS_ARRAY(&it)) return;
  bson_t *common = arena_bson(r->op->arena);
  uint32_t n = 0;
  bson_iter_recurse(&it, &name);
  while (bson_iter_next(&name)) {
    if (!BSON_ITER_HOLDS_UTF8(&name)) continue;
    enum compressor c = compressor_by_name(bson_iter_utf8(&name, NULL));
    if (c == COMPRESSOR_NONE) continue;
    if (n == 0 && r->conn) connection_set_compressor(r->conn, c);
    char text[16];
    const char *key;
    bson_uint32_to_string(n++, &key, text, sizeof text);
    BSON_APPEND_UTF8(common, key, bson_iter_utf8(&name, NULL));
  }
  if (n) BSON_APPEND_ARRAY(reply, "compression", common);
}

// A client that speaks the old command reads `ismaster`.
static void append_old_name(const struct request *r, bson_t *reply) {
  if (!strcmp(r->name, "hello") || doc_has(reply, "ismaster")) return;
  BSON_APPEND_BOOL(reply, "ismaster", doc_bool(reply, "isWritablePrimary", false));
}

void node_topology_check(struct node *n) {
  if (!n->repl) return; // it is starting
  bson_t now = BSON_INITIALIZER, *kept = n->own->hello;
  bson_t all = BSON_INITIALIZER;
  repl_hello(n->repl, &all);
  bson_copy_to_excluding_noinit(&all, &now, "lastWrite", NULL);
  bson_destroy(&all);
  if (kept && bson_equal(kept, &now)) {
    bson_destroy(&now);
    return;
  }
  bson_destroy(kept);
  n->own->hello = bson_copy(&now);
  bson_destroy(&now);
  topology_bump(&n->own->topology);
}

bool hello_run(struct request *r, bson_t *reply, struct error *err) {
  struct node *n = request_node(r);
  node_topology_check(n);
  if (!topology_await(r, &n->own->topology, err)) return false;
  node_topology_check(n);
  repl_hello(n->repl, reply);
  topology_append(&n->own->topology, reply);
  append_old_name(r, reply);
  if (!strcmp(n->program, "configsvr")) BSON_APPEND_INT32(reply, "configsvr", CONFIG_SERVER_MODE);
  if (doc_bool(r->body, "helloOk", false)) BSON_APPEND_BOOL(reply, "helloOk", true);
  BSON_APPEND_INT32(reply, "maxBsonObjectSize", DOC_MAX_BYTES);
  BSON_APPEND_INT32(reply, "maxMessageSizeBytes", MESSAGE_MAX_BYTES);
  BSON_APPEND_INT32(reply, "maxWriteBatchSize", MESSAGE_MAX_STATEMENTS);
  BSON_APPEND_DATE_TIME(reply, "localTime", clock_wall_ms());
  BSON_APPEND_INT32(reply, "logicalSessionTimeoutMinutes", SESSION_TIMEOUT_MINUTES);
  if (r->conn) BSON_APPEND_INT32(reply, "connectionId", (int32_t)(connection_id(r->conn) & INT32_MAX));
  BSON_APPEND_INT32(reply, "minWireVersion", 0);
  BSON_APPEND_INT32(reply, "maxWireVersion", MAX_WIRE_VERSION);
  BSON_APPEND_BOOL(reply, "readOnly", false);
  negotiate_compression(r, reply);
  return true;
}
