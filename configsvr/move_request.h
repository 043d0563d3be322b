// The command that makes a donor move a range: built by the _configsvrMoveRange command and by the balancer alike.
// Pure.
#ifndef SHARDLET_CONFIGSVR_MOVE_REQUEST_H
#define SHARDLET_CONFIGSVR_MOVE_REQUEST_H

#include "common/sharding/catalog_types.h"

struct move_request {
  const struct collection_type *collection;
  const char *from, *to;
  const bson_t *min, *max; // at least one; the donor finds the other
  int64_t chunk_bytes;
  int force_jumbo; // 0 no, 1 a user asked, 2 the balancer (draining)
  bool wait_for_delete;
  bool has_secondary_throttle, secondary_throttle;
};

const bson_t *move_request_command(struct arena *a, const struct move_request *m);

#endif
