// A node's own reads and writes. See local.h.
//
// A collection that a local_put() creates is in the log, but not in the store, until its entry is applied. Until then
// further puts find it in `creating`, with the rids that were given out: their entries come after the one that creates
// it, so they are applied only if it is. A change of role empties the list: what was proposed under it may be lost.
#include "common/node/local.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/map.h"
#include "common/bson/doc.h"
#include "common/node/ddl.h"
#include "common/node/executor.h"
#include "common/node/internal.h"
#include "common/store/scan.h"

// --- reading ---

static struct executor *open_local(struct node *n, struct arena *a, const char *ns, const bson_t *filter,
                                   const bson_t *sort) {
  struct collection *c = store_collection(n->store, ns);
  struct query *q = arena_alloc(a, sizeof *q);
  struct plan *p = arena_alloc(a, sizeof *p);
  struct error err = {0};
  if (!c || !query_of_filter(a, filter, q, &err) || !query_parse_sort(a, sort, q, &err) ||
      !plan_choose(a, c, q, NULL, p, &err)) {
    return NULL;
  }
  return executor_open(a, n, c, q, p, NULL, &err);
}

bool local_find_one(struct node *n, struct arena *a, const char *ns, const bson_t *filter, const bson_t **doc) {
  const bson_t **docs;
  if (!local_find(n, a, ns, filter, NULL, 1, &docs)) return false;
  *doc = docs[0];
  return true;
}

bool local_find_id(struct node *n, struct arena *a, const char *ns, const bson_value_t *id, const bson_t **doc) {
  bson_t filter = BSON_INITIALIZER;
  doc_append_value(&filter, "_id", id);
  bool found = local_find_one(n, a, ns, &filter, doc);
  bson_destroy(&filter);
  return found;
}

size_t local_find(struct node *n, struct arena *a, const char *ns, const bson_t *filter, const bson_t *sort,
                  size_t limit, const bson_t ***docs) {
  struct arena *work __attribute__((cleanup(arena_cleanup))) = arena_new();
  struct executor *e = open_local(n, work, ns, filter, sort);
  size_t found = 0, cap = 0;
  *docs = NULL;
  struct exec_row row;
  struct error err;
  if (e && limit) executor_limit(e, (int64_t)limit);
  while (e && (!limit || found < limit) && executor_next(e, NULL, &row, &err) == EXEC_ROW) {
    if (found == cap) {
      cap = cap * 2 + 8;
      const bson_t **bigger = arena_alloc(a, cap * sizeof *bigger);
      if (found) memcpy(bigger, *docs, found * sizeof *bigger);
      *docs = bigger;
    }
    (*docs)[found++] = doc_copy(a, row.doc);
  }
  return found;
}

int64_t local_count(struct node *n, const char *ns, const bson_t *filter) {
  struct arena *work __attribute__((cleanup(arena_cleanup))) = arena_new();
  struct executor *e = open_local(n, work, ns, filter, NULL);
  struct exec_row row;
  struct error err;
  int64_t found = 0;
  while (e && executor_next(e, NULL, &row, &err) == EXEC_ROW) found++;
  return found;
}

// --- collections that are being created ---

struct creating {
  struct arena *arena;
  struct collection shape; // enough for locks and changes
  uint32_t file;
  int64_t next_rid;
  uint32_t next_index;
};

static void free_spot(void *value);

static void free_creating(void *value) {
  struct creating *k = value;
  arena_free(k->arena);
}

void local_role_changed(struct node *n) {
  local_free(n);
  n->own->creating = map_new();
  n->own->reserved = map_new();
}

void local_free(struct node *n) {
  map_free(n->own->creating, free_creating);
  map_free(n->own->reserved, free_spot);
  n->own->creating = n->own->reserved = NULL;
  n->own->reserving = NULL;
}

static struct creating *create(struct node *n, struct write *w, const char *ns) {
  struct arena *a = arena_new();
  struct creating *k = arena_zalloc(a, sizeof *k);
  k->arena = a;
  k->file = store_next_file_id(n->store);
  k->next_rid = 1;
  k->next_index = 1;
  uuid_new(k->shape.uuid);
  k->shape.ns = arena_strdup(a, ns);
  k->shape.shard_key = k->shape.options = arena_bson(a);
  change_create(write_changes(w), k->shape.uuid, ns, k->shape.options, k->file, k->shape.shard_key, k->shape.options);
  map_puts(n->own->creating, ns, k);
  return k;
}

// Where a namespace's documents go: to the collection, when it is applied (c), or to what creates it (k). A collection
// that was in `creating` takes over its counters, because entries with these rids may still be on their way.
struct target {
  struct collection *c;
  struct creating *k;
};

static struct target find_target(struct node *n, const char *ns) {
  struct target t = {.c = store_collection(n->store, ns), .k = map_gets(n->own->creating, ns)};
  if (!t.c || !t.k) return t;
  while (collection_next_rid(t.c) < t.k->next_rid) continue;
  while (collection_next_index_id(t.c) < t.k->next_index) continue;
  free_creating(map_removes(n->own->creating, ns));
  t.k = NULL;
  return t;
}

// --- writing ---

// A document's place, as this write sees it. The places that a write has locked, put or deleted and not proposed yet
// are kept in `reserved`: it has their locks and may change them again.
struct spot {
  const char *ns;
  bson_value_t id;
  bool there; // in the store, or put by this write
  uint32_t file;
  int64_t rid; // 0: none yet
};

static void free_spot(void *value) {
  struct spot *s = value;
  bson_value_destroy(&s->id);
  free(s);
}

// Empties `reserved` when it is another write's, or of what this one has proposed since.
static void use_reserved(struct node *n, const struct write *w) {
  struct node_private *own = n->own;
  if (own->reserving == w && own->reserved_after == write_last_index(w)) return;
  map_free(own->reserved, free_spot);
  own->reserved = map_new();
  own->reserving = w;
  own->reserved_after = write_last_index(w);
}

static void spot_key(struct buf *to, const char *ns, const bson_value_t *id) {
  key_append(to, id, false);
  buf_add(to, ns, strlen(ns));
}

// A document that is there is locked by its rid, as statements do it; a new one by its _id.
static bool lock_spot(struct node *n, struct write *w, struct spot *s) {
  struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
  struct target t = find_target(n, s->ns);
  s->there = t.c && store_find_id(t.c, a, &s->id, &s->file, &s->rid, NULL);
  if (!s->there) s->rid = 0;
  if (!write_lock_namespace(w, s->ns, false)) return false;
  if (s->there) return write_lock_document(w, t.c, s->rid);
  if (!t.c && !t.k) return true; // nobody can change a document of a collection that this write may create
  struct buf b __attribute__((cleanup(buf_cleanup))) = {0};
  key_append(&b, &s->id, false);
  return write_lock_unique(w, t.c ? t.c : &t.k->shape, 0, (struct key){b.data, b.len});
}

static struct spot *remember_spot(struct node *n, const char *ns, const bson_value_t *id) {
  struct buf key __attribute__((cleanup(buf_cleanup))) = {0};
  spot_key(&key, ns, id);
  struct spot *s = calloc(1, sizeof *s + strlen(ns) + 1);
  memcpy(s + 1, ns, strlen(ns) + 1);
  s->ns = (const char *)(s + 1);
  bson_value_copy(id, &s->id);
  map_put(n->own->reserved, key.data, key.len, s);
  return s;
}

static struct spot *known_spot(struct node *n, const char *ns, const bson_value_t *id) {
  struct buf key __attribute__((cleanup(buf_cleanup))) = {0};
  spot_key(&key, ns, id);
  return map_get(n->own->reserved, key.data, key.len);
}

struct relock {
  struct node *node;
  struct write *w;
  bool all;
};

static bool relock_one(void *ctx, const void *key, size_t len, void *value) {
  struct relock *l = ctx;
  return l->all = lock_spot(l->node, l->w, value);
}

// A wait frees the locks that have no changes yet: all of them are taken again.
bool local_lock(struct operation *op, struct node *n, struct write *w, const char *ns, const bson_value_t *id,
                struct error *err) {
  use_reserved(n, w);
  if (known_spot(n, ns, id)) return true;
  remember_spot(n, ns, id);
  for (;;) {
    struct relock l = {.node = n, .w = w, .all = true};
    map_each(n->own->reserved, relock_one, &l);
    if (l.all) return true;
    struct map *mine = n->own->reserved;
    n->own->reserved = map_new(); // others may use it while this fiber waits
    n->own->reserving = NULL;
    bool ok = write_wait(op, w, err);
    map_free(n->own->reserved, free_spot);
    n->own->reserved = mine;
    n->own->reserving = w;
    n->own->reserved_after = write_last_index(w);
    if (!ok) return false;
  }
}

// From here on others see the collection: the _id that lock_spot() could not lock yet is locked now.
static void lock_new_id(struct write *w, const struct creating *k, const bson_value_t *id) {
  struct buf b __attribute__((cleanup(buf_cleanup))) = {0};
  key_append(&b, id, false);
  (void)write_lock_unique(w, &k->shape, 0, (struct key){b.data, b.len});
}

// Where a put goes, when the document is not there yet.
static void place_new(struct node *n, struct write *w, struct spot *s) {
  struct target t = find_target(n, s->ns);
  if (!t.c && !t.k) t.k = create(n, w, s->ns);
  if (!t.c) lock_new_id(w, t.k, &s->id);
  s->file = t.c ? collection_file_for(t.c, (struct key){0})->id : t.k->file;
  s->rid = t.c ? collection_next_rid(t.c) : t.k->next_rid++;
}

static struct spot *take_spot(struct node *n, struct write *w, const char *ns, const bson_value_t *id,
                              struct error *err) {
  use_reserved(n, w);
  struct spot *s = known_spot(n, ns, id);
  if (s) return s;
  if (!repl_is_primary(n->repl)) {
    error_set(err, ERR_NotWritablePrimary, "not primary");
    return NULL;
  }
  struct spot probe = {.ns = ns, .id = *id};
  if (!lock_spot(n, w, &probe)) {
    error_set(err, ERR_WriteConflict, "another write changes this document of %s", ns);
    return NULL;
  }
  s = remember_spot(n, ns, id);
  s->there = probe.there;
  s->file = probe.file;
  s->rid = probe.rid;
  return s;
}

static const struct collection *target_shape(struct node *n, const char *ns) {
  struct target t = find_target(n, ns);
  return t.c ? t.c : &t.k->shape;
}

bool local_put(struct node *n, struct write *w, const char *ns, const bson_t *doc, struct error *err) {
  bson_value_t id;
  if (!doc_value(doc, "_id", &id)) return error_set(err, ERR_InternalError, "a document for %s has no _id", ns);
  struct spot *s = take_spot(n, w, ns, &id, err);
  if (!s) return false;
  if (!s->rid) place_new(n, w, s);
  (s->there ? change_replace : change_put)(write_changes(w), target_shape(n, ns), s->file, s->rid, doc);
  s->there = true;
  return true;
}

bool local_delete(struct node *n, struct write *w, const char *ns, const bson_value_t *id, struct error *err) {
  struct spot *s = take_spot(n, w, ns, id, err);
  if (!s) return false;
  if (s->there) change_delete(write_changes(w), target_shape(n, ns), s->file, s->rid, id);
  s->there = false;
  return true;
}

bool local_put_now(struct operation *op, struct node *n, const char *ns, const bson_t *doc, struct error *err) {
  struct write *w = write_begin(op, n->repl);
  bson_value_t id;
  if (!doc_value(doc, "_id", &id)) return error_set(err, ERR_InternalError, "a document for %s has no _id", ns);
  write_atomic(w);
  return local_lock(op, n, w, ns, &id, err) && local_put(n, w, ns, doc, err) && write_commit(op, w, err);
}

bool local_delete_now(struct operation *op, struct node *n, const char *ns, const bson_value_t *id, struct error *err) {
  struct write *w = write_begin(op, n->repl);
  write_atomic(w);
  return local_lock(op, n, w, ns, id, err) && local_delete(n, w, ns, id, err) && write_commit(op, w, err);
}

bool local_ensure_index(struct node *n, struct write *w, const char *ns, const bson_t *key, bool unique,
                        struct error *err) {
  if (!repl_is_primary(n->repl)) return error_set(err, ERR_NotWritablePrimary, "not primary");
  struct target t = find_target(n, ns);
  if (t.c && collection_index_by_key(t.c, key)) return true;
  struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
  bson_t *given = arena_bson(a);
  const bson_t *spec;
  BSON_APPEND_DOCUMENT(given, "key", key);
  if (unique) BSON_APPEND_BOOL(given, "unique", true);
  if (!index_spec_normalise(a, given, &spec, err)) return false;
  struct collection_stats stats = {0};
  if (t.c) collection_stats(t.c, &stats);
  if (stats.count) {
    return error_set(err, ERR_InternalError, "an index of %s must be declared while the collection is empty", ns);
  }
  if (!t.c && !t.k) t.k = create(n, w, ns);
  uint32_t id = t.c ? collection_next_index_id(t.c) : t.k->next_index++;
  const uint8_t *uuid = t.c ? t.c->uuid : t.k->shape.uuid;
  change_index(write_changes(w), uuid, id, spec);
  change_index_ready(write_changes(w), uuid, id);
  return true;
}
