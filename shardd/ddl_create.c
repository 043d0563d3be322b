// shardCollection and create, on the database's primary shard (reference/commands.md 3.2, 3.3).
//
// Sharding a collection, in order; from step 3 on it only goes forward (unless the config server refuses):
//   1 critical section here, in memory: nobody changes what is looked at now.
//   2 checks: key, options, indexes, documents. Where there are no documents yet, collection and index are made.
//   3 {coordinator document, section document}: UUID, key and first chunks are decided.
//   4 the other shards that get chunks create the empty collection; the collection here gets its shard key.
//   5 config commit: collection and chunks in one entry.
//   6 metadata refreshed; {both documents removed}; the section ends.
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/bson/compare.h"
#include "common/bson/doc.h"
#include "common/sharding/initial_chunks.h"
#include "shardd/bson_array.h"
#include "shardd/change_log.h"
#include "shardd/critical_section.h"
#include "shardd/ddl_coordinator.h"
#include "shardd/local_collection.h"
#include "shardd/peer.h"
#include "shardd/shard_collection_checks.h"
#include "shardd/version_check.h"

#define TYPE "createCollection"

// --- the coordinator document ---

static const bson_t *make_document(struct arena *a, const struct shard_collection *x,
                                   const struct initial_chunk *chunks, size_t n) {
  bson_t *doc = ddl_document(a, x->ns, TYPE), list;
  doc_append_uuid(doc, "uuid", x->uuid);
  BSON_APPEND_DOCUMENT(doc, "shardKey", x->key.pattern);
  BSON_APPEND_BOOL(doc, "unique", x->unique);
  BSON_APPEND_BOOL(doc, "empty", x->empty);
  BSON_APPEND_BOOL(doc, "created", x->created);
  if (x->has_db_version) database_version_append(doc, "dbVersion", &x->db_version);
  BSON_APPEND_ARRAY_BEGIN(doc, "chunks", &list);
  struct bson_array out = {.bson = &list};
  for (size_t i = 0; i < n; i++) {
    bson_t *chunk = arena_bson(a);
    BSON_APPEND_DOCUMENT(chunk, "min", chunks[i].min);
    BSON_APPEND_DOCUMENT(chunk, "max", chunks[i].max);
    BSON_APPEND_UTF8(chunk, "shard", chunks[i].shard);
    bson_array_add(&out, chunk);
  }
  bson_append_array_end(doc, &list);
  return doc;
}

// The shards that the document's chunks are on, but for this one.
static void other_owners(struct arena *a, const struct shard *sh, const bson_t *doc, struct shard_list *out) {
  bson_t chunks;
  bson_iter_t it;
  *out = (struct shard_list){0};
  if (!doc_doc(doc, "chunks", &chunks)) return;
  out->names = arena_alloc(a, (bson_count_keys(&chunks) + 1) * sizeof *out->names);
  bson_iter_init(&it, &chunks);
  while (bson_iter_next(&it)) {
    bson_t chunk;
    iter_doc(&chunk, &it);
    const char *shard = doc_str(&chunk, "shard", "");
    bool known = !strcmp(shard, sh->name);
    for (size_t i = 0; i < out->n; i++) known |= !strcmp(out->names[i], shard);
    if (!known) out->names[out->n++] = arena_strdup(a, shard);
  }
}

// --- steps 4 to 6 ---

static bool create_on_others(struct operation *op, struct shard *sh, const char *ns, const bson_t *doc,
                             const struct collection *c, struct error *err) {
  struct shard_list others;
  bson_t key;
  other_owners(op->arena, sh, doc, &others);
  bson_t *plan = arena_bson(op->arena), *cmd = arena_bson(op->arena);
  collection_plan_append(plan, c);
  BSON_APPEND_UTF8(cmd, "_shardsvrCreateCollectionParticipant", ns);
  bson_copy_to_excluding_noinit(plan, cmd, "shardKey", NULL);
  if (doc_doc(doc, "shardKey", &key)) BSON_APPEND_DOCUMENT(cmd, "shardKey", &key);
  return ddl_call(op, sh, &others, cmd, err);
}

static bool tell_config(struct operation *op, struct shard *sh, const char *ns, const bson_t *doc,
                        const uint8_t uuid[16], struct chunk_version *version, struct error *err) {
  bson_t *cmd = arena_bson(op->arena), view;
  const bson_t *reply;
  BSON_APPEND_UTF8(cmd, "_configsvrCommitCreateCollection", ns);
  doc_append_uuid(cmd, "uuid", uuid);
  if (doc_doc(doc, "shardKey", &view)) BSON_APPEND_DOCUMENT(cmd, "key", &view);
  BSON_APPEND_BOOL(cmd, "unique", doc_bool(doc, "unique", false));
  if (doc_doc(doc, "chunks", &view)) doc_append_array(cmd, "chunks", &view);
  if (doc_doc(doc, "dbVersion", &view)) BSON_APPEND_DOCUMENT(cmd, "dbVersion", &view);
  append_majority(cmd);
  if (!config_call(op, sh, cmd, &reply, err)) return false;
  return doc_doc(reply, "collectionVersion", &view) && chunk_version_parse(&view, version, err);
}

static bool end_section(struct operation *op, struct shard *sh, const char *ns, const char *owner, struct error *err) {
  metadata_renew(op, sh->metadata, ns, "a collection was created");
  struct write *w = write_begin(op, sh->node.repl);
  bson_value_t section = value_str(ns), id;
  bson_t *doc = ddl_document(op->arena, ns, TYPE);
  doc_value(doc, "_id", &id);
  write_atomic(w);
  bool ok = local_delete(&sh->node, w, SECTIONS_NS, &section, err) && local_delete(&sh->node, w, DDL_NS, &id, err) &&
            write_commit(op, w, err);
  if (ok) section_leave(sh, ns, owner);
  return ok;
}

// Whether the config server has surely not committed, and will not.
static bool refused(const struct error *err) {
  return !error_is_network(err->code) && !error_is_retriable(err->code) && !error_is_interruption(err->code) &&
         err->code != ERR_FailedToSatisfyReadPreference;
}

// Takes back what step 4 did: no chunk was given to anyone.
static bool take_back(struct operation *op, struct shard *sh, const char *ns, const bson_t *doc, const uint8_t uuid[16],
                      struct error *err) {
  struct shard_list others;
  other_owners(op->arena, sh, doc, &others);
  bson_t *cmd = arena_bson(op->arena);
  BSON_APPEND_UTF8(cmd, "_shardsvrDropCollectionParticipant", ns);
  doc_append_uuid(cmd, "uuid", uuid);
  return ddl_call(op, sh, &others, cmd, err) &&
         local_collection_set_shard_key(op, sh, ns, uuid, arena_bson(op->arena), err);
}

static bool go_forward(struct operation *op, struct shard *sh, const char *ns, const bson_t *doc,
                       struct chunk_version *version, struct error *err) {
  uint8_t uuid[16];
  bson_t key;
  if (!doc_uuid(doc, "uuid", uuid) || !doc_doc(doc, "shardKey", &key)) return true;
  const char *owner = ddl_owner(op->arena, TYPE, uuid);
  const struct collection *c = store_collection_by_uuid(sh->node.store, uuid);
  bool done = c && create_on_others(op, sh, ns, doc, c, err) &&
              local_collection_set_shard_key(op, sh, ns, uuid, doc_copy(op->arena, &key), err) &&
              tell_config(op, sh, ns, doc, uuid, version, err);
  if (done) return end_section(op, sh, ns, owner, err);
  if (!c) error_set(err, ERR_NamespaceNotFound, "Collection %s is gone", ns);
  if (!refused(err)) return false;
  // What cannot be taken back now is the error then, lest a resumption believe that the operation is over.
  struct error why = {0};
  if ((c && !take_back(op, sh, ns, doc, uuid, &why)) || !end_section(op, sh, ns, owner, &why)) *err = why;
  return false;
}

bool ddl_resume_create(struct operation *op, struct shard *sh, const char *ns, const bson_t *doc, struct error *err) {
  struct chunk_version version;
  return go_forward(op, sh, ns, doc, &version, err) || refused(err);
}

// --- steps 1 to 3 ---

static bool first_chunks(struct operation *op, struct shard *sh, struct shard_collection *x,
                         struct initial_chunk **chunks, size_t *n, struct error *err) {
  struct arena *a = op->arena;
  bson_t *filter = arena_bson(a), *sort = arena_bson(a);
  const bson_t **docs;
  struct initial_chunks_spec spec = {
      .key = &x->key, .empty = x->empty, .primary = sh->name, .presplit_hashed_zones = x->presplit_hashed_zones};
  struct shard_type *shards;
  BSON_APPEND_UTF8(filter, "ns", x->ns);
  BSON_APPEND_INT32(sort, "min", 1);
  if (!catalog_load_shards(op, sh->config, &shards, &spec.n_shards, err) ||
      !catalog_find(op, sh->config, "tags", filter, sort, 0, &docs, &spec.n_zones, err))
    return false;
  struct tag_type *zones = arena_alloc(a, (spec.n_zones + 1) * sizeof *zones);
  for (size_t i = 0; i < spec.n_zones; i++)
    if (!tag_type_parse(a, docs[i], &zones[i], err)) return false;
  spec.shards = shards;
  spec.zones = zones;
  return initial_chunks(a, &spec, chunks, n, err);
}

static bool remember(struct operation *op, struct shard *sh, const struct shard_collection *x, const char *owner,
                     const bson_t *doc, struct error *err) {
  struct write *w = write_begin(op, sh->node.repl);
  write_atomic(w);
  return local_put(&sh->node, w, DDL_NS, doc, err) &&
         local_put(&sh->node, w, SECTIONS_NS, section_document(op->arena, x->ns, owner, owner, true), err) &&
         write_commit(op, w, err);
}

static void log_start(struct operation *op, struct shard *sh, const struct shard_collection *x) {
  bson_t *details = arena_bson(op->arena);
  BSON_APPEND_DOCUMENT(details, "shardKey", x->key.pattern);
  BSON_APPEND_UTF8(details, "collection", x->ns);
  BSON_APPEND_UTF8(details, "primary", sh->name);
  log_change(op, sh, "shardCollection.start", x->ns, details);
}

static void log_end(struct operation *op, struct shard *sh, const struct shard_collection *x,
                    const struct chunk_version *v, size_t n) {
  bson_t *details = arena_bson(op->arena);
  char epoch[25];
  bson_oid_to_string(&v->epoch, epoch);
  doc_append_uuid(details, "uuid", x->uuid);
  BSON_APPEND_UTF8(details, "placementVersion",
                   arena_printf(op->arena, "||%u|%u||%s||Timestamp(%u, %u)", v->major, v->minor, epoch,
                                (uint32_t)(v->timestamp >> 32), (uint32_t)v->timestamp));
  BSON_APPEND_BOOL(details, "empty", x->empty);
  doc_append_num(details, "numChunks", (int64_t)n);
  log_change(op, sh, "shardCollection.end", x->ns, details);
}

static bool shard_blocked(struct operation *op, struct shard *sh, struct shard_collection *x, const char *owner,
                          struct error *err) {
  struct initial_chunk *chunks;
  size_t n;
  if (!shard_collection_prepare(op, sh, x, err) || !first_chunks(op, sh, x, &chunks, &n, err)) {
    section_leave(sh, x->ns, owner);
    return false;
  }
  log_start(op, sh, x);
  const bson_t *doc = make_document(op->arena, x, chunks, n);
  if (!remember(op, sh, x, owner, doc, err)) {
    section_leave(sh, x->ns, owner);
    return false;
  }
  if (!go_forward(op, sh, x->ns, doc, &x->version, err)) {
    ddl_resume_soon(sh); // nothing to do where the config server refused
    return false;
  }
  log_end(op, sh, x, &x->version, n);
  return true;
}

static bool shard_it(struct operation *op, struct shard *sh, struct shard_collection *x, struct error *err) {
  struct routing *r;
  bool done = false;
  if (!metadata_load(op, sh->metadata, x->ns, &r, err)) return false;
  bool ok = shard_collection_check_tracked(op->arena, sh, x, r, &done, err);
  routing_unref(r);
  if (!ok || done) return ok;
  const struct collection *c = store_collection(sh->node.store, x->ns);
  if (c)
    memcpy(x->uuid, c->uuid, 16);
  else
    uuid_new(x->uuid);
  const char *owner = ddl_owner(op->arena, TYPE, x->uuid);
  return section_enter(op, sh, x->ns, owner, owner, true, err) && shard_blocked(op, sh, x, owner, err);
}

// --- create without a shard key ---

static bool own_field(const char *name) {
  static const char *const names[] = {"_shardsvrCreateCollection",
                                      "databaseVersion",
                                      "shardVersion",
                                      "shardKey",
                                      "unsplittable",
                                      "writeConcern",
                                      "lsid",
                                      "txnNumber",
                                      "maxTimeMS",
                                      NULL};
  for (size_t i = 0; names[i]; i++)
    if (!strcmp(names[i], name)) return true;
  return name[0] == '$';
}

// An ordinary collection is not tracked: it exists on this shard alone. The node's own command makes it.
static bool create_untracked(struct request *r, bson_t *reply, struct error *err) {
  struct shard *sh = shard_of(r);
  struct routing *known;
  if (!metadata_load(r->op, sh->metadata, r->ns, &known, err)) return false;
  bool tracked = known->tracked;
  routing_unref(known);
  if (tracked) return error_set(err, ERR_NamespaceExists, "namespace %s already exists", r->ns);
  bson_t *cmd = arena_bson(r->op->arena), *answer = arena_bson(r->op->arena);
  BSON_APPEND_UTF8(cmd, "create", r->coll);
  bson_iter_t it;
  bson_iter_init(&it, r->body);
  while (bson_iter_next(&it))
    if (!own_field(bson_iter_key(&it))) doc_append_iter(cmd, NULL, &it);
  return dispatch_local(sh->node.dispatcher, r->op, r->db, cmd, answer, err);
}

// --- the command ---

static bool create_collection(struct request *r, bson_t *reply, struct error *err) {
  struct shard *sh = shard_of(r);
  bson_t key;
  if (!request_needs_collection(r, err) || !shard_wait_recovered(r->op, sh, err) || !ddl_enter(r->op, sh, r->ns, err))
    return false;
  bool sharded = doc_doc(r->body, "shardKey", &key) && !doc_bool(r->body, "unsplittable", false);
  struct shard_collection x;
  bool ok = version_check_database(r->op, sh, r, r->db, err);
  if (ok && !sharded) ok = create_untracked(r, reply, err);
  if (ok && sharded) ok = shard_collection_parse(r, &x, err) && shard_it(r->op, sh, &x, err);
  ddl_leave(sh, r->ns);
  if (!ok || !sharded) return ok;
  doc_append_uuid(reply, "collectionUUID", x.uuid);
  chunk_version_append(reply, "collectionVersion", &x.version);
  return true;
}

const struct command shardd_create_commands[] = {
    {"_shardsvrCreateCollection", NULL, CMD_WRITE | CMD_INTERNAL, create_collection,
     "Creates a collection, or gives one a shard key."},
    {0},
};
