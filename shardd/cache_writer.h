// config.cache.databases, config.cache.collections and config.cache.chunks.<ns>: what this primary knows, written for
// its secondaries (and for people to look at). A primary never reads it.
#ifndef SHARDLET_SHARDD_CACHE_WRITER_H
#define SHARDLET_SHARDD_CACHE_WRITER_H

#include "shardd/metadata.h"

#define CACHE_COLLECTIONS_NS "config.cache.collections"
#define CACHE_DATABASES_NS "config.cache.databases"
static inline const char *cache_chunks_ns(struct arena *a, const char *ns) {
  return arena_printf(a, "config.cache.chunks.%s", ns);
}

// Adds what is known of the namespace to a write, if it is known and newer than what is written; nothing when it needs
// more than a few rows (then cache_flush() does it in entries of its own). No yield.
bool cache_add(struct operation *op, struct shard *sh, struct write *w, const char *ns, struct error *err);

// Writes what is known of the namespace (or database), and returns when it is applied.
bool cache_flush(struct operation *op, struct shard *sh, const char *ns, struct error *err);
// The same in the background, for what changed since it was asked last.
void cache_flush_soon(struct shard *sh, const char *ns);
bool cache_flush_database(struct operation *op, struct shard *sh, const char *db, struct error *err);

#endif
