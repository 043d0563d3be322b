// A router: what one mongos process is made of, and the command tables of its families.
//
// A router keeps no data and no state that another router would miss: a cache of the catalog, open cursors, counters.
// Everything belongs to the loop's thread.
#ifndef SHARDLET_MONGOS_ROUTER_H
#define SHARDLET_MONGOS_ROUTER_H

#include "common/net/cluster_time.h"
#include "common/net/command.h"
#include "common/net/daemon.h"
#include "common/net/remote.h"
#include "common/net/replica_set.h"
#include "common/net/server.h"
#include "common/net/topology.h"
#include "common/sharding/catalog_client.h"

struct routing_cache;
struct router_cursors;

// The families of shardingStatistics.numHostsTargeted, and how many of a collection's shards a command went to.
enum targeted_family { TARGETED_FIND, TARGETED_INSERT, TARGETED_UPDATE, TARGETED_DELETE, TARGETED_AGGREGATE };
enum targeted_width { TARGETED_ALL, TARGETED_MANY, TARGETED_ONE, TARGETED_UNSHARDED };
enum { TARGETED_FAMILIES = 5, TARGETED_WIDTHS = 4 };

// serverStatus.opcounters: statements of writes, commands otherwise.
enum opcounter { OPS_INSERT, OPS_QUERY, OPS_UPDATE, OPS_DELETE, OPS_GETMORE, OPS_COMMAND };
enum { OPCOUNTERS = 6 };

struct router {
  struct loop *loop;
  struct remotes *remotes;
  struct replica_set *config; // the config servers
  struct shard_registry *shards;
  struct routing_cache *cache;
  struct router_cursors *cursors;
  struct dispatcher *dispatcher;
  struct server *server;
  struct cluster_clock clock;
  struct topology topology; // of hello; never bumped
  struct {
    bson_t *write, *read;    // as a command may carry them; NULL = none
  } defaults;                // rw_defaults.c
  const char *config_string; // --configdb as given
  char *host_port;           // this router's name in config.mongos
  int64_t started_ms;        // wall clock
  int64_t cursor_timeout_ms; // parameter cursorTimeoutMillis
  struct arena *arena;       // lives as long as the router
  bool stopping;
  int64_t ops[OPCOUNTERS];
  int64_t targeted[TARGETED_FAMILIES][TARGETED_WIDTHS];
};

// The router behind a request.
static inline struct router *router_of(const struct request *r) {
  return r->daemon;
}

// Starts the fiber that keeps this router's row in config.mongos.
void uptime_start(struct router *rt);
// Makes sure that these replica sets (a list that ends with NULL) are shards; waits for those that are not ready.
bool add_shards(struct operation *op, struct router *rt, const char *const *connection_strings, struct error *err);

// One table a family; each ends with name == NULL.
extern const struct command router_read_commands[];       // find getMore killCursors count distinct aggregate explain
extern const struct command router_write_commands[];      // insert update delete findAndModify bulkWrite
extern const struct command router_database_commands[];   // enableSharding dropDatabase listDatabases movePrimary ...
extern const struct command router_collection_commands[]; // shardCollection create drop renameCollection collMod ...
extern const struct command router_index_commands[];      // createIndexes dropIndexes listIndexes
extern const struct command router_stats_commands[];      // collStats dbStats dataSize serverStatus ...
extern const struct command router_chunk_commands[];      // split mergeChunks clearJumboFlag moveChunk moveRange ...
extern const struct command router_balancer_commands[];   // balancerStart ...
extern const struct command router_zone_commands[];       // addShardToZone ...
extern const struct command router_shard_commands[];      // addShard removeShard listShards getShardMap
extern const struct command router_cache_commands[];      // getShardVersion flushRouterConfig
extern const struct command router_diagnostic_commands[]; // hello ping buildInfo ...
extern const struct command router_session_commands[];    // endSessions killSessions, transactions (refused) ...

#endif
