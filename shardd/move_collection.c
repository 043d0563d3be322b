// moveCollection: an unsharded collection goes to another shard, as a new collection (UUID, epoch and timestamp are
// new).
//
// Led by the database's primary shard:
//   1 {coordinator document, phase "cloning"}
//   2 the source blocks writes, the target everything
//   3 the target copies all documents
//   4 {phase "committing"}; the source blocks reads, too
//   5 config commit: the new UUID takes the name, with one chunk on the target
//   6 the source drops the old collection; both let requests in again
//   7 {coordinator document removed}
// A failure before step 4 takes everything back: no commit can be on its way. After it the operation only goes forward.
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/bson/doc.h"
#include "shardd/bson_array.h"
#include "shardd/ddl_coordinator.h"
#include "shardd/local_collection.h"
#include "shardd/migration_documents.h"
#include "shardd/peer.h"

#define MOVE "moveCollection"

enum {
  CLONE_TIMEOUT_MS = 6 * 60 * 60 * 1000,
  CLONE_BATCH = 1000, // documents
};

struct move {
  const char *ns, *from, *to;
  uint8_t old_uuid[16], new_uuid[16];
  const char *owner;
};

static const bson_t *move_document(struct arena *a, const struct move *m, const char *phase) {
  bson_t *doc = ddl_document(a, m->ns, MOVE);
  BSON_APPEND_UTF8(doc, "phase", phase);
  BSON_APPEND_UTF8(doc, "fromShard", m->from);
  BSON_APPEND_UTF8(doc, "toShard", m->to);
  doc_append_uuid(doc, "oldUuid", m->old_uuid);
  doc_append_uuid(doc, "newUuid", m->new_uuid);
  return doc;
}

static bool block_one(struct operation *op, struct shard *sh, const char *shard, const struct move *m, const char *type,
                      struct error *err) {
  bson_t *cmd = arena_bson(op->arena);
  BSON_APPEND_UTF8(cmd, "_shardsvrParticipantBlock", m->ns);
  BSON_APPEND_UTF8(cmd, "blockType", type);
  BSON_APPEND_UTF8(cmd, "reason", m->owner);
  append_majority(cmd);
  return ddl_call(op, sh, &(struct shard_list){.names = &shard, .n = 1}, cmd, err);
}

static bool drop_on(struct operation *op, struct shard *sh, const char *shard, const struct move *m,
                    const uint8_t uuid[16], struct error *err) {
  bson_t *cmd = arena_bson(op->arena);
  BSON_APPEND_UTF8(cmd, "_shardsvrDropCollectionParticipant", m->ns);
  doc_append_uuid(cmd, "uuid", uuid);
  append_majority(cmd);
  return ddl_call(op, sh, &(struct shard_list){.names = &shard, .n = 1}, cmd, err);
}

// --- steps 2 and 3 ---

static bool clone_on_target(struct operation *op, struct shard *sh, const struct move *m, struct error *err) {
  bson_t *cmd = arena_bson(op->arena);
  BSON_APPEND_UTF8(cmd, "_shardsvrCloneCollection", m->ns);
  doc_append_uuid(cmd, "uuid", m->new_uuid);
  BSON_APPEND_UTF8(cmd, "fromShard", m->from);
  doc_append_uuid(cmd, "sourceUuid", m->old_uuid);
  append_majority(cmd);
  return peer_call(op, sh, m->to, "admin", cmd, CLONE_TIMEOUT_MS, false, NULL, err) ||
         error_prefix(err, "Failed to copy %s to shard %s", m->ns, m->to);
}

static bool copy(struct operation *op, struct shard *sh, const struct move *m, struct error *err) {
  return block_one(op, sh, m->to, m, "ReadsAndWrites", err) && block_one(op, sh, m->from, m, "Writes", err) &&
         clone_on_target(op, sh, m, err);
}

static bool take_back(struct operation *op, struct shard *sh, const struct move *m, struct error *err) {
  return drop_on(op, sh, m->to, m, m->new_uuid, err) && block_one(op, sh, m->to, m, "Unblock", err) &&
         block_one(op, sh, m->from, m, "Unblock", err) && ddl_forget(op, sh, m->ns, MOVE, err);
}

// --- steps 4 to 7 ---

static bool tell_config(struct operation *op, struct shard *sh, const struct move *m, struct error *err) {
  bson_t *cmd = arena_bson(op->arena), key;
  BSON_APPEND_UTF8(cmd, "_configsvrCommitMoveCollection", m->ns);
  doc_append_uuid(cmd, "oldUuid", m->old_uuid);
  doc_append_uuid(cmd, "newUuid", m->new_uuid);
  BSON_APPEND_UTF8(cmd, "toShard", m->to);
  BSON_APPEND_DOCUMENT_BEGIN(cmd, "key", &key);
  BSON_APPEND_INT32(&key, "_id", 1);
  bson_append_document_end(cmd, &key);
  append_majority(cmd);
  return config_call(op, sh, cmd, NULL, err);
}

static bool go_forward(struct operation *op, struct shard *sh, const struct move *m, struct error *err) {
  return block_one(op, sh, m->to, m, "ReadsAndWrites", err) && block_one(op, sh, m->from, m, "ReadsAndWrites", err) &&
         tell_config(op, sh, m, err) && drop_on(op, sh, m->from, m, m->old_uuid, err) &&
         block_one(op, sh, m->to, m, "Unblock", err) && block_one(op, sh, m->from, m, "Unblock", err) &&
         ddl_forget(op, sh, m->ns, MOVE, err);
}

bool ddl_resume_move(struct operation *op, struct shard *sh, const char *ns, const bson_t *doc, struct error *err) {
  struct move m = {.ns = ns, .from = doc_str(doc, "fromShard", NULL), .to = doc_str(doc, "toShard", NULL)};
  if (!m.from || !m.to || !doc_uuid(doc, "oldUuid", m.old_uuid) || !doc_uuid(doc, "newUuid", m.new_uuid)) return true;
  m.owner = ddl_owner(op->arena, MOVE, m.new_uuid);
  if (!strcmp(doc_str(doc, "phase", ""), "committing")) return go_forward(op, sh, &m, err);
  log_info("SHARDING", "An unfinished moveCollection is taken back", "namespace:s", ns);
  return take_back(op, sh, &m, err);
}

static bool move_steps(struct operation *op, struct shard *sh, const struct move *m, struct error *err) {
  if (!ddl_remember(op, sh, move_document(op->arena, m, "cloning"), err)) return false;
  bool committing = copy(op, sh, m, err) && ddl_remember(op, sh, move_document(op->arena, m, "committing"), err);
  if (committing && go_forward(op, sh, m, err)) return true;
  struct error why = {0};
  if (committing || !take_back(op, sh, m, &why)) ddl_resume_soon(sh);
  return false;
}

// --- the command ---

// Where the collection is. false: err, or it is not one that can be moved.
static bool find_source(struct operation *op, struct shard *sh, const struct routing *r, struct move *m,
                        struct error *err) {
  if (r->tracked && r->collection.unsplittable) {
    struct chunk c;
    chunk_map_find(r->chunks, bound_key(op->arena, shard_key_global_min(chunk_map_key(r->chunks), op->arena)), &c);
    m->from = arena_strdup(op->arena, c.shard);
    memcpy(m->old_uuid, r->collection.uuid, 16);
    return true;
  }
  const struct collection *c = r->tracked ? NULL : store_collection(sh->node.store, r->ns);
  if (!c || doc_has(c->options, "viewOn"))
    return error_set(err, ERR_NamespaceNotFound, "MoveCollection can only be called on an unsharded collection.");
  m->from = sh->name;
  memcpy(m->old_uuid, c->uuid, 16);
  return true;
}

static bool check_target(struct operation *op, struct shard *sh, const struct move *m, struct error *err) {
  struct shard_list all;
  if (!ddl_all_shards(op, sh, &all, err)) return false;
  if (all.n < 2)
    return error_set(err, ERR_IllegalOperation,
                     "Cannot move a collection until a second shard has been successfully added");
  return shard_registry_get(op, sh->shards, m->to, err) != NULL;
}

static bool move_entered(struct operation *op, struct shard *sh, struct move *m, struct error *err) {
  struct routing *r;
  if (!metadata_load(op, sh->metadata, m->ns, &r, err)) return false;
  bool ok = find_source(op, sh, r, m, err);
  routing_unref(r);
  if (!ok || !check_target(op, sh, m, err)) return false;
  if (!strcmp(m->from, m->to)) return true; // it is there
  uuid_new(m->new_uuid);
  m->owner = ddl_owner(op->arena, MOVE, m->new_uuid);
  return move_steps(op, sh, m, err);
}

static bool move_collection(struct request *r, bson_t *reply, struct error *err) {
  struct shard *sh = shard_of(r);
  struct move m = {.ns = r->coll};
  if (!r->coll) return error_set(err, ERR_InvalidNamespace, "Invalid namespace specified");
  if (!namespace_valid(r->coll, err) || !request_required_str(r, "toShard", &m.to, err) ||
      !shard_wait_recovered(r->op, sh, err) || !ddl_enter(r->op, sh, m.ns, err))
    return false;
  bool ok = move_entered(r->op, sh, &m, err);
  ddl_leave(sh, m.ns);
  return ok;
}

// --- the target's part ---

struct copy {
  struct operation *op;
  struct shard *sh;
  struct collection *c; // referenced
  const char *from;
};

static bool put_batch(struct copy *x, const bson_t *batch, struct error *err) {
  struct write *w = write_begin(x->op, x->sh->node.repl);
  bson_iter_t it;
  if (!write_admit(x->op, x->sh->node.repl, err)) return false;
  while (!write_lock_namespace(w, x->c->ns, false))
    if (!write_wait(x->op, w, err)) return false;
  if (x->c->dropped || !x->c->n_intervals)
    return error_set(err, ERR_NamespaceNotFound, "Collection %s was dropped while it was copied", x->c->ns);
  uint32_t file = x->c->intervals[0].file; // an unsharded collection has one
  bson_iter_init(&it, batch);
  while (bson_iter_next(&it)) {
    bson_t doc;
    iter_doc(&doc, &it);
    change_put(write_changes(w), x->c, file, collection_next_rid(x->c), &doc);
  }
  return write_commit(x->op, w, err);
}

// One find or getMore on the source; its documents are written here. *cursor 0: that was the last.
static bool copy_batch(struct copy *x, int64_t *cursor, struct error *err) {
  bson_t *cmd = arena_bson(x->op->arena), reply_cursor, batch;
  const bson_t *reply;
  if (*cursor)
    BSON_APPEND_INT64(cmd, "getMore", *cursor);
  else
    BSON_APPEND_UTF8(cmd, "find", x->c->name);
  if (*cursor) BSON_APPEND_UTF8(cmd, "collection", x->c->name);
  BSON_APPEND_INT32(cmd, "batchSize", CLONE_BATCH);
  if (!peer_call(x->op, x->sh, x->from, x->c->db, cmd, PEER_TIMEOUT_MS, false, &reply, err)) return false;
  if (!doc_doc(reply, "cursor", &reply_cursor) || !doc_doc(&reply_cursor, *cursor ? "nextBatch" : "firstBatch", &batch))
    return error_set(err, ERR_NoSuchKey, "The source answered no cursor");
  *cursor = doc_i64(&reply_cursor, "id", 0);
  return put_batch(x, &batch, err);
}

static bool copy_documents(struct copy *x, struct error *err) {
  struct arena *outer = x->op->arena, *own = arena_new();
  x->op->arena = own; // of one batch
  int64_t cursor = 0;
  bool ok;
  do {
    arena_reset(own);
    ok = copy_batch(x, &cursor, err);
  } while (ok && cursor);
  if (!ok) {
    struct error kept;
    error_copy(&kept, err, outer); // its extra fields are in the batch's arena
    *err = kept;
  }
  x->op->arena = outer;
  arena_free(own);
  return ok;
}

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
  struct copy x = {.op = r->op, .sh = sh, .c = collection_ref(c), .from = from};
  bool ok = copy_documents(&x, err);
  collection_unref(c);
  return ok;
}

const struct command shardd_move_collection_commands[] = {
    {"_shardsvrMoveCollection", NULL, CMD_WRITE | CMD_ADMIN_ONLY | CMD_INTERNAL, move_collection,
     "Moves an unsharded collection to another shard."},
    {"_shardsvrCloneCollection", NULL, CMD_WRITE | CMD_ADMIN_ONLY | CMD_INTERNAL, clone_collection,
     "Copies a collection from another shard."},
    {0},
};
