// What a writer of the set workload knows about the documents it inserted and deleted, and whether a scan fits to it.
#ifndef SHARDLET_CHAOS_ITEMS_H
#define SHARDLET_CHAOS_ITEMS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/chaos/history.h"

enum { MAX_ITEMS = 100000 };

struct item { // times in ns; 0 = not (yet)
  atomic_llong inserted, delete_called, deleted;
};

struct items { // of one writer in one collection: written by its thread, read by others
  int writer;
  atomic_int n; // items that were tried
  struct item *list;
};

void items_init(struct items *s, int writer);
void items_free(struct items *s);

// A scan that began at `from` and was complete at `to` saw item i counts[i] times (0 for i >= n_counts). Each
// acknowledged insert before it is there exactly once, each acknowledged delete before it is not, nothing is twice.
bool items_check(const struct items *s, const uint8_t *counts, size_t n_counts, int64_t from, int64_t to,
                 struct verdict *v);

#endif
