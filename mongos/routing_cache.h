// What this router believes about placement: databases -> primary shard, collections -> routing table.
//
// Nobody pushes changes to a router: an entry stays as it is until a shard answers that it is stale. Then it is marked
// (invalidated), and the next operation that needs it refreshes it from the config server, incrementally, one refresh
// at a time a namespace while the others wait. A refresh that began before an invalidation does not satisfy it.
#ifndef SHARDLET_MONGOS_ROUTING_CACHE_H
#define SHARDLET_MONGOS_ROUTING_CACHE_H

#include "common/sharding/catalog_client.h"

struct routing_cache;

struct routing_cache *routing_cache_new(struct loop *l, struct replica_set *config);
void routing_cache_free(struct routing_cache *c);

// The collection's routing, refreshed first if it is marked or not known. *out is referenced for the caller.
bool routing_cache_get(struct operation *op, struct routing_cache *c, const char *ns, struct routing **out,
                       struct error *err);
// What is cached now, marked or not; NULL when nothing is. Not referenced; no yield.
struct routing *routing_cache_peek(struct routing_cache *c, const char *ns);
// Marks the entry, unless it holds something else than `seen` by now (somebody refreshed it since the caller looked).
// seen NULL: whatever it holds. wanted: the version that a shard asked for, NULL when it named none; a refresh that was
// under way already and brings it satisfies the mark.
void routing_cache_invalidate(struct routing_cache *c, const char *ns, const struct routing *seen,
                              const struct chunk_version *wanted);

// The database's primary shard and version; *out is copied into op's arena. *exists false: no such database.
bool routing_cache_database(struct operation *op, struct routing_cache *c, const char *db, struct database_type *out,
                            bool *exists, struct error *err);
void routing_cache_invalidate_database(struct routing_cache *c, const char *db, const struct database_version *seen);

// Forgets a collection, a database with its collections, everything (flushRouterConfig).
void routing_cache_forget(struct routing_cache *c, const char *ns);
void routing_cache_forget_database(struct routing_cache *c, const char *db);
void routing_cache_forget_all(struct routing_cache *c);

void routing_cache_count_stale(struct routing_cache *c); // a StaleConfig was received
// The catalogCache section of serverStatus.
void routing_cache_status(const struct routing_cache *c, bson_t *out);

#endif
