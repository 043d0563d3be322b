// Pieces of aggregate that its files and explain share.
#ifndef SHARDLET_MONGOS_AGGREGATE_H
#define SHARDLET_MONGOS_AGGREGATE_H

#include "common/query/pipeline/pipeline.h"
#include "mongos/router_cursor.h"

// A request's pipeline, parsed into `a` (which must live as long as it is used).
struct pipeline *aggregate_parse(struct arena *a, const bson_t *stages, const bson_t *let, struct error *err);

// What a pipeline asks of a collection's shards.
struct aggregate_plan {
  const bson_t *filter; // its leading $match stages, for targeting
  const char *initial;  // "$collStats"...: produced by every shard that has a part; NULL = documents
  bson_value_t initial_argument;
  struct pipeline_split split; // when several shards answer, or `initial` is set
};
// err: CommandNotSupported for $out and $merge, and for what only replica sets have.
bool aggregate_plan(struct arena *a, const bson_t *stages, const bson_t *let, struct aggregate_plan *out,
                    struct error *err);

// The command for each of several shards: the client's with the shards' part of the pipeline.
bson_t *aggregate_for_shards(struct arena *a, const bson_t *body, const struct aggregate_plan *plan);

// {aggregate: 1}: pipelines that begin with a stage of the router's own.
bool run_aggregate_database(struct request *r, const bson_t *stages, bson_t *reply, struct error *err);
// Rows of $shardedDataDistribution.
bool data_distribution(struct request *r, const bson_t ***rows, size_t *n, struct error *err);
// Rows of $currentOp.
void current_operations(struct request *r, const bson_t ***rows, size_t *n);

#endif
