// The data of a range being received: clone batches and changes from the donor become entries of this shard's own log.
//
// Nobody reads the staged file until it is adopted, so its documents may be incomplete or out of date meanwhile. When
// the donor's critical section holds and it has no more changes, the file has exactly the donor's documents of the
// range:
// - every document was cloned, or changed after the clone had passed its place, and changes are fetched as they are
//   when sent;
// - a change is applied by `_id`, replacing what is there: the order of changes of different documents does not matter.
#include "shardd/migration_destination.h"

#include <string.h>

#include "common/base/log.h"
#include "common/bson/doc.h"
#include "common/bson/index_keys.h"
#include "shardd/peer.h"
#include "shardd/range_deleter.h"

enum { CLONE_FETCHES = 6 }; // batches in flight: some are written or made durable while one is fetched

// --- staging ---

static bool write_stage(struct operation *op, struct reception *r, struct error *err) {
  struct shard *sh = r->sh;
  struct range_deletion_doc task = {.ns = r->ns,
                                    .donor = r->from_shard,
                                    .min = r->min,
                                    .max = r->max,
                                    .pending = true,
                                    .now = true,
                                    .key = r->key_pattern};
  memcpy(task.id, r->id, 16);
  memcpy(task.collection, r->collection, 16);
  struct write *w = write_begin(op, sh->node.repl);
  write_atomic(w);
  uint32_t file = store_next_file_id(sh->node.store);
  change_file(write_changes(w), r->collection, file, bound_key(op->arena, r->min), bound_key(op->arena, r->max));
  if (!local_put(&sh->node, w, RANGE_DELETIONS_NS, range_deletion_doc_make(op->arena, &task), err)) return false;
  r->file = file; // from here on there may be something to clean up
  return write_commit(op, w, err);
}

static const bson_t *fetch(struct operation *op, struct reception *r, const char *command, struct error *err) {
  bson_t *cmd = arena_bson(op->arena);
  bson_append_utf8(cmd, command, -1, r->ns, -1);
  BSON_APPEND_UTF8(cmd, "sessionId", r->session_id);
  const bson_t *reply = NULL;
  // Not sent twice: what the donor has handed out it does not hand out again.
  return peer_call(op, r->sh, r->from_shard, "admin", cmd, PEER_TIMEOUT_MS, false, &reply, err) ? reply : NULL;
}

struct staging {
  struct reception *r;
  bool staged;
  struct error stage_error, fetch_error;
};

static void stage_branch(struct operation *op, size_t i, void *ctx) {
  struct staging *s = ctx;
  if (i == 0)
    s->staged = write_stage(op, s->r, &s->stage_error);
  else
    s->r->first_batch = fetch(op, s->r, "_migrateClone", &s->fetch_error);
}

// The donor reads the first batch meanwhile.
bool reception_stage(struct operation *op, struct reception *r, struct error *err) {
  struct staging s = {.r = r};
  op_parallel(op, 2, stage_branch, &s);
  if (s.staged && r->first_batch) return true;
  *err = s.staged ? s.fetch_error : s.stage_error;
  return false;
}

// --- writing documents ---

struct writer {
  struct operation *op;
  struct reception *r;
  struct collection *c; // referenced
  struct write *w;
  struct arena *scratch; // of one document
  struct map *unique;    // keys that unproposed and unapplied documents of this writer have in unique indexes -> rid
  int64_t n, bytes;
};

static bool lock_namespace(struct writer *x, struct error *err) {
  while (!write_lock_namespace(x->w, x->r->ns, false))
    if (!write_wait(x->op, x->w, err)) return false;
  return true;
}

// The whole clone is void when the collection or the staged file is gone.
static bool still_staged(const struct writer *x, struct error *err) {
  const struct range_file *f = x->c->dropped ? NULL : collection_file(x->c, x->r->file);
  return (f && f->state == FILE_STAGED) || reception_collection_gone(x->r, err);
}

static bool writer_begin(struct writer *x, struct operation *op, struct reception *r, struct error *err) {
  struct collection *c = reception_collection(r, err);
  *x = (struct writer){.op = op, .r = r};
  if (!c) return false;
  x->c = collection_ref(c);
  x->w = write_begin(op, r->sh->node.repl);
  x->scratch = arena_new();
  x->unique = map_new();
  return write_admit(op, r->sh->node.repl, err) && lock_namespace(x, err);
}

// ok: whether all went well so far.
static bool writer_end(struct writer *x, bool ok, struct error *err) {
  if (!x->c) return false;
  ok = ok && write_commit(x->op, x->w, err);
  map_free(x->unique, NULL);
  arena_free(x->scratch);
  collection_unref(x->c);
  return ok;
}

// Between two documents: proposes before it yields.
static bool writer_pause(struct writer *x, struct error *err) {
  if (!op_yield_due(x->op)) return true;
  return write_propose(x->w, err) && op_yield(x->op, err) && write_admit(x->op, x->r->sh->node.repl, err) &&
         lock_namespace(x, err);
}

// A document that the staged file has under a key of `doc` has lost it on the donor since: it comes again with the
// changes, and is taken out until then.
static bool displace(struct writer *x, const struct index *i, struct key key, int64_t rid, struct error *err) {
  struct buf name __attribute__((cleanup(buf_cleanup))) = {0};
  buf_add(&name, &i->id, sizeof i->id);
  buf_add(&name, key.data, key.len);
  if (map_get(x->unique, name.data, name.len)) {
    // The other one is not applied yet: wait for it, then look it up as any other.
    if (!write_commit(x->op, x->w, err) || !lock_namespace(x, err)) return false;
    map_free(x->unique, NULL);
    x->unique = map_new();
  }
  if (!still_staged(x, err)) return false;
  int64_t other = reception_staged_rid(x->r, x->c, i, x->scratch, key);
  const bson_t *doc;
  bson_value_t id;
  if (other && other != rid && store_find_rid(x->c, x->scratch, x->r->file, other, &doc) && doc_value(doc, "_id", &id))
    change_delete(write_changes(x->w), x->c, x->r->file, other, &id);
  map_put(x->unique, name.data, name.len, x);
  return true;
}

static bool displace_all(struct writer *x, const bson_t *doc, int64_t rid, struct error *err) {
  for (size_t n = 1; n < x->c->n_indexes; n++) {
    const struct index *i = x->c->indexes[n];
    struct index_keys keys;
    if (!i->unique) continue;
    if (!index_keys_of(x->scratch, i->key, doc, &keys, err)) return false;
    for (size_t k = 0; k < keys.n; k++)
      if (!displace(x, i, keys.keys[k], rid, err)) return false;
  }
  return true;
}

enum put { PUT_DONE, PUT_AGAIN, PUT_FAILED };

// A document that the staged file does not have yet: what it needs to know of others with its `_id` (reception_ids.c).
static bool meet_others(struct writer *x, const bson_value_t *id) {
  struct buf key __attribute__((cleanup(buf_cleanup))) = {0};
  if (!reception_ids_matter(x->c)) return true;
  key_append(&key, id, false);
  if (!write_lock_unique(x->w, x->c, 0, (struct key){key.data, key.len})) return false;
  if (store_find_id(x->c, x->scratch, id, NULL, NULL, NULL)) reception_ids_note(x->r, id);
  return true;
}

static enum put try_put(struct writer *x, const bson_t *doc, const bson_value_t *id, bool may_exist,
                        struct error *err) {
  struct reception *r = x->r;
  if (!still_staged(x, err)) return PUT_FAILED;
  int64_t rid = may_exist ? reception_staged_rid_of_id(r, x->c, x->scratch, id) : 0;
  if (!displace_all(x, doc, rid, err)) return PUT_FAILED; // may wait, so before the lock
  if (!rid && !meet_others(x, id)) return PUT_AGAIN;
  if (!rid) rid = collection_next_rid(x->c);
  change_put(write_changes(x->w), x->c, r->file, rid, doc);
  return PUT_DONE;
}

static bool put_document(struct writer *x, const bson_t *doc, bool may_exist, struct error *err) {
  bson_value_t id;
  if (!doc_value(doc, "_id", &id)) return error_set(err, ERR_NoSuchKey, "A document of the range has no _id");
  for (enum put p; (p = try_put(x, doc, &id, may_exist, err)) != PUT_DONE;)
    if (p == PUT_FAILED || !write_wait(x->op, x->w, err) || !lock_namespace(x, err)) return false;
  x->n++;
  x->bytes += doc->len;
  arena_reset(x->scratch);
  return true;
}

// --- the clone ---

static bool write_array(struct writer *x, const bson_t *array, bool may_exist, struct error *err) {
  bson_iter_t it;
  bson_iter_init(&it, array);
  while (bson_iter_next(&it)) {
    bson_t doc;
    iter_doc(&doc, &it);
    if (!put_document(x, &doc, may_exist, err) || !writer_pause(x, err)) return false;
  }
  return true;
}

// Fetches and writes one batch; *more: whether the donor has others.
static bool clone_batch(struct operation *op, struct reception *r, bool *more, struct error *err) {
  const bson_t *reply = r->first_batch ? r->first_batch : fetch(op, r, "_migrateClone", err);
  bson_t objects;
  r->first_batch = NULL;
  if (!reply) return false;
  if (!doc_doc(reply, "objects", &objects)) return error_set(err, ERR_NoSuchKey, "_migrateClone answered no objects");
  *more = doc_bool(reply, "more", false);
  if (bson_empty(&objects)) return true;
  struct writer x;
  if (!writer_end(&x, writer_begin(&x, op, r, err) && write_array(&x, &objects, false, err), err)) return false;
  r->cloned += x.n;
  r->cloned_bytes += x.bytes;
  return true;
}

struct clone {
  struct reception *r;
  bool over;          // the donor has no more
  struct error error; // the first one
};

static bool clone_step(struct operation *op, void *ctx, bool *more, struct error *err) {
  struct clone *c = ctx;
  *more = !c->over && !c->error.code; // by what the other branches met
  if (!*more) return true;
  if (!clone_batch(op, c->r, more, err)) return false;
  if (!*more) c->over = true;
  return true;
}

static void clone_branch(struct operation *op, size_t i, void *ctx) {
  struct clone *c = ctx;
  struct error err = {0};
  if (!op_in_batches(op, clone_step, c, &err) && !c->error.code) c->error = err;
}

// Two writers do not see each other's documents before they are applied, which displace() must.
static size_t fetches_in_flight(const struct reception *r) {
  const struct collection *c = store_collection_by_uuid(r->sh->node.store, r->collection);
  for (size_t i = 1; c && i < c->n_indexes; i++)
    if (c->indexes[i]->unique) return 1;
  return CLONE_FETCHES;
}

bool reception_clone(struct operation *op, struct reception *r, struct error *err) {
  struct clone c = {.r = r};
  op_parallel(op, fetches_in_flight(r), clone_branch, &c);
  r->sh->counters.docs_cloned_on_recipient += r->cloned;
  r->sh->counters.bytes_cloned_on_recipient += r->cloned_bytes;
  if (!c.error.code) return true;
  *err = c.error;
  return false;
}

// --- changes ---

static bool delete_array(struct writer *x, const bson_t *array, struct error *err) {
  bson_iter_t it;
  bson_iter_init(&it, array);
  while (bson_iter_next(&it)) {
    bson_t doc;
    bson_value_t id;
    iter_doc(&doc, &it);
    if (!still_staged(x, err)) return false;
    if (!doc_value(&doc, "_id", &id)) return error_set(err, ERR_NoSuchKey, "A deleted document has no _id");
    int64_t rid = reception_staged_rid_of_id(x->r, x->c, x->scratch, &id); // in another file it is another document
    if (rid) change_delete(write_changes(x->w), x->c, x->r->file, rid, &id);
    x->n++;
    arena_reset(x->scratch);
    if (!writer_pause(x, err)) return false;
  }
  return true;
}

static bool write_mods(struct operation *op, struct reception *r, const bson_t *reply, int64_t *n, struct error *err) {
  bson_t deleted, reload;
  if (!doc_doc(reply, "deleted", &deleted) || !doc_doc(reply, "reload", &reload))
    return error_set(err, ERR_NoSuchKey, "_transferMods answered no deleted or reload");
  struct writer x;
  bool ok = writer_begin(&x, op, r, err) && delete_array(&x, &deleted, err) && write_array(&x, &reload, true, err);
  if (!writer_end(&x, ok, err)) return false;
  *n += x.n;
  r->sh->counters.docs_caught_up_on_recipient += x.n;
  r->sh->counters.bytes_caught_up_on_recipient += x.bytes;
  return true;
}

struct mods {
  struct reception *r;
  int64_t fetched; // documents
};

static bool mods_step(struct operation *op, void *ctx, bool *more, struct error *err) {
  struct mods *m = ctx;
  const bson_t *reply = fetch(op, m->r, "_transferMods", err);
  if (!reply) return false;
  *more = doc_bool(reply, "more", false);
  return doc_i64(reply, "size", 0) == 0 || write_mods(op, m->r, reply, &m->fetched, err);
}

bool reception_mods(struct operation *op, struct reception *r, int64_t *fetched, struct error *err) {
  struct mods m = {.r = r};
  bool ok = op_in_batches(op, mods_step, &m, err);
  *fetched = m.fetched;
  return ok;
}
