// The checks of shardCollection, with MongoDB's texts.
#include "shardd/shard_collection_checks.h"

#include <string.h>

#include "common/bson/compare.h"
#include "common/bson/doc.h"
#include "shardd/local_collection.h"
#include "shardd/migration_documents.h"
#include "shardd/shard_index.h"

// --- the request ---

static bool collation_is_simple(const struct request *r, struct error *err) {
  bson_t collation;
  if (!doc_doc(r->body, "collation", &collation) || bson_empty(&collation) ||
      !strcmp(doc_str(&collation, "locale", ""), "simple"))
    return true;
  return error_set(err, ERR_BadValue, "The collation for shardCollection must be {locale: 'simple'}, but found: %s",
                   doc_text(r->op->arena, &collation));
}

static bool may_be_sharded(const struct request *r, struct error *err) {
  bool system =
      !strncmp(r->coll, "system.", 7) || !strcmp(r->db, "config") || !strcmp(r->db, "admin") || !strcmp(r->db, "local");
  return !system || error_set(err, ERR_IllegalOperation, "can't shard system namespaces");
}

bool shard_collection_parse(struct request *r, struct shard_collection *out, struct error *err) {
  struct arena *a = r->op->arena;
  bson_t key;
  *out = (struct shard_collection){.ns = r->ns};
  if (!may_be_sharded(r, err) || !request_required_doc(r, "shardKey", &key, err) ||
      !shard_key_parse(a, &key, &out->key, err) || !collation_is_simple(r, err))
    return false;
  out->unique = doc_bool(r->body, "unique", false);
  out->presplit_hashed_zones = doc_bool(r->body, "presplitHashedZones", false);
  out->implicitly_create_index = doc_bool(r->body, "implicitlyCreateIndex", true);
  out->enforce_uniqueness_check = doc_bool(r->body, "enforceUniquenessCheck", true);
  out->has_expected_uuid = doc_uuid(r->body, "collectionUUID", out->expected_uuid);
  out->has_db_version = r->has_database_version;
  if (out->has_db_version && !database_version_parse(&r->database_version, &out->db_version, err)) return false;
  if (out->unique && out->key.hashed >= 0)
    return error_set(err, ERR_InvalidOptions,
                     "Hashed shard keys cannot be declared unique. It's possible to ensure "
                     "uniqueness on the hashed field by declaring an additional (non-hashed) "
                     "unique index on the field.");
  return true;
}

// --- what is tracked already ---

bool shard_collection_check_tracked(struct arena *a, const struct shard *sh, struct shard_collection *x,
                                    const struct routing *r, bool *done, struct error *err) {
  *done = false;
  if (!r->tracked) return true;
  if (r->collection.unsplittable) {
    struct chunk c;
    chunk_map_find(r->chunks, bound_key(a, shard_key_global_min(chunk_map_key(r->chunks), a)), &c);
    if (!strcmp(c.shard, sh->name)) return true; // it is here: its one chunk is replaced
    return error_set(err, ERR_IllegalOperation,
                     "Collection %s lives on shard %s: move it to its database's primary shard %s with moveCollection "
                     "before it is sharded",
                     x->ns, c.shard, sh->name);
  }
  if (!shard_key_equal_patterns(r->collection.key, x->key.pattern) || r->collection.unique != x->unique)
    return error_set(err, ERR_AlreadyInitialized,
                     "Collection '%s' already exists with a differnt shard key. Requested %s but found %s", x->ns,
                     doc_text(a, x->key.pattern), doc_text(a, r->collection.key));
  *done = true;
  x->version = chunk_map_version(r->chunks);
  memcpy(x->uuid, r->collection.uuid, 16);
  return true;
}

// --- the collection ---

static bool check_options(const struct shard_collection *x, const struct collection *c, struct error *err) {
  if (doc_has(c->options, "viewOn"))
    return error_set(err, ERR_CommandNotSupportedOnView, "Namespace %s is a view, not a collection", x->ns);
  if (doc_bool(c->options, "capped", false))
    return error_set(err, ERR_InvalidOptions, "can't shard a capped collection");
  if (x->has_expected_uuid && memcmp(x->expected_uuid, c->uuid, 16) != 0)
    return error_set(err, ERR_CollectionUUIDMismatch, "Collection UUID does not match that specified");
  return true;
}

// Uniqueness can only be kept within a shard: every unique index must begin with the shard key.
static bool check_unique_indexes(struct arena *a, const struct shard_collection *x, const struct collection *c,
                                 struct error *err) {
  for (size_t i = 1; x->enforce_uniqueness_check && i < c->n_indexes; i++) {
    const struct index *index = c->indexes[i];
    if (!index->unique || shard_key_prefix_of(&x->key, index->key)) continue;
    return error_set(
        err, ERR_InvalidOptions,
        "can't shard collection '%s' with unique index on %s and proposed shard key %s. Uniqueness can't be "
        "maintained unless shard key is a prefix",
        x->ns, doc_text(a, index->key), doc_text(a, x->key.pattern));
  }
  return true;
}

static bool check_uniqueness_of(const struct shard_collection *x, const struct index *i, struct error *err) {
  bool is_id = i->id == 0; // unique by nature
  if (!x->unique || i->unique || is_id) return true;
  return error_set(
      err, ERR_InvalidOptions,
      "can't shard collection '%s' with the unique option: the index %s that serves the shard key is not unique", x->ns,
      i->name);
}

static bool make_index(struct operation *op, struct shard *sh, struct shard_collection *x, struct error *err) {
  if (!x->implicitly_create_index)
    return error_set(err, ERR_InvalidOptions,
                     "Please create an index that starts with the proposed shard key before "
                     "sharding the collection. ");
  x->created = true;
  return local_create_index(op, sh, x->ns, x->key.pattern, x->unique, err);
}

static bool check_index(struct operation *op, struct shard *sh, struct shard_collection *x, const struct collection *c,
                        struct error *err) {
  struct buf why __attribute__((cleanup(buf_cleanup))) = {0};
  const struct index *i = shard_index_find(c, &x->key, &why);
  if (i) return check_uniqueness_of(x, i, err);
  if (x->empty) return make_index(op, sh, x, err);
  return error_set(err, ERR_InvalidOptions,
                   "Please create an index that starts with the proposed shard key before sharding the collection. %s",
                   buf_str(&why));
}

bool shard_collection_prepare(struct operation *op, struct shard *sh, struct shard_collection *x, struct error *err) {
  struct collection *c = store_collection(sh->node.store, x->ns);
  if (!c) {
    struct ddl d = {.op = op, .node = &sh->node};
    if (x->has_expected_uuid)
      return error_set(err, ERR_CollectionUUIDMismatch, "Collection UUID does not match that specified");
    if (!ddl_create(&d, &(struct collection_spec){.ns = x->ns, .uuid = x->uuid}, err)) return false;
    x->created = true;
    c = store_collection(sh->node.store, x->ns);
  }
  if (!c || !check_options(x, c, err) || !check_unique_indexes(op->arena, x, c, err)) return false;
  struct collection_stats stats;
  collection_stats(c, &stats);
  x->empty = stats.count == 0;
  return check_index(op, sh, x, c, err);
}
