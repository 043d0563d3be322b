// What insert, update, delete and findAndModify have in common: statements that are evaluated one after another, whose
// effects are gathered into log entries, and the errors of single statements.
//
// Invariants
// - A statement's effects are added in one uninterrupted step with its last read, under the locks of what it reads and
//   changes, after batch_may_act() has said that this member is primary, the version check still holds and the
//   statement has not been executed before.
// - Nothing unproposed is kept over a yield: whatever yields proposes first. So what batch_may_act() said is true until
//   the proposal, and a critical section that drains the namespace lock sees every effect.
// - Evaluation sees applied data only. A statement that concerns effects of earlier ones of the batch waits until they
//   are applied: it meets their locks, or its filter matches one of the `pending` new versions.
#ifndef SHARDLET_NODE_WRITE_BATCH_H
#define SHARDLET_NODE_WRITE_BATCH_H

#include "common/node/node.h"
#include "common/node/sessions.h"

struct match;

enum step {
  STEP_DONE,   // evaluated: its effects are in the list
  STEP_WAIT,   // a lock is taken by somebody: wait, then evaluate again from its read
  STEP_AGAIN,  // the version check does not hold any more: check again, then evaluate again
  STEP_FAILED, // err says why
};

struct batch {
  struct request *r;
  struct node *n;
  struct operation *op;
  struct write *w;
  const char *ns;
  struct access *access;
  struct arena *plans;   // one attempt's: plan and scan
  struct arena *scratch; // one document's
  struct arena *pending_arena;
  const bson_t **pending; // new versions that are not applied yet
  size_t n_pending;
  bool ordered, retryable;
  struct statement_ids ids;
  size_t statement; // the one being evaluated
  int64_t started_us;
  // --- the reply ---
  bson_t *write_errors, *retried;
  uint32_t n_errors, n_retried;
  bool stale; // a StaleConfig is among the errors
};

// Checks namespace, transaction number and versions. Everything lives in r->op's arena.
bool batch_begin(struct batch *b, struct request *r, const char *ns, struct error *err);

// One statement: evaluates until it is done or fails. evaluate() may yield only through the batch_ functions.
typedef enum step (*batch_evaluate)(struct batch *b, void *statement, struct error *err);
enum outcome {
  OUTCOME_DONE,
  OUTCOME_ANSWERED, // it was executed before: *answer is what it answered then
  OUTCOME_FAILED,   // recorded in writeErrors, the next statement may follow
  OUTCOME_STOP,     // recorded, no more statements: ordered, or the versions are stale (then for all of `total`)
  OUTCOME_ABORT,    // the whole command fails with err
};
enum outcome batch_run(struct batch *b, size_t i, size_t total, batch_evaluate evaluate, void *statement,
                       const bson_t **answer, struct error *err);
// A statement that cannot even be parsed.
enum outcome batch_refuse(struct batch *b, size_t i, size_t total, struct error *err);

// The collection, as it is applied. create: made when it is not there (may yield; STEP_WAIT then means: look again).
enum step batch_collection(struct batch *b, bool create, struct collection **out, struct error *err);
// Lets others run: proposes, yields, waits until evaluation is admitted again.
bool batch_pause(struct batch *b, struct error *err);
// Proposes and waits for the lock that was refused. batch_run() does so for STEP_WAIT.
bool batch_wait(struct batch *b, struct error *err);

// Whether the filter matches a new version that an earlier statement made and that cannot be read yet: STEP_WAIT.
bool batch_concerns_pending(const struct batch *b, const struct match *m);
void batch_remember(struct batch *b, const bson_t *after);
// The last thing before effects are added: session and namespace lock, primary, versions.
enum step batch_may_act(struct batch *b, struct error *err);
// Adds the statement's record for retries to the entry.
void batch_record(struct batch *b, struct change_list *l, const bson_t *answer, const struct collection *c,
                  const struct key *shard_key);

// Waits until everything is applied.
bool batch_commit(struct batch *b, struct error *err);
// writeErrors, writeConcernError, retriedStmtIds: the tail of every write's reply.
void batch_reply(struct batch *b, bson_t *reply);

// --- documents.c: documents on their way into a collection ---

// The document as it is stored: `_id` first (made when missing), top-level Timestamp(0, 0) filled in. err BadValue for
// an _id that cannot be one, BSONObjectTooLarge.
bool document_for_insert(struct node *n, struct arena *a, const bson_t *doc, const bson_t **out, struct error *err);
bool document_id(const bson_t *doc, bson_value_t *id); // false: no _id

// --- unique.c: unique indexes ---

// Locks and checks the unique keys of a document on its way from `before` (NULL: an insert) to `after` (NULL: a
// delete); also that every index can hold it. file and rid: where it is now, for an update. STEP_FAILED: E11000.
enum step unique_check(struct batch *b, struct collection *c, const bson_t *before, const bson_t *after, uint32_t file,
                       int64_t rid, struct error *err);
// Fills err as MongoDB words a duplicate: message, keyPattern, keyValue.
bool duplicate_error(struct error *err, struct arena *a, const char *ns, const char *index_name, const bson_t *pattern,
                     const bson_t *doc, struct key key);

// --- insert_step.c ---

// Adds a new document: keys, ownership, place. Used by insert and by upserts. answer: the record for retries.
enum step insert_step(struct batch *b, struct collection *c, const bson_t *doc, const bson_t *answer,
                      struct error *err);
// What the daemon says of a document that a client stores (config.settings...); part of the step that acts.
bool document_is_valid(struct batch *b, const bson_t *doc, struct error *err);
// Whether this shard may hold the document under the checked metadata; err StaleConfig. key: its shard key in `c`.
bool document_is_owned(struct batch *b, const struct collection *c, const bson_t *doc, struct key key,
                       struct error *err);

// --- write_targets.c: the documents that a statement changes ---

struct query;
struct exec_row;
// Changes one document: acts in the step in which it is called. STEP_WAIT: a lock is taken.
typedef enum step (*act_on)(struct batch *b, void *ctx, struct collection *c, const struct exec_row *row,
                            struct error *err);
// The first document in the query's order. *found false: there is none. May yield, but not after it has read the row;
// *c is then the collection as it is now.
enum step target_first(struct batch *b, struct collection **c, const struct query *q, struct exec_row *row, bool *found,
                       struct error *err);
// All documents, each once: `done` remembers those that were acted on, also over a second evaluation.
enum step target_each(struct batch *b, struct collection *c, const struct query *q, struct map *done, act_on act,
                      void *ctx, struct error *err);

#endif
