// $group: one document for each value of _id, in the order in which the values first came.
//
// Split over shards, the shards run it with {$willBeMerged: true} and give partial values of the accumulators; the
// router groups these by their _id with {$doingMerge: true}.
#include <string.h>

#include "common/base/map.h"
#include "common/bson/key.h"
#include "common/query/pipeline/accumulators.h"
#include "common/query/pipeline/pipeline_internal.h"

struct group_field {
  const char *name;
  const struct accumulator_type *type;
  struct expression *expr;
};

struct group {
  bson_value_t id;
  struct accumulator *accumulators;
  struct group *next;
};

struct group_stage {
  struct expression *id;
  struct group_field *fields;
  size_t n_fields;
  bool partial, merging;
  // Running.
  struct map *groups; // by encoded _id
  struct group *first, *last;
  size_t bytes;
  bool collected;
};

// --- parsing ---

static bool check_field_name(struct stage_parser *p, const char *name) {
  if (strchr(name, '.')) return error_set(p->err, 40235, "The field name '%s' cannot contain '.'", name);
  if (name[0] == '$') return error_set(p->err, 40236, "The field name '%s' cannot be an operator name", name);
  return true;
}

// {$count: {}} counts what it is given: documents.
static bool check_count(struct stage_parser *p, const bson_value_t *arg) {
  bson_iter_t it;
  bool empty = value_is_doc(arg) && value_iter(arg, &it) && !bson_iter_next(&it);
  return empty || error_set(p->err, ERR_TypeMismatch, "$count takes no arguments, i.e. $count:{}");
}

static bool parse_field(struct stage_parser *p, struct group_stage *g, const char *name, const bson_value_t *spec) {
  struct group_field *f = &g->fields[g->n_fields];
  bson_iter_t it;
  if (!check_field_name(p, name)) return false;
  if (!value_is_doc(spec) || !value_iter(spec, &it) || !bson_iter_next(&it) || bson_iter_key(&it)[0] != '$') {
    return error_set(p->err, 40234, "The field '%s' must be an accumulator object", name);
  }
  const char *op = bson_iter_key(&it);
  bson_value_t arg = *bson_iter_value(&it);
  bson_iter_t more = it;
  if (bson_iter_next(&more)) return error_set(p->err, 40238, "The field '%s' must specify one accumulator", name);
  f->name = arena_strdup(p->arena, name);
  f->type = accumulator_find(op);
  if (!f->type) return error_set(p->err, 15952, "unknown group operator '%s'", op);
  if (f->type->refused) return error_set(p->err, ERR_CommandNotSupported, "the accumulator %s is not supported", op);
  if (strcmp(op, "$count") == 0 && !g->merging) {
    if (!check_count(p, &arg)) return false;
    arg = value_int32(1);
  }
  // An array in accumulators with one argument is an expression of that array but for a single element.
  if (value_is_array(&arg)) {
    size_t n = 0;
    bson_value_t only = value_missing();
    for (value_iter(&arg, &it); bson_iter_next(&it); n++) only = *bson_iter_value(&it);
    if (n != 1) return error_set(p->err, 40237, "The %s accumulator is a unary operator", op);
    arg = only;
  }
  f->expr = expression_parse(p->arena, &arg, p->vars, p->err);
  g->n_fields++;
  return f->expr != NULL;
}

static bool parse_flags(struct group_stage *g, const bson_value_t *spec, size_t *n) {
  bson_iter_t it;
  *n = 0;
  for (value_iter(spec, &it); bson_iter_next(&it); (*n)++) {
    if (strcmp(bson_iter_key(&it), "$doingMerge") == 0) g->merging = value_truthy(bson_iter_value(&it));
    if (strcmp(bson_iter_key(&it), "$willBeMerged") == 0) g->partial = value_truthy(bson_iter_value(&it));
  }
  return *n > 0;
}

static void free_groups(void *arg) {
  struct group_stage *g = arg;
  map_free(g->groups, NULL);
}

static bool parse_group(struct stage_parser *p, struct stage *s, bool *added) {
  struct group_stage *g = arena_zalloc(p->arena, sizeof *g);
  bson_iter_t it;
  size_t n;
  s->state = g;
  if (!value_is_doc(&s->spec)) return error_set(p->err, 15947, "a group's fields must be specified in an object");
  parse_flags(g, &s->spec, &n);
  g->fields = arena_zalloc(p->arena, n * sizeof *g->fields);
  for (value_iter(&s->spec, &it); bson_iter_next(&it);) {
    const char *name = bson_iter_key(&it);
    if (strcmp(name, "$doingMerge") == 0 || strcmp(name, "$willBeMerged") == 0) continue;
    if (strcmp(name, "_id") != 0) {
      bson_value_t spec = *bson_iter_value(&it);
      if (!parse_field(p, g, name, &spec)) return false;
      continue;
    }
    if (g->id) return error_set(p->err, 15948, "a group's _id may only be specified once");
    g->id = expression_parse(p->arena, bson_iter_value(&it), p->vars, p->err);
    if (!g->id) return false;
  }
  if (!g->id) return error_set(p->err, 15955, "a group specification must include an _id");
  g->groups = map_new();
  arena_on_free(p->arena, free_groups, g);
  return true;
}

// --- running ---

static struct group *group_of(struct stage *s, struct group_stage *g, const bson_value_t *id) {
  __attribute__((cleanup(buf_cleanup))) struct buf key = {0};
  struct arena *a = s->pipeline->arena;
  key_append(&key, id, false);
  struct group *found = map_get(g->groups, key.data, key.len);
  if (found) return found;
  found = arena_zalloc(a, sizeof *found);
  found->id = value_copy(a, id);
  found->accumulators = arena_alloc(a, g->n_fields * sizeof *found->accumulators);
  for (size_t i = 0; i < g->n_fields; i++) accumulator_init(&found->accumulators[i], g->fields[i].type, a);
  map_put(g->groups, key.data, key.len, found);
  if (g->last)
    g->last->next = found;
  else
    g->first = found;
  g->last = found;
  g->bytes += sizeof *found + 2 * key.len + 64 + g->n_fields * sizeof *found->accumulators;
  return found;
}

static bool accumulate(struct stage *s, struct group_stage *g, const bson_t *doc, struct error *err) {
  bson_value_t id, v;
  if (!expression_eval(g->id, s->scratch, doc, &id, err)) return false;
  if (value_is_missing(&id)) id = value_null();
  struct group *group = group_of(s, g, &id);
  for (size_t i = 0; i < g->n_fields; i++) {
    struct accumulator *a = &group->accumulators[i];
    size_t before = a->bytes;
    if (!expression_eval(g->fields[i].expr, s->scratch, doc, &v, err)) return false;
    bool merge = g->merging && a->type->merge;
    if (!(merge ? a->type->merge : a->type->add)(a, &v, err)) return false;
    g->bytes += a->bytes - before;
  }
  return g->bytes <= PIPELINE_STAGE_MAX_BYTES || stage_memory_exceeded(s, err);
}

static bool collect(struct stage *s, struct group_stage *g, struct error *err) {
  const bson_t *doc;
  for (;;) {
    if (!stage_pull(s, &doc, err)) return false;
    if (!doc) break;
    if (!accumulate(s, g, doc, err)) return false;
  }
  g->collected = true;
  return true;
}

static bool next_group(struct stage *s, const bson_t **doc, struct error *err) {
  struct group_stage *g = s->state;
  if (!g->collected && !collect(s, g, err)) return false;
  arena_reset(s->scratch);
  const struct group *group = g->first;
  *doc = NULL;
  if (!group) return true;
  g->first = group->next;
  bson_t *out = arena_bson(s->scratch);
  doc_append_value(out, "_id", &group->id);
  for (size_t i = 0; i < g->n_fields; i++) {
    struct accumulator *a = &group->accumulators[i];
    bson_value_t v;
    if (g->partial && a->type->partial)
      a->type->partial(a, s->scratch, &v);
    else
      a->type->result(a, s->scratch, &v);
    doc_append_value(out, g->fields[i].name, &v);
  }
  *doc = out;
  return true;
}

// --- splitting ---

void stage_group_partial(const struct stage *s, bson_t *out) {
  bson_t spec;
  bson_iter_t it;
  bson_append_document_begin(out, "$group", -1, &spec);
  for (value_iter(&s->spec, &it); bson_iter_next(&it);)
    doc_append_value(&spec, bson_iter_key(&it), bson_iter_value(&it));
  bson_append_bool(&spec, "$willBeMerged", -1, true);
  bson_append_document_end(out, &spec);
}

void stage_group_merge(const struct stage *s, bson_t *out) {
  const struct group_stage *g = s->state;
  bson_t spec, accumulator;
  bson_append_document_begin(out, "$group", -1, &spec);
  bson_append_utf8(&spec, "_id", -1, "$_id", -1);
  for (size_t i = 0; i < g->n_fields; i++) {
    struct buf path __attribute__((cleanup(buf_cleanup))) = {0};
    buf_printf(&path, "$%s", g->fields[i].name);
    bson_append_document_begin(&spec, g->fields[i].name, -1, &accumulator);
    bson_append_utf8(&accumulator, g->fields[i].type->name, -1, buf_str(&path), -1);
    bson_append_document_end(&spec, &accumulator);
  }
  bson_append_bool(&spec, "$doingMerge", -1, true);
  bson_append_document_end(out, &spec);
}

const struct stage_type STAGES_GROUP[] = {
    {"$group", parse_group, next_group, .placement = PLACE_GROUP, .on_router = true},
    {NULL},
};
