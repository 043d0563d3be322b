// _shardsvrGetStatsForBalancing: how much data this shard has of each collection, without orphans.
//
// size = floor(data size / records) * (records - orphans): what the balancer compares (reference/sharding.md 4.2, trap
// 1).
#include "common/bson/doc.h"
#include "shardd/bson_array.h"
#include "shardd/range_deleter.h"

static int64_t owned_size(const struct shard *sh, const uint8_t uuid[16]) {
  const struct collection *c = store_collection_by_uuid(sh->node.store, uuid);
  if (!c) return 0;
  struct collection_stats stats;
  collection_stats(c, &stats);
  int64_t orphans = range_deleter_orphans(sh->deleter, uuid);
  return stats.count > orphans ? stats.bytes / stats.count * (stats.count - orphans) : 0;
}

static bool get_stats(struct request *r, bson_t *reply, struct error *err) {
  const struct shard *sh = shard_of(r);
  int64_t scale = doc_i64(r->body, "scaleFactor", 1);
  bson_t collections, stats;
  bson_iter_t it;
  if (!doc_doc(r->body, "collections", &collections))
    return error_set(err, ERR_NoSuchKey, "Missing required field 'collections'");
  if (scale < 1) return error_set(err, ERR_BadValue, "scaleFactor must be positive");
  BSON_APPEND_ARRAY_BEGIN(reply, "stats", &stats);
  struct bson_array out = {.bson = &stats};
  bson_iter_init(&it, &collections);
  while (bson_iter_next(&it)) {
    bson_t one;
    uint8_t uuid[16];
    iter_doc(&one, &it);
    bson_t *row = arena_bson(r->op->arena);
    BSON_APPEND_UTF8(row, "namespace", doc_str(&one, "ns", ""));
    BSON_APPEND_INT64(row, "collSize", doc_uuid(&one, "UUID", uuid) ? owned_size(sh, uuid) / scale : 0);
    bson_array_add(&out, row);
  }
  bson_append_array_end(reply, &stats);
  return true;
}

const struct command shardd_balancing_commands[] = {
    {"_shardsvrGetStatsForBalancing", NULL, CMD_READ | CMD_ADMIN_ONLY | CMD_INTERNAL, get_stats,
     "Data sizes of collections here, without orphans."},
    {0},
};
