// Adding a new document: by insert and by upserts.
#include "common/node/write_batch.h"

#include <string.h>

#include "common/bson/doc.h"
#include "common/node/executor.h"
#include "common/node/internal.h"
#include "common/sharding/chunk_map.h"
#include "common/sharding/version.h"

bool document_is_owned(struct batch *b, const struct collection *c, const bson_t *doc, struct key key,
                       struct error *err) {
  const struct access *x = b->access;
  if (!x->versioned || !x->owner_map) return true;
  bool same_key = doc_equal_bytes(c->shard_key, chunk_map_key(x->owner_map)->pattern);
  if (same_key ? chunk_map_owned_by(x->owner_map, key, x->shard) : access_owns(x, b->scratch, doc)) return true;
  struct chunk_version received = chunk_version_unsharded(), wanted = chunk_map_shard_version(x->owner_map, x->shard);
  if (b->r->has_shard_version) chunk_version_parse(&b->r->shard_version, &received, NULL);
  return error_stale_config(err, b->scratch, b->ns, &received, &wanted, x->shard,
                            "the document belongs to a chunk of another shard");
}

bool document_is_valid(struct batch *b, const bson_t *doc, struct error *err) {
  const struct node_hooks *h = &b->n->hooks;
  return !h->validate || strncmp(b->ns, "config.", 7) || h->validate(h->ctx, b->ns, doc, err);
}

enum step insert_step(struct batch *b, struct collection *c, const bson_t *doc, const bson_t *answer,
                      struct error *err) {
  struct key key = {0};
  if (!collection_shard_key_of(c, b->scratch, doc, &key, err) || !document_is_owned(b, c, doc, key, err))
    return STEP_FAILED;
  enum step step = unique_check(b, c, NULL, doc, 0, 0, err);
  if (step == STEP_DONE) step = batch_may_act(b, err);
  if (step != STEP_DONE) return step;
  if (!document_is_valid(b, doc, err)) return STEP_FAILED;
  int64_t rid = collection_next_rid(c);
  struct range_file *file = collection_file_for(c, key);
  struct change_list *l = write_changes(b->w);
  change_put(l, c, file->id, rid, doc);
  batch_record(b, l, answer, c, &key);
  return STEP_DONE;
}
