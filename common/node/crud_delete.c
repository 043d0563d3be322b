// The delete command.
#include "common/node/crud.h"

#include "common/base/map.h"
#include "common/bson/doc.h"
#include "common/node/delete_step.h"
#include "common/node/internal.h"

enum step delete_document(struct batch *b, void *statement, struct collection *c, const struct exec_row *row,
                          struct error *err) {
  struct delete_statement *s = statement;
  if (!write_lock_document(b->w, c, row->rid)) return STEP_WAIT;
  enum step step = unique_check(b, c, row->doc, NULL, row->file, row->rid, err);
  if (step == STEP_DONE) step = batch_may_act(b, err);
  if (step != STEP_DONE) return step;
  struct key key = {0};
  if (b->retryable && !collection_shard_key_of(c, b->scratch, row->doc, &key, err)) return STEP_FAILED;
  bson_value_t id;
  if (!document_id(row->doc, &id)) id = value_null();
  const bson_t *answer = s->answer ? s->answer(b->scratch, s->answer_ctx, row->doc) : NULL;
  if (!answer) {
    bson_t *plain = arena_bson(b->scratch);
    BSON_APPEND_INT32(plain, "n", 1);
    answer = plain;
  }
  struct change_list *l = write_changes(b->w);
  change_delete(l, c, row->file, row->rid, &id);
  batch_record(b, l, answer, c, &key);
  if (!s->multi && s->arena) s->before = doc_copy(s->arena, row->doc);
  s->deleted++;
  return STEP_DONE;
}

enum step delete_evaluate(struct batch *b, void *statement, struct error *err) {
  struct delete_statement *s = statement;
  struct collection *c;
  enum step step = batch_collection(b, false, &c, err);
  if (step != STEP_DONE || !c) return step;
  if (batch_concerns_pending(b, s->query.match)) return STEP_WAIT;
  if (s->multi) return target_each(b, c, &s->query, s->done, delete_document, s, err);
  struct exec_row row;
  bool found;
  step = target_first(b, &c, &s->query, &row, &found, err);
  return step == STEP_DONE && found ? delete_document(b, s, c, &row, err) : step;
}

bool delete_statement_parse(struct request *r, struct arena *a, const bson_t *spec, struct delete_statement *s,
                            struct error *err) {
  *s = (struct delete_statement){0};
  bson_iter_t it;
  if (!doc_get(spec, "limit", &it) || !iter_is_number(&it)) {
    return error_set(err, ERR_NoSuchKey, "BSON field 'delete.deletes.limit' is missing but a required field");
  }
  int64_t limit = iter_i64(&it);
  if (limit != 0 && limit != 1) {
    return error_set(err, ERR_FailedToParse, "The limit field in delete objects must be 0 or 1. Got %lld",
                     (long long)limit);
  }
  s->multi = limit == 0;
  if (s->multi && r->has_txn_number) {
    return error_set(err, ERR_InvalidOptions, "Cannot use retryable writes with limit=0");
  }
  if (s->multi) s->done = map_in_arena(a);
  return query_parse_statement(a, spec, r->body, &s->query, err);
}

static enum outcome run_statement(struct batch *b, size_t i, size_t total, const bson_t *spec, int32_t *n,
                                  struct error *err) {
  struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
  struct delete_statement s;
  if (!delete_statement_parse(b->r, a, spec, &s, err)) return batch_refuse(b, i, total, err);
  const bson_t *answer;
  enum outcome outcome = batch_run(b, i, total, delete_evaluate, &s, &answer, err);
  if (outcome == OUTCOME_ANSWERED) *n += (int32_t)doc_i64(answer, "n", 0);
  b->n->own->ops.remove++;
  *n += s.deleted;
  return outcome;
}

static bool delete_all(struct batch *b, struct documents *specs, int32_t *n, struct error *err) {
  bson_t spec;
  for (size_t i = 0; documents_next(specs, &spec); i++) {
    enum outcome outcome = run_statement(b, i, specs->count, &spec, n, err);
    if (outcome == OUTCOME_ABORT) return false;
    if (outcome == OUTCOME_STOP) break;
  }
  return true;
}

bool delete_run(struct request *r, bson_t *reply, struct error *err) {
  struct documents specs;
  if (!request_needs_collection(r, err) || !request_documents(r, "deletes", &specs, err)) return false;
  if (specs.count == 0) {
    return error_set(err, ERR_InvalidLength, "Write batch sizes must be between 1 and %d. Got 0 operations.",
                     MESSAGE_MAX_STATEMENTS);
  }
  struct batch *b = arena_alloc(r->op->arena, sizeof *b);
  int32_t n = 0;
  if (!batch_begin(b, r, r->ns, err) || !delete_all(b, &specs, &n, err) || !batch_commit(b, err)) return false;
  BSON_APPEND_INT32(reply, "n", n);
  batch_reply(b, reply);
  return true;
}
