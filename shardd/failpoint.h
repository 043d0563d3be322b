// Places where a test can make a daemon wait: MongoDB's `configureFailPoint`, with --setParameter enableTestCommands=1
// only.
#ifndef SHARDLET_SHARDD_FAILPOINT_H
#define SHARDLET_SHARDD_FAILPOINT_H

#include "shardd/shard.h"

struct failpoints *failpoints_new(void);
void failpoints_free(struct failpoints *f); // NULL is allowed

// Waits here while the point of this name is on; counts the entry. Returns at once when it is off. err: killed
// meanwhile.
bool failpoint_hang(struct operation *op, struct shard *sh, const char *name, struct error *err);

#endif
