// Which chunk an administrator means: by a query on the shard key, by bounds, or by a key inside.
#ifndef SHARDLET_MONGOS_CHUNK_LOOKUP_H
#define SHARDLET_MONGOS_CHUNK_LOOKUP_H

#include "mongos/placement.h"

enum chunk_lookup { LOOKUP_FOUND, LOOKUP_NO_KEY, LOOKUP_BAD_BOUNDS, LOOKUP_NO_CHUNK };

// `find` and `bounds` of split, moveChunk and clearJumboFlag, as given; empty and null count as not given.
struct chunk_choice {
  bson_t find;
  bool has_find, has_bounds; // has_bounds: there is an array
  size_t n_bounds;
  bson_t min, max; // empty when missing
};
void chunk_choice_read(const bson_t *body, struct chunk_choice *out);
// Exactly one of the two is given, and bounds are two. find: what the command calls it. err InvalidOptions.
bool chunk_choice_check(const struct chunk_choice *c, const char *find, struct error *err);

struct chosen_chunk {
  struct chunk chunk;
  const bson_t *min, *max;
};

enum chunk_lookup chunk_of_query(struct arena *a, const struct placement *p, const bson_t *query,
                                 struct chosen_chunk *out);
enum chunk_lookup chunk_of_bounds(struct arena *a, const struct placement *p, const bson_t *min, const bson_t *max,
                                  struct chosen_chunk *out);
// By whichever was given.
enum chunk_lookup chunk_of_choice(struct arena *a, const struct placement *p, const struct chunk_choice *c,
                                  struct chosen_chunk *out);
void chunk_of_key(struct arena *a, const struct placement *p, const bson_t *key, struct chosen_chunk *out);

// The texts that commands share; they differ in the codes.
const char *lookup_text(struct arena *a, const struct placement *p, enum chunk_lookup why,
                        const struct chunk_choice *c);

// Marks the namespace and gets its placement anew. err NamespaceNotSharded.
bool sharded_placement(struct operation *op, struct router *rt, const char *ns, struct placement *out,
                       struct error *err);

// Runs fn with fresh placement; again, a few times, when a shard calls it stale. What it then still complains about is
// the request itself, and is answered as OperationFailed.
typedef bool (*chunk_operation_fn)(struct operation *op, struct router *rt, const struct placement *p, void *ctx,
                                   struct error *err);
bool chunk_operation(struct request *r, const char *ns, chunk_operation_fn fn, void *ctx, struct error *err);

#endif
