// moveChunk and moveRange: checked here, done by the config servers, which order the donor to move.
#include <string.h>

#include "common/base/clock.h"
#include "common/bson/doc.h"
#include "mongos/chunk_commands.h"
#include "mongos/chunk_lookup.h"
#include "mongos/ddl.h"
#include "mongos/forward.h"
#include "mongos/routing_cache.h"

// moveChunk's errors of its own.
enum { ERR_NO_KEY = 656450, ERR_BAD_BOUNDS = 656451, ERR_NO_CHUNK = 656452 };
// forceJumbo between daemons.
enum { FORCE_NO = 0, FORCE_USER = 1 };

static bool sharded(struct request *r, const char *ns, struct placement *p, struct error *err) {
  if (sharded_placement(r->op, router_of(r), ns, p, err)) return true;
  if (err->code != ERR_NamespaceNotSharded) return false;
  return error_set(err, ERR_NamespaceNotSharded, "Can't execute %s on unsharded collection %s", r->name, ns);
}

static bool wait_for_delete(const bson_t *body) {
  return doc_bool(body, "waitForDelete", false) || doc_bool(body, "_waitForDelete", false);
}

// Sends _configsvrMoveRange; min or max NULL = the donor finds that bound by the chunk size.
static bool move(struct request *r, const char *ns, const char *to, const bson_t *min, const bson_t *max, bson_t *reply,
                 struct error *err) {
  struct router *rt = router_of(r);
  bson_t *body = arena_bson(r->op->arena), concern;
  bson_iter_t throttle;
  bson_append_utf8(body, "_configsvrMoveRange", -1, ns, -1);
  bson_append_utf8(body, "toShard", -1, to, -1);
  if (min != NULL) bson_append_document(body, "min", -1, min);
  if (max != NULL) bson_append_document(body, "max", -1, max);
  bson_append_bool(body, "waitForDelete", -1, wait_for_delete(r->body));
  bson_append_int32(body, "forceJumbo", -1, doc_bool(r->body, "forceJumbo", false) ? FORCE_USER : FORCE_NO);
  if (doc_get(r->body, "secondaryThrottle", &throttle) || doc_get(r->body, "_secondaryThrottle", &throttle)) {
    bson_append_bool(body, "secondaryThrottle", -1, bson_iter_as_bool(&throttle));
  }
  if (doc_doc(r->body, "writeConcern", &concern)) {
    bson_append_document(body, "writeConcern", -1, &concern);
  } else {
    append_majority_concern(body, r);
  }
  bool ok = config_forward(r, "admin", body, reply, err);
  if (!ok) name_unsupported(r, err);
  routing_cache_invalidate(rt->cache, ns, NULL, NULL);
  if (!ok && stale_is(err)) return stale_give_up(err, r->name, ns);
  return ok;
}

static bool shard_exists(struct request *r, const char *shard, struct error *err) {
  if (shard_registry_get(r->op, router_of(r)->shards, shard, err) != NULL) return true;
  if (err->code != ERR_ShardNotFound) return false;
  struct error cause = *err;
  return error_set(err, ERR_ShardNotFound,
                   "Could not move chunk :: caused by :: destination shard %s does not exist :: "
                   "caused by :: %s",
                   shard, cause.message);
}

bool run_move_chunk(struct request *r, bson_t *reply, struct error *err) {
  struct chunk_choice choice;
  struct chosen_chunk c;
  struct placement p;
  const char *ns, *db, *coll, *to;
  int64_t started = clock_mono_ms();
  if (!namespace_argument(r, &ns, &db, &coll, err) || !request_required_str(r, "to", &to, err)) return false;
  if (!sharded(r, ns, &p, err)) return false;
  chunk_choice_read(r->body, &choice);
  if (!chunk_choice_check(&choice, "query", err)) return false;
  if (!shard_exists(r, to, err)) return false;
  struct arena *a = r->op->arena;
  enum chunk_lookup found = chunk_of_choice(a, &p, &choice, &c);
  if (found != LOOKUP_FOUND) {
    int32_t code = found == LOOKUP_NO_KEY ? ERR_NO_KEY : found == LOOKUP_BAD_BOUNDS ? ERR_BAD_BOUNDS : ERR_NO_CHUNK;
    return error_set(err, code, "%s", lookup_text(a, &p, found, &choice));
  }
  bson_t *ignored = arena_bson(a);
  if (!move(r, ns, to, c.min, c.max, ignored, err)) return false;
  bson_append_int32(reply, "millis", -1, (int32_t)(clock_mono_ms() - started));
  return true;
}

bool run_move_range(struct request *r, bson_t *reply, struct error *err) {
  struct placement p;
  const char *ns, *db, *coll, *to;
  bson_t min, max;
  if (!namespace_argument(r, &ns, &db, &coll, err) || !request_required_str(r, "toShard", &to, err)) return false;
  bool has_min = doc_doc(r->body, "min", &min), has_max = doc_doc(r->body, "max", &max);
  if (!has_min && !has_max) {
    return error_set(err, ERR_InvalidOptions, "Missing required parameter 'min' or 'max'");
  }
  if (!sharded(r, ns, &p, err)) return false;
  if (shard_registry_get(r->op, router_of(r)->shards, to, err) == NULL) {
    return error_prefix(err, "Could not find destination shard");
  }
  bson_t *ignored = arena_bson(r->op->arena);
  return move(r, ns, to, has_min ? &min : NULL, has_max ? &max : NULL, ignored, err);
}
