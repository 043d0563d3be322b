// What a stage is. A stage is one parse function, one next function and one line in the table of stages.c.
#ifndef SHARDLET_QUERY_PIPELINE_STAGE_H
#define SHARDLET_QUERY_PIPELINE_STAGE_H

#include "common/query/pipeline/pipeline.h"
#include "common/query/values.h"

enum { STAGE_MEMORY_LIMIT = 100 * 1024 * 1024 }; // of a stage that has to keep documents

enum stage_split { // what becomes of a stage when its collection is on several shards
  SPLIT_SHARDS,    // runs on the shards, document by document
  SPLIT_GROUP,     // partial groups there, merged here
  SPLIT_SORT,      // sorted there, merged here
  SPLIT_LIMIT,     // on both
  SPLIT_SKIP,      // here; a limit behind it is raised and sent along
  SPLIT_BOTH,      // the same stage on both
  SPLIT_MERGER,    // here, with everything behind it
};

struct stage;

struct stage_parser {
  struct arena *arena;
  struct variables *vars;
  struct pipeline *pipeline; // to add desugared stages to
  struct error *err;
};

struct stage_type {
  const char *name;
  bool (*parse)(struct stage_parser *p, struct stage *s, const bson_value_t *argument);
  bool (*next)(struct stage *s, const bson_t **doc, struct error *err);
  enum stage_split split;
  bool initial, writing, refused;
};

struct stage {
  const struct stage_type *type;
  const bson_t *spec;   // {$name: argument}, as it goes to shards and into explain
  struct stage *source; // NULL: the pipeline's doc_source
  struct pipeline *pipeline;
  struct arena *scratch; // of the document it gave last
  void *state;           // the type's own
};

struct pipeline {
  struct arena *arena;
  struct variables *vars;
  struct stage **stages;
  size_t n, cap;
  struct doc_source source;
  struct stage *last; // to pull from; NULL when there is no stage
};

const struct stage_type *stage_type_find(const char *name);
// Parses one stage {$name: argument} and adds it (and what it stands for) to the pipeline.
bool pipeline_add(struct stage_parser *p, const bson_t *spec);
// The next document of the stage before this one.
bool stage_input(struct stage *s, const bson_t **doc, struct error *err);
// The argument of stage i's spec.
bson_value_t stage_argument(const struct stage *s);
struct match_options stage_match_options(const struct variables *vars);

// *out = doc with the value at a dotted path: a missing v removes it, paths through arrays apply to each element.
void document_set(bson_t *out, const bson_t *doc, const char *path, const bson_value_t *v);

// --- types, by file ---
bool match_parse_stage(struct stage_parser *p, struct stage *s, const bson_value_t *argument);
bool match_next(struct stage *s, const bson_t **doc, struct error *err);
bool project_parse(struct stage_parser *p, struct stage *s, const bson_value_t *argument);
bool project_next(struct stage *s, const bson_t **doc, struct error *err);
bool unset_parse(struct stage_parser *p, struct stage *s, const bson_value_t *argument);
bool add_fields_parse(struct stage_parser *p, struct stage *s, const bson_value_t *argument);
bool add_fields_next(struct stage *s, const bson_t **doc, struct error *err);
bool replace_root_parse(struct stage_parser *p, struct stage *s, const bson_value_t *argument);
bool replace_with_parse(struct stage_parser *p, struct stage *s, const bson_value_t *argument);
bool replace_root_next(struct stage *s, const bson_t **doc, struct error *err);
bool unwind_parse(struct stage_parser *p, struct stage *s, const bson_value_t *argument);
bool unwind_next(struct stage *s, const bson_t **doc, struct error *err);
bool limit_parse(struct stage_parser *p, struct stage *s, const bson_value_t *argument);
bool limit_next(struct stage *s, const bson_t **doc, struct error *err);
int64_t limit_of(const struct stage *s);
bool skip_parse(struct stage_parser *p, struct stage *s, const bson_value_t *argument);
bool skip_next(struct stage *s, const bson_t **doc, struct error *err);
bool sort_parse_stage(struct stage_parser *p, struct stage *s, const bson_value_t *argument);
bool sort_next(struct stage *s, const bson_t **doc, struct error *err);
void sort_set_limit(struct stage *s, int64_t limit);
bool sample_parse(struct stage_parser *p, struct stage *s, const bson_value_t *argument);
bool sample_next(struct stage *s, const bson_t **doc, struct error *err);
bool group_parse(struct stage_parser *p, struct stage *s, const bson_value_t *argument);
bool group_next(struct stage *s, const bson_t **doc, struct error *err);
bool count_parse(struct stage_parser *p, struct stage *s, const bson_value_t *argument);
bool sort_by_count_parse(struct stage_parser *p, struct stage *s, const bson_value_t *argument);
bool bucket_parse(struct stage_parser *p, struct stage *s, const bson_value_t *argument);
bool facet_parse(struct stage_parser *p, struct stage *s, const bson_value_t *argument);
bool facet_next(struct stage *s, const bson_t **doc, struct error *err);
bool pass_parse(struct stage_parser *p, struct stage *s, const bson_value_t *argument); // initial and writing stages
bool pass_next(struct stage *s, const bson_t **doc, struct error *err);

#endif
