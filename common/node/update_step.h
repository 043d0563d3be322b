// One update of one document, and the insert of an upsert: shared by update and findAndModify.
#ifndef SHARDLET_NODE_UPDATE_STEP_H
#define SHARDLET_NODE_UPDATE_STEP_H

#include "common/node/executor.h"
#include "common/node/write_batch.h"
#include "common/query/update.h"

struct update_statement {
  struct query query;
  struct update *update;
  bool multi, upsert;
  struct map *done; // of a multi update: documents that were changed already
  int64_t now_ms;
  // The record for retries of a single update; findAndModify makes its own. NULL: {n, nModified[, upserted]}.
  const bson_t *(*answer)(struct arena *a, void *ctx, const bson_t *before, const bson_t *after, bool inserted);
  void *answer_ctx;
  // --- the outcome ---
  int32_t matched, modified;
  bool upserted;
  bson_value_t upserted_id;     // in `arena`
  const bson_t *before, *after; // of a single update, in `arena`
  struct arena *arena;          // lives as long as the command
};

// Reads {q, u, multi, upsert, ...}; the filter's options come from the command. *s and what it refers to live in `a`.
bool update_statement_parse(struct request *r, struct arena *a, const bson_t *spec, struct update_statement *s,
                            struct error *err);
// An act_on() for struct update_statement.
enum step update_document(struct batch *b, void *statement, struct collection *c, const struct exec_row *row,
                          struct error *err);
enum step update_insert(struct batch *b, struct update_statement *s, struct collection *c, struct error *err);
// A whole statement: find, update, else upsert. A batch_evaluate().
enum step update_evaluate(struct batch *b, void *statement, struct error *err);

#endif
