// The few questions that every file of shardd asks of the shard.
#include "shardd/shard.h"

bool shard_require_identity(const struct shard *sh, struct error *err) {
  return shard_enabled(sh) || error_set(err, ERR_ShardingStateNotInitialized,
                                        "Cannot accept sharding commands if sharding state has not been "
                                        "initialized with a shardIdentity document");
}

struct shard *shard_of(const struct request *r) {
  return ((struct node *)r->daemon)->daemon;
}

bool shard_wait_recovered(struct operation *op, struct shard *sh, struct error *err) {
  if (!shard_require_identity(sh, err)) return false;
  while (sh->recovered_term != repl_term(sh->node.repl)) {
    if (!repl_is_primary(sh->node.repl)) return error_set(err, ERR_NotWritablePrimary, "not primary");
    if (!event_wait(op, &sh->changed, err)) return false;
  }
  return true;
}
