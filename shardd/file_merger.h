// The primary's worker that keeps the number of a collection's range files small: every rangeFileMergeIntervalSecs it
// looks for the longest run of small neighbours (file_merge_policy.h) and makes one file of them (file_merge.h); one
// merge at a time, and the next one soon after as long as there is something to do.
#ifndef SHARDLET_SHARDD_FILE_MERGER_H
#define SHARDLET_SHARDD_FILE_MERGER_H

#include "shardd/shard.h"

struct file_merger *file_merger_new(struct shard *sh);
void file_merger_free(struct file_merger *m); // NULL is allowed

// In a fiber of its own, while this member is primary; it ends when its operation is killed.
void file_merger_run(struct operation *op, void *merger);
void file_merger_applied(struct file_merger *m, const bson_t *entry); // every entry of the log
void file_merger_status(const struct file_merger *m, bson_t *reply);  // serverStatus.rangeFileMerges

#endif
