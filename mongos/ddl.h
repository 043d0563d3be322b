// What the commands that define databases, collections and indexes share.
#ifndef SHARDLET_MONGOS_DDL_H
#define SHARDLET_MONGOS_DDL_H

#include "mongos/shard_call.h"

// Sends `body` to the primary shard of database `db`, under the database's version. command_db: the body's $db, NULL =
// `db`. create: make the database first. *reply NULL: there is no such database (and create is false).
bool primary_call(struct request *r, const char *db, const char *command_db, bool create, const bson_t *body,
                  const bson_t **reply, struct error *err);

// The same for every shard that has a part of the collection, with shard versions; the outcome is a `raw` reply.
struct broadcast {
  struct request *r;
  const bson_t *body;
  bool create;
  bool flat_if_single; // a collection that is not sharded: the shard's own fields first
  // Checked before anything is sent; may be NULL.
  bool (*check)(struct broadcast *b, const struct placement *p, struct error *err);
};
// Appends raw: {<connection string>: reply, ...}; of a failure also code, codeName and errmsg of the first one, with ok
// 0.
bool broadcast_run(struct broadcast *b, const char *ns, bson_t *reply, struct error *err);

// Splits "db.coll" as a command's argument. err InvalidNamespace.
bool split_namespace(struct request *r, const char *ns, const char **db, const char **coll, struct error *err);
// The command's own value as a namespace "db.coll" (of admin commands). err TypeMismatch, InvalidNamespace.
bool namespace_argument(struct request *r, const char **ns, const char **db, const char **coll, struct error *err);

// A shard or config server that does not know an internal command: the public one is not supported by it.
void name_unsupported(const struct request *r, struct error *err);

// For commands of MongoDB that this project does not have.
bool run_not_supported(struct request *r, bson_t *reply, struct error *err);

#endif
