// createIndexes and dropIndexes go to every shard that has a part of the collection; listIndexes asks one.
#include <string.h>

#include "common/bson/doc.h"
#include "mongos/ddl.h"
#include "mongos/forward.h"
#include "mongos/router_cursor.h"

static bool is_id_index(const bson_t *key) {
  return bson_count_keys(key) == 1 && doc_has(key, "_id");
}

// Uniqueness can be kept over several shards only when equal keys are on the same one.
static bool check_unique(struct broadcast *b, const struct placement *p, struct error *err) {
  bson_t indexes;
  bson_iter_t it;
  if (!placement_sharded(p) || !doc_doc(b->r->body, "indexes", &indexes) || !bson_iter_init(&it, &indexes)) return true;
  const struct shard_key *k = placement_key(p);
  while (bson_iter_next(&it)) {
    bson_t spec, key;
    iter_doc(&spec, &it);
    if (!doc_doc(&spec, "key", &key)) continue; // the shard says what is wrong with it
    bool unique = doc_bool(&spec, "unique", false) || doc_bool(&spec, "prepareUnique", false);
    if (!unique || is_id_index(&key) || shard_key_prefix_of(k, &key)) continue;
    struct arena *a = b->r->op->arena;
    return error_set(err, ERR_CannotCreateIndex,
                     "cannot create index with 'unique' or 'prepareUnique' option over %s with shard key pattern %s",
                     doc_text(a, &key), doc_text(a, k->pattern));
  }
  return true;
}

static bool run_create_indexes(struct request *r, bson_t *reply, struct error *err) {
  bson_t indexes;
  if (!request_needs_collection(r, err) || !request_required_doc(r, "indexes", &indexes, err)) return false;
  struct broadcast b = {
      .r = r, .body = forward_body(r, NULL), .create = true, .flat_if_single = true, .check = check_unique};
  return broadcast_run(&b, r->ns, reply, err);
}

static bool run_drop_indexes(struct request *r, bson_t *reply, struct error *err) {
  if (!request_needs_collection(r, err)) return false;
  struct broadcast b = {.r = r, .body = forward_body(r, NULL), .flat_if_single = true};
  return broadcast_run(&b, r->ns, reply, err);
}

struct list_job {
  struct request *r;
  bson_t *reply;
};

static bool list_attempt(struct operation *op, struct router *rt, const struct placement *p, void *ctx,
                         struct error *err) {
  struct list_job *j = ctx;
  if (p->kind == PLACE_NOWHERE) return error_set(err, ERR_NamespaceNotFound, "ns does not exist: %s", p->ns);
  struct shard_call call = {.body = forward_body(j->r, NULL)};
  if (placement_sharded(p)) {
    const struct shard_key *k = placement_key(p);
    struct chunk first;
    chunk_map_find(p->routing->chunks, bound_key(op->arena, shard_key_global_min(k, op->arena)), &first);
    call.target = target_shard(p, first.shard);
  } else {
    struct target *targets;
    placement_all(op->arena, p, &targets);
    call.target = targets[0];
  }
  shard_call_run(j->r, op, &call, CALL_READ);
  if (!shard_calls_ok(rt, p, &call, 1, err)) return false;
  return cursor_reply_direct(j->r, &call, p->ns, false, j->reply, err);
}

static bool run_list_indexes(struct request *r, bson_t *reply, struct error *err) {
  struct list_job j = {.r = r, .reply = reply};
  if (!request_needs_collection(r, err)) return false;
  return routed_run(r->op, router_of(r), r->ns, "listIndexes", false, list_attempt, &j, err);
}

const struct command router_index_commands[] = {
    {"createIndexes", NULL, CMD_WRITE, run_create_indexes, "makes indexes on every shard concerned"},
    {"dropIndexes", "deleteIndexes", CMD_WRITE, run_drop_indexes, "drops indexes on every shard concerned"},
    {"listIndexes", NULL, CMD_READ, run_list_indexes, "a collection's indexes"},
    {NULL, NULL, 0, NULL, NULL},
};
