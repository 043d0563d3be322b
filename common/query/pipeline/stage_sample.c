// $sample: a random choice of documents (reservoir sampling: one pass, every document with the same chance).
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/query/pipeline/pipeline_internal.h"

struct kept {
  uint8_t *data;
  size_t len;
};

struct sample {
  int64_t size;
  struct kept *docs;
  size_t n, cap, bytes, next;
  bool collected;
};

static void free_sample(void *arg) {
  struct sample *x = arg;
  for (size_t i = 0; i < x->n; i++) free(x->docs[i].data);
  free(x->docs);
}

static bool parse_sample(struct stage_parser *p, struct stage *s, bool *added) {
  struct sample *x = arena_zalloc(p->arena, sizeof *x);
  bson_iter_t it;
  bool given = false;
  s->state = x;
  arena_on_free(p->arena, free_sample, x);
  if (!value_is_doc(&s->spec)) return error_set(p->err, 28745, "the $sample stage specification must be an object");
  for (value_iter(&s->spec, &it); bson_iter_next(&it); given = true) {
    const bson_value_t *v = bson_iter_value(&it);
    if (strcmp(bson_iter_key(&it), "size") != 0) {
      return error_set(p->err, 28748, "unrecognized option to $sample: %s", bson_iter_key(&it));
    }
    if (!value_is_number(v)) return error_set(p->err, 28746, "size argument to $sample must be a number");
    x->size = value_i64(v);
    if (x->size <= 0) return error_set(p->err, 28747, "size argument to $sample must be a positive integer");
  }
  return given || error_set(p->err, 28749, "$sample stage must specify a size");
}

static uint64_t random_below(uint64_t n) {
  return (uint64_t)(((unsigned __int128)random_u64() * n) >> 64);
}

static bool keep(struct stage *s, struct sample *x, size_t at, const bson_t *doc, struct error *err) {
  uint8_t *copy = malloc(doc->len);
  if (!copy) return stage_memory_exceeded(s, err);
  memcpy(copy, bson_get_data(doc), doc->len);
  x->bytes += doc->len;
  if (at == x->n) {
    x->docs = array_grow(x->docs, &x->cap, x->n + 1, sizeof *x->docs);
    x->n++;
  } else {
    x->bytes -= x->docs[at].len;
    free(x->docs[at].data);
  }
  x->docs[at] = (struct kept){copy, doc->len};
  return x->bytes <= PIPELINE_STAGE_MAX_BYTES || stage_memory_exceeded(s, err);
}

static bool collect(struct stage *s, struct sample *x, struct error *err) {
  const bson_t *doc;
  for (uint64_t seen = 1;; seen++) {
    if (!stage_pull(s, &doc, err)) return false;
    if (!doc) break;
    uint64_t at = seen <= (uint64_t)x->size ? seen - 1 : random_below(seen);
    if (at < (uint64_t)x->size && !keep(s, x, (size_t)at, doc, err)) return false;
  }
  for (size_t i = x->n; i > 1; i--) { // the order is random too
    size_t k = (size_t)random_below(i);
    struct kept t = x->docs[i - 1];
    x->docs[i - 1] = x->docs[k];
    x->docs[k] = t;
  }
  x->collected = true;
  return true;
}

static bool next_sample(struct stage *s, const bson_t **doc, struct error *err) {
  struct sample *x = s->state;
  if (!x->collected && !collect(s, x, err)) return false;
  arena_reset(s->scratch);
  *doc = NULL;
  if (x->next == x->n) return true;
  *doc = arena_bson_view(s->scratch, x->docs[x->next].data, x->docs[x->next].len);
  x->next++;
  return true;
}

const struct stage_type STAGES_SAMPLE[] = {
    {"$sample", parse_sample, next_sample, .placement = PLACE_MERGER, .on_router = true},
    {NULL},
};
