// The DDL commands: what clients send, on top of ddl.h.
#include <string.h>

#include "common/bson/doc.h"
#include "common/node/commands.h"
#include "common/node/ddl.h"
#include "common/node/internal.h"

// --- create ---

static const char *const refused_options[] = {"capped",
                                              "viewOn",
                                              "timeseries",
                                              "clusteredIndex",
                                              "validator",
                                              "encryptedFields",
                                              "expireAfterSeconds",
                                              "changeStreamPreAndPostImages",
                                              "storageEngine",
                                              NULL};

static bool check_options(const bson_t *body, struct error *err) {
  for (size_t i = 0; refused_options[i]; i++) {
    bson_iter_t it;
    if (!doc_get(body, refused_options[i], &it) || BSON_ITER_HOLDS_NULL(&it)) continue;
    if (BSON_ITER_HOLDS_BOOL(&it) && !bson_iter_bool(&it)) continue;
    if (BSON_ITER_HOLDS_DOCUMENT(&it) && (!bson_iter_recurse(&it, &it) || !bson_iter_next(&it))) continue; // {}
    return error_set(err, ERR_CommandNotSupported, "create option '%s' is not supported", refused_options[i]);
  }
  if (doc_has(body, "size") || doc_has(body, "max")) {
    return error_set(err, ERR_InvalidOptions,
                     "the 'capped' field needs to be true when either the 'size' or 'max' "
                     "fields are present");
  }
  return collation_is_simple(body, err);
}

bool create_run(struct request *r, bson_t *reply, struct error *err) {
  struct ddl d;
  struct collection_spec spec = {.ns = r->ns};
  if (!request_needs_collection(r, err) || !check_options(r->body, err) || !ddl_begin(&d, r, r->ns, err)) return false;
  struct node *n = request_node(r);
  if (n->hooks.may_create && !n->hooks.may_create(r->op, n->hooks.ctx, r, r->ns, err)) return false;
  if (!ddl_create(&d, &spec, err)) return false;
  node_write_concern(r, d.index, reply);
  return true;
}

// --- drop, dropDatabase, renameCollection, collMod ---

bool drop_run(struct request *r, bson_t *reply, struct error *err) {
  struct ddl d;
  bool existed;
  int32_t n_indexes;
  if (!request_needs_collection(r, err) || !ddl_begin(&d, r, r->ns, err) ||
      !ddl_drop(&d, r->ns, NULL, &existed, &n_indexes, err)) {
    return false;
  }
  if (!existed) return true;
  BSON_APPEND_INT32(reply, "nIndexesWas", n_indexes);
  BSON_APPEND_UTF8(reply, "ns", r->ns);
  node_write_concern(r, d.index, reply);
  return true;
}

bool drop_database_run(struct request *r, bson_t *reply, struct error *err) {
  if (!strcmp(r->db, "admin") || !strcmp(r->db, "config") || !strcmp(r->db, "local")) {
    return error_set(err, ERR_IllegalOperation, "Dropping the '%s' database is prohibited.", r->db);
  }
  struct ddl d = {.op = r->op, .node = request_node(r)};
  if (!ddl_drop_database(&d, r->db, err)) return false;
  BSON_APPEND_UTF8(reply, "dropped", r->db);
  if (d.index) node_write_concern(r, d.index, reply);
  return true;
}

bool rename_collection_run(struct request *r, bson_t *reply, struct error *err) {
  const char *to, *from = BSON_ITER_HOLDS_UTF8(&r->first) ? bson_iter_utf8(&r->first, NULL) : NULL;
  if (!from) return error_set(err, ERR_TypeMismatch, "Field 'renameCollection' must be a namespace");
  if (!request_required_str(r, "to", &to, err) || !namespace_valid(from, err) || !namespace_valid(to, err))
    return false;
  size_t db = strcspn(from, ".");
  if (strncmp(from, to, db + 1)) {
    return error_set(err, ERR_CommandNotSupported,
                     "renaming a collection into another database (%s to %s) is not "
                     "supported",
                     from, to);
  }
  struct ddl d;
  if (!node_writable_namespace(r, to, err) || !ddl_begin(&d, r, from, err) ||
      !ddl_rename(&d, from, to, doc_bool(r->body, "dropTarget", false), err)) {
    return false;
  }
  node_write_concern(r, d.index, reply);
  return true;
}

bool coll_mod_run(struct request *r, bson_t *reply, struct error *err) {
  static const char *const options[] = {"index",
                                        "validator",
                                        "validationLevel",
                                        "validationAction",
                                        "viewOn",
                                        "pipeline",
                                        "cappedSize",
                                        "cappedMax",
                                        "timeseries",
                                        "expireAfterSeconds",
                                        "changeStreamPreAndPostImages",
                                        NULL};
  if (!request_needs_collection(r, err)) return false;
  for (size_t i = 0; options[i]; i++) {
    if (!doc_has(r->body, options[i])) continue;
    return error_set(err, ERR_CommandNotSupported, "collMod option '%s' is not supported", options[i]);
  }
  if (store_collection(request_node(r)->store, r->ns)) return true;
  return error_set(err, ERR_NamespaceNotFound, "ns does not exist: %s", r->ns);
}

// --- indexes ---

static bool create_for_indexes(struct request *r, struct ddl *d, bool *created, struct error *err) {
  struct node *n = request_node(r);
  *created = false;
  if (store_collection(n->store, r->ns)) return true;
  if (n->hooks.may_create && !n->hooks.may_create(r->op, n->hooks.ctx, r, r->ns, err)) return false;
  if (store_collection(n->store, r->ns)) return true;
  *created = ddl_create(d, &(struct collection_spec){.ns = r->ns}, err);
  if (*created || err->code != ERR_NamespaceExists) return *created;
  *err = (struct error){0};
  return true;
}

bool create_indexes_run(struct request *r, bson_t *reply, struct error *err) {
  const bson_t *specs;
  struct ddl d;
  bool created;
  struct create_indexes_result done;
  if (!request_needs_collection(r, err) || !optional_doc(r->op->arena, r->body, "indexes", true, &specs, err)) {
    return false;
  }
  if (!specs)
    return error_set(err, ERR_NoSuchKey, "BSON field 'createIndexes.indexes' is missing but a required field");
  if (!ddl_begin(&d, r, r->ns, err) || !create_for_indexes(r, &d, &created, err) ||
      !ddl_create_indexes(&d, r->ns, specs, &done, err)) {
    return false;
  }
  BSON_APPEND_INT32(reply, "numIndexesBefore", done.before);
  BSON_APPEND_INT32(reply, "numIndexesAfter", done.after);
  BSON_APPEND_BOOL(reply, "createdCollectionAutomatically", created);
  if (done.all_existed) BSON_APPEND_UTF8(reply, "note", "all indexes already exist");
  if (d.index) node_write_concern(r, d.index, reply);
  return true;
}

bool drop_indexes_run(struct request *r, bson_t *reply, struct error *err) {
  bson_iter_t it;
  struct ddl d;
  int32_t n_was;
  if (!request_needs_collection(r, err)) return false;
  if (!doc_get(r->body, "index", &it)) {
    return error_set(err, ERR_NoSuchKey, "BSON field 'dropIndexes.index' is missing but a required field");
  }
  bson_value_t which = *bson_iter_value(&it);
  if (!ddl_begin(&d, r, r->ns, err) || !ddl_drop_indexes(&d, r->ns, &which, &n_was, err)) return false;
  BSON_APPEND_INT32(reply, "nIndexesWas", n_was);
  struct collection *c = store_collection(d.node->store, r->ns);
  if (which.value_type == BSON_TYPE_UTF8 && !strcmp(which.value.v_utf8.str, "*") && c) {
    BSON_APPEND_UTF8(reply, "msg",
                     bson_empty(c->shard_key) ? "non-_id indexes dropped for collection"
                                              : "non-_id indexes and non-shard key indexes dropped for collection");
  }
  if (d.index) node_write_concern(r, d.index, reply);
  return true;
}

const struct command node_ddl_commands[] = {
    {"create", NULL, CMD_WRITE | CMD_VERSIONED, create_run, "creates a collection"},
    {"drop", NULL, CMD_WRITE | CMD_VERSIONED, drop_run, "drops a collection"},
    {"dropDatabase", NULL, CMD_WRITE | CMD_VERSIONED, drop_database_run, "drops a database"},
    {"renameCollection", NULL, CMD_WRITE | CMD_ADMIN_ONLY, rename_collection_run, "renames a collection"},
    {"collMod", NULL, CMD_WRITE | CMD_VERSIONED, coll_mod_run, "changes a collection's options"},
    {"createIndexes", NULL, CMD_WRITE | CMD_VERSIONED, create_indexes_run,
     "creates indexes and waits until they are built"},
    {"dropIndexes", "deleteIndexes", CMD_WRITE | CMD_VERSIONED, drop_indexes_run, "drops indexes"},
    {"listIndexes", NULL, CMD_READ | CMD_VERSIONED, list_indexes_run, "the indexes of a collection"},
    {"listCollections", NULL, CMD_READ, list_collections_run, "the collections of a database"},
    {"listDatabases", NULL, CMD_READ | CMD_ADMIN_ONLY, list_databases_run, "all databases with their sizes"},
    {0},
};
