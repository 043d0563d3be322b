// The table of stages.
#include <string.h>

#include "common/query/pipeline/stage.h"

static const struct stage_type types[] = {
    {.name = "$match", .parse = match_parse_stage, .next = match_next},
    {.name = "$project", .parse = project_parse, .next = project_next},
    {.name = "$addFields", .parse = add_fields_parse, .next = add_fields_next},
    {.name = "$set", .parse = add_fields_parse, .next = add_fields_next},
    {.name = "$unset", .parse = unset_parse, .next = project_next},
    {.name = "$replaceRoot", .parse = replace_root_parse, .next = replace_root_next},
    {.name = "$replaceWith", .parse = replace_with_parse, .next = replace_root_next},
    {.name = "$unwind", .parse = unwind_parse, .next = unwind_next},
    {.name = "$group", .parse = group_parse, .next = group_next, .split = SPLIT_GROUP},
    {.name = "$sort", .parse = sort_parse_stage, .next = sort_next, .split = SPLIT_SORT},
    {.name = "$limit", .parse = limit_parse, .next = limit_next, .split = SPLIT_LIMIT},
    {.name = "$skip", .parse = skip_parse, .next = skip_next, .split = SPLIT_SKIP},
    // Shards that hold less give as many documents as shards that hold more: a sample, though not an even one.
    {.name = "$sample", .parse = sample_parse, .next = sample_next, .split = SPLIT_BOTH},
    {.name = "$facet", .parse = facet_parse, .next = facet_next, .split = SPLIT_MERGER},
    // Stand for others.
    {.name = "$count", .parse = count_parse},
    {.name = "$sortByCount", .parse = sort_by_count_parse},
    {.name = "$bucket", .parse = bucket_parse},
    // Whoever runs the pipeline makes their documents.
    {.name = "$collStats", .parse = pass_parse, .next = pass_next, .initial = true},
    {.name = "$indexStats", .parse = pass_parse, .next = pass_next, .initial = true},
    {.name = "$documents", .parse = pass_parse, .next = pass_next, .initial = true},
    {.name = "$currentOp", .parse = pass_parse, .next = pass_next, .initial = true},
    {.name = "$listSessions", .parse = pass_parse, .next = pass_next, .initial = true},
    {.name = "$listLocalSessions", .parse = pass_parse, .next = pass_next, .initial = true},
    {.name = "$shardedDataDistribution", .parse = pass_parse, .next = pass_next, .initial = true},
    {.name = "$listClusterCatalog", .parse = pass_parse, .next = pass_next, .initial = true},
    {.name = "$changeStream", .parse = pass_parse, .next = pass_next, .initial = true},
    {.name = "$out", .parse = pass_parse, .next = pass_next, .split = SPLIT_MERGER, .writing = true},
    {.name = "$merge", .parse = pass_parse, .next = pass_next, .split = SPLIT_MERGER, .writing = true},
    // MongoDB has them, this project has not.
    {.name = "$lookup", .refused = true},
    {.name = "$graphLookup", .refused = true},
    {.name = "$unionWith", .refused = true},
    {.name = "$setWindowFields", .refused = true},
    {.name = "$bucketAuto", .refused = true},
    {.name = "$densify", .refused = true},
    {.name = "$fill", .refused = true},
    {.name = "$geoNear", .refused = true},
    {.name = "$redact", .refused = true},
    {.name = "$planCacheStats", .refused = true},
    {.name = "$querySettings", .refused = true},
    {.name = "$queryStats", .refused = true},
    {.name = "$search", .refused = true},
    {.name = "$searchMeta", .refused = true},
    {.name = "$vectorSearch", .refused = true},
    {.name = "$changeStreamSplitLargeEvent", .refused = true},
    {.name = "$listSampledQueries", .refused = true},
    {.name = "$listSearchIndexes", .refused = true},
};

const struct stage_type *stage_type_find(const char *name) {
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    if (strcmp(types[i].name, name) == 0) return &types[i];
  }
  return NULL;
}
