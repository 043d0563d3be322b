// What the commands on chunks share: who may change a collection's chunks, and changelog forms.
#ifndef SHARDLET_CONFIGSVR_CHUNK_COMMANDS_H
#define SHARDLET_CONFIGSVR_CHUNK_COMMANDS_H

#include "configsvr/catalog_read.h"
#include "configsvr/chunk_table.h"

// The namespaces that a change of chunks locks: config.chunks and, to keep the collection as it is, config.collections.
extern const char *const chunk_namespaces[2];

// What the sender knew: epoch, and the timestamp unless it is 0. StaleEpoch when it is not the collection's.
bool chunk_check_generation(const struct collection_type *c, const bson_oid_t *epoch, uint64_t timestamp,
                            struct error *err);
// {min, max, lastmod: {e, t, v}} as `name` of a changelog row's details.
void chunk_append_piece(bson_t *to, const char *name, const struct collection_type *coll, const struct chunk_type *c);
// The documents {min, max} of a range field of a request; BadValue when it is no range.
bool chunk_parse_range(const bson_t *doc, struct arena *a, const bson_t **min, const bson_t **max, struct error *err);
// A copy of a required document field.
bool request_copy_doc(struct request *r, const char *field, const bson_t **out, struct error *err);
// The namespace of a _configsvr command: its first field, a whole "db.coll". InvalidNamespace otherwise.
bool request_namespace(const struct request *r, const char **ns, struct error *err);

#endif
