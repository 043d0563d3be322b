// Stages that make one document of one document: $match, $project, $unset, $addFields, $replaceRoot, $replaceWith.
#include <string.h>

#include "common/query/pipeline/stage.h"
#include "common/query/projection.h"
#include "common/query/type_names.h"

bool match_parse_stage(struct stage_parser *p, struct stage *s, const bson_value_t *argument) {
  if (!value_is_doc(argument)) return error_set(p->err, 15959, "the match filter must be an expression in an object");
  bson_t filter;
  doc_view(&filter, argument->value.v_doc.data, argument->value.v_doc.data_len);
  struct match_options o = stage_match_options(p->vars);
  s->state = match_parse(p->arena, &filter, &o, p->err);
  return s->state != NULL;
}

bool match_next(struct stage *s, const bson_t **doc, struct error *err) {
  const struct match *m = s->state;
  do {
    if (!stage_input(s, doc, err)) return false;
  } while (*doc && !match_doc(m, *doc) && match_ok(m, err));
  return match_ok(m, err);
}

static bool parse_projection(struct stage_parser *p, struct stage *s, const bson_t *spec) {
  struct match_options o = stage_match_options(p->vars);
  s->state = projection_parse(p->arena, spec, false, NULL, &o, p->err);
  return s->state != NULL;
}

bool project_parse(struct stage_parser *p, struct stage *s, const bson_value_t *argument) {
  if (!value_is_doc(argument)) return error_set(p->err, 15969, "$project specification must be an object");
  bson_t spec;
  doc_view(&spec, argument->value.v_doc.data, argument->value.v_doc.data_len);
  if (bson_empty(&spec)) {
    return error_set(p->err, 51272,
                     "Invalid $project :: caused by :: projection specification must have at least one field");
  }
  return parse_projection(p, s, &spec) || error_prefix(p->err, "Invalid $project");
}

bool project_next(struct stage *s, const bson_t **doc, struct error *err) {
  if (!stage_input(s, doc, err)) return false;
  if (!*doc) return true;
  arena_reset(s->scratch);
  bson_t *projected = arena_bson(s->scratch);
  if (!projection_apply(s->state, s->scratch, *doc, projected, err)) return false;
  *doc = projected;
  return true;
}

// "a", or ["a", "b.c"]: an exclusion.
bool unset_parse(struct stage_parser *p, struct stage *s, const bson_value_t *argument) {
  bson_t *spec = arena_bson(p->arena);
  if (value_is_string(argument)) {
    BSON_APPEND_INT32(spec, argument->value.v_utf8.str, 0);
  } else if (value_is_array(argument)) {
    bson_iter_t it;
    for (value_iter(argument, &it); bson_iter_next(&it);) {
      if (!BSON_ITER_HOLDS_UTF8(&it)) {
        return error_set(p->err, 31120,
                         "$unset specification must be a string or an array containing only string values");
      }
      BSON_APPEND_INT32(spec, bson_iter_utf8(&it, NULL), 0);
    }
  } else {
    return error_set(p->err, 31002, "$unset specification must be a string or an array");
  }
  if (bson_empty(spec))
    return error_set(p->err, 31119, "$unset specification must be a string or an array with at least one field");
  return parse_projection(p, s, spec) || error_prefix(p->err, "Invalid $unset");
}

struct added_field {
  const char *path;
  struct expression *value;
};

struct added_fields {
  struct added_field *fields;
  size_t n, cap;
};

static bool is_expression(const bson_value_t *v) {
  bson_iter_t it;
  return value_is_doc(v) && value_iter(v, &it) && bson_iter_next(&it) && bson_iter_key(&it)[0] == '$';
}

// {a: {b: 1}} sets a.b and leaves a's other fields: nested objects are paths, unless they are expressions or empty.
static bool collect_fields(struct stage_parser *p, struct added_fields *f, const char *prefix,
                           const bson_value_t *spec) {
  bson_iter_t it;
  for (value_iter(spec, &it); bson_iter_next(&it);) {
    const char *name = bson_iter_key(&it);
    if (!*name || name[0] == '$') {
      return error_set(
          p->err, 16410,
          "Invalid $addFields :: caused by :: FieldPath field names may not start with '$' or be empty. Got '%s'",
          name);
    }
    const char *path = *prefix ? arena_printf(p->arena, "%s.%s", prefix, name) : arena_strdup(p->arena, name);
    const bson_value_t *v = bson_iter_value(&it);
    bson_iter_t first;
    if (value_is_doc(v) && !is_expression(v) && value_iter(v, &first) && bson_iter_next(&first)) {
      if (!collect_fields(p, f, path, v)) return false;
      continue;
    }
    if (f->n == f->cap) {
      size_t cap = f->cap ? f->cap * 2 : 8;
      struct added_field *grown = arena_alloc(p->arena, cap * sizeof *grown);
      if (f->n) memcpy(grown, f->fields, f->n * sizeof *grown);
      f->fields = grown;
      f->cap = cap;
    }
    struct expression *e = expression_parse(p->arena, v, p->vars, p->err);
    if (!e) return error_prefix(p->err, "Invalid $addFields");
    f->fields[f->n++] = (struct added_field){path, e};
  }
  return true;
}

bool add_fields_parse(struct stage_parser *p, struct stage *s, const bson_value_t *argument) {
  if (!value_is_doc(argument)) {
    return error_set(p->err, 40272, "%s specification stage must be an object, got %s", s->type->name,
                     type_name(argument->value_type));
  }
  struct added_fields *f = arena_zalloc(p->arena, sizeof *f);
  s->state = f;
  if (!collect_fields(p, f, "", argument)) return false;
  return f->n ||
         error_set(p->err, 40177, "Invalid $addFields :: caused by :: specification must have at least one field");
}

bool add_fields_next(struct stage *s, const bson_t **doc, struct error *err) {
  const struct added_fields *f = s->state;
  if (!stage_input(s, doc, err)) return false;
  if (!*doc) return true;
  arena_reset(s->scratch);
  const bson_t *before = *doc;
  for (size_t i = 0; i < f->n; i++) {
    bson_value_t v; // every value is computed from the document as it came in
    if (!expression_eval(f->fields[i].value, s->scratch, before, &v, err)) return false;
    bson_t *changed = arena_bson(s->scratch);
    document_set(changed, *doc, f->fields[i].path, &v);
    *doc = changed;
  }
  return true;
}

bool replace_with_parse(struct stage_parser *p, struct stage *s, const bson_value_t *argument) {
  s->state = expression_parse(p->arena, argument, p->vars, p->err);
  return s->state != NULL;
}

bool replace_root_parse(struct stage_parser *p, struct stage *s, const bson_value_t *argument) {
  bson_iter_t it;
  if (!value_is_doc(argument))
    return error_set(p->err, 40229, "expected an object as specification for $replaceRoot stage, got %s",
                     type_name(argument->value_type));
  if (!value_iter(argument, &it) || !bson_iter_next(&it) || strcmp(bson_iter_key(&it), "newRoot") != 0) {
    return error_set(p->err, 40230, "unrecognized option to $replaceRoot stage, only valid option is 'newRoot'.");
  }
  return replace_with_parse(p, s, bson_iter_value(&it));
}

bool replace_root_next(struct stage *s, const bson_t **doc, struct error *err) {
  if (!stage_input(s, doc, err)) return false;
  if (!*doc) return true;
  arena_reset(s->scratch);
  bson_value_t v;
  if (!expression_eval(s->state, s->scratch, *doc, &v, err)) return false;
  if (!value_is_doc(&v)) {
    return error_set(
        err, 40228,
        "'newRoot' expression must evaluate to an object, but resulting value was: %s. Type of resulting value: '%s'.",
        value_text(s->scratch, &v), type_name(v.value_type));
  }
  *doc = arena_bson_view(s->scratch, v.value.v_doc.data, v.value.v_doc.data_len);
  return true;
}
