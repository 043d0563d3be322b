// Parsing a pipeline, looking at it from outside, and running it.
#include "common/query/pipeline/pipeline.h"

#include <string.h>

#include "common/query/pipeline/stage.h"
#include "common/query/variables.h"

enum { MAX_STAGES = 1000 }; // as MongoDB's internalPipelineLengthLimit

static void free_scratch(void *arg) {
  arena_free(arg);
}

struct match_options stage_match_options(const struct variables *vars) {
  return (struct match_options){.let = vars ? vars->let : NULL, .now_ms = vars ? vars->now_ms : 0};
}

bson_value_t stage_argument(const struct stage *s) {
  bson_iter_t it;
  return bson_iter_init(&it, s->spec) && bson_iter_next(&it) ? *bson_iter_value(&it) : value_missing();
}

static void append_stage(struct pipeline *p, struct stage *s) {
  if (p->n == p->cap) {
    size_t cap = p->cap ? p->cap * 2 : 8;
    struct stage **grown = arena_alloc(p->arena, cap * sizeof(struct stage *));
    if (p->n) memcpy(grown, p->stages, p->n * sizeof(struct stage *));
    p->stages = grown;
    p->cap = cap;
  }
  p->stages[p->n++] = s;
}

static bool check_place(struct stage_parser *p, const struct stage_type *type) {
  if (type->initial && p->pipeline->n) {
    return error_set(p->err, 40602, "%s is only valid as the first stage in a pipeline", type->name);
  }
  if (p->pipeline->n && p->pipeline->stages[p->pipeline->n - 1]->type->writing) {
    return error_set(p->err, 40601, "%s can only be the final stage in the pipeline",
                     p->pipeline->stages[p->pipeline->n - 1]->type->name);
  }
  return true;
}

bool pipeline_add(struct stage_parser *p, const bson_t *spec) {
  bson_iter_t it;
  if (bson_count_keys(spec) != 1 || !bson_iter_init(&it, spec) || !bson_iter_next(&it)) {
    return error_set(p->err, 40323, "A pipeline stage specification object must contain exactly one field.");
  }
  const char *name = bson_iter_key(&it);
  const struct stage_type *type = stage_type_find(name);
  if (!type) return error_set(p->err, 40324, "Unrecognized pipeline stage name: '%s'", name);
  if (type->refused) return error_set(p->err, ERR_CommandNotSupported, "The pipeline stage %s is not supported", name);
  if (!check_place(p, type)) return false;
  if (p->pipeline->n >= MAX_STAGES) {
    return error_set(p->err, 7749501, "Pipeline length must be no longer than %d stages", MAX_STAGES);
  }
  struct stage *s = arena_zalloc(p->arena, sizeof *s);
  s->type = type;
  s->pipeline = p->pipeline;
  s->spec = arena_bson_copy(p->arena, bson_get_data(spec), spec->len);
  bson_value_t argument = stage_argument(s);
  if (!type->parse(p, s, &argument)) return false;
  if (!type->next) return true; // it added the stages it stands for
  s->scratch = arena_new();
  arena_on_free(p->arena, free_scratch, s->scratch);
  append_stage(p->pipeline, s);
  return true;
}

struct pipeline *pipeline_parse(struct arena *a, const bson_t *stages, struct variables *vars, struct error *err) {
  struct pipeline *p = arena_zalloc(a, sizeof *p);
  p->arena = a;
  p->vars = vars;
  struct stage_parser parser = {.arena = a, .vars = vars, .pipeline = p, .err = err};
  bson_iter_t it;
  if (!bson_iter_init(&it, stages)) return p;
  while (bson_iter_next(&it)) {
    if (!BSON_ITER_HOLDS_DOCUMENT(&it)) {
      error_set(err, ERR_TypeMismatch, "Each element of the 'pipeline' array must be an object");
      return NULL;
    }
    bson_t spec;
    iter_doc(&spec, &it);
    if (!pipeline_add(&parser, &spec)) return NULL;
  }
  return p;
}

const char *pipeline_initial_stage(const struct pipeline *p, bson_value_t *argument) {
  if (!p->n || !p->stages[0]->type->initial) return NULL;
  *argument = stage_argument(p->stages[0]);
  return p->stages[0]->type->name;
}

const char *pipeline_writing_stage(const struct pipeline *p, bson_value_t *argument) {
  if (!p->n || !p->stages[p->n - 1]->type->writing) return NULL;
  *argument = stage_argument(p->stages[p->n - 1]);
  return p->stages[p->n - 1]->type->name;
}

static bool is_stage(const struct stage *s, const char *name) {
  return strcmp(s->type->name, name) == 0;
}

static void drop_leading(struct pipeline *p, size_t n) {
  p->n -= n;
  memmove(p->stages, p->stages + n, p->n * sizeof(struct stage *));
}

const bson_t *pipeline_take_match(struct pipeline *p) {
  size_t n = 0;
  while (n < p->n && is_stage(p->stages[n], "$match")) n++;
  bson_t *filter = arena_bson(p->arena);
  if (n == 1) {
    bson_value_t only = stage_argument(p->stages[0]);
    drop_leading(p, 1);
    return arena_bson_view(p->arena, only.value.v_doc.data, only.value.v_doc.data_len);
  }
  if (n > 1) {
    bson_t all;
    BSON_APPEND_ARRAY_BEGIN(filter, "$and", &all);
    for (size_t i = 0; i < n; i++) {
      char key[16];
      const char *k;
      bson_uint32_to_string((uint32_t)i, &k, key, sizeof key);
      bson_value_t one = stage_argument(p->stages[i]);
      bson_append_value(&all, k, -1, &one);
    }
    bson_append_array_end(filter, &all);
    drop_leading(p, n);
  }
  return filter;
}

bool pipeline_leading_sort(const struct pipeline *p, const bson_t **sort, int64_t *limit) {
  if (!p->n || !is_stage(p->stages[0], "$sort")) return false;
  bson_value_t argument = stage_argument(p->stages[0]);
  *sort = arena_bson_view(p->arena, argument.value.v_doc.data, argument.value.v_doc.data_len);
  *limit = p->n > 1 && is_stage(p->stages[1], "$limit") ? limit_of(p->stages[1]) : 0;
  return true;
}

void pipeline_drop_leading_sort(struct pipeline *p) {
  if (p->n && is_stage(p->stages[0], "$sort")) drop_leading(p, 1);
}

int64_t pipeline_source_limit(const struct pipeline *p) {
  return p->n && is_stage(p->stages[0], "$limit") ? limit_of(p->stages[0]) : 0;
}

// A sort needs to keep no more than what a limit behind it (and a skip between them) lets through.
static void limit_sorts(struct pipeline *p) {
  for (size_t i = 0; i + 1 < p->n; i++) {
    if (!is_stage(p->stages[i], "$sort")) continue;
    bool skips = is_stage(p->stages[i + 1], "$skip") && i + 2 < p->n;
    const struct stage *limit = p->stages[skips ? i + 2 : i + 1];
    if (!is_stage(limit, "$limit")) continue;
    int64_t skip = skips ? limit_of(p->stages[i + 1]) : 0;
    if (limit_of(limit) < INT64_MAX - skip) sort_set_limit(p->stages[i], limit_of(limit) + skip);
  }
}

void pipeline_start(struct pipeline *p, struct doc_source source) {
  p->source = source;
  limit_sorts(p);
  for (size_t i = 0; i < p->n; i++) p->stages[i]->source = i ? p->stages[i - 1] : NULL;
  p->last = p->n ? p->stages[p->n - 1] : NULL;
}

bool stage_input(struct stage *s, const bson_t **doc, struct error *err) {
  if (!s->source) return s->pipeline->source.next(s->pipeline->source.ctx, doc, err);
  return s->source->type->next(s->source, doc, err);
}

bool pipeline_next(struct pipeline *p, const bson_t **doc, struct error *err) {
  if (!p->last) return p->source.next(p->source.ctx, doc, err);
  return p->last->type->next(p->last, doc, err);
}

void pipeline_describe(const struct pipeline *p, bson_t *array) {
  for (size_t i = 0; i < p->n; i++) {
    char key[16];
    const char *k;
    bson_uint32_to_string((uint32_t)i, &k, key, sizeof key);
    BSON_APPEND_DOCUMENT(array, k, p->stages[i]->spec);
  }
}

bool pipeline_runs_anywhere(const struct pipeline *p) {
  for (size_t i = 0; i < p->n; i++) {
    if (p->stages[i]->type->initial || p->stages[i]->type->writing) return false;
  }
  return true;
}

bool pass_parse(struct stage_parser *p, struct stage *s, const bson_value_t *argument) {
  (void)p, (void)s, (void)argument; // whoever makes the documents looks at it
  return true;
}

bool pass_next(struct stage *s, const bson_t **doc, struct error *err) {
  return stage_input(s, doc, err);
}
