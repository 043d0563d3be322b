// Counts how collections and indexes are used, and how long it takes: for $collStats and $indexStats.
#include <stdlib.h>
#include <string.h>

#include "common/base/map.h"
#include "common/bson/doc.h"
#include "common/node/internal.h"

enum { KINDS = 3 };

struct usage {
  int64_t ops[KINDS], micros[KINDS];
};

struct index_usage_key {
  uint8_t uuid[16];
  uint32_t index_id;
};

static struct usage *usage_of(struct node *n, const uint8_t uuid[16], bool make) {
  struct usage *u = map_get(n->own->usage, uuid, 16);
  if (!u && make) {
    u = calloc(1, sizeof *u);
    map_put(n->own->usage, uuid, 16, u);
  }
  return u;
}

void usage_count(struct node *n, const uint8_t uuid[16], enum usage_kind kind, int64_t micros) {
  struct usage *u = usage_of(n, uuid, true);
  u->ops[kind]++;
  u->micros[kind] += micros;
}

// An index's own count is kept in the same map, under the longer key.
static struct usage *index_usage_of(struct node *n, const uint8_t uuid[16], uint32_t index_id, bool make) {
  struct index_usage_key key;
  memset(&key, 0, sizeof key);
  memcpy(key.uuid, uuid, sizeof key.uuid);
  key.index_id = index_id;
  struct usage *u = map_get(n->own->usage, &key, sizeof key);
  if (!u && make) {
    u = calloc(1, sizeof *u);
    map_put(n->own->usage, &key, sizeof key, u);
  }
  return u;
}

void usage_count_index(struct node *n, const uint8_t uuid[16], uint32_t index_id) {
  index_usage_of(n, uuid, index_id, true)->ops[USAGE_READ]++;
}

int64_t usage_index_ops(struct node *n, const uint8_t uuid[16], uint32_t index_id) {
  const struct usage *u = index_usage_of(n, uuid, index_id, false);
  return u ? u->ops[USAGE_READ] : 0;
}

void usage_latency_stats(struct node *n, const uint8_t uuid[16], bson_t *out) {
  static const char *const names[] = {"reads", "writes", "commands", "transactions"};
  const struct usage *u = usage_of(n, uuid, false);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    bson_t child;
    BSON_APPEND_DOCUMENT_BEGIN(out, names[i], &child);
    BSON_APPEND_INT64(&child, "latency", u && i < KINDS ? u->micros[i] : 0);
    BSON_APPEND_INT64(&child, "ops", u && i < KINDS ? u->ops[i] : 0);
    BSON_APPEND_INT64(&child, "queryableEncryptionLatencyMicros", 0);
    bson_append_document_end(out, &child);
  }
}

void usage_free(struct node *n) {
  map_free(n->own->usage, free);
  n->own->usage = NULL;
}
