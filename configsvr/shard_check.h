// Whether a replica set may become a shard: the checks of addShard on what it says of itself. Pure.
#ifndef SHARDLET_CONFIGSVR_SHARD_CHECK_H
#define SHARDLET_CONFIGSVR_SHARD_CHECK_H

#include "common/base/arena.h"
#include "common/base/error.h"

struct shard_candidate {
  const char *text;      // as given
  const char *given_set; // the set's name in it, NULL = only hosts
  const char **hosts;    // given
  size_t n_hosts;
  const char *primary; // host that answered
  // after shard_candidate_check():
  const char *set_name;
  const char *host_string; // "<set>/<all its hosts>"
};

bool shard_candidate_parse(struct arena *a, const char *text, struct shard_candidate *out, struct error *err);
// hello: of its primary. Errors as reference/commands.md 2.1.
bool shard_candidate_check(struct arena *a, struct shard_candidate *c, const bson_t *hello, struct error *err);
// Whether a registered shard's host string has the same set or one of the same hosts; and whether it is this very set.
bool shard_candidate_overlaps(struct arena *a, const struct shard_candidate *c, const char *host_string);
bool shard_candidate_is_set(struct arena *a, const struct shard_candidate *c, const char *host_string);

#endif
