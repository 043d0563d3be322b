// Splits a pipeline between shards and a router (reference: the aggregation rows of MongoDB's sharded behaviour).
//
// Stages that look at one document at a time run on the shards, up to the first one that needs all documents; that one
// is divided as its placement says, and everything behind it runs on the router.
#include <string.h>

#include "common/query/pipeline/pipeline_internal.h"

struct halves {
  struct arena *arena;
  bson_t *shards, *merger;
  uint32_t n_shards, n_merger;
  const struct sort *merge_sort;
};

static void append_stage(bson_t *to, uint32_t *n, const char *name, const bson_value_t *spec) {
  char text[16];
  const char *key;
  bson_t stage;
  bson_uint32_to_string((*n)++, &key, text, sizeof text);
  bson_append_document_begin(to, key, -1, &stage);
  doc_append_value(&stage, name, spec);
  bson_append_document_end(to, &stage);
}

static void to_shards(struct halves *h, const struct stage *s) {
  append_stage(h->shards, &h->n_shards, s->type->name, &s->spec);
}

static void to_merger(struct halves *h, const struct stage *s) {
  append_stage(h->merger, &h->n_merger, s->type->name, &s->spec);
}

static void limit_shards(struct halves *h, int64_t limit) {
  bson_value_t n = value_int64(limit);
  append_stage(h->shards, &h->n_shards, "$limit", &n);
}

static void split_group(struct halves *h, const struct stage *s) {
  char text[16];
  const char *key;
  bson_t stage;
  bson_uint32_to_string(h->n_shards++, &key, text, sizeof text);
  bson_append_document_begin(h->shards, key, -1, &stage);
  stage_group_partial(s, &stage);
  bson_append_document_end(h->shards, &stage);
  bson_uint32_to_string(h->n_merger++, &key, text, sizeof text);
  bson_append_document_begin(h->merger, key, -1, &stage);
  stage_group_merge(s, &stage);
  bson_append_document_end(h->merger, &stage);
}

// How many documents a $skip at `i` and a $limit right behind it need at most; 0 = all.
static int64_t needed_behind_skip(const struct pipeline *p, size_t i) {
  int64_t n = 0;
  for (; i < p->n; i++) {
    int64_t skip = stage_skip_of(p->stages[i]), limit = stage_limit_of(p->stages[i]);
    if (limit) return __builtin_add_overflow(n, limit, &n) ? 0 : n;
    if (strcmp(p->stages[i]->type->name, "$skip") != 0 || __builtin_add_overflow(n, skip, &n)) return 0;
  }
  return 0;
}

// Divides the stage that ends the shards' part. Returns where the router goes on.
static size_t divide(struct halves *h, const struct pipeline *p, size_t i) {
  const struct stage *s = p->stages[i];
  int64_t limit = 0;
  switch (s->type->placement) {
  case PLACE_GROUP: split_group(h, s); return i + 1;
  case PLACE_SORT:
    to_shards(h, s);
    h->merge_sort = stage_sort_of(s, &limit);
    if (limit) limit_shards(h, limit);
    return i + 1;
  case PLACE_LIMIT: to_shards(h, s); return i;
  case PLACE_SKIP:
    limit = needed_behind_skip(p, i);
    if (limit) limit_shards(h, limit);
    return i;
  default: return i;
  }
}

// An $unwind at the end of the shards' part only multiplies what goes over the network.
static size_t without_final_unwinds(const struct pipeline *p, size_t end) {
  while (end > p->first && strcmp(p->stages[end - 1]->type->name, "$unwind") == 0) end--;
  return end;
}

void pipeline_split(struct arena *a, const struct pipeline *p, struct pipeline_split *out) {
  struct halves h = {.arena = a, .shards = arena_bson(a), .merger = arena_bson(a)};
  size_t end = p->first;
  while (end < p->n && p->stages[end]->type->placement == PLACE_SHARDS) end++;
  bool divided = end < p->n;
  bool keeps_all = divided && p->stages[end]->type->placement == PLACE_MERGER;
  size_t on_shards = keeps_all ? without_final_unwinds(p, end) : end;
  for (size_t i = p->first; i < on_shards; i++) to_shards(&h, p->stages[i]);
  for (size_t i = on_shards; i < end; i++) to_merger(&h, p->stages[i]);
  if (divided) {
    for (size_t i = divide(&h, p, end); i < p->n; i++) to_merger(&h, p->stages[i]);
  }
  *out = (struct pipeline_split){h.shards, h.merger, h.merge_sort ? sort_pattern(h.merge_sort) : NULL};
}
