// Stages: how they are parsed, run, described and split. A stage is one table line (struct stage_type) with its
// functions.
#ifndef SHARDLET_QUERY_PIPELINE_INTERNAL_H
#define SHARDLET_QUERY_PIPELINE_INTERNAL_H

#include "common/query/pipeline/pipeline.h"
#include "common/query/values.h"

enum { PIPELINE_STAGE_MAX_BYTES = 100 * 1024 * 1024, PIPELINE_MAX_STAGES = 1000 };

struct stage;

struct stage_parser {
  struct arena *arena;
  struct pipeline *pipeline;
  struct variables *vars;
  bool inside_facet;
  struct error *err;
};

// What happens to a stage when the pipeline is split between shards and a router.
enum stage_placement {
  PLACE_SHARDS, // runs on each shard by itself
  PLACE_GROUP,  // a partial group on the shards, a merging one on the router
  PLACE_SORT,   // sorted on the shards, merged on the router
  PLACE_LIMIT,  // on both
  PLACE_SKIP,   // on the router; with a limit behind it the shards give no more than is needed
  PLACE_MERGER, // on the router, as is everything behind it
};

struct stage_type {
  const char *name;
  // Prepares s->state from s->spec, or adds other stages instead (*added).
  bool (*parse)(struct stage_parser *p, struct stage *s, bool *added);
  // The next document, valid until the next call; *doc NULL at the end. NULL: passes its source's documents on.
  bool (*next)(struct stage *s, const bson_t **doc, struct error *err);
  void (*describe)(const struct stage *s, bson_t *out); // NULL: {name: spec}
  enum stage_placement placement;
  bool initial; // only as the first stage: produces documents
  bool writes;  // only as the last stage
  bool on_router;
  bool refused; // known to MongoDB, not to us
};

struct stage {
  const struct stage_type *type;
  struct pipeline *pipeline;
  bson_value_t spec;
  void *state;
  struct arena *scratch; // of the document given out last; emptied by stage_pull()
  size_t at;             // in the pipeline
};

struct pipeline {
  struct arena *arena;
  struct variables *vars;
  struct stage **stages;
  size_t n, cap;
  size_t first; // stages before this one were taken over by the caller
  struct doc_source source;
};

extern const struct stage_type STAGES_SIMPLE[];   // stages.c: $match, $sort, $limit, $skip, $project...
extern const struct stage_type STAGES_GROUP[];    // stage_group.c
extern const struct stage_type STAGES_DERIVED[];  // stages_derived.c: $count, $sortByCount, $bucket
extern const struct stage_type STAGES_UNWIND[];   // stage_unwind.c
extern const struct stage_type STAGES_FACET[];    // stage_facet.c
extern const struct stage_type STAGES_SAMPLE[];   // stage_sample.c
extern const struct stage_type STAGES_EXTERNAL[]; // stages_external.c: initial and writing stages, refused ones

// Adds a stage {name: spec} behind those that are there; spec is copied.
bool pipeline_add_stage(struct stage_parser *p, const char *name, const bson_value_t *spec);
struct pipeline *pipeline_parse_stages(struct stage_parser *outer, const bson_t *stages);

// The next document of the stage before; empties the stage's scratch first.
bool stage_pull(struct stage *s, const bson_t **doc, struct error *err);

bool stage_memory_exceeded(const struct stage *s, struct error *err); // sets error 292, returns false

// $sort and $limit, for splitting and for those who sort by index.
const struct sort *stage_sort_of(const struct stage *s, int64_t *limit); // NULL: no $sort
int64_t stage_limit_of(const struct stage *s);                           // 0: no $limit
int64_t stage_skip_of(const struct stage *s);                            // 0: no $skip
void stage_sort_set_limit(struct stage *s, int64_t limit);

// The two halves of a $group, as specifications.
void stage_group_partial(const struct stage *s, bson_t *out);
void stage_group_merge(const struct stage *s, bson_t *out);

#endif
