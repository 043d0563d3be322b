// Calls to shards and to the config servers, one or many at once, and what their failures mean to a client.
#include "mongos/shard_call.h"

#include <string.h>

#include "common/bson/doc.h"
#include "mongos/forward.h"
#include "mongos/rw_defaults.h"
#include "proto/reply.h"

static const char *shard_name(const char *shard) {
  return shard != NULL ? shard : "config";
}

void call_error_for_client(struct error *err, const char *shard) {
  bool going_away =
      error_is_not_primary(err->code) || err->code == ERR_ShutdownInProgress || err->code == ERR_InterruptedAtShutdown;
  if (!error_is_network(err->code) && !going_away) return;
  struct error cause = *err;
  error_set(err, ERR_HostUnreachable, "%s is not reachable :: caused by :: %s", shard_name(shard), cause.message);
}

bool call_error_is_absence(const struct error *err) {
  return error_is_network(err->code) || err->code == ERR_FailedToSatisfyReadPreference;
}

bool refuse_move(struct error *err) {
  if (err->code != ERR_WouldChangeOwningShard) return false;
  error_set(err, ERR_CommandNotSupported,
            "the update changes the shard key so that the document would belong to another shard; shardlet has no "
            "distributed transactions for that: delete the document and insert it again");
  return true;
}

static struct replica_set *set_of(struct operation *op, struct router *rt, const char *shard, struct error *err) {
  if (shard == NULL) return rt->config;
  struct replica_set *set = shard_registry_get(op, rt->shards, shard, err);
  // The routing table names a shard that was removed: older than that, hence to be read again.
  if (set == NULL && err->code == ERR_ShardNotFound) {
    error_set(err, ERR_StaleEpoch, "shard %s is not part of the cluster any more", shard);
  }
  return set;
}

static bool is_read(enum call_kind kind) {
  return kind == CALL_READ || kind == CALL_PARTIAL_READ;
}

static enum read_mode mode_of(const struct request *r, enum call_kind kind) {
  return is_read(kind) ? r->read_mode : READ_PRIMARY;
}

// When there is no primary, other preferences can say what they looked for; a plain read or write is told as a network
// error, which drivers repeat.
static void no_member(const struct request *r, enum call_kind kind, const char *shard, struct error *err) {
  if (err->code != ERR_FailedToSatisfyReadPreference || mode_of(r, kind) != READ_PRIMARY) return;
  struct error cause = *err;
  error_set(err, ERR_HostUnreachable, "%s has no primary :: caused by :: %s", shard_name(shard), cause.message);
}

static bool call_set(struct request *r, struct operation *op, struct replica_set *set, struct shard_call *call,
                     enum call_kind kind, bool idempotent, const struct remote_command *cmd, struct error *err) {
  const bson_t *preference = is_read(kind) && r->has_read_preference ? &r->read_preference : NULL;
  return replica_set_call(op, set, mode_of(r, kind), preference, idempotent, cmd, &call->reply, &call->host, err);
}

// Waits for a member only while some member of the set answers: an election, not a shard that is down.
static bool call_if_answers(struct request *r, struct operation *op, struct replica_set *set, struct shard_call *call,
                            const struct remote_command *cmd, struct error *err) {
  for (bool again = false; replica_set_answers(set); again = true) {
    if (call_set(r, op, set, call, CALL_PARTIAL_READ, again, cmd, err)) return true;
    if (again || !(error_is_network(err->code) || error_is_not_primary(err->code)) || op->killed) return false;
  }
  return error_set(err, ERR_HostUnreachable, "no member of %s answers", replica_set_name(set));
}

void shard_call_run(struct request *r, struct operation *op, struct shard_call *call, enum call_kind kind) {
  struct router *rt = router_of(r);
  struct arena *keep = r->op->arena;
  call->ok = false;
  call->reply = NULL;
  struct error err = {0};
  struct replica_set *set = set_of(op, rt, call->target.shard, &err);
  if (set == NULL) {
    error_copy(&call->err, &err, keep);
    return;
  }
  target_append_versions(&call->target, call->body);
  rw_defaults_append(r, kind, call->body);
  struct remote_command cmd = {.db = call->db != NULL ? call->db : r->db,
                               .body = call->body,
                               .sequences = call->sequences,
                               .n_sequences = call->n_sequences};
  call->ok = kind == CALL_PARTIAL_READ
                 ? call_if_answers(r, op, set, call, &cmd, &err)
                 : call_set(r, op, set, call, kind, kind != CALL_WRITE || r->has_txn_number, &cmd, &err);
  if (!call->ok) {
    no_member(r, kind, call->target.shard, &err);
    call_error_for_client(&err, call->target.shard);
    refuse_move(&err);
    error_copy(&call->err, &err, keep);
  }
  if (call->reply != NULL) note_operation_time(r, call->reply);
  if (op->arena == keep) return;
  // A parallel branch's memory ends with it.
  if (call->reply != NULL) call->reply = doc_copy(keep, call->reply);
  if (call->host != NULL) call->host = arena_strdup(keep, call->host);
}

struct parallel_calls {
  struct request *r;
  struct shard_call *calls;
  enum call_kind kind;
};

static void run_branch(struct operation *op, size_t i, void *ctx) {
  struct parallel_calls *p = ctx;
  shard_call_run(p->r, op, &p->calls[i], p->kind);
}

void shard_calls_run(struct request *r, struct operation *op, struct shard_call *calls, size_t n, enum call_kind kind) {
  if (n == 1) {
    shard_call_run(r, op, calls, kind);
    return;
  }
  struct parallel_calls p = {.r = r, .calls = calls, .kind = kind};
  op_parallel(op, n, run_branch, &p);
}

struct shard_call *shard_calls_new(struct arena *a, const struct target *targets, size_t n, const bson_t *body) {
  struct shard_call *calls = arena_zalloc(a, (n > 0 ? n : 1) * sizeof *calls);
  for (size_t i = 0; i < n; i++) {
    calls[i].target = targets[i];
    calls[i].body = arena_bson(a);
    bson_concat(calls[i].body, body);
  }
  return calls;
}

bool shard_calls_ok(struct router *rt, const struct placement *p, const struct shard_call *calls, size_t n,
                    struct error *err) {
  const struct shard_call *report = NULL;
  for (size_t i = 0; i < n; i++) {
    if (calls[i].ok) continue;
    bool stale = stale_is(&calls[i].err);
    if (report == NULL || (stale && !stale_is(&report->err))) {
      report = &calls[i];
    } else if (stale) {
      stale_learn(rt, p, &calls[i].err);
    }
  }
  if (report == NULL) return true;
  *err = report->err;
  return false;
}

bool config_call(struct operation *op, struct router *rt, const char *db, const bson_t *body, bool idempotent,
                 const bson_t **reply, struct error *err) {
  if (replica_set_call_primary(op, rt->config, db, body, 0, idempotent, reply, err)) return true;
  if (err->code == ERR_FailedToSatisfyReadPreference) {
    struct error cause = *err;
    error_set(err, ERR_HostUnreachable, "the config servers have no primary :: caused by :: %s", cause.message);
  }
  call_error_for_client(err, NULL);
  return false;
}

bool config_forward(struct request *r, const char *db, const bson_t *body, bson_t *out, struct error *err) {
  const bson_t *reply;
  if (!config_call(r->op, router_of(r), db, body, true, &reply, err)) return false;
  note_operation_time(r, reply);
  forward_reply(out, reply);
  return true;
}
