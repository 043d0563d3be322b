// Switches of a collection: configureCollectionBalancing and setAllowMigrations.
#include "common/bson/doc.h"
#include "configsvr/balancer.h"
#include "configsvr/chunk_commands.h"
#include "configsvr/commands.h"

static bool read_doc(struct commit *c, const char *ns, struct collection_type *coll, const bson_t **doc,
                     const char *otherwise, struct error *err) {
  bool found;
  if (!catalog_read_collection(c->cs, c->arena, ns, coll, &found, err)) return false;
  if (!found) return error_set(err, ERR_NamespaceNotSharded, "%s", otherwise);
  catalog_read_doc(c->cs, c->arena, "config.collections", ns, doc);
  return true;
}

// --- configureCollectionBalancing ---

struct configure {
  const char *ns;
  bool has_size, has_auto_merge, has_balancing;
  double size_mb;
  bool auto_merge, balancing;
};

static bool commit_configure(struct commit *c, void *args, struct error *err) {
  const struct configure *x = args;
  struct collection_type coll;
  const bson_t *doc;
  static const char *const max_size[] = {"maxChunkSizeBytes", NULL};
  if (!read_doc(c, x->ns, &coll, &doc, arena_printf(c->arena, "Expected collection %s to be sharded", x->ns), err))
    return false;
  bson_t *set = arena_bson(c->arena), *details = arena_bson(c->arena);
  if (x->has_size) {
    if (x->size_mb > 0) bson_append_int64(set, "maxChunkSizeBytes", -1, (int64_t)(x->size_mb * 1024 * 1024));
    bson_append_double(details, "chunkSizeMB", -1, x->size_mb);
  }
  if (x->has_auto_merge) bson_append_bool(set, "enableAutoMerge", -1, x->auto_merge);
  if (x->has_balancing) bson_append_bool(set, "noBalance", -1, !x->balancing);
  const bson_t *changed = doc_with(c->arena, doc, set, x->has_size && !(x->size_mb > 0) ? max_size : NULL);
  return commit_put(c, "config.collections", changed, err) && chunk_bump_newest(c, &coll, err) &&
         commit_log(c, "configureCollectionBalancing", x->ns, details, err);
}

static bool parse_configure(struct request *r, struct configure *x, struct error *err) {
  bson_iter_t it;
  if (doc_get(r->body, "chunkSize", &it)) {
    if (!iter_is_number(&it)) return error_set(err, ERR_TypeMismatch, "chunkSize must be a number (MB)");
    x->has_size = true;
    x->size_mb = doc_double(r->body, "chunkSize", 0);
    if (x->size_mb != 0 && !(x->size_mb >= 1 && x->size_mb <= 1024)) {
      return error_set(err, ERR_InvalidOptions, "Chunk size '%g' out of range [1MB, 1GB]", x->size_mb);
    }
  }
  if (doc_bool(r->body, "defragmentCollection", false)) {
    return error_set(err, ERR_CommandNotSupported,
                     "defragmentCollection is not implemented: mergeAllChunksOnShard merges chunks");
  }
  x->has_auto_merge = doc_has(r->body, "enableAutoMerger");
  x->auto_merge = doc_bool(r->body, "enableAutoMerger", true);
  x->has_balancing = doc_has(r->body, "enableBalancing");
  x->balancing = doc_bool(r->body, "enableBalancing", true);
  return true;
}

bool config_configure_collection_balancing(struct request *r, bson_t *reply, struct error *err) {
  struct configure x = {0};
  if (!request_namespace(r, &x.ns, err) || !parse_configure(r, &x, err) ||
      !commit_run(r->op, config_of(r), chunk_namespaces, 2, commit_configure, &x, err)) {
    return false;
  }
  balancer_wake(config_of(r)->balancer);
  return true;
}

// --- setAllowMigrations ---

struct allow {
  const char *ns;
  bool allowed;
};

static bool commit_allow(struct commit *c, void *args, struct error *err) {
  const struct allow *x = args;
  struct collection_type coll;
  const bson_t *doc;
  static const char *const permit[] = {"permitMigrations", NULL};
  if (!read_doc(c, x->ns, &coll, &doc, "Collection must be sharded so migrations can be blocked", err)) return false;
  if (coll.permit_migrations == x->allowed) return true;
  bson_t *set = arena_bson(c->arena), *details = arena_bson(c->arena);
  if (!x->allowed) bson_append_bool(set, "permitMigrations", -1, false);
  bson_append_bool(details, "permitMigrations", -1, x->allowed);
  return commit_put(c, "config.collections", doc_with(c->arena, doc, set, x->allowed ? permit : NULL), err) &&
         chunk_bump_newest(c, &coll, err) && commit_log(c, "setPermitMigrations", x->ns, details, err);
}

bool config_set_allow_migrations(struct request *r, bson_t *reply, struct error *err) {
  struct allow x = {0};
  bson_iter_t it;
  if (!request_namespace(r, &x.ns, err)) return false;
  if (!doc_get(r->body, "allowMigrations", &it) || !BSON_ITER_HOLDS_BOOL(&it)) {
    return error_set(err, ERR_TypeMismatch, "allowMigrations must be true or false");
  }
  x.allowed = bson_iter_bool(&it);
  return commit_run(r->op, config_of(r), chunk_namespaces, 2, commit_allow, &x, err);
}
