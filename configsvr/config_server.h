// The config server: a replica-set member whose database `config` is the cluster's catalog, with the commands that
// change it.
//
// Every change is one log entry, evaluated under exclusive locks on the namespaces it touches (commit.h). Who asks says
// what he believes (epoch, owner, chunk version); what does not hold any more is refused, what is done already is
// answered again.
#ifndef SHARDLET_CONFIGSVR_CONFIG_SERVER_H
#define SHARDLET_CONFIGSVR_CONFIG_SERVER_H

#include "common/node/local.h"
#include "common/node/node.h"

struct balancer;

struct config_server {
  struct node node;
  struct loop *loop;
  struct balancer *balancer;
  struct map *shard_sets; // shard_sets.h
  int64_t ready_term;     // the term in which the catalog was found complete (setup.h); 0 = none yet
  struct event became_ready;
  struct operation *upkeep; // setup, then trimming: runs while primary; NULL otherwise
  int64_t upkeep_term;      // the term that upkeep is for
  bool started;             // node_start() has returned: hooks may use the node

  // Parameters (setParameter)
  int64_t history_window_seconds; // minSnapshotHistoryWindowInSeconds
  int64_t resharding_minimum_ms; // reshardingMinimumOperationDurationMillis: accepted, a blocking copy needs no minimum
  int64_t balancer_throttling_ms;       // balancerMigrationsThrottlingMs
  int64_t auto_merger_interval_seconds; // autoMergerIntervalSecs
  int64_t balancer_interval_ms;         // balancerRoundIntervalMs
  bool balancer_classic;                // balancerClassicPolicy: chunk counts instead of data sizes
};

static inline struct config_server *config_of(const struct request *r) {
  return ((struct node *)r->daemon)->daemon;
}

// "cfg/host:port,...": how others reach this set. NULL: not initiated.
const char *config_connection_string(struct arena *a, const struct config_server *cs);

extern const struct command config_commands[]; // commands.c

#endif
