// Where a namespace is, as this router believes; and trying again when a shard says that the belief is stale.
#ifndef SHARDLET_MONGOS_PLACEMENT_H
#define SHARDLET_MONGOS_PLACEMENT_H

#include "common/query/match.h"
#include "mongos/router.h"

enum placement_kind {
  PLACE_NOWHERE, // the database does not exist
  PLACE_CONFIG,  // databases config and admin: the config servers, without versions
  PLACE_PRIMARY, // not tracked: the database's primary shard
  PLACE_CHUNKS,  // tracked: wherever its chunks are (one shard when unsplittable)
};

struct placement {
  enum placement_kind kind;
  const char *ns, *db;
  const char *primary; // the database's primary shard; NULL for PLACE_NOWHERE and PLACE_CONFIG
  struct database_version db_version;
  struct routing *routing; // of PLACE_PRIMARY and PLACE_CHUNKS; lives as long as the operation's arena
};

// A shard to send to, with the versions that the request to it carries.
struct target {
  const char *shard; // NULL = the config servers
  bool versioned, db_versioned;
  struct chunk_version version;
  struct database_version db_version;
};

enum { STALE_RETRIES = 10 };

// config and admin live on the config servers, which take what concerns them as it is.
bool database_is_on_config(const char *db);

// From the cache, refreshed where it is marked. create: make the database when it does not exist.
// err: InvalidNamespace for the database `local`, which every daemon has its own of.
bool placement_get(struct operation *op, struct router *rt, const char *ns, bool create, struct placement *out,
                   struct error *err);
// Of a database alone: PLACE_NOWHERE, PLACE_CONFIG or PLACE_PRIMARY without routing.
bool placement_get_database(struct operation *op, struct router *rt, const char *db, bool create, struct placement *out,
                            struct error *err);

bool placement_sharded(const struct placement *p);                // has a shard key that may split it
const struct shard_key *placement_key(const struct placement *p); // of PLACE_CHUNKS

struct target target_config(void);
struct target target_primary(const struct placement *p);  // PLACE_PRIMARY: both versions
struct target target_database(const struct placement *p); // DDL on the primary shard: database version only
struct target target_shard(const struct placement *p, const char *shard); // PLACE_CHUNKS: that shard's version
struct target target_unversioned(const char *shard);
void target_append_versions(const struct target *t, bson_t *body);

// A filter as a command or statement gives it.
struct filter_spec {
  const bson_t *filter;
  const bson_t *options; // the document whose `collation` applies; NULL = none
  const bson_t *command; // the document whose `let` applies; NULL = none
};

// The shards that a filter concerns; *exact: it fixes the full shard key. Every kind but PLACE_NOWHERE gives at least
// one. On the config servers: target_config(), whatever the filter.
bool placement_targets(struct arena *a, const struct placement *p, const struct filter_spec *f, struct target **out,
                       size_t *n, bool *exact, struct error *err);
// Every shard that has a chunk (or the one that has the collection).
size_t placement_all(struct arena *a, const struct placement *p, struct target **out);

// Counts a routed command in shardingStatistics.numHostsTargeted.
void placement_count(struct router *rt, enum targeted_family family, const struct placement *p, size_t n_targets);

// Runs fn with the namespace's placement until it ends otherwise than by a stale version, STALE_RETRIES times at most.
// fn must have no effect when it fails as stale. what: the command's name, for the message when that does not help.
typedef bool (*routed_fn)(struct operation *op, struct router *rt, const struct placement *p, void *ctx,
                          struct error *err);
bool routed_run(struct operation *op, struct router *rt, const char *ns, const char *what, bool create, routed_fn fn,
                void *ctx, struct error *err);
bool routed_run_database(struct operation *op, struct router *rt, const char *db, const char *what, bool create,
                         routed_fn fn, void *ctx, struct error *err);

// Marks in the cache what a stale error proves wrong.
void stale_learn(struct router *rt, const struct placement *p, const struct error *err);
// Whether the error asks for another try with newer placement.
bool stale_is(const struct error *err);
// The wait before try number n (1 = the first repetition), short at first.
bool stale_pause(struct operation *op, int n, struct error *err);
// What a client is told when it never helped: stale errors do not leave a router.
bool stale_give_up(struct error *err, const char *what, const char *ns);

#endif
