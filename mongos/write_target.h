// Where each statement of a write goes (reference/sharding.md 6.3).
#ifndef SHARDLET_MONGOS_WRITE_TARGET_H
#define SHARDLET_MONGOS_WRITE_TARGET_H

#include "mongos/write_command.h"

struct write_targeter {
  const struct write_command *w;
  const struct placement *p;
  struct arena *scratch; // of the statement at hand
  struct target one;     // the last single target: statements in a row often have the same
};

// A batch_target_fn: ctx is a struct write_targeter. Statements that need two phases come out `alone`.
bool write_target(void *ctx, size_t op, struct batch_targeting *out, struct error *err);

// An update's or delete's parts; views are filled in place.
struct write_query {
  bson_t statement, filter;
  bson_value_t update; // of an update: document or array
  bool multi, upsert, replacement;
};
bool write_query_parse(enum write_kind kind, const struct write_statement *s, struct write_query *out,
                       struct error *err);

#endif
