// What configsvr and shardd share: a replica-set member that serves documents. CRUD, cursors, sessions, diagnostics,
// replSet*.
#ifndef SHARDLET_NODE_NODE_H
#define SHARDLET_NODE_NODE_H

#include "common/base/map.h"
#include "common/net/command.h"
#include "common/net/remote.h"
#include "common/repl/repl.h"
#include "common/repl/write.h"
#include "common/store/scan.h"

// What a command may see and do in a collection: the outcome of the version check. Held from the check to the command's
// (or cursor's) end. On a configsvr, or without a shardVersion, nothing is filtered.
struct access {
  const char *ns;              // set by the node, which keeps it alive
  bool versioned;              // the request carried a shardVersion that was checked
  bool filtered;               // rows that this shard does not own must be left out
  struct chunk_map *owner_map; // for the filter, referenced; NULL = none
  const char *shard;           // this shard's name in owner_map
  uint64_t token;              // the checker's own: which metadata this was checked against
  int32_t ended; // set by the checker: the command or cursor ends with this code (QueryPlanKilled) at its next step
  struct access *next, *prev; // the checker's list of users of that metadata
};

struct node_hooks { // of shardd; a configsvr has none (all NULL)
  void *ctx;
  // Checks the request's versions for `ns`, waits for a critical section or a refresh where that is the rule (so it may
  // yield). write: also that the node may write there. err StaleConfig, StaleDbVersion.
  bool (*enter)(struct operation *op, void *ctx, const struct request *r, const char *ns, bool write,
                struct access *out, struct error *err);
  // In the uninterrupted step that acts: is what enter() said still so? (Same metadata, no critical section.) false:
  // StaleConfig.
  bool (*still)(void *ctx, const struct access *a, bool write, struct error *err);
  void (*leave)(void *ctx, struct access *a);
  // An insert, update or upsert is about to create this database or collection implicitly.
  bool (*may_create)(struct operation *op, void *ctx, const struct request *r, const char *ns, struct error *err);
  void (*server_status)(void *ctx, bson_t *reply); // sharding, shardingStatistics
  void (*collection_stats)(void *ctx, const struct collection *c, bson_t *storage_stats); // numOrphanDocs
  void (*stale_config_seen)(void *ctx); // called by the node for each StaleConfig that goes out in a reply
  // A client's insert, update or upsert is about to store `doc` in a config.* collection: false refuses it
  // (DocumentValidationFailure). NULL = anything goes. Does not yield.
  bool (*validate)(void *ctx, const char *ns, const bson_t *doc, struct error *err);
};

struct cursors;      // cursors.h
struct parameters;   // parameters.c
struct node_private; // internal.h

struct node {
  struct loop *loop;
  const char *program; // "shardd", "configsvr"
  struct store *store;
  struct repl *repl;
  struct remotes *remotes;
  struct cluster_clock clock;
  struct server *server;
  struct dispatcher *dispatcher;
  struct cursors *cursors;
  struct parameters *parameters; // made by the first parameter_add_*(), which may come before node_start()
  struct node_private *own;
  struct node_hooks hooks;
  void *daemon; // struct shard *, struct config_server *
  int64_t started_ms;
  const char *host_port; // as others reach it
};

struct node_options {
  const char *program;
  const struct options *options;       // from the command line
  const struct command *const *tables; // the daemon's own, besides the node's
  struct node_hooks hooks;
  struct repl_hooks repl_hooks;
  void *daemon;
};

// The options of shardd and configsvr besides daemon_options(): dbpath, replSet, shardsvr/configsvr (accepted),
// initiate...
const struct option *node_option_table(size_t *n);

// Opens the directory, replays, listens; ready to serve when it returns. node_stop undoes all of it, orderly. *n is all
// zero before, but for parameters that the daemon has added.
bool node_start(struct operation *op, struct node *n, struct loop *l, const struct node_options *o, struct error *err);
void node_stop(struct operation *op, struct node *n);

// The commands every node has: crud, ddl (create, drop, createIndexes, ...), diagnostics, replSet*. A daemon's own
// table comes first in the search, so that it can replace one.
extern const struct command node_crud_commands[];  // insert find getMore killCursors update delete findAndModify count
                                                   // distinct aggregate explain
extern const struct command node_ddl_commands[];   // create drop dropDatabase createIndexes dropIndexes listIndexes
                                                   // listCollections listDatabases collMod renameCollection
extern const struct command node_stats_commands[]; // collStats dbStats dataSize validate serverStatus
extern const struct command
    node_diagnostic_commands[]; // hello isMaster ping buildInfo hostInfo getParameter setParameter getLog
                                // connectionStatus whatsmyuri listCommands currentOp killOp shutdown
extern const struct command node_sync_commands[]; // _initialSync*
extern const struct command node_repl_commands[]; // replSetInitiate replSetGetStatus replSetGetConfig replSetReconfig
                                                  // replSetStepDown replSetFreeze

#endif
