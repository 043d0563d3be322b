// Reading the config server's catalog over the wire: what routers and shards refresh from.
#ifndef SHARDLET_SHARDING_CATALOG_CLIENT_H
#define SHARDLET_SHARDING_CATALOG_CLIENT_H

#include "common/net/replica_set.h"
#include "common/sharding/catalog_types.h"
#include "common/sharding/chunk_map.h"

// What is known of a namespace's placement; immutable, reference counted.
struct routing {
  char *ns;
  struct collection_type collection; // valid when `tracked`; its pointers live as long as the routing
  bool tracked;                      // false: unsharded and untracked, on the database's primary shard
  struct chunk_map *chunks;          // NULL when not tracked
  struct arena *arena;
  size_t refs;
};
// An empty one, untracked until it is filled in; one reference, the caller's.
struct routing *routing_new(const char *ns);
struct routing *routing_ref(struct routing *r);
void routing_unref(struct routing *r);

// Reads config.collections and config.chunks with lastmod >= what `known` has (all of them when it is NULL or of
// another generation), with read concern majority after a barrier; an inconsistent read is retried 3 times.
// *incremental: whether it was.
bool catalog_load_routing(struct operation *op, struct replica_set *config, const char *ns, struct routing *known,
                          struct routing **out, bool *incremental, struct error *err);
// What becomes of `known` by a change that the config server has committed to exactly that version: the collection's
// row and the changed chunks' rows, from the commit's reply. err: they do not fit together.
bool catalog_routing_after(const struct routing *known, const bson_t *row, const bson_t *chunks, struct routing **out,
                           struct error *err);
bool catalog_load_database(struct operation *op, struct replica_set *config, const char *db, struct database_type *out,
                           bool *exists, struct error *err);
bool catalog_load_shards(struct operation *op, struct replica_set *config, struct shard_type **out, size_t *n,
                         struct error *err);
// A find on the config server that returns all documents.
bool catalog_find(struct operation *op, struct replica_set *config, const char *collection, const bson_t *filter,
                  const bson_t *sort, int64_t limit, const bson_t ***docs, size_t *n, struct error *err);

// Writes a row of config.changelog (or, with what "balancer.round" etc., config.actionlog) on the config server, best
// effort: a failure is logged. shard: the logging shard's name or "config".
void catalog_log_change(struct operation *op, struct replica_set *config, const char *server, const char *shard,
                        const char *what, const char *ns, const bson_t *details);
// Several rows (changelog.h) of config.`collection` in one insert.
void catalog_log_rows(struct operation *op, struct replica_set *config, const char *collection,
                      const bson_t *const *rows, size_t n);

// The shards by name, as replica sets to talk to; refreshed when a name is not known.
struct shard_registry;
struct shard_registry *shard_registry_new(struct loop *l, struct remotes *r, struct replica_set *config);
void shard_registry_free(struct shard_registry *g);
struct replica_set *shard_registry_get(struct operation *op, struct shard_registry *g, const char *shard,
                                       struct error *err); // ShardNotFound 70
bool shard_registry_reload(struct operation *op, struct shard_registry *g, struct error *err);
// All shards known after a reload, sorted by name.
bool shard_registry_all(struct operation *op, struct shard_registry *g, bool reload, struct shard_type **out, size_t *n,
                        struct error *err);
// getShardMap's reply {map, hosts, connStrings}: of the same shards, and the config servers as "config".
bool shard_registry_map(struct operation *op, struct shard_registry *g, bool reload, bson_t *reply, struct error *err);

#endif
