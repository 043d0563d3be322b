// Creating, dropping and renaming collections. See ddl.h.
#include "common/node/ddl.h"

#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/bson/doc.h"
#include "common/node/internal.h"

bool ddl_begin(struct ddl *d, struct request *r, const char *ns, struct error *err) {
  *d = (struct ddl){.op = r->op, .node = request_node(r)};
  return node_writable_namespace(r, ns, err) && node_enter(r, r->op->arena, ns, true, &d->access, err);
}

// Takes the namespace for itself; then, in the same step, the caller looks at the catalog and adds its change.
static bool lock_exclusive(struct ddl *d, struct write *w, const char *ns, struct error *err) {
  while (!write_lock_namespace(w, ns, true)) {
    if (!write_wait(d->op, w, err)) return false;
  }
  return true;
}

bool ddl_may_act(struct ddl *d, struct error *err) {
  if (!repl_is_primary(d->node->repl)) return error_set(err, ERR_NotWritablePrimary, "not primary");
  return !d->access || node_still(d->node, d->access, true, err);
}

bool ddl_lock(struct ddl *d, struct write *w, const char *ns, struct error *err) {
  write_atomic(w);
  if (!lock_exclusive(d, w, ns, err)) return false;
  if (ddl_may_act(d, err)) return true;
  write_abandon(w);
  return false;
}

bool ddl_commit(struct ddl *d, struct write *w, struct error *err) {
  if (!write_commit(d->op, w, err)) return false;
  d->index = write_last_index(w);
  return true;
}

// [{id, spec}] of normalised specs, numbered from 1: _id's index is 0.
static bool number_indexes(struct arena *a, const bson_t *specs, const bson_t **out, struct error *err) {
  bson_t *list = arena_bson(a);
  *out = list;
  bson_iter_t it;
  if (!specs) return true;
  bson_iter_init(&it, specs);
  uint32_t n = 0;
  while (bson_iter_next(&it)) {
    const bson_t *spec, *child = iter_child(a, &it);
    if (!strcmp(doc_str(child, "name", ""), "_id_")) continue;
    if (!index_spec_normalise(a, child, &spec, err)) return false;
    char text[16];
    const char *key;
    bson_t entry;
    bson_uint32_to_string(n++, &key, text, sizeof text);
    BSON_APPEND_DOCUMENT_BEGIN(list, key, &entry);
    BSON_APPEND_INT32(&entry, "id", (int32_t)n);
    BSON_APPEND_DOCUMENT(&entry, "spec", spec);
    bson_append_document_end(list, &entry);
  }
  return true;
}

bool ddl_create(struct ddl *d, const struct collection_spec *spec, struct error *err) {
  struct arena *a = d->op->arena;
  const bson_t *indexes, *none = arena_bson(a);
  struct write *w = write_begin(d->op, d->node->repl);
  if (!number_indexes(a, spec->indexes, &indexes, err) || !ddl_lock(d, w, spec->ns, err)) return false;
  struct collection *there = store_collection(d->node->store, spec->ns);
  if (there) {
    bool same = spec->uuid && !memcmp(there->uuid, spec->uuid, sizeof there->uuid);
    write_abandon(w);
    return same || error_set(err, ERR_NamespaceExists, "Collection %s already exists.", spec->ns);
  }
  uint8_t uuid[16];
  uuid_new(uuid);
  change_create(write_changes(w), spec->uuid ? spec->uuid : uuid, spec->ns, spec->options ? spec->options : none,
                store_next_file_id(d->node->store), spec->shard_key ? spec->shard_key : none, indexes);
  if (!ddl_commit(d, w, err)) return false;
  log_info("STORAGE", "Collection created", "namespace:s", spec->ns);
  return true;
}

bool ddl_drop(struct ddl *d, const char *ns, const uint8_t *uuid, bool *existed, int32_t *n_indexes,
              struct error *err) {
  struct write *w = write_begin(d->op, d->node->repl);
  *existed = false;
  *n_indexes = 0;
  if (!ddl_lock(d, w, ns, err)) return false;
  struct collection *c = store_collection(d->node->store, ns);
  if (!c || (uuid && memcmp(c->uuid, uuid, sizeof c->uuid))) {
    write_abandon(w);
    return true;
  }
  *existed = true;
  *n_indexes = (int32_t)c->n_indexes;
  change_drop(write_changes(w), c->uuid);
  if (!ddl_commit(d, w, err)) return false;
  log_info("STORAGE", "Collection dropped", "namespace:s", ns);
  return true;
}

struct names {
  struct arena *arena;
  const char *db, **ns;
  size_t n, cap;
};

static bool collect_name(void *ctx, struct collection *c) {
  struct names *l = ctx;
  if (strcmp(c->db, l->db)) return true;
  if (l->n == l->cap) {
    const char **bigger = arena_alloc(l->arena, (l->cap * 2 + 16) * sizeof *bigger);
    if (l->n) memcpy(bigger, l->ns, l->n * sizeof *bigger);
    l->ns = bigger;
    l->cap = l->cap * 2 + 16;
  }
  l->ns[l->n++] = arena_strdup(l->arena, c->ns);
  return true;
}

bool ddl_drop_database(struct ddl *d, const char *db, struct error *err) {
  struct names l = {.arena = d->op->arena, .db = db};
  store_each_collection(d->node->store, collect_name, &l);
  for (size_t i = 0; i < l.n; i++) {
    bool existed;
    int32_t n;
    if (!ddl_drop(d, l.ns[i], NULL, &existed, &n, err)) return false;
  }
  return true;
}

static bool check_rename(const struct collection *source, const struct collection *target, const char *from,
                         const char *to, bool drop_target, struct error *err) {
  if (!source) return error_set(err, ERR_NamespaceNotFound, "Source collection %s does not exist", from);
  if (target && !drop_target) return error_set(err, ERR_NamespaceExists, "target namespace %s exists", to);
  return true;
}

bool ddl_rename(struct ddl *d, const char *from, const char *to, bool drop_target, struct error *err) {
  if (!strcmp(from, to)) return error_set(err, ERR_IllegalOperation, "Can't rename a collection to itself");
  struct write *w = write_begin(d->op, d->node->repl);
  write_atomic(w);
  while (!write_lock_namespace(w, from, true) || !write_lock_namespace(w, to, true)) {
    if (!write_wait(d->op, w, err)) return false;
  }
  struct collection *source = store_collection(d->node->store, from), *target = store_collection(d->node->store, to);
  if (!ddl_may_act(d, err) || !check_rename(source, target, from, to, drop_target, err)) {
    write_abandon(w);
    return false;
  }
  change_rename(write_changes(w), source->uuid, to, target ? target->uuid : NULL);
  return ddl_commit(d, w, err);
}
