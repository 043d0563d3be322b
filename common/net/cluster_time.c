// The logical clock that all messages carry.
#include "common/net/cluster_time.h"

#include <endian.h>
#include <stddef.h>

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

// {clusterTime: Timestamp, signature: {hash: BinData, keyId: Long}} as it stands in a message. Clients want a
// signature's shape; without keys it is all zero, as a MongoDB cluster without authentication sends it. Every message
// has one, so it is not put together field by field.
struct gossip {
  uint32_t len;
  uint8_t time_type;
  char time_name[12];
  uint64_t time;
  uint8_t signature_type;
  char signature_name[10];
  uint32_t signature_len;
  uint8_t hash_type;
  char hash_name[5];
  uint32_t hash_len;
  uint8_t hash_subtype, hash[20];
  uint8_t key_type;
  char key_name[6];
  int64_t key;
  uint8_t signature_end, end;
} __attribute__((packed));

void cluster_clock_append(const struct cluster_clock *c, bson_t *doc) {
  if (!c->time) return;
  struct gossip g = {
      .len = htole32(sizeof g),
      .time_type = BSON_TYPE_TIMESTAMP,
      .time_name = "clusterTime",
      .time = htole64(c->time),
      .signature_type = BSON_TYPE_DOCUMENT,
      .signature_name = "signature",
      .signature_len = htole32(offsetof(struct gossip, end) - offsetof(struct gossip, signature_len)),
      .hash_type = BSON_TYPE_BINARY,
      .hash_name = "hash",
      .hash_len = htole32(sizeof g.hash),
      .hash_subtype = BSON_SUBTYPE_BINARY,
      .key_type = BSON_TYPE_INT64,
      .key_name = "keyId",
  };
  bson_t view;
  doc_view(&view, (const uint8_t *)&g, sizeof g);
  BSON_APPEND_DOCUMENT(doc, "$clusterTime", &view);
}

uint64_t cluster_clock_tick(struct cluster_clock *c) {
  uint64_t now = wall_seconds() << 32;
  c->time = c->time >= now ? c->time + 1 : now + 1;
  return c->time;
}
