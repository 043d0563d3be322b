// Aggregation pipelines: pull-based stages over a source of documents.
//
// Pure: a pipeline knows documents, not storage or network. Whoever runs it gives a source and, for stages that need
// more than documents ($collStats, $lookup, $out, $currentOp...), a set of hooks. A source may yield; stages keep no
// state that a yield could invalidate.
#ifndef SHARDLET_QUERY_PIPELINE_H
#define SHARDLET_QUERY_PIPELINE_H

#include "common/query/expression.h"
#include "common/query/match.h"
#include "common/query/sort.h"

// Gives the next document (valid until the next call) or sets *doc to NULL at the end. ctx is the source's own.
struct doc_source {
  bool (*next)(void *ctx, const bson_t **doc, struct error *err);
  void *ctx;
};

struct pipeline;

// Parses `stages` (an array). err: 40324 "Unrecognized pipeline stage name: '$foo'", or a stage's own.
// Stages that only the caller can produce documents for ($collStats, $indexStats, $currentOp, $listSessions,
// $shardedDataDistribution, $documents, $changeStream...) are recognised as `initial`: see below.
struct pipeline *pipeline_parse(struct arena *a, const bson_t *stages, struct variables *vars, struct error *err);

// The first stage when it produces its own documents, e.g. "$collStats" with its argument; NULL when the source is a
// collection.
const char *pipeline_initial_stage(const struct pipeline *p, bson_value_t *argument);
// The last stage when it writes ("$out", "$merge"); NULL otherwise.
const char *pipeline_writing_stage(const struct pipeline *p, bson_value_t *argument);

// Leading $match stages joined, which the caller answers from an index; the pipeline then skips them. May be empty.
const bson_t *pipeline_take_match(struct pipeline *p);
// A leading $sort (after the matches), with the limit that follows it (0 = none), which the caller may answer from an
// index.
bool pipeline_leading_sort(const struct pipeline *p, const bson_t **sort, int64_t *limit);
void pipeline_drop_leading_sort(struct pipeline *p); // ... when it did
// The number of documents needed at most from the source (a leading $limit), 0 = all.
int64_t pipeline_source_limit(const struct pipeline *p);

// Splits for a sharded collection (reference/sharding.md 6.2): `shards` runs on every shard, `merger` on the router
// over the shards' results. merge_sort: the pattern by which the shards' streams are to be merged first, or NULL. Both
// are arrays of stages, made from the parsed form. A pipeline that needs no merging has an empty merger.
struct pipeline_split {
  const bson_t *shards, *merger;
  const bson_t *merge_sort;
};
void pipeline_split(struct arena *a, const struct pipeline *p, struct pipeline_split *out);

// Runs: pull documents until *doc is NULL. Memory limit 100 MiB a blocking stage (292).
void pipeline_start(struct pipeline *p, struct doc_source source);
bool pipeline_next(struct pipeline *p, const bson_t **doc, struct error *err);

// The stages as an array, in MongoDB's serialised form, for explain.
void pipeline_describe(const struct pipeline *p, bson_t *array);

// Whether every stage can run on a router.
bool pipeline_runs_anywhere(const struct pipeline *p);

#endif
