// The decision of a migration: how it is written, found out after a failure, and delivered.
//
//   begin    {coordinator document, pending range deletion}            line 1
//   write    {decision, range deletion ready or removed, cache}        line 6
//   deliver  recipient told, then {coordinator document removed}
//
// Invariant: the decision `aborted` is written only when no config commit can succeed any more: none was begun, or the
// chunk's version on the config server is above the one that the commit names.
#include "shardd/migration_source.h"

#include <string.h>

#include "common/base/log.h"
#include "common/bson/doc.h"
#include "shardd/cache_writer.h"
#include "shardd/peer.h"
#include "shardd/range_deleter.h"
#include "shardd/shard_index.h"

static bool put_coordinator(struct shard *sh, struct operation *op, struct write *w, const struct coordinator_doc *d,
                            struct error *err) {
  return local_put(&sh->node, w, COORDINATORS_NS, coordinator_doc_make(op->arena, d), err);
}

bool decision_begin(struct operation *op, struct shard *sh, const struct coordinator_doc *d, bool now,
                    const bson_t *key, struct error *err) {
  struct range_deletion_doc task = {
      .ns = d->ns, .donor = d->donor, .min = d->min, .max = d->max, .pending = true, .now = now, .key = key};
  memcpy(task.id, d->id, 16);
  memcpy(task.collection, d->collection, 16);
  struct write *w = write_begin(op, sh->node.repl);
  write_atomic(w);
  return put_coordinator(sh, op, w, d, err) &&
         local_put(&sh->node, w, RANGE_DELETIONS_NS, range_deletion_doc_make(op->arena, &task), err) &&
         write_commit(op, w, err);
}

static bool settle_own_task(struct shard *sh, struct operation *op, struct write *w, const struct coordinator_doc *d,
                            int64_t orphans, struct error *err) {
  struct range_deletion_doc task;
  bson_value_t id = uuid_value(d->id);
  if (d->decision == DECISION_ABORTED) return local_delete(&sh->node, w, RANGE_DELETIONS_NS, &id, err);
  if (!range_deleter_task(sh->deleter, op->arena, d->id, &task)) return true; // done with already
  task.pending = false;
  task.orphans = orphans;
  task.timestamp = sh->node.clock.time;
  return local_put(&sh->node, w, RANGE_DELETIONS_NS, range_deletion_doc_make(op->arena, &task), err);
}

static bool write_decision(struct operation *op, struct shard *sh, const struct coordinator_doc *d, int64_t orphans,
                           struct error *err) {
  struct write *w = write_begin(op, sh->node.repl);
  write_atomic(w);
  return put_coordinator(sh, op, w, d, err) && settle_own_task(sh, op, w, d, orphans, err) &&
         cache_add(op, sh, w, d->ns, err) && write_commit(op, w, err);
}

bool decision_write(struct operation *op, struct shard *sh, struct coordinator_doc *d, int64_t orphans,
                    struct error *err) {
  // Not beside a refresh's flush of the cache: of two writes of one row one is refused.
  if (!mutex_lock(op, &sh->cache_writing, err)) return false;
  bool ok = write_decision(op, sh, d, orphans, err);
  mutex_unlock(&sh->cache_writing);
  cache_flush_soon(sh, d->ns); // what did not fit into the entry
  return ok;
}

// --- finding it out ---

static bool raise_version(struct operation *op, struct shard *sh, const struct coordinator_doc *d, struct error *err) {
  bson_t *cmd = arena_bson(op->arena);
  BSON_APPEND_INT32(cmd, "_configsvrEnsureChunkVersionIsGreaterThan", 1);
  BSON_APPEND_DOCUMENT(cmd, "minKey", d->min);
  BSON_APPEND_DOCUMENT(cmd, "maxKey", d->max);
  chunk_version_append(cmd, "version", &d->before);
  doc_append_uuid(cmd, "collectionUUID", d->collection);
  BSON_APPEND_UTF8(cmd, "nss", d->ns);
  append_majority(cmd);
  return config_call(op, sh, cmd, NULL, err);
}

static enum decision decision_by_owner(struct operation *op, struct shard *sh, const struct coordinator_doc *d,
                                       const struct routing *r) {
  bool same = r->tracked && !memcmp(r->collection.uuid, d->collection, 16);
  // A collection that was dropped or made anew meanwhile has nothing of this migration; its documents go with it.
  if (!same || chunk_map_owned_by(r->chunks, bound_key(op->arena, d->min), sh->name)) return DECISION_ABORTED;
  return DECISION_COMMITTED;
}

bool decision_find(struct operation *op, struct shard *sh, struct coordinator_doc *d, struct error *err) {
  if (!raise_version(op, sh, d, err)) return false;
  struct routing *r = NULL;
  bool incremental;
  if (!catalog_load_routing(op, sh->config, d->ns, NULL, &r, &incremental, err)) return false;
  d->decision = decision_by_owner(op, sh, d, r);
  routing_unref(r);
  log_info("MIGRATE", "The outcome of a migration was read from the config server", "namespace:s range:s decision:s",
           d->ns, range_text(op->arena, d->min, d->max), d->decision == DECISION_COMMITTED ? "committed" : "aborted");
  return true;
}

// --- delivering it ---

bool decision_tell(struct operation *op, struct shard *sh, const struct coordinator_doc *d, struct error *err) {
  bson_t *cmd = arena_bson(op->arena);
  BSON_APPEND_UTF8(cmd, "_recvChunkReleaseCritSec", d->ns);
  BSON_APPEND_UTF8(cmd, "sessionId", d->session_id);
  doc_append_uuid(cmd, "uuid", d->id);
  BSON_APPEND_UTF8(cmd, "decision", d->decision == DECISION_COMMITTED ? "committed" : "aborted");
  append_majority(cmd);
  if (peer_call(op, sh, d->recipient, "admin", cmd, PEER_TIMEOUT_MS, true, NULL, err)) return true;
  return err->code == ERR_ShardNotFound; // it was removed from the cluster, and what it had is no matter any more
}

bool decision_forget(struct operation *op, struct shard *sh, const struct coordinator_doc *d, struct error *err) {
  bson_value_t id = uuid_value(d->id);
  return local_delete_now(op, &sh->node, COORDINATORS_NS, &id, err);
}

bool decision_deliver(struct operation *op, struct shard *sh, const struct coordinator_doc *d, struct error *err) {
  return decision_tell(op, sh, d, err) && decision_forget(op, sh, d, err);
}
