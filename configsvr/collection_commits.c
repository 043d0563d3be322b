// The config server's part of creating, dropping and renaming collections: what the database's primary shard, which
// leads them, commits in one entry. Repeated commits (the leader may be a successor that goes on) are answered as
// before.
#include <string.h>

#include "common/base/clock.h"
#include "common/bson/doc.h"
#include "configsvr/chunk_commands.h"
#include "configsvr/collection_parts.h"
#include "configsvr/commands.h"

static const char *const collection_namespaces[] = {"config.collections", "config.chunks", "config.tags",
                                                    "config.databases", "config.shards"};
enum { N_NAMESPACES = 5 };

// --- create ---

struct create {
  const char *ns;
  struct collection_type coll; // epoch and timestamp are made here
  struct new_chunk *chunks;
  size_t n;
  bool has_db_version;
  struct database_version db_version;
  struct chunk_version version; // result
};

static bool parse_create(struct request *r, struct create *x, struct error *err) {
  struct arena *a = r->op->arena;
  bson_t view;
  if (!request_namespace(r, &x->ns, err) || !request_copy_doc(r, "key", &x->coll.key, err)) return false;
  if (!doc_uuid(r->body, "uuid", x->coll.uuid)) return error_set(err, ERR_BadValue, "uuid must be a UUID");
  x->coll.ns = x->ns;
  x->coll.unique = doc_bool(r->body, "unique", false);
  x->coll.unsplittable = doc_bool(r->body, "unsplittable", false);
  x->coll.allow_migrations = x->coll.permit_migrations = true;
  if (doc_doc(r->body, "defaultCollation", &view) && !bson_empty(&view)) {
    x->coll.default_collation = doc_copy(a, &view);
  }
  if (doc_doc(r->body, "dbVersion", &view)) {
    x->has_db_version = true;
    if (!database_version_parse(&view, &x->db_version, err)) return false;
  }
  return parse_new_chunks(r, a, x->coll.key, &x->chunks, &x->n, err);
}

static bool check_database(struct commit *c, const struct create *x, struct error *err) {
  struct database_type d;
  bool found;
  const char *db = namespace_database(c->arena, x->ns);
  if (strcmp(db, "config") == 0) return true; // config.system.sessions: the database config has no entry
  if (!catalog_read_database(c->cs, c->arena, db, &d, &found, err)) return false;
  if (!found) return error_set(err, ERR_NamespaceNotFound, "database %s not found", db);
  if (!x->has_db_version || database_version_equal(&d.version, &x->db_version)) return true;
  return error_stale_db_version(err, c->arena, db, &x->db_version, &d.version);
}

static bool same_options(const struct collection_type *have, const struct collection_type *want) {
  bool same_collation = !have->default_collation == !want->default_collation &&
                        (!have->default_collation || bson_equal(have->default_collation, want->default_collation));
  return shard_key_equal_patterns(have->key, want->key) && have->unique == want->unique && same_collation &&
         have->unsplittable == want->unsplittable;
}

static bool refuse_existing(struct commit *c, const struct create *x, const struct collection_type *have,
                            struct error *err) {
  return error_set(err, ERR_AlreadyInitialized,
                   "Collection '%s' already exists with a differnt shard key. Requested %s but found %s", x->ns,
                   doc_text(c->arena, x->coll.key), doc_text(c->arena, have->key));
}

static bool commit_create(struct commit *c, void *args, struct error *err) {
  struct create *x = args;
  struct collection_type have;
  bool found;
  if (!catalog_read_collection(c->cs, c->arena, x->ns, &have, &found, err)) return false;
  if (found) {
    bool same_uuid = memcmp(have.uuid, x->coll.uuid, 16) == 0;
    if (same_uuid && same_options(&have, &x->coll)) {
      x->version = collection_version(c->cs, c->arena, &have);
      return true;
    }
    // A tracked unsharded collection may become a sharded one; its one chunk is replaced.
    if (!same_uuid || !have.unsplittable || x->coll.unsplittable) return refuse_existing(c, x, &have, err);
    if (!delete_some_chunks(c, have.uuid, CHUNKS_PER_ENTRY, NULL, err)) return false;
  }
  if (!check_database(c, x, err)) return false;
  bson_oid_init(&x->coll.epoch, NULL);
  x->coll.timestamp = c->now;
  x->coll.lastmod_ms = clock_wall_ms();
  return put_collection(c, &x->coll, x->chunks, x->n, &x->version, err);
}

bool config_commit_create_collection(struct request *r, bson_t *reply, struct error *err) {
  struct create x = {0};
  if (!parse_create(r, &x, err) ||
      !commit_run(r->op, config_of(r), collection_namespaces, N_NAMESPACES, commit_create, &x, err)) {
    return false;
  }
  doc_append_uuid(reply, "collectionUUID", x.coll.uuid);
  chunk_version_append(reply, "collectionVersion", &x.version);
  return true;
}

// --- drop ---

struct drop {
  struct config_server *cs;
  const char *ns;
  bool has_uuid, more;
  uint8_t uuid[16];
};

// The first entry takes the collection's document away, and with it the collection; rows of config.chunks that are left
// for later ones belong to nobody.
static bool commit_drop(struct commit *c, void *args, struct error *err) {
  struct drop *x = args;
  struct collection_type have;
  bool found;
  x->more = false;
  if (!catalog_read_collection(c->cs, c->arena, x->ns, &have, &found, err)) return false;
  bool is_it = found && (!x->has_uuid || memcmp(have.uuid, x->uuid, 16) == 0);
  if (found && !is_it) return true; // another incarnation has the name
  if (is_it) {
    memcpy(x->uuid, have.uuid, 16);
    x->has_uuid = true;
    if (!commit_delete_str(c, "config.collections", x->ns, err) || !delete_tags(c, x->ns, err) ||
        !commit_placement(c, x->ns, have.uuid, NULL, 0, err)) {
      return false;
    }
  } else if (!delete_tags(c, x->ns, err)) {
    return false;
  }
  return !x->has_uuid || delete_some_chunks(c, x->uuid, CHUNKS_PER_ENTRY, &x->more, err);
}

// Ends: each step deletes rows that nobody adds to.
static bool drop_step(struct operation *op, void *ctx, bool *more, struct error *err) {
  struct drop *x = ctx;
  if (!commit_run(op, x->cs, collection_namespaces, N_NAMESPACES, commit_drop, x, err)) return false;
  *more = x->more;
  return true;
}

bool config_commit_drop_collection(struct request *r, bson_t *reply, struct error *err) {
  struct drop x = {.cs = config_of(r)};
  if (!request_namespace(r, &x.ns, err)) return false;
  x.has_uuid = doc_uuid(r->body, "uuid", x.uuid);
  return op_in_batches(r->op, drop_step, &x, err); // a million chunks pass here
}

// --- rename ---

struct rename {
  const char *from, *to;
  bool has_uuid, drop_target;
  uint8_t uuid[16];
};

static bool take_target_away(struct commit *c, const struct rename *x, const struct collection_type *from, bool *done,
                             struct error *err) {
  struct collection_type to;
  bool found;
  *done = false;
  if (!catalog_read_collection(c->cs, c->arena, x->to, &to, &found, err)) return false;
  if (!found) return true;
  if (!from && x->has_uuid && memcmp(to.uuid, x->uuid, 16) == 0) { // repeated
    *done = true;
    return true;
  }
  if (!x->drop_target) return error_set(err, ERR_NamespaceExists, "target namespace %s exists", x->to);
  return commit_delete_str(c, "config.collections", x->to, err) && delete_tags(c, x->to, err) &&
         delete_some_chunks(c, to.uuid, CHUNKS_PER_ENTRY, NULL, err) &&
         commit_placement(c, x->to, to.uuid, NULL, 0, err);
}

static bool commit_rename(struct commit *c, void *args, struct error *err) {
  const struct rename *x = args;
  struct collection_type coll;
  bool found, done;
  if (!catalog_read_collection(c->cs, c->arena, x->from, &coll, &found, err)) return false;
  if (found && x->has_uuid && memcmp(coll.uuid, x->uuid, 16) != 0) {
    return error_set(err, ERR_CollectionUUIDMismatch, "Collection UUID does not match that specified");
  }
  if (!take_target_away(c, x, found ? &coll : NULL, &done, err)) return false;
  if (done || !found) return true; // neither is tracked: nothing to rename here
  coll.ns = x->to;
  bson_oid_init(&coll.epoch, NULL);
  coll.timestamp = c->now;
  coll.lastmod_ms = clock_wall_ms();
  return commit_delete_str(c, "config.collections", x->from, err) &&
         commit_put(c, "config.collections", collection_type_doc(c->arena, &coll), err) &&
         rename_tags(c, x->from, x->to, err);
}

bool config_commit_rename_collection(struct request *r, bson_t *reply, struct error *err) {
  struct rename x = {0};
  // The first field may be 1 with `from` beside it, or the source itself.
  x.from = doc_str(r->body, "from", r->coll);
  if (!x.from) return error_set(err, ERR_InvalidNamespace, "%s needs the source's namespace", r->name);
  if (!request_required_str(r, "to", &x.to, err) || !namespace_valid(x.from, err) || !namespace_valid(x.to, err))
    return false;
  x.has_uuid = doc_uuid(r->body, "uuid", x.uuid);
  x.drop_target = doc_bool(r->body, "dropTarget", false);
  return commit_run(r->op, config_of(r), collection_namespaces, N_NAMESPACES, commit_rename, &x, err);
}

// --- moveCollection: another uuid takes the name ---

struct swap {
  const char *ns, *to;
  bool has_old;
  uint8_t old_uuid[16], new_uuid[16];
  const bson_t *key;
  struct chunk_version version; // result
};

static bool commit_swap(struct commit *c, void *args, struct error *err) {
  struct swap *x = args;
  struct collection_type coll;
  struct shard_type shard;
  bool found;
  if (!catalog_read_collection(c->cs, c->arena, x->ns, &coll, &found, err)) return false;
  if (found && memcmp(coll.uuid, x->new_uuid, 16) == 0) {
    x->version = collection_version(c->cs, c->arena, &coll);
    return true;
  }
  if (found && (!coll.unsplittable || (x->has_old && memcmp(coll.uuid, x->old_uuid, 16) != 0))) {
    return error_set(err, ERR_ConflictingOperationInProgress, "Collection %s has changed since its move began", x->ns);
  }
  if (!catalog_need_shard(c->cs, c->arena, x->to, &shard, err)) return false;
  if (shard.draining) return error_set(err, ERR_ShardNotFound, "Shard %s is draining", x->to);
  if (found && !delete_some_chunks(c, coll.uuid, CHUNKS_PER_ENTRY, NULL, err)) return false;
  if (!found) coll = (struct collection_type){.ns = x->ns, .allow_migrations = true, .permit_migrations = true};
  coll.key = x->key;
  coll.unsplittable = true;
  memcpy(coll.uuid, x->new_uuid, 16);
  bson_oid_init(&coll.epoch, NULL);
  coll.timestamp = c->now;
  coll.lastmod_ms = clock_wall_ms();
  struct new_chunk one;
  return whole_key_space(c->arena, x->key, x->to, &one, err) && put_collection(c, &coll, &one, 1, &x->version, err);
}

bool config_commit_move_collection(struct request *r, bson_t *reply, struct error *err) {
  struct swap x = {0};
  if (!request_namespace(r, &x.ns, err) || !request_required_str(r, "toShard", &x.to, err) ||
      !request_copy_doc(r, "key", &x.key, err)) {
    return false;
  }
  x.has_old = doc_uuid(r->body, "oldUuid", x.old_uuid);
  if (!doc_uuid(r->body, "newUuid", x.new_uuid)) return error_set(err, ERR_BadValue, "newUuid must be a UUID");
  if (!commit_run(r->op, config_of(r), collection_namespaces, N_NAMESPACES, commit_swap, &x, err)) return false;
  chunk_version_append(reply, "collectionVersion", &x.version);
  return true;
}
