// What the commands that define databases, collections and indexes share.
#include "mongos/ddl.h"

#include <string.h>

#include "common/bson/doc.h"
#include "mongos/forward.h"
#include "mongos/routing_cache.h"

void name_unsupported(const struct request *r, struct error *err) {
  if (err->code == ERR_CommandNotFound) {
    error_set(err, ERR_CommandNotSupported, "'%s' is not supported by this cluster's shards or config servers",
              r->name);
  }
}

bool run_not_supported(struct request *r, bson_t *reply, struct error *err) {
  return error_set(err, ERR_CommandNotSupported, "'%s' is not supported by shardlet", r->name);
}

bool split_namespace(struct request *r, const char *ns, const char **db, const char **coll, struct error *err) {
  if (!namespace_valid(ns, err)) return false;
  const char *dot = strchr(ns, '.');
  *db = arena_strndup(r->op->arena, ns, (size_t)(dot - ns));
  *coll = dot + 1;
  return true;
}

bool namespace_argument(struct request *r, const char **ns, const char **db, const char **coll, struct error *err) {
  if (!BSON_ITER_HOLDS_UTF8(&r->first)) {
    return error_set(err, ERR_TypeMismatch, "BSON field '%s.%s' is the wrong type, expected type 'string'", r->name,
                     r->name);
  }
  *ns = bson_iter_utf8(&r->first, NULL);
  return split_namespace(r, *ns, db, coll, err);
}

// --- to the primary shard ---

struct primary_job {
  struct request *r;
  const char *command_db;
  const bson_t *body;
  const bson_t *reply;
};

static bool primary_attempt(struct operation *op, struct router *rt, const struct placement *p, void *ctx,
                            struct error *err) {
  struct primary_job *j = ctx;
  j->reply = NULL;
  if (p->kind == PLACE_NOWHERE) return true;
  if (p->kind == PLACE_CONFIG) {
    return error_set(err, ERR_InvalidOptions, "'%s' is not possible in the database %s, which the config servers keep",
                     j->r->name, p->db);
  }
  struct shard_call call = {
      .target = target_database(p), .body = arena_bson(op->arena), .db = j->command_db != NULL ? j->command_db : p->db};
  bson_concat(call.body, j->body);
  shard_call_run(j->r, op, &call, CALL_DDL);
  if (!call.ok) *err = call.err;
  j->reply = call.reply;
  return call.ok;
}

bool primary_call(struct request *r, const char *db, const char *command_db, bool create, const bson_t *body,
                  const bson_t **reply, struct error *err) {
  struct primary_job j = {.r = r, .command_db = command_db, .body = body};
  bool ok = routed_run_database(r->op, router_of(r), db, r->name, create, primary_attempt, &j, err);
  if (!ok) name_unsupported(r, err);
  *reply = ok ? j.reply : NULL;
  return ok;
}

// --- to every shard that has a part ---

struct broadcast_job {
  struct broadcast *b;
  bson_t *reply;
};

static const char *raw_name(struct operation *op, struct router *rt, const struct shard_call *call) {
  struct error ignored;
  struct replica_set *set = shard_registry_get(op, rt->shards, call->target.shard, &ignored);
  return set != NULL ? replica_set_string(set) : call->target.shard;
}

static void append_raw(struct operation *op, struct router *rt, const struct shard_call *calls, size_t n,
                       bson_t *reply) {
  bson_t raw, one;
  bson_append_document_begin(reply, "raw", -1, &raw);
  for (int failed = 0; failed < 2; failed++) { // successes first
    for (size_t i = 0; i < n; i++) {
      if (calls[i].reply == NULL || calls[i].ok == (failed == 1)) continue;
      bson_append_document_begin(&raw, raw_name(op, rt, &calls[i]), -1, &one);
      forward_reply(&one, calls[i].reply);
      bson_append_double(&one, "ok", -1, calls[i].ok ? 1 : 0);
      bson_append_document_end(&raw, &one);
    }
  }
  bson_append_document_end(reply, &raw);
}

static void append_failure(const struct error *e, bson_t *reply) {
  char name[24];
  bson_append_int32(reply, "code", -1, e->code);
  bson_append_utf8(reply, "codeName", -1, error_code_name(e->code, name), -1);
  if (e->extra != NULL) bson_concat(reply, e->extra);
  bson_append_double(reply, "ok", -1, 0);
  bson_append_utf8(reply, "errmsg", -1, e->message, -1);
}

static bool all_went_out(const struct shard_call *calls, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (calls[i].reply == NULL) return false;
  }
  return true;
}

static bool broadcast_attempt(struct operation *op, struct router *rt, const struct placement *p, void *ctx,
                              struct error *err) {
  struct broadcast_job *j = ctx;
  struct broadcast *b = j->b;
  if (p->kind == PLACE_NOWHERE) return error_set(err, ERR_NamespaceNotFound, "ns not found %s", p->ns);
  if (b->check != NULL && !b->check(b, p, err)) return false;
  struct target *targets;
  size_t n = placement_all(op->arena, p, &targets);
  struct shard_call *calls = shard_calls_new(op->arena, targets, n, b->body);
  shard_calls_run(b->r, op, calls, n, CALL_DDL);
  struct error first;
  bool ok = shard_calls_ok(rt, p, calls, n, &first);
  bool single = !placement_sharded(p) && b->flat_if_single;
  if (!ok && (stale_is(&first) || single || !all_went_out(calls, n))) {
    *err = first;
    return false;
  }
  if (single) forward_reply(j->reply, calls[0].reply);
  if (p->kind != PLACE_CONFIG) append_raw(op, rt, calls, n, j->reply);
  if (!ok) append_failure(&first, j->reply);
  return true;
}

bool broadcast_run(struct broadcast *b, const char *ns, bson_t *reply, struct error *err) {
  struct broadcast_job j = {.b = b, .reply = reply};
  return routed_run(b->r->op, router_of(b->r), ns, b->r->name, b->create, broadcast_attempt, &j, err);
}
