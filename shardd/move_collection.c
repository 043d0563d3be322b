// moveCollection: an unsharded collection goes to another shard, as a new collection (UUID, epoch and timestamp are
// new).
//
// Led by the database's primary shard:
//   1 {coordinator document, phase "cloning"}
//   2 the source blocks writes, the target everything
//   3 the target copies all documents, and the records of retryable writes (collection_copy.c)
//   4 {phase "committing"}; the source blocks reads, too
//   5 config commit: the new UUID takes the name, with one chunk on the target
//   6 the source drops the old collection; both let requests in again
//   7 {coordinator document removed}
// A failure before step 4 takes everything back: no commit can be on its way. After it the operation only goes forward.
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/bson/doc.h"
#include "shardd/change_log.h"
#include "shardd/ddl_coordinator.h"
#include "shardd/migration_documents.h"
#include "shardd/peer.h"

#define MOVE "moveCollection"

enum { CLONE_TIMEOUT_MS = 6 * 60 * 60 * 1000 };

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

// A row of config.changelog for each change of phase, as a resharding coordinator writes it, which moveCollection is in
// MongoDB.
static void log_phase(struct operation *op, struct shard *sh, const struct move *m, const char *was, const char *now) {
  bson_t *details = arena_bson(op->arena);
  BSON_APPEND_UTF8(details, "newState", now);
  BSON_APPEND_UTF8(details, "oldState", was);
  BSON_APPEND_UTF8(details, "namespace", m->ns);
  doc_append_uuid(details, "collectionUUID", m->old_uuid);
  doc_append_uuid(details, "reshardingUUID", m->new_uuid);
  BSON_APPEND_UTF8(details, "provenance", MOVE);
  BSON_APPEND_UTF8(details, "from", m->from);
  BSON_APPEND_UTF8(details, "to", m->to);
  log_change_soon(op, sh, "resharding.coordinator.transition", m->ns, details);
}

// The last one: all are written before the command answers.
static bool end_phase(struct operation *op, struct shard *sh, const struct move *m, const char *was, const char *now) {
  log_phase(op, sh, m, was, now);
  log_changes_wait(op, sh);
  return true;
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
         block_one(op, sh, m->from, m, "Unblock", err) && ddl_forget(op, sh, m->ns, MOVE, err) &&
         end_phase(op, sh, m, "cloning", "aborting");
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
         ddl_forget(op, sh, m->ns, MOVE, err) && end_phase(op, sh, m, "committing", "done");
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
  log_phase(op, sh, m, "initializing", "cloning");
  bool committing = copy(op, sh, m, err) && ddl_remember(op, sh, move_document(op->arena, m, "committing"), err);
  if (committing) log_phase(op, sh, m, "cloning", "committing");
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

const struct command shardd_move_collection_commands[] = {
    {"_shardsvrMoveCollection", NULL, CMD_WRITE | CMD_ADMIN_ONLY | CMD_INTERNAL, move_collection,
     "Moves an unsharded collection to another shard."},
    {0},
};
