// The command that makes a donor move a range.
#include "configsvr/move_request.h"

#include "common/bson/doc.h"
#include "common/net/command.h"

const bson_t *move_request_command(struct arena *a, const struct move_request *m) {
  bson_t *body = arena_bson(a);
  bson_append_utf8(body, "_shardsvrMoveRange", -1, m->collection->ns, -1);
  bson_append_utf8(body, "toShard", -1, m->to, -1);
  if (m->min) bson_append_document(body, "min", -1, m->min);
  if (m->max) bson_append_document(body, "max", -1, m->max);
  bson_append_bool(body, "waitForDelete", -1, m->wait_for_delete);
  bson_append_oid(body, "epoch", -1, &m->collection->epoch);
  doc_append_ts(body, "collectionTimestamp", m->collection->timestamp);
  bson_append_utf8(body, "fromShard", -1, m->from, -1);
  bson_append_int64(body, "maxChunkSizeBytes", -1, m->chunk_bytes);
  bson_append_int32(body, "forceJumbo", -1, m->force_jumbo);
  if (m->has_secondary_throttle) bson_append_bool(body, "secondaryThrottle", -1, m->secondary_throttle);
  append_majority(body);
  return body;
}
