// split and mergeChunks: checked here against fresh metadata, done by the shard that owns the chunk.
//
// What these commands find wrong with their arguments they say without a code (reference/commands.md 1 and 4).
#include <string.h>

#include "common/bson/doc.h"
#include "mongos/chunk_commands.h"
#include "mongos/chunk_lookup.h"
#include "mongos/ddl.h"
#include "mongos/forward.h"
#include "mongos/routing_cache.h"
#include "proto/reply.h"

struct split_job {
  struct request *r;
  const char *ns;
  struct chunk_choice choice;
  bool has_middle;
  bson_t middle;
  bson_t *reply;
};

// The first complaint about the arguments alone; NULL = none.
static const char *wrong_arguments(const struct split_job *j) {
  const struct chunk_choice *c = &j->choice;
  if (c->has_bounds && bson_empty(&c->min)) return "lower bound not specified";
  if (c->has_bounds && bson_empty(&c->max)) return "upper bound not specified";
  if (c->has_bounds && c->has_find) return "cannot specify bounds and find at the same time";
  if (!c->has_bounds && !c->has_find && !j->has_middle) return "need to specify find/bounds or middle";
  if (c->has_find && j->has_middle) return "cannot specify find and middle together";
  if (c->has_bounds && j->has_middle) return "cannot specify bounds and middle together";
  return NULL;
}

// The chunk, or a complaint.
static const char *choose(const struct split_job *j, struct arena *a, const struct placement *p,
                          struct chosen_chunk *out) {
  if (!j->has_middle) {
    enum chunk_lookup found = chunk_of_choice(a, p, &j->choice, out);
    return found == LOOKUP_FOUND ? NULL : lookup_text(a, p, found, &j->choice);
  }
  const struct shard_key *k = placement_key(p);
  const char *text = doc_text(a, &j->middle);
  if (!shard_key_is_bound(k, &j->middle)) {
    return arena_printf(a, "new split key %s is not valid for shard key pattern %s", text, doc_text(a, k->pattern));
  }
  chunk_of_key(a, p, &j->middle, out);
  if (key_compare(bound_key(a, &j->middle), bound_key(a, out->min)) != 0) return NULL;
  return arena_printf(a, "new split key %s is a boundary key of existing chunk [%s,%s)", text, doc_text(a, out->min),
                      doc_text(a, out->max));
}

static bool call_owner(const struct split_job *j, struct operation *op, const struct placement *p, const char *shard,
                       bson_t *body, const bson_t **reply, struct error *err) {
  struct shard_call call = {.target = target_shard(p, shard), .body = body, .db = "admin"};
  shard_call_run(j->r, op, &call, CALL_DDL);
  if (!call.ok) *err = call.err;
  *reply = call.reply;
  return call.ok;
}

// The key in the middle by count, for find and bounds.
static bool median(const struct split_job *j, struct operation *op, const struct placement *p,
                   const struct chosen_chunk *c, bson_t *key, struct error *err) {
  bson_t *body = arena_bson(op->arena), keys;
  const bson_t *reply;
  bson_append_utf8(body, "splitVector", -1, j->ns, -1);
  bson_append_document(body, "keyPattern", -1, placement_key(p)->pattern);
  bson_append_document(body, "min", -1, c->min);
  bson_append_document(body, "max", -1, c->max);
  bson_append_bool(body, "force", -1, true);
  if (!call_owner(j, op, p, c->chunk.shard, body, &reply, err)) return false;
  if (doc_doc(reply, "splitKeys", &keys) && doc_doc(&keys, "0", key)) return true;
  return error_set(err, ERR_CannotSplit, "Unable to find median in chunk because chunk is indivisible.");
}

static bool split_chunk(const struct split_job *j, struct operation *op, const struct placement *p,
                        const struct chosen_chunk *c, const bson_t *key, struct error *err) {
  const struct collection_type *coll = &p->routing->collection;
  bson_t *body = arena_bson(op->arena), keys;
  const bson_t *reply;
  bson_append_utf8(body, "splitChunk", -1, j->ns, -1);
  bson_append_utf8(body, "from", -1, c->chunk.shard, -1);
  bson_append_document(body, "keyPattern", -1, coll->key);
  bson_append_oid(body, "epoch", -1, &coll->epoch);
  doc_append_ts(body, "timestamp", coll->timestamp);
  bson_append_document(body, "min", -1, c->min);
  bson_append_document(body, "max", -1, c->max);
  bson_append_array_begin(body, "splitKeys", -1, &keys);
  bson_append_document(&keys, "0", 1, key);
  bson_append_array_end(body, &keys);
  return call_owner(j, op, p, c->chunk.shard, body, &reply, err);
}

static bool split_attempt(struct operation *op, struct router *rt, const struct placement *p, void *ctx,
                          struct error *err) {
  struct split_job *j = ctx;
  struct chosen_chunk c;
  const char *complaint = wrong_arguments(j);
  if (complaint == NULL) complaint = choose(j, op->arena, p, &c);
  if (complaint != NULL) return reply_errmsg_only(j->reply, complaint);
  bson_t at;
  if (!j->has_middle && !median(j, op, p, &c, &at, err)) return false;
  if (!split_chunk(j, op, p, &c, j->has_middle ? &j->middle : &at, err)) return false;
  routing_cache_invalidate(rt->cache, j->ns, NULL, NULL);
  return true;
}

bool run_split(struct request *r, bson_t *reply, struct error *err) {
  struct split_job j = {.r = r, .reply = reply};
  const char *db, *coll;
  if (!namespace_argument(r, &j.ns, &db, &coll, err)) return false;
  chunk_choice_read(r->body, &j.choice);
  j.has_middle = doc_doc(r->body, "middle", &j.middle) && !bson_empty(&j.middle);
  return chunk_operation(r, j.ns, split_attempt, &j, err);
}

// --- mergeChunks ---

struct merge_job {
  struct request *r;
  const char *ns;
  struct chunk_choice choice;
  bson_t *reply;
};

static const char *wrong_bounds(const struct merge_job *j, struct arena *a, const struct placement *p) {
  const struct chunk_choice *c = &j->choice;
  const struct shard_key *k = placement_key(p);
  if (!c->has_bounds || c->n_bounds == 0) return "no bounds were specified";
  if (c->n_bounds != 2) return "only a min and max bound may be specified";
  if (bson_empty(&c->min)) return "no min key specified";
  if (bson_empty(&c->max)) return "no max key specified";
  if (shard_key_is_bound(k, &c->min) && shard_key_is_bound(k, &c->max)) return NULL;
  return lookup_text(a, p, LOOKUP_BAD_BOUNDS, c);
}

static bool merge_attempt(struct operation *op, struct router *rt, const struct placement *p, void *ctx,
                          struct error *err) {
  struct merge_job *j = ctx;
  const char *complaint = wrong_bounds(j, op->arena, p);
  if (complaint != NULL) return reply_errmsg_only(j->reply, complaint);
  struct chosen_chunk c;
  chunk_of_key(op->arena, p, &j->choice.min, &c);
  const struct collection_type *coll = &p->routing->collection;
  struct shard_call call = {.target = target_shard(p, c.chunk.shard), .body = arena_bson(op->arena), .db = "admin"};
  bson_t bounds;
  bson_append_utf8(call.body, "mergeChunks", -1, j->ns, -1);
  bson_append_array_begin(call.body, "bounds", -1, &bounds);
  bson_append_document(&bounds, "0", 1, &j->choice.min);
  bson_append_document(&bounds, "1", 1, &j->choice.max);
  bson_append_array_end(call.body, &bounds);
  bson_append_utf8(call.body, "config", -1, replica_set_string(rt->config), -1);
  bson_append_utf8(call.body, "shardName", -1, c.chunk.shard, -1);
  bson_append_oid(call.body, "epoch", -1, &coll->epoch);
  doc_append_ts(call.body, "timestamp", coll->timestamp);
  shard_call_run(j->r, op, &call, CALL_DDL);
  if (!call.ok) {
    *err = call.err;
    return false;
  }
  routing_cache_invalidate(rt->cache, j->ns, NULL, NULL);
  return true;
}

bool run_merge_chunks(struct request *r, bson_t *reply, struct error *err) {
  struct merge_job j = {.r = r, .reply = reply};
  const char *db, *coll;
  if (!namespace_argument(r, &j.ns, &db, &coll, err)) return false;
  chunk_choice_read(r->body, &j.choice);
  return chunk_operation(r, j.ns, merge_attempt, &j, err);
}
