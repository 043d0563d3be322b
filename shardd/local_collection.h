// Making a collection on this shard the same as on another one: UUID, options, shard key, indexes.
#ifndef SHARDLET_SHARDD_LOCAL_COLLECTION_H
#define SHARDLET_SHARDD_LOCAL_COLLECTION_H

#include "common/node/ddl.h"
#include "shardd/shard.h"

// What another shard tells of a collection; borrowed.
struct collection_plan {
  const char *ns;
  uint8_t uuid[16];
  const bson_t *options;   // create's, {} = none
  const bson_t *indexes;   // array of specs; _id_ is implied
  const bson_t *shard_key; // {} = not sharded
};

// From {uuid, options, indexes, shardKey}, and back.
bool collection_plan_parse(struct arena *a, const char *ns, const bson_t *doc, struct collection_plan *out,
                           struct error *err);
void collection_plan_append(bson_t *to, const struct collection *c);

// Creates it, or adds what it lacks (shard key, indexes); nothing when it is the same already. err NamespaceExists (48)
// when there is a collection of this name with another UUID; what creating an index says.
bool local_collection_ensure(struct operation *op, struct shard *sh, const struct collection_plan *plan,
                             struct error *err);

// One entry each; nothing when it is so already. uuid NULL: whatever is there.
bool local_collection_set_shard_key(struct operation *op, struct shard *sh, const char *ns, const uint8_t uuid[16],
                                    const bson_t *key, struct error *err);
bool local_collection_drop(struct operation *op, struct shard *sh, const char *ns, const uint8_t *uuid,
                           struct error *err);
// {key, name} with MongoDB's name for it: customerId_1, userId_hashed, a_1_b_hashed.
bool local_create_index(struct operation *op, struct shard *sh, const char *ns, const bson_t *key, bool unique,
                        struct error *err);

#endif
