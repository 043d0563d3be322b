// The errors of single statements in a shard's reply.
#include "mongos/write_error.h"

#include <string.h>

#include "common/bson/doc.h"
#include "mongos/shard_call.h"

void write_error_parse(struct arena *a, const bson_t *entry, int64_t *index, struct error *err) {
  *index = doc_i64(entry, "index", -1);
  error_set(err, (int32_t)doc_i64(entry, "code", ERR_UnknownError), "%s", doc_str(entry, "errmsg", ""));
  bson_t extra = BSON_INITIALIZER;
  bson_iter_t it;
  for (bool more = bson_iter_init(&it, entry); more && bson_iter_next(&it);) {
    const char *name = bson_iter_key(&it);
    if (strcmp(name, "index") == 0 || strcmp(name, "code") == 0 || strcmp(name, "errmsg") == 0) continue;
    doc_append_iter(&extra, NULL, &it);
  }
  if (!bson_empty(&extra)) error_extra(err, a, &extra);
  bson_destroy(&extra);
  refuse_move(err);
}

bool write_error_first(struct arena *a, const bson_t *reply, struct error *err) {
  bson_t list, entry;
  bson_iter_t it;
  int64_t index;
  if (!doc_doc(reply, "writeErrors", &list) || !bson_iter_init(&it, &list) || !bson_iter_next(&it)) return false;
  iter_doc(&entry, &it);
  write_error_parse(a, &entry, &index, err);
  return true;
}
