// Creating and dropping collections and indexes, as the DDL commands and a daemon's own steps do it.
//
// Every change of a collection's catalog entry is made under the namespace's exclusive lock: all writes proposed before
// are applied, none is evaluated meanwhile.
#ifndef SHARDLET_NODE_DDL_H
#define SHARDLET_NODE_DDL_H

#include "common/node/node.h"

// Who asks: a request whose version check must still hold when the change is made, or NULL fields for the daemon
// itself.
struct ddl {
  struct operation *op;
  struct node *node;
  struct access *access; // NULL: no version check
  uint64_t index;        // out: log position of the last change, for the write concern
};

struct collection_spec {
  const char *ns;
  const uint8_t *uuid;     // NULL: a new one
  const bson_t *options;   // NULL: none
  const bson_t *shard_key; // NULL: not sharded
  const bson_t *indexes;   // array of specs besides _id's, NULL: none; normalised here
};

// err NamespaceExists (48) when it is there, unless with the same uuid.
bool ddl_create(struct ddl *d, const struct collection_spec *spec, struct error *err);
// Nothing to do when it is not there (*existed false) or has another uuid. uuid NULL: whatever is there.
bool ddl_drop(struct ddl *d, const char *ns, const uint8_t *uuid, bool *existed, int32_t *n_indexes, struct error *err);
bool ddl_drop_database(struct ddl *d, const char *db, struct error *err);
bool ddl_rename(struct ddl *d, const char *from, const char *to, bool drop_target, struct error *err);

struct create_indexes_result {
  int32_t before, after;
  bool all_existed;
};
// Declares the indexes that are not there, fills them in slices, waits until all are ready. specs: an array. err
// DuplicateKey (11000) when documents violate a unique one, which is then removed again.
bool ddl_create_indexes(struct ddl *d, const char *ns, const bson_t *specs, struct create_indexes_result *out,
                        struct error *err);
// which: a name, a key pattern or an array of names; "*": all but _id's (and, on a sharded collection, the shard
// key's).
bool ddl_drop_indexes(struct ddl *d, const char *ns, const bson_value_t *which, int32_t *n_was, struct error *err);

// {v: 2, key, name, unique?...} of what a client wrote. err CannotCreateIndex, BadValue... naming what is not
// supported.
bool index_spec_normalise(struct arena *a, const bson_t *spec, const bson_t **out, struct error *err);
const char *index_name_of(struct arena *a, const bson_t *key); // "a_1_b_-1_c_hashed"

// The command's version check, held to its end.
bool ddl_begin(struct ddl *d, struct request *r, const char *ns, struct error *err);

// --- the pieces, for ddl_indexes.c ---
bool ddl_lock(struct ddl *d, struct write *w, const char *ns, struct error *err); // exclusive, checked, atomic
bool ddl_may_act(struct ddl *d, struct error *err);
bool ddl_commit(struct ddl *d, struct write *w, struct error *err);

// --- index_build.c ---
struct index_build;
// Builds an index that is declared, or joins the build that runs.
struct index_build *index_build_start(struct node *n, const struct collection *c, uint32_t index_id);
bool index_build_wait(struct operation *op, struct index_build *b, struct error *err);

#endif
