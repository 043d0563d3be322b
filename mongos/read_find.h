// How a find is rewritten for several shards; explain uses it as well.
#ifndef SHARDLET_MONGOS_READ_FIND_H
#define SHARDLET_MONGOS_READ_FIND_H

#include "mongos/router.h"

// What stays for the router to do when several shards answer one find.
struct find_window {
  int64_t skip, limit; // limit 0 = none
  bool has_sort;       // by fields: the shards' documents are merged by it
  bson_t sort;
  bool has_projection; // with a sort the shards then add $sortKey
  bson_t projection;
};

// err: Location51024 for negative numbers.
bool find_window_parse(const bson_t *body, struct find_window *out, struct error *err);
// The find for each of several shards: skip is left to the router, limit becomes limit + skip.
bson_t *find_for_shards(struct arena *a, const bson_t *body, const struct find_window *w);

// Appends cursor {firstBatch: [], id: 0, ns}: what reading from what does not exist gives. partial: from shards that
// are not there, which the cursor says.
void reply_empty_cursor(bson_t *reply, const char *ns, bool partial);

#endif
