// replSet*: the administration of this member's replica set.
#include "common/node/commands.h"

#include <string.h>

#include "common/bson/doc.h"
#include "common/node/initiation.h"
#include "common/node/internal.h"

enum { CATCH_UP_S = 10 }; // of a step-down that does not say

static bool initiate_run(struct request *r, bson_t *reply, struct error *err) {
  bson_iter_t it = r->first;
  const bson_t *config = iter_child(r->op->arena, &it); // replSetInitiate: 1 or {}: this member alone
  return repl_initiate(r->op, request_node(r)->repl, config, err);
}

static bool needs_config(struct request *r, struct error *err) {
  if (repl_config(request_node(r)->repl)) return true;
  return error_set(err, ERR_NotYetInitialized, "no replset config has been received");
}

static bool status_run(struct request *r, bson_t *reply, struct error *err) {
  if (!needs_config(r, err)) return false;
  repl_status(request_node(r)->repl, reply);
  return true;
}

static bool get_config_run(struct request *r, bson_t *reply, struct error *err) {
  if (!needs_config(r, err)) return false;
  BSON_APPEND_DOCUMENT(reply, "config", repl_config(request_node(r)->repl));
  return true;
}

static bool reconfig_run(struct request *r, bson_t *reply, struct error *err) {
  bson_iter_t it = r->first;
  if (!BSON_ITER_HOLDS_DOCUMENT(&it)) {
    return error_set(err, ERR_TypeMismatch, "replSetReconfig takes the new configuration, an object");
  }
  bool force = doc_bool(r->body, "force", false);
  return needs_config(r, err) && repl_reconfig(r->op, request_node(r)->repl, iter_child(r->op->arena, &it), force, err);
}

static bool step_down_run(struct request *r, bson_t *reply, struct error *err) {
  bson_iter_t it = r->first;
  int64_t seconds = iter_is_number(&it) ? iter_i64(&it) : 60;
  if (seconds < 0) return error_set(err, ERR_BadValue, "stepdown period must be a positive integer");
  bool force = doc_bool(r->body, "force", false), given = doc_get(r->body, "secondaryCatchUpPeriodSecs", &it);
  int64_t catch_up = given && iter_is_number(&it) ? iter_i64(&it) : CATCH_UP_S;
  if (catch_up < 0)
    return error_set(err, ERR_BadValue, "secondaryCatchUpPeriodSecs period must be a positive or absent");
  if (catch_up > seconds && (given || !force))
    return error_set(err, ERR_BadValue, "stepdown period must be longer than secondaryCatchUpPeriodSecs");
  return repl_step_down(r->op, request_node(r)->repl, seconds, catch_up, force, err);
}

static bool freeze_run(struct request *r, bson_t *reply, struct error *err) {
  bson_iter_t it = r->first;
  int64_t seconds = iter_is_number(&it) ? iter_i64(&it) : 0;
  if (seconds < 0) return error_set(err, ERR_BadValue, "seconds must not be negative");
  return needs_config(r, err) && repl_freeze(request_node(r)->repl, seconds, err);
}

static bool sync_from_run(struct request *r, bson_t *reply, struct error *err) {
  return error_set(err, ERR_CommandNotSupported, "replSetSyncFrom is not supported: members follow the primary");
}

static bool refused_run(struct request *r, bson_t *reply, struct error *err) {
  return error_set(err, ERR_CommandNotSupported, "%s is not supported by shardlet", r->name);
}

// --- between the members of a set ---

// Makes the log reach a time that another set gave out, when it has not yet; without one it adds an entry.
static bool oplog_note_run(struct request *r, bson_t *reply, struct error *err) {
  struct node *n = request_node(r);
  bson_t data;
  uint64_t ts = 0;
  if (!request_required_doc(r, "data", &data, err)) return false;
  if (!doc_timestamp(r->body, "maxClusterTime", &ts)) ts = cluster_clock_tick(&n->clock);
  cluster_clock_advance(&n->clock, ts);
  if (ts > n->clock.time) return error_set(err, ERR_InvalidOptions, "maxClusterTime is too far in the future");
  return repl_reach_time(r->op, n->repl, ts, err);
}

static bool is_self_run(struct request *r, bson_t *reply, struct error *err) {
  repl_identity(request_node(r)->repl, reply);
  initiation_describe(request_node(r)->own->initiation, reply);
  return true;
}

static bool bootstrap_run(struct request *r, bson_t *reply, struct error *err) {
  return repl_bootstrap(r->op, request_node(r)->repl, r->body, err);
}

static bool stream_run(struct request *r, bson_t *reply, struct error *err) {
  if (!r->conn)
    return error_set(err, ERR_IllegalOperation,
                     "_raftStream takes a connection over: it cannot be run in another command");
  return repl_accept(request_node(r)->repl, r->conn, r->body, err);
}

const struct command node_repl_commands[] = {
    {"replSetInitiate", NULL, CMD_ADMIN_ONLY | CMD_ANY_STATE, initiate_run, "initiates this member's replica set"},
    {"replSetGetStatus", NULL, CMD_ADMIN_ONLY | CMD_ANY_STATE, status_run,
     "the state of the set as this member sees it"},
    {"replSetGetConfig", NULL, CMD_ADMIN_ONLY | CMD_ANY_STATE, get_config_run, "the set's configuration"},
    {"replSetReconfig", NULL, CMD_ADMIN_ONLY | CMD_ANY_STATE, reconfig_run, "changes the set's configuration"},
    {"replSetStepDown", NULL, CMD_ADMIN_ONLY | CMD_ANY_STATE, step_down_run,
     "makes the primary a secondary for a time"},
    {"replSetFreeze", NULL, CMD_ADMIN_ONLY | CMD_ANY_STATE, freeze_run,
     "keeps this member from being elected for a time"},
    {"replSetSyncFrom", NULL, CMD_ADMIN_ONLY | CMD_ANY_STATE, sync_from_run, "refused"},
    {"replSetMaintenance", NULL, CMD_ADMIN_ONLY | CMD_ANY_STATE, refused_run, "refused"},
    {"replSetStepUp", NULL, CMD_ADMIN_ONLY | CMD_ANY_STATE, refused_run, "refused"},
    {"replSetAbortPrimaryCatchUp", NULL, CMD_ADMIN_ONLY | CMD_ANY_STATE, refused_run, "refused"},
    {"replSetResizeOplog", NULL, CMD_ADMIN_ONLY | CMD_ANY_STATE, refused_run, "refused"},
    {"replSetGetRBID", NULL, CMD_ADMIN_ONLY | CMD_ANY_STATE, refused_run, "refused: nothing is ever rolled back"},
    {"appendOplogNote", NULL, CMD_ADMIN_ONLY | CMD_WRITE, oplog_note_run, "makes the log reach a cluster time"},
    {"_isSelf", NULL, CMD_ADMIN_ONLY | CMD_ANY_STATE | CMD_INTERNAL, is_self_run, "which member answers here"},
    {"_raftBootstrap", NULL, CMD_ADMIN_ONLY | CMD_ANY_STATE | CMD_INTERNAL, bootstrap_run,
     "joins this member to a set"},
    {"_raftStream", NULL, CMD_ADMIN_ONLY | CMD_ANY_STATE | CMD_INTERNAL, stream_run, "carries consensus messages"},
    {0},
};
