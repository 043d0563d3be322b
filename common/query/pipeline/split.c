// Splitting a pipeline over a sharded collection: what runs on the shards, what on the merger.
//
// Stages stay on the shards until the first that has to see all documents together; that one is split according to its
// kind, everything behind it runs on the merger.
#include <stdio.h>
#include <string.h>

#include "common/query/pipeline/stage.h"

struct splitting {
  struct arena *arena;
  const struct pipeline *p;
  const bson_t **shards, **merger; // stages
  size_t n_shards, n_merger;
  const bson_t *merge_sort;
};

static const bson_t *single(struct arena *a, const char *name, int64_t n) {
  bson_t *spec = arena_bson(a);
  BSON_APPEND_INT64(spec, name, n);
  return spec;
}

// {$group: {..., <mark>: true}}
static const bson_t *marked_group(struct arena *a, const struct stage *s, const char *mark) {
  bson_value_t argument = stage_argument(s);
  bson_t *spec = arena_bson(a), group, inner;
  doc_view(&inner, argument.value.v_doc.data, argument.value.v_doc.data_len);
  BSON_APPEND_DOCUMENT_BEGIN(spec, "$group", &group);
  bson_concat(&group, &inner);
  BSON_APPEND_BOOL(&group, mark, true);
  bson_append_document_end(spec, &group);
  return spec;
}

// {$group: {_id: "$_id", total: {$sum: "$total"}, $doingMerge: true}}
static const bson_t *merging_group(struct arena *a, const struct stage *s) {
  bson_value_t argument = stage_argument(s);
  bson_t *spec = arena_bson(a), group;
  bson_iter_t it, accumulator;
  BSON_APPEND_DOCUMENT_BEGIN(spec, "$group", &group);
  for (value_iter(&argument, &it); bson_iter_next(&it);) {
    const char *field = bson_iter_key(&it), *path = arena_printf(a, "$%s", field);
    if (strcmp(field, "_id") == 0) {
      BSON_APPEND_UTF8(&group, "_id", path);
      continue;
    }
    bson_t one;
    if (!bson_iter_recurse(&it, &accumulator) || !bson_iter_next(&accumulator)) continue;
    BSON_APPEND_DOCUMENT_BEGIN(&group, field, &one);
    BSON_APPEND_UTF8(&one, bson_iter_key(&accumulator), path);
    bson_append_document_end(&group, &one);
  }
  BSON_APPEND_BOOL(&group, "$doingMerge", true);
  bson_append_document_end(spec, &group);
  return spec;
}

// What a $limit at `at`, perhaps with a $skip before it, lets through at most; 0 = everything.
static int64_t limit_behind(const struct pipeline *p, size_t at) {
  int64_t skip = 0;
  if (at < p->n && p->stages[at]->type->split == SPLIT_SKIP) skip = limit_of(p->stages[at++]);
  if (at >= p->n || p->stages[at]->type->split != SPLIT_LIMIT) return 0;
  int64_t limit = limit_of(p->stages[at]);
  return limit < INT64_MAX - skip ? limit + skip : 0;
}

static void to_shards(struct splitting *x, const bson_t *spec) {
  x->shards[x->n_shards++] = spec;
}

static void to_merger(struct splitting *x, const bson_t *spec) {
  x->merger[x->n_merger++] = spec;
}

// The stage at which the pipeline is cut.
static void split_at(struct splitting *x, size_t at) {
  const struct stage *s = x->p->stages[at];
  int64_t limit;
  switch (s->type->split) {
  case SPLIT_GROUP:
    to_shards(x, marked_group(x->arena, s, "$willBeMerged"));
    to_merger(x, merging_group(x->arena, s));
    break;
  case SPLIT_SORT: {
    bson_value_t pattern = stage_argument(s);
    to_shards(x, s->spec);
    x->merge_sort = arena_bson_view(x->arena, pattern.value.v_doc.data, pattern.value.v_doc.data_len);
    limit = limit_behind(x->p, at + 1);
    if (limit) to_shards(x, single(x->arena, "$limit", limit));
    break;
  }
  case SPLIT_SKIP:
    limit = limit_behind(x->p, at);
    if (limit) to_shards(x, single(x->arena, "$limit", limit));
    to_merger(x, s->spec);
    break;
  case SPLIT_LIMIT:
  case SPLIT_BOTH:
    to_shards(x, s->spec);
    to_merger(x, s->spec);
    break;
  default: to_merger(x, s->spec); break;
  }
}

// An $unwind at the end of the shards' part only makes more documents to send: the merger does it.
static void move_unwinds(struct splitting *x) {
  size_t n = 0;
  while (n < x->n_shards && bson_has_field(x->shards[x->n_shards - 1 - n], "$unwind")) n++;
  if (!n || x->n_shards == n || x->n_merger == 0) return;
  memmove(x->merger + n, x->merger, x->n_merger * sizeof(bson_t *));
  memcpy(x->merger, x->shards + x->n_shards - n, n * sizeof(bson_t *));
  x->n_shards -= n;
  x->n_merger += n;
}

static const bson_t *as_array(struct arena *a, const bson_t *const *stages, size_t n) {
  bson_t *array = arena_bson(a);
  for (size_t i = 0; i < n; i++) {
    char key[16];
    const char *k;
    bson_uint32_to_string((uint32_t)i, &k, key, sizeof key);
    BSON_APPEND_DOCUMENT(array, k, stages[i]);
  }
  return array;
}

void pipeline_split(struct arena *a, const struct pipeline *p, struct pipeline_split *out) {
  struct splitting x = {.arena = a, .p = p};
  x.shards = arena_zalloc(a, (2 * p->n + 2) * sizeof(bson_t *));
  x.merger = arena_zalloc(a, (2 * p->n + 2) * sizeof(bson_t *));
  size_t at = 0;
  while (at < p->n && p->stages[at]->type->split == SPLIT_SHARDS) to_shards(&x, p->stages[at++]->spec);
  if (at < p->n) split_at(&x, at++);
  while (at < p->n) to_merger(&x, p->stages[at++]->spec);
  if (!x.merge_sort) move_unwinds(&x);
  out->shards = as_array(a, x.shards, x.n_shards);
  out->merger = as_array(a, x.merger, x.n_merger);
  out->merge_sort = x.merge_sort;
}
