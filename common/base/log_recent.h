// The lines that were logged last, for getLog.
#ifndef SHARDLET_BASE_LOG_RECENT_H
#define SHARDLET_BASE_LOG_RECENT_H

#include <stddef.h>
#include <stdint.h>

// Calls fn for each, oldest first, while nothing is logged (fn must not log). Returns how many lines were written since
// the start.
int64_t log_recent(void (*fn)(void *ctx, const char *line, size_t len), void *ctx);

#endif
