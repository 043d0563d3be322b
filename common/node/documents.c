// Documents on their way into a collection.
#include "common/node/write_batch.h"

#include <string.h>

#include "common/bson/doc.h"

bool document_id(const bson_t *doc, bson_value_t *id) {
  return doc_value(doc, "_id", id);
}

static bool id_can_be(const bson_iter_t *it, struct error *err) {
  switch (bson_iter_type(it)) {
  case BSON_TYPE_ARRAY: return error_set(err, ERR_BadValue, "can't use an array for _id");
  case BSON_TYPE_REGEX: return error_set(err, ERR_BadValue, "can't use a regex for _id");
  case BSON_TYPE_UNDEFINED: return error_set(err, ERR_BadValue, "can't use a undefined for _id");
  default: break;
  }
  bson_iter_t child;
  if (!BSON_ITER_HOLDS_DOCUMENT(it) || !bson_iter_recurse(it, &child)) return true;
  while (bson_iter_next(&child)) {
    if (bson_iter_key(&child)[0] == '$') {
      return error_set(err, ERR_DollarPrefixedFieldName,
                       "_id fields may not contain '$'-prefixed fields: %s is not valid for storage.",
                       bson_iter_key(&child));
    }
  }
  return true;
}

static bool is_zero_timestamp(const bson_iter_t *it) {
  if (!BSON_ITER_HOLDS_TIMESTAMP(it)) return false;
  uint32_t t, i;
  bson_iter_timestamp(it, &t, &i);
  return t == 0 && i == 0;
}

// What has to be changed in a document before it is stored.
struct repair {
  bool has_id, id_first, zero_timestamp;
};

static bool inspect(const bson_t *doc, struct repair *out, struct error *err) {
  bson_iter_t it;
  bson_iter_init(&it, doc);
  *out = (struct repair){0};
  for (bool first = true; bson_iter_next(&it); first = false) {
    if (is_zero_timestamp(&it)) out->zero_timestamp = true;
    const char *name = bson_iter_key(&it);
    if (name[0] != '_' || strcmp(name, "_id")) continue;
    if (out->has_id) return error_set(err, ERR_BadValue, "can't have multiple _id fields in one document");
    if (!id_can_be(&it, err)) return false;
    out->has_id = true;
    out->id_first = first;
  }
  return true;
}

static void append_repaired(struct node *n, bson_t *to, bson_iter_t *it) {
  bool id = !strcmp(bson_iter_key(it), "_id");
  if (is_zero_timestamp(it) && !id) {
    doc_append_ts(to, bson_iter_key(it), cluster_clock_tick(&n->clock));
  } else {
    doc_append_iter(to, NULL, it);
  }
}

bool document_for_insert(struct node *n, struct arena *a, const bson_t *doc, const bson_t **out, struct error *err) {
  struct repair r;
  if (!inspect(doc, &r, err)) return false;
  if (doc->len > DOC_MAX_BYTES) {
    return error_set(err, ERR_BSONObjectTooLarge, "object to insert too large. size in bytes: %u, max size: %d",
                     doc->len, DOC_MAX_BYTES);
  }
  *out = doc;
  if (r.id_first && !r.zero_timestamp) return true;
  bson_t *fixed = arena_bson(a);
  bson_iter_t it;
  if (!r.has_id) {
    bson_oid_t oid;
    bson_oid_init(&oid, NULL);
    BSON_APPEND_OID(fixed, "_id", &oid);
  } else {
    bson_iter_init_find(&it, doc, "_id");
    doc_append_iter(fixed, NULL, &it);
  }
  bson_iter_init(&it, doc);
  while (bson_iter_next(&it)) {
    if (strcmp(bson_iter_key(&it), "_id")) append_repaired(n, fixed, &it);
  }
  *out = fixed;
  return true;
}
