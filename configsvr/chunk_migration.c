// _configsvrCommitChunkMigration, _configsvrEnsureChunkVersionIsGreaterThan, _configsvrClearJumboFlag: what raises
// major versions.
//
// A migration takes M = the collection's major version + 1. The moved range gets M|0 and keeps the chunk's _id; what
// remains of the chunk on the left and on the right, and one other chunk of the donor (so that its version rises too),
// get M|1, M|2...
//
// The donor names the version that the chunk had when the migration began. A newer one says that somebody decided
// otherwise meanwhile (a donor that recovers raises it first), and the commit is refused.
#include <string.h>

#include "common/bson/doc.h"
#include "configsvr/chunk_commands.h"
#include "configsvr/commands.h"

enum { MOST_CHANGED = 4 }; // the moved one, two remainders, one other of the donor

struct migration {
  const char *ns, *from, *to;
  struct chunk_version chunk, collection; // as the donor knew them when it began
  const bson_t *min, *max;
  // Results. What the commit changed, and in what: so the donor, whose reads and writes wait, need not ask for it.
  struct chunk_version donor_version, previous;
  struct collection_type row;
  struct chunk_type changed[MOST_CHANGED];
  size_t n_changed; // 0: it had been done before
};

static bool put_changed(struct commit *c, struct migration *m, const struct chunk_type *chunk, struct error *err) {
  m->changed[m->n_changed++] = *chunk;
  return chunk_put(c, chunk, err);
}

static bool check_target(struct commit *c, const struct migration *m, struct error *err) {
  struct shard_type to;
  bool found;
  if (!catalog_read_shard(c->cs, c->arena, m->to, &to, &found, err)) return false;
  if (!found) return error_set(err, ERR_ShardNotFound, "Could not find shard %s", m->to);
  return !to.draining || error_set(err, ERR_ShardNotFound, "Shard %s is draining and receives no chunks", m->to);
}

static bool check_chunk(struct commit *c, const struct migration *m, const struct chunk_type *now, struct error *err) {
  const char *range = range_text(c->arena, m->min, m->max);
  if (strcmp(now->shard, m->from) != 0) {
    return error_set(err, 4914702, "Chunk %s of %s is on shard %s, neither on the donor %s nor on the recipient %s",
                     range, m->ns, now->shard, m->from, m->to);
  }
  if (chunk_bound_compare(now->max, m->max) < 0) {
    return error_set(err, 40165, "Could not find a chunk of %s that contains the range %s", m->ns, range);
  }
  if (now->major > m->chunk.major || (now->major == m->chunk.major && now->minor > m->chunk.minor)) {
    return error_set(err, ERR_ConflictingOperationInProgress,
                     "Rejecting migration request because the version of the requested chunk %s of %s is %u|%u, which "
                     "is older than the "
                     "current version %u|%u",
                     range, m->ns, m->chunk.major, m->chunk.minor, now->major, now->minor);
  }
  return true;
}

// Drops what nobody can ask for any more from the history's end, keeping one entry, and puts the new owner in front.
static void new_history(struct commit *c, struct chunk_type *chunk, const char *shard) {
  size_t keep = chunk->n_history;
  int64_t now_s = (int64_t)(c->now >> 32);
  while (keep > 1 && (int64_t)(chunk->history[keep - 1].valid_after >> 32) + c->cs->history_window_seconds < now_s)
    keep--;
  struct chunk_history *h = arena_alloc(c->arena, (keep + 1) * sizeof *h);
  h[0] = (struct chunk_history){c->now, shard};
  if (keep) memcpy(h + 1, chunk->history, keep * sizeof *h);
  chunk->history = h;
  chunk->n_history = keep + 1;
  chunk->on_current_shard_since = c->now;
}

static bool put_remainder(struct commit *c, struct migration *m, const struct chunk_type *was, const bson_t *min,
                          const bson_t *max, struct chunk_version *v, struct error *err) {
  struct chunk_type part = *was;
  bson_oid_init(&part.id, NULL);
  part.min = min;
  part.max = max;
  part.has_jumbo = part.jumbo = false;
  part.major = v->major;
  part.minor = ++v->minor;
  return put_changed(c, m, &part, err);
}

// Everything the donor keeps gets its new versions; *v is the last one given, M|0 when nothing was left to give one to.
static bool put_donors_part(struct commit *c, struct migration *m, const struct collection_type *coll,
                            const struct chunk_type *was, struct chunk_version *v, struct error *err) {
  if (chunk_bound_compare(was->min, m->min) < 0 && !put_remainder(c, m, was, was->min, m->min, v, err)) return false;
  if (chunk_bound_compare(m->max, was->max) < 0 && !put_remainder(c, m, was, m->max, was->max, v, err)) return false;
  struct chunk_type control;
  if (!chunk_of_shard(c->cs, c->arena, coll->uuid, m->from, &was->id, &control)) return true;
  control.major = v->major;
  control.minor = ++v->minor;
  return put_changed(c, m, &control, err);
}

// A row of config.placementHistory when the set of owners changes: the recipient is new, or the donor has nothing left.
static bool record_placement(struct commit *c, const struct migration *m, const struct collection_type *coll,
                             bool donor_keeps, struct error *err) {
  struct chunk_type any;
  struct shard_type *shards;
  size_t n, owners = 0;
  bool recipient_is_new = !chunk_of_shard(c->cs, c->arena, coll->uuid, m->to, NULL, &any);
  if (!recipient_is_new && donor_keeps) return true;
  if (!catalog_read_shards(c->cs, c->arena, &shards, &n, err)) return false;
  const char **names = arena_alloc(c->arena, (n + 1) * sizeof *names);
  for (size_t i = 0; i < n; i++) {
    bool is_from = strcmp(shards[i].name, m->from) == 0, is_to = strcmp(shards[i].name, m->to) == 0;
    bool owns =
        is_to || (is_from ? donor_keeps : chunk_of_shard(c->cs, c->arena, coll->uuid, shards[i].name, NULL, &any));
    if (owns) names[owners++] = shards[i].name;
  }
  return commit_placement(c, m->ns, coll->uuid, names, owners, err);
}

static bool move(struct commit *c, struct migration *m, const struct collection_type *coll,
                 const struct chunk_type *was, struct error *err) {
  struct chunk_version v = collection_version(c->cs, c->arena, coll);
  if (v.major == UINT32_MAX) return error_set(err, 31180, "The major version of %s would overflow", m->ns);
  m->row = *coll;
  m->previous = v;
  v.major++;
  v.minor = 0;
  struct chunk_type moved = *was;
  moved.min = m->min;
  moved.max = m->max;
  moved.shard = m->to;
  moved.major = v.major;
  moved.minor = 0;
  moved.has_jumbo = moved.jumbo = false;
  new_history(c, &moved, m->to);
  // The moved range first: its chunk document may give its lower bound to the left remainder.
  if (!put_changed(c, m, &moved, err) || !put_donors_part(c, m, coll, was, &v, err)) return false;
  bool donor_keeps = v.minor > 0;
  m->donor_version = donor_keeps ? v : version_of(coll, 0, 0);
  return record_placement(c, m, coll, donor_keeps, err);
}

static bool commit_migration(struct commit *c, void *args, struct error *err) {
  struct migration *m = args;
  struct collection_type coll;
  struct chunk_type now;
  m->n_changed = 0;
  if (!catalog_need_collection(c->cs, c->arena, m->ns, &coll, err) ||
      !chunk_check_generation(&coll, &m->collection.epoch, m->collection.timestamp, err)) {
    return false;
  }
  if (!chunk_containing(c->cs, c->arena, coll.uuid, m->min, &now)) {
    return error_set(err, 40165, "Could not find a chunk of %s that contains %s", m->ns, doc_text(c->arena, m->min));
  }
  bool is_there = strcmp(now.shard, m->to) == 0 && chunk_bound_compare(now.min, m->min) <= 0 &&
                  chunk_bound_compare(now.max, m->max) >= 0;
  if (is_there) { // a repeated request
    m->donor_version = shard_version(c->cs, c->arena, &coll, m->from);
    return true;
  }
  if (!coll.allow_migrations || !coll.permit_migrations) {
    return error_set(err, ERR_ConflictingOperationInProgress,
                     "Collection is undergoing changes and chunks cannot be moved");
  }
  return check_target(c, m, err) && check_chunk(c, m, &now, err) && move(c, m, &coll, &now, err);
}

static bool request_version(struct request *r, const bson_t *in, const char *field, struct chunk_version *out,
                            struct error *err) {
  bson_t v;
  if (!doc_doc(in, field, &v))
    return error_set(err, 40414, "BSON field '%s.%s' is missing but a required field", r->name, field);
  return chunk_version_parse(&v, out, err) || error_prefix(err, "%s.%s", r->name, field);
}

// {previousVersion, collection, chunks: [...]}: rows as they are in the catalog.
static void append_changed(struct arena *a, const struct migration *m, bson_t *reply) {
  bson_t chunks;
  if (!m->n_changed) return;
  chunk_version_append(reply, "previousVersion", &m->previous);
  BSON_APPEND_DOCUMENT(reply, "collection", collection_type_doc(a, &m->row));
  BSON_APPEND_ARRAY_BEGIN(reply, "chunks", &chunks);
  for (size_t i = 0; i < m->n_changed; i++) {
    char name[16];
    const char *key;
    bson_uint32_to_string((uint32_t)i, &key, name, sizeof name);
    BSON_APPEND_DOCUMENT(&chunks, key, chunk_type_doc(a, &m->changed[i]));
  }
  bson_append_array_end(reply, &chunks);
}

bool config_commit_chunk_migration(struct request *r, bson_t *reply, struct error *err) {
  struct migration m = {0};
  const bson_t *chunk;
  if (!request_namespace(r, &m.ns, err) || !request_required_str(r, "fromShard", &m.from, err) ||
      !request_required_str(r, "toShard", &m.to, err) || !request_copy_doc(r, "migratedChunk", &chunk, err) ||
      !chunk_parse_range(chunk, r->op->arena, &m.min, &m.max, err) ||
      !request_version(r, chunk, "lastmod", &m.chunk, err) ||
      !request_version(r, r->body, "fromShardCollectionVersion", &m.collection, err)) {
    return false;
  }
  static const char *const namespaces[] = {"config.chunks", "config.collections", "config.shards"};
  if (!commit_run(r->op, config_of(r), namespaces, 3, commit_migration, &m, err)) return false;
  chunk_version_append(reply, "shardVersion", &m.donor_version);
  append_changed(r->op->arena, &m, reply);
  return true;
}

// --- raising one chunk's version ---

struct raise {
  const char *ns;
  const bson_t *min, *max;
  bool has_uuid;
  uint8_t uuid[16];
  bson_oid_t epoch;
  struct chunk_version than; // the chunk must be newer than this
};

static bool put_with_next_major(struct commit *c, const struct collection_type *coll, struct chunk_type *chunk,
                                struct error *err) {
  struct chunk_version v = collection_version(c->cs, c->arena, coll);
  if (v.major == UINT32_MAX) return error_set(err, 31181, "The major version of %s would overflow", coll->ns);
  chunk->major = v.major + 1;
  chunk->minor = 0;
  return chunk_put(c, chunk, err);
}

// The range of a migration may be a part of its chunk, so the chunk that contains its lower bound is meant.
static bool commit_raise(struct commit *c, void *args, struct error *err) {
  struct raise *x = args;
  struct collection_type coll;
  struct chunk_type chunk;
  bool found;
  if (!catalog_read_collection(c->cs, c->arena, x->ns, &coll, &found, err)) return false;
  // Dropped, or another incarnation: no commit of the old one can succeed any more.
  if (!found || memcmp(coll.uuid, x->uuid, 16) != 0 || coll.timestamp != x->than.timestamp) return true;
  if (!chunk_containing(c->cs, c->arena, coll.uuid, x->min, &chunk)) return true;
  struct chunk_version v = version_of(&coll, chunk.major, chunk.minor);
  if (chunk_version_compare(&v, &x->than) > 0) return true;
  return put_with_next_major(c, &coll, &chunk, err);
}

bool config_ensure_chunk_version_is_greater_than(struct request *r, bson_t *reply, struct error *err) {
  struct raise x = {0};
  if (!request_required_str(r, "nss", &x.ns, err) || !request_copy_doc(r, "minKey", &x.min, err) ||
      !request_copy_doc(r, "maxKey", &x.max, err) || !request_version(r, r->body, "version", &x.than, err)) {
    return false;
  }
  if (!doc_uuid(r->body, "collectionUUID", x.uuid))
    return error_set(err, ERR_BadValue, "collectionUUID must be a UUID");
  return commit_run(r->op, config_of(r), chunk_namespaces, 2, commit_raise, &x, err);
}

static bool commit_clear_jumbo(struct commit *c, void *args, struct error *err) {
  struct raise *x = args;
  struct collection_type coll;
  struct chunk_type chunk;
  if (!catalog_need_collection(c->cs, c->arena, x->ns, &coll, err) || !chunk_check_generation(&coll, &x->epoch, 0, err))
    return false;
  if (!chunk_containing(c->cs, c->arena, coll.uuid, x->min, &chunk) || chunk_bound_compare(chunk.min, x->min) != 0 ||
      chunk_bound_compare(chunk.max, x->max) != 0) {
    return error_set(err, 51262, "Unable to locate chunk %s of %s", range_text(c->arena, x->min, x->max), x->ns);
  }
  if (!chunk.jumbo) return true;
  chunk.has_jumbo = chunk.jumbo = false;
  return put_with_next_major(c, &coll, &chunk, err); // routers must learn of it
}

bool config_clear_jumbo_flag(struct request *r, bson_t *reply, struct error *err) {
  struct raise x = {0};
  if (!request_namespace(r, &x.ns, err) || !request_copy_doc(r, "minKey", &x.min, err) ||
      !request_copy_doc(r, "maxKey", &x.max, err)) {
    return false;
  }
  if (!doc_oid(r->body, "epoch", &x.epoch)) return error_set(err, ERR_BadValue, "epoch must be an ObjectId");
  return commit_run(r->op, config_of(r), chunk_namespaces, 2, commit_clear_jumbo, &x, err);
}
