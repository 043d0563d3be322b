// The donor leads a migration in six steps, each timed (reference/sharding.md 5.1):
//
// 1. accept_request: the request is valid, nothing is done yet.
// 2. prepare: metadata refreshed, bounds known, the range in one chunk of this shard, none of it still to be deleted.
// 3. start_clone: {coordinator, pending range deletion} in the log; capture and clone begin together; recipient told.
// 4. catch_up: the recipient fetches the clone and then changes, until few are left. Reads and writes go on.
// 5. commit_on_recipient: critical section: writes wait, what was evaluated is applied; the recipient takes the rest
//    and adopts the range in one entry of its log.
// 6. commit_on_config: reads wait, too; the config server changes the owner if the chunk still has the version of
//    step 2; {decision, range deletion ready} in the log, and the recipient released meanwhile; the section ends.
//
// When a step fails:
//
// - 1, 2: nothing to undo.
// - 3, 4, 5: the config server was not told: {decision aborted, range deletion removed}; the recipient drops what it
//   has.
// - 6: the outcome is unknown unless the config server said "committed". The collection stays blocked until it is
//   known: the chunk's version is raised on the config server, so that no commit on its way can succeed, then the owner
//   is read.
// - any, by losing the role or the process: the next primary does the same from the coordinator document
//   (migration_recovery.c).
//
// Invariants
// - Each key is owned by one shard: the config server's entry alone moves it, and it names the version that the move
//   began with.
// - No acknowledged write is lost: a write on the range is applied before the last changes are fetched (the section is
//   drained first), or evaluated after the section, when the range is not owned here any more.
#include "shardd/migration_source.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/bson/doc.h"
#include "shardd/background.h"
#include "shardd/change_log.h"
#include "shardd/critical_section.h"
#include "shardd/failpoint.h"
#include "shardd/metadata.h"
#include "shardd/migration_recovery.h"
#include "shardd/peer.h"
#include "shardd/placement_checks.h"
#include "shardd/range_deleter.h"
#include "shardd/shard_index.h"

enum {
  CATCH_UP_MS = 6 * 60 * 60 * 1000,
  COMMIT_ON_RECIPIENT_MS = 75000, // its two parts have 37.5 s each
  JUMBO_FACTOR = 2,               // a range of more documents than this many average chunks is not moved
  JUMBO_EMPTY = 250001,           // ... when there is no average
};

// --- step 1 ---

static bool accept_request(struct operation *op, struct donation *d, struct error *err) {
  log_info("MIGRATE", "Starting chunk migration donation", "namespace:s fromShard:s toShard:s min:b max:b",
           d->request.ns, d->sh->name, d->request.to, d->request.min, d->request.max);
  d->sh->counters.donor_started++;
  return true;
}

// --- step 2 ---

static bool check_collection(struct operation *op, struct donation *d, const struct routing *r, struct error *err) {
  if (!placement_check_collection(op->arena, d->sh, r, &d->request.generation, err)) return false;
  if (!r->collection.allow_migrations || !r->collection.permit_migrations)
    return error_set(err, ERR_ConflictingOperationInProgress,
                     "Collection is undergoing changes so moveChunk is not allowed.");
  d->collection_version = chunk_map_version(r->chunks);
  return true;
}

// Orphans of the range that are still here would be taken for documents of the range.
static bool wait_for_own_deletions(struct operation *op, struct donation *d, struct error *err) {
  struct key min = bound_key(op->arena, d->doc.min), max = bound_end(op->arena, d->doc.max);
  bool timed_out;
  if (range_deleter_wait_clear(op, d->sh->deleter, d->doc.collection, min, max,
                               d->sh->parameters.receive_wait_for_range_deleter_ms, &timed_out, err))
    return true;
  if (!timed_out) return false;
  return error_set(err, ERR_ExceededTimeLimit,
                   "Failed to start new migration - a conflicting range deletion is still pending");
}

static bool check_size(struct operation *op, struct donation *d, struct collection *c, struct error *err) {
  if (d->request.force_jumbo) return true;
  struct collection_stats stats;
  collection_stats(c, &stats);
  int64_t average = stats.count ? stats.bytes / stats.count : 0;
  int64_t per_chunk = average ? d->request.max_chunk_bytes / average : 0;
  int64_t most = average ? JUMBO_FACTOR * (per_chunk > 1 ? per_chunk : 1) : JUMBO_EMPTY;
  struct key_range range = shard_index_range(op->arena, d->doc.min, d->doc.max);
  int64_t n = shard_index_count(op, c, shard_index_find(c, &d->key, NULL), &range, most + 1, err);
  if (n < 0) return false;
  if (n <= most) return true;
  return error_set(err, ERR_ChunkTooBig,
                   "Cannot move chunk: the maximum number of documents for a chunk is %lld, the maximum chunk size is "
                   "%lld, average document size is %lld. Found more documents than that in chunk ns: %s %s -> %s",
                   (long long)most, (long long)d->request.max_chunk_bytes, (long long)average, d->request.ns,
                   doc_text(op->arena, d->doc.min), doc_text(op->arena, d->doc.max));
}

static struct collection *local_collection(struct donation *d, const struct routing *r, struct error *err) {
  struct collection *c = store_collection(d->sh->node.store, d->request.ns);
  if (c && !memcmp(c->uuid, r->collection.uuid, 16)) return c;
  error_set(err, ERR_NamespaceNotFound, "The collection was not found locally even though it is marked as sharded.");
  return NULL;
}

static bool prepare_range(struct operation *op, struct donation *d, const struct routing *r, struct error *err) {
  if (!check_collection(op, d, r, err)) return false;
  struct collection *c = local_collection(d, r, err);
  if (!c || !shard_key_parse(d->arena, r->collection.key, &d->key, err)) return false;
  collection_ref(c);
  memcpy(d->doc.collection, c->uuid, 16);
  bool ok = migration_bounds(op, d, c, r, err) && wait_for_own_deletions(op, d, err);
  if (ok && c->dropped) ok = error_set(err, ERR_NamespaceNotFound, "Collection %s was dropped", d->request.ns);
  ok = ok && check_size(op, d, c, err);
  collection_unref(c);
  return ok;
}

static bool prepare(struct operation *op, struct donation *d, struct error *err) {
  if (!migration_finish_earlier(op, d->sh, d->request.ns, err)) return false;
  struct routing *r;
  if (!metadata_load(op, d->sh->metadata, d->request.ns, &r, err)) return false;
  bool ok = prepare_range(op, d, r, err);
  routing_unref(r);
  return ok;
}

// --- step 3 ---

static void name_migration(struct donation *d) {
  bson_oid_t oid;
  char hex[25];
  bson_oid_init(&oid, NULL);
  bson_oid_to_string(&oid, hex);
  uuid_new(d->doc.id);
  uuid_new(d->doc.lsid);
  d->doc.session_id = arena_printf(d->arena, "%s_%s_%s", d->sh->name, d->request.to, hex);
  d->doc.ns = d->request.ns;
  d->doc.donor = d->sh->name;
  d->doc.recipient = d->request.to;
}

static bool start_recipient(struct operation *op, struct donation *d, struct error *err) {
  struct shard *sh = d->sh;
  bson_t *cmd = arena_bson(op->arena), lsid;
  BSON_APPEND_UTF8(cmd, "_recvChunkStart", d->request.ns);
  BSON_APPEND_BOOL(cmd, "parallelMigrateCloneSupported", true);
  doc_append_uuid(cmd, "uuid", d->doc.id);
  BSON_APPEND_DOCUMENT_BEGIN(cmd, "lsid", &lsid);
  doc_append_uuid(&lsid, "id", d->doc.lsid);
  bson_append_document_end(cmd, &lsid);
  BSON_APPEND_INT64(cmd, "txnNumber", d->doc.txn_number);
  BSON_APPEND_UTF8(cmd, "sessionId", d->doc.session_id);
  BSON_APPEND_UTF8(cmd, "from", arena_printf(op->arena, "%s/%s", repl_set_name(sh->node.repl), sh->node.host_port));
  BSON_APPEND_UTF8(cmd, "fromShardName", sh->name);
  BSON_APPEND_UTF8(cmd, "toShardName", d->request.to);
  BSON_APPEND_DOCUMENT(cmd, "min", d->doc.min);
  BSON_APPEND_DOCUMENT(cmd, "max", d->doc.max);
  BSON_APPEND_DOCUMENT(cmd, "shardKeyPattern", d->key.pattern);
  BSON_APPEND_BOOL(cmd, "secondaryThrottle", d->request.secondary_throttle);
  return peer_call(op, sh, d->request.to, "admin", cmd, PEER_TIMEOUT_MS, false, NULL, err);
}

static bool start_clone(struct operation *op, struct donation *d, struct error *err) {
  name_migration(d);
  donation_log(op, d, "moveChunk.start");
  if (!decision_begin(op, d->sh, &d->doc, d->request.wait_for_delete, d->key.pattern, err)) return false;
  d->documents_written = true;
  struct collection *c = store_collection_by_uuid(d->sh->node.store, d->doc.collection);
  const struct index *i = c ? shard_index_find(c, &d->key, NULL) : NULL;
  if (!i)
    return error_set(err, ERR_IndexNotFound, "can't find index with prefix %s in storeCurrentRecordId for %s",
                     doc_text(op->arena, d->key.pattern), d->request.ns);
  d->clone_began_ms = loop_now_ms(op->loop);
  d->cloner =
      cloner_new(d->sh, &(struct cloner_spec){.collection = c, .index = i, .min = d->doc.min, .max = d->doc.max});
  return start_recipient(op, d, err);
}

// --- step 4 ---

static void read_counts(struct donation *d, const bson_t *report) {
  bson_t counts;
  d->orphans = doc_i64(report, "documents", d->orphans);
  if (!doc_doc(report, "counts", &counts)) return;
  d->cloned = doc_i64(&counts, "cloned", 0);
  d->cloned_bytes = doc_i64(&counts, "clonedBytes", 0);
  d->catchup = doc_i64(&counts, "catchup", 0);
  d->steady = doc_i64(&counts, "steady", 0);
}

static bool ask_status(struct operation *op, struct donation *d, const bson_t **report, struct error *err) {
  bson_t *cmd = arena_bson(op->arena);
  BSON_APPEND_UTF8(cmd, "_recvChunkStatus", d->request.ns);
  BSON_APPEND_BOOL(cmd, "waitForSteadyOrDone", true);
  BSON_APPEND_UTF8(cmd, "sessionId", d->doc.session_id);
  if (!peer_call(op, d->sh, d->request.to, "admin", cmd, PEER_TIMEOUT_MS, true, report, err))
    return error_prefix(err, "Failed to contact recipient shard to monitor data transfer");
  const char *state = doc_str(*report, "state", "");
  if (!strcmp(state, "fail"))
    return error_set(err, ERR_OperationFailed, "Data transfer error: %s", doc_str(*report, "errmsg", "unknown"));
  if (!doc_bool(*report, "active", false) || strcmp(doc_str(*report, "sessionId", ""), d->doc.session_id) != 0)
    return error_set(err, ERR_OperationFailed,
                     "Data transfer error: the recipient does not know this migration any more; it was restarted, or "
                     "another member of %s became primary",
                     d->request.to);
  read_counts(d, *report);
  return true;
}

// Whether what is left is little enough to be transferred while writes wait.
static bool caught_up(const struct donation *d, const char *state) {
  int64_t left = cloner_untransferred(d->cloner);
  if (!strcmp(state, "steady") && left == 0) return true;
  if (strcmp(state, "steady") != 0 && strcmp(state, "catchup") != 0) return false;
  return left * 100 < d->request.max_chunk_bytes * d->sh->parameters.max_catch_up_percentage;
}

static bool catch_up(struct operation *op, struct donation *d, struct error *err) {
  int64_t end = loop_now_ms(op->loop) + CATCH_UP_MS;
  for (int64_t pause = 1; loop_now_ms(op->loop) < end; pause = pause < 1024 ? pause * 2 : pause) {
    const bson_t *report;
    if (!capture_ok(cloner_capture(d->cloner), err) || !ask_status(op, d, &report, err)) return false;
    if (caught_up(d, doc_str(report, "state", ""))) {
      d->clone_ms = loop_now_ms(op->loop) - d->clone_began_ms;
      return true;
    }
    if (!doc_bool(report, "waited", false) && !op_sleep(op, pause, err)) return false;
  }
  return error_set(err, ERR_ExceededTimeLimit, "Timed out waiting for the cloner to catch up");
}

// --- step 5 ---

static bool commit_on_recipient(struct operation *op, struct donation *d, struct error *err) {
  const char *reason = arena_printf(op->arena, "{ moveChunk: \"%s\", fromShard: \"%s\", toShard: \"%s\" }",
                                    d->request.ns, d->sh->name, d->request.to);
  if (!section_enter(op, d->sh, d->request.ns, d->doc.session_id, reason, false, err)) return false;
  d->in_section = true;
  d->section_began_ms = loop_now_ms(op->loop);
  log_info("MIGRATE", "Migration successfully entered critical section", "namespace:s migrationSessionId:s",
           d->request.ns, d->doc.session_id);
  bson_t *cmd = arena_bson(op->arena);
  BSON_APPEND_UTF8(cmd, "_recvChunkCommit", d->request.ns);
  BSON_APPEND_UTF8(cmd, "sessionId", d->doc.session_id);
  // What the recipient needs to know, so that it need not ask while writes wait.
  BSON_APPEND_BOOL(cmd, "moreChanges", capture_count(cloner_capture(d->cloner)) > 0);
  if (!cloner_sessions(op, d->cloner, cmd, err)) return false;
  const bson_t *report;
  if (!peer_call(op, d->sh, d->request.to, "admin", cmd, COMMIT_ON_RECIPIENT_MS, true, &report, err))
    return error_prefix(err, "Failed to commit migration on the recipient shard");
  read_counts(d, report);
  if (!capture_ok(cloner_capture(d->cloner), err)) return false;
  // invariant: nothing evaluated before the section is missing on the recipient
  if (capture_count(cloner_capture(d->cloner)))
    return error_set(err, ERR_OperationIncomplete,
                     "The recipient committed the migration without all changes of the range");
  return true;
}

// --- step 6 ---

static void leave_section(struct operation *op, struct donation *d) {
  if (!d->in_section) return;
  d->in_section = false;
  log_info("MIGRATE", "Exiting commit critical section", "namespace:s", d->request.ns);
  section_leave(d->sh, d->request.ns, d->doc.session_id);
  int64_t ms = loop_now_ms(op->loop) - d->section_began_ms;
  d->sh->counters.critical_section_ms += ms;
  log_info("MIGRATE", "Finished critical section", "namespace:s durationMillis:l", d->request.ns, ms);
}

// The coordinator document that the recipient's knowledge of the decision makes superfluous.
static void forget(struct operation *op, struct donation *d) {
  struct error err = {0};
  if (!d->delivered || d->forgotten) return;
  d->forgotten = decision_forget(op, d->sh, &d->doc, &err);
  if (d->forgotten) return;
  log_warn("MIGRATE", "The migration's coordinator document could not be removed yet", "namespace:s error:e",
           d->request.ns, &err);
}

static void log_delivery(struct donation *d) {
  log_info("MIGRATE", "MigrationCoordinator delivering decision to self and to recipient", "namespace:s decision:s",
           d->request.ns, d->doc.decision == DECISION_COMMITTED ? "committed" : "aborted");
}

static void deliver(struct operation *op, struct donation *d) {
  struct error err = {0};
  d->delivered = decision_tell(op, d->sh, &d->doc, &err);
  if (d->delivered) return;
  log_warn("MIGRATE", "The migration's decision could not be delivered yet", "namespace:s error:e", d->request.ns,
           &err);
}

static bool wait_for_deletion(struct operation *op, struct donation *d, struct error *err) {
  if (!d->request.wait_for_delete) return true;
  forget(op, d);
  log_info("MIGRATE", "Waiting for migration cleanup after chunk commit", "namespace:s range:s", d->request.ns,
           range_text(op->arena, d->doc.min, d->doc.max));
  if (range_deleter_wait_task(op, d->sh->deleter, d->doc.id, err)) return true;
  struct error why = *err;
  return error_set(err, ERR_OrphanedRangeCleanUpFailed,
                   "Moved chunks successfully but failed to clean up %s %s due to: %s", d->request.ns,
                   range_text(op->arena, d->doc.min, d->doc.max), error_text(&why, op->arena));
}

struct ending {
  struct donation *d;
  int64_t began;
  bool written, passed; // the decision; the failpoint
  struct error error;
};

static void end_section(struct operation *op, struct ending *e) {
  struct donation *d = e->d;
  e->written = decision_write(op, d->sh, &d->doc, d->orphans, &e->error);
  e->passed = !e->written || failpoint_hang(op, d->sh, "hangBeforeLeavingCriticalSection", &e->error);
  if (!e->passed) return;
  d->sh->counters.critical_section_commit_ms += loop_now_ms(op->loop) - e->began;
  leave_section(op, d);
  if (e->written) log_delivery(d);
}

static void end_branch(struct operation *op, size_t i, void *ctx) {
  struct ending *e = ctx;
  if (i == 0)
    end_section(op, e);
  else
    deliver(op, e->d);
}

// The decision is what the config server has: the recipient may hear it while it is written here. Should it be lost
// here, the next primary finds the same one, and the recipient does not mind to hear it twice.
static bool end_committed(struct operation *op, struct donation *d, int64_t began, struct error *err) {
  struct ending e = {.d = d, .began = began};
  donation_log_commit(op, d); // written meanwhile
  op_parallel(op, 2, end_branch, &e);
  if (!e.written) d->delivered = false; // the coordinator document is needed once more
  if (e.written && e.passed) return true;
  *err = e.error;
  return e.written ? false : error_prefix(err, "The migration is committed, but its decision could not be written");
}

static bool commit_on_config(struct operation *op, struct donation *d, struct error *err) {
  int64_t began = loop_now_ms(op->loop);
  section_block_reads(d->sh, d->request.ns, d->doc.session_id);
  section_outcome_unknown(d->sh, d->request.ns, d->doc.session_id, true);
  const bson_t *reply = NULL;
  if (commit_tell(op, d, &reply, err))
    d->doc.decision = DECISION_COMMITTED;
  else if (!commit_find_outcome(op, d, err))
    return false;
  section_outcome_unknown(d->sh, d->request.ns, d->doc.session_id, false);
  commit_learn(op, d, reply);
  return end_committed(op, d, began, err) && wait_for_deletion(op, d, err);
}

// --- the whole ---

// A failure before the config server was told, or one after which the outcome is known to be "aborted".
static void abort_migration(struct operation *op, struct donation *d) {
  struct error err = {0};
  d->doc.decision = DECISION_ABORTED;
  if (d->commit_begun) metadata_invalidate(d->sh->metadata, d->request.ns); // the chunk's version was raised
  bool written = decision_write(op, d->sh, &d->doc, 0, &err);
  leave_section(op, d);
  if (written) {
    log_delivery(d);
    deliver(op, d);
  }
  donation_log(op, d, "moveChunk.error");
}

static void fail(struct operation *op, struct donation *d, const struct error *err) {
  log_warn("MIGRATE", "Error occurred while migrating a range", "namespace:s error:e", d->request.ns, err);
  if (d->doc.decision == DECISION_COMMITTED) return;
  d->sh->counters.donor_aborted++;
  if (d->cloner && capture_saw_catalog_change(cloner_capture(d->cloner)))
    d->sh->counters.donor_aborted_by_index_operation++;
  bool outcome_known = !d->commit_begun || d->doc.decision == DECISION_ABORTED;
  if (d->documents_written && outcome_known) abort_migration(op, d);
}

static bool run_steps(struct operation *op, struct donation *d, struct error *err) {
  static bool (*const steps[MOVE_STEPS])(struct operation *, struct donation *, struct error *) = {
      accept_request, prepare, start_clone, catch_up, commit_on_recipient, commit_on_config};
  for (int i = 0; i < MOVE_STEPS; i++) {
    d->step_began_ms = loop_now_ms(op->loop);
    if (!steps[i](op, d, err)) return false;
    d->step_ms[i] = (int32_t)(loop_now_ms(op->loop) - d->step_began_ms);
    d->steps = i + 1;
    if (!failpoint_hang(op, d->sh, arena_printf(op->arena, "moveChunkHangAtStep%d", i + 1), err)) return false;
  }
  return true;
}

static void finish(struct operation *op, struct donation *d) {
  struct shard *sh = d->sh;
  int64_t total = loop_now_ms(op->loop) - d->began_ms;
  if (d->doc.decision == DECISION_COMMITTED) {
    sh->counters.donor_committed++;
    sh->counters.donor_total_ms += total;
    sh->counters.donor_clone_ms += d->clone_ms;
    sh->counters.docs_cloned_on_donor += d->cloned;
    sh->counters.bytes_cloned_on_donor += d->cloned_bytes;
  }
  log_info("MIGRATE", "Unregistering donate chunk", "namespace:s toShard:s", d->request.ns, d->request.to);
  if (d->doc.decision == DECISION_COMMITTED) {
    char id[37];
    uuid_text(d->doc.id, id);
    log_info("SHARDING", "Migration finished", "migrationId:s totalTimeMillis:l docsCloned:l bytesCloned:l cloneTime:l",
             id, total, d->cloned, d->cloned_bytes, d->clone_ms);
  }
}

static void settle_branch(struct operation *op, size_t i, void *donation) {
  struct donation *d = donation;
  if (i == 0)
    forget(op, d);
  else
    log_changes_wait(op, d->sh);
}

// What could not be done is the recovery's now, which leaves running donations alone. While the outcome is unknown the
// recovery comes before everybody else: metadata does not become known again without it (metadata.h).
static void leave_to_recovery(struct operation *op, struct donation *d) {
  if (d->commit_begun && d->doc.decision == DECISION_NONE) metadata_invalidate(d->sh->metadata, d->request.ns);
  leave_section(op, d);
  if (d->documents_written && !d->forgotten) migration_recover_soon(d->sh);
}

// In an operation of its own, since the one of the steps may have been killed.
static void end_migration(struct operation *op, void *donation) {
  struct donation *d = donation;
  struct migrations *m = d->sh->migrations;
  if (d->result.code) fail(op, d, &d->result);
  if (d->steps > 0) donation_log_steps(op, d, &d->result);
  op_parallel(op, 2, settle_branch, d);
  finish(op, d);
  m->donation = NULL; // the capture gets nothing any more; a fetch that still runs keeps the cloner alive
  leave_to_recovery(op, d);
  d->done = true;
  event_signal(&m->changed);
  event_signal(&d->ended);
  donation_unref(d);
}

void migration_source_run(struct operation *op, void *donation) {
  struct donation *d = donation;
  d->op = op;
  d->began_ms = loop_now_ms(op->loop);
  struct error err = {0};
  run_steps(op, d, &err);
  d->op = NULL;
  error_copy(&d->result, &err, d->arena);
  background_start(d->sh, op->what, end_migration, d);
}

void donation_unref(struct donation *d) {
  if (!d || --d->refs > 0) return;
  cloner_free(d->cloner);
  arena_free(d->arena);
  free(d);
}
