// Single writes whose filter does not say where the document is: first find one, then write to its shard.
//
//   probe    with a txnNumber: every shard is asked whether it executed this statement before (a retry must not choose
//            another document): the same statement with a filter that nothing matches, answered from the record
//   find     {_id, shard key} of one matching document
//   write    to its shard, with the client's filter and that _id and key: if it no longer matches, find again
//   upsert   when nothing matched: the new document is made here and written to the shard that owns its key
#ifndef SHARDLET_MONGOS_TWO_PHASE_H
#define SHARDLET_MONGOS_TWO_PHASE_H

#include "common/query/update.h"
#include "mongos/shard_call.h"
#include "mongos/write_target.h"

enum { TWO_PHASE_TRIES = 20 };

// One matching document's place.
struct found_document {
  bool found;
  const bson_t *key;    // {_id: ..., <shard key fields>}
  struct target target; // its shard
};

// sort NULL = any. command: the document whose let, collation and readConcern-free options apply.
bool two_phase_find(struct request *r, const struct placement *p, const struct filter_spec *f, const bson_t *sort,
                    struct found_document *out, struct error *err);

// {$and: [filter, {_id: {$eq: ..}, key: {$eq: ..}...}]}
const bson_t *two_phase_filter(struct arena *a, const bson_t *filter, const struct found_document *d);
// A filter that nothing matches.
const bson_t *two_phase_no_match(struct arena *a);

// The document that an upsert inserts, the filter {_id, shard key} that names it, and where it belongs.
struct upsert_document {
  const bson_t *doc, *filter;
  struct target target;
};
bool two_phase_upsert(struct arena *a, const struct placement *p, const struct filter_spec *f,
                      const bson_value_t *update, const bson_t *array_filters, struct upsert_document *out,
                      struct error *err);

// Whether a shard's reply is from its record of an earlier execution of the same statement.
bool reply_is_retried(const bson_t *reply);

// A statement of an update or delete command. Adds what became of it to *out; false: it failed (maybe as stale).
bool two_phase_write(struct request *r, const struct write_command *w, size_t op, const struct placement *p,
                     struct write_result *out, struct error *err);

#endif
