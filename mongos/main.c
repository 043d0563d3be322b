// mongos: the router of a cluster.
//
// It listens once its config servers have a primary: an open port means that it can work.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/bson/doc.h"
#include "mongos/parameters.h"
#include "mongos/router_cursor.h"
#include "mongos/routing_cache.h"
#include "mongos/rw_defaults.h"

enum { DEFAULT_PORT = 27017, DEFAULT_CONNECTIONS = 65536, STOP_GRACE_MS = 3000, STOP_POLL_MS = 5 };

static const struct option own_options[] = {
    {.name = "configdb",
     .type = OPTION_STRING,
     .yaml = "sharding.configDB",
     .argument = "SET/HOSTS",
     .help = "config servers: cfg/host:port,host:port (required)"},
    {.name = "addShards",
     .type = OPTION_STRING,
     .argument = "LIST",
     .help = "shards to add: \"sh1/host:port;sh2/host:port\""},
    {.name = NULL},
};

static const struct command *const command_tables[] = {
    router_read_commands,     router_write_commands,
    router_database_commands, router_collection_commands,
    router_index_commands,    router_stats_commands,
    router_chunk_commands,    router_balancer_commands,
    router_zone_commands,     router_shard_commands,
    router_cache_commands,    router_diagnostic_commands,
    router_session_commands,  NULL,
};

// --- gossip and the end of every reply ---

static void gossip_incoming(void *ctx, const bson_t *reply) {
  cluster_clock_read(&((struct router *)ctx)->clock, reply);
}

static void gossip_outgoing(void *ctx, bson_t *body) {
  cluster_clock_append(&((struct router *)ctx)->clock, body);
}

// The statements of insert, update and delete are counted when they are parsed (write_command.c).
static void count_operation(struct router *rt, const char *command) {
  if (!strcmp(command, "insert") || !strcmp(command, "update") || !strcmp(command, "delete")) return;
  rt->ops[!strcmp(command, "find") ? OPS_QUERY : !strcmp(command, "getMore") ? OPS_GETMORE : OPS_COMMAND]++;
}

static bool admit(void *daemon, struct request *r, struct error *err) {
  struct router *rt = daemon;
  cluster_clock_read(&rt->clock, r->body);
  count_operation(rt, r->command->name);
  if (!rt->stopping || (r->command->flags & CMD_ANY_STATE)) return true;
  return error_set(err, ERR_ShutdownInProgress, "The server is in quiesce mode and will shut down");
}

// Whether a driver may send the same write again: under its txnNumber every shard executes it once.
static bool retry_helps(const struct request *r, const bson_t *reply, const struct error *err) {
  bson_t concern;
  if (!r->has_txn_number || r->autocommit_given || doc_has(reply, "errorLabels")) return false;
  if (err != NULL) return error_is_retriable(err->code);
  return doc_doc(reply, "writeConcernError", &concern) && error_is_retriable((int32_t)doc_i64(&concern, "code", 0));
}

static void finish(void *daemon, struct request *r, bson_t *reply, const struct error *err) {
  struct router *rt = daemon;
  if (retry_helps(r, reply, err)) {
    bson_t labels;
    bson_append_array_begin(reply, "errorLabels", -1, &labels);
    bson_append_utf8(&labels, "0", 1, "RetryableWriteError", -1);
    bson_append_array_end(reply, &labels);
  }
  if (rt->clock.time == 0) return; // nothing heard of the cluster yet
  cluster_clock_append(&rt->clock, reply);
  doc_append_ts(reply, "operationTime", r->operation_time != 0 ? r->operation_time : rt->clock.time);
}

static void handle(void *ctx, struct operation *op, struct connection *c, const struct message *m, bson_t *reply) {
  dispatch(((struct router *)ctx)->dispatcher, op, c, m, reply);
}

// --- start and stop ---

// "a;b" as a list that ends with NULL.
static const char *const *split_list(struct arena *a, const char *text, const char *separator) {
  char *copy = arena_strdup(a, text), *rest = NULL;
  size_t n = 0;
  const char **list = arena_zalloc(a, (strlen(text) / 2 + 2) * sizeof *list);
  for (char *item = strtok_r(copy, separator, &rest); item != NULL; item = strtok_r(NULL, separator, &rest)) {
    list[n++] = item;
  }
  return list;
}

static bool listen_to_clients(struct router *rt, const struct options *o, struct error *err) {
  const char *bind = options_has(o, "bind_ip_all") ? "0.0.0.0" : options_string(o, "bind_ip", "127.0.0.1");
  const char *const *addresses = split_list(rt->arena, bind, ",");
  struct server_options s = {.bind_ips = addresses,
                             .port = (int)options_int(o, "port", DEFAULT_PORT),
                             .max_connections = (size_t)options_int(o, "maxConns", DEFAULT_CONNECTIONS),
                             .what = "mongos"};
  while (addresses[s.n_bind_ips] != NULL) s.n_bind_ips++;
  rt->server = server_listen(rt->loop, &s, handle, rt, err);
  return rt->server != NULL;
}

static bool wait_for_config_servers(struct operation *op, struct router *rt, struct error *err) {
  const char *host;
  log_info("SHARDING", "Waiting for the config servers to have a primary", "configdb:s", rt->config_string);
  while (!replica_set_select(op, rt->config, READ_PRIMARY, NULL, &host, err)) {
    if (err->code != ERR_FailedToSatisfyReadPreference && !error_is_network(err->code)) return false;
    log_warn("SHARDING", "The config servers have no primary yet, waiting for one", "configdb:s error:e",
             rt->config_string, err);
  }
  log_info("SHARDING", "The config servers have a primary", "host:s", host);
  return true;
}

static char *own_name(const struct options *o) {
  char host[256] = "localhost";
  gethostname(host, sizeof host - 1);
  return bson_strdup_printf("%s:%ld", host, options_int(o, "port", DEFAULT_PORT));
}

static bool is_other(void *ctx, const struct operation *op) {
  return op != ctx;
}

// Ends what still runs besides `op`, and waits for it: nothing may use what is freed next.
static void end_operations(struct operation *op, struct router *rt) {
  struct error ignored;
  for (int64_t waited = 0; waited < STOP_GRACE_MS && loop_fibers(rt->loop) > 1; waited += STOP_POLL_MS) {
    operations_kill(rt->loop, ERR_InterruptedAtShutdown, is_other, op);
    if (!op_sleep(op, STOP_POLL_MS, &ignored)) return;
  }
}

// Undoes what was set up, as far as it was.
static void tear_down(struct operation *op, struct router *rt) {
  rt->stopping = true;
  if (rt->server != NULL) {
    server_stop_accepting(rt->server);
    server_close(op, rt->server, ERR_InterruptedAtShutdown, STOP_GRACE_MS);
  }
  end_operations(op, rt);
  if (rt->remotes != NULL) remotes_close(rt->remotes);
  shard_registry_free(rt->shards);
  if (rt->config != NULL) replica_set_unwatch(rt->config);
  end_operations(op, rt); // the monitors' fibers
  router_cursors_free(rt->cursors);
  routing_cache_free(rt->cache);
  rw_defaults_free(rt);
  dispatcher_free(rt->dispatcher);
  bson_free(rt->host_port);
  arena_free(rt->arena);
}

static bool set_up(struct operation *op, struct router *rt, const struct options *o, struct error *err) {
  rt->config_string = options_string(o, "configdb", NULL);
  if (rt->config_string == NULL) {
    return error_set(err, ERR_BadValue, "mongos needs its config servers: --configdb SET/HOST:PORT");
  }
  parameters_init(rt);
  if (!parameters_from_options(rt, o, err)) return false;
  rt->remotes = remotes_new(rt->loop, "mongos");
  remotes_set_gossip(rt->remotes, gossip_incoming, gossip_outgoing, rt);
  rt->config = replica_set_watch(rt->loop, rt->remotes, rt->config_string, err);
  if (rt->config == NULL) return false;
  rt->shards = shard_registry_new(rt->loop, rt->remotes, rt->config);
  rt->cache = routing_cache_new(rt->loop, rt->config);
  if (!wait_for_config_servers(op, rt, err)) return false;
  if (!add_shards(op, rt, split_list(rt->arena, options_string(o, "addShards", ""), ";"), err)) return false;
  rt->cursors = router_cursors_new(rt);
  struct dispatch_hooks hooks = {.daemon = rt, .admit = admit, .finish = finish};
  rt->dispatcher = dispatcher_new(command_tables, &hooks);
  if (!listen_to_clients(rt, o, err)) return false;
  uptime_start(rt);
  return true;
}

static bool start(struct operation *op, struct loop *l, const struct options *o, void **state, struct error *err) {
  struct arena *a = arena_new();
  struct router *rt = arena_zalloc(a, sizeof *rt);
  rt->arena = a;
  rt->loop = l;
  rt->started_ms = clock_wall_ms();
  rt->host_port = own_name(o);
  topology_init(&rt->topology);
  *state = rt;
  if (set_up(op, rt, o, err)) return true;
  tear_down(op, rt);
  return false;
}

static void stop(struct operation *op, void *state) {
  tear_down(op, state);
}

int main(int argc, char **argv) {
  const struct daemon d = {.program = "mongos",
                           .summary = "the router of a sharded cluster",
                           .own_options = own_options,
                           .start = start,
                           .stop = stop};
  return daemon_main(&d, argc, argv);
}
