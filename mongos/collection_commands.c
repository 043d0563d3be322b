// Commands about collections: shardCollection, create, drop, renameCollection, collMod, listCollections,
// moveCollection.
#include <string.h>

#include "common/bson/doc.h"
#include "mongos/ddl.h"
#include "mongos/forward.h"
#include "mongos/list_collections.h"
#include "mongos/routing_cache.h"

static bool run_shard_collection(struct request *r, bson_t *reply, struct error *err) {
  static const char *const own[] = {"shardCollection", "shardcollection", "key", "writeConcern", "lsid",
                                    "txnNumber",       "maxTimeMS",       NULL};
  const char *ns, *db, *coll;
  bson_t key;
  if (!namespace_argument(r, &ns, &db, &coll, err) || !request_required_doc(r, "key", &key, err)) return false;
  if (doc_has(r->body, "timeseries")) {
    return error_set(err, ERR_CommandNotSupported, "time-series collections are not supported by shardlet");
  }
  bson_t *body = arena_bson(r->op->arena);
  bson_append_utf8(body, "_shardsvrCreateCollection", -1, coll, -1);
  bson_append_document(body, "shardKey", -1, &key);
  forward_fields(body, r->body, own);
  append_majority_concern(body, r);
  const bson_t *answer;
  bool ok = primary_call(r, db, NULL, true, body, &answer, err);
  routing_cache_invalidate(router_of(r)->cache, ns, NULL, NULL);
  if (ok) bson_append_utf8(reply, "collectionsharded", -1, ns, -1);
  return ok;
}

static bool run_create(struct request *r, bson_t *reply, struct error *err) {
  static const char *const own[] = {"create", "writeConcern", "lsid", "txnNumber", NULL};
  if (!request_needs_collection(r, err)) return false;
  bson_t *body = arena_bson(r->op->arena);
  bson_append_utf8(body, "_shardsvrCreateCollection", -1, r->coll, -1);
  forward_fields(body, r->body, own);
  append_majority_concern(body, r);
  const bson_t *answer;
  bool ok = primary_call(r, r->db, NULL, true, body, &answer, err);
  routing_cache_invalidate(router_of(r)->cache, r->ns, NULL, NULL);
  return ok;
}

static bool run_drop(struct request *r, bson_t *reply, struct error *err) {
  static const char *const own[] = {"drop", "writeConcern", "lsid", "txnNumber", NULL};
  if (!request_needs_collection(r, err)) return false;
  if (database_is_on_config(r->db)) {
    struct shard_call call = {.target = target_config(), .body = forward_body(r, NULL)};
    shard_call_run(r, r->op, &call, CALL_DDL);
    if (!call.ok) *err = call.err;
    return call.ok;
  }
  bson_t *body = arena_bson(r->op->arena);
  bson_append_utf8(body, "_shardsvrDropCollection", -1, r->coll, -1);
  forward_fields(body, r->body, own);
  append_majority_concern(body, r);
  const bson_t *answer;
  bool ok = primary_call(r, r->db, NULL, false, body, &answer, err);
  routing_cache_forget(router_of(r)->cache, r->ns);
  if (ok && answer == NULL) bson_append_utf8(reply, "info", -1, "database does not exist", -1);
  return ok;
}

static bool run_rename(struct request *r, bson_t *reply, struct error *err) {
  const char *ns, *db, *coll, *to, *to_db, *to_coll;
  if (!namespace_argument(r, &ns, &db, &coll, err) || !request_required_str(r, "to", &to, err) ||
      !split_namespace(r, to, &to_db, &to_coll, err)) {
    return false;
  }
  if (strcmp(ns, to) == 0) {
    return error_set(err, ERR_IllegalOperation, "Can't rename a collection to itself");
  }
  bson_t *body = arena_bson(r->op->arena);
  bson_append_utf8(body, "_shardsvrRenameCollection", -1, coll, -1);
  bson_append_utf8(body, "to", -1, to, -1);
  bson_append_bool(body, "dropTarget", -1, doc_bool(r->body, "dropTarget", false));
  append_majority_concern(body, r);
  const bson_t *answer;
  bool ok = primary_call(r, db, NULL, false, body, &answer, err);
  routing_cache_forget(router_of(r)->cache, ns);
  routing_cache_forget(router_of(r)->cache, to);
  if (ok && answer == NULL) return error_set(err, ERR_NamespaceNotFound, "database %s not found", db);
  return ok;
}

static bool run_coll_mod(struct request *r, bson_t *reply, struct error *err) {
  if (!request_needs_collection(r, err)) return false;
  struct broadcast b = {.r = r, .body = forward_body(r, NULL), .flat_if_single = true};
  return broadcast_run(&b, r->ns, reply, err);
}

static bool run_move_collection(struct request *r, bson_t *reply, struct error *err) {
  const char *ns, *db, *coll, *to;
  if (!namespace_argument(r, &ns, &db, &coll, err) || !request_required_str(r, "toShard", &to, err)) return false;
  bson_t *body = arena_bson(r->op->arena);
  bson_append_utf8(body, "_shardsvrMoveCollection", -1, ns, -1);
  bson_append_utf8(body, "toShard", -1, to, -1);
  append_majority_concern(body, r);
  const bson_t *answer;
  bool ok = primary_call(r, db, "admin", false, body, &answer, err);
  routing_cache_invalidate(router_of(r)->cache, ns, NULL, NULL);
  if (ok && answer == NULL) return error_set(err, ERR_NamespaceNotFound, "database %s not found", db);
  return ok;
}

const struct command router_collection_commands[] = {
    {"shardCollection", "shardcollection", CMD_WRITE | CMD_ADMIN_ONLY, run_shard_collection,
     "gives a collection a shard key"},
    {"create", NULL, CMD_WRITE, run_create, "creates a collection"},
    {"drop", NULL, CMD_WRITE, run_drop, "drops a collection"},
    {"renameCollection", NULL, CMD_WRITE | CMD_ADMIN_ONLY, run_rename, "gives a collection another name"},
    {"collMod", NULL, CMD_WRITE, run_coll_mod, "changes a collection's options"},
    {"listCollections", NULL, CMD_READ, run_list_collections, "a database's collections"},
    {"moveCollection", NULL, CMD_WRITE | CMD_ADMIN_ONLY, run_move_collection,
     "moves an unsharded collection to another shard"},
    {"unshardCollection", NULL, CMD_WRITE | CMD_ADMIN_ONLY, run_not_supported, "not supported"},
    {"reshardCollection", NULL, CMD_WRITE | CMD_ADMIN_ONLY, run_not_supported, "not supported"},
    {"refineCollectionShardKey", NULL, CMD_WRITE | CMD_ADMIN_ONLY, run_not_supported, "not supported"},
    {"abortReshardCollection", NULL, CMD_WRITE | CMD_ADMIN_ONLY, run_not_supported, "not supported"},
    {"commitReshardCollection", NULL, CMD_WRITE | CMD_ADMIN_ONLY, run_not_supported, "not supported"},
    {"abortMoveCollection", NULL, CMD_WRITE | CMD_ADMIN_ONLY, run_not_supported, "not supported"},
    {"abortUnshardCollection", NULL, CMD_WRITE | CMD_ADMIN_ONLY, run_not_supported, "not supported"},
    {"convertToCapped", NULL, CMD_WRITE, run_not_supported, "not supported"},
    {NULL, NULL, 0, NULL, NULL},
};
