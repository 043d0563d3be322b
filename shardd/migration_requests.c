// Commands to a donor: the request to move a range, and what the recipient fetches (reference/commands.md 4.3, 9.1).
#include <stdlib.h>
#include <string.h>

#include "common/bson/doc.h"
#include "shardd/background.h"
#include "shardd/local_collection.h"
#include "shardd/migration_source.h"

// --- _shardsvrMoveRange ---

static const int64_t MOST_CHUNK_BYTES = (int64_t)1 << 40;

static const bson_t *keep_doc(struct arena *a, const bson_t *body, const char *name) {
  bson_t view;
  return doc_doc(body, name, &view) ? doc_copy(a, &view) : NULL;
}

static bool parse_request(const struct request *r, struct arena *a, struct move_request *out, struct error *err) {
  const char *to;
  if (!r->coll) return error_set(err, ERR_InvalidNamespace, "Invalid namespace specified");
  if (!namespace_valid(r->coll, err) || !request_required_str(r, "toShard", &to, err)) return false;
  *out = (struct move_request){.ns = arena_strdup(a, r->coll),
                               .to = arena_strdup(a, to),
                               .min = keep_doc(a, r->body, "min"),
                               .max = keep_doc(a, r->body, "max"),
                               .max_chunk_bytes = doc_i64(r->body, "maxChunkSizeBytes", 128 << 20),
                               .force_jumbo = (int)doc_i64(r->body, "forceJumbo", 0),
                               .wait_for_delete = doc_bool(r->body, "waitForDelete", false),
                               .secondary_throttle = doc_bool(r->body, "secondaryThrottle", false)};
  if (!out->min && !out->max) return error_set(err, ERR_InvalidOptions, "Missing required parameter 'min' or 'max'");
  if (!doc_oid(r->body, "epoch", &out->generation.epoch) ||
      !doc_timestamp(r->body, "collectionTimestamp", &out->generation.timestamp))
    return error_set(err, ERR_NoSuchKey, "Missing required field 'epoch' or 'collectionTimestamp'");
  // Far beyond what config.settings takes, and small enough to be multiplied.
  if (out->max_chunk_bytes > MOST_CHUNK_BYTES) out->max_chunk_bytes = MOST_CHUNK_BYTES;
  if (out->max_chunk_bytes < 1) out->max_chunk_bytes = 1;
  return true;
}

static bool same_doc(const bson_t *a, const bson_t *b) {
  return a && b ? doc_equal_bytes(a, b) : a == b;
}

static bool same_request(const struct move_request *a, const struct move_request *b) {
  return !strcmp(a->ns, b->ns) && !strcmp(a->to, b->to) && same_doc(a->min, b->min) && same_doc(a->max, b->max);
}

static struct donation *start_donation(struct shard *sh, struct arena *a, const struct move_request *request) {
  struct donation *d = malloc(sizeof *d);
  *d = (struct donation){.sh = sh, .arena = a, .refs = 2, .request = *request};
  sh->migrations->donation = d;
  background_start(sh, "moveChunk", migration_source_run, d);
  return d;
}

// The running donation when it is the same request (its result is shared), or a new one.
static struct donation *join_or_start(struct shard *sh, const struct request *r, struct error *err) {
  struct arena *a = arena_new();
  struct move_request request;
  if (!parse_request(r, a, &request, err)) {
    arena_free(a);
    return NULL;
  }
  struct donation *running = sh->migrations->donation;
  if (running && same_request(&running->request, &request)) {
    arena_free(a);
    running->refs++;
    return running;
  }
  if (!migrations_may_start(sh->migrations, request.ns, err)) {
    arena_free(a);
    return NULL;
  }
  return start_donation(sh, a, &request);
}

static bool move_range(struct request *r, bson_t *reply, struct error *err) {
  struct shard *sh = shard_of(r);
  if (!shard_wait_recovered(r->op, sh, err)) return false;
  if (!strcmp(doc_str(r->body, "toShard", ""), sh->name)) return true; // it is here already
  struct donation *d = join_or_start(sh, r, err);
  if (!d) return false;
  bool ok = true;
  while (ok && !d->done) ok = event_wait(r->op, &d->ended, err);
  if (ok && d->result.code) {
    error_copy(err, &d->result, r->op->arena);
    ok = false;
  }
  donation_unref(d);
  return ok;
}

// --- what the recipient fetches ---

static struct donation *donation_of(struct request *r, struct error *err) {
  struct donation *d = shard_of(r)->migrations->donation;
  if (!d || !d->cloner || !r->coll || strcmp(d->request.ns, r->coll) != 0) {
    error_set(err, ERR_NotYetInitialized, "No active migrations were found");
    return NULL;
  }
  const char *session = doc_str(r->body, "sessionId", "");
  if (strcmp(session, d->doc.session_id) != 0) {
    error_set(err, ERR_IllegalOperation, "Requested migration session id %s does not match active session id %s",
              session, d->doc.session_id);
    return NULL;
  }
  return d;
}

static bool fetch(struct request *r, bson_t *reply, struct error *err,
                  bool (*from)(struct operation *, struct cloner *, bson_t *, struct error *)) {
  struct donation *d = donation_of(r, err);
  if (!d) return false;
  d->refs++;
  bool ok = from(r->op, d->cloner, reply, err);
  donation_unref(d);
  return ok;
}

static bool migrate_clone(struct request *r, bson_t *reply, struct error *err) {
  return fetch(r, reply, err, cloner_clone);
}

static bool transfer_mods(struct request *r, bson_t *reply, struct error *err) {
  return fetch(r, reply, err, cloner_mods);
}

static bool next_session_mods(struct request *r, bson_t *reply, struct error *err) {
  return fetch(r, reply, err, cloner_sessions);
}

// {uuid, options, indexes: [specs], shardKey} of a collection here: what a recipient needs to make the same one.
static bool collection_info(struct request *r, bson_t *reply, struct error *err) {
  struct shard *sh = shard_of(r);
  const struct collection *c = r->coll ? store_collection(sh->node.store, r->coll) : NULL;
  if (!c || c->dropped) return error_set(err, ERR_NamespaceNotFound, "Collection %s not found", r->coll ? r->coll : "");
  collection_plan_append(reply, c);
  return true;
}

static bool join_migrations(struct request *r, bson_t *reply, struct error *err) {
  struct migrations *m = shard_of(r)->migrations;
  while (m->donation || m->reception)
    if (!event_wait(r->op, &m->changed, err)) return false;
  return true;
}

const struct command shardd_donor_commands[] = {
    {"_shardsvrMoveRange", NULL, CMD_WRITE | CMD_ADMIN_ONLY | CMD_INTERNAL, move_range,
     "Moves a range of this shard to another one."},
    {"_migrateClone", NULL, CMD_WRITE | CMD_ADMIN_ONLY | CMD_INTERNAL, migrate_clone,
     "The next documents of the range being moved."},
    {"_transferMods", NULL, CMD_WRITE | CMD_ADMIN_ONLY | CMD_INTERNAL, transfer_mods,
     "What changed in the range being moved."},
    {"_getNextSessionMods", NULL, CMD_WRITE | CMD_ADMIN_ONLY | CMD_INTERNAL, next_session_mods,
     "Records of retryable writes in the range being moved."},
    {"_shardsvrCollectionInfo", NULL, CMD_WRITE | CMD_ADMIN_ONLY | CMD_INTERNAL, collection_info,
     "UUID, options, indexes and shard key of a collection."},
    {"_shardsvrJoinMigrations", NULL, CMD_WRITE | CMD_ADMIN_ONLY | CMD_INTERNAL, join_migrations,
     "Waits until no migration runs here."},
    {0},
};
