// Pipelines: parsing, what the caller takes over, running.
#include <string.h>

#include "common/query/match_internal.h"
#include "common/query/pipeline/pipeline_internal.h"
#include "common/query/variables.h"

// --- parsing ---

static const struct stage_type *find_in(const struct stage_type *table, const char *name) {
  for (; table->name; table++) {
    if (strcmp(table->name, name) == 0) return table;
  }
  return NULL;
}

static const struct stage_type *find_stage(const char *name) {
  const struct stage_type *const tables[] = {STAGES_SIMPLE, STAGES_GROUP,  STAGES_DERIVED, STAGES_UNWIND,
                                             STAGES_FACET,  STAGES_SAMPLE, STAGES_EXTERNAL};
  for (size_t i = 0; i < sizeof tables / sizeof(const struct stage_type *); i++) {
    const struct stage_type *t = find_in(tables[i], name);
    if (t) return t;
  }
  return NULL;
}

static void free_scratch(void *arg) {
  struct stage *s = arg;
  arena_free(s->scratch);
}

static bool check_place(struct stage_parser *p, const struct stage_type *type) {
  const struct pipeline *pipe = p->pipeline;
  if (type->refused) return error_set(p->err, ERR_CommandNotSupported, "%s is not supported", type->name);
  if (p->inside_facet && (type->initial || type->writes || strcmp(type->name, "$facet") == 0)) {
    return error_set(p->err, 40600, "%s is not allowed to be used within a $facet stage", type->name);
  }
  if (type->initial && pipe->n > 0) {
    return error_set(p->err, 40602, "%s is only valid as the first stage in a pipeline", type->name);
  }
  if (pipe->n > 0 && pipe->stages[pipe->n - 1]->type->writes) {
    return error_set(p->err, 40601, "%s can only be the final stage in the pipeline",
                     pipe->stages[pipe->n - 1]->type->name);
  }
  return true;
}

bool pipeline_add_stage(struct stage_parser *p, const char *name, const bson_value_t *spec) {
  struct pipeline *pipe = p->pipeline;
  const struct stage_type *type = find_stage(name);
  if (!type) return error_set(p->err, 40324, "Unrecognized pipeline stage name: '%s'", name);
  if (!check_place(p, type)) return false;
  struct stage *s = arena_zalloc(p->arena, sizeof *s);
  s->type = type;
  s->pipeline = pipe;
  s->spec = value_copy(p->arena, spec);
  bool added = false;
  if (type->parse && !type->parse(p, s, &added)) return false;
  if (added) return true; // other stages stand for it
  pipe->stages = arena_grow(p->arena, pipe->stages, pipe->n, &pipe->cap, sizeof *pipe->stages);
  s->at = pipe->n;
  s->scratch = arena_new();
  arena_on_free(p->arena, free_scratch, s);
  pipe->stages[pipe->n++] = s;
  return true;
}

static bool add_element(struct stage_parser *p, const bson_value_t *element) {
  bson_iter_t it;
  if (!value_is_doc(element)) {
    return error_set(p->err, ERR_TypeMismatch, "Each element of the 'pipeline' array must be an object");
  }
  if (!value_iter(element, &it) || !bson_iter_next(&it)) {
    return error_set(p->err, 40323, "A pipeline stage specification object must contain exactly one field.");
  }
  bson_iter_t more = it;
  if (bson_iter_next(&more)) {
    return error_set(p->err, 40323, "A pipeline stage specification object must contain exactly one field.");
  }
  const char *name = bson_iter_key(&it);
  return pipeline_add_stage(p, name, bson_iter_value(&it));
}

// A $sort needs to keep no more than the $limit behind it lets through (and the $skip between them skips).
static void limit_sorts(struct pipeline *p) {
  for (size_t i = 0; i < p->n; i++) {
    int64_t skipped = 0, limit = 0;
    if (!stage_sort_of(p->stages[i], &limit)) continue;
    for (size_t k = i + 1; k < p->n; k++) {
      int64_t skip = stage_skip_of(p->stages[k]), n = stage_limit_of(p->stages[k]);
      if (n) {
        if (!__builtin_add_overflow(skipped, n, &n)) stage_sort_set_limit(p->stages[i], n);
        break;
      }
      if (!skip || __builtin_add_overflow(skipped, skip, &skipped)) break;
    }
  }
}

struct pipeline *pipeline_parse_stages(struct stage_parser *outer, const bson_t *stages) {
  struct stage_parser p = *outer;
  struct pipeline *pipe = arena_zalloc(p.arena, sizeof *pipe);
  pipe->arena = p.arena;
  pipe->vars = p.vars;
  p.pipeline = pipe;
  if (bson_count_keys(stages) > PIPELINE_MAX_STAGES) {
    error_set(p.err, 7749501, "Pipeline length must be no longer than %d stages", PIPELINE_MAX_STAGES);
    return NULL;
  }
  bson_iter_t it;
  if (!bson_iter_init(&it, stages)) return pipe;
  while (bson_iter_next(&it)) {
    if (!add_element(&p, bson_iter_value(&it))) return NULL;
  }
  limit_sorts(pipe);
  return pipe;
}

struct pipeline *pipeline_parse(struct arena *a, const bson_t *stages, struct variables *vars, struct error *err) {
  struct stage_parser p = {.arena = a, .vars = vars, .err = err};
  return pipeline_parse_stages(&p, stages);
}

// --- what the caller takes over ---

const char *pipeline_initial_stage(const struct pipeline *p, bson_value_t *argument) {
  if (p->n == 0 || !p->stages[0]->type->initial) return NULL;
  if (argument) *argument = p->stages[0]->spec;
  return p->stages[0]->type->name;
}

const char *pipeline_writing_stage(const struct pipeline *p, bson_value_t *argument) {
  if (p->n == 0 || !p->stages[p->n - 1]->type->writes) return NULL;
  if (argument) *argument = p->stages[p->n - 1]->spec;
  return p->stages[p->n - 1]->type->name;
}

static bool is_stage(const struct pipeline *p, size_t i, const char *name) {
  return i < p->n && strcmp(p->stages[i]->type->name, name) == 0;
}

const bson_t *pipeline_take_match(struct pipeline *p) {
  size_t from = p->first;
  while (is_stage(p, p->first, "$match")) p->first++;
  if (p->first == from + 1) {
    const bson_value_t *filter = &p->stages[from]->spec;
    return arena_bson_view(p->arena, filter->value.v_doc.data, filter->value.v_doc.data_len);
  }
  bson_t *all = arena_bson(p->arena), list;
  if (p->first == from) return all;
  bson_append_array_begin(all, "$and", -1, &list);
  for (size_t i = from; i < p->first; i++) {
    char text[16];
    const char *key;
    bson_uint32_to_string((uint32_t)(i - from), &key, text, sizeof text);
    doc_append_value(&list, key, &p->stages[i]->spec);
  }
  bson_append_array_end(all, &list);
  return all;
}

bool pipeline_leading_sort(const struct pipeline *p, const bson_t **sort, int64_t *limit) {
  const struct sort *s = p->first < p->n ? stage_sort_of(p->stages[p->first], limit) : NULL;
  if (s) *sort = sort_pattern(s);
  return s != NULL;
}

void pipeline_drop_leading_sort(struct pipeline *p) {
  int64_t limit;
  if (p->first < p->n && stage_sort_of(p->stages[p->first], &limit)) p->first++;
}

int64_t pipeline_source_limit(const struct pipeline *p) {
  int64_t skipped = 0;
  for (size_t i = p->first; i < p->n; i++) {
    int64_t n = stage_limit_of(p->stages[i]), skip = stage_skip_of(p->stages[i]);
    if (n) return __builtin_add_overflow(skipped, n, &n) ? 0 : n;
    if (!skip || __builtin_add_overflow(skipped, skip, &skipped)) return 0;
  }
  return 0;
}

bool pipeline_runs_anywhere(const struct pipeline *p) {
  for (size_t i = 0; i < p->n; i++) {
    if (!p->stages[i]->type->on_router) return false;
  }
  return true;
}

// --- running ---

void pipeline_start(struct pipeline *p, struct doc_source source) {
  p->source = source;
}

static bool pull_from(struct pipeline *p, size_t end, const bson_t **doc, struct error *err) {
  while (end > p->first && !p->stages[end - 1]->type->next) end--; // those that pass on what they get
  if (end > p->first) return p->stages[end - 1]->type->next(p->stages[end - 1], doc, err);
  *doc = NULL;
  return !p->source.next || p->source.next(p->source.ctx, doc, err);
}

bool stage_pull(struct stage *s, const bson_t **doc, struct error *err) {
  arena_reset(s->scratch);
  return pull_from(s->pipeline, s->at, doc, err);
}

bool pipeline_next(struct pipeline *p, const bson_t **doc, struct error *err) {
  return pull_from(p, p->n, doc, err);
}

bool stage_memory_exceeded(const struct stage *s, struct error *err) {
  return error_set(err, ERR_QueryExceededMemoryLimitNoDiskUseAllowed,
                   "Exceeded memory limit for %s, %d bytes, and spilling to disk is not supported", s->type->name,
                   PIPELINE_STAGE_MAX_BYTES);
}

// --- description ---

void pipeline_describe(const struct pipeline *p, bson_t *array) {
  for (size_t i = 0; i < p->n; i++) {
    const struct stage *s = p->stages[i];
    char text[16];
    const char *key;
    bson_t stage;
    bson_uint32_to_string((uint32_t)i, &key, text, sizeof text);
    bson_append_document_begin(array, key, -1, &stage);
    if (s->type->describe)
      s->type->describe(s, &stage);
    else
      doc_append_value(&stage, s->type->name, &s->spec);
    bson_append_document_end(array, &stage);
  }
}
