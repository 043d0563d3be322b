// Evaluates the statements of a write command. See write_batch.h for what must hold.
#include "common/node/write_batch.h"

#include <string.h>

#include "common/base/clock.h"
#include "common/bson/doc.h"
#include "common/node/internal.h"
#include "common/query/match.h"
#include "common/sharding/version.h"
#include "proto/reply.h"

enum {
  // A version check stops to hold only when metadata changes, which takes a migration or a DDL step.
  MAX_RECHECKS = 20,
  // Each further statement is matched against all of them; beyond this the batch waits.
  MAX_PENDING = 200,
};

static bool enter(struct batch *b, struct error *err) {
  return node_enter(b->r, b->op->arena, b->ns, true, &b->access, err);
}

bool batch_begin(struct batch *b, struct request *r, const char *ns, struct error *err) {
  struct arena *a = r->op->arena;
  *b = (struct batch){.r = r, .n = request_node(r), .op = r->op, .ns = ns, .started_us = clock_mono_us()};
  b->ordered = doc_bool(r->body, "ordered", true);
  b->retryable = r->has_lsid && r->has_txn_number;
  b->write_errors = arena_bson(a);
  b->retried = arena_bson(a);
  b->scratch = arena_child(a);
  b->plans = arena_child(a);
  b->pending_arena = arena_child(a);
  b->pending = arena_alloc(a, MAX_PENDING * sizeof *b->pending);
  session_statement_ids(a, r->body, &b->ids);
  if (!node_writable_namespace(r, ns, err)) return false;
  if (b->retryable && !session_txn_is_current(r, err)) return false;
  b->w = write_begin(r->op, b->n->repl);
  return write_admit(b->op, b->n->repl, err) && enter(b, err);
}

// --- locks ---

bool batch_concerns_pending(const struct batch *b, const struct match *m) {
  if (b->n_pending == MAX_PENDING) return true;
  for (size_t i = 0; i < b->n_pending; i++) {
    if (match_doc(m, b->pending[i])) return true;
  }
  return false;
}

void batch_remember(struct batch *b, const bson_t *after) {
  if (b->n_pending == MAX_PENDING) return; // a multi update's: full, so the next statement waits whatever it is
  b->pending[b->n_pending++] = doc_copy(b->pending_arena, after);
}

static void forget_pending(struct batch *b) {
  b->n_pending = 0;
  arena_reset(b->pending_arena);
}

// A command of the same session may have executed the statement since it was looked for: under the lock that is sure.
static enum step check_session(struct batch *b, struct error *err) {
  if (!b->retryable) return STEP_DONE;
  if (!write_lock_session(b->w, b->r->lsid)) return STEP_WAIT;
  if (!session_txn_is_current(b->r, err)) return STEP_FAILED;
  return session_answer(b->r, b->scratch, session_statement_id(&b->ids, b->statement)) ? STEP_WAIT : STEP_DONE;
}

enum step batch_may_act(struct batch *b, struct error *err) {
  enum step step = check_session(b, err);
  if (step != STEP_DONE) return step;
  if (!write_lock_namespace(b->w, b->ns, false)) return STEP_WAIT;
  if (!repl_is_primary(b->n->repl)) {
    error_set(err, ERR_NotWritablePrimary, "not primary while writing to %s", b->ns);
    return STEP_FAILED;
  }
  return node_still(b->n, b->access, true, err) ? STEP_DONE : STEP_AGAIN;
}

void batch_record(struct batch *b, struct change_list *l, const bson_t *answer, const struct collection *c,
                  const struct key *shard_key) {
  if (!b->retryable) return;
  change_session(l, b->r->lsid, b->r->txn_number, session_statement_id(&b->ids, b->statement), answer, c,
                 bson_empty(c->shard_key) ? NULL : shard_key);
}

// --- yields: each proposes first ---

bool batch_pause(struct batch *b, struct error *err) {
  // Proposing frees the locks of a statement that failed.
  return write_propose(b->w, err) && op_yield(b->op, err) && write_admit(b->op, b->n->repl, err);
}

bool batch_wait(struct batch *b, struct error *err) {
  if (!write_wait(b->op, b->w, err)) return false;
  forget_pending(b);
  return true;
}

// invariant: of a command that fails with NotWritablePrimary nothing was written, so that a router may send it again
// (common/net/replica_set_select.c). Entries before the one that was refused are applied: a part of it was.
static bool fail_command(const struct batch *b, struct error *err) {
  if (err->code != ERR_NotWritablePrimary || !write_last_index(b->w)) return false;
  return error_set(err, ERR_InterruptedDueToReplStateChange,
                   "operation was interrupted because this member is not primary any more; a part of it was written");
}

bool batch_commit(struct batch *b, struct error *err) {
  if (!write_commit(b->op, b->w, err)) return fail_command(b, err);
  forget_pending(b);
  return true;
}

static bool check_again(struct batch *b, struct error *err) {
  if (!batch_commit(b, err)) return false;
  node_leave(b->n, b->access);
  return enter(b, err);
}

// --- the collection ---

// The first insert of a namespace creates it: an entry of its own, before the documents are evaluated.
static enum step create_implicitly(struct batch *b, struct error *err) {
  struct node *n = b->n;
  if (!batch_commit(b, err)) return STEP_FAILED;
  if (n->hooks.may_create && !n->hooks.may_create(b->op, n->hooks.ctx, b->r, b->ns, err)) return STEP_FAILED;
  while (!write_lock_namespace(b->w, b->ns, true)) {
    if (!write_wait(b->op, b->w, err)) return STEP_FAILED;
  }
  if (store_collection(n->store, b->ns)) { // somebody else was faster
    write_abandon(b->w);
    return STEP_DONE;
  }
  if (!repl_is_primary(n->repl)) {
    error_set(err, ERR_NotWritablePrimary, "not primary while creating %s", b->ns);
    return STEP_FAILED;
  }
  if (!node_still(n, b->access, true, err)) {
    write_abandon(b->w);
    return STEP_AGAIN;
  }
  uint8_t uuid[16];
  uuid_new(uuid);
  bson_t *empty = arena_bson(b->op->arena);
  change_create(write_changes(b->w), uuid, b->ns, empty, store_next_file_id(n->store), empty, empty);
  return write_commit(b->op, b->w, err) ? STEP_DONE : STEP_FAILED;
}

enum step batch_collection(struct batch *b, bool create, struct collection **out, struct error *err) {
  *out = store_collection(b->n->store, b->ns);
  if (*out || !create) return STEP_DONE;
  enum step step = create_implicitly(b, err);
  if (step != STEP_DONE) return step;
  *out = store_collection(b->n->store, b->ns);
  return *out ? STEP_DONE : STEP_WAIT;
}

// --- running statements ---

// Errors that are not the statement's but the whole command's: not primary, killed, out of time, no space.
static bool fails_command(const struct error *err) {
  return error_is_not_primary(err->code) || error_is_interruption(err->code) || error_is_network(err->code) ||
         err->code == ERR_MaxTimeMSExpired || err->code == ERR_OutOfDiskSpace || err->code == ERR_TransactionTooOld;
}

static void append_error(struct batch *b, size_t i, const struct error *err) {
  reply_append_write_error(b->write_errors, b->n_errors++, (int32_t)i, err);
}

static enum outcome record_error(struct batch *b, size_t i, size_t total, struct error *err) {
  // A router runs an update that moves a document to another shard alone and expects the command itself to fail.
  if (fails_command(err) || (err->code == ERR_WouldChangeOwningShard && total == 1)) {
    struct error kept;
    error_copy(&kept, err, b->op->arena); // its extra fields are the attempt's
    *err = kept;
    return OUTCOME_ABORT;
  }
  append_error(b, i, err);
  if (error_is_stale(err->code)) {
    // The versions are the whole command's: what follows would meet the same.
    for (size_t k = i + 1; k < total && !b->ordered; k++) append_error(b, k, err);
    b->stale = err->code == ERR_StaleConfig;
    return OUTCOME_STOP;
  }
  return b->ordered ? OUTCOME_STOP : OUTCOME_FAILED;
}

enum outcome batch_refuse(struct batch *b, size_t i, size_t total, struct error *err) {
  return record_error(b, i, total, err);
}

static const bson_t *nothing_done(const struct batch *b) {
  bson_t *answer = arena_bson(b->op->arena);
  BSON_APPEND_INT32(answer, "n", 0);
  BSON_APPEND_INT32(answer, "nModified", 0);
  return answer;
}

// What the statement answered when it was executed before; NULL: it was not.
static const bson_t *find_answer(struct batch *b) {
  if (!b->retryable) return NULL;
  int32_t id = session_statement_id(&b->ids, b->statement);
  const bson_t *answer = session_answer(b->r, b->op->arena, id);
  if (!answer) return NULL;
  if (session_moved_away(b->r, b->access, b->op->arena, id)) return nothing_done(b);
  char text[16];
  const char *key;
  bson_uint32_to_string(b->n_retried++, &key, text, sizeof text);
  BSON_APPEND_INT32(b->retried, key, id);
  return answer;
}

static enum outcome run_statement(struct batch *b, size_t i, size_t total, batch_evaluate evaluate, void *statement,
                                  const bson_t **answer, struct error *err) {
  b->statement = i;
  if (op_yield_due(b->op) && !batch_pause(b, err)) return OUTCOME_ABORT;
  for (int rechecks = 0;;) {
    if ((*answer = find_answer(b))) return OUTCOME_ANSWERED;
    arena_reset(b->scratch);
    *err = (struct error){0};
    enum step step = evaluate(b, statement, err);
    arena_reset(b->plans); // no scan is open when others run
    switch (step) {
    case STEP_DONE: return OUTCOME_DONE;
    case STEP_FAILED: return record_error(b, i, total, err);
    case STEP_WAIT:
      if (!batch_wait(b, err)) return OUTCOME_ABORT;
      break;
    case STEP_AGAIN:
      if (++rechecks > MAX_RECHECKS) return record_error(b, i, total, err);
      if (!check_again(b, err)) return error_is_stale(err->code) ? record_error(b, i, total, err) : OUTCOME_ABORT;
    }
  }
}

enum outcome batch_run(struct batch *b, size_t i, size_t total, batch_evaluate evaluate, void *statement,
                       const bson_t **answer, struct error *err) {
  enum outcome outcome = run_statement(b, i, total, evaluate, statement, answer, err);
  if (outcome == OUTCOME_ABORT) (void)fail_command(b, err);
  return outcome;
}

// --- the reply ---

void batch_reply(struct batch *b, bson_t *reply) {
  if (b->n_errors) BSON_APPEND_ARRAY(reply, "writeErrors", b->write_errors);
  if (b->stale && b->n->hooks.stale_config_seen) b->n->hooks.stale_config_seen(b->n->hooks.ctx);
  uint64_t index = write_last_index(b->w);
  node_write_concern(b->r, index ? index : repl_last_applied(b->n->repl).index, reply);
  if (b->n_retried) BSON_APPEND_ARRAY(reply, "retriedStmtIds", b->retried);
  struct collection *c = store_collection(b->n->store, b->ns);
  if (c) usage_count(b->n, c->uuid, USAGE_WRITE, clock_mono_us() - b->started_us);
}
