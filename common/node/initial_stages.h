// Pipeline stages that make their own documents: $collStats, $indexStats, $currentOp, $listSessions, $documents...
#ifndef SHARDLET_NODE_INITIAL_STAGES_H
#define SHARDLET_NODE_INITIAL_STAGES_H

#include "common/net/command.h"
#include "common/query/expression.h"

// Appends the stage's documents to the array `docs`. ns: "db.coll" or "db.$cmd.aggregate". May yield.
bool initial_stage_documents(struct request *r, struct arena *a, const char *ns, const char *stage,
                             const bson_value_t *argument, struct variables *vars, bson_t *docs, struct error *err);

#endif
