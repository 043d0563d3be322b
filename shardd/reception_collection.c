// The collection on the recipient: created as the donor has it, or compared with it.
#include "shardd/migration_destination.h"

#include <string.h>

#include "common/base/clock.h"
#include "common/bson/doc.h"
#include "shardd/local_collection.h"
#include "shardd/peer.h"

static bool ask_donor(struct operation *op, struct reception *r, struct collection_plan *plan, struct error *err) {
  bson_t *cmd = arena_bson(op->arena);
  BSON_APPEND_UTF8(cmd, "_shardsvrCollectionInfo", r->ns);
  const bson_t *info;
  return peer_call(op, r->sh, r->from_shard, "admin", cmd, PEER_TIMEOUT_MS, true, &info, err) &&
         collection_plan_parse(op->arena, r->ns, info, plan, err);
}

static bool other_uuid(struct operation *op, const struct reception *r, const struct collection *c, struct error *err) {
  char ours[37], theirs[37];
  uuid_text(c->uuid, ours);
  uuid_text(r->collection, theirs);
  return error_set(
      err, ERR_InvalidUUID,
      "Cannot receive chunk %s for collection %s because we already have an identically named collection "
      "with UUID %s, which differs from the donor's UUID %s. Manually drop the collection on this shard if "
      "it contains data from a previous incarnation of %s",
      range_text(op->arena, r->min, r->max), r->ns, ours, theirs, r->ns);
}

struct collection *reception_collection(const struct reception *r, struct error *err) {
  struct collection *c = store_collection_by_uuid(r->sh->node.store, r->collection);
  if (!c) (void)reception_collection_gone(r, err);
  return c;
}

bool reception_collection_gone(const struct reception *r, struct error *err) {
  return error_set(err, ERR_NamespaceNotFound, "The collection %s was dropped while a range of it was received", r->ns);
}

bool reception_prepare_collection(struct operation *op, struct reception *r, struct error *err) {
  struct collection_plan plan;
  if (!ask_donor(op, r, &plan, err)) return false;
  memcpy(r->collection, plan.uuid, 16);
  const struct collection *c = store_collection(r->sh->node.store, r->ns);
  if (c && memcmp(c->uuid, plan.uuid, 16) != 0) return other_uuid(op, r, c, err);
  return local_collection_ensure(op, r->sh, &plan, err);
}
