// What DDL coordinators ask of every shard. Each command is idempotent: a coordinator that goes on after a crash
// repeats it.
#include <string.h>

#include "common/base/log.h"
#include "common/bson/doc.h"
#include "shardd/critical_section.h"
#include "shardd/ddl_coordinator.h"
#include "shardd/local_collection.h"
#include "shardd/migrations.h"

static bool need_namespace(const struct request *r, struct error *err) {
  if (!r->coll) return error_set(err, ERR_InvalidNamespace, "Invalid namespace specified");
  return shard_require_identity(shard_of(r), err) && namespace_valid(r->coll, err);
}

// --- blocking ---

// A migration that runs is ended, or waited for when it is in its critical section; one that begins later waits for the
// section.
static bool block(struct operation *op, struct shard *sh, const char *ns, const char *owner, bool reads,
                  struct error *err) {
  if (!migrations_hold(op, sh->migrations, ns, true, err)) return false;
  bool ok = section_enter(op, sh, ns, owner, owner, reads, err);
  migrations_release(sh->migrations, ns);
  if (!ok) return false;
  if (local_put_now(op, &sh->node, SECTIONS_NS, section_document(op->arena, ns, owner, owner, reads), err)) return true;
  section_leave(sh, ns, owner);
  return false;
}

// Metadata of after the change before anyone is let in again; where it cannot be had now, who comes next gets it.
static bool unblock(struct operation *op, struct shard *sh, const char *ns, const char *owner, struct error *err) {
  bson_value_t id = value_str(ns);
  metadata_renew(op, sh->metadata, ns, "a change of the collection");
  if (!local_delete_now(op, &sh->node, SECTIONS_NS, &id, err)) return false;
  section_leave(sh, ns, owner);
  return true;
}

static bool participant_block(struct request *r, bson_t *reply, struct error *err) {
  const char *type, *owner;
  if (!need_namespace(r, err) || !request_required_str(r, "blockType", &type, err) ||
      !request_required_str(r, "reason", &owner, err) || !shard_wait_recovered(r->op, shard_of(r), err))
    return false;
  if (!strcmp(type, "Unblock")) return unblock(r->op, shard_of(r), r->coll, owner, err);
  bool reads = !strcmp(type, "ReadsAndWrites");
  if (!reads && strcmp(type, "Writes") != 0) return error_set(err, ERR_BadValue, "Unknown blockType '%s'", type);
  return block(r->op, shard_of(r), r->coll, owner, reads, err);
}

// --- collections ---

static bool create_participant(struct request *r, bson_t *reply, struct error *err) {
  struct collection_plan plan;
  return need_namespace(r, err) && collection_plan_parse(r->op->arena, r->coll, r->body, &plan, err) &&
         local_collection_ensure(r->op, shard_of(r), &plan, err);
}

static bool drop_participant(struct request *r, bson_t *reply, struct error *err) {
  struct shard *sh = shard_of(r);
  uint8_t uuid[16];
  if (!need_namespace(r, err)) return false;
  bool has_uuid = doc_uuid(r->body, "uuid", uuid);
  if (!local_collection_drop(r->op, sh, r->coll, has_uuid ? uuid : NULL, err)) return false;
  metadata_invalidate(sh->metadata, r->coll);
  return true;
}

static bool rename_participant(struct request *r, bson_t *reply, struct error *err) {
  struct shard *sh = shard_of(r);
  struct ddl d = {.op = r->op, .node = &sh->node};
  const char *to;
  uint8_t uuid[16];
  if (!need_namespace(r, err) || !request_required_str(r, "to", &to, err)) return false;
  if (!doc_uuid(r->body, "uuid", uuid)) return error_set(err, ERR_NoSuchKey, "Missing required field 'uuid'");
  const struct collection *c = store_collection_by_uuid(sh->node.store, uuid);
  bool here = c && !strcmp(c->ns, r->coll); // else this shard has none of it, or did it before
  if (here && !ddl_rename(&d, r->coll, to, true, err)) return false;
  // A target that this shard has without having any of the source.
  struct collection *target = store_collection(sh->node.store, to);
  if (target && memcmp(target->uuid, uuid, 16) != 0 && !local_collection_drop(r->op, sh, to, target->uuid, err))
    return false;
  metadata_invalidate(sh->metadata, r->coll);
  metadata_invalidate(sh->metadata, to);
  return true;
}

static bool drop_database_participant(struct request *r, bson_t *reply, struct error *err) {
  struct shard *sh = shard_of(r);
  struct ddl d = {.op = r->op, .node = &sh->node};
  if (!r->coll || strchr(r->coll, '.')) return error_set(err, ERR_InvalidNamespace, "Invalid database name");
  if (!strcmp(r->coll, "admin") || !strcmp(r->coll, "config") || !strcmp(r->coll, "local"))
    return error_set(err, ERR_IllegalOperation, "Cannot drop the database '%s'", r->coll);
  if (!ddl_drop_database(&d, r->coll, err)) return false;
  metadata_invalidate_database(sh->metadata, r->coll);
  return true;
}

const struct command shardd_participant_commands[] = {
    {"_shardsvrParticipantBlock", NULL, CMD_WRITE | CMD_ADMIN_ONLY | CMD_INTERNAL, participant_block,
     "Blocks a collection here while its placement changes, or ends that."},
    {"_shardsvrCreateCollectionParticipant", NULL, CMD_WRITE | CMD_ADMIN_ONLY | CMD_INTERNAL, create_participant,
     "Creates a collection here as its coordinator has it."},
    {"_shardsvrDropCollectionParticipant", NULL, CMD_WRITE | CMD_ADMIN_ONLY | CMD_INTERNAL, drop_participant,
     "Drops what is here of a collection."},
    {"_shardsvrRenameCollectionParticipant", NULL, CMD_WRITE | CMD_ADMIN_ONLY | CMD_INTERNAL, rename_participant,
     "Renames what is here of a collection."},
    {"_shardsvrDropDatabaseParticipant", NULL, CMD_WRITE | CMD_ADMIN_ONLY | CMD_INTERNAL, drop_database_participant,
     "Drops what is here of a database."},
    {0},
};
