// The config server's process: a node with the catalog's commands, and the balancer's thread beside it.
#include <string.h>

#include "common/base/log.h"
#include "common/bson/doc.h"
#include "common/net/daemon.h"
#include "common/store/change.h"
#include "configsvr/balancer.h"
#include "configsvr/config_server.h"
#include "configsvr/settings.h"
#include "configsvr/setup.h"
#include "configsvr/shard_sets.h"

enum { STOP_TURN_MS = 5, STOP_TURNS = 1000 };

static const struct command *const tables[] = {config_commands, NULL};

// --- hooks ---

static void role_changed(void *ctx, enum member_state state, int64_t term) {
  struct config_server *cs = ctx;
  if (cs->started) setup_role_changed(cs, state == MEMBER_PRIMARY, term);
}

static bool touches_uuid(void *ctx, const struct change *c) {
  const uint8_t **uuid = ctx;
  if (memcmp(*uuid, c->uuid, 16) != 0) return true;
  *uuid = NULL; // found
  return false;
}

// Whatever changes the settings, command or plain write, wakes the balancer.
static void applied(void *ctx, uint64_t index, const bson_t *entry) {
  struct config_server *cs = ctx;
  if (!cs->started || !repl_is_primary(cs->node.repl)) return;
  const struct collection *settings = store_collection(cs->node.store, "config.settings");
  if (!settings) return;
  const uint8_t *uuid = settings->uuid;
  changes_each(entry, touches_uuid, &uuid);
  if (!uuid) balancer_wake(cs->balancer);
}

static bool validate(void *ctx, const char *ns, const bson_t *doc, struct error *err) {
  return strcmp(ns, "config.settings") != 0 || settings_validate(doc, err);
}

static void server_status(void *ctx, bson_t *reply) {
  struct config_server *cs = ctx;
  struct arena *a = arena_new();
  const char *config = config_connection_string(a, cs);
  bson_t sharding;
  bson_append_document_begin(reply, "sharding", -1, &sharding);
  if (config) bson_append_utf8(&sharding, "configsvrConnectionString", -1, config, -1);
  bson_append_document_end(reply, &sharding);
  arena_free(a);
}

// --- start and stop ---

static void add_parameters(struct config_server *cs) {
  struct node *n = &cs->node;
  cs->history_window_seconds = 300;
  cs->resharding_minimum_ms = 300000;
  cs->balancer_throttling_ms = 1000;
  cs->balancer_interval_ms = 10000;
  cs->auto_merger_interval_seconds = 3600;
  parameter_add_int(n, "minSnapshotHistoryWindowInSeconds", &cs->history_window_seconds, 0, 1000000, true);
  parameter_add_int(n, "reshardingMinimumOperationDurationMillis", &cs->resharding_minimum_ms, 0, INT64_MAX, true);
  parameter_add_int(n, "balancerMigrationsThrottlingMs", &cs->balancer_throttling_ms, 0, 3600000, true);
  parameter_add_int(n, "balancerRoundIntervalMs", &cs->balancer_interval_ms, 10, 3600000, true);
  parameter_add_int(n, "autoMergerIntervalSecs", &cs->auto_merger_interval_seconds, 1, 1000000, true);
  parameter_add_bool(n, "balancerClassicPolicy", &cs->balancer_classic, true);
}

static bool start(struct operation *op, struct loop *l, const struct options *o, void **state, struct error *err) {
  struct config_server *cs = aligned_alloc(128, (sizeof *cs + 127) / 128 * 128); // a node may hold documents
  if (!cs) return error_set(err, ERR_ExceededMemoryLimit, "Out of memory");
  memset(cs, 0, sizeof *cs);
  cs->loop = l;
  add_parameters(cs);
  shard_sets_init(cs);
  struct node_options n = {.program = "configsvr",
                           .options = o,
                           .tables = tables,
                           .hooks = {.ctx = cs, .validate = validate, .server_status = server_status},
                           .repl_hooks = {.ctx = cs, .applied = applied, .role_changed = role_changed},
                           .daemon = cs};
  if (!node_start(op, &cs->node, l, &n, err)) return false; // the process ends
  cs->balancer = balancer_new(l);
  cs->started = true;
  *state = cs;
  if (repl_is_primary(cs->node.repl)) setup_role_changed(cs, true, repl_term(cs->node.repl));
  return true;
}

// Commands and upkeep that use what is about to go away.
static bool is_ours(void *ctx, const struct operation *op) {
  return op->what && (strncmp(op->what, "_configsvr", 10) == 0 || strcmp(op->what, setup_operation) == 0);
}

static bool count_ours(void *ctx, struct operation *op) {
  if (is_ours(NULL, op)) ++*(size_t *)ctx;
  return true;
}

static void end_operations(struct operation *op, struct config_server *cs) {
  struct error err = {0};
  for (int i = 0; i < STOP_TURNS; i++) {
    size_t n = 0;
    operations_kill(cs->loop, ERR_InterruptedAtShutdown, is_ours, NULL);
    operations_each(cs->loop, count_ours, &n);
    if (n == 0 || !op_sleep(op, STOP_TURN_MS, &err)) return;
  }
}

static void stop(struct operation *op, void *state) {
  struct config_server *cs = state;
  cs->started = false;
  setup_role_changed(cs, false, 0);
  if (cs->node.server) server_stop_accepting(cs->node.server);
  end_operations(op, cs);
  struct balancer *b = cs->balancer;
  cs->balancer = NULL; // whoever still asks for it gets an error
  balancer_free(op, b);
  shard_sets_free(cs);
  node_stop(op, &cs->node);
  free(cs);
}

int main(int argc, char **argv) {
  size_t n;
  struct daemon d = {.program = "configsvr",
                     .summary = "keeps a cluster's metadata and balances its shards",
                     .own_options = node_option_table(&n),
                     .start = start,
                     .stop = stop};
  return daemon_main(&d, argc, argv);
}
