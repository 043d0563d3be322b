// Creating, completing and dropping a collection of this shard on another daemon's word.
#include "shardd/local_collection.h"

#include <string.h>

#include "common/bson/compare.h"
#include "common/bson/doc.h"
#include "shardd/bson_array.h"

static const bson_t *child_or_empty(struct arena *a, const bson_t *doc, const char *name) {
  bson_t view;
  return doc_doc(doc, name, &view) ? doc_copy(a, &view) : arena_bson(a);
}

bool collection_plan_parse(struct arena *a, const char *ns, const bson_t *doc, struct collection_plan *out,
                           struct error *err) {
  *out = (struct collection_plan){.ns = ns,
                                  .options = child_or_empty(a, doc, "options"),
                                  .indexes = child_or_empty(a, doc, "indexes"),
                                  .shard_key = child_or_empty(a, doc, "shardKey")};
  return doc_uuid(doc, "uuid", out->uuid) ||
         error_set(err, ERR_NoSuchKey, "Missing or invalid field 'uuid' in the description of %s", ns);
}

void collection_plan_append(bson_t *to, const struct collection *c) {
  bson_t indexes;
  doc_append_uuid(to, "uuid", c->uuid);
  BSON_APPEND_DOCUMENT(to, "options", c->options);
  BSON_APPEND_ARRAY_BEGIN(to, "indexes", &indexes);
  struct bson_array out = {.bson = &indexes};
  for (size_t i = 1; i < c->n_indexes; i++)
    if (c->indexes[i]->ready) bson_array_add(&out, c->indexes[i]->spec);
  bson_append_array_end(to, &indexes);
  BSON_APPEND_DOCUMENT(to, "shardKey", c->shard_key);
}

bool local_collection_ensure(struct operation *op, struct shard *sh, const struct collection_plan *plan,
                             struct error *err) {
  struct ddl d = {.op = op, .node = &sh->node};
  struct collection_spec spec = {.ns = plan->ns,
                                 .uuid = plan->uuid,
                                 .options = plan->options,
                                 .shard_key = plan->shard_key,
                                 .indexes = plan->indexes};
  struct create_indexes_result ignored;
  if (!ddl_create(&d, &spec, err)) return false;
  if (!bson_empty(plan->indexes) && !ddl_create_indexes(&d, plan->ns, plan->indexes, &ignored, err)) return false;
  return bson_empty(plan->shard_key) ||
         local_collection_set_shard_key(op, sh, plan->ns, plan->uuid, plan->shard_key, err);
}

bool local_collection_set_shard_key(struct operation *op, struct shard *sh, const char *ns, const uint8_t uuid[16],
                                    const bson_t *key, struct error *err) {
  struct ddl d = {.op = op, .node = &sh->node};
  struct write *w = write_begin(op, sh->node.repl);
  if (!ddl_lock(&d, w, ns, err)) return false;
  const struct collection *c = store_collection_by_uuid(sh->node.store, uuid);
  if (c && doc_compare(c->shard_key, key) != 0) {
    change_shard_key(write_changes(w), uuid, key);
    return write_commit(op, w, err);
  }
  write_abandon(w);
  return c || error_set(err, ERR_NamespaceNotFound, "Collection %s not found", ns);
}

bool local_collection_drop(struct operation *op, struct shard *sh, const char *ns, const uint8_t *uuid,
                           struct error *err) {
  struct ddl d = {.op = op, .node = &sh->node};
  bool existed;
  int32_t n_indexes;
  return ddl_drop(&d, ns, uuid, &existed, &n_indexes, err);
}

bool local_create_index(struct operation *op, struct shard *sh, const char *ns, const bson_t *key, bool unique,
                        struct error *err) {
  struct ddl d = {.op = op, .node = &sh->node};
  struct create_indexes_result ignored;
  bson_t *specs = arena_bson(op->arena), spec;
  BSON_APPEND_DOCUMENT_BEGIN(specs, "0", &spec);
  BSON_APPEND_DOCUMENT(&spec, "key", key);
  BSON_APPEND_UTF8(&spec, "name", index_name_of(op->arena, key));
  if (unique) BSON_APPEND_BOOL(&spec, "unique", true);
  bson_append_document_end(specs, &spec);
  return ddl_create_indexes(&d, ns, specs, &ignored, err);
}
