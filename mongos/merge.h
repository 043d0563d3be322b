// The order in which documents of several sorted streams come out: a heap of the streams' next keys.
//
// Pure: knows keys and numbers of streams only. Equal keys come out in the order of the streams' numbers, so that a
// merge of the same streams is the same every time.
#ifndef SHARDLET_MONGOS_MERGE_H
#define SHARDLET_MONGOS_MERGE_H

#include "common/base/arena.h"
#include "common/bson/key.h"

struct merge;

struct merge *merge_new(struct arena *a, size_t n_streams);
// A stream's next key; the bytes must stay until it is taken. A stream is in at most once.
void merge_put(struct merge *m, size_t stream, struct key key);
size_t merge_count(const struct merge *m);
// The stream whose document is next. The merge must not be empty.
size_t merge_first(const struct merge *m);
// Takes that stream out: it is put in again with its following document.
void merge_take(struct merge *m);

#endif
