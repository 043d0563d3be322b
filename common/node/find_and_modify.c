// The findAndModify command: one document is found, changed or removed, and returned as it was or as it is now.
#include "common/node/crud.h"

#include "common/base/clock.h"
#include "common/bson/doc.h"
#include "common/node/delete_step.h"
#include "common/node/internal.h"
#include "common/node/update_step.h"
#include "common/query/projection.h"

struct modify {
  struct request *r;
  bool remove, return_new, upsert;
  struct update_statement update;
  struct delete_statement delete;
  struct projection *projection; // NULL: whole documents
};

static bool parse_shape(const bson_t *body, struct modify *m, struct error *err) {
  m->remove = doc_bool(body, "remove", false);
  m->return_new = doc_bool(body, "new", false);
  m->upsert = doc_bool(body, "upsert", false);
  bool has_update = doc_has(body, "update");
  if (m->remove && has_update) {
    return error_set(err, ERR_FailedToParse, "Cannot specify both an update and remove=true");
  }
  if (!m->remove && !has_update) {
    return error_set(err, ERR_FailedToParse, "Either an update or remove=true must be specified");
  }
  if (m->remove && m->upsert) {
    return error_set(err, ERR_FailedToParse, "Cannot specify both upsert=true and remove=true");
  }
  if (m->remove && m->return_new) {
    return error_set(err, ERR_FailedToParse,
                     "Cannot specify both new=true and remove=true; 'remove' always returns "
                     "the deleted document");
  }
  return true;
}

static bool parse_modify(struct request *r, struct modify *m, struct error *err) {
  struct arena *a = r->op->arena;
  const bson_t *body = r->body, *fields, *filters;
  struct query *q = &m->update.query;
  if (!parse_shape(body, m, err) || !query_parse(a, body, "query", q, err)) return false;
  q->skip = q->limit = 0;
  if (!optional_doc(a, body, "fields", false, &fields, err) ||
      !optional_doc(a, body, "arrayFilters", true, &filters, err)) {
    return false;
  }
  if (fields && !bson_empty(fields)) {
    m->projection = projection_parse(a, fields, true, q->match, &q->options, err);
    if (!m->projection) return false;
  }
  m->update.arena = m->delete.arena = a;
  m->update.upsert = m->upsert;
  m->update.now_ms = clock_wall_ms();
  m->delete.query = *q;
  if (m->remove) return true;
  bson_iter_t it;
  doc_get(body, "update", &it);
  if (!BSON_ITER_HOLDS_ARRAY(&it) && !BSON_ITER_HOLDS_DOCUMENT(&it)) {
    return error_set(err, ERR_FailedToParse, "Update argument must be either an object or an array");
  }
  m->update.update = update_parse(a, iter_child(a, &it), BSON_ITER_HOLDS_ARRAY(&it), filters, &q->options, err);
  return m->update.update != NULL;
}

// {lastErrorObject, value}: what the client gets, and what a retry gets again.
static bool make_answer(const struct modify *m, struct arena *a, const bson_t *before, const bson_t *after,
                        bool inserted, bson_t *out, struct error *err) {
  bson_t last;
  bool any = before || inserted;
  BSON_APPEND_DOCUMENT_BEGIN(out, "lastErrorObject", &last);
  BSON_APPEND_INT32(&last, "n", any ? 1 : 0);
  if (!m->remove) BSON_APPEND_BOOL(&last, "updatedExisting", before != NULL);
  bson_value_t id;
  if (inserted && document_id(after, &id)) doc_append_value(&last, "upserted", &id);
  bson_append_document_end(out, &last);
  const bson_t *value = m->return_new ? after : before;
  if (!value) {
    BSON_APPEND_NULL(out, "value");
    return true;
  }
  if (!m->projection) {
    BSON_APPEND_DOCUMENT(out, "value", value);
    return true;
  }
  bson_t *projected = arena_bson(a);
  if (!projection_apply(m->projection, a, value, projected, err)) return false;
  BSON_APPEND_DOCUMENT(out, "value", projected);
  return true;
}

static const bson_t *record_update(struct arena *a, void *ctx, const bson_t *before, const bson_t *after,
                                   bool inserted) {
  bson_t *out = arena_bson(a);
  make_answer(ctx, a, before, after, inserted, out, NULL);
  return out;
}

static const bson_t *record_delete(struct arena *a, void *ctx, const bson_t *before) {
  return record_update(a, ctx, before, NULL, false);
}

static bool run_modify(struct batch *b, struct modify *m, bson_t *reply, struct error *err) {
  m->update.answer = record_update;
  m->delete.answer = record_delete;
  m->update.answer_ctx = m->delete.answer_ctx = m;
  const bson_t *answer;
  enum outcome outcome = m->remove ? batch_run(b, 0, 1, delete_evaluate, &m->delete, &answer, err)
                                   : batch_run(b, 0, 1, update_evaluate, &m->update, &answer, err);
  if (outcome == OUTCOME_ANSWERED) return bson_concat(reply, answer);
  if (m->remove) {
    b->n->own->ops.remove++;
  } else {
    b->n->own->ops.update++;
  }
  if (outcome != OUTCOME_DONE) return false; // the only statement's error is the command's
  if (!batch_commit(b, err)) return false;
  const struct update_statement *u = &m->update;
  return m->remove ? make_answer(m, b->op->arena, m->delete.before, NULL, false, reply, err)
                   : make_answer(m, b->op->arena, u->before, u->after, u->upserted, reply, err);
}

bool find_and_modify_run(struct request *r, bson_t *reply, struct error *err) {
  if (!request_needs_collection(r, err)) return false;
  struct modify *m = arena_zalloc(r->op->arena, sizeof *m);
  m->r = r;
  struct batch *b = arena_alloc(r->op->arena, sizeof *b);
  if (!parse_modify(r, m, err) || !batch_begin(b, r, r->ns, err) || !run_modify(b, m, reply, err)) return false;
  batch_reply(b, reply);
  return true;
}
