// What the DDL operations share: one at a time a database, their steps recorded, taken up again after a crash.
//
// An operation that changes what the config server knows writes a document into config.system.sharding_ddl_coordinators
// before its first step that cannot be undone; from there on it only goes forward, by idempotent steps, on whichever
// primary. The document is removed with the last step. What changes where documents belong holds the collection's
// critical section on every concerned shard from before the config commit until that shard's metadata is cleared.
#ifndef SHARDLET_SHARDD_DDL_COORDINATOR_H
#define SHARDLET_SHARDD_DDL_COORDINATOR_H

#include "common/node/ddl.h"
#include "shardd/metadata.h"

#define DDL_NS "config.system.sharding_ddl_coordinators"

struct ddl_locks *ddl_locks_new(void);
void ddl_locks_free(struct ddl_locks *l); // NULL is allowed

// The database's lock, after what is left of earlier operations on `ns` was completed. Migrations of ns are ended
// (unless they are in their critical section: then they are waited for) and kept away. ns may be a database's name.
bool ddl_enter(struct operation *op, struct shard *sh, const char *ns, struct error *err);
void ddl_leave(struct shard *sh, const char *ns);

// {_id: {namespace, operationType}, ...}: begins a coordinator document.
bson_t *ddl_document(struct arena *a, const char *ns, const char *type);
bool ddl_remember(struct operation *op, struct shard *sh, const bson_t *doc, struct error *err);
bool ddl_forget(struct operation *op, struct shard *sh, const char *ns, const char *type, struct error *err);

// After a step-up, or after an operation could not go on: takes up what is recorded, in a fiber of its own.
void ddl_resume_soon(struct shard *sh);

// --- the shards ---
struct shard_list {
  const char **names;
  size_t n;
};
bool ddl_all_shards(struct operation *op, struct shard *sh, struct shard_list *out, struct error *err);
void ddl_owners(struct arena *a, const struct routing *r, struct shard_list *out);
// The same command (on admin) to every one of them at once, this one included; sent again until it answers. err: the
// first one's.
bool ddl_call(struct operation *op, struct shard *sh, const struct shard_list *shards, const bson_t *cmd,
              struct error *err);
// _shardsvrParticipantBlock on them: reads and writes of ns wait there until the unblocking, which also clears their
// metadata.
bool ddl_block(struct operation *op, struct shard *sh, const struct shard_list *shards, const char *ns,
               const char *owner, bool block, struct error *err);

// "dropCollection/<uuid>": who holds a section.
const char *ddl_owner(struct arena *a, const char *type, const uint8_t uuid[16]);

// How each kind of operation goes on from its document (ddl_create.c, ddl_drop.c...). err: not now; it is tried again.
bool ddl_resume_create(struct operation *op, struct shard *sh, const char *ns, const bson_t *doc, struct error *err);
bool ddl_resume_drop(struct operation *op, struct shard *sh, const char *ns, const bson_t *doc, struct error *err);
bool ddl_resume_drop_database(struct operation *op, struct shard *sh, const char *ns, const bson_t *doc,
                              struct error *err);
bool ddl_resume_rename(struct operation *op, struct shard *sh, const char *ns, const bson_t *doc, struct error *err);
bool ddl_resume_move(struct operation *op, struct shard *sh, const char *ns, const bson_t *doc, struct error *err);

#endif
