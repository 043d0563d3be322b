// Evaluates the statements of a write command. See write_batch.h for what must hold.
#include "common/node/write_batch.h"

#include <string.h>

#include "common/base/clock.h"
#include "common/base/map.h"
#include "common/bson/doc.h"
#include "common/node/internal.h"
#include "common/sharding/version.h"
#include "proto/reply.h"

enum {
  // A version check can stop to hold during evaluation only when metadata changes, which takes a migration or a DDL
  // step.
  MAX_RECHECKS = 20,
};

static void free_touched(void *arg) {
  map_free(((struct batch *)arg)->touched, NULL);
}

static void forget_touched(struct batch *b) {
  if (!map_count(b->touched)) return;
  map_free(b->touched, NULL);
  b->touched = map_new();
}

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
  b->touched = map_new();
  b->scratch = arena_child(a);
  b->plans = arena_child(a);
  arena_on_free(a, free_touched, b);
  session_statement_ids(a, r->body, &b->ids);
  if (!node_writable_namespace(r, ns, err)) return false;
  if (b->retryable && !session_enter(r, a, err)) return false;
  b->w = write_begin(r->op, b->n->repl);
  return write_admit(b->op, b->n->repl, err) && enter(b, err);
}

const bson_t *batch_answered(struct batch *b, size_t i) {
  if (!b->retryable) return NULL;
  int32_t id = session_statement_id(&b->ids, i);
  const bson_t *answer = session_answer(b->r, b->op->arena, id);
  if (!answer) return NULL;
  char text[16];
  const char *key;
  bson_uint32_to_string(b->n_retried++, &key, text, sizeof text);
  BSON_APPEND_INT32(b->retried, key, id);
  return answer;
}

// --- locks ---

// Whether unproposed effects of an earlier statement touch this; notes it for this attempt otherwise.
static bool touched_before(struct batch *b, const void *key, size_t len) {
  uintptr_t attempt = (uintptr_t)map_get(b->touched, key, len);
  if (attempt) return attempt != b->attempt;
  map_put(b->touched, key, len, (void *)b->attempt);
  return false;
}

bool batch_lock_document(struct batch *b, const struct collection *c, int64_t rid) {
  return !touched_before(b, &rid, sizeof rid) && write_lock_document(b->w, c, rid);
}

bool batch_lock_unique(struct batch *b, const struct collection *c, uint32_t index_id, struct key key) {
  // An 'u', the index and the key: longer than a rid, so never taken for one.
  size_t len = 1 + sizeof index_id + 4 + key.len;
  uint8_t small[160], *text = len <= sizeof small ? small : arena_alloc(b->scratch, len);
  memset(text, 'u', 5);
  memcpy(text + 5, &index_id, sizeof index_id);
  if (key.len) memcpy(text + 9, key.data, key.len);
  return !touched_before(b, text, len) && write_lock_unique(b->w, c, index_id, key);
}

enum step batch_may_act(struct batch *b, struct error *err) {
  if (!write_lock_namespace(b->w, b->ns, false)) return STEP_WAIT;
  if (!repl_is_primary(b->n->repl)) {
    error_set(err, ERR_NotWritablePrimary, "not primary while writing to %s", b->ns);
    return STEP_FAILED;
  }
  if (!node_still(b->n, b->access, true, err)) return STEP_AGAIN;
  return STEP_DONE;
}

void batch_record(struct batch *b, struct change_list *l, const bson_t *answer, const struct collection *c,
                  const struct key *shard_key) {
  if (!b->retryable) return;
  change_session(l, b->r->lsid, b->r->txn_number, session_statement_id(&b->ids, b->statement), answer, c,
                 bson_empty(c->shard_key) ? NULL : shard_key);
}

// --- yields: each proposes first ---

// Locks of a statement that failed have no effects to go with: they are freed.
static bool propose(struct batch *b, struct error *err) {
  forget_touched(b);
  if (write_is_empty(b->w)) {
    write_abandon(b->w);
  } else if (!write_propose(b->w, err)) {
    return false;
  }
  if (b->retryable) session_proposed(b->r, write_last_index(b->w));
  return true;
}

bool batch_pause(struct batch *b, struct error *err) {
  return propose(b, err) && op_yield(b->op, err) && write_admit(b->op, b->n->repl, err);
}

// write_wait() proposes by itself, and must know which lock was refused: nothing comes between.
bool batch_wait(struct batch *b, struct error *err) {
  forget_touched(b);
  bool ok = write_wait(b->op, b->w, err);
  if (b->retryable) session_proposed(b->r, write_last_index(b->w));
  return ok;
}

static bool check_again(struct batch *b, struct error *err) {
  if (!propose(b, err) || !write_commit(b->op, b->w, err)) return false;
  node_leave(b->n, b->access);
  return enter(b, err);
}

bool batch_commit(struct batch *b, struct error *err) {
  return propose(b, err) && write_commit(b->op, b->w, err);
}

// --- the collection ---

// The first insert of a namespace creates it: an entry of its own, before the documents are evaluated.
static enum step create_implicitly(struct batch *b, struct error *err) {
  struct node *n = b->n;
  if (!propose(b, err) || !write_commit(b->op, b->w, err)) return STEP_FAILED;
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

enum outcome batch_run(struct batch *b, size_t i, size_t total, batch_evaluate evaluate, void *statement,
                       struct error *err) {
  b->statement = i;
  if (op_yield_due(b->op) && !batch_pause(b, err)) return OUTCOME_ABORT;
  for (int rechecks = 0;;) {
    b->attempt++;
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
