// renameCollection, led by the source database's primary shard.
//
// A tracked source, in order, each step idempotent:
//   1 {coordinator document}
//   2 its shards block both names
//   3 the config server gives it the new name (and another epoch)
//   4 every shard renames what it has of it
//   5 its shards let requests in again
//   6 {coordinator document removed}
// A target that is in the way and may be dropped is dropped first.
#include <string.h>

#include "common/base/log.h"
#include "common/bson/doc.h"
#include "shardd/change_log.h"
#include "shardd/ddl_drop.h"
#include "shardd/peer.h"
#include "shardd/version_check.h"

#define RENAME "renameCollection"

static bool tell_config(struct operation *op, struct shard *sh, const char *from, const char *to,
                        const uint8_t uuid[16], struct error *err) {
  bson_t *cmd = arena_bson(op->arena);
  BSON_APPEND_INT32(cmd, "_configsvrCommitRenameCollection", 1);
  BSON_APPEND_UTF8(cmd, "from", from);
  BSON_APPEND_UTF8(cmd, "to", to);
  doc_append_uuid(cmd, "uuid", uuid);
  BSON_APPEND_BOOL(cmd, "dropTarget", false);
  append_majority(cmd);
  return config_call(op, sh, cmd, NULL, err);
}

static bool rename_on_all(struct operation *op, struct shard *sh, const struct shard_list *all, const char *from,
                          const char *to, const uint8_t uuid[16], struct error *err) {
  bson_t *cmd = arena_bson(op->arena);
  BSON_APPEND_UTF8(cmd, "_shardsvrRenameCollectionParticipant", from);
  BSON_APPEND_UTF8(cmd, "to", to);
  doc_append_uuid(cmd, "uuid", uuid);
  append_majority(cmd);
  return ddl_call(op, sh, all, cmd, err);
}

bool ddl_resume_rename(struct operation *op, struct shard *sh, const char *ns, const bson_t *doc, struct error *err) {
  uint8_t uuid[16];
  const char *to = doc_str(doc, "to", NULL);
  struct shard_list all;
  if (!to || !doc_uuid(doc, "uuid", uuid)) return true;
  const char *owner = ddl_owner(op->arena, RENAME, uuid);
  return ddl_all_shards(op, sh, &all, err) && ddl_block(op, sh, &all, ns, owner, true, err) &&
         ddl_block(op, sh, &all, to, owner, true, err) && tell_config(op, sh, ns, to, uuid, err) &&
         rename_on_all(op, sh, &all, ns, to, uuid, err) && ddl_block(op, sh, &all, to, owner, false, err) &&
         ddl_block(op, sh, &all, ns, owner, false, err) && ddl_forget(op, sh, ns, RENAME, err);
}

static bool rename_tracked(struct operation *op, struct shard *sh, const struct routing *r, const char *to,
                           struct error *err) {
  bson_t *doc = ddl_document(op->arena, r->ns, RENAME);
  BSON_APPEND_UTF8(doc, "to", arena_strdup(op->arena, to));
  doc_append_uuid(doc, "uuid", r->collection.uuid);
  if (!ddl_remember(op, sh, doc, err)) return false;
  if (ddl_resume_rename(op, sh, r->ns, doc, err)) return true;
  ddl_resume_soon(sh);
  return false;
}

static bool rename_untracked(struct operation *op, struct shard *sh, const char *from, const char *to,
                             struct error *err) {
  struct ddl d = {.op = op, .node = &sh->node};
  bool ok = ddl_rename(&d, from, to, false, err);
  metadata_invalidate(sh->metadata, from);
  metadata_invalidate(sh->metadata, to);
  return ok;
}

// Both names must be of databases that this shard leads, or the collection's data could not stay where it is.
static bool check_databases(struct operation *op, struct shard *sh, const char *from, const char *to, bool tracked,
                            struct error *err) {
  const char *a = namespace_database(op->arena, from), *b = namespace_database(op->arena, to);
  struct database_type t;
  bool exists;
  if (!strcmp(a, b)) return true;
  if (tracked) return error_set(err, ERR_CommandFailed, "Source and destination namespaces must be on same database.");
  if (!metadata_load_database(op, sh->metadata, b, &t, &exists, err)) return false;
  if (exists && !strcmp(t.primary, sh->name)) return true;
  return error_set(err, ERR_CommandFailed,
                   "Source and destination collections must be on the same shard: the primary shard of %s is not %s", b,
                   sh->name);
}

static bool clear_target(struct operation *op, struct shard *sh, const char *to, bool drop, struct error *err) {
  struct routing *r;
  if (!metadata_load(op, sh->metadata, to, &r, err)) return false;
  bool exists = r->tracked || store_collection(sh->node.store, to);
  routing_unref(r);
  if (!exists) return true;
  if (!drop) return error_set(err, ERR_NamespaceExists, "target namespace exists");
  return ddl_drop_everywhere(op, sh, to, err);
}

static bool rename_entered(struct operation *op, struct shard *sh, const char *from, const char *to, bool drop,
                           struct error *err) {
  struct routing *r;
  if (!metadata_load(op, sh->metadata, from, &r, err)) return false;
  bool tracked = r->tracked;
  bool ok = tracked || store_collection(sh->node.store, from) ||
            error_set(err, ERR_NamespaceNotFound, "Source collection %s does not exist", from);
  ok = ok && check_databases(op, sh, from, to, tracked, err) && clear_target(op, sh, to, drop, err) &&
       (tracked ? rename_tracked(op, sh, r, to, err) : rename_untracked(op, sh, from, to, err));
  routing_unref(r);
  return ok;
}

static void log_rename(struct operation *op, struct shard *sh, const char *what, const char *from, const char *to) {
  bson_t *details = arena_bson(op->arena);
  BSON_APPEND_UTF8(details, "source", from);
  BSON_APPEND_UTF8(details, "destination", to);
  log_change(op, sh, what, from, details);
}

static bool rename_collection(struct request *r, bson_t *reply, struct error *err) {
  struct shard *sh = shard_of(r);
  const char *to;
  if (!request_needs_collection(r, err) || !request_required_str(r, "to", &to, err) || !namespace_valid(to, err))
    return false;
  if (!strcmp(to, r->ns)) return error_set(err, ERR_IllegalOperation, "Can't rename a collection to itself");
  if (!shard_wait_recovered(r->op, sh, err) || !ddl_enter(r->op, sh, r->ns, err)) return false;
  bool ok = version_check_database(r->op, sh, r, r->db, err);
  if (ok) log_rename(r->op, sh, "renameCollection.start", r->ns, to);
  ok = ok && rename_entered(r->op, sh, r->ns, to, doc_bool(r->body, "dropTarget", false), err);
  if (ok) log_rename(r->op, sh, "renameCollection.end", r->ns, to);
  ddl_leave(sh, r->ns);
  return ok;
}

const struct command shardd_rename_commands[] = {
    {"_shardsvrRenameCollection", NULL, CMD_WRITE | CMD_INTERNAL, rename_collection,
     "Gives a collection another name on all shards."},
    {0},
};
