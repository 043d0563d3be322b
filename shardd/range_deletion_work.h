// The work of one range deletion: slices of documents, or the unlinking of a whole file.
#ifndef SHARDLET_SHARDD_RANGE_DELETION_WORK_H
#define SHARDLET_SHARDD_RANGE_DELETION_WORK_H

#include "shardd/migration_documents.h"
#include "shardd/shard.h"

// Deletes all of the task's documents, then its document. Any crash or step-down on the way resumes with the documents
// that are left. err: not primary any more, killed.
bool range_deletion_work(struct operation *op, struct shard *sh, struct range_deletion_doc *t, struct error *err);

#endif
