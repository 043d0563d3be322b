// Parses updates: operators, replacements, pipelines, array filters.
#include <string.h>

#include "common/base/clock.h"
#include "common/query/match_internal.h"
#include "common/query/transform.h"
#include "common/query/type_names.h"
#include "common/query/update_internal.h"

enum { PIPELINE_MAX_STAGES = 1000 };

// --- operators ---

static const struct update_operator *find_in(const struct update_operator *table, const char *name) {
  for (; table->name; table++) {
    if (strcmp(table->name, name) == 0) return table;
  }
  return NULL;
}

const struct update_operator *update_operator_find(const char *name) {
  const struct update_operator *op = find_in(UPDATE_FIELD_OPERATORS, name);
  return op ? op : find_in(UPDATE_ARRAY_OPERATORS, name);
}

static bool parse_operator(struct update_parser *p, const struct update_operator *op, const bson_value_t *fields) {
  bson_iter_t it;
  if (!value_is_doc(fields)) {
    return error_set(p->err, ERR_FailedToParse,
                     "Modifiers operate on fields but we found type %s instead. For example: "
                     "{$mod: {<field>: ...}} not {%s: %s}",
                     type_name(fields->value_type), op->name, value_text(p->arena, fields));
  }
  for (value_iter(fields, &it); bson_iter_next(&it);) {
    struct update_leaf *l = arena_zalloc(p->arena, sizeof *l);
    l->op = op;
    l->path = arena_strdup(p->arena, bson_iter_key(&it));
    l->value = *bson_iter_value(&it);
    if (op->parse && !op->parse(p, l)) return false;
    if (!update_tree_leaf(p, l->path, l)) return false;
  }
  return true;
}

bool update_parse_operators(struct update_parser *p, const bson_t *u) {
  bson_iter_t it;
  if (!bson_iter_init(&it, u)) return error_set(p->err, ERR_InvalidBSON, "an update is not a document");
  while (bson_iter_next(&it)) {
    const char *name = bson_iter_key(&it);
    const struct update_operator *op = update_operator_find(name);
    if (!op) {
      return error_set(p->err, ERR_FailedToParse,
                       "Unknown modifier: %s. Expected a valid update modifier or pipeline-style "
                       "update specified as an array",
                       name);
    }
    if (!parse_operator(p, op, bson_iter_value(&it))) return false;
  }
  return true;
}

// --- array filters ---

// The first component of the paths in a filter, which must be the same everywhere. false: there are several.
static bool common_name(struct arena *a, const struct match_node *n, const char **name) {
  if (n->path && n->kind != MATCH_NOT) {
    const char *first = arena_strndup(a, n->path, strcspn(n->path, "."));
    if (*name && strcmp(*name, first) != 0) return false;
    *name = first;
    return true; // what is below an $elemMatch speaks of its elements
  }
  for (size_t i = 0; i < n->n; i++) {
    if (!common_name(a, n->children[i], name)) return false;
  }
  return true;
}

static bool is_identifier(const char *s) {
  if (!(s[0] >= 'a' && s[0] <= 'z')) return false;
  for (; *s; s++) {
    if (!((*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9'))) return false;
  }
  return true;
}

static bool parse_filter(struct update_parser *p, const bson_value_t *v, struct array_filter *out) {
  bson_t filter;
  if (!value_is_doc(v)) {
    return error_set(p->err, ERR_TypeMismatch,
                     "BSON field 'update.updates.arrayFilters' is the wrong type '%s', expected "
                     "type 'object'",
                     type_name(v->value_type));
  }
  doc_view(&filter, v->value.v_doc.data, v->value.v_doc.data_len);
  if (bson_empty(&filter)) {
    return error_set(p->err, ERR_FailedToParse,
                     "Cannot use an expression without a top-level field name in arrayFilters");
  }
  out->match = match_parse(p->arena, &filter, p->options, p->err);
  if (!out->match) return error_prefix(p->err, "Error parsing array filter");
  if (!common_name(p->arena, out->match->root, &out->name)) {
    return error_set(p->err, ERR_FailedToParse,
                     "Error parsing array filter :: caused by :: Expected a single top-level "
                     "field name, found several in %s",
                     value_text(p->arena, v));
  }
  if (!out->name) {
    return error_set(p->err, ERR_FailedToParse,
                     "Cannot use an expression without a top-level field name in arrayFilters");
  }
  if (!is_identifier(out->name)) {
    return error_set(p->err, ERR_BadValue,
                     "Error parsing array filter :: caused by :: The top-level field name must be an "
                     "alphanumeric string beginning with a lowercase letter, found '%s'",
                     out->name);
  }
  for (size_t i = 0; i < p->n_filters; i++) {
    if (strcmp(p->filters[i].name, out->name) != 0) continue;
    return error_set(p->err, ERR_FailedToParse, "Found multiple array filters with the same top-level field name %s",
                     out->name);
  }
  return true;
}

static bool parse_filters(struct update_parser *p, const bson_t *filters) {
  bson_iter_t it;
  if (!filters || !bson_iter_init(&it, filters)) return true;
  p->filters = arena_zalloc(p->arena, bson_count_keys(filters) * sizeof *p->filters);
  while (bson_iter_next(&it)) {
    if (!parse_filter(p, bson_iter_value(&it), &p->filters[p->n_filters])) return false;
    p->n_filters++;
  }
  return true;
}

static bool all_filters_used(struct update_parser *p, const bson_t *u) {
  for (size_t i = 0; i < p->n_filters; i++) {
    if (p->filters[i].used) continue;
    return error_set(p->err, ERR_FailedToParse, "The array filter for identifier '%s' was not used in the update %s",
                     p->filters[i].name, doc_text(p->arena, u));
  }
  return true;
}

// --- replacements and pipelines ---

static bool parse_replacement(struct update *u, struct update_parser *p) {
  bson_iter_t it;
  u->kind = UPDATE_REPLACEMENT;
  if (p->n_filters) return error_set(p->err, ERR_FailedToParse, "arrayFilters may not be specified for a replacement");
  for (bson_iter_init(&it, u->replacement); bson_iter_next(&it);) {
    const char *name = bson_iter_key(&it);
    bool dbref = strcmp(name, "$ref") == 0 || strcmp(name, "$id") == 0 || strcmp(name, "$db") == 0;
    if (name[0] != '$' || dbref) continue;
    return error_set(
        p->err, ERR_DollarPrefixedFieldName,
        "The dollar ($) prefixed field '%s' in '%s' is not allowed in the context of an update's replacement "
        "document. Consider using an aggregation pipeline with $replaceWith.",
        name, name);
  }
  return true;
}

static bool parse_stage(struct update *u, struct update_parser *p, const bson_value_t *stage) {
  bson_iter_t it;
  if (!value_is_doc(stage))
    return error_set(p->err, ERR_TypeMismatch, "Each element of the 'pipeline' array must be an object");
  if (!value_iter(stage, &it) || !bson_iter_next(&it)) {
    return error_set(p->err, 40323, "A pipeline stage specification object must contain exactly one field.");
  }
  const char *name = bson_iter_key(&it);
  const bson_value_t spec = *bson_iter_value(&it);
  bson_iter_t more = it;
  if (bson_iter_next(&more)) {
    return error_set(p->err, 40323, "A pipeline stage specification object must contain exactly one field.");
  }
  if (!transform_is_stage(name)) {
    return error_set(p->err, ERR_InvalidOptions, "%s is not allowed to be used within an update", name);
  }
  u->stages[u->n_stages] = transform_parse(p->arena, name, &spec, u->vars, p->err);
  return u->stages[u->n_stages++] != NULL;
}

static bool parse_pipeline(struct update *u, struct update_parser *p, const bson_t *stages) {
  bson_iter_t it;
  u->kind = UPDATE_PIPELINE;
  u->deepens = true;
  if (p->n_filters)
    return error_set(p->err, ERR_FailedToParse, "arrayFilters may not be specified for pipeline-style updates");
  size_t n = bson_count_keys(stages);
  if (n > PIPELINE_MAX_STAGES)
    return error_set(p->err, 7749501, "Pipeline length must be no longer than %d stages", PIPELINE_MAX_STAGES);
  // $$NOW is set when the update is applied.
  u->vars = variables_new(p->arena, p->options ? p->options->let : NULL, 0, p->err);
  if (!u->vars) return false;
  u->stages = arena_zalloc(p->arena, n * sizeof(struct transform *));
  for (bson_iter_init(&it, stages); bson_iter_next(&it);) {
    if (!parse_stage(u, p, bson_iter_value(&it))) return false;
  }
  return true;
}

static size_t depth_of(const bson_t *doc, size_t depth) {
  bson_iter_t it;
  bson_t inside;
  size_t most = depth;
  if (depth > (size_t)DOC_MAX_DEPTH || !bson_iter_init(&it, doc)) return depth;
  while (bson_iter_next(&it)) {
    if (!BSON_ITER_HOLDS_DOCUMENT(&it) && !BSON_ITER_HOLDS_ARRAY(&it)) continue;
    iter_doc(&inside, &it);
    size_t below = depth_of(&inside, depth + 1);
    if (below > most) most = below;
  }
  return most;
}

static size_t tree_depth(const struct update_node *n) {
  size_t most = 0;
  for (size_t i = 0; i < n->n; i++) {
    size_t below = 1 + tree_depth(n->children[i]);
    if (below > most) most = below;
  }
  return most;
}

static bool has_rename(const bson_t *u) {
  return doc_has(u, "$rename");
}

static bool starts_with_dollar(const bson_t *u) {
  bson_iter_t it;
  return bson_iter_init(&it, u) && bson_iter_next(&it) && bson_iter_key(&it)[0] == '$';
}

struct update *update_parse(struct arena *a, const bson_t *u, bool is_array, const bson_t *array_filters,
                            const struct match_options *o, struct error *err) {
  struct update *out = arena_zalloc(a, sizeof *out);
  const bson_t *copy = doc_copy(a, u);
  if (array_filters) array_filters = doc_copy(a, array_filters);
  struct update_parser p = {.arena = a, .options = o, .err = err};
  if (!parse_filters(&p, array_filters)) return NULL;
  if (is_array) return parse_pipeline(out, &p, copy) ? out : NULL;
  if (!starts_with_dollar(copy)) {
    out->replacement = copy;
    return parse_replacement(out, &p) ? out : NULL;
  }
  out->kind = UPDATE_OPERATORS;
  out->root = p.root = arena_zalloc(a, sizeof *p.root);
  p.root->name = p.root->path = "";
  if (!update_parse_operators(&p, copy) || !all_filters_used(&p, copy)) return NULL;
  out->deepens = has_rename(copy) || tree_depth(p.root) + depth_of(copy, 0) > (size_t)DOC_MAX_DEPTH;
  return out;
}
