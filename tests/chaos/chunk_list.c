// Reading config.chunks. See chunk_list.h.
#include "tests/chaos/chunk_list.h"

#include <stdio.h>
#include <string.h>

#include "common/base/buf.h"
#include "tests/chaos/client.h"

static bool read_uuid(mongoc_client_t *c, const char *ns, bson_value_t *uuid, bson_error_t *why) {
  bson_t *filter = json("{'_id':'%s'}", ns), *opts = json("{'limit':1,'maxTimeMS':5000}");
  mongoc_collection_t *coll = mongoc_client_get_collection(c, "config", "collections");
  mongoc_cursor_t *cursor = mongoc_collection_find_with_opts(coll, filter, opts, NULL);
  const bson_t *doc;
  bson_iter_t it;
  bool found = mongoc_cursor_next(cursor, &doc) && bson_iter_init_find(&it, doc, "uuid");
  if (found) bson_value_copy(bson_iter_value(&it), uuid);
  if (!found && !mongoc_cursor_error(cursor, why)) (void)snprintf(why->message, sizeof why->message, "no %s", ns);
  mongoc_cursor_destroy(cursor);
  mongoc_collection_destroy(coll);
  bson_destroy(opts);
  bson_destroy(filter);
  return found;
}

static bson_t *child(const bson_t *doc, const char *name, int64_t *number, int64_t otherwise) {
  bson_iter_t it, value;
  uint32_t len = 0;
  const uint8_t *data = NULL;
  if (!bson_iter_init_find(&it, doc, name) || !BSON_ITER_HOLDS_DOCUMENT(&it)) return bson_new();
  bson_iter_document(&it, &len, &data);
  bson_t *copy = bson_new_from_data(data, len);
  *number = otherwise;
  if (bson_iter_init(&value, copy) && bson_iter_next(&value) && BSON_ITER_HOLDS_NUMBER(&value))
    *number = bson_iter_as_int64(&value);
  return copy;
}

static void add_chunk(struct chunk_list *l, const bson_t *doc) {
  bson_iter_t it;
  l->list = array_grow(l->list, &l->cap, (size_t)l->n + 1, sizeof *l->list);
  struct chunk *ch = &l->list[l->n++];
  ch->min = child(doc, "min", &ch->from, INT64_MIN);
  ch->max = child(doc, "max", &ch->to, INT64_MAX);
  if (bson_iter_init_find(&it, doc, "shard") && BSON_ITER_HOLDS_UTF8(&it))
    (void)snprintf(ch->shard, sizeof ch->shard, "%s", bson_iter_utf8(&it, NULL));
}

bool chunk_list_read(mongoc_client_t *router, const char *ns, struct chunk_list *out, bson_error_t *why) {
  bson_value_t uuid;
  *out = (struct chunk_list){0};
  if (!read_uuid(router, ns, &uuid, why)) return false;
  bson_t filter = BSON_INITIALIZER, *opts = json("{'sort':{'min':1},'maxTimeMS':5000}");
  BSON_APPEND_VALUE(&filter, "uuid", &uuid);
  mongoc_collection_t *coll = mongoc_client_get_collection(router, "config", "chunks");
  mongoc_cursor_t *cursor = mongoc_collection_find_with_opts(coll, &filter, opts, NULL);
  const bson_t *doc;
  while (mongoc_cursor_next(cursor, &doc)) add_chunk(out, doc);
  bool ok = !mongoc_cursor_error(cursor, why);
  mongoc_cursor_destroy(cursor);
  mongoc_collection_destroy(coll);
  bson_destroy(opts);
  bson_destroy(&filter);
  bson_value_destroy(&uuid);
  return ok;
}

void chunk_list_free(struct chunk_list *l) {
  for (int i = 0; i < l->n; i++) {
    bson_destroy(l->list[i].min);
    bson_destroy(l->list[i].max);
  }
  free(l->list);
  *l = (struct chunk_list){0};
}

const char *chunk_list_owner(const struct chunk_list *l, int64_t key) {
  for (int i = 0; i < l->n; i++)
    if (key >= l->list[i].from && (key < l->list[i].to || l->list[i].to == INT64_MAX)) return l->list[i].shard;
  return NULL;
}
