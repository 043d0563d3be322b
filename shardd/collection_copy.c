// Copying an unsharded collection from another shard, while its writes wait there: documents, then the records of
// retryable writes, so that a statement that is sent again is answered as it was.
#include <string.h>

#include "common/bson/doc.h"
#include "shardd/local_collection.h"
#include "shardd/peer.h"
#include "shardd/session_records.h"

enum { COPY_BATCH = 1000 }; // documents

struct copy {
  struct shard *sh;
  struct collection *c; // referenced
  const char *from;
  const uint8_t *source; // its UUID there
  int64_t cursor;        // of the documents, 0 = not begun, or over
  struct record_place after;
};

// The namespace's lock, and the collection as it is under it.
static bool begin_batch(struct operation *op, struct copy *x, struct write *w, struct error *err) {
  if (!write_admit(op, x->sh->node.repl, err)) return false;
  while (!write_lock_namespace(w, x->c->ns, false))
    if (!write_wait(op, w, err)) return false;
  if (!x->c->dropped && x->c->n_intervals) return true;
  return error_set(err, ERR_NamespaceNotFound, "Collection %s was dropped while it was copied", x->c->ns);
}

static bool put_batch(struct operation *op, struct copy *x, const bson_t *batch, struct error *err) {
  struct write *w = write_begin(op, x->sh->node.repl);
  bson_iter_t it;
  if (!begin_batch(op, x, w, err)) return false;
  uint32_t file = x->c->intervals[0].file; // an unsharded collection has one
  bson_iter_init(&it, batch);
  while (bson_iter_next(&it)) {
    bson_t doc;
    iter_doc(&doc, &it);
    change_put(write_changes(w), x->c, file, collection_next_rid(x->c), &doc);
  }
  return write_commit(op, w, err);
}

// --- documents ---

// One find or getMore on the source; its documents are written here. The first one waits for a barrier: then the source
// is the primary that holds the section, and what it has does not change any more.
static bool copy_documents(struct operation *op, void *copy, bool *more, struct error *err) {
  struct copy *x = copy;
  bson_t *cmd = arena_bson(op->arena), cursor, batch, concern;
  const bson_t *reply;
  bool first = x->cursor == 0;
  if (first) {
    BSON_APPEND_UTF8(cmd, "find", x->c->name);
    BSON_APPEND_DOCUMENT_BEGIN(cmd, "readConcern", &concern);
    BSON_APPEND_UTF8(&concern, "level", "majority");
    bson_append_document_end(cmd, &concern);
  } else {
    BSON_APPEND_INT64(cmd, "getMore", x->cursor);
    BSON_APPEND_UTF8(cmd, "collection", x->c->name);
  }
  BSON_APPEND_INT32(cmd, "batchSize", COPY_BATCH);
  if (!peer_call(op, x->sh, x->from, x->c->db, cmd, PEER_TIMEOUT_MS, false, &reply, err)) return false;
  if (!doc_doc(reply, "cursor", &cursor) || !doc_doc(&cursor, first ? "firstBatch" : "nextBatch", &batch))
    return error_set(err, ERR_NoSuchKey, "The source answered no cursor");
  x->cursor = doc_i64(&cursor, "id", 0);
  *more = x->cursor != 0;
  return put_batch(op, x, &batch, err);
}

// --- records of retryable writes ---

static bool put_records(struct operation *op, struct copy *x, const bson_t *records, struct error *err) {
  struct write *w = write_begin(op, x->sh->node.repl);
  bson_iter_t it;
  if (!begin_batch(op, x, w, err)) return false;
  bson_iter_init(&it, records);
  while (bson_iter_next(&it)) {
    bson_t record;
    iter_doc(&record, &it);
    session_record_add(w, x->c, &record);
    record_place_of(&record, &x->after);
  }
  return write_commit(op, w, err);
}

static bool copy_records(struct operation *op, void *copy, bool *more, struct error *err) {
  struct copy *x = copy;
  bson_t *cmd = arena_bson(op->arena), records;
  const bson_t *reply;
  BSON_APPEND_UTF8(cmd, "_shardsvrCollectionSessions", x->c->ns);
  doc_append_uuid(cmd, "uuid", x->source);
  if (x->after.given) record_place_append(cmd, "after", &x->after);
  if (!peer_call(op, x->sh, x->from, "admin", cmd, PEER_TIMEOUT_MS, true, &reply, err)) return false;
  if (!doc_doc(reply, "oplog", &records)) return error_set(err, ERR_NoSuchKey, "The source answered no records");
  *more = doc_bool(reply, "more", false);
  return put_records(op, x, &records, err);
}

// The source's side, in its critical section.
static bool collection_sessions(struct request *r, bson_t *reply, struct error *err) {
  struct shard *sh = shard_of(r);
  struct record_place after = {0};
  uint8_t uuid[16];
  if (!doc_uuid(r->body, "uuid", uuid)) return error_set(err, ERR_NoSuchKey, "Missing required field 'uuid'");
  if (!record_place_parse(r->body, "after", &after, err) || !repl_barrier(r->op, sh->node.repl, err)) return false;
  const struct collection *c = store_collection_by_uuid(sh->node.store, uuid);
  if (!c) return error_set(err, ERR_NamespaceNotFound, "The collection to be moved was dropped");
  session_records_page(r->op->arena, sh->node.store, c, &after, reply);
  return true;
}

// --- the whole ---

static bool ask_source(struct operation *op, struct shard *sh, const char *ns, const char *from,
                       const uint8_t source[16], struct collection_plan *plan, struct error *err) {
  bson_t *cmd = arena_bson(op->arena);
  const bson_t *info;
  BSON_APPEND_UTF8(cmd, "_shardsvrCollectionInfo", ns);
  if (!peer_call(op, sh, from, "admin", cmd, PEER_TIMEOUT_MS, true, &info, err) ||
      !collection_plan_parse(op->arena, ns, info, plan, err))
    return false;
  if (memcmp(plan->uuid, source, 16) == 0) return true;
  return error_set(err, ERR_CollectionUUIDMismatch, "Collection UUID does not match that specified");
}

// A copy that an earlier try left is dropped first, and whatever else has the name here.
static bool clone_collection(struct request *r, bson_t *reply, struct error *err) {
  struct shard *sh = shard_of(r);
  struct collection_plan plan;
  const char *from;
  uint8_t uuid[16], source[16];
  if (!r->coll) return error_set(err, ERR_InvalidNamespace, "Invalid namespace specified");
  if (!doc_uuid(r->body, "uuid", uuid) || !doc_uuid(r->body, "sourceUuid", source))
    return error_set(err, ERR_NoSuchKey, "Missing required field 'uuid' or 'sourceUuid'");
  if (!request_required_str(r, "fromShard", &from, err) || !ask_source(r->op, sh, r->coll, from, source, &plan, err) ||
      !local_collection_drop(r->op, sh, r->coll, NULL, err))
    return false;
  memcpy(plan.uuid, uuid, 16);
  plan.shard_key = arena_bson(r->op->arena);
  if (!local_collection_ensure(r->op, sh, &plan, err)) return false;
  struct collection *c = store_collection_by_uuid(sh->node.store, uuid);
  if (!c) return error_set(err, ERR_NamespaceNotFound, "Collection %s was dropped while it was copied", r->coll);
  struct copy x = {.sh = sh, .c = collection_ref(c), .from = from, .source = source};
  bool ok = op_in_batches(r->op, copy_documents, &x, err) && op_in_batches(r->op, copy_records, &x, err);
  collection_unref(c);
  return ok;
}

const struct command shardd_collection_copy_commands[] = {
    {"_shardsvrCloneCollection", NULL, CMD_WRITE | CMD_ADMIN_ONLY | CMD_INTERNAL, clone_collection,
     "Copies a collection from another shard."},
    {"_shardsvrCollectionSessions", NULL, CMD_WRITE | CMD_ADMIN_ONLY | CMD_INTERNAL, collection_sessions,
     "Records of retryable writes of a collection."},
    {0},
};
