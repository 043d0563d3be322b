// Commands to a recipient (reference/commands.md 9.1): start, status, commit, abort, release.
#include <string.h>

#include "common/bson/doc.h"
#include "shardd/background.h"
#include "shardd/migration_destination.h"

enum { STATUS_WAIT_MS = 1000 }; // how long _recvChunkStatus waits for the steady state

static const char *const state_names[] = {
    [RECEPTION_READY] = "ready",
    [RECEPTION_CLONE] = "clone",
    [RECEPTION_CATCHUP] = "catchup",
    [RECEPTION_STEADY] = "steady",
    [RECEPTION_COMMIT_START] = "commitStart",
    [RECEPTION_IN_SECTION] = "enteredCriticalSection",
    [RECEPTION_EXIT_SECTION] = "exitCriticalSection",
    [RECEPTION_DONE] = "done",
    [RECEPTION_FAIL] = "fail",
    [RECEPTION_ABORT] = "abort",
};

// --- start ---

static const bson_t *keep_doc(struct arena *a, const struct request *r, const char *name, struct error *err) {
  bson_t view;
  return request_required_doc(r, name, &view, err) ? doc_copy(a, &view) : NULL;
}

static const char *keep_str(struct arena *a, const struct request *r, const char *name, struct error *err) {
  const char *s;
  return request_required_str(r, name, &s, err) ? arena_strdup(a, s) : NULL;
}

static bool parse_start(const struct request *r, struct reception *x, struct error *err) {
  struct arena *a = x->arena;
  if (!r->coll) return error_set(err, ERR_InvalidNamespace, "Invalid namespace specified");
  if (!namespace_valid(r->coll, err)) return false;
  x->ns = arena_strdup(a, r->coll);
  bool ok = (x->session_id = keep_str(a, r, "sessionId", err)) && (x->from = keep_str(a, r, "from", err)) &&
            (x->from_shard = keep_str(a, r, "fromShardName", err)) && (x->min = keep_doc(a, r, "min", err)) &&
            (x->max = keep_doc(a, r, "max", err)) && (x->key_pattern = keep_doc(a, r, "shardKeyPattern", err));
  if (!ok) return false;
  if (!doc_uuid(r->body, "uuid", x->id)) return error_set(err, ERR_NoSuchKey, "Missing required field 'uuid'");
  bson_t lsid;
  if (doc_doc(r->body, "lsid", &lsid)) doc_uuid(&lsid, "id", x->lsid);
  x->txn_number = doc_i64(r->body, "txnNumber", 0);
  x->min_key = bound_key(a, x->min);
  x->max_key = bound_end(a, x->max);
  return true;
}

static bool recv_chunk_start(struct request *r, bson_t *reply, struct error *err) {
  struct shard *sh = shard_of(r);
  if (!shard_wait_recovered(r->op, sh, err)) return false;
  struct reception *x = reception_new(sh);
  if (!parse_start(r, x, err) || !migrations_may_start(sh->migrations, x->ns, err)) {
    reception_unref(x);
    return false;
  }
  sh->migrations->reception = x;
  background_start(sh, "receiveChunk", migration_destination_run, x);
  BSON_APPEND_BOOL(reply, "started", true);
  return true;
}

// --- reports ---

static void append_session(const struct reception *x, bson_t *reply) {
  BSON_APPEND_UTF8(reply, "sessionId", x->session_id);
  BSON_APPEND_UTF8(reply, "ns", x->ns);
  BSON_APPEND_UTF8(reply, "from", x->from);
  BSON_APPEND_UTF8(reply, "fromShardId", x->from_shard);
  BSON_APPEND_DOCUMENT(reply, "min", x->min);
  BSON_APPEND_DOCUMENT(reply, "max", x->max);
  if (x->key_pattern) BSON_APPEND_DOCUMENT(reply, "shardKeyPattern", x->key_pattern);
}

// x NULL: nothing is known of a migration with the session that was asked for.
static void report(const struct reception *x, struct arena *a, bson_t *reply) {
  BSON_APPEND_BOOL(reply, "active", x && !x->ended);
  if (x) append_session(x, reply);
  BSON_APPEND_BOOL(reply, "supportsCriticalSectionDuringCatchUp", true);
  BSON_APPEND_UTF8(reply, "state", state_names[x ? x->state : RECEPTION_READY]);
  if (x && x->state == RECEPTION_FAIL)
    BSON_APPEND_UTF8(reply, "errmsg", arena_printf(a, "migrate failed: %s", error_text(&x->error, a)));
  bson_t counts;
  BSON_APPEND_DOCUMENT_BEGIN(reply, "counts", &counts);
  BSON_APPEND_INT64(&counts, "cloned", x ? x->cloned : 0);
  BSON_APPEND_INT64(&counts, "clonedBytes", x ? x->cloned_bytes : 0);
  BSON_APPEND_INT64(&counts, "catchup", x ? x->catchup : 0);
  BSON_APPEND_INT64(&counts, "steady", x ? x->steady : 0);
  bson_append_document_end(reply, &counts);
  if (x) BSON_APPEND_INT64(reply, "documents", x->documents); // of the range, once it is adopted
}

// The reception of the request's session, running or ended last; without a session id the running one. Referenced.
static struct reception *find(const struct request *r) {
  struct migrations *m = shard_of(r)->migrations;
  const char *session = doc_str(r->body, "sessionId", NULL);
  struct reception *x = m->reception;
  if (session && x && strcmp(x->session_id, session) != 0) x = NULL;
  if (session && !x && m->last_reception && !strcmp(m->last_reception->session_id, session)) x = m->last_reception;
  if (x) x->refs++;
  return x;
}

static bool recv_chunk_status(struct request *r, bson_t *reply, struct error *err) {
  struct reception *x = find(r);
  bool wait = doc_bool(r->body, "waitForSteadyOrDone", false), ok = true, timed_out = false;
  int64_t end = loop_now_ms(r->op->loop) + STATUS_WAIT_MS;
  while (ok && wait && x && x->state < RECEPTION_STEADY && !timed_out) {
    int64_t left = end - loop_now_ms(r->op->loop);
    ok = left <= 0 ? (timed_out = true) : event_wait_for(r->op, &x->changed, left, &timed_out, err) || timed_out;
  }
  if (wait && x) BSON_APPEND_BOOL(reply, "waited", true);
  report(x, r->op->arena, reply);
  reception_unref(x);
  return ok;
}

// --- commit ---

static bool committed(const struct reception *x) {
  return x->state >= RECEPTION_IN_SECTION && x->state <= RECEPTION_DONE;
}

static void ask_commit(struct reception *x, const struct request *r) {
  bson_t records;
  if (x->commit_asked) return; // a repeated request
  x->commit_asked = true;
  x->more_changes = doc_bool(r->body, "moreChanges", true);
  x->more_records = doc_bool(r->body, "more", true);
  if (doc_doc(r->body, "oplog", &records)) x->records = doc_copy(x->arena, &records);
  event_signal(&x->changed);
}

static bool recv_chunk_commit(struct request *r, bson_t *reply, struct error *err) {
  struct reception *x = find(r);
  if (!x)
    return error_set(err, ERR_CommandFailed, "startCommit received commit request from a stale session %s",
                     doc_str(r->body, "sessionId", ""));
  ask_commit(x, r);
  bool ok = true;
  while (ok && !committed(x) && !x->ended) ok = event_wait(r->op, &x->changed, err);
  if (ok && !committed(x))
    ok = error_set(err, ERR_CommandFailed, "The range could not be adopted: %s", error_text(&x->error, r->op->arena));
  if (ok) report(x, r->op->arena, reply);
  reception_unref(x);
  return ok;
}

// --- abort and release ---

static bool recv_chunk_abort(struct request *r, bson_t *reply, struct error *err) {
  struct reception *x = find(r);
  if (x && !x->ended) reception_interrupt(x);
  report(x, r->op->arena, reply);
  reception_unref(x);
  return true;
}

static bool recv_chunk_release(struct request *r, bson_t *reply, struct error *err) {
  struct shard *sh = shard_of(r);
  const char *session, *word;
  uint8_t id[16];
  if (!r->coll) return error_set(err, ERR_InvalidNamespace, "Invalid namespace specified");
  if (!request_required_str(r, "sessionId", &session, err) || !request_required_str(r, "decision", &word, err))
    return false;
  if (!doc_uuid(r->body, "uuid", id)) return error_set(err, ERR_NoSuchKey, "Missing required field 'uuid'");
  enum decision decision = !strcmp(word, "committed") ? DECISION_COMMITTED : DECISION_ABORTED;
  return shard_wait_recovered(r->op, sh, err) && migration_release(r->op, sh, r->coll, session, id, decision, err);
}

const struct command shardd_recipient_commands[] = {
    {"_recvChunkStart", NULL, CMD_WRITE | CMD_ADMIN_ONLY | CMD_INTERNAL, recv_chunk_start,
     "Begins to receive a range from another shard."},
    {"_recvChunkStatus", NULL, CMD_WRITE | CMD_ADMIN_ONLY | CMD_INTERNAL, recv_chunk_status,
     "How far receiving a range is."},
    {"_recvChunkCommit", NULL, CMD_WRITE | CMD_ADMIN_ONLY | CMD_INTERNAL, recv_chunk_commit,
     "Takes the last changes of a range and adopts it."},
    {"_recvChunkAbort", NULL, CMD_WRITE | CMD_ADMIN_ONLY | CMD_INTERNAL, recv_chunk_abort,
     "Gives up receiving a range that is not adopted."},
    {"_recvChunkReleaseCritSec", NULL, CMD_WRITE | CMD_ADMIN_ONLY | CMD_INTERNAL, recv_chunk_release,
     "The donor's decision about a range that was received."},
    {0},
};
