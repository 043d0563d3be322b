// mergeChunks on a shard (reference/commands.md 4.4).
#include <string.h>

#include "common/base/log.h"
#include "common/bson/doc.h"
#include "proto/reply.h"
#include "shardd/migration_documents.h"
#include "shardd/migrations.h"
#include "shardd/peer.h"
#include "shardd/placement_checks.h"

struct merge_request {
  const char *ns;
  struct chunk_version generation;
  const bson_t *min, *max;
};

// bounds: [min, max]. A text: what is wrong with it, in the older style.
static const char *read_bounds(struct request *r, struct merge_request *m) {
  bson_t bounds, min, max;
  if (!doc_doc(r->body, "bounds", &bounds)) return "no bounds were specified";
  if (bson_count_keys(&bounds) != 2) return "only a min and max bound may be specified";
  if (!doc_doc(&bounds, "0", &min) || bson_empty(&min)) return "no min key specified";
  if (!doc_doc(&bounds, "1", &max) || bson_empty(&max)) return "no max key specified";
  m->min = doc_copy(r->op->arena, &min);
  m->max = doc_copy(r->op->arena, &max);
  if (key_compare(bound_key(r->op->arena, m->min), bound_key(r->op->arena, m->max)) >= 0)
    return "the specified max bound must be greater than the specified min bound";
  return NULL;
}

static bool tell_config(struct operation *op, struct shard *sh, const struct merge_request *m, const uint8_t uuid[16],
                        struct error *err) {
  bson_t *cmd = arena_bson(op->arena), range;
  BSON_APPEND_UTF8(cmd, "_configsvrCommitChunksMerge", m->ns);
  BSON_APPEND_UTF8(cmd, "shard", sh->name);
  doc_append_uuid(cmd, "collUUID", uuid);
  BSON_APPEND_DOCUMENT_BEGIN(cmd, "chunkRange", &range);
  BSON_APPEND_DOCUMENT(&range, "min", m->min);
  BSON_APPEND_DOCUMENT(&range, "max", m->max);
  bson_append_document_end(cmd, &range);
  BSON_APPEND_OID(cmd, "epoch", &m->generation.epoch);
  doc_append_ts(cmd, "timestamp", m->generation.timestamp);
  append_majority(cmd);
  return config_call(op, sh, cmd, NULL, err) || error_prefix(err, "Failed to commit chunk merge");
}

static bool merge_held(struct operation *op, struct shard *sh, const struct merge_request *m, struct error *err) {
  struct routing *r;
  size_t n = 0;
  uint8_t uuid[16];
  if (!metadata_load(op, sh->metadata, m->ns, &r, err)) return false;
  bool ok = placement_check_collection(op->arena, sh, r, &m->generation, err) &&
            placement_check_chunks(op->arena, sh, r, m->min, m->max, &n, err);
  memcpy(uuid, r->collection.uuid, 16);
  routing_unref(r);
  if (!ok || n == 1) return ok; // one chunk with these bounds: nothing to merge
  ok = tell_config(op, sh, m, uuid, err);
  metadata_renew(op, sh->metadata, m->ns, "a merge"); // also after a failure, whose commit may have happened
  return ok;
}

static bool merge_chunks(struct request *r, bson_t *reply, struct error *err) {
  struct shard *sh = shard_of(r);
  struct merge_request m = {.ns = r->coll};
  if (!shard_require_identity(sh, err)) return false;
  if (!m.ns) return error_set(err, ERR_InvalidNamespace, "Invalid namespace specified");
  const char *wrong = read_bounds(r, &m);
  if (wrong) return reply_errmsg_only(reply, wrong);
  if (!placement_read_generation(r->body, "epoch", "timestamp", &m.generation, err)) return false;
  if (!migrations_hold(r->op, sh->migrations, m.ns, false, err)) return false;
  bool ok = merge_held(r->op, sh, &m, err);
  migrations_release(sh->migrations, m.ns);
  return ok;
}

const struct command shardd_merge_commands[] = {
    {"mergeChunks", NULL, CMD_WRITE | CMD_ADMIN_ONLY | CMD_INTERNAL, merge_chunks, "Merges neighbouring chunks."},
    {0},
};
