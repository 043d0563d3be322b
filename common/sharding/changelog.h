// A row of config.changelog or config.actionlog as a document: for catalog_log_change(), and for the config server,
// which adds it to the entry that it belongs to.
#ifndef SHARDLET_SHARDING_CHANGELOG_H
#define SHARDLET_SHARDING_CHANGELOG_H

#include "common/base/arena.h"

// server: this process's host:port. shard: the logging shard's name, "config" on the config server. ns NULL or "":
// cluster-wide.
const bson_t *changelog_row(struct arena *a, const char *server, const char *shard, const char *what, const char *ns,
                            const bson_t *details);
// Whether such a row goes to config.actionlog.
bool changelog_is_action(const char *what);

#endif
