// Rows of config.changelog in this shard's name. They are best effort: what cannot be written is logged and dropped.
#ifndef SHARDLET_SHARDD_CHANGE_LOG_H
#define SHARDLET_SHARDD_CHANGE_LOG_H

#include "shardd/shard.h"

struct change_log *change_log_new(struct shard *sh);
void change_log_free(struct change_log *l);

// Makes a row, with the time of this call. It is written in the background, in the order of these calls; rows that wait
// together go together. details is copied.
void log_change_soon(struct operation *op, struct shard *sh, const char *what, const char *ns, const bson_t *details);
// Waits until all rows made so far are written or given up, or op ends.
void log_changes_wait(struct operation *op, struct shard *sh);
// Both.
void log_change(struct operation *op, struct shard *sh, const char *what, const char *ns, const bson_t *details);

#endif
