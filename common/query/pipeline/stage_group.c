// $group: gathers documents by the value of an expression.
//
// Groups come out in the order in which they were first seen. Values of _id that compare equal (1 and 1.0) are one
// group.
#include <string.h>

#include "common/bson/key.h"
#include "common/query/pipeline/accumulator.h"
#include "common/query/pipeline/stage.h"

struct gathered_field {
  const char *name;
  const struct accumulator *how;
  struct expression *what; // NULL: no argument
};

struct group {
  bson_value_t id;
  struct accumulated state[];
};

struct grouping {
  struct expression *id;
  struct gathered_field *fields;
  size_t n_fields;
  bool partial, merging; // $willBeMerged, $doingMerge
  struct map *by_key;
  struct group **groups;
  size_t n, cap, given, bytes;
  bool read;
};

static void free_groups(void *arg) {
  struct grouping *g = arg;
  for (size_t i = 0; i < g->n; i++) {
    for (size_t f = 0; f < g->n_fields; f++) accumulated_free(&g->groups[i]->state[f]);
  }
  map_free(g->by_key, NULL);
}

static bool parse_accumulator(struct stage_parser *p, struct gathered_field *f, const char *name,
                              const bson_value_t *spec) {
  bson_iter_t it;
  bson_t one;
  if (strchr(name, '.')) return error_set(p->err, 40235, "The field name '%s' cannot contain '.'", name);
  if (name[0] == '$') return error_set(p->err, 40236, "The field name '%s' cannot be an operator name", name);
  if (!value_is_doc(spec)) return error_set(p->err, 40234, "The field '%s' must be an accumulator object", name);
  doc_view(&one, spec->value.v_doc.data, spec->value.v_doc.data_len);
  if (bson_count_keys(&one) != 1 || !bson_iter_init(&it, &one) || !bson_iter_next(&it)) {
    return error_set(p->err, 40238, "The field '%s' must specify one accumulator", name);
  }
  f->name = arena_strdup(p->arena, name);
  f->how = accumulator_find(bson_iter_key(&it));
  if (!f->how) return error_set(p->err, 15952, "unknown group operator '%s'", bson_iter_key(&it));
  if (f->how->refused)
    return error_set(p->err, ERR_CommandNotSupported, "The accumulator %s is not supported", f->how->name);
  const bson_value_t *argument = bson_iter_value(&it);
  if (f->how->no_argument && !value_is_string(argument)) { // a string: the partial result, when merging
    bson_t empty;
    if (value_is_doc(argument)) doc_view(&empty, argument->value.v_doc.data, argument->value.v_doc.data_len);
    if (!value_is_doc(argument) || !bson_empty(&empty)) {
      return error_set(p->err, ERR_TypeMismatch, "%s takes no arguments, i.e. %s:{}", f->how->name, f->how->name);
    }
    return true;
  }
  f->what = expression_parse(p->arena, argument, p->vars, p->err);
  return f->what != NULL;
}

bool group_parse(struct stage_parser *p, struct stage *s, const bson_value_t *argument) {
  if (!value_is_doc(argument)) return error_set(p->err, 15947, "a group's fields must be specified in an object");
  struct grouping *g = arena_zalloc(p->arena, sizeof *g);
  s->state = g;
  g->by_key = map_new();
  arena_on_free(p->arena, free_groups, g);
  bson_iter_t it;
  size_t n = 0;
  for (value_iter(argument, &it); bson_iter_next(&it);) n++;
  g->fields = arena_zalloc(p->arena, (n + 1) * sizeof *g->fields);
  for (value_iter(argument, &it); bson_iter_next(&it);) {
    const char *name = bson_iter_key(&it);
    const bson_value_t *v = bson_iter_value(&it);
    if (strcmp(name, "$willBeMerged") == 0)
      g->partial = value_truthy(v);
    else if (strcmp(name, "$doingMerge") == 0)
      g->merging = value_truthy(v);
    else if (strcmp(name, "_id") == 0) {
      if (!(g->id = expression_parse(p->arena, v, p->vars, p->err))) return false;
    } else if (!parse_accumulator(p, &g->fields[g->n_fields++], name, v)) {
      return false;
    }
  }
  return g->id || error_set(p->err, 15955, "a group specification must include an _id");
}

static struct group *find_group(struct stage *s, struct grouping *g, const bson_value_t *id) {
  __attribute__((cleanup(buf_cleanup))) struct buf key = {0};
  key_append(&key, id, false);
  if (value_is_missing(id)) buf_add_byte(&key, 0); // a group apart from null's and undefined's
  struct group *found = map_get(g->by_key, key.data, key.len);
  if (found) return found;
  struct arena *a = s->pipeline->arena;
  found = arena_zalloc(a, sizeof *found + g->n_fields * sizeof *found->state);
  found->id = value_copy(a, id);
  (void)map_put(g->by_key, key.data, key.len, found);
  if (g->n == g->cap) {
    size_t cap = g->cap ? g->cap * 2 : 64;
    struct group **grown = arena_alloc(a, cap * sizeof(struct group *));
    if (g->n) memcpy(grown, g->groups, g->n * sizeof(struct group *));
    g->groups = grown;
    g->cap = cap;
  }
  g->groups[g->n++] = found;
  g->bytes += sizeof *found + g->n_fields * sizeof *found->state + 2 * key.len;
  return found;
}

static bool gather(struct stage *s, struct grouping *g, const bson_t *doc, struct error *err) {
  bson_value_t id;
  arena_reset(s->scratch);
  if (!expression_eval(g->id, s->scratch, doc, &id, err)) return false;
  struct group *group = find_group(s, g, &id);
  for (size_t i = 0; i < g->n_fields; i++) {
    const struct gathered_field *f = &g->fields[i];
    bson_value_t v = value_missing();
    if (f->what && !expression_eval(f->what, s->scratch, doc, &v, err)) return false;
    bool merge = g->merging && f->how->merge;
    (merge ? f->how->merge : f->how->add)(s->pipeline->arena, &group->state[i], &v, &g->bytes);
  }
  if (g->bytes <= STAGE_MEMORY_LIMIT) return true;
  return error_set(err, ERR_QueryExceededMemoryLimitNoDiskUseAllowed,
                   "PlanExecutor error during aggregation :: caused by :: Exceeded memory limit for $group, but didn't "
                   "allow external sort. Pass allowDiskUse:true to opt in.");
}

static const bson_t *group_document(struct stage *s, const struct grouping *g, const struct group *group) {
  arena_reset(s->scratch);
  bson_t *doc = arena_bson(s->scratch);
  bson_value_t id = value_is_missing(&group->id) && !g->partial ? value_null() : group->id;
  doc_append_value(doc, "_id", &id); // a shard leaves a missing one out, so that the merger groups it apart as well
  for (size_t i = 0; i < g->n_fields; i++) {
    const struct accumulator *how = g->fields[i].how;
    bool partial = g->partial && how->partial;
    bson_value_t v = (partial ? how->partial : how->result)(s->scratch, &group->state[i]);
    doc_append_value(doc, g->fields[i].name, &v);
  }
  return doc;
}

bool group_next(struct stage *s, const bson_t **doc, struct error *err) {
  struct grouping *g = s->state;
  while (!g->read) {
    const bson_t *input;
    if (!stage_input(s, &input, err)) return false;
    if (!input)
      g->read = true;
    else if (!gather(s, g, input, err))
      return false;
  }
  *doc = g->given < g->n ? group_document(s, g, g->groups[g->given++]) : NULL;
  return true;
}
