// hello and isMaster of a router (reference/clients.md section 4).
//
// A router's answer never changes; its topologyVersion lets clients hold a stream, whose end tells them at once that it
// has gone.
#include "mongos/hello.h"

#include <string.h>

#include "common/base/clock.h"
#include "common/bson/doc.h"

enum { SESSION_TIMEOUT_MINUTES = 30 };

// Answers the compressors that both sides have, in the client's order; the first one is used from then on.
static void agree_on_compression(struct request *r, bson_t *reply) {
  bson_t offered, agreed;
  bson_iter_t it;
  enum compressor chosen = COMPRESSOR_NONE;
  uint32_t n = 0;
  if (!doc_doc(r->body, "compression", &offered) || !bson_iter_init(&it, &offered)) return;
  bson_init(&agreed);
  while (bson_iter_next(&it)) {
    enum compressor c = BSON_ITER_HOLDS_UTF8(&it) ? compressor_by_name(bson_iter_utf8(&it, NULL)) : COMPRESSOR_NONE;
    if (c == COMPRESSOR_NONE) continue;
    char text[16];
    const char *key;
    size_t len = bson_uint32_to_string(n++, &key, text, sizeof text);
    bson_append_utf8(&agreed, key, (int)len, bson_iter_utf8(&it, NULL), -1);
    if (chosen == COMPRESSOR_NONE) chosen = c;
  }
  if (chosen != COMPRESSOR_NONE) {
    bson_append_array(reply, "compression", -1, &agreed);
    if (r->conn != NULL) connection_set_compressor(r->conn, chosen);
  }
  bson_destroy(&agreed);
}

static bool answer(struct request *r, const char *primary_field, bson_t *reply, struct error *err) {
  struct topology *topology = &router_of(r)->topology;
  if (!topology_await(r, topology, err)) return false;
  bson_append_bool(reply, primary_field, -1, true);
  bson_append_utf8(reply, "msg", -1, "isdbgrid", -1);
  topology_append(topology, reply);
  if (doc_bool(r->body, "helloOk", false)) bson_append_bool(reply, "helloOk", -1, true);
  bson_append_int32(reply, "maxBsonObjectSize", -1, DOC_MAX_BYTES);
  bson_append_int32(reply, "maxMessageSizeBytes", -1, MESSAGE_MAX_BYTES);
  bson_append_int32(reply, "maxWriteBatchSize", -1, MESSAGE_MAX_STATEMENTS);
  bson_append_date_time(reply, "localTime", -1, clock_wall_ms());
  bson_append_int32(reply, "logicalSessionTimeoutMinutes", -1, SESSION_TIMEOUT_MINUTES);
  bson_append_int32(reply, "connectionId", -1, r->conn != NULL ? (int32_t)connection_id(r->conn) : 0);
  bson_append_int32(reply, "maxWireVersion", -1, WIRE_VERSION_MAX);
  bson_append_int32(reply, "minWireVersion", -1, WIRE_VERSION_MIN);
  bson_append_bool(reply, "readOnly", -1, false);
  agree_on_compression(r, reply);
  return true;
}

bool run_hello(struct request *r, bson_t *reply, struct error *err) {
  return answer(r, "isWritablePrimary", reply, err);
}

bool run_is_master(struct request *r, bson_t *reply, struct error *err) {
  return answer(r, "ismaster", reply, err);
}
