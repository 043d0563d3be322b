// What the commands on chunks share.
#include "configsvr/chunk_commands.h"

#include <string.h>

#include "common/bson/doc.h"

const char *const chunk_namespaces[2] = {"config.chunks", "config.collections"};

bool chunk_check_generation(const struct collection_type *c, const bson_oid_t *epoch, uint64_t timestamp,
                            struct error *err) {
  if (bson_oid_equal(&c->epoch, epoch) && (timestamp == 0 || timestamp == c->timestamp)) return true;
  char wanted[25], got[25];
  bson_oid_to_string(&c->epoch, wanted);
  bson_oid_to_string(epoch, got);
  return error_set(err, ERR_StaleEpoch, "epoch mismatch detected for %s: the request has %s, the collection %s", c->ns,
                   got, wanted);
}

void chunk_append_piece(bson_t *to, const char *name, const struct collection_type *coll, const struct chunk_type *c) {
  bson_t piece;
  struct chunk_version v = version_of(coll, c->major, c->minor);
  bson_append_document_begin(to, name, -1, &piece);
  bson_append_document(&piece, "min", -1, c->min);
  bson_append_document(&piece, "max", -1, c->max);
  chunk_version_append(&piece, "lastmod", &v);
  bson_append_document_end(to, &piece);
}

bool chunk_parse_range(const bson_t *doc, struct arena *a, const bson_t **min, const bson_t **max, struct error *err) {
  bson_t low, high;
  if (!doc_doc(doc, "min", &low) || !doc_doc(doc, "max", &high)) {
    return error_set(err, ERR_BadValue, "A range needs the documents min and max, but found %s", doc_text(a, doc));
  }
  *min = doc_copy(a, &low);
  *max = doc_copy(a, &high);
  if (chunk_bound_compare(*min, *max) < 0) return true;
  return error_set(err, ERR_BadValue, "The range %s is empty", range_text(a, *min, *max));
}

bool request_copy_doc(struct request *r, const char *field, const bson_t **out, struct error *err) {
  bson_t view;
  if (!request_required_doc(r, field, &view, err)) return false;
  *out = doc_copy(r->op->arena, &view);
  return true;
}

bool request_namespace(const struct request *r, const char **ns, struct error *err) {
  *ns = r->coll; // of a command on admin the first field is the whole namespace
  if (*ns && strchr(*ns, '.') && namespace_valid(*ns, err)) return true;
  return error_set(err, ERR_InvalidNamespace, "%s needs a full namespace (\"database.collection\"), but found '%s'",
                   r->name, *ns ? *ns : "");
}
