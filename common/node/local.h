// A node's own reads and writes of its collections, mostly of config.*: without the wire, without sharding checks.
#ifndef SHARDLET_NODE_LOCAL_H
#define SHARDLET_NODE_LOCAL_H

#include "common/node/node.h"

// Applied state; no yield. Results are copied into the arena.
bool local_find_one(struct node *n, struct arena *a, const char *ns, const bson_t *filter, const bson_t **doc);
bool local_find_id(struct node *n, struct arena *a, const char *ns, const bson_value_t *id, const bson_t **doc);
// filter with a usable index prefix is answered from it. limit 0 = all. Sorted when sort is not NULL.
size_t local_find(struct node *n, struct arena *a, const char *ns, const bson_t *filter, const bson_t *sort,
                  size_t limit, const bson_t ***docs);
int64_t local_count(struct node *n, const char *ns, const bson_t *filter);

// Locks a document for this write, waiting while others change it. May yield: what the write has is proposed then, and
// the caller reads the document afterwards.
bool local_lock(struct operation *op, struct node *n, struct write *w, const char *ns, const bson_value_t *id,
                struct error *err);

// Adds to a write; the caller proposes. The collection is created (in the same entry) when it is not there. put
// replaces the document with the same _id. No yield from the first call to the proposal, other than local_lock()'s.
// They take the document's lock, or find that this write has it; err WriteConflict (112) when another write is changing
// that document (local_lock() would have waited).
bool local_put(struct node *n, struct write *w, const char *ns, const bson_t *doc, struct error *err);
bool local_delete(struct node *n, struct write *w, const char *ns, const bson_value_t *id,
                  struct error *err); // true also when absent

// One document, written and waited for.
bool local_put_now(struct operation *op, struct node *n, const char *ns, const bson_t *doc, struct error *err);
bool local_delete_now(struct operation *op, struct node *n, const char *ns, const bson_value_t *id, struct error *err);
// Declares an index of an internal collection, once (adds to the write).
bool local_ensure_index(struct node *n, struct write *w, const char *ns, const bson_t *key, bool unique,
                        struct error *err);

// Settable and readable parameters (getParameter/setParameter). A daemon adds its own before it listens.
void parameter_add_int(struct node *n, const char *name, int64_t *value, int64_t min, int64_t max, bool settable);
void parameter_add_bool(struct node *n, const char *name, bool *value, bool settable);

#endif
