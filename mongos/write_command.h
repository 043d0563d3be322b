// insert, update and delete as a router sees them: statements as bytes, and what became of them.
#ifndef SHARDLET_MONGOS_WRITE_COMMAND_H
#define SHARDLET_MONGOS_WRITE_COMMAND_H

#include "mongos/placement.h"
#include "mongos/write_batch.h"

enum write_kind { WRITE_INSERT, WRITE_UPDATE, WRITE_DELETE };

struct write_statement {
  const uint8_t *data; // the document inserted, or {q, u, ...}, or {q, limit}
  uint32_t len;
  int32_t stmt_id;
};

struct write_command {
  enum write_kind kind;
  const char *db, *coll, *ns;
  bool ordered;
  bool creates; // an insert or an upsert is among the statements
  struct write_statement *statements;
  size_t n;
  const bson_t *base; // the command without its statements: what every child repeats
};

struct write_error {
  size_t index;
  struct error error;
};

struct write_concern_error {
  const char *shard;
  int32_t code;
  const bson_t *doc;
};

// Sums over all children. Lists grow in `arena`.
struct write_result {
  struct arena *arena;
  int64_t n, n_modified;
  struct {
    size_t index;
    bson_value_t id;
  } * upserted;
  size_t n_upserted, cap_upserted;
  struct write_error *errors;
  size_t n_errors, cap_errors;
  struct map *error_places; // statement -> place in errors
  struct write_concern_error *concern_errors;
  size_t n_concern_errors, cap_concern_errors;
  int32_t *retried;
  size_t n_retried, cap_retried;
};

// Reads a client's command in either form (array or kind-1 section).
bool write_command_parse(struct request *r, enum write_kind kind, struct write_command *out, struct error *err);

// Routes and executes. false: the command as a whole failed (nothing of *out is to be shown).
bool write_execute(struct request *r, const struct write_command *w, struct write_result *out, struct error *err);

void write_result_init(struct write_result *x, struct arena *a);
void write_result_upserted(struct write_result *x, size_t index, const bson_value_t *id);
// A second error of the same statement (from another shard) joins the first.
void write_result_error(struct write_result *x, size_t index, const struct error *err);
// Adds a child's successful reply; ops gives the client's number of each of its statements, stmt_ids likewise.
void write_result_add(struct write_result *x, const bson_t *reply, const size_t *ops, size_t n_ops, const char *shard);
// writeConcernError of the children, if any.
void write_result_append_concern_error(const struct write_result *x, bson_t *reply);
// Takes over the write concern errors of another result in the same arena.
void write_result_take_concern_errors(struct write_result *x, const struct write_result *from);
// The fields of the client's reply, in their order (sharding.md 7.2), without ok.
void write_result_append(struct write_result *x, enum write_kind kind, bool ordered, bson_t *reply);

// "documents", "updates", "deletes".
const char *write_statements_field(enum write_kind kind);

#endif
