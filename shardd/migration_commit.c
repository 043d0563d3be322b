// The donor and the config server: telling it of the move, finding out what became of that, knowing the new placement.
#include "shardd/migration_source.h"

#include "common/base/log.h"
#include "common/bson/doc.h"
#include "shardd/metadata.h"
#include "shardd/peer.h"

enum { FINISH_RETRY_MS = 500 }; // between attempts to learn a commit's outcome

bool commit_tell(struct operation *op, struct donation *d, const bson_t **reply, struct error *err) {
  bson_t *cmd = arena_bson(op->arena), chunk;
  BSON_APPEND_UTF8(cmd, "_configsvrCommitChunkMigration", d->request.ns);
  BSON_APPEND_UTF8(cmd, "fromShard", d->sh->name);
  BSON_APPEND_UTF8(cmd, "toShard", d->request.to);
  BSON_APPEND_DOCUMENT_BEGIN(cmd, "migratedChunk", &chunk);
  chunk_version_append(&chunk, "lastmod", &d->doc.before); // invariant: the version that the migration started from
  BSON_APPEND_DOCUMENT(&chunk, "min", d->doc.min);
  BSON_APPEND_DOCUMENT(&chunk, "max", d->doc.max);
  bson_append_document_end(cmd, &chunk);
  chunk_version_append(cmd, "fromShardCollectionVersion", &d->collection_version);
  append_majority(cmd);
  d->commit_begun = true;
  return config_call(op, d->sh, cmd, reply, err);
}

// Until the outcome is known nobody may read or write the collection here. Ends without it only with this member's
// role.
bool commit_find_outcome(struct operation *op, struct donation *d, struct error *err) {
  struct error why = {0};
  log_warn("MIGRATE", "Error occurred while committing the migration; reading its outcome back", "namespace:s error:e",
           d->request.ns, err);
  while (!decision_find(op, d->sh, &d->doc, &why)) {
    log_warn("MIGRATE", "The outcome of the migration is not known yet", "namespace:s error:e", d->request.ns, &why);
    if (!op_sleep(op, FINISH_RETRY_MS, &why)) return error_prefix(err, "The outcome of the commit is unknown");
  }
  if (d->doc.decision == DECISION_COMMITTED) {
    *err = (struct error){0};
    return true;
  }
  return error_prefix(err, "Migration was not committed on the config server");
}

// The table that the commit made of the one known here: its reply says what it changed in which version.
static bool learn_from_reply(struct operation *op, struct donation *d, const bson_t *reply) {
  const struct ns_metadata *n = metadata_find_ns(d->sh->metadata, d->request.ns);
  const struct routing *known = n ? n->routing : NULL;
  struct chunk_version previous;
  bson_t version, row, chunks;
  struct error err = {0};
  if (!known || !known->tracked || !doc_doc(reply, "previousVersion", &version) ||
      !doc_doc(reply, "collection", &row) || !doc_doc(reply, "chunks", &chunks) ||
      !chunk_version_parse(&version, &previous, &err))
    return false;
  struct chunk_version ours = chunk_map_version(known->chunks);
  struct routing *next;
  return chunk_version_same_generation(&ours, &previous) && chunk_version_compare(&ours, &previous) == 0 &&
         catalog_routing_after(known, &row, &chunks, &next, &err) &&
         metadata_advance(d->sh->metadata, d->request.ns, known, next);
}

void commit_learn(struct operation *op, struct donation *d, const bson_t *reply) {
  struct error err = {0};
  bool known = (reply && learn_from_reply(op, d, reply)) || metadata_refresh(op, d->sh->metadata, d->request.ns, &err);
  if (!known) {
    metadata_invalidate(d->sh->metadata, d->request.ns); // who comes next refreshes first
    log_warn("MIGRATE", "Failed to refresh metadata after the migration committed; it is unknown now",
             "namespace:s error:e", d->request.ns, &err);
    return;
  }
  log_info("MIGRATE", "Migration succeeded and updated collection placement version", "namespace:s migrationId:s",
           d->request.ns, d->doc.session_id);
}
