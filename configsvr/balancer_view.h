// What the balancer sees of the cluster: read over the wire, once a round. Internal to the balancer's files.
#ifndef SHARDLET_CONFIGSVR_BALANCER_VIEW_H
#define SHARDLET_CONFIGSVR_BALANCER_VIEW_H

#include "common/base/map.h"
#include "common/sharding/catalog_client.h"
#include "configsvr/balancer_policy.h"
#include "configsvr/balancer_thread.h"
#include "configsvr/settings.h"

struct balancer_term {
  size_t refs;
  struct balancer_thread *thread;
  int64_t number;
  struct replica_set *config; // the config set, this node included
  struct shard_registry *shards;
  struct map *routings;  // ns -> struct routing: kept, so that a round reads only what changed
  int64_t last_merge_ms; // when the auto-merger last ran (or the term began)
  int64_t last_batch_ms; // when migrations were last started
  bool selecting;        // a round runs and has not begun to move: it may be interrupted
};

struct balancer_view {
  struct balancer_settings settings;
  int64_t throttling_ms, interval_ms, merge_interval_ms; // the node's parameters
  bool classic;
  struct policy_shard *shards; // in random order, so that ties fall anywhere
  struct replica_set **sets;   // the same order
  size_t n_shards;
};

struct collection_view {
  struct collection_type type;
  int64_t *sizes;          // by shard, in the view's order
  struct routing *routing; // a reference; NULL until view_open()
  struct tag_type *tags;
  struct policy_zone *zones;
  size_t n_zones;
};

bool view_read_settings(struct operation *op, struct balancer_term *term, struct balancer_view *v, struct error *err);
bool view_read_shards(struct operation *op, struct balancer_term *term, struct balancer_view *v, struct error *err);
// The collections that may be balanced, in random order; ns: only this one, whatever its flags (NULL = all).
bool view_read_collections(struct operation *op, struct balancer_term *term, const char *ns,
                           struct collection_view **out, size_t *n, struct error *err);
// Asks every shard for the sizes of these collections.
bool view_read_sizes(struct operation *op, const struct balancer_view *v, struct collection_view *list, size_t n,
                     struct error *err);
// Loads the chunks and zones. view_close() gives the reference back.
bool view_open(struct operation *op, struct balancer_term *term, struct collection_view *c, struct error *err);
void view_close(struct collection_view *c);
void view_forget(struct balancer_term *term, const char *ns); // its chunks changed without a new version
struct policy_input view_input(struct balancer_view *v, const struct collection_view *c);
int64_t view_chunk_bytes(const struct balancer_view *v, const struct collection_view *c);
// Commands to a shard, and to the config set.
bool view_shard_call(struct operation *op, struct balancer_term *term, const char *shard, const char *db,
                     const bson_t *body, int64_t timeout_ms, const bson_t **reply, struct error *err);
bool view_config_call(struct operation *op, struct balancer_term *term, const char *db, const bson_t *body,
                      const bson_t **reply, struct error *err);

enum { VIEW_CALL_TIMEOUT_MS = 30000 };

#endif
