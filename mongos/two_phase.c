// Single writes whose filter does not say where the document is: the phases, which findAndModify uses as well.
#include "mongos/two_phase.h"

#include <string.h>

#include "common/base/clock.h"
#include "common/bson/doc.h"
#include "common/bson/path.h"
#include "common/query/sort.h"

// --- find ---

static void append_key_projection(bson_t *body, const struct shard_key *k) {
  bson_t projection;
  bool has_id = false;
  bson_append_document_begin(body, "projection", -1, &projection);
  for (size_t i = 0; i < k->n; i++) {
    bson_append_int32(&projection, k->paths[i], -1, 1);
    has_id = has_id || strcmp(k->paths[i], "_id") == 0;
  }
  if (!has_id) bson_append_int32(&projection, "_id", -1, 1);
  bson_append_document_end(body, &projection);
}

static bson_t *find_body(struct arena *a, const struct placement *p, const struct filter_spec *f, const bson_t *sort) {
  bson_t *body = arena_bson(a), part;
  bson_append_utf8(body, "find", -1, strchr(p->ns, '.') + 1, -1);
  bson_append_document(body, "filter", -1, f->filter);
  if (sort != NULL) {
    bson_append_document(body, "sort", -1, sort); // whole documents come back: shards' firsts are compared by it
  } else {
    append_key_projection(body, placement_key(p));
  }
  bson_append_int32(body, "limit", -1, 1);
  bson_append_bool(body, "singleBatch", -1, true);
  if (f->options != NULL && doc_doc(f->options, "collation", &part)) bson_append_document(body, "collation", -1, &part);
  if (f->options != NULL && doc_doc(f->options, "hint", &part)) bson_append_document(body, "hint", -1, &part);
  if (f->command != NULL && doc_doc(f->command, "let", &part)) bson_append_document(body, "let", -1, &part);
  return body;
}

static bool first_document(const bson_t *reply, bson_t *doc) {
  bson_t cursor, batch;
  bson_iter_t it;
  if (!doc_doc(reply, "cursor", &cursor) || !doc_doc(&cursor, "firstBatch", &batch)) return false;
  if (!bson_iter_init(&it, &batch) || !bson_iter_next(&it)) return false;
  iter_doc(doc, &it);
  return true;
}

// {_id, shard key} with dotted names for dotted paths, as conditions of a filter take them.
static const bson_t *key_of(struct arena *a, const struct shard_key *k, const bson_t *doc) {
  bson_t *key = arena_bson(a);
  bson_value_t v;
  if (doc_value(doc, "_id", &v)) doc_append_value(key, "_id", &v);
  for (size_t i = 0; i < k->n; i++) {
    if (strcmp(k->paths[i], "_id") == 0) continue;
    if (!path_get(doc, k->paths[i], &v)) v = value_null();
    doc_append_value(key, k->paths[i], &v);
  }
  return key;
}

bool two_phase_find(struct request *r, const struct placement *p, const struct filter_spec *f, const bson_t *sort,
                    struct found_document *out, struct error *err) {
  struct arena *a = r->op->arena;
  struct target *targets;
  size_t n;
  bool exact;
  *out = (struct found_document){0};
  const struct sort *order = NULL;
  if (sort != NULL && (order = sort_parse(a, sort, err)) == NULL) return false;
  if (!placement_targets(a, p, f, &targets, &n, &exact, err)) return false;
  struct shard_call *calls = shard_calls_new(a, targets, n, find_body(a, p, f, sort));
  for (size_t i = 0; i < n; i++) calls[i].db = p->db;
  shard_calls_run(r, r->op, calls, n, CALL_DDL);
  if (!shard_calls_ok(router_of(r), p, calls, n, err)) return false;
  struct buf best __attribute__((cleanup(buf_cleanup))) = {0}, key __attribute__((cleanup(buf_cleanup))) = {0};
  for (size_t i = 0; i < n; i++) {
    bson_t doc;
    if (!first_document(calls[i].reply, &doc)) continue;
    buf_clear(&key);
    if (order != NULL) sort_key_append(order, &doc, &key);
    struct key here = {.data = key.data, .len = key.len}, so_far = {.data = best.data, .len = best.len};
    if (out->found && (order == NULL || key_compare(here, so_far) >= 0)) continue;
    buf_clear(&best);
    buf_add(&best, key.data, key.len);
    *out = (struct found_document){.found = true, .key = key_of(a, placement_key(p), &doc), .target = targets[i]};
  }
  return true;
}

// --- filters ---

static void append_equalities(bson_t *to, const bson_t *key) {
  bson_iter_t it;
  for (bool more = bson_iter_init(&it, key); more && bson_iter_next(&it);) {
    bson_t eq;
    bson_append_document_begin(to, bson_iter_key(&it), -1, &eq);
    doc_append_value(&eq, "$eq", bson_iter_value(&it));
    bson_append_document_end(to, &eq);
  }
}

const bson_t *two_phase_filter(struct arena *a, const bson_t *filter, const struct found_document *d) {
  bson_t *both = arena_bson(a), parts, key;
  bson_append_array_begin(both, "$and", -1, &parts);
  bson_append_document(&parts, "0", 1, filter);
  bson_append_document_begin(&parts, "1", 1, &key);
  append_equalities(&key, d->key);
  bson_append_document_end(&parts, &key);
  bson_append_array_end(both, &parts);
  return both;
}

const bson_t *two_phase_no_match(struct arena *a) {
  bson_t *none = arena_bson(a), in, empty = BSON_INITIALIZER;
  bson_append_document_begin(none, "_id", -1, &in);
  bson_append_array(&in, "$in", -1, &empty);
  bson_append_document_end(none, &in);
  return none;
}

// --- upsert ---

// {_id, key, $nor: [{}]}: names the document to insert, and matches none that is there already: that one must lead to
// DuplicateKey, for the client's filter did not match it.
static const bson_t *upsert_filter(struct arena *a, const struct shard_key *k, const bson_t *doc) {
  bson_t *filter = arena_bson(a), nor, empty = BSON_INITIALIZER;
  append_equalities(filter, key_of(a, k, doc));
  bson_append_array_begin(filter, "$nor", -1, &nor);
  bson_append_document(&nor, "0", 1, &empty);
  bson_append_array_end(filter, &nor);
  return filter;
}

bool two_phase_upsert(struct arena *a, const struct placement *p, const struct filter_spec *f,
                      const bson_value_t *update, const bson_t *array_filters, struct upsert_document *out,
                      struct error *err) {
  bson_t let, u;
  struct match_options o = {.let = f->command != NULL && doc_doc(f->command, "let", &let) ? &let : NULL};
  doc_view(&u, update->value.v_doc.data, update->value.v_doc.data_len);
  bool is_array = update->value_type == BSON_TYPE_ARRAY;
  const struct match *m = match_parse(a, f->filter, &o, err);
  struct update *parsed = m != NULL ? update_parse(a, &u, is_array, array_filters, &o, err) : NULL;
  if (parsed == NULL || !update_upsert_document(parsed, a, m, clock_wall_ms(), &out->doc, err)) return false;
  const struct shard_key *k = placement_key(p);
  struct key key;
  struct chunk chunk;
  if (!path_encode_key(a, out->doc, k->pattern, &key, err)) return false;
  chunk_map_find(p->routing->chunks, key, &chunk);
  out->target = target_shard(p, chunk.shard);
  out->filter = upsert_filter(a, k, out->doc);
  return true;
}

bool reply_is_retried(const bson_t *reply) {
  bson_t ids;
  return (doc_doc(reply, "retriedStmtIds", &ids) && !bson_empty(&ids)) || doc_has(reply, "retriedStmtId");
}
