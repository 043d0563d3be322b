// Declaring and dropping indexes. See ddl.h.
#include <string.h>

#include "common/base/log.h"
#include "common/bson/doc.h"
#include "common/node/ddl.h"
#include "common/node/internal.h"
#include "common/sharding/shard_key.h"

enum { MAX_INDEXES = 64, INDEX_KEY_SPECS_CONFLICT = 86 };

static bool is_id_key(const bson_t *key) {
  bson_iter_t it;
  return bson_count_keys(key) == 1 && bson_iter_init_find(&it, key, "_id") && iter_is_number(&it) && iter_i64(&it) == 1;
}

static bool same_option(const bson_t *a, const bson_t *b, const char *name) {
  bson_value_t x, y;
  bool hx = doc_value(a, name, &x), hy = doc_value(b, name, &y);
  if (hx != hy || !hx) return hx == hy;
  if (x.value_type != BSON_TYPE_DOCUMENT || y.value_type != BSON_TYPE_DOCUMENT) return true; // both flags, both true
  return x.value.v_doc.data_len == y.value.v_doc.data_len &&
         !memcmp(x.value.v_doc.data, y.value.v_doc.data, x.value.v_doc.data_len);
}

static bool same_options(const bson_t *a, const bson_t *b) {
  return same_option(a, b, "unique") && same_option(a, b, "sparse") && same_option(a, b, "partialFilterExpression");
}

// Whether the collection has the index already; err when it has another one in its place.
static bool find_existing(struct arena *a, const struct collection *c, const bson_t *spec, const struct index **found,
                          struct error *err) {
  bson_iter_t it;
  bson_iter_init_find(&it, spec, "key");
  const bson_t *key = iter_child(a, &it);
  const char *name = doc_str(spec, "name", "");
  *found = is_id_key(key) ? c->indexes[0] : NULL;
  for (size_t i = 1; i < c->n_indexes && !*found; i++) {
    const struct index *x = c->indexes[i];
    bool same_key = doc_equal_bytes(x->key, key) || shard_key_equal_patterns(x->key, key);
    bool same_name = !strcmp(x->name, name);
    if (same_key && same_option(x->spec, spec, "partialFilterExpression")) {
      if (same_name && same_options(x->spec, spec)) {
        *found = x;
      } else if (!same_name && same_options(x->spec, spec)) {
        return error_set(err, ERR_IndexOptionsConflict, "Index already exists with a different name: %s", x->name);
      } else {
        return error_set(
            err, same_name ? INDEX_KEY_SPECS_CONFLICT : ERR_IndexOptionsConflict,
            "An equivalent index already exists with other options. Requested index: %s, existing index: %s",
            doc_text(a, spec), doc_text(a, x->spec));
      }
    } else if (same_name) {
      return error_set(err, INDEX_KEY_SPECS_CONFLICT,
                       "An existing index has the same name as the requested index. When index names are not "
                       "specified, they are auto generated and can cause conflicts. Requested index: %s, existing "
                       "index: %s",
                       doc_text(a, spec), doc_text(a, x->spec));
    }
  }
  return true;
}

// A unique index over a sharded collection can be kept only where the shard key leads it.
static bool check_unique(struct arena *a, const struct collection *c, const bson_t *spec, struct error *err) {
  if (bson_empty(c->shard_key) || !doc_bool(spec, "unique", false)) return true;
  struct shard_key key;
  if (!shard_key_parse(a, c->shard_key, &key, err)) return false;
  bson_iter_t it;
  bson_iter_init_find(&it, spec, "key");
  const bson_t *index_key = iter_child(a, &it);
  if (shard_key_prefix_of(&key, index_key)) return true;
  return error_set(err, ERR_CannotCreateIndex,
                   "cannot create index with 'unique' or 'prepareUnique' option over %s with shard key pattern %s",
                   doc_text(a, index_key), doc_text(a, c->shard_key));
}

static bool is_empty(const struct collection *c) {
  for (size_t i = 0; i < c->n_files; i++) {
    if (c->files[i]->count) return false;
  }
  return true;
}

struct wanted {
  const bson_t *specs[MAX_INDEXES];
  uint32_t ids[MAX_INDEXES]; // of those to build or to wait for
  size_t n_specs, n_ids;
};

static bool normalise_all(struct arena *a, const bson_t *specs, struct wanted *out, struct error *err) {
  bson_iter_t it;
  bson_iter_init(&it, specs);
  while (bson_iter_next(&it)) {
    if (out->n_specs == MAX_INDEXES) return error_set(err, ERR_CannotCreateIndex, "too many indexes in one command");
    if (!BSON_ITER_HOLDS_DOCUMENT(&it)) {
      return error_set(err, ERR_TypeMismatch, "The elements of the 'indexes' array must be objects");
    }
    if (!index_spec_normalise(a, iter_child(a, &it), &out->specs[out->n_specs++], err)) return false;
  }
  return out->n_specs || error_set(err, ERR_BadValue, "Must specify at least one index to create");
}

// Adds the declarations to the write; indexes of an empty collection are ready at once.
static bool declare(struct ddl *d, struct write *w, struct collection *c, struct wanted *want,
                    struct create_indexes_result *out, struct error *err) {
  bool empty = is_empty(c);
  size_t added = 0;
  for (size_t i = 0; i < want->n_specs; i++) {
    const struct index *found;
    const bson_t *spec = want->specs[i];
    if (!find_existing(d->op->arena, c, spec, &found, err) || !check_unique(d->op->arena, c, spec, err)) return false;
    if (found) {
      if (!found->ready) want->ids[want->n_ids++] = found->id;
      continue;
    }
    if (c->n_indexes + ++added > MAX_INDEXES) {
      return error_set(err, ERR_CannotCreateIndex, "add index fails, too many indexes for %s", c->ns);
    }
    uint32_t id = collection_next_index_id(c);
    change_index(write_changes(w), c->uuid, id, spec);
    if (empty) change_index_ready(write_changes(w), c->uuid, id);
    if (!empty) want->ids[want->n_ids++] = id;
  }
  out->before = (int32_t)c->n_indexes;
  out->after = (int32_t)(c->n_indexes + added);
  out->all_existed = added == 0;
  return true;
}

static bool wait_for_builds(struct ddl *d, const char *ns, const struct wanted *want, struct error *err) {
  for (size_t i = 0; i < want->n_ids; i++) {
    struct collection *c = store_collection(d->node->store, ns);
    if (!c) return error_set(err, ERR_NamespaceNotFound, "collection %s was dropped during the index build", ns);
    struct index_build *b = index_build_start(d->node, c, want->ids[i]);
    if (b && !index_build_wait(d->op, b, err)) return false;
  }
  return true;
}

bool ddl_create_indexes(struct ddl *d, const char *ns, const bson_t *specs, struct create_indexes_result *out,
                        struct error *err) {
  struct wanted *want = arena_zalloc(d->op->arena, sizeof *want);
  if (!normalise_all(d->op->arena, specs, want, err)) return false;
  struct write *w = write_begin(d->op, d->node->repl);
  if (!ddl_lock(d, w, ns, err)) return false;
  struct collection *c = store_collection(d->node->store, ns);
  if (!c) {
    write_abandon(w);
    return error_set(err, ERR_NamespaceNotFound, "collection %s does not exist", ns);
  }
  if (!declare(d, w, c, want, out, err)) {
    write_abandon(w);
    return false;
  }
  if (out->all_existed) {
    write_abandon(w);
  } else {
    if (!ddl_commit(d, w, err)) return false;
    log_info("INDEX", "Indexes declared", "namespace:s count:d", ns, out->after - out->before);
  }
  return wait_for_builds(d, ns, want, err);
}

// --- dropping ---

// The index that a sharded collection cannot do without: the only one its shard key leads.
static const struct index *shard_key_index(struct arena *a, const struct collection *c) {
  struct shard_key key;
  const struct index *only = NULL;
  if (bson_empty(c->shard_key) || !shard_key_parse(a, c->shard_key, &key, NULL)) return NULL;
  for (size_t i = 0; i < c->n_indexes; i++) {
    const struct index *x = c->indexes[i];
    if (!shard_key_prefix_of(&key, x->key) || x->sparse || x->partial_filter || x->multikey) continue;
    if (only) return NULL;
    only = x;
  }
  return only;
}

static bool drop_one(struct ddl *d, struct write *w, const struct collection *c, const bson_value_t *which,
                     struct error *err) {
  struct arena *a = d->op->arena;
  const struct index *x = which->value_type == BSON_TYPE_UTF8 ? collection_index(c, which->value.v_utf8.str)
                                                              : collection_index_by_key(c, value_child(a, which));
  if (!x) {
    if (which->value_type == BSON_TYPE_UTF8) {
      return error_set(err, ERR_IndexNotFound, "index not found with name [%s]", which->value.v_utf8.str);
    }
    return error_set(err, ERR_IndexNotFound, "can't find index with key: %s", value_text(a, which));
  }
  if (x->id == 0) return error_set(err, ERR_InvalidOptions, "cannot drop _id index");
  if (x == shard_key_index(a, c)) {
    return error_set(err, ERR_CannotDropShardKeyIndex,
                     "Cannot drop the only compatible index for this collection's shard key");
  }
  change_unindex(write_changes(w), c->uuid, x->id);
  return true;
}

static void drop_all(struct ddl *d, struct write *w, const struct collection *c) {
  const struct index *kept = shard_key_index(d->op->arena, c);
  for (size_t i = 1; i < c->n_indexes; i++) {
    if (c->indexes[i] != kept) change_unindex(write_changes(w), c->uuid, c->indexes[i]->id);
  }
}

static bool add_drops(struct ddl *d, struct write *w, const struct collection *c, const bson_value_t *which,
                      struct error *err) {
  if (which->value_type == BSON_TYPE_UTF8 && !strcmp(which->value.v_utf8.str, "*")) {
    drop_all(d, w, c);
    return true;
  }
  if (which->value_type != BSON_TYPE_ARRAY) return drop_one(d, w, c, which, err);
  bson_iter_t it;
  bson_iter_init(&it, value_child(d->op->arena, which));
  while (bson_iter_next(&it)) {
    if (!BSON_ITER_HOLDS_UTF8(&it)) {
      return error_set(err, ERR_TypeMismatch, "dropIndexes 'index' must be a string, an object or an array of strings");
    }
    if (!drop_one(d, w, c, bson_iter_value(&it), err)) return false;
  }
  return true;
}

bool ddl_drop_indexes(struct ddl *d, const char *ns, const bson_value_t *which, int32_t *n_was, struct error *err) {
  struct write *w = write_begin(d->op, d->node->repl);
  if (!ddl_lock(d, w, ns, err)) return false;
  struct collection *c = store_collection(d->node->store, ns);
  if (!c) {
    write_abandon(w);
    return error_set(err, ERR_NamespaceNotFound, "ns not found %s", ns);
  }
  *n_was = (int32_t)c->n_indexes;
  if (!add_drops(d, w, c, which, err)) {
    write_abandon(w);
    return false;
  }
  if (write_is_empty(w)) {
    write_abandon(w);
    return true;
  }
  return ddl_commit(d, w, err);
}
