// Sort patterns: {a: 1, "b.c": -1}; arrays sort by their least (ascending) or greatest (descending) element.
#ifndef SHARDLET_QUERY_SORT_H
#define SHARDLET_QUERY_SORT_H

#include <bson/bson.h>

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/base/error.h"

struct sort;

// {$natural: +-1} is the caller's. err: Location15974, Location15975 for directions other than 1 and -1. spec is
// copied.
struct sort *sort_parse(struct arena *a, const bson_t *spec, struct error *err);
const bson_t *sort_pattern(const struct sort *s);

// The document's sort key, order-preserving: memcmp of two keys is their order. Appends to *to. Where several paths
// lead into one array, the key is the least that one element gives; paths into different arrays, which MongoDB refuses
// to sort by (see sorter_add), each take their own least element.
void sort_key_append(const struct sort *s, const bson_t *doc, struct buf *to);
// The same key as values, in the form of `$sortKey` that shards send to routers: [v1, v2, ...].
void sort_key_values(const struct sort *s, const bson_t *doc, bson_t *array);
// Compares two `$sortKey` arrays.
int sort_key_values_compare(const struct sort *s, const bson_t *a, const bson_t *b);

// A bounded or unbounded sorter with a memory limit (100 MiB: err QueryExceededMemoryLimitNoDiskUseAllowed 292).
struct sorter;
struct sorter *sorter_new(struct arena *a, const struct sort *s,
                          size_t limit); // limit 0 = all; keeps the first `limit`
// Copies doc. err also: BadValue "cannot sort with keys that are parallel arrays".
bool sorter_add(struct sorter *x, const bson_t *doc, struct error *err);
void sorter_finish(struct sorter *x);
const bson_t *sorter_next(struct sorter *x); // NULL at the end; stable for equal keys; valid until the next call
size_t sorter_bytes(const struct sorter *x);

#endif
