// _configsvrMoveRange: a user's moveRange or moveChunk. The owner of the range is asked to donate it; works whatever
// the balancer does.
//
// Should the donor's answer be an error although the range is where it was to go (its reply was lost, or a repeated
// request found it done), the command succeeds.
#include <string.h>

#include "common/base/log.h"
#include "common/bson/doc.h"
#include "configsvr/chunk_commands.h"
#include "configsvr/commands.h"
#include "configsvr/move_request.h"
#include "configsvr/shard_sets.h"

struct move {
  const char *ns, *to;
  const bson_t *min, *max;
  struct collection_type coll;
  struct chunk_type chunk;
  struct balancer_settings settings;
};

// The chunk that the range lies in: the one with min in it, or else the one that ends at max, or has it within.
static bool find_chunk(struct config_server *cs, struct arena *a, struct move *m, struct error *err) {
  struct chunk_type *before;
  if (m->min) {
    if (chunk_containing(cs, a, m->coll.uuid, m->min, &m->chunk)) return true;
  } else if (chunks_before(cs, a, m->coll.uuid, m->max, 1, &before) == 1) {
    m->chunk = before[0];
    return true;
  }
  return error_set(err, ERR_InvalidOptions, "no chunk of %s contains %s", m->ns, doc_text(a, m->min ? m->min : m->max));
}

static bool check_bound(struct arena *a, const struct collection_type *coll, const bson_t *bound, struct error *err) {
  struct shard_key key;
  if (!shard_key_parse(a, coll->key, &key, err)) return false;
  return !bound || shard_key_is_bound(&key, bound) ||
         error_set(err, ERR_InvalidOptions, "bound %s is not valid for shard key pattern %s", doc_text(a, bound),
                   doc_text(a, coll->key));
}

static bool prepare(struct request *r, struct move *m, struct error *err) {
  struct config_server *cs = config_of(r);
  struct arena *a = r->op->arena;
  struct shard_type shard;
  bool found;
  if (!repl_barrier(r->op, cs->node.repl, err)) return false;
  if (!catalog_read_collection(cs, a, m->ns, &m->coll, &found, err)) return false;
  if (!found || m->coll.unsplittable) {
    return error_set(err, ERR_NamespaceNotSharded, "Can't execute moveRange on unsharded collection %s", m->ns);
  }
  if (!catalog_need_shard(cs, a, m->to, &shard, err)) return error_prefix(err, "Could not find destination shard");
  return check_bound(a, &m->coll, m->min, err) && check_bound(a, &m->coll, m->max, err) && find_chunk(cs, a, m, err) &&
         catalog_read_settings(cs, a, &m->settings, err);
}

// Whether the range is on the target already, as of now.
static bool is_there(struct operation *op, struct config_server *cs, const struct move *m) {
  struct chunk_type now;
  struct error err = {0};
  if (!repl_barrier(op, cs->node.repl, &err)) return false;
  const bson_t *at = m->min ? m->min : m->chunk.min;
  return chunk_containing(cs, op->arena, m->coll.uuid, at, &now) && strcmp(now.shard, m->to) == 0 &&
         (!m->max || chunk_bound_compare(now.max, m->max) >= 0);
}

static bool ask_donor(struct request *r, const struct move *m, struct error *err) {
  struct config_server *cs = config_of(r);
  bool throttle_given = doc_has(r->body, "secondaryThrottle");
  struct move_request q = {.collection = &m->coll,
                           .from = m->chunk.shard,
                           .to = m->to,
                           .min = m->min,
                           .max = m->max,
                           .chunk_bytes = m->coll.max_chunk_size_bytes > 0 ? m->coll.max_chunk_size_bytes
                                                                           : m->settings.chunk_bytes,
                           .force_jumbo = (int)doc_i64(r->body, "forceJumbo", 0),
                           .wait_for_delete = doc_bool(r->body, "waitForDelete", false),
                           .has_secondary_throttle = throttle_given,
                           .secondary_throttle = doc_bool(r->body, "secondaryThrottle", false)};
  const bson_t *reply;
  // Idempotent: a donor that is asked twice joins the migration that runs, or finds the range gone to the target.
  if (shard_call(r->op, cs, m->chunk.shard, "admin", move_request_command(r->op->arena, &q), true, &reply, err))
    return true;
  log_warn("SHARDING", "Error processing moveRange on the source shard", "namespace:s fromShard:s toShard:s error:e",
           m->ns, m->chunk.shard, m->to, err);
  // The range is there but its old copy was not cleaned up, as waitForDelete asked: that is to be told.
  if (err->code != ERR_OrphanedRangeCleanUpFailed && is_there(r->op, cs, m)) return true;
  return error_prefix(err, "Command request failed on source shard.");
}

bool config_move_range(struct request *r, bson_t *reply, struct error *err) {
  struct move m = {0};
  if (!request_namespace(r, &m.ns, err) || !request_required_str(r, "toShard", &m.to, err)) return false;
  bool has_min = doc_has(r->body, "min"), has_max = doc_has(r->body, "max");
  if (!has_min && !has_max) return error_set(err, ERR_InvalidOptions, "Missing required parameter 'min' or 'max'");
  if (has_min && !request_copy_doc(r, "min", &m.min, err)) return false;
  if (has_max && !request_copy_doc(r, "max", &m.max, err)) return false;
  if (!prepare(r, &m, err)) return false;
  if (strcmp(m.chunk.shard, m.to) == 0) return true; // it is there
  return ask_donor(r, &m, err);
}
