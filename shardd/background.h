// Work that a shard does on its own: each in a fiber, ended with the role or with the process.
#ifndef SHARDLET_SHARDD_BACKGROUND_H
#define SHARDLET_SHARDD_BACKGROUND_H

#include "shardd/shard.h"

// Starts fn(op, arg) in an operation of its own. what: a literal, for the log.
void background_start(struct shard *sh, const char *what, void (*fn)(struct operation *op, void *arg), void *arg);
// Ends all of it with this code at its next wait. What cleans up in memory still does so.
void background_kill(struct shard *sh, int32_t code);
// Waits until none is left. New work is not started when sh->stopping is set.
void background_wait(struct operation *op, struct shard *sh);

#endif
