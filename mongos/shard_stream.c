// The documents of one shard's cursor: the batch that is here, and the cursor from which more can be fetched.
#include "mongos/shard_stream.h"

#include <stdlib.h>
#include <string.h>

#include "common/bson/doc.h"
#include "mongos/shard_call.h"

// A killCursors that is not answered within this is given up.
enum { KILL_TIMEOUT_MS = 5000 };

static void take_first(struct shard_stream *s) {
  bson_t array;
  doc_view(&array, s->batch.data, s->batch.len);
  s->has = false;
  if (bson_iter_init(&s->at, &array)) stream_advance(s);
}

void stream_advance(struct shard_stream *s) {
  s->has = bson_iter_next(&s->at) && BSON_ITER_HOLDS_DOCUMENT(&s->at);
  if (s->has) iter_doc(&s->doc, &s->at);
}

static bool no_cursor(const char *what, struct error *err) {
  return error_set(err, ERR_CommandResultSchemaViolation, "a shard's reply has no %s", what);
}

bool stream_load(struct shard_stream *s, struct arena *a, const bson_t *reply, struct error *err) {
  bson_t cursor, batch;
  bson_iter_t id;
  if (!doc_doc(reply, "cursor", &cursor)) return no_cursor("cursor", err);
  if (!doc_doc(&cursor, "firstBatch", &batch) && !doc_doc(&cursor, "nextBatch", &batch)) {
    return no_cursor("cursor.firstBatch", err);
  }
  if (!doc_get(&cursor, "id", &id) || !iter_is_number(&id)) return no_cursor("cursor.id", err);
  s->id = iter_i64(&id);
  const char *ns = doc_str(&cursor, "ns", NULL), *dot = ns != NULL ? strchr(ns, '.') : NULL;
  if (s->db == NULL) {
    if (dot == NULL) return no_cursor("cursor.ns", err);
    s->db = arena_strndup(a, ns, (size_t)(dot - ns));
    s->collection = arena_strdup(a, dot + 1);
  }
  buf_clear(&s->batch);
  buf_add(&s->batch, bson_get_data(&batch), batch.len);
  take_first(s);
  return true;
}

void stream_load_documents(struct shard_stream *s, const bson_t *const *docs, size_t n) {
  bson_t array = BSON_INITIALIZER;
  for (size_t i = 0; i < n; i++) {
    char text[16];
    const char *key;
    size_t len = bson_uint32_to_string((uint32_t)i, &key, text, sizeof text);
    bson_append_document(&array, key, (int)len, docs[i]);
  }
  buf_clear(&s->batch);
  buf_add(&s->batch, bson_get_data(&array), array.len);
  bson_destroy(&array);
  s->id = 0;
  take_first(s);
}

bool stream_fetch(struct operation *op, struct router *rt, struct shard_stream *s, const struct stream_session *session,
                  int64_t batch_size, struct arena *a, struct error *err) {
  bson_t *body = arena_bson(op->arena);
  bson_append_int64(body, "getMore", -1, s->id);
  bson_append_utf8(body, "collection", -1, s->collection, -1);
  if (batch_size > 0) bson_append_int64(body, "batchSize", -1, batch_size);
  if (session->lsid != NULL) bson_append_document(body, "lsid", -1, session->lsid);
  if (session->read_preference != NULL) bson_append_document(body, "$readPreference", -1, session->read_preference);
  struct remote_command cmd = {.db = s->db, .body = body};
  const bson_t *reply;
  if (!remote_call(op, rt->remotes, s->host, &cmd, &reply, err)) {
    if (stale_is(err)) err->code = ERR_QueryPlanKilled; // a getMore cannot be routed anew
    call_error_for_client(err, s->shard);
    return false;
  }
  return stream_load(s, a, reply, err);
}

void stream_free(struct shard_stream *s) {
  buf_free(&s->batch);
  buf_free(&s->key);
}

// --- ending a shard's cursor ---

struct kill_job {
  struct router *rt;
  char *host, *db, *collection;
  int64_t id;
  bson_t *lsid;
};

static void kill_run(struct operation *op, void *arg) {
  struct kill_job *j = arg;
  op_deadline_in(op, KILL_TIMEOUT_MS, ERR_NetworkTimeout);
  bson_t *body = arena_bson(op->arena);
  bson_append_utf8(body, "killCursors", -1, j->collection, -1);
  bson_t cursors;
  bson_append_array_begin(body, "cursors", -1, &cursors);
  bson_append_int64(&cursors, "0", 1, j->id);
  bson_append_array_end(body, &cursors);
  if (j->lsid != NULL) bson_append_document(body, "lsid", -1, j->lsid);
  struct remote_command cmd = {.db = j->db, .body = body};
  const bson_t *reply;
  struct error ignored;
  remote_call(op, j->rt->remotes, j->host, &cmd, &reply, &ignored);
  free(j->host);
  free(j->db);
  free(j->collection);
  if (j->lsid != NULL) bson_destroy(j->lsid);
  free(j);
}

void shard_cursor_kill(struct router *rt, const char *host, const char *db, const char *collection, int64_t id,
                       const bson_t *lsid) {
  if (id == 0 || rt->stopping) return;
  struct kill_job *j = calloc(1, sizeof *j);
  if (j == NULL) abort();
  *j = (struct kill_job){.rt = rt,
                         .host = strdup(host),
                         .db = strdup(db),
                         .collection = strdup(collection),
                         .id = id,
                         .lsid = lsid != NULL ? bson_copy(lsid) : NULL};
  operation_start(rt->loop, "kill shard cursor", kill_run, j);
}
