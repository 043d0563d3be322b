// Collections of the database `local` that are made when they are read: oplog.rs over the log that the member keeps
// anyway, and startup_log with one document about this start.
//
// oplog.rs is read in the order of the log, forwards or (sort {$natural: -1} or {ts: -1}) backwards. It reaches as far
// back as the log is kept, and ends with what was applied when the read began. A scan that the log's cutting overtakes
// fails with CappedPositionLost.
#ifndef SHARDLET_NODE_VIRTUAL_H
#define SHARDLET_NODE_VIRTUAL_H

#include "common/node/node.h"
#include "common/node/query.h"

struct virtual_scan;

bool virtual_is(const char *ns);
// Lives in `a`; q must live as long. err CommandNotSupported: a sort in another order.
struct virtual_scan *virtual_open(struct arena *a, struct node *n, const char *ns, const struct query *q,
                                  struct error *err);
// The next document that matches, valid until the next call; NULL at the end.
bool virtual_next(struct operation *op, struct virtual_scan *v, const bson_t **doc, struct error *err);
bool virtual_at_end(const struct virtual_scan *v);

int64_t virtual_count(const struct node *n, const char *ns);
void virtual_storage_stats(const struct node *n, const char *ns, int64_t scale, bson_t *out);
// Calls fn for each collection as listCollections shows it, when there are any in this database.
void virtual_list(const struct node *n, struct arena *a, const char *db, void (*fn)(void *ctx, const bson_t *doc),
                  void *ctx);

#endif
