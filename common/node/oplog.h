// A log entry as a document of local.oplog.rs: {op, ns, ui, o, o2, ts, t, v, wall}, with lsid, txnNumber and stmtId
// before them when it holds a retryable write.
//
// One change of a document is i (insert), u (its whole new version; o2 says which) or d. Several in one entry are one
// applyOps command, as MongoDB writes batches. create and createIndexes are commands (op c). Everything else, and every
// change of a collection that was dropped since, is op n with a word about it in o.msg.
#ifndef SHARDLET_NODE_OPLOG_H
#define SHARDLET_NODE_OPLOG_H

#include "common/store/store.h"

const bson_t *oplog_document(struct arena *a, struct store *s, int64_t term, const bson_t *entry);

#endif
