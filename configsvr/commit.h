// A change of the catalog: evaluated in one uninterrupted step, written as one log entry.
#ifndef SHARDLET_CONFIGSVR_COMMIT_H
#define SHARDLET_CONFIGSVR_COMMIT_H

#include "configsvr/config_server.h"

struct commit {
  struct config_server *cs;
  struct arena *arena;
  struct write *write;
  uint64_t now; // a timestamp of the cluster's clock, later than all that are in the catalog
};

// Reads applied state, checks the preconditions, adds what changes. Does not yield. It may run several times (when a
// lock was not free), so it sets every field of args that is a result each time. false with err, or true: what was
// added is committed; to add nothing is to say "done already".
typedef bool (*commit_fn)(struct commit *c, void *args, struct error *err);

enum { COMMIT_NAMESPACES_MAX = 6 };

// Waits until this member is a primary with a complete catalog, locks the namespaces exclusively, runs fn, commits. An
// error of fn is only given while this member is still primary; otherwise it may be a deposed one's mistake, and the
// error says so.
bool commit_run(struct operation *op, struct config_server *cs, const char *const *namespaces, size_t n, commit_fn fn,
                void *args, struct error *err);

bool commit_put(struct commit *c, const char *ns, const bson_t *doc, struct error *err);
bool commit_delete(struct commit *c, const char *ns, const bson_value_t *id, struct error *err);
bool commit_delete_str(struct commit *c, const char *ns, const char *id, struct error *err);
bool commit_delete_oid(struct commit *c, const char *ns, const bson_oid_t *id, struct error *err);
// A row of config.changelog (or actionlog) in the same entry.
bool commit_log(struct commit *c, const char *what, const char *ns, const bson_t *details, struct error *err);
// A row of config.placementHistory. uuid NULL for a database.
bool commit_placement(struct commit *c, const char *ns, const uint8_t *uuid, const char *const *shards, size_t n,
                      struct error *err);

#endif
