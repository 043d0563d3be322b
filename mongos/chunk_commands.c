// The table of the commands about chunks, and clearJumboFlag.
#include "mongos/chunk_commands.h"

#include <string.h>

#include "common/bson/doc.h"
#include "mongos/chunk_lookup.h"
#include "mongos/ddl.h"
#include "mongos/forward.h"
#include "mongos/routing_cache.h"

enum { ERR_JUMBO_NO_KEY = 51260, ERR_JUMBO_NO_CHUNK = 51261 };

static bool run_clear_jumbo_flag(struct request *r, bson_t *reply, struct error *err) {
  struct chunk_choice choice;
  struct chosen_chunk c;
  struct placement p;
  struct arena *a = r->op->arena;
  const char *ns, *db, *coll;
  if (!namespace_argument(r, &ns, &db, &coll, err)) return false;
  if (!sharded_placement(r->op, router_of(r), ns, &p, err)) return false;
  chunk_choice_read(r->body, &choice);
  if (!chunk_choice_check(&choice, "find", err)) return false;
  enum chunk_lookup found = chunk_of_choice(a, &p, &choice, &c);
  if (found != LOOKUP_FOUND) {
    return error_set(err, found == LOOKUP_NO_KEY ? ERR_JUMBO_NO_KEY : ERR_JUMBO_NO_CHUNK, "%s",
                     lookup_text(a, &p, found, &choice));
  }
  bson_t *body = arena_bson(a);
  bson_append_utf8(body, "_configsvrClearJumboFlag", -1, ns, -1);
  bson_append_oid(body, "epoch", -1, &p.routing->collection.epoch);
  bson_append_document(body, "minKey", -1, c.min);
  bson_append_document(body, "maxKey", -1, c.max);
  append_majority_concern(body, r);
  bson_t *ignored = arena_bson(a);
  bool ok = config_forward(r, "admin", body, ignored, err);
  if (!ok) name_unsupported(r, err);
  routing_cache_invalidate(router_of(r)->cache, ns, NULL, NULL);
  return ok;
}

static bool run_merge_all(struct request *r, bson_t *reply, struct error *err) {
  static const char *const own[] = {"writeConcern", NULL};
  const char *ns, *db, *coll, *shard;
  if (!namespace_argument(r, &ns, &db, &coll, err) || !request_required_str(r, "shard", &shard, err)) return false;
  bson_t *body = forward_renamed(r, "_configsvrCommitMergeAllChunksOnShard", NULL, own);
  append_majority_concern(body, r);
  bson_t *ignored = arena_bson(r->op->arena);
  bool ok = config_forward(r, "admin", body, ignored, err);
  if (!ok) name_unsupported(r, err);
  routing_cache_invalidate(router_of(r)->cache, ns, NULL, NULL);
  return ok;
}

const struct command router_chunk_commands[] = {
    {"split", NULL, CMD_WRITE | CMD_ADMIN_ONLY, run_split, "cuts a chunk in two"},
    {"mergeChunks", NULL, CMD_WRITE | CMD_ADMIN_ONLY, run_merge_chunks, "joins neighbouring chunks of a shard"},
    {"mergeAllChunksOnShard", NULL, CMD_WRITE | CMD_ADMIN_ONLY, run_merge_all, "joins what can be joined on a shard"},
    {"moveChunk", "movechunk", CMD_WRITE | CMD_ADMIN_ONLY, run_move_chunk, "moves a chunk to another shard"},
    {"moveRange", NULL, CMD_WRITE | CMD_ADMIN_ONLY, run_move_range, "moves a range of the shard key to another shard"},
    {"clearJumboFlag", NULL, CMD_WRITE | CMD_ADMIN_ONLY, run_clear_jumbo_flag, "lets a chunk be moved again"},
    {NULL, NULL, 0, NULL, NULL},
};
