// Bodies on their way to a shard or a config server, and replies on their way back.
#include "mongos/forward.h"

#include <string.h>

#include "common/bson/doc.h"

// Milliseconds a metadata change may wait for its majority at least.
enum { MAJORITY_WTIMEOUT_MS = 60000 };

static bool in_list(const char *const *list, const char *name) {
  if (list == NULL) return false;
  for (; *list != NULL; list++) {
    if (strcmp(*list, name) == 0) return true;
  }
  return false;
}

// Fields of the envelope that are renewed on every hop.
static bool belongs_to_hop(const char *name) {
  if (name[0] == '$') return strcmp(name, "$readPreference") != 0;
  return strcmp(name, "shardVersion") == 0 || strcmp(name, "databaseVersion") == 0;
}

void forward_fields(bson_t *to, const bson_t *body, const char *const *drop) {
  bson_iter_t it;
  if (!bson_iter_init(&it, body)) return;
  while (bson_iter_next(&it)) {
    const char *name = bson_iter_key(&it);
    if (belongs_to_hop(name) || in_list(drop, name)) continue;
    doc_append_iter(to, NULL, &it);
  }
}

bson_t *forward_body(const struct request *r, const char *const *drop) {
  bson_t *body = arena_bson(r->op->arena);
  forward_fields(body, r->body, drop);
  return body;
}

bson_t *forward_renamed(const struct request *r, const char *name, const bson_value_t *value, const char *const *drop) {
  bson_t *body = arena_bson(r->op->arena);
  bson_iter_t first = r->first;
  doc_append_value(body, name, value != NULL ? value : bson_iter_value(&first));
  bson_iter_t it;
  if (!bson_iter_init(&it, r->body) || !bson_iter_next(&it)) return body;
  while (bson_iter_next(&it)) {
    const char *field = bson_iter_key(&it);
    if (belongs_to_hop(field) || in_list(drop, field)) continue;
    doc_append_iter(body, NULL, &it);
  }
  return body;
}

void forward_reply(bson_t *to, const bson_t *reply) {
  bson_iter_t it;
  if (!bson_iter_init(&it, reply)) return;
  while (bson_iter_next(&it)) {
    const char *name = bson_iter_key(&it);
    if (name[0] == '$' || strcmp(name, "ok") == 0 || strcmp(name, "operationTime") == 0 ||
        strcmp(name, "electionId") == 0 || strcmp(name, "opTime") == 0) {
      continue;
    }
    doc_append_iter(to, NULL, &it);
  }
}

void note_operation_time(struct request *r, const bson_t *reply) {
  uint64_t ts;
  if (doc_timestamp(reply, "operationTime", &ts) && ts > r->operation_time) r->operation_time = ts;
}

void append_majority_concern(bson_t *to, const struct request *r) {
  int64_t wtimeout = r->has_write_concern ? doc_i64(&r->write_concern, "wtimeout", 0) : 0;
  bson_t concern;
  bson_append_document_begin(to, "writeConcern", -1, &concern);
  bson_append_utf8(&concern, "w", -1, "majority", -1);
  bson_append_int64(&concern, "wtimeout", -1, wtimeout > MAJORITY_WTIMEOUT_MS ? wtimeout : MAJORITY_WTIMEOUT_MS);
  bson_append_document_end(to, &concern);
}
