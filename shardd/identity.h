// Which cluster and which shard this is: the document shardIdentity in admin.system.version.
#ifndef SHARDLET_SHARDD_IDENTITY_H
#define SHARDLET_SHARDD_IDENTITY_H

#include "shardd/shard.h"

#define IDENTITY_NS "admin.system.version"
#define IDENTITY_ID "shardIdentity"

// Reads the document as applied, if there is one, and becomes that shard. Does nothing when it is that already.
void identity_load(struct shard *sh);
// A document was put into admin.system.version by a log entry.
void identity_applied(struct shard *sh, const bson_t *doc);

// _addShard: writes the document. err IllegalOperation when this is a shard of another cluster, or under another name.
bool identity_give(struct operation *op, struct shard *sh, const bson_t *identity, struct error *err);

#endif
