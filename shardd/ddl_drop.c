// drop and dropDatabase, led by the database's primary shard.
//
// A tracked collection, in order, each step idempotent:
//   1 {coordinator document}
//   2 its shards block it
//   3 the config server forgets it
//   4 every shard drops what it has of it (orphans, too)
//   5 its shards let requests in again: they find nothing
//   6 {coordinator document removed}
#include "shardd/ddl_drop.h"

#include <string.h>

#include "common/base/log.h"
#include "common/bson/doc.h"
#include "shardd/change_log.h"
#include "shardd/peer.h"
#include "shardd/version_check.h"

#define DROP "dropCollection"
#define DROP_DATABASE "dropDatabase"

// --- one collection ---

static const bson_t *drop_document(struct arena *a, const char *ns, const uint8_t uuid[16],
                                   const struct shard_list *owners) {
  bson_t *doc = ddl_document(a, ns, DROP), list;
  doc_append_uuid(doc, "uuid", uuid);
  BSON_APPEND_ARRAY_BEGIN(doc, "owners", &list);
  for (size_t i = 0; i < owners->n; i++) bson_append_utf8(&list, arena_printf(a, "%zu", i), -1, owners->names[i], -1);
  bson_append_array_end(doc, &list);
  return doc;
}

static void read_owners(struct arena *a, const bson_t *doc, struct shard_list *out) {
  bson_t list;
  bson_iter_t it;
  *out = (struct shard_list){0};
  if (!doc_doc(doc, "owners", &list)) return;
  out->names = arena_alloc(a, (bson_count_keys(&list) + 1) * sizeof *out->names);
  bson_iter_init(&it, &list);
  while (bson_iter_next(&it))
    if (BSON_ITER_HOLDS_UTF8(&it)) out->names[out->n++] = arena_strdup(a, bson_iter_utf8(&it, NULL));
}

static bool tell_config(struct operation *op, struct shard *sh, const char *ns, const uint8_t uuid[16],
                        struct error *err) {
  bson_t *cmd = arena_bson(op->arena);
  BSON_APPEND_UTF8(cmd, "_configsvrCommitDropCollection", ns);
  doc_append_uuid(cmd, "uuid", uuid);
  append_majority(cmd);
  return config_call(op, sh, cmd, NULL, err);
}

static bool drop_on_all(struct operation *op, struct shard *sh, const char *ns, const uint8_t uuid[16],
                        struct error *err) {
  struct shard_list all;
  bson_t *cmd = arena_bson(op->arena);
  BSON_APPEND_UTF8(cmd, "_shardsvrDropCollectionParticipant", ns);
  doc_append_uuid(cmd, "uuid", uuid);
  append_majority(cmd);
  return ddl_all_shards(op, sh, &all, err) && ddl_call(op, sh, &all, cmd, err);
}

bool ddl_resume_drop(struct operation *op, struct shard *sh, const char *ns, const bson_t *doc, struct error *err) {
  uint8_t uuid[16];
  struct shard_list owners;
  if (!doc_uuid(doc, "uuid", uuid)) return true;
  read_owners(op->arena, doc, &owners);
  const char *owner = ddl_owner(op->arena, DROP, uuid);
  return ddl_block(op, sh, &owners, ns, owner, true, err) && tell_config(op, sh, ns, uuid, err) &&
         drop_on_all(op, sh, ns, uuid, err) && ddl_block(op, sh, &owners, ns, owner, false, err) &&
         ddl_forget(op, sh, ns, DROP, err);
}

static bool drop_tracked(struct operation *op, struct shard *sh, const struct routing *r, struct error *err) {
  struct shard_list owners;
  ddl_owners(op->arena, r, &owners);
  const bson_t *doc = drop_document(op->arena, r->ns, r->collection.uuid, &owners);
  if (!ddl_remember(op, sh, doc, err)) return false;
  if (ddl_resume_drop(op, sh, r->ns, doc, err)) return true;
  ddl_resume_soon(sh);
  return false;
}

static void log_drop(struct operation *op, struct shard *sh, const char *what, const char *ns,
                     const struct routing *r) {
  bson_t *details = arena_bson(op->arena), uuid;
  if (r && r->tracked) {
    BSON_APPEND_DOCUMENT_BEGIN(details, "collectionUUID", &uuid);
    doc_append_uuid(&uuid, "uuid", r->collection.uuid);
    bson_append_document_end(details, &uuid);
  }
  log_change(op, sh, what, ns, details);
}

static bool drop_untracked(struct operation *op, struct shard *sh, const char *ns, struct error *err) {
  struct ddl d = {.op = op, .node = &sh->node};
  bool existed;
  int32_t n_indexes;
  return ddl_drop(&d, ns, NULL, &existed, &n_indexes, err);
}

bool ddl_drop_everywhere(struct operation *op, struct shard *sh, const char *ns, struct error *err) {
  struct routing *r;
  if (!metadata_load(op, sh->metadata, ns, &r, err)) return false;
  log_drop(op, sh, "dropCollection.start", ns, r);
  bool ok = r->tracked ? drop_tracked(op, sh, r, err) : drop_untracked(op, sh, ns, err);
  routing_unref(r);
  if (ok) log_drop(op, sh, "dropCollection", ns, NULL);
  return ok;
}

static bool drop_collection(struct request *r, bson_t *reply, struct error *err) {
  struct shard *sh = shard_of(r);
  if (!request_needs_collection(r, err) || !shard_wait_recovered(r->op, sh, err) || !ddl_enter(r->op, sh, r->ns, err))
    return false;
  bool ok = version_check_database(r->op, sh, r, r->db, err) && ddl_drop_everywhere(r->op, sh, r->ns, err);
  ddl_leave(sh, r->ns);
  return ok;
}

// --- a database ---

static bool drop_tracked_of(struct operation *op, struct shard *sh, const char *db, struct error *err) {
  bson_t *filter = arena_bson(op->arena), range;
  const bson_t **docs;
  size_t n;
  BSON_APPEND_DOCUMENT_BEGIN(filter, "_id", &range);
  BSON_APPEND_UTF8(&range, "$gte", arena_printf(op->arena, "%s.", db));
  BSON_APPEND_UTF8(&range, "$lt", arena_printf(op->arena, "%s/", db)); // '/' is the character behind '.'
  bson_append_document_end(filter, &range);
  if (!catalog_find(op, sh->config, "collections", filter, NULL, 0, &docs, &n, err)) return false;
  for (size_t i = 0; i < n; i++) {
    const char *ns = doc_str(docs[i], "_id", NULL);
    if (ns && !ddl_drop_everywhere(op, sh, ns, err)) return false;
  }
  return true;
}

static bool call_all(struct operation *op, struct shard *sh, const char *command, const char *db, struct error *err) {
  struct shard_list all;
  bson_t *cmd = arena_bson(op->arena);
  bson_append_utf8(cmd, command, -1, db, -1);
  return ddl_all_shards(op, sh, &all, err) && ddl_call(op, sh, &all, cmd, err);
}

static bool tell_config_of_database(struct operation *op, struct shard *sh, const char *db,
                                    const struct database_version *v, struct error *err) {
  bson_t *cmd = arena_bson(op->arena);
  BSON_APPEND_UTF8(cmd, "_configsvrCommitDropDatabase", db);
  database_version_append(cmd, "version", v);
  append_majority(cmd);
  return config_call(op, sh, cmd, NULL, err);
}

// Requests for the database wait meanwhile: an insert must not create a collection that is not seen here any more.
static bool drop_database_steps(struct operation *op, struct shard *sh, const char *db,
                                const struct database_version *v, struct error *err) {
  struct database_type now;
  bool exists;
  if (!metadata_load_database(op, sh->metadata, db, &now, &exists, err)) return false;
  if (!exists || !database_version_equal(&now.version, v))
    return true; // done before; another one may have the name now
  metadata_block_database(sh->metadata, db, true);
  bool ok = drop_tracked_of(op, sh, db, err) && call_all(op, sh, "_shardsvrDropDatabaseParticipant", db, err) &&
            tell_config_of_database(op, sh, db, v, err) && call_all(op, sh, "_shardsvrInvalidate", db, err);
  metadata_block_database(sh->metadata, db, false);
  return ok;
}

bool ddl_resume_drop_database(struct operation *op, struct shard *sh, const char *ns, const bson_t *doc,
                              struct error *err) {
  bson_t version;
  struct database_version v;
  if (!doc_doc(doc, "dbVersion", &version) || !database_version_parse(&version, &v, err)) return true;
  return drop_database_steps(op, sh, ns, &v, err) && ddl_forget(op, sh, ns, DROP_DATABASE, err);
}

static bool drop_entered(struct operation *op, struct shard *sh, const char *db, struct error *err) {
  struct database_type t;
  bool exists;
  if (!metadata_load_database(op, sh->metadata, db, &t, &exists, err)) return false;
  if (!exists) return true;
  bson_t *doc = ddl_document(op->arena, db, DROP_DATABASE), *none = arena_bson(op->arena);
  database_version_append(doc, "dbVersion", &t.version);
  log_change(op, sh, "dropDatabase.start", db, none);
  if (!ddl_remember(op, sh, doc, err)) return false;
  if (!ddl_resume_drop_database(op, sh, db, doc, err)) {
    ddl_resume_soon(sh);
    return false;
  }
  log_change(op, sh, "dropDatabase", db, none);
  return true;
}

static bool drop_database(struct request *r, bson_t *reply, struct error *err) {
  struct shard *sh = shard_of(r);
  if (!shard_wait_recovered(r->op, sh, err) || !ddl_enter(r->op, sh, r->db, err)) return false;
  bool ok = version_check_database(r->op, sh, r, r->db, err) && drop_entered(r->op, sh, r->db, err);
  ddl_leave(sh, r->db);
  return ok;
}

const struct command shardd_drop_commands[] = {
    {"_shardsvrDropCollection", NULL, CMD_WRITE | CMD_INTERNAL, drop_collection, "Drops a collection on all shards."},
    {"_shardsvrDropDatabase", NULL, CMD_WRITE | CMD_INTERNAL, drop_database, "Drops a database on all shards."},
    {0},
};
