// balancerStart, balancerStop, balancerStatus, balancerCollectionStatus.
#include <math.h>
#include <string.h>

#include "common/bson/doc.h"
#include "configsvr/balancer.h"
#include "configsvr/catalog_read.h"
#include "configsvr/chunk_commands.h"
#include "configsvr/commands.h"
#include "configsvr/commit.h"

static const char *const settings_namespaces[] = {"config.settings"};

// {_id: id} with fields set; new fields come in lexicographic order, as an upsert with $set would lay them out.
static bool put_setting(struct commit *c, const char *id, const bson_t *set, struct error *err) {
  const bson_t *doc;
  if (!catalog_read_doc(c->cs, c->arena, "config.settings", id, &doc)) {
    bson_t *fresh = arena_bson(c->arena);
    bson_append_utf8(fresh, "_id", -1, id, -1);
    doc = fresh;
  }
  return commit_put(c, "config.settings", doc_with(c->arena, doc, set, NULL), err);
}

static bool commit_switch(struct commit *c, void *args, struct error *err) {
  bool on = *(bool *)args;
  bson_t *balancer = arena_bson(c->arena), *automerge = arena_bson(c->arena);
  bson_append_utf8(balancer, "mode", -1, on ? "full" : "off", -1);
  bson_append_bool(balancer, "stopped", -1, !on);
  bson_append_bool(automerge, "enabled", -1, on);
  bson_t none = BSON_INITIALIZER;
  return put_setting(c, "balancer", balancer, err) && put_setting(c, "automerge", automerge, err) &&
         commit_log(c, on ? "balancer.start" : "balancer.stop", "", &none, err);
}

bool config_balancer_start(struct request *r, bson_t *reply, struct error *err) {
  bool on = true;
  struct config_server *cs = config_of(r);
  if (!commit_run(r->op, cs, settings_namespaces, 1, commit_switch, &on, err)) return false;
  balancer_wake(cs->balancer);
  return true;
}

bool config_balancer_stop(struct request *r, bson_t *reply, struct error *err) {
  bool on = false;
  struct config_server *cs = config_of(r);
  if (!commit_run(r->op, cs, settings_namespaces, 1, commit_switch, &on, err)) return false;
  balancer_wake(cs->balancer); // a round that waits for its turn to move looks at the settings again
  return balancer_wait_for_round(r->op, cs->balancer, err);
}

bool config_balancer_status(struct request *r, bson_t *reply, struct error *err) {
  struct config_server *cs = config_of(r);
  struct balancer_settings s;
  if (!repl_barrier(r->op, cs->node.repl, err)) return false;
  struct error unusable; // then the balancer does not work
  bool full = catalog_read_settings(cs, r->op->arena, &s, &unusable) && s.enabled;
  struct balancer_state state = balancer_state(cs->balancer);
  bson_append_utf8(reply, "mode", -1, full ? "full" : "off", -1);
  bson_append_bool(reply, "inBalancerRound", -1, state.in_round);
  bson_append_int64(reply, "numBalancerRounds", -1, state.rounds);
  bson_append_int64(reply, "term", -1, state.term ? state.term : repl_term(cs->node.repl));
  return true;
}

bool config_balancer_collection_status(struct request *r, bson_t *reply, struct error *err) {
  const char *ns;
  struct collection_balance b = {0};
  if (!request_namespace(r, &ns, err) || !balancer_ask(r->op, config_of(r)->balancer, ns, &b, err)) return false;
  double mb = (double)b.chunk_bytes / (1024 * 1024);
  bson_append_double(reply, "chunkSize", -1, ceil(mb * 100) / 100);
  bson_append_bool(reply, "balancerCompliant", -1, b.compliant);
  if (!b.compliant) bson_append_utf8(reply, "firstComplianceViolation", -1, b.violation, -1);
  return true;
}
