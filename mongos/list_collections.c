// listCollections: the database's primary shard knows them; tracked ones that live elsewhere only are added.
#include "mongos/list_collections.h"

#include <string.h>

#include "common/bson/doc.h"
#include "mongos/forward.h"
#include "mongos/read_find.h"
#include "mongos/router_cursor.h"

struct list_job {
  struct request *r;
  bson_t *reply;
  const struct match *filter; // NULL = none
  bool name_only;
};

// {_id: {$gt: "db.", $lt: "db/"}}: '/' follows '.'.
static bson_t *in_database(struct arena *a, const char *db) {
  bson_t *filter = arena_bson(a), range;
  bson_append_document_begin(filter, "_id", -1, &range);
  bson_append_utf8(&range, "$gt", -1, arena_printf(a, "%s.", db), -1);
  bson_append_utf8(&range, "$lt", -1, arena_printf(a, "%s/", db), -1);
  bson_append_document_end(filter, &range);
  return filter;
}

static const bson_t *as_entry(struct arena *a, const bson_t *tracked, const char *name, bool name_only) {
  bson_t *entry = arena_bson(a), part, key;
  uint8_t uuid[16];
  bson_append_utf8(entry, "name", -1, name, -1);
  bson_append_utf8(entry, "type", -1, "collection", -1);
  if (name_only) return entry;
  bson_append_document_begin(entry, "options", -1, &part);
  bson_append_document_end(entry, &part);
  bson_append_document_begin(entry, "info", -1, &part);
  bson_append_bool(&part, "readOnly", -1, false);
  if (doc_uuid(tracked, "uuid", uuid)) doc_append_uuid(&part, "uuid", uuid);
  bson_append_document_end(entry, &part);
  bson_append_document_begin(entry, "idIndex", -1, &part);
  bson_append_int32(&part, "v", -1, 2);
  bson_append_document_begin(&part, "key", -1, &key);
  bson_append_int32(&key, "_id", -1, 1);
  bson_append_document_end(&part, &key);
  bson_append_utf8(&part, "name", -1, "_id_", -1);
  bson_append_document_end(entry, &part);
  return entry;
}

static bool listed(const bson_t *batch, const char *name) {
  bson_iter_t it;
  for (bool more = bson_iter_init(&it, batch); more && bson_iter_next(&it);) {
    bson_t entry;
    iter_doc(&entry, &it);
    if (strcmp(doc_str(&entry, "name", ""), name) == 0) return true;
  }
  return false;
}

// What the catalog tracks in this database and the primary shard did not list.
static bool add_tracked(struct list_job *j, struct operation *op, struct router *rt, const struct placement *p,
                        const bson_t *batch, struct router_cursor *c, struct error *err) {
  const bson_t **tracked;
  size_t n, n_more = 0;
  if (!catalog_find(op, rt->config, "collections", in_database(op->arena, p->db), NULL, 0, &tracked, &n, err)) {
    return false;
  }
  const bson_t **more = arena_alloc(op->arena, (n + 1) * sizeof *more);
  for (size_t i = 0; i < n; i++) {
    const char *name = doc_str(tracked[i], "_id", "") + strlen(p->db) + 1;
    if (listed(batch, name)) continue;
    if (j->filter != NULL && !match_doc(j->filter, as_entry(op->arena, tracked[i], name, false))) continue;
    more[n_more++] = as_entry(op->arena, tracked[i], name, j->name_only);
  }
  cursor_add_documents(c, more, n_more);
  return true;
}

static bool list_attempt(struct operation *op, struct router *rt, const struct placement *p, void *ctx,
                         struct error *err) {
  struct list_job *j = ctx;
  struct request *r = j->r;
  const char *ns = arena_printf(op->arena, "%s.$cmd.listCollections", p->db);
  if (p->kind == PLACE_NOWHERE) {
    reply_empty_cursor(j->reply, ns, false);
    return true;
  }
  struct shard_call call = {.body = forward_body(r, NULL)};
  call.target = p->kind == PLACE_CONFIG ? target_config() : target_database(p);
  shard_call_run(r, op, &call, CALL_READ);
  if (!shard_calls_ok(rt, p, &call, 1, err)) return false;
  bson_t cursor, batch, options;
  bool complete = doc_doc(call.reply, "cursor", &cursor) && doc_doc(&cursor, "firstBatch", &batch) &&
                  doc_i64(&cursor, "id", 0) == 0;
  if (p->kind == PLACE_CONFIG || !complete) return cursor_reply_direct(r, &call, ns, false, j->reply, err);
  struct router_cursor *c = cursor_new(rt, r, ns);
  if (!cursor_add_shard(c, call.target.shard, call.host, call.reply, err) ||
      !add_tracked(j, op, rt, p, &batch, c, err)) {
    cursor_discard(c);
    return false;
  }
  int64_t batch_size = doc_doc(r->body, "cursor", &options) ? doc_i64(&options, "batchSize", INT64_MAX) : INT64_MAX;
  return cursor_reply(op, c, true, batch_size, false, j->reply, err);
}

bool run_list_collections(struct request *r, bson_t *reply, struct error *err) {
  struct list_job j = {.r = r, .reply = reply, .name_only = doc_bool(r->body, "nameOnly", false)};
  bson_t filter;
  struct match_options options = {0};
  if (doc_doc(r->body, "filter", &filter) && !bson_empty(&filter) &&
      (j.filter = match_parse(r->op->arena, &filter, &options, err)) == NULL) {
    return false;
  }
  return routed_run_database(r->op, router_of(r), r->db, "listCollections", false, list_attempt, &j, err);
}
