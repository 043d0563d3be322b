// The insert command.
#include "common/node/crud.h"

#include "common/bson/doc.h"
#include "common/node/internal.h"
#include "common/node/write_batch.h"

struct insert_statement {
  const bson_t *doc;
  const bson_t *answer;
};

static enum step evaluate_insert(struct batch *b, void *statement, struct error *err) {
  const struct insert_statement *s = statement;
  struct collection *c;
  const bson_t *doc;
  enum step step = batch_collection(b, true, &c, err);
  if (step != STEP_DONE) return step;
  if (!document_for_insert(b->n, b->scratch, s->doc, &doc, err)) return STEP_FAILED;
  return insert_step(b, c, doc, s->answer, err);
}

// Both forms of the command: an array in the body, or a section of documents.
static bool insert_all(struct batch *b, struct documents *docs, int32_t *n, struct error *err) {
  bson_t *answer = arena_bson(b->op->arena);
  BSON_APPEND_INT32(answer, "n", 1);
  bson_t doc;
  for (size_t i = 0; documents_next(docs, &doc); i++) {
    struct insert_statement s = {.doc = &doc, .answer = answer};
    const bson_t *before;
    switch (batch_run(b, i, docs->count, evaluate_insert, &s, &before, err)) {
    case OUTCOME_ANSWERED: (*n)++; break;
    case OUTCOME_DONE:
      (*n)++;
      b->n->own->ops.insert++;
      break;
    case OUTCOME_FAILED: break;
    case OUTCOME_STOP: return true;
    case OUTCOME_ABORT: return false;
    }
  }
  return true;
}

bool insert_run(struct request *r, bson_t *reply, struct error *err) {
  struct documents docs;
  if (!request_needs_collection(r, err) || !request_documents(r, "documents", &docs, err)) return false;
  if (docs.count == 0) {
    return error_set(err, ERR_InvalidLength, "Write batch sizes must be between 1 and %d. Got 0 operations.",
                     MESSAGE_MAX_STATEMENTS);
  }
  struct batch *b = arena_alloc(r->op->arena, sizeof *b);
  int32_t n = 0;
  if (!batch_begin(b, r, r->ns, err) || !insert_all(b, &docs, &n, err) || !batch_commit(b, err)) return false;
  BSON_APPEND_INT32(reply, "n", n);
  batch_reply(b, reply);
  return true;
}
