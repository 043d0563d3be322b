// Retryable writes: each statement of {lsid, txnNumber} runs once.
//
// The record {lsid, txnNumber, stmtId, reply} is part of the entry that holds the statement's effects, so that a
// repeated statement answers what the record says, also after a failover. Whether there is a record is asked in the
// step that acts, under the session's lock: another command of the same session that is evaluating the same statement
// holds that lock until its entry is applied.
#ifndef SHARDLET_NODE_SESSIONS_H
#define SHARDLET_NODE_SESSIONS_H

#include "common/node/node.h"

// err TransactionTooOld when the session has begun a newer one.
bool session_txn_is_current(struct request *r, struct error *err);
// What statement stmt_id answered when it was executed; NULL = it was not.
const bson_t *session_answer(struct request *r, struct arena *a, int32_t stmt_id);

// Whether the statement was executed, but the document that it touched is on another shard since: that one has its
// record as well and answers. Without this, a statement that is sent to every shard would be answered twice.
bool session_moved_away(struct request *r, const struct access *x, struct arena *a, int32_t stmt_id);

// The statement numbers of a command: stmtIds, else counted on from stmtId or 0.
struct statement_ids {
  const int32_t *given;
  size_t n_given;
  int32_t first;
};
void session_statement_ids(struct arena *a, const bson_t *command, struct statement_ids *out);
int32_t session_statement_id(const struct statement_ids *ids, size_t i);

#endif
