// Stages that stand for others: $count, $sortByCount, $bucket.
#include <string.h>

#include "common/bson/compare.h"
#include "common/query/pipeline/pipeline_internal.h"

// --- $count: {$group: {_id: null, name: {$sum: 1}}}, {$project: {_id: 0}} ---

static bool add_group_counting(struct stage_parser *p, const bson_value_t *id, const char *name) {
  bson_t *group = arena_bson(p->arena), sum;
  doc_append_value(group, "_id", id);
  bson_append_document_begin(group, name, -1, &sum);
  bson_append_int32(&sum, "$sum", -1, 1);
  bson_append_document_end(group, &sum);
  bson_value_t spec = value_doc(group);
  return pipeline_add_stage(p, "$group", &spec);
}

static bool parse_count(struct stage_parser *p, struct stage *s, bool *added) {
  *added = true;
  if (!value_is_string(&s->spec)) return error_set(p->err, 40156, "the count field must be a non-empty string");
  const char *name = s->spec.value.v_utf8.str;
  if (!*name) return error_set(p->err, 40156, "the count field must be a non-empty string");
  if (name[0] == '$') return error_set(p->err, 40158, "the count field cannot be a $-prefixed path");
  if (strlen(name) != s->spec.value.v_utf8.len)
    return error_set(p->err, 40159, "the count field cannot contain a null byte");
  if (strchr(name, '.')) return error_set(p->err, 40160, "the count field cannot contain '.'");
  bson_value_t null = value_null();
  bson_t *project = arena_bson(p->arena);
  bson_append_bool(project, "_id", -1, false);
  bson_value_t spec = value_doc(project);
  return add_group_counting(p, &null, name) && pipeline_add_stage(p, "$project", &spec);
}

// --- $sortByCount: {$group: {_id: expr, count: {$sum: 1}}}, {$sort: {count: -1}} ---

static bool parse_sort_by_count(struct stage_parser *p, struct stage *s, bool *added) {
  bson_iter_t it;
  *added = true;
  bool expression =
      value_is_doc(&s->spec) && value_iter(&s->spec, &it) && bson_iter_next(&it) && bson_iter_key(&it)[0] == '$';
  if (value_is_doc(&s->spec) && !expression) {
    return error_set(p->err, 40147,
                     "the sortByCount field must be defined as a $-prefixed path or an expression inside an "
                     "object");
  }
  bool path = value_is_string(&s->spec) && s->spec.value.v_utf8.str[0] == '$';
  if (!expression && !path) {
    return error_set(p->err, value_is_string(&s->spec) ? 40148 : 40149,
                     "the sortByCount field must be defined as a $-prefixed path or an expression inside an object");
  }
  bson_t *sort = arena_bson(p->arena);
  bson_append_int32(sort, "count", -1, -1);
  bson_value_t spec = value_doc(sort);
  return add_group_counting(p, &s->spec, "count") && pipeline_add_stage(p, "$sort", &spec);
}

// --- $bucket: a $group by a $switch over the boundaries, sorted by _id ---

struct bucket {
  bson_value_t group_by, boundaries, otherwise, output; // otherwise, output: missing when not given
};

static bool read_bucket(struct stage_parser *p, const bson_value_t *spec, struct bucket *b) {
  bson_iter_t it;
  if (!value_is_doc(spec)) return error_set(p->err, 40201, "Argument to $bucket stage must be an object");
  b->group_by = b->boundaries = b->otherwise = b->output = value_missing();
  for (value_iter(spec, &it); bson_iter_next(&it);) {
    const char *key = bson_iter_key(&it);
    bson_value_t *to = strcmp(key, "groupBy") == 0      ? &b->group_by
                       : strcmp(key, "boundaries") == 0 ? &b->boundaries
                       : strcmp(key, "default") == 0    ? &b->otherwise
                       : strcmp(key, "output") == 0     ? &b->output
                                                        : NULL;
    if (!to) return error_set(p->err, 40197, "Unrecognized option to $bucket: %s.", key);
    *to = *bson_iter_value(&it);
  }
  if (value_is_missing(&b->group_by) || value_is_missing(&b->boundaries)) {
    return error_set(p->err, 40198, "$bucket requires 'groupBy' and 'boundaries' to be specified.");
  }
  bool path = value_is_string(&b->group_by) && b->group_by.value.v_utf8.str[0] == '$';
  if (!path && !value_is_doc(&b->group_by)) {
    return error_set(p->err, 40202,
                     "The $bucket 'groupBy' field must be defined as a $-prefixed path or an expression");
  }
  if (!value_is_array(&b->boundaries)) {
    return error_set(p->err, 40200, "The $bucket 'boundaries' field must be an array of values");
  }
  return value_is_missing(&b->output) || value_is_doc(&b->output) ||
         error_set(p->err, 40196, "The $bucket 'output' field must be an object");
}

// The boundaries, which must be constants of one type in ascending order.
static bool read_boundaries(struct stage_parser *p, const struct bucket *b, bson_value_t **out, size_t *n) {
  bson_iter_t it;
  *n = 0;
  for (value_iter(&b->boundaries, &it); bson_iter_next(&it);) (*n)++;
  if (*n < 2)
    return error_set(p->err, 40192,
                     "The $bucket 'boundaries' field must have at least 2 values, but found %zu value(s).", *n);
  *out = arena_alloc(p->arena, *n * sizeof **out);
  size_t i = 0;
  for (value_iter(&b->boundaries, &it); bson_iter_next(&it); i++) {
    struct expression *e = expression_parse(p->arena, bson_iter_value(&it), p->vars, p->err);
    if (!e) return false;
    if (!expression_is_constant(e, &(*out)[i])) {
      return error_set(p->err, 40191, "The $bucket 'boundaries' field must be an array of constant values");
    }
    if (i == 0) continue;
    const bson_value_t *before = &(*out)[i - 1], *v = &(*out)[i];
    if (value_canonical_type(before->value_type) != value_canonical_type(v->value_type)) {
      return error_set(p->err, 40193, "All values in the the 'boundaries' option to $bucket must have the same type.");
    }
    if (value_compare(before, v) >= 0) {
      return error_set(p->err, 40194,
                       "The 'boundaries' option to $bucket must be sorted, but elements %zu and %zu are not in "
                       "ascending order",
                       i - 1, i);
    }
  }
  if (value_is_missing(&b->otherwise)) return true;
  const bson_value_t *low = &(*out)[0], *high = &(*out)[*n - 1];
  bool inside = value_canonical_type(b->otherwise.value_type) == value_canonical_type(low->value_type) &&
                value_compare(&b->otherwise, low) >= 0 && value_compare(&b->otherwise, high) < 0;
  return !inside || error_set(p->err, 40199,
                              "The $bucket 'default' field must be less than the lowest boundary or greater than "
                              "or equal to the highest boundary.");
}

static void append_comparison(bson_t *list, const char *key, const char *op, const bson_value_t *what,
                              const bson_value_t *bound) {
  bson_t comparison, args, literal;
  bson_append_document_begin(list, key, -1, &comparison);
  bson_append_array_begin(&comparison, op, -1, &args);
  doc_append_value(&args, "0", what);
  bson_append_document_begin(&args, "1", -1, &literal);
  doc_append_value(&literal, "$literal", bound);
  bson_append_document_end(&args, &literal);
  bson_append_array_end(&comparison, &args);
  bson_append_document_end(list, &comparison);
}

static void append_literal(bson_t *to, const char *name, const bson_value_t *v) {
  bson_t literal;
  bson_append_document_begin(to, name, -1, &literal);
  doc_append_value(&literal, "$literal", v);
  bson_append_document_end(to, &literal);
}

// {$switch: {branches: [{case: {$and: [{$gte: [x, b0]}, {$lt: [x, b1]}]}, then: b0}, ...], default: d}}
static void append_switch(bson_t *group, const struct bucket *b, const bson_value_t *bounds, size_t n) {
  bson_t id, inside, branches, branch, cond, both;
  bson_append_document_begin(group, "_id", -1, &id);
  bson_append_document_begin(&id, "$switch", -1, &inside);
  bson_append_array_begin(&inside, "branches", -1, &branches);
  for (size_t i = 0; i + 1 < n; i++) {
    char text[16];
    const char *key;
    bson_uint32_to_string((uint32_t)i, &key, text, sizeof text);
    bson_append_document_begin(&branches, key, -1, &branch);
    bson_append_document_begin(&branch, "case", -1, &cond);
    bson_append_array_begin(&cond, "$and", -1, &both);
    append_comparison(&both, "0", "$gte", &b->group_by, &bounds[i]);
    append_comparison(&both, "1", "$lt", &b->group_by, &bounds[i + 1]);
    bson_append_array_end(&cond, &both);
    bson_append_document_end(&branch, &cond);
    append_literal(&branch, "then", &bounds[i]);
    bson_append_document_end(&branches, &branch);
  }
  bson_append_array_end(&inside, &branches);
  if (!value_is_missing(&b->otherwise)) append_literal(&inside, "default", &b->otherwise);
  bson_append_document_end(&id, &inside);
  bson_append_document_end(group, &id);
}

static bool parse_bucket(struct stage_parser *p, struct stage *s, bool *added) {
  struct bucket b;
  bson_value_t *bounds;
  size_t n;
  *added = true;
  if (!read_bucket(p, &s->spec, &b) || !read_boundaries(p, &b, &bounds, &n)) return false;
  bson_t *group = arena_bson(p->arena), sum, *sort = arena_bson(p->arena);
  append_switch(group, &b, bounds, n);
  if (value_is_missing(&b.output)) {
    bson_append_document_begin(group, "count", -1, &sum);
    bson_append_int32(&sum, "$sum", -1, 1);
    bson_append_document_end(group, &sum);
  } else {
    bson_iter_t it;
    for (value_iter(&b.output, &it); bson_iter_next(&it);)
      doc_append_value(group, bson_iter_key(&it), bson_iter_value(&it));
  }
  bson_append_int32(sort, "_id", -1, 1);
  bson_value_t group_spec = value_doc(group), sort_spec = value_doc(sort);
  return pipeline_add_stage(p, "$group", &group_spec) && pipeline_add_stage(p, "$sort", &sort_spec);
}

const struct stage_type STAGES_DERIVED[] = {
    {"$count", .parse = parse_count},
    {"$sortByCount", .parse = parse_sort_by_count},
    {"$bucket", .parse = parse_bucket},
    {NULL},
};
