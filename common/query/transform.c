// Stages that make one document of each.
#include "common/query/transform.h"

#include <string.h>

#include "common/query/projection_internal.h"
#include "common/query/type_names.h"
#include "common/query/values.h"

struct transform {
  const struct projection *projection; // or
  const struct expression *root;       // the new document
  const char *stage;
};

static bool needs_document(const char *stage, const bson_value_t *spec, int code, struct error *err) {
  if (value_is_doc(spec)) return true;
  return error_set(err, code, "%s specification stage must be an object, got %s", stage, type_name(spec->value_type));
}

typedef bool parse_stage(struct arena *a, struct transform *t, const bson_value_t *spec, struct variables *vars,
                         struct error *err);

static bool parse_project(struct arena *a, struct transform *t, const bson_value_t *spec, struct variables *vars,
                          struct error *err) {
  bson_t doc;
  if (!value_is_doc(spec)) return error_set(err, 15969, "$project specification must be an object");
  doc_view(&doc, spec->value.v_doc.data, spec->value.v_doc.data_len);
  t->projection = projection_parse_stage(a, &doc, vars, err);
  return t->projection || (err && err->code == 51272 ? false : error_prefix(err, "Invalid $project"));
}

static bool parse_add(struct arena *a, struct transform *t, const bson_value_t *spec, struct variables *vars,
                      struct error *err) {
  bson_t doc;
  if (!needs_document(t->stage, spec, 40272, err)) return false;
  doc_view(&doc, spec->value.v_doc.data, spec->value.v_doc.data_len);
  t->projection = projection_parse_add(a, &doc, vars, err);
  return t->projection || (err && err->code == 40177 ? false : error_prefix(err, "Invalid %s", t->stage));
}

static bool parse_unset(struct arena *a, struct transform *t, const bson_value_t *spec, struct variables *vars,
                        struct error *err) {
  t->projection = projection_parse_unset(a, spec, err);
  return t->projection != NULL;
}

static bool parse_replace_with(struct arena *a, struct transform *t, const bson_value_t *spec, struct variables *vars,
                               struct error *err) {
  t->root = expression_parse(a, spec, vars, err);
  return t->root != NULL;
}

static bool parse_replace_root(struct arena *a, struct transform *t, const bson_value_t *spec, struct variables *vars,
                               struct error *err) {
  bson_iter_t it;
  if (!needs_document("$replaceRoot", spec, 40229, err)) return false;
  if (!value_iter(spec, &it) || !bson_iter_next(&it)) {
    return error_set(err, 40414, "BSON field '$replaceRoot.newRoot' is missing but a required field");
  }
  if (strcmp(bson_iter_key(&it), "newRoot") != 0) {
    return error_set(err, 40415, "BSON field '$replaceRoot.%s' is an unknown field.", bson_iter_key(&it));
  }
  return parse_replace_with(a, t, bson_iter_value(&it), vars, err);
}

static const struct {
  const char *name;
  parse_stage *parse;
} STAGES[] = {
    {"$project", parse_project},
    {"$addFields", parse_add},
    {"$set", parse_add},
    {"$unset", parse_unset},
    {"$replaceRoot", parse_replace_root},
    {"$replaceWith", parse_replace_with},
};
enum { STAGE_COUNT = sizeof STAGES / sizeof *STAGES };

static size_t find_stage(const char *name) {
  size_t i = 0;
  while (i < STAGE_COUNT && strcmp(STAGES[i].name, name) != 0) i++;
  return i;
}

bool transform_is_stage(const char *name) {
  return find_stage(name) < STAGE_COUNT;
}

struct transform *transform_parse(struct arena *a, const char *stage, const bson_value_t *spec, struct variables *vars,
                                  struct error *err) {
  size_t i = find_stage(stage);
  if (i == STAGE_COUNT) {
    error_set(err, 40324, "Unrecognized pipeline stage name: '%s'", stage);
    return NULL;
  }
  struct transform *t = arena_zalloc(a, sizeof *t);
  t->stage = STAGES[i].name;
  return STAGES[i].parse(a, t, spec, vars, err) ? t : NULL;
}

bool transform_apply(const struct transform *t, struct arena *scratch, const bson_t *doc, const bson_t **out,
                     struct error *err) {
  if (t->projection) {
    bson_t *projected = arena_bson(scratch);
    *out = projected;
    return projection_apply(t->projection, scratch, doc, projected, err);
  }
  bson_value_t v;
  if (!expression_eval(t->root, scratch, doc, &v, err)) return false;
  if (!value_is_doc(&v)) {
    return error_set(err, 40228,
                     "'newRoot' expression must evaluate to an object, but resulting value was: %s. Type of resulting "
                     "value: '%s'. Input document: %s",
                     value_is_missing(&v) ? "MISSING" : value_text(scratch, &v), type_name(v.value_type),
                     doc_text(scratch, doc));
  }
  *out = arena_bson_view(scratch, v.value.v_doc.data, v.value.v_doc.data_len);
  return true;
}
