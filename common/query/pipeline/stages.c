// The plain stages: $match, $sort, $limit, $skip, and those that make one document of each.
#include <string.h>

#include "common/query/pipeline/pipeline_internal.h"
#include "common/query/transform.h"
#include "common/query/variables.h"

// --- $match ---

static bool parse_match(struct stage_parser *p, struct stage *s, bool *added) {
  if (!value_is_doc(&s->spec)) return error_set(p->err, 15959, "the match filter must be an expression in an object");
  bson_t filter;
  doc_view(&filter, s->spec.value.v_doc.data, s->spec.value.v_doc.data_len);
  struct match_options o = {.let = p->vars ? p->vars->let : NULL, .now_ms = p->vars ? p->vars->now_ms : 0};
  s->state = match_parse(p->arena, &filter, &o, p->err);
  return s->state != NULL;
}

static bool next_match(struct stage *s, const bson_t **doc, struct error *err) {
  const struct match *m = s->state;
  for (;;) {
    if (!stage_pull(s, doc, err)) return false;
    if (!*doc || match_doc(m, *doc)) return true;
    if (!match_ok(m, err)) return false;
  }
}

// --- $sort: blocking ---

struct sort_stage {
  struct sort *sort;
  int64_t limit; // 0 = none
  struct sorter *sorter;
};

static bool parse_sort(struct stage_parser *p, struct stage *s, bool *added) {
  if (!value_is_doc(&s->spec)) return error_set(p->err, 15973, "the $sort key specification must be an object");
  bson_t pattern;
  doc_view(&pattern, s->spec.value.v_doc.data, s->spec.value.v_doc.data_len);
  if (bson_empty(&pattern)) return error_set(p->err, 15976, "$sort stage must have at least one sort key");
  struct sort_stage *state = arena_zalloc(p->arena, sizeof *state);
  state->sort = sort_parse(p->arena, &pattern, p->err);
  s->state = state;
  return state->sort != NULL;
}

static bool next_sort(struct stage *s, const bson_t **doc, struct error *err) {
  struct sort_stage *state = s->state;
  if (!state->sorter) {
    size_t limit = state->limit > 0 && (uint64_t)state->limit < SIZE_MAX ? (size_t)state->limit : 0;
    struct sorter *sorter = sorter_new(s->pipeline->arena, state->sort, limit);
    for (;;) {
      if (!stage_pull(s, doc, err)) return false;
      if (!*doc) break;
      if (!sorter_add(sorter, *doc, err)) return false;
    }
    sorter_finish(sorter);
    state->sorter = sorter;
  }
  *doc = sorter_next(state->sorter);
  return true;
}

static void describe_sort(const struct stage *s, bson_t *out) {
  const struct sort_stage *state = s->state;
  bson_t inside;
  bson_append_document_begin(out, "$sort", -1, &inside);
  bson_append_document(&inside, "sortKey", -1, sort_pattern(state->sort));
  if (state->limit) bson_append_int64(&inside, "limit", -1, state->limit);
  bson_append_document_end(out, &inside);
}

const struct sort *stage_sort_of(const struct stage *s, int64_t *limit) {
  if (s->type->parse != parse_sort) return NULL;
  const struct sort_stage *state = s->state;
  *limit = state->limit;
  return state->sort;
}

void stage_sort_set_limit(struct stage *s, int64_t limit) {
  struct sort_stage *state = s->state;
  state->limit = limit;
}

// --- $limit, $skip ---

struct counter {
  int64_t n, seen;
};

static bool count_of(struct stage_parser *p, const struct stage *s, int code, int64_t *n) {
  const char *name = s->type->name;
  if (!value_is_number(&s->spec)) {
    return error_set(p->err, code, "invalid argument to %s stage: Expected a number in: %s: %s", name, name,
                     value_text(p->arena, &s->spec));
  }
  if (!value_is_integral(&s->spec, n)) {
    return error_set(p->err, code, "invalid argument to %s stage: Expected an integer: %s: %s", name, name,
                     value_text(p->arena, &s->spec));
  }
  if (*n < 0) {
    return error_set(p->err, code, "invalid argument to %s stage: Expected a non-negative number in: %s: %s", name,
                     name, value_text(p->arena, &s->spec));
  }
  return true;
}

static bool parse_limit(struct stage_parser *p, struct stage *s, bool *added) {
  struct counter *c = arena_zalloc(p->arena, sizeof *c);
  s->state = c;
  if (!count_of(p, s, 5107201, &c->n)) return false;
  return c->n > 0 || error_set(p->err, 15958, "the limit must be positive");
}

static bool next_limit(struct stage *s, const bson_t **doc, struct error *err) {
  struct counter *c = s->state;
  *doc = NULL;
  if (c->seen == c->n) return true; // the source is not asked again
  c->seen++;
  return stage_pull(s, doc, err);
}

static bool parse_skip(struct stage_parser *p, struct stage *s, bool *added) {
  struct counter *c = arena_zalloc(p->arena, sizeof *c);
  s->state = c;
  return count_of(p, s, 5107200, &c->n);
}

static bool next_skip(struct stage *s, const bson_t **doc, struct error *err) {
  struct counter *c = s->state;
  for (; c->seen < c->n; c->seen++) {
    if (!stage_pull(s, doc, err)) return false;
    if (!*doc) return true;
  }
  return stage_pull(s, doc, err);
}

int64_t stage_limit_of(const struct stage *s) {
  return s->type->parse == parse_limit ? ((const struct counter *)s->state)->n : 0;
}

int64_t stage_skip_of(const struct stage *s) {
  return s->type->parse == parse_skip ? ((const struct counter *)s->state)->n : 0;
}

// --- $project, $addFields, $set, $unset, $replaceRoot, $replaceWith ---

static bool parse_transform(struct stage_parser *p, struct stage *s, bool *added) {
  s->state = transform_parse(p->arena, s->type->name, &s->spec, p->vars, p->err);
  return s->state != NULL;
}

static bool next_transform(struct stage *s, const bson_t **doc, struct error *err) {
  if (!stage_pull(s, doc, err)) return false;
  return !*doc || transform_apply(s->state, s->scratch, *doc, doc, err);
}

const struct stage_type STAGES_SIMPLE[] = {
    {"$match", parse_match, next_match, .on_router = true},
    {"$sort", parse_sort, next_sort, describe_sort, PLACE_SORT, .on_router = true},
    {"$limit", parse_limit, next_limit, .placement = PLACE_LIMIT, .on_router = true},
    {"$skip", parse_skip, next_skip, .placement = PLACE_SKIP, .on_router = true},
    {"$project", parse_transform, next_transform, .on_router = true},
    {"$addFields", parse_transform, next_transform, .on_router = true},
    {"$set", parse_transform, next_transform, .on_router = true},
    {"$unset", parse_transform, next_transform, .on_router = true},
    {"$replaceRoot", parse_transform, next_transform, .on_router = true},
    {"$replaceWith", parse_transform, next_transform, .on_router = true},
    {NULL},
};
