// Carrying out what the policy chose. Internal to the balancer's files.
#ifndef SHARDLET_CONFIGSVR_BALANCER_MOVES_H
#define SHARDLET_CONFIGSVR_BALANCER_MOVES_H

#include "configsvr/balancer_view.h"

struct ordered_move {
  const struct collection_type *collection;
  const char *from, *to;
  const bson_t *min, *max; // of the chunk
  bool whole;
  int force_jumbo;
  int64_t chunk_bytes;
  enum move_reason reason;
  // results
  bool ok;
  struct error err;
};

// Orders all of them from their donors, and waits. A chunk that was too big to move is split or marked jumbo; a
// collection that lost its shard key's index is balanced no more. Returns how many succeeded.
size_t moves_run(struct operation *op, struct balancer_term *term, const struct balancer_view *v,
                 struct ordered_move *list, size_t n);
// Cuts a chunk at these keys, through the shard that has it.
bool moves_split(struct operation *op, struct balancer_term *term, const struct collection_type *coll,
                 const char *shard, const bson_t *min, const bson_t *max, const bson_t *const *keys, size_t n,
                 struct error *err);

#endif
