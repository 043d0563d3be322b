// A set of record ids, 16 bytes a member or less: open addressing over a power of two of slots.
#ifndef SHARDLET_SHARDD_RID_SET_H
#define SHARDLET_SHARDD_RID_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rid_set {  // all zero: empty
  int64_t *slots; // 0 = free (record ids begin at 1)
  size_t n, cap;
};

void rid_set_add(struct rid_set *s, int64_t rid);
bool rid_set_has(const struct rid_set *s, int64_t rid);
void rid_set_free(struct rid_set *s);

#endif
