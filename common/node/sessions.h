// Retryable writes: each statement of {lsid, txnNumber} runs once.
//
// The record {lsid, txnNumber, stmtId, reply} is part of the entry that holds the statement's effects; a repeated
// statement answers what the record says, also after a failover. Two commands of one session must not evaluate the same
// statement at the same time: a gate per session lets one retryable command in after the other, and lets the next one
// in only when all that the one before it proposed (it may have been killed while it waited) is applied or lost.
#ifndef SHARDLET_NODE_SESSIONS_H
#define SHARDLET_NODE_SESSIONS_H

#include "common/node/node.h"

// Waits for the session's gate; it opens again when `a` goes. Then checks the transaction number: TransactionTooOld.
bool session_enter(struct request *r, struct arena *a, struct error *err);
// The command proposed up to this log index; told before its gate opens.
void session_proposed(struct request *r, uint64_t index);
// What statement stmt_id answered when it was executed; NULL = it was not.
const bson_t *session_answer(struct request *r, struct arena *a, int32_t stmt_id);
// The statement numbers of a command: stmtIds, else counted on from stmtId or 0.
struct statement_ids {
  const int32_t *given;
  size_t n_given;
  int32_t first;
};
void session_statement_ids(struct arena *a, const bson_t *command, struct statement_ids *out);
int32_t session_statement_id(const struct statement_ids *ids, size_t i);
void sessions_free(struct node *n);

#endif
