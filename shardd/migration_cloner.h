// The donor's side of the data transfer: answers the recipient's _migrateClone, _transferMods and _getNextSessionMods.
//
// Owns the scan over the shard key index (the clone) and the capture of changes, both begun in the same step.
#ifndef SHARDLET_SHARDD_MIGRATION_CLONER_H
#define SHARDLET_SHARDD_MIGRATION_CLONER_H

#include "shardd/migration_capture.h"
#include "shardd/shard.h"

struct cloner;

struct cloner_spec {
  struct collection *collection;
  const struct index *index; // of the shard key
  const bson_t *min, *max;
};

// Does not yield: capture and scan begin together.
struct cloner *cloner_new(struct shard *sh, const struct cloner_spec *spec);
void cloner_free(struct cloner *c); // NULL is allowed; no call may be running
struct capture *cloner_capture(struct cloner *c);

// {objects: [...]}, in shard key order; an empty array when all were sent. Calls are served one after the other.
bool cloner_clone(struct operation *op, struct cloner *c, bson_t *reply, struct error *err);
// {deleted: [{_id}], reload: [documents], size}: what changed since; size 0 when nothing did.
bool cloner_mods(struct operation *op, struct cloner *c, bson_t *reply, struct error *err);
// {oplog: [...]}: records of retryable writes of the range, read when first asked for, which must be in the critical
// section.
bool cloner_sessions(struct operation *op, struct cloner *c, bson_t *reply, struct error *err);

// Roughly the bytes of captured changes that the recipient has not fetched (reference/sharding.md 5.3).
int64_t cloner_untransferred(const struct cloner *c);

#endif
