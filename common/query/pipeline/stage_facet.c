// $facet: several pipelines over the same documents, their results as arrays of one document.
#include <stdlib.h>
#include <string.h>

#include "common/query/pipeline/pipeline_internal.h"

struct facet {
  const char *name;
  struct pipeline *pipeline;
  struct facet *next;
};

struct kept {
  uint8_t *data;
  size_t len;
};

struct facet_stage {
  struct facet *first;
  struct kept *docs; // all input documents
  size_t n, cap, bytes;
  size_t at; // of the facet that reads them
  bson_t *current;
  bool done;
};

static void free_facet(void *arg) {
  struct facet_stage *f = arg;
  for (size_t i = 0; i < f->n; i++) free(f->docs[i].data);
  free(f->docs);
}

static bool parse_facet(struct stage_parser *p, struct stage *s, bool *added) {
  struct facet_stage *f = arena_zalloc(p->arena, sizeof *f);
  struct facet **last = &f->first;
  bson_iter_t it;
  s->state = f;
  arena_on_free(p->arena, free_facet, f);
  if (!value_is_doc(&s->spec) || !value_iter(&s->spec, &it) || s->spec.value.v_doc.data_len <= 5) {
    return error_set(p->err, 40169, "the $facet specification must be a non-empty object");
  }
  while (bson_iter_next(&it)) {
    bson_t stages;
    const char *name = bson_iter_key(&it);
    if (!BSON_ITER_HOLDS_ARRAY(&it)) {
      return error_set(p->err, 40170, "arguments to $facet must be arrays, %s is not", name);
    }
    if (name[0] == '$' || strchr(name, '.')) {
      return error_set(p->err, 40170, "the name of a facet may not begin with '$' or contain '.': %s", name);
    }
    iter_doc(&stages, &it);
    struct stage_parser inner = *p;
    inner.inside_facet = true;
    struct facet *one = arena_zalloc(p->arena, sizeof *one);
    one->name = arena_strdup(p->arena, name);
    one->pipeline = pipeline_parse_stages(&inner, &stages);
    if (!one->pipeline) return false;
    *last = one;
    last = &one->next;
  }
  return true;
}

static bool keep_all(struct stage *s, struct facet_stage *f, struct error *err) {
  const bson_t *doc;
  for (;;) {
    if (!stage_pull(s, &doc, err)) return false;
    if (!doc) return true;
    f->bytes += doc->len + sizeof *f->docs;
    if (f->bytes > PIPELINE_STAGE_MAX_BYTES) return stage_memory_exceeded(s, err);
    f->docs = array_grow(f->docs, &f->cap, f->n + 1, sizeof *f->docs);
    uint8_t *copy = malloc(doc->len);
    if (!copy) return stage_memory_exceeded(s, err);
    memcpy(copy, bson_get_data(doc), doc->len);
    f->docs[f->n++] = (struct kept){copy, doc->len};
  }
}

static bool next_kept(void *ctx, const bson_t **doc, struct error *err) {
  struct facet_stage *f = ctx;
  *doc = NULL;
  if (f->at == f->n) return true;
  doc_view(f->current, f->docs[f->at].data, f->docs[f->at].len);
  f->at++;
  *doc = f->current;
  return true;
}

static bool run_facet(struct facet_stage *f, const struct facet *one, bson_t *out, struct error *err) {
  bson_t list;
  const bson_t *doc;
  bool ok = true;
  f->at = 0;
  pipeline_start(one->pipeline, (struct doc_source){next_kept, f});
  bson_append_array_begin(out, one->name, -1, &list);
  for (uint32_t i = 0; (ok = pipeline_next(one->pipeline, &doc, err)) && doc; i++) {
    char text[16];
    const char *key;
    bson_uint32_to_string(i, &key, text, sizeof text);
    if (list.len + doc->len > (size_t)DOC_MAX_BYTES) {
      ok = error_set(err, ERR_BSONObjectTooLarge, "the result of the facet '%s' is larger than 16 MB", one->name);
      break;
    }
    bson_append_document(&list, key, -1, doc);
  }
  bson_append_array_end(out, &list);
  return ok;
}

static bool next_facet(struct stage *s, const bson_t **doc, struct error *err) {
  struct facet_stage *f = s->state;
  *doc = NULL;
  if (f->done) return true;
  if (!keep_all(s, f, err)) return false;
  arena_reset(s->scratch);
  bson_t *out = arena_bson(s->scratch);
  f->current = arena_bson(s->scratch);
  f->done = true;
  for (const struct facet *one = f->first; one; one = one->next) {
    if (!run_facet(f, one, out, err)) return false;
  }
  if (out->len > DOC_MAX_BYTES)
    return error_set(err, ERR_BSONObjectTooLarge, "the result of $facet is larger than 16 MB");
  *doc = out;
  return true;
}

const struct stage_type STAGES_FACET[] = {
    {"$facet", parse_facet, next_facet, .placement = PLACE_MERGER, .on_router = true},
    {NULL},
};
