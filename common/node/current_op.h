// What runs now: for currentOp and $currentOp.
#ifndef SHARDLET_NODE_CURRENT_OP_H
#define SHARDLET_NODE_CURRENT_OP_H

#include "common/node/node.h"

// Appends a document an operation (and, when wanted, an idle cursor) to the array.
void current_ops(struct node *n, bool idle_cursors, bson_t *array);

#endif
