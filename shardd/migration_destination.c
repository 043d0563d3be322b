// The recipient follows the donor in eight steps, each timed (reference/sharding.md 5.1):
//
//   1 wait_for_deletions  orphans of the range that are still here: waits for their deletion, at most 10 s.
//   2 prepare collection  created as the donor has it.
//   3 stage               {staged file, pending range deletion} in this shard's log.
//   4 clone_range         the donor's documents, in batches.
//   5 catch_up            what changed meanwhile, until nothing does.
//   6 stay_steady         ... and on, until the donor is in its critical section and asks to commit.
//   7 adopt               this shard's section; the last changes; {file adopted, session records, recipient document}.
//   8 await_word          the donor's: committed, or aborted. {documents removed, range deletion removed or ready}.
//
// When a step fails:
//   1, 2  nothing to undo.
//   3..7  {file forgotten, range deletion removed}; the donor learns of it by asking (_recvChunkStatus) and aborts.
//   8     does not fail; it waits for the donor's word, also over a change of primary (migration_recovery.c), because
//         only the donor knows whether the config server made this shard the owner.
#include "shardd/migration_destination.h"

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
#include "shardd/range_deleter.h"

enum {
  STEADY_POLL_MS = 20, // how often a steady recipient asks for changes: they must be few when the donor commits
  REFRESH_RETRY_MS = 200,
  REFRESH_ATTEMPTS = 25, // then the metadata is left unknown, and who comes next refreshes it
};

struct reception *reception_new(struct shard *sh) {
  struct reception *r = calloc(1, sizeof *r);
  r->sh = sh;
  r->refs = 1;
  r->arena = arena_new();
  return r;
}

void reception_unref(struct reception *r) {
  if (!r || --r->refs > 0) return;
  reception_ids_free(r);
  arena_free(r->arena);
  free(r);
}

void reception_set_state(struct reception *r, enum reception_state s) {
  r->state = s;
  event_signal(&r->changed);
}

void reception_interrupt(struct reception *r) {
  if (r->op && r->state < RECEPTION_COMMIT_START) operation_kill(r->op, ERR_Interrupted);
}

// --- the steps ---

static bool wait_for_deletions(struct operation *op, struct reception *r, struct error *err) {
  struct range_deleter *d = r->sh->deleter;
  struct collection *c = store_collection(r->sh->node.store, r->ns);
  if (!c || !range_deleter_overlaps(d, c->uuid, r->min_key, r->max_key, NULL)) return true;
  uint8_t uuid[16];
  memcpy(uuid, c->uuid, 16);
  log_info("MIGRATE",
           "Migration paused because the requested range overlaps with a range already scheduled for deletion",
           "namespace:s range:s migrationSessionId:s", r->ns, range_text(op->arena, r->min, r->max), r->session_id);
  log_info("MIGRATE", "Waiting for deletion of orphans", "namespace:s range:s", r->ns,
           range_text(op->arena, r->min, r->max));
  bool timed_out;
  if (range_deleter_wait_clear(op, d, uuid, r->min_key, r->max_key, r->sh->parameters.receive_wait_for_range_deleter_ms,
                               &timed_out, err))
    return true;
  if (!timed_out) return false;
  return error_set(err, ERR_ExceededTimeLimit,
                   "Migration failed because the orphans cleanup routine didn't clear yet a portion of the range being "
                   "migrated that was previously owned by the recipient shard.");
}

static bool clone_range(struct operation *op, struct reception *r, struct error *err) {
  reception_set_state(r, RECEPTION_CLONE);
  return reception_clone(op, r, err);
}

static bool catch_up(struct operation *op, struct reception *r, struct error *err) {
  reception_set_state(r, RECEPTION_CATCHUP);
  int64_t fetched;
  if (!reception_mods(op, r, &fetched, err)) return false;
  r->catchup += fetched;
  log_info("MIGRATE", "Chunk data replicated successfully.", "namespace:s docsCloned:l bytesCloned:l", r->ns, r->cloned,
           r->cloned_bytes);
  return true;
}

static bool stay_steady(struct operation *op, struct reception *r, struct error *err) {
  reception_set_state(r, RECEPTION_STEADY);
  while (!r->commit_asked) {
    bool timed_out = false;
    int64_t fetched;
    if (!event_wait_for(op, &r->changed, STEADY_POLL_MS, &timed_out, err) && !timed_out) return false;
    if (r->commit_asked) break;
    if (!reception_mods(op, r, &fetched, err)) return false;
    r->catchup += fetched;
  }
  reception_set_state(r, RECEPTION_COMMIT_START);
  return true;
}

static bool adopt(struct operation *op, struct reception *r, struct error *err) {
  if (!reception_adopt(op, r, err)) return false;
  log_info("MIGRATE", "Migration commit succeeded flushing to secondaries", "namespace:s range:s", r->ns,
           range_text(op->arena, r->min, r->max));
  log_info("MIGRATE", "Entered migration recipient critical section", "namespace:s migrationSessionId:s", r->ns,
           r->session_id);
  reception_set_state(r, RECEPTION_IN_SECTION);
  return true;
}

// After the donor's word the routers come with the new version: they must find it here.
static void refresh(struct operation *op, struct shard *sh, const char *ns) {
  struct error err = {0};
  for (int i = 0; i < REFRESH_ATTEMPTS; i++) {
    if (metadata_refresh(op, sh->metadata, ns, &err)) return;
    if (!op_sleep(op, REFRESH_RETRY_MS, &err)) break;
  }
  metadata_invalidate(sh->metadata, ns);
}

struct settling {
  struct reception *r;
  bool ok;
  struct error error;
};

static void settle_branch(struct operation *op, size_t i, void *ctx) {
  struct settling *s = ctx;
  struct reception *r = s->r;
  if (i == 0)
    s->ok = reception_settle(op, r->sh, r->ns, r->id, r->decision, &s->error);
  else
    refresh(op, r->sh, r->ns);
}

static bool await_word(struct operation *op, struct reception *r, struct error *err) {
  while (r->decision == DECISION_NONE)
    if (!event_wait(op, &r->changed, err)) return false;
  r->state = RECEPTION_EXIT_SECTION;
  struct settling s = {.r = r};
  op_parallel(op, 2, settle_branch, &s);
  if (!s.ok) {
    *err = s.error;
    return false;
  }
  int64_t ms = loop_now_ms(op->loop) - r->section_began_ms;
  r->sh->counters.recipient_critical_section_ms += ms;
  section_leave(r->sh, r->ns, r->session_id);
  log_info("MIGRATE", "Exited migration recipient critical section",
           "namespace:s migrationSessionId:s durationMillis:l", r->ns, r->session_id, ms);
  reception_set_state(r, RECEPTION_DONE);
  return true;
}

// --- the whole ---

static bool receive(struct operation *op, struct reception *r, struct error *err) {
  static bool (*const steps[RECEIVE_STEPS])(struct operation *, struct reception *, struct error *) = {
      wait_for_deletions, reception_prepare_collection, reception_stage, clone_range, catch_up, stay_steady, adopt,
      await_word};
  for (int i = 0; i < RECEIVE_STEPS; i++) {
    int64_t began = loop_now_ms(op->loop);
    if (!steps[i](op, r, err)) return false;
    r->step_ms[i] = (int32_t)(loop_now_ms(op->loop) - began);
    r->steps = i + 1;
    if (!failpoint_hang(op, r->sh, arena_printf(op->arena, "migrateThreadHangAtStep%d", i + 1), err)) return false;
  }
  return true;
}

static void log_steps(struct operation *op, struct reception *r) {
  bson_t *details = arena_bson(op->arena);
  for (int i = 0; i < r->steps; i++)
    doc_append_num(details, arena_printf(op->arena, "step %d of %d", i + 1, RECEIVE_STEPS), r->step_ms[i]);
  BSON_APPEND_DOCUMENT(details, "min", r->min);
  BSON_APPEND_DOCUMENT(details, "max", r->max);
  BSON_APPEND_UTF8(details, "to", r->sh->name);
  BSON_APPEND_UTF8(details, "from", r->from_shard);
  BSON_APPEND_UTF8(details, "note", r->decision == DECISION_COMMITTED ? "success" : "aborted");
  if (r->error.code) BSON_APPEND_UTF8(details, "errmsg", error_text(&r->error, op->arena));
  log_change_soon(op, r->sh, "moveChunk.to", r->ns, details);
}

// Nothing was adopted: what is staged goes, and the donor is told when it asks.
static void give_up(struct operation *op, struct reception *r) {
  struct error err = {0};
  log_warn("MIGRATE", "Error during migration", "namespace:s range:s error:e", r->ns,
           range_text(op->arena, r->min, r->max), &r->error);
  if (r->file && !reception_unstage(op, r->sh, r->ns, r->id, r->collection, r->file, &err)) {
    log_warn("MIGRATE", "What was received could not be dropped yet", "namespace:s error:e", r->ns, &err);
    migration_recover_soon(r->sh);
  }
  r->state = r->decision == DECISION_ABORTED ? RECEPTION_ABORT : RECEPTION_FAIL;
}

static void unregister(struct reception *r) {
  struct migrations *m = r->sh->migrations;
  log_info("MIGRATE", "clearReceiveChunk", "namespace:s migrationSessionId:s", r->ns, r->session_id);
  reception_unref(m->last_reception);
  m->last_reception = r; // takes over the running operation's reference: the donor may still ask
  m->reception = NULL;
  r->ended = true;
  event_signal(&m->changed);
  event_signal(&r->changed);
}

// In an operation of its own, since the one of the steps may have been killed.
static void end_reception(struct operation *op, void *reception) {
  struct reception *r = reception;
  bool adopted = r->state >= RECEPTION_IN_SECTION;
  if (r->error.code && !adopted) give_up(op, r);
  unregister(r);
  if (r->error.code && adopted) migration_recover_soon(r->sh); // the range waits on for its donor's word
  log_steps(op, r);
}

static void end(struct operation *op, struct reception *r, const struct error *err) {
  r->op = NULL;
  error_copy(&r->error, err, r->arena);
  background_start(r->sh, op->what, end_reception, r);
}

void migration_destination_run(struct operation *op, void *reception) {
  struct reception *r = reception;
  r->op = op;
  r->sh->counters.recipient_started++;
  log_info("MIGRATE", "Starting receiving end of chunk migration",
           "namespace:s min:b max:b fromShard:s migrationSessionId:s", r->ns, r->min, r->max, r->from_shard,
           r->session_id);
  struct error err = {0};
  receive(op, r, &err);
  end(op, r, &err);
}

void migration_destination_resume(struct operation *op, void *reception) {
  struct reception *r = reception;
  r->op = op;
  r->section_began_ms = loop_now_ms(op->loop);
  log_info("MIGRATE", "A range that was received by an earlier primary waits for its donor's decision",
           "namespace:s range:s migrationSessionId:s", r->ns, range_text(op->arena, r->min, r->max), r->session_id);
  struct error err = {0};
  await_word(op, r, &err);
  end(op, r, &err);
}

// --- the donor's word ---

// The word about a reception that nobody here works at. The donor forgets the migration when it is told "done", so that
// must not come from a member that has lost its role without knowing it, nor while an adopted range still waits.
static bool release_unknown(struct operation *op, struct shard *sh, const uint8_t id[16], struct error *err) {
  if (!repl_barrier(op, sh->node.repl, err)) return false;
  if (!migration_is_adopted(op, sh, id)) return true; // settled, or nothing was adopted
  migration_recover_soon(sh);
  return error_set(err, ERR_ConflictingOperationInProgress, "The range that was received is being recovered");
}

bool migration_release(struct operation *op, struct shard *sh, const char *ns, const char *session_id,
                       const uint8_t id[16], enum decision decision, struct error *err) {
  struct reception *r = sh->migrations->reception;
  if (!r || strcmp(r->session_id, session_id) != 0) return release_unknown(op, sh, id, err);
  r->refs++;
  r->decision = decision;
  if (decision == DECISION_ABORTED) reception_interrupt(r);
  event_signal(&r->changed);
  bool ok = true;
  while (ok && !r->ended) ok = event_wait(op, &r->changed, err);
  bool adopted_still = r->state == RECEPTION_IN_SECTION || r->state == RECEPTION_EXIT_SECTION;
  if (ok && adopted_still)
    ok = error_set(err, r->error.code ? r->error.code : ERR_InternalError, "The decision could not be written: %s",
                   r->error.message);
  reception_unref(r);
  return ok;
}
