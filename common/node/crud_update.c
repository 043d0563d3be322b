// The update command.
#include "common/node/crud.h"

#include "common/base/clock.h"
#include "common/base/map.h"
#include "common/bson/doc.h"
#include "common/node/internal.h"
#include "common/node/update_step.h"

struct update_totals {
  int32_t n, modified;
  bson_t *upserted; // array of {index, _id}
  uint32_t n_upserted;
};

// What the statement does: u as operators, replacement or pipeline.
static bool parse_update(struct arena *a, const bson_t *spec, struct update_statement *s, struct error *err) {
  bson_iter_t it;
  if (!doc_get(spec, "u", &it))
    return error_set(err, ERR_NoSuchKey, "BSON field 'update.updates.u' is missing but a required field");
  bool pipeline = BSON_ITER_HOLDS_ARRAY(&it);
  if (!pipeline && !BSON_ITER_HOLDS_DOCUMENT(&it)) {
    return error_set(err, ERR_FailedToParse, "Update argument must be either an object or an array");
  }
  const bson_t *filters;
  if (!optional_doc(a, spec, "arrayFilters", true, &filters, err)) return false;
  s->update = update_parse(a, iter_child(a, &it), pipeline, filters, &s->query.options, err);
  if (!s->update) return false;
  if (s->multi && update_is_replacement(s->update)) {
    return error_set(err, ERR_FailedToParse, "multi update is not supported for replacement-style update");
  }
  return true;
}

bool update_statement_parse(struct request *r, struct arena *a, const bson_t *spec, struct update_statement *s,
                            struct error *err) {
  *s = (struct update_statement){.arena = a, .now_ms = clock_wall_ms()};
  s->multi = doc_bool(spec, "multi", false);
  s->upsert = doc_bool(spec, "upsert", false);
  if (doc_has(spec, "c")) {
    return error_set(err, ERR_CommandNotSupported, "update field 'c' is not supported: use the command's 'let'");
  }
  const bson_t *sort;
  if (!query_parse_statement(a, spec, r->body, &s->query, err) || !parse_update(a, spec, s, err) ||
      !optional_doc(a, spec, "sort", false, &sort, err)) {
    return false;
  }
  if (sort && s->multi) return error_set(err, ERR_FailedToParse, "Cannot specify sort with multi=true");
  if (s->multi && r->has_txn_number) {
    return error_set(err, ERR_InvalidOptions, "Cannot use retryable writes with multi=true");
  }
  if (s->multi) s->done = map_in_arena(a);
  return query_parse_sort(a, sort, &s->query, err);
}

static void add_upserted(struct update_totals *t, size_t i, const bson_value_t *id) {
  char text[16];
  const char *key;
  bson_t doc;
  bson_uint32_to_string(t->n_upserted++, &key, text, sizeof text);
  BSON_APPEND_DOCUMENT_BEGIN(t->upserted, key, &doc);
  BSON_APPEND_INT32(&doc, "index", (int32_t)i);
  doc_append_value(&doc, "_id", id);
  bson_append_document_end(t->upserted, &doc);
}

// A statement that was executed before answers what it answered then.
static void add_answer(struct update_totals *t, size_t i, const bson_t *answer) {
  t->n += (int32_t)doc_i64(answer, "n", 0);
  t->modified += (int32_t)doc_i64(answer, "nModified", 0);
  bson_value_t id;
  if (doc_value(answer, "upserted", &id)) add_upserted(t, i, &id);
}

// Everything a statement needs goes with it: a batch may have 100,000 of them.
static enum outcome run_statement(struct batch *b, size_t i, size_t total, const bson_t *spec, struct update_totals *t,
                                  struct error *err) {
  struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
  struct update_statement s;
  if (!update_statement_parse(b->r, a, spec, &s, err)) return batch_refuse(b, i, total, err);
  const bson_t *answer;
  enum outcome outcome = batch_run(b, i, total, update_evaluate, &s, &answer, err);
  if (outcome == OUTCOME_ANSWERED) {
    add_answer(t, i, answer);
    return outcome;
  }
  b->n->own->ops.update++;
  t->n += s.matched + s.upserted;
  t->modified += s.modified;
  if (s.upserted) add_upserted(t, i, &s.upserted_id);
  return outcome;
}

static bool update_all(struct batch *b, struct documents *specs, struct update_totals *t, struct error *err) {
  bson_t spec;
  for (size_t i = 0; documents_next(specs, &spec); i++) {
    enum outcome outcome = run_statement(b, i, specs->count, &spec, t, err);
    if (outcome == OUTCOME_ABORT) return false;
    if (outcome == OUTCOME_STOP) break;
  }
  return true;
}

bool update_run(struct request *r, bson_t *reply, struct error *err) {
  struct documents specs;
  if (!request_needs_collection(r, err) || !request_documents(r, "updates", &specs, err)) return false;
  if (specs.count == 0) {
    return error_set(err, ERR_InvalidLength, "Write batch sizes must be between 1 and %d. Got 0 operations.",
                     MESSAGE_MAX_STATEMENTS);
  }
  struct batch *b = arena_alloc(r->op->arena, sizeof *b);
  struct update_totals t = {.upserted = arena_bson(r->op->arena)};
  if (!batch_begin(b, r, r->ns, err) || !update_all(b, &specs, &t, err) || !batch_commit(b, err)) return false;
  BSON_APPEND_INT32(reply, "n", t.n);
  if (t.n_upserted) BSON_APPEND_ARRAY(reply, "upserted", t.upserted);
  BSON_APPEND_INT32(reply, "nModified", t.modified);
  batch_reply(b, reply);
  return true;
}
