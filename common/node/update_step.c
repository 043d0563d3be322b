// Updates of single documents. See update_step.h.
#include "common/node/update_step.h"

#include "common/base/map.h"
#include "common/bson/doc.h"
#include "common/node/internal.h"
#include "common/sharding/chunk_map.h"

static const bson_t *copy_doc(struct arena *a, const bson_t *doc) {
  return doc ? doc_copy(a, doc) : NULL;
}

static const bson_t *answer_of(struct batch *b, const struct update_statement *s, const bson_t *before,
                               const bson_t *after, bool inserted) {
  if (s->answer) return s->answer(b->scratch, s->answer_ctx, before, after, inserted);
  bson_t *answer = arena_bson(b->scratch);
  BSON_APPEND_INT32(answer, "n", 1);
  BSON_APPEND_INT32(answer, "nModified", inserted ? 0 : 1);
  bson_value_t id;
  if (inserted && document_id(after, &id)) doc_append_value(answer, "upserted", &id);
  return answer;
}

// The document's shard key changes to one of another shard: the router deletes it here and inserts it there.
static enum step would_change_shard(struct batch *b, const struct update_statement *s, const bson_t *before,
                                    const bson_t *after, struct error *err) {
  bson_t *extra = arena_bson(b->scratch);
  BSON_APPEND_DOCUMENT(extra, "preImage", before);
  BSON_APPEND_DOCUMENT(extra, "postImage", after);
  BSON_APPEND_BOOL(extra, "shouldUpsert", false);
  error_set(err, ERR_WouldChangeOwningShard,
            "Document shard key value updates that cause the doc to move shards must be "
            "sent with write batch of size 1");
  error_extra(err, b->scratch, extra);
  return STEP_FAILED;
}

// Where the new version goes. *file is the old place's when the shard key stays.
static enum step place_update(struct batch *b, const struct update_statement *s, struct collection *c,
                              const bson_t *before, const bson_t *after, uint32_t *file, struct key *key,
                              struct error *err) {
  if (bson_empty(c->shard_key)) return STEP_DONE;
  struct key old;
  if (!collection_shard_key_of(c, b->scratch, before, &old, err) ||
      !collection_shard_key_of(c, b->scratch, after, key, err)) {
    return STEP_FAILED;
  }
  if (key_compare(old, *key) == 0) return STEP_DONE;
  if (b->access->versioned) {
    if (s->multi) {
      error_set(err, ERR_InvalidOptions, "Multi-update operations are not allowed when updating the shard key field.");
      return STEP_FAILED;
    }
    if (!b->retryable) {
      error_set(err, ERR_IllegalOperation,
                "Must run update to shard key field in a multi-statement transaction or with "
                "retryWrites: true.");
      return STEP_FAILED;
    }
    if (!document_is_owned(b, c, after, *key, err)) return would_change_shard(b, s, before, after, err);
  }
  *file = collection_file_for(c, *key)->id;
  return STEP_DONE;
}

// Adds the effect: a new version in place, or a move to the file of its new shard key.
static void add_update(struct batch *b, struct collection *c, const struct exec_row *row, uint32_t file,
                       const bson_t *after, const bson_t *answer, const struct key *key) {
  struct change_list *l = write_changes(b->w);
  if (file == row->file) {
    change_replace(l, c, file, row->rid, after);
  } else {
    bson_value_t id;
    if (!document_id(row->doc, &id)) id = value_null();
    int64_t rid = collection_next_rid(c);
    change_delete(l, c, row->file, row->rid, &id);
    change_put(l, c, file, rid, after);
  }
  batch_record(b, l, answer, c, key);
  batch_remember(b, after);
}

enum step update_document(struct batch *b, void *statement, struct collection *c, const struct exec_row *row,
                          struct error *err) {
  struct update_statement *s = statement;
  if (!write_lock_document(b->w, c, row->rid)) return STEP_WAIT;
  int position = -1;
  match_doc_position(s->query.match, row->doc, &position);
  const bson_t *after;
  bool modified;
  if (!update_apply(s->update, b->scratch, row->doc, position, s->now_ms, false, &after, &modified, err)) {
    return STEP_FAILED;
  }
  if (modified) {
    uint32_t file = row->file;
    struct key key = {0};
    enum step step = place_update(b, s, c, row->doc, after, &file, &key, err);
    if (step == STEP_DONE) step = unique_check(b, c, row->doc, after, row->file, row->rid, err);
    if (step == STEP_DONE) step = batch_may_act(b, err);
    if (step != STEP_DONE) return step;
    if (!document_is_valid(b, after, err)) return STEP_FAILED;
    if (b->retryable && !bson_empty(c->shard_key) && !key.data)
      collection_shard_key_of(c, b->scratch, after, &key, NULL);
    add_update(b, c, row, file, after, answer_of(b, s, row->doc, after, false), &key);
    s->modified++;
  }
  s->matched++;
  if (!s->multi) {
    s->before = copy_doc(s->arena, row->doc);
    s->after = copy_doc(s->arena, after);
  }
  return STEP_DONE;
}

enum step update_insert(struct batch *b, struct update_statement *s, struct collection *c, struct error *err) {
  const bson_t *made, *doc;
  if (!update_upsert_document(s->update, b->scratch, s->query.match, s->now_ms, &made, err) ||
      !document_for_insert(b->n, b->scratch, made, &doc, err)) {
    return STEP_FAILED;
  }
  enum step step = insert_step(b, c, doc, answer_of(b, s, NULL, doc, true), err);
  if (step != STEP_DONE) return step;
  batch_remember(b, doc);
  bson_value_t id;
  document_id(doc, &id);
  s->upserted = true;
  s->upserted_id = value_copy(s->arena, &id);
  s->after = copy_doc(s->arena, doc);
  return STEP_DONE;
}

enum step update_evaluate(struct batch *b, void *statement, struct error *err) {
  struct update_statement *s = statement;
  struct collection *c;
  enum step step = batch_collection(b, false, &c, err);
  if (step != STEP_DONE) return step;
  if (batch_concerns_pending(b, s->query.match)) return STEP_WAIT;
  if (!c) {
    if (!s->upsert) return STEP_DONE;
    step = batch_collection(b, true, &c, err);
    return step == STEP_DONE ? STEP_WAIT : step; // others ran: look for the document again
  }
  if (s->multi) {
    step = target_each(b, c, &s->query, s->done, update_document, s, err);
  } else {
    struct exec_row row;
    bool found;
    step = target_first(b, &c, &s->query, &row, &found, err);
    if (step == STEP_DONE && found) return update_document(b, s, c, &row, err);
  }
  if (step != STEP_DONE || s->matched || !s->upsert) return step;
  // Others may have run during the search.
  step = batch_collection(b, false, &c, err);
  if (step != STEP_DONE || !c) return step == STEP_DONE ? STEP_WAIT : step;
  return update_insert(b, s, c, err);
}
