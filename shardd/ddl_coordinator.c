// Locks, documents and calls of DDL operations; taking them up again.
#include "shardd/ddl_coordinator.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/bson/doc.h"
#include "shardd/background.h"
#include "shardd/migrations.h"
#include "shardd/peer.h"

enum { RETRY_MS = 1000 };

struct database_lock {
  struct mutex mutex;
  size_t users; // holder and waiters
};

struct ddl_locks {
  struct map *databases; // name -> struct database_lock
  bool resuming, resume_again;
};

struct ddl_locks *ddl_locks_new(void) {
  struct ddl_locks *l = calloc(1, sizeof *l);
  l->databases = map_new();
  return l;
}

void ddl_locks_free(struct ddl_locks *l) {
  if (!l) return;
  map_free(l->databases, free);
  free(l);
}

const char *ddl_owner(struct arena *a, const char *type, const uint8_t uuid[16]) {
  char text[37];
  uuid_text(uuid, text);
  return arena_printf(a, "%s/%s", type, text);
}

// --- locks ---

static void drop_user(struct ddl_locks *l, const char *db, struct database_lock *d) {
  if (--d->users > 0) return;
  map_removes(l->databases, db);
  free(d);
}

static bool lock_database(struct operation *op, struct ddl_locks *l, const char *db, struct error *err) {
  struct database_lock *d = map_gets(l->databases, db);
  if (!d) {
    d = calloc(1, sizeof *d);
    map_puts(l->databases, db, d);
  }
  d->users++;
  if (mutex_lock(op, &d->mutex, err)) return true;
  drop_user(l, db, d);
  return false;
}

static void unlock_database(struct ddl_locks *l, const char *db) {
  struct database_lock *d = map_gets(l->databases, db);
  if (!d) return;
  mutex_unlock(&d->mutex);
  drop_user(l, db, d);
}

// --- documents ---

static void append_id(bson_t *doc, const char *ns, const char *type) {
  bson_t id;
  BSON_APPEND_DOCUMENT_BEGIN(doc, "_id", &id);
  BSON_APPEND_UTF8(&id, "namespace", ns);
  BSON_APPEND_UTF8(&id, "operationType", type);
  bson_append_document_end(doc, &id);
}

bson_t *ddl_document(struct arena *a, const char *ns, const char *type) {
  bson_t *doc = arena_bson(a);
  append_id(doc, ns, type);
  return doc;
}

bool ddl_remember(struct operation *op, struct shard *sh, const bson_t *doc, struct error *err) {
  return local_put_now(op, &sh->node, DDL_NS, doc, err);
}

bool ddl_forget(struct operation *op, struct shard *sh, const char *ns, const char *type, struct error *err) {
  bson_t *doc = ddl_document(op->arena, ns, type);
  bson_value_t id;
  doc_value(doc, "_id", &id);
  return local_delete_now(op, &sh->node, DDL_NS, &id, err);
}

struct kind {
  const char *type;
  bool (*resume)(struct operation *op, struct shard *sh, const char *ns, const bson_t *doc, struct error *err);
};

static const struct kind kinds[] = {
    {"createCollection", ddl_resume_create},    {"dropCollection", ddl_resume_drop},
    {"dropDatabase", ddl_resume_drop_database}, {"renameCollection", ddl_resume_rename},
    {"moveCollection", ddl_resume_move},
};

static bool resume_one(struct operation *op, struct shard *sh, const bson_t *doc, struct error *err) {
  bson_t id;
  if (!doc_doc(doc, "_id", &id)) return true;
  const char *ns = doc_str(&id, "namespace", ""), *type = doc_str(&id, "operationType", "");
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (!strcmp(kinds[i].type, type)) return kinds[i].resume(op, sh, ns, doc, err);
  log_warn("SHARDING", "A DDL operation of an unknown type is left alone", "type:s namespace:s", type, ns);
  return true;
}

// Those on ns: completed before another one begins there.
static bool finish_earlier(struct operation *op, struct shard *sh, const char *ns, struct error *err) {
  bson_t *filter = arena_bson(op->arena);
  BSON_APPEND_UTF8(filter, "_id.namespace", ns);
  const bson_t **docs;
  size_t n = local_find(&sh->node, op->arena, DDL_NS, filter, NULL, 0, &docs);
  for (size_t i = 0; i < n; i++)
    if (!resume_one(op, sh, docs[i], err)) return error_prefix(err, "An earlier operation on %s is not finished", ns);
  return true;
}

bool ddl_enter(struct operation *op, struct shard *sh, const char *ns, struct error *err) {
  const char *db = namespace_database(op->arena, ns);
  if (!lock_database(op, sh->ddl_locks, db, err)) return false;
  if (migrations_hold(op, sh->migrations, ns, true, err)) {
    if (finish_earlier(op, sh, ns, err)) return true;
    migrations_release(sh->migrations, ns);
  }
  unlock_database(sh->ddl_locks, db);
  return false;
}

void ddl_leave(struct shard *sh, const char *ns) {
  struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
  migrations_release(sh->migrations, ns);
  unlock_database(sh->ddl_locks, namespace_database(a, ns));
}

// --- taking up ---

static bool resume_all(struct operation *op, struct shard *sh, struct error *err) {
  const bson_t **docs;
  size_t n = local_find(&sh->node, op->arena, DDL_NS, arena_bson(op->arena), NULL, 0, &docs);
  for (size_t i = 0; i < n; i++) {
    bson_t id;
    const char *ns = doc_doc(docs[i], "_id", &id) ? doc_str(&id, "namespace", NULL) : NULL;
    if (!ns) continue;
    if (!ddl_enter(op, sh, ns, err)) return false; // completes it
    ddl_leave(sh, ns);
  }
  return true;
}

static void resume(struct operation *op, void *shard) {
  struct shard *sh = shard;
  struct ddl_locks *l = sh->ddl_locks;
  struct error err = {0};
  do {
    l->resume_again = false;
    if (resume_all(op, sh, &err)) continue;
    log_warn("SHARDING", "Resuming DDL operations failed and is tried again", "error:e", &err);
    l->resume_again = op_sleep(op, RETRY_MS, &err);
    arena_reset(op->arena);
    err = (struct error){0};
  } while (l->resume_again && op_check(op, &err));
  l->resuming = false;
}

void ddl_resume_soon(struct shard *sh) {
  struct ddl_locks *l = sh->ddl_locks;
  l->resume_again = true;
  if (l->resuming || sh->stopping) return;
  l->resuming = true;
  background_start(sh, "resumeDDL", resume, sh);
}

// --- shards ---

bool ddl_all_shards(struct operation *op, struct shard *sh, struct shard_list *out, struct error *err) {
  struct shard_type *shards;
  if (!shard_registry_all(op, sh->shards, true, &shards, &out->n, err)) return false;
  out->names = arena_alloc(op->arena, (out->n + 1) * sizeof *out->names);
  for (size_t i = 0; i < out->n; i++) out->names[i] = shards[i].name;
  return true;
}

struct collect {
  struct arena *a;
  struct shard_list *list;
};

static bool count_owner(void *ctx, const char *shard) {
  ++*(size_t *)ctx;
  return true;
}

static bool add_owner(void *ctx, const char *shard) {
  struct collect *c = ctx;
  c->list->names[c->list->n++] = arena_strdup(c->a, shard);
  return true;
}

void ddl_owners(struct arena *a, const struct routing *r, struct shard_list *out) {
  size_t n = 0;
  *out = (struct shard_list){0};
  if (!r->tracked) return;
  chunk_map_shards(r->chunks, count_owner, &n);
  out->names = arena_alloc(a, (n + 1) * sizeof *out->names);
  struct collect c = {.a = a, .list = out};
  chunk_map_shards(r->chunks, add_owner, &c);
}

struct calls {
  struct shard *sh;
  const struct shard_list *shards;
  const bson_t *cmd;
  struct error error; // the first one
};

static const char *first_name(const bson_t *cmd) {
  bson_iter_t it;
  return bson_iter_init(&it, cmd) && bson_iter_next(&it) ? bson_iter_key(&it) : "";
}

static void call_branch(struct operation *op, size_t i, void *ctx) {
  struct calls *c = ctx;
  struct error err = {0};
  if (peer_call(op, c->sh, c->shards->names[i], "admin", c->cmd, PEER_TIMEOUT_MS, true, NULL, &err)) return;
  if (err.code == ERR_ShardNotFound) return; // removed from the cluster: it has nothing to say in this any more
  error_prefix(&err, "Failed command %s on shard %s", first_name(c->cmd), c->shards->names[i]);
  if (!c->error.code) c->error = err;
}

bool ddl_call(struct operation *op, struct shard *sh, const struct shard_list *shards, const bson_t *cmd,
              struct error *err) {
  struct calls c = {.sh = sh, .shards = shards, .cmd = cmd};
  if (shards->n) op_parallel(op, shards->n, call_branch, &c);
  if (!c.error.code) return true;
  *err = c.error;
  return false;
}

bool ddl_block(struct operation *op, struct shard *sh, const struct shard_list *shards, const char *ns,
               const char *owner, bool block, struct error *err) {
  bson_t *cmd = arena_bson(op->arena);
  BSON_APPEND_UTF8(cmd, "_shardsvrParticipantBlock", ns);
  BSON_APPEND_UTF8(cmd, "blockType", block ? "ReadsAndWrites" : "Unblock");
  BSON_APPEND_UTF8(cmd, "reason", owner);
  append_majority(cmd);
  return ddl_call(op, sh, shards, cmd, err);
}
