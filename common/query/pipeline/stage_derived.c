// Stages that stand for others ($count, $sortByCount, $bucket) and $facet, which runs pipelines of its own.
#include <string.h>

#include "common/bson/compare.h"
#include "common/query/pipeline/stage.h"
#include "common/query/type_names.h"

bool count_parse(struct stage_parser *p, struct stage *s, const bson_value_t *argument) {
  if (!value_is_string(argument)) return error_set(p->err, 40156, "the count field must be a non-empty string");
  const char *name = argument->value.v_utf8.str;
  if (!*name) return error_set(p->err, 40157, "the count field must be a non-empty string");
  if (name[0] == '$') return error_set(p->err, 40158, "the count field cannot be a $-prefixed path");
  if (strlen(name) != argument->value.v_utf8.len)
    return error_set(p->err, 40159, "the count field cannot contain a null byte");
  if (strchr(name, '.')) return error_set(p->err, 40160, "the count field cannot contain '.'");
  bson_t *group = BCON_NEW("$group", "{", "_id", BCON_NULL, name, "{", "$sum", BCON_INT32(1), "}", "}");
  bson_t *project = BCON_NEW("$project", "{", "_id", BCON_BOOL(false), "}");
  bool ok = pipeline_add(p, group) && pipeline_add(p, project);
  bson_destroy(group);
  bson_destroy(project);
  return ok;
}

bool sort_by_count_parse(struct stage_parser *p, struct stage *s, const bson_value_t *argument) {
  bool expression = value_is_doc(argument) || (value_is_string(argument) && argument->value.v_utf8.str[0] == '$');
  if (!expression)
    return error_set(p->err, 40148,
                     "the sortByCount field must be defined as a $-prefixed path or an expression inside an object");
  bson_t *spec = arena_bson(p->arena), group;
  BSON_APPEND_DOCUMENT_BEGIN(spec, "$group", &group);
  bson_append_value(&group, "_id", -1, argument);
  bson_t *count = BCON_NEW("$sum", BCON_INT32(1));
  BSON_APPEND_DOCUMENT(&group, "count", count);
  bson_destroy(count);
  bson_append_document_end(spec, &group);
  bson_t *sort = BCON_NEW("$sort", "{", "count", BCON_INT32(-1), "}");
  bool ok = pipeline_add(p, spec) && pipeline_add(p, sort);
  bson_destroy(sort);
  return ok;
}

// --- $bucket: a group by a $switch over the boundaries ---

static void append_literal(bson_t *to, const char *name, const bson_value_t *v) {
  bson_t literal;
  BSON_APPEND_DOCUMENT_BEGIN(to, name, &literal);
  bson_append_value(&literal, "$literal", -1, v);
  bson_append_document_end(to, &literal);
}

static void append_comparison(bson_t *to, const char *name, const char *op, const bson_value_t *value,
                              const bson_value_t *bound) {
  bson_t comparison, args;
  BSON_APPEND_DOCUMENT_BEGIN(to, name, &comparison);
  BSON_APPEND_ARRAY_BEGIN(&comparison, op, &args);
  bson_append_value(&args, "0", 1, value);
  append_literal(&args, "1", bound);
  bson_append_array_end(&comparison, &args);
  bson_append_document_end(to, &comparison);
}

static void append_branch(bson_t *branches, uint32_t i, const bson_value_t *by, const bson_value_t *low,
                          const bson_value_t *high) {
  char key[16];
  const char *k;
  bson_t branch, condition, both;
  bson_uint32_to_string(i, &k, key, sizeof key);
  BSON_APPEND_DOCUMENT_BEGIN(branches, k, &branch);
  BSON_APPEND_DOCUMENT_BEGIN(&branch, "case", &condition);
  BSON_APPEND_ARRAY_BEGIN(&condition, "$and", &both);
  append_comparison(&both, "0", "$gte", by, low);
  append_comparison(&both, "1", "$lt", by, high);
  bson_append_array_end(&condition, &both);
  bson_append_document_end(&branch, &condition);
  append_literal(&branch, "then", low);
  bson_append_document_end(branches, &branch);
}

static bool check_boundaries(struct stage_parser *p, const bson_value_t *boundaries) {
  bson_iter_t it;
  bson_value_t previous = value_missing();
  size_t n = 0;
  if (!value_is_array(boundaries))
    return error_set(p->err, 40200, "The $bucket 'boundaries' field must be an array, but found type: %s.",
                     type_name(boundaries->value_type));
  for (value_iter(boundaries, &it); bson_iter_next(&it); n++) {
    const bson_value_t *v = bson_iter_value(&it);
    if (n && value_canonical_type(v->value_type) != value_canonical_type(previous.value_type)) {
      return error_set(p->err, 40193, "All values in the 'boundaries' option to $bucket must have the same type.");
    }
    if (n && value_compare(&previous, v) >= 0) {
      return error_set(
          p->err, 40194,
          "The 'boundaries' option to $bucket must be sorted, but elements %zu and %zu are not in ascending order",
          n - 1, n);
    }
    previous = *v;
  }
  return n >= 2 || error_set(p->err, 40192,
                             "The $bucket 'boundaries' field must have at least 2 values, but found %zu value(s).", n);
}

static const bson_t *bucket_group(struct stage_parser *p, const bson_t *spec, const bson_value_t *by,
                                  const bson_value_t *boundaries) {
  bson_t *stage = arena_bson(p->arena), group, id, choice, branches, output;
  bson_value_t otherwise;
  bson_iter_t it;
  BSON_APPEND_DOCUMENT_BEGIN(stage, "$group", &group);
  BSON_APPEND_DOCUMENT_BEGIN(&group, "_id", &id);
  BSON_APPEND_DOCUMENT_BEGIN(&id, "$switch", &choice);
  BSON_APPEND_ARRAY_BEGIN(&choice, "branches", &branches);
  bson_value_t low = value_missing();
  uint32_t n = 0;
  for (value_iter(boundaries, &it); bson_iter_next(&it); low = *bson_iter_value(&it)) {
    if (!value_is_missing(&low)) append_branch(&branches, n++, by, &low, bson_iter_value(&it));
  }
  bson_append_array_end(&choice, &branches);
  if (doc_value(spec, "default", &otherwise)) append_literal(&choice, "default", &otherwise);
  bson_append_document_end(&id, &choice);
  bson_append_document_end(&group, &id);
  if (doc_doc(spec, "output", &output)) {
    bson_concat(&group, &output);
  } else {
    bson_t *count = BCON_NEW("$sum", BCON_INT32(1));
    BSON_APPEND_DOCUMENT(&group, "count", count);
    bson_destroy(count);
  }
  bson_append_document_end(stage, &group);
  return stage;
}

bool bucket_parse(struct stage_parser *p, struct stage *s, const bson_value_t *argument) {
  bson_t spec;
  bson_value_t by, boundaries;
  if (!value_is_doc(argument))
    return error_set(p->err, 40201, "Argument to $bucket stage must be an object, but found type: %s.",
                     type_name(argument->value_type));
  doc_view(&spec, argument->value.v_doc.data, argument->value.v_doc.data_len);
  if (!doc_value(&spec, "groupBy", &by) || !doc_value(&spec, "boundaries", &boundaries)) {
    return error_set(p->err, 40198, "$bucket requires 'groupBy' and 'boundaries' to be specified.");
  }
  if (!check_boundaries(p, &boundaries)) return false;
  bson_t *sort = BCON_NEW("$sort", "{", "_id", BCON_INT32(1), "}");
  bool ok = pipeline_add(p, bucket_group(p, &spec, &by, &boundaries)) && pipeline_add(p, sort);
  bson_destroy(sort);
  return ok;
}

// --- $facet: the input is kept, each pipeline runs over all of it ---

struct facet {
  const char *name;
  struct pipeline *pipeline;
};

struct faceting {
  struct facet *facets;
  size_t n;
  const bson_t **docs;
  size_t n_docs, cap_docs, at;
  bool given;
};

bool facet_parse(struct stage_parser *p, struct stage *s, const bson_value_t *argument) {
  struct faceting *f = arena_zalloc(p->arena, sizeof *f);
  s->state = f;
  bson_iter_t it;
  size_t n = 0;
  if (!value_is_doc(argument)) return error_set(p->err, 40169, "the $facet specification must be a non-empty object");
  for (value_iter(argument, &it); bson_iter_next(&it);) n++;
  if (!n) return error_set(p->err, 40169, "the $facet specification must be a non-empty object");
  f->facets = arena_zalloc(p->arena, n * sizeof *f->facets);
  for (value_iter(argument, &it); bson_iter_next(&it);) {
    const char *name = bson_iter_key(&it);
    bson_value_t unused;
    bson_t stages;
    if (!BSON_ITER_HOLDS_ARRAY(&it))
      return error_set(p->err, 40170, "arguments to $facet must be arrays, %s is type %s", name,
                       type_name(bson_iter_type(&it)));
    iter_doc(&stages, &it);
    struct facet *one = &f->facets[f->n++];
    one->name = arena_strdup(p->arena, name);
    one->pipeline = pipeline_parse(p->arena, &stages, p->vars, p->err);
    if (!one->pipeline) return false;
    const char *bad = pipeline_initial_stage(one->pipeline, &unused);
    if (!bad) bad = pipeline_writing_stage(one->pipeline, &unused);
    if (bad) return error_set(p->err, 40600, "%s is not allowed to be used within a $facet stage", bad);
  }
  return true;
}

static bool keep_input(struct stage *s, struct faceting *f, struct error *err) {
  struct arena *a = s->pipeline->arena;
  size_t bytes = 0;
  for (;;) {
    const bson_t *input;
    if (!stage_input(s, &input, err)) return false;
    if (!input) return true;
    bytes += input->len;
    if (bytes > STAGE_MEMORY_LIMIT) {
      return error_set(err, ERR_QueryExceededMemoryLimitNoDiskUseAllowed, "$facet keeps more than %d bytes",
                       STAGE_MEMORY_LIMIT);
    }
    if (f->n_docs == f->cap_docs) {
      size_t cap = f->cap_docs ? f->cap_docs * 2 : 64;
      const bson_t **grown = arena_alloc(a, cap * sizeof(bson_t *));
      if (f->n_docs) memcpy(grown, f->docs, f->n_docs * sizeof(bson_t *));
      f->docs = grown;
      f->cap_docs = cap;
    }
    f->docs[f->n_docs++] = arena_bson_copy(a, bson_get_data(input), input->len);
  }
}

static bool next_kept(void *ctx, const bson_t **doc, struct error *err) {
  struct faceting *f = ctx;
  *doc = f->at < f->n_docs ? f->docs[f->at++] : NULL;
  return true;
}

static bool append_facet(struct faceting *f, const struct facet *one, bson_t *to, struct error *err) {
  bson_t array;
  f->at = 0;
  pipeline_start(one->pipeline, (struct doc_source){.next = next_kept, .ctx = f});
  BSON_APPEND_ARRAY_BEGIN(to, one->name, &array);
  bool ok = true;
  for (uint32_t n = 0;; n++) {
    const bson_t *doc;
    char key[16];
    const char *k;
    ok = pipeline_next(one->pipeline, &doc, err);
    if (!ok || !doc) break;
    bson_uint32_to_string(n, &k, key, sizeof key);
    BSON_APPEND_DOCUMENT(&array, k, doc);
  }
  bson_append_array_end(to, &array);
  return ok;
}

bool facet_next(struct stage *s, const bson_t **doc, struct error *err) {
  struct faceting *f = s->state;
  *doc = NULL;
  if (f->given) return true;
  f->given = true;
  if (!keep_input(s, f, err)) return false;
  bson_t *result = arena_bson(s->scratch);
  for (size_t i = 0; i < f->n; i++) {
    if (!append_facet(f, &f->facets[i], result, err)) return false;
  }
  if (result->len > DOC_MAX_BYTES) {
    return error_set(err, 4031700, "document constructed by $facet is %u bytes, which exceeds the limit of %d bytes",
                     result->len, DOC_MAX_BYTES);
  }
  *doc = result;
  return true;
}
