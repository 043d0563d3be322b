// One delete of one document: shared by delete and findAndModify.
#ifndef SHARDLET_NODE_DELETE_STEP_H
#define SHARDLET_NODE_DELETE_STEP_H

#include "common/node/executor.h"
#include "common/node/write_batch.h"

struct delete_statement {
  struct query query;
  bool multi;
  struct map *done; // of a multi delete
  // The record for retries; NULL: {n: 1}.
  const bson_t *(*answer)(struct arena *a, void *ctx, const bson_t *before);
  void *answer_ctx;
  struct arena *arena; // where `before` is kept; NULL: it is not
  int32_t deleted;     // the outcome
  const bson_t *before;
};

bool delete_statement_parse(struct request *r, struct arena *a, const bson_t *spec, struct delete_statement *s,
                            struct error *err);
enum step delete_document(struct batch *b, void *statement, struct collection *c, const struct exec_row *row,
                          struct error *err);
enum step delete_evaluate(struct batch *b, void *statement, struct error *err); // a batch_evaluate()

#endif
