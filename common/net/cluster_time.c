// The logical clock that all messages carry.
#include "common/net/cluster_time.h"

#include "common/base/clock.h"
#include "common/bson/doc.h"

enum { MAX_DRIFT_SECONDS = 365 * 24 * 3600 }; // as MongoDB: a time further ahead is not believed

static uint64_t wall_seconds(void) {
  return (uint64_t)(clock_wall_ms() / 1000);
}

void cluster_clock_advance(struct cluster_clock *c, uint64_t ts) {
  if (ts > c->time && ts >> 32 <= wall_seconds() + MAX_DRIFT_SECONDS) c->time = ts;
}

void cluster_clock_read(struct cluster_clock *c, const bson_t *doc) {
  bson_t gossip;
  uint64_t ts;
  if (doc_doc(doc, "$clusterTime", &gossip) && doc_timestamp(&gossip, "clusterTime", &ts)) cluster_clock_advance(c, ts);
}

// Clients want a signature's shape; without keys it is all zero, as a MongoDB cluster without authentication sends it.
static void append_signature(bson_t *gossip) {
  static const uint8_t hash[20];
  bson_t signature;
  BSON_APPEND_DOCUMENT_BEGIN(gossip, "signature", &signature);
  BSON_APPEND_BINARY(&signature, "hash", BSON_SUBTYPE_BINARY, hash, sizeof hash);
  BSON_APPEND_INT64(&signature, "keyId", 0);
  bson_append_document_end(gossip, &signature);
}

void cluster_clock_append(const struct cluster_clock *c, bson_t *doc) {
  if (!c->time) return;
  bson_t gossip;
  BSON_APPEND_DOCUMENT_BEGIN(doc, "$clusterTime", &gossip);
  doc_append_ts(&gossip, "clusterTime", c->time);
  append_signature(&gossip);
  bson_append_document_end(doc, &gossip);
}

uint64_t cluster_clock_tick(struct cluster_clock *c) {
  uint64_t now = wall_seconds() << 32;
  c->time = c->time >= now ? c->time + 1 : now + 1;
  return c->time;
}
