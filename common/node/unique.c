// Unique indexes: which keys a change of a document takes and frees, and the error of a duplicate.
//
// Keys that are taken and keys that are freed are locked until the change is applied: nobody else evaluates against
// them meanwhile, and a later statement of the same batch waits until it sees them as they will be.
#include "common/node/write_batch.h"

#include <string.h>

#include "common/bson/doc.h"
#include "common/bson/index_keys.h"
#include "common/bson/path.h"
#include "common/query/match.h"

// The keys of `doc` in the index; none when it does not belong there (partial, sparse) or doc is NULL.
static bool keys_in(struct batch *b, const struct index *i, const bson_t *doc, struct index_keys *out,
                    struct error *err) {
  *out = (struct index_keys){0};
  if (!doc) return true;
  if (i->partial_filter) {
    struct match *m = match_parse(b->scratch, i->partial_filter, &(struct match_options){0}, err);
    if (!m) return false;
    if (!match_doc(m, doc)) return true;
  }
  if (!index_keys_of(b->scratch, i->key, doc, out, err)) return false;
  if (i->sparse && out->all_missing) out->n = 0;
  return true;
}

static bool contains(const struct index_keys *set, struct key key) {
  for (size_t k = 0; k < set->n; k++) {
    if (key_compare(set->keys[k], key) == 0) return true;
  }
  return false;
}

// Walks the combinations of values that the pattern's fields have in the document (at most one of them an array) until
// their encoding is `key`.
static bool values_of_key(struct arena *a, const bson_t *pattern, const bson_t *doc, struct key key, bson_t *out) {
  bson_iter_t field, element;
  const bson_t *array = NULL;
  bson_iter_init(&field, pattern);
  while (bson_iter_next(&field)) {
    bson_value_t v;
    if (path_get(doc, bson_iter_key(&field), &v) && v.value_type == BSON_TYPE_ARRAY) {
      array = arena_bson_view(a, v.value.v_doc.data, v.value.v_doc.data_len);
    }
  }
  if (array) bson_iter_init(&element, array);
  do {
    if (array && !bson_iter_next(&element)) return false;
    bson_reinit(out);
    struct buf encoded __attribute__((cleanup(buf_cleanup))) = {0};
    bson_iter_init(&field, pattern);
    while (bson_iter_next(&field)) {
      bson_value_t v;
      if (!path_get(doc, bson_iter_key(&field), &v)) v = value_null();
      if (v.value_type == BSON_TYPE_ARRAY) v = *bson_iter_value(&element);
      doc_append_value(out, bson_iter_key(&field), &v);
      key_append(&encoded, &v, iter_is_number(&field) && iter_i64(&field) < 0);
    }
    if (key_compare((struct key){encoded.data, encoded.len}, key) == 0) return true;
  } while (array);
  return false;
}

bool duplicate_error(struct error *err, struct arena *a, const char *ns, const char *index_name, const bson_t *pattern,
                     const bson_t *doc, struct key key) {
  bson_t *values = arena_bson(a), *extra = arena_bson(a);
  if (!values_of_key(a, pattern, doc, key, values)) {
    bson_reinit(values);
    bson_iter_t field;
    bson_iter_init(&field, pattern);
    while (bson_iter_next(&field)) {
      bson_value_t v;
      if (!path_get(doc, bson_iter_key(&field), &v)) v = value_null();
      doc_append_value(values, bson_iter_key(&field), &v);
    }
  }
  BSON_APPEND_DOCUMENT(extra, "keyPattern", pattern);
  BSON_APPEND_DOCUMENT(extra, "keyValue", values);
  error_set(err, ERR_DuplicateKey, "E11000 duplicate key error collection: %s index: %s dup key: %s", ns, index_name,
            doc_text(a, values));
  return error_extra(err, a, extra);
}

// _id: taken by an insert only, since it never changes.
static enum step check_id(struct batch *b, struct collection *c, const bson_t *before, const bson_t *after,
                          struct error *err) {
  bson_value_t id;
  if (before || !after || !document_id(after, &id)) return STEP_DONE;
  struct buf encoded __attribute__((cleanup(buf_cleanup))) = {0};
  key_append(&encoded, &id, false);
  struct key key = {encoded.data, encoded.len};
  if (!write_lock_unique(b->w, c, 0, key)) return STEP_WAIT;
  uint32_t file;
  int64_t rid;
  if (!store_find_id(c, b->scratch, &id, &file, &rid, NULL)) return STEP_DONE;
  duplicate_error(err, b->scratch, c->ns, "_id_", c->indexes[0]->key, after, key);
  return STEP_FAILED;
}

static enum step check_index(struct batch *b, struct collection *c, const struct index *i, const bson_t *before,
                             const bson_t *after, uint32_t file, int64_t rid, struct error *err) {
  struct index_keys old, new;
  if (!keys_in(b, i, before, &old, err) || !keys_in(b, i, after, &new, err)) return STEP_FAILED;
  if (!i->unique) return STEP_DONE; // that the document can be indexed is all there is to know
  for (size_t k = 0; k < old.n; k++) {
    if (!contains(&new, old.keys[k]) && !write_lock_unique(b->w, c, i->id, old.keys[k])) return STEP_WAIT;
  }
  for (size_t k = 0; k < new.n; k++) {
    if (contains(&old, new.keys[k])) continue;
    if (!write_lock_unique(b->w, c, i->id, new.keys[k])) return STEP_WAIT;
    uint32_t at_file;
    int64_t at_rid;
    if (!store_find_unique(c, i, new.keys[k], &at_file, &at_rid)) continue;
    if (before && at_file == file && at_rid == rid) continue;
    duplicate_error(err, b->scratch, c->ns, i->name, i->key, after, new.keys[k]);
    return STEP_FAILED;
  }
  return STEP_DONE;
}

// Whether an index can refuse a document: two arrays in a compound key, an array under a hashed field. The index of the
// shard key refuses no new document: its shard key has been made from it, which takes no arrays.
static bool may_refuse(const struct collection *c, const struct index *i, bool is_new) {
  if (is_new && doc_equal_bytes(i->key, c->shard_key)) return false;
  bson_iter_t it;
  size_t fields = 0;
  bool hashed = false;
  bson_iter_init(&it, i->key);
  while (bson_iter_next(&it)) {
    fields++;
    if (BSON_ITER_HOLDS_UTF8(&it)) hashed = true;
  }
  return fields > 1 || hashed;
}

enum step unique_check(struct batch *b, struct collection *c, const bson_t *before, const bson_t *after, uint32_t file,
                       int64_t rid, struct error *err) {
  enum step step = check_id(b, c, before, after, err);
  for (size_t k = 1; k < c->n_indexes && step == STEP_DONE; k++) {
    const struct index *i = c->indexes[k];
    if (!i->unique && (!after || !may_refuse(c, i, !before))) continue;
    step = check_index(b, c, i, before, after, file, rid, err);
  }
  return step;
}
