// Starts and stops a replica-set member that serves documents.
//
// Start: the data directory, the log (which replays), the command table, the port; after that the member serves. A
// timer fiber commits and checkpoints the store every 100 ms and ends idle cursors. Stop undoes it in the opposite
// order; on the way every running command ends with InterruptedAtShutdown.
#include "common/node/node.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/node/commands.h"
#include "common/node/cursors.h"
#include "common/node/initiation.h"
#include "common/node/internal.h"
#include "common/node/node_options.h"

enum {
  TICK_MS = 100,
  CURSOR_SWEEP_TICKS = 100, // every ten seconds
  DEFAULTS_TICKS = 10,
  SHUTDOWN_GRACE_MS = 5000, // for replies on their way out
};

static const struct command *const node_tables[] = {node_crud_commands,       node_ddl_commands,  node_stats_commands,
                                                    node_diagnostic_commands, node_repl_commands, node_sync_commands};

// --- background fibers ---

struct background {
  struct node *node;
  void (*fn)(struct operation *op, void *arg);
  void *arg;
};

static const char background_prefix[] = "node: ";

static void run_background(struct operation *op, void *arg) {
  struct background b = *(struct background *)arg;
  free(arg);
  b.fn(op, b.arg);
  b.node->own->fibers--;
  event_signal(&b.node->own->fiber_ended);
}

void node_background(struct node *n, const char *what, void (*fn)(struct operation *op, void *arg), void *arg) {
  struct background *b = malloc(sizeof *b);
  *b = (struct background){.node = n, .fn = fn, .arg = arg};
  n->own->fibers++;
  operation_start(n->loop, arena_printf(n->own->arena, "%s%s", background_prefix, what), run_background, b);
}

static bool is_background(void *ctx, const struct operation *op) {
  return op->what && !strncmp(op->what, background_prefix, sizeof background_prefix - 1);
}

static void end_background(struct operation *op, struct node *n) {
  operations_kill(n->loop, ERR_InterruptedAtShutdown, is_background, NULL);
  while (n->own->fibers && event_wait(op, &n->own->fiber_ended, NULL)) continue;
}

static void tick(struct operation *op, void *arg) {
  struct node *n = arg;
  for (unsigned i = 1; op_sleep(op, TICK_MS, NULL); i++) {
    arena_reset(op->arena);
    store_tick(op, n->store);
    node_topology_check(n);
    if (i % CURSOR_SWEEP_TICKS == 0) cursors_expire(n);
    if (i % DEFAULTS_TICKS == 0) rw_defaults_load(n);
  }
}

// --- hooks of the layers below ---

static void on_request(void *ctx, struct operation *op, struct connection *c, const struct message *m, bson_t *reply) {
  dispatch(ctx, op, c, m, reply);
}

static void on_applied(void *ctx, uint64_t index, const bson_t *entry) {
  struct node *n = ctx;
  const struct repl_hooks *h = &n->own->repl_hooks;
  if (h->applied) h->applied(h->ctx, index, entry);
}

static void on_stepping_up(struct operation *op, void *ctx) {
  struct node *n = ctx;
  store_reset_counters(n->store);
  local_role_changed(n);
  const struct repl_hooks *h = &n->own->repl_hooks;
  if (h->stepping_up) h->stepping_up(op, h->ctx);
}

static void on_role_changed(void *ctx, enum member_state state, int64_t term) {
  struct node *n = ctx;
  local_role_changed(n);
  node_topology_check(n);
  const struct repl_hooks *h = &n->own->repl_hooks;
  if (h->role_changed) h->role_changed(h->ctx, state, term);
  if (state == MEMBER_PRIMARY) index_builds_resume(n);
}

static void on_replaced(void *ctx) {
  struct node *n = ctx;
  local_role_changed(n);
  const struct repl_hooks *h = &n->own->repl_hooks;
  if (h->replaced) h->replaced(h->ctx);
}

static void gossip_in(void *ctx, const bson_t *reply) {
  cluster_clock_read(&((struct node *)ctx)->clock, reply);
}

static void gossip_out(void *ctx, bson_t *body) {
  struct node *n = ctx;
  if (n->clock.time) cluster_clock_append(&n->clock, body);
}

// --- start ---

static bool open_data(struct operation *op, struct node *n, const struct node_options *o, struct error *err) {
  struct store_options store = {
      .dbpath = options_string(o->options, "dbpath", NULL), .role = n->program, .generation = repl_generation};
  if (!store.dbpath) return error_set(err, ERR_BadValue, "--dbpath is missing: the directory for this member's data");
  n->own->dbpath = arena_strdup(n->own->arena, store.dbpath);
  const char *set = options_string(o->options, "replSet", NULL);
  if (!set) return error_set(err, ERR_BadValue, "--replSet is missing: the name of the replica set this member is of");
  n->store = store_open(&store, err);
  if (!n->store) return false;
  n->remotes = remotes_new(n->loop, n->program);
  remotes_set_gossip(n->remotes, gossip_in, gossip_out, n);
  struct repl_options repl = {.set_name = set,
                              .dbpath = store.dbpath,
                              .role = n->program,
                              .store = n->store,
                              .remotes = n->remotes,
                              .clock = &n->clock,
                              .self = n->host_port};
  struct repl_hooks hooks = {.ctx = n,
                             .applied = on_applied,
                             .stepping_up = on_stepping_up,
                             .role_changed = on_role_changed,
                             .replaced = on_replaced};
  n->repl = repl_start(op, n->loop, &repl, &hooks, err);
  return n->repl != NULL;
}

static struct dispatcher *make_dispatcher(struct node *n, const struct node_options *o) {
  size_t own = 0, shared = sizeof node_tables / sizeof *node_tables;
  while (o->tables && o->tables[own]) own++;
  const struct command **tables = arena_zalloc(n->own->arena, (own + shared + 1) * sizeof *tables);
  for (size_t i = 0; i < own; i++) tables[i] = o->tables[i];
  for (size_t i = 0; i < shared; i++) tables[own + i] = node_tables[i];
  struct dispatch_hooks hooks = {.daemon = n, .admit = node_admit, .finish = node_finish};
  return dispatcher_new(tables, &hooks);
}

static bool set_parameters(struct node *n, const struct options *options, struct error *err) {
  size_t count;
  const char *const *list = options_list(options, "setParameter", &count);
  for (size_t i = 0; i < count; i++) {
    if (!parameters_set_text(n, list[i], err)) return false;
  }
  return true;
}

static void make_private(struct node *n, const struct node_options *o) {
  struct arena *a = arena_new();
  n->own = arena_zalloc(a, sizeof *n->own);
  n->own->arena = a;
  n->own->repl_hooks = o->repl_hooks;
  n->own->creating = map_new();
  n->own->reserved = map_new();
  n->own->usage = map_new();
  n->own->builds = map_new();
  n->own->started_wall_ms = clock_wall_ms();
  topology_init(&n->own->topology);
  n->started_ms = clock_mono_ms();
  n->cursors = cursors_new();
}

bool node_start(struct operation *op, struct node *n, struct loop *l, const struct node_options *o, struct error *err) {
  n->loop = l;
  n->program = o->program;
  n->hooks = o->hooks;
  n->daemon = o->daemon;
  make_private(n, o);
  n->host_port = node_host_port(n->own->arena, n->program, o->options);
  if (!set_parameters(n, o->options, err) || !open_data(op, n, o, err)) return false;
  n->dispatcher = make_dispatcher(n, o);
  struct server_options listen = {.port = node_port(n->program, o->options), .what = n->program};
  listen.bind_ips = node_bind_ips(n->own->arena, o->options, &listen.n_bind_ips);
  listen.max_connections = (size_t)options_int(o->options, "maxConns", 20000);
  n->server = server_listen(l, &listen, on_request, n->dispatcher, err);
  if (!n->server) return false;
  node_background(n, "timer", tick, n);
  size_t members;
  const char *const *hosts = node_initiate_hosts(n->own->arena, o->options, &members);
  if (members) n->own->initiation = initiation_start(n, hosts, members);
  log_info("CONTROL", "Ready to serve", "program:s address:s replSet:s", n->program, n->host_port,
           repl_set_name(n->repl));
  return true;
}

void node_stop(struct operation *op, struct node *n) {
  if (!n->own) return;
  n->own->stopping = true;
  if (n->server) server_stop_accepting(n->server);
  if (n->server) server_close(op, n->server, ERR_InterruptedAtShutdown, SHUTDOWN_GRACE_MS);
  end_background(op, n);
  cursors_free(n);
  if (n->repl) repl_stop(op, n->repl);
  if (n->remotes) remotes_close(n->remotes);
  store_close(n->store);
  dispatcher_free(n->dispatcher);
  parameters_free(n->parameters);
  local_free(n);
  usage_free(n);
  map_free(n->own->builds, NULL);
  bson_destroy(n->own->hello);
  bson_destroy(n->own->defaults.write);
  arena_free(n->own->arena);
  n->own = NULL;
}
