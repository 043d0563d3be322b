// Updates applied: to documents, and to make the document of an upsert.
#include <string.h>

#include "common/base/clock.h"
#include "common/query/transform.h"
#include "common/query/update_internal.h"
#include "common/query/variables.h"

bool update_is_replacement(const struct update *u) {
  return u->kind == UPDATE_REPLACEMENT;
}

bool update_touches_path(const struct update *u, const char *path) {
  return u->kind != UPDATE_OPERATORS || update_tree_touches(u->root, path);
}

// --- what the new document must be ---

static bool check_id(const bson_t *before, const bson_t *after, bool replacement, struct error *err, struct arena *a) {
  bson_value_t old, new;
  bool had = doc_value(before, "_id", &old), has = doc_value(after, "_id", &new);
  if (!had) return true;
  // Not only equal, but the same bytes: 1 and 1.0 are different values to store.
  bson_t *x = arena_bson(a), *y = arena_bson(a);
  doc_append_value(x, "", &old);
  if (has) doc_append_value(y, "", &new);
  if (doc_equal_bytes(x, y)) return true;
  if (replacement) {
    return error_set(err, ERR_ImmutableField,
                     "After applying the update, the (immutable) field '_id' was found to have been "
                     "altered to _id: %s",
                     has ? value_text(a, &new) : "(removed)");
  }
  return error_set(err, ERR_ImmutableField,
                   "Performing an update on the path '_id' would modify the immutable field '_id'");
}

static bool check_result(const struct update *u, const struct update_run *r, const bson_t *out) {
  if (out->len > DOC_MAX_BYTES) {
    return error_set(r->err, r->insert ? 17420 : 17419, "%s is larger than %d",
                     r->insert ? "Document to upsert" : "Resulting document after update", DOC_MAX_BYTES);
  }
  if (u->deepens && !doc_validate(bson_get_data(out), out->len, r->err)) return false;
  return check_id(r->doc, out, u->kind != UPDATE_OPERATORS, r->err, r->arena);
}

// --- the three kinds ---

static const bson_t *replaced(const struct update *u, const struct update_run *r) {
  bson_value_t id;
  if (doc_has(u->replacement, "_id") || !doc_value(r->doc, "_id", &id)) return u->replacement;
  bson_t *out = arena_bson(r->arena);
  doc_append_value(out, "_id", &id);
  bson_concat(out, u->replacement);
  return out;
}

static bool run_pipeline(const struct update *u, const struct update_run *r, const bson_t **out) {
  const bson_t *doc = r->doc;
  u->vars->now_ms = r->now_ms;
  for (size_t i = 0; i < u->n_stages; i++) {
    if (!transform_apply(u->stages[i], r->arena, doc, &doc, r->err)) return false;
  }
  bson_value_t id;
  *out = doc;
  // A pipeline may leave the _id out; it stays all the same.
  if (doc_has(doc, "_id") || !doc_value(r->doc, "_id", &id)) return true;
  bson_t *with = arena_bson(r->arena);
  doc_append_value(with, "_id", &id);
  bson_concat(with, doc);
  *out = with;
  return true;
}

static bool run(const struct update *u, struct update_run *r, const bson_t **out) {
  if (u->kind == UPDATE_REPLACEMENT) {
    *out = replaced(u, r);
  } else if (u->kind == UPDATE_PIPELINE) {
    if (!run_pipeline(u, r, out)) return false;
  } else {
    bson_t *doc = arena_bson(r->arena);
    *out = doc;
    if (!update_apply_tree(u->root, r, doc)) return false;
  }
  return check_result(u, r, *out);
}

bool update_apply(const struct update *u, struct arena *a, const bson_t *doc, int position, int64_t now_ms, bool insert,
                  const bson_t **out, bool *modified, struct error *err) {
  struct update_run r = {a, doc, position, now_ms, insert, err};
  *modified = false;
  if (!run(u, &r, out)) return false;
  *modified = !doc_equal_bytes(doc, *out);
  if (*out == doc) *out = doc_copy(a, doc);
  return true;
}

// --- upserts ---

struct equalities {
  struct update_parser parser;
  bool ok;
};

// An equality of the filter becomes a field of the new document.
static bool take_equality(void *ctx, const char *path, const bson_value_t *v) {
  struct equalities *e = ctx;
  if (path[0] == '$') return true;
  struct update_leaf *l = arena_zalloc(e->parser.arena, sizeof *l);
  *l = (struct update_leaf){.op = update_operator_find("$set"), .path = path, .value = *v};
  struct error *err = e->parser.err;
  struct error why = {0};
  e->parser.err = &why;
  e->ok = update_tree_leaf(&e->parser, path, l);
  e->parser.err = err;
  if (e->ok) return true;
  if (why.code == 40) {
    return error_set(err, ERR_NotSingleValueField, "cannot infer query fields to set, path '%s' is matched twice",
                     path);
  }
  if (err) *err = why;
  return false;
}

// The fields that the filter fixes; of a replacement's filter only the _id.
static bool document_of_filter(const struct update *u, struct arena *a, const struct match *m, const bson_t **out,
                               struct error *err) {
  bson_t *doc = arena_bson(a), *empty = arena_bson(a);
  bson_value_t id;
  *out = doc;
  if (u->kind == UPDATE_REPLACEMENT) {
    if (match_equality(m, "_id", &id)) doc_append_value(doc, "_id", &id);
    return true;
  }
  struct update_node *root = arena_zalloc(a, sizeof *root);
  root->name = root->path = "";
  struct equalities e = {.parser = {.arena = a, .root = root, .err = err}, .ok = true};
  match_each_equality(m, take_equality, &e);
  if (!e.ok) return false;
  struct update_run r = {.arena = a, .doc = empty, .position = -1, .insert = true, .err = err};
  return update_apply_tree(root, &r, doc);
}

// With an _id, as the first field.
static const bson_t *with_id(struct arena *a, const bson_t *doc) {
  bson_value_t id;
  bson_iter_t it;
  if (bson_iter_init(&it, doc) && bson_iter_next(&it) && strcmp(bson_iter_key(&it), "_id") == 0) return doc;
  if (!doc_value(doc, "_id", &id)) {
    id = (bson_value_t){.value_type = BSON_TYPE_OID};
    bson_oid_init(&id.value.v_oid, NULL);
  }
  bson_t *out = arena_bson(a);
  doc_append_value(out, "_id", &id);
  for (bson_iter_init(&it, doc); bson_iter_next(&it);) {
    if (strcmp(bson_iter_key(&it), "_id") != 0) doc_append_value(out, bson_iter_key(&it), bson_iter_value(&it));
  }
  return out;
}

bool update_upsert_document(const struct update *u, struct arena *a, const struct match *m, int64_t now_ms,
                            const bson_t **out, struct error *err) {
  const bson_t *start, *result;
  if (!document_of_filter(u, a, m, &start, err)) return false;
  struct update_run r = {a, start, -1, now_ms, true, err};
  if (!run(u, &r, &result)) return false;
  *out = with_id(a, result);
  return true;
}
