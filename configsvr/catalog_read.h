// Reading the catalog's documents on the config server itself: applied state, no yield.
#ifndef SHARDLET_CONFIGSVR_CATALOG_READ_H
#define SHARDLET_CONFIGSVR_CATALOG_READ_H

#include "common/sharding/catalog_types.h"
#include "common/sharding/shard_key.h"
#include "configsvr/config_server.h"
#include "configsvr/settings.h"

// *found false without an error: there is none. false: the document is damaged, err names it.
bool catalog_read_collection(struct config_server *cs, struct arena *a, const char *ns, struct collection_type *out,
                             bool *found, struct error *err);
bool catalog_read_database(struct config_server *cs, struct arena *a, const char *db, struct database_type *out,
                           bool *found, struct error *err);
bool catalog_read_shard(struct config_server *cs, struct arena *a, const char *name, struct shard_type *out,
                        bool *found, struct error *err);
// As above, but it must be there: NamespaceNotSharded "Expected collection <ns> to be sharded", ShardNotFound "Shard
// <x> not found".
bool catalog_need_collection(struct config_server *cs, struct arena *a, const char *ns, struct collection_type *out,
                             struct error *err);
bool catalog_need_shard(struct config_server *cs, struct arena *a, const char *name, struct shard_type *out,
                        struct error *err);
// In natural order (the order they were added in).
bool catalog_read_shards(struct config_server *cs, struct arena *a, struct shard_type **out, size_t *n,
                         struct error *err);
// A collection's zones, in the order of min.
bool catalog_read_tags(struct config_server *cs, struct arena *a, const char *ns, struct tag_type **out, size_t *n,
                       struct error *err);
// config.settings as the balancer takes it (settings.h).
bool catalog_read_settings(struct config_server *cs, struct arena *a, struct balancer_settings *out, struct error *err);
// The stored document with this string _id.
bool catalog_read_doc(struct config_server *cs, struct arena *a, const char *ns, const char *id, const bson_t **doc);

// A copy of doc in which the fields of `set` are replaced in place or appended, and those of `unset` (NULL-terminated)
// left out.
const bson_t *doc_with(struct arena *a, const bson_t *doc, const bson_t *set, const char *const *unset);

#endif
