// The chunks of a collection as config.chunks has them.
#ifndef SHARDLET_CHAOS_CHUNK_LIST_H
#define SHARDLET_CHAOS_CHUNK_LIST_H

#include <mongoc/mongoc.h>
#include <stdbool.h>

struct chunk {
  bson_t *min, *max;
  int64_t from, to; // the same as numbers, MinKey and MaxKey as the smallest and greatest one
  char shard[16];
};

struct chunk_list { // in the order of keys
  struct chunk *list;
  int n;
  size_t cap;
};

bool chunk_list_read(mongoc_client_t *router, const char *ns, struct chunk_list *out, bson_error_t *why);
void chunk_list_free(struct chunk_list *l);
const char *chunk_list_owner(const struct chunk_list *l, int64_t key); // NULL: no chunk has it

#endif
