// Builds indexes over documents that exist already, in slices that the primary paces.
//
// The index is declared: every write from that entry on maintains it. The build then adds file after file what was
// there before, a slice of rids an entry; adding a document's keys again changes nothing, so a new primary may begin
// anew. A duplicate key of a unique index is a result of the slice, recorded by the store: the index is then removed
// again. When all files are done the index is declared ready, and reads use it.
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/map.h"
#include "common/bson/doc.h"
#include "common/bson/index_keys.h"
#include "common/node/ddl.h"
#include "common/node/internal.h"
#include "common/node/write_batch.h"
#include "common/store/scan.h"

enum {
  SLICE_RIDS = 200, // about a millisecond of applying: nobody waits longer for it
  HASHED_ARRAY = 16766,
};

struct build_key {
  uint8_t uuid[16];
  uint32_t id;
};

struct index_build {
  struct node *node;
  struct build_key key;
  struct arena *arena; // of the error's extra fields
  struct error err;
  bool done;
  size_t waiters;
};

static void free_build(struct index_build *b) {
  arena_free(b->arena);
  free(b);
}

// The index as it is now; NULL: it, or its collection, is gone.
static struct collection *build_target(const struct index_build *b, const struct index **index) {
  struct collection *c = store_collection_by_uuid(b->node->store, b->key.uuid);
  *index = NULL;
  for (size_t i = 0; c && i < c->n_indexes; i++) {
    if (c->indexes[i]->id == b->key.id) *index = c->indexes[i];
  }
  return *index ? c : NULL;
}

static bool lock_slice(struct operation *op, struct index_build *b, struct write *w, struct error *err) {
  char text[37];
  uuid_text(b->key.uuid, text);
  const char *name = arena_printf(op->arena, "slice/%s", text);
  while (!write_lock_name(w, name)) {
    if (!write_wait(op, w, err)) return false;
  }
  return true;
}

static bool report_duplicate(struct index_build *b, const struct slice_result *slice, struct error *err) {
  const struct index *i;
  struct collection *c = build_target(b, &i);
  uint32_t file;
  int64_t rid;
  const bson_t *doc;
  struct index_keys keys;
  if (c && slice->duplicate_id.value_type != BSON_TYPE_EOD &&
      store_find_id(c, b->arena, &slice->duplicate_id, &file, &rid, &doc) &&
      index_keys_of(b->arena, i->key, doc, &keys, NULL) && keys.n) {
    return duplicate_error(err, b->arena, c->ns, i->name, i->key, doc, keys.keys[0]);
  }
  return error_set(err, ERR_DuplicateKey, "E11000 duplicate key error collection: %s index: %s",
                   c ? c->ns : "(dropped)", c ? i->name : "(dropped)");
}

static bool report_failure(struct index_build *b, int32_t code, struct error *err) {
  const struct index *i;
  struct collection *c = build_target(b, &i);
  return error_set(err, code, "Index build failed: a document of %s cannot have a key in an index over %s%s",
                   c ? c->ns : "(dropped)", c ? doc_text(b->arena, i->key) : "(dropped)",
                   code == ERR_CannotIndexParallelArrays ? ": it has arrays in two of the fields"
                                                         : ": hashed fields cannot be arrays");
}

static bool build_file(struct operation *op, struct index_build *b, uint32_t file, struct error *err) {
  struct slice_result slice = {.last_rid = INT64_MIN};
  while (!slice.done) {
    const struct index *i;
    arena_reset(op->arena);
    struct write *w = write_begin(op, b->node->repl);
    if (!lock_slice(op, b, w, err)) return false;
    struct collection *c = build_target(b, &i);
    if (!c) {
      write_abandon(w);
      return error_set(err, ERR_IndexNotFound, "the index was dropped while it was built");
    }
    if (!collection_file(c, file)) { // the file has gone, and its documents with it
      write_abandon(w);
      return true;
    }
    change_index_build(write_changes(w), c->uuid, i->id, file, slice.last_rid, SLICE_RIDS);
    if (!write_commit(op, w, err)) return false;
    if (!store_last_slice(b->node->store, b->key.uuid, &slice)) {
      return error_set(err, ERR_InternalError, "an index slice of file %u left no result", file);
    }
    if (slice.failed) return report_failure(b, slice.failed, err);
    if (slice.duplicate) return report_duplicate(b, &slice, err);
  }
  return true;
}

static bool build_all(struct operation *op, struct index_build *b, struct error *err) {
  const struct index *i;
  struct collection *c = build_target(b, &i);
  if (!c) return error_set(err, ERR_IndexNotFound, "the index was dropped before it was built");
  size_t n = c->n_files;
  uint32_t *files = arena_alloc(b->arena, (n + 1) * sizeof *files);
  for (size_t k = 0; k < n; k++) files[k] = c->files[k]->id;
  for (size_t k = 0; k < n; k++) {
    if (!build_file(op, b, files[k], err)) return false;
  }
  return true;
}

// The last entry: ready, or gone.
static bool conclude(struct operation *op, struct index_build *b, bool ready, struct error *err) {
  struct write *w = write_begin(op, b->node->repl);
  const struct index *i;
  struct collection *c = build_target(b, &i);
  if (!c) return true;
  const char *ns = arena_strdup(op->arena, c->ns), *name = arena_strdup(op->arena, i->name);
  while (!write_lock_namespace(w, ns, true)) {
    if (!write_wait(op, w, err)) return false;
  }
  c = build_target(b, &i);
  if (!c) {
    write_abandon(w);
    return true;
  }
  if (ready) {
    change_index_ready(write_changes(w), c->uuid, i->id);
  } else {
    change_unindex(write_changes(w), c->uuid, i->id);
  }
  if (!write_commit(op, w, err)) return false;
  log_info("INDEX", ready ? "Index build done" : "Index build failed, the index is removed", "namespace:s index:s", ns,
           name);
  return true;
}

static bool refused_by_documents(int32_t code) {
  return code == ERR_DuplicateKey || code == ERR_CannotIndexParallelArrays || code == HASHED_ARRAY;
}

static void run_build(struct operation *op, void *arg) {
  struct index_build *b = arg;
  struct node *n = b->node;
  struct error err = {0}, ignored;
  if (!build_all(op, b, &err)) {
    // Only what the documents say ends the build for good; a new primary goes on after anything else.
    if (refused_by_documents(err.code)) conclude(op, b, false, &ignored);
  } else {
    conclude(op, b, true, &err);
  }
  error_copy(&b->err, &err, b->arena);
  b->done = true;
  map_remove(n->own->builds, &b->key, sizeof b->key);
  event_signal(&n->own->builds_changed);
  if (!b->waiters) free_build(b);
}

struct index_build *index_build_start(struct node *n, const struct collection *c, uint32_t index_id) {
  struct build_key key;
  memset(&key, 0, sizeof key);
  memcpy(key.uuid, c->uuid, sizeof key.uuid);
  key.id = index_id;
  struct index_build *b = map_get(n->own->builds, &key, sizeof key);
  if (b) return b;
  for (size_t i = 0; i < c->n_indexes; i++) {
    if (c->indexes[i]->id != index_id || c->indexes[i]->ready) continue;
    b = calloc(1, sizeof *b);
    b->node = n;
    b->key = key;
    b->arena = arena_new();
    map_put(n->own->builds, &key, sizeof key, b);
    node_background(n, "index build", run_build, b);
    return b;
  }
  return NULL; // ready, or not there
}

bool index_build_wait(struct operation *op, struct index_build *b, struct error *err) {
  struct event *changed = &b->node->own->builds_changed;
  bool ok = true;
  b->waiters++;
  while (ok && !b->done) ok = event_wait(op, changed, err);
  b->waiters--;
  if (!b->done) return false; // killed: the build goes on
  if (ok && b->err.code) {
    error_copy(err, &b->err, op->arena);
    ok = false;
  }
  if (!b->waiters) free_build(b);
  return ok;
}

static bool resume_one(void *ctx, struct collection *c) {
  for (size_t i = 0; i < c->n_indexes; i++) {
    if (!c->indexes[i]->ready) index_build_start(ctx, c, c->indexes[i]->id);
  }
  return true;
}

void index_builds_resume(struct node *n) {
  store_each_collection(n->store, resume_one, n);
}
