// Stages whose work is the caller's: those that produce documents themselves ($collStats...), for which the caller's
// source stands, and those that write ($out, $merge); $documents; and the stages that are refused by name.
#include "common/query/pipeline/pipeline_internal.h"

// --- $documents: an expression that gives an array of documents ---

struct documents {
  struct expression *expr;
  bson_value_t *list;
  size_t n, next;
  bool evaluated;
};

static bool parse_documents(struct stage_parser *p, struct stage *s, bool *added) {
  struct documents *d = arena_zalloc(p->arena, sizeof *d);
  s->state = d;
  d->expr = expression_parse(p->arena, &s->spec, p->vars, p->err);
  return d->expr != NULL;
}

static bool evaluate_documents(struct stage *s, struct documents *d, struct error *err) {
  bson_value_t v;
  struct arena *a = s->pipeline->arena;
  if (!expression_eval(d->expr, a, arena_bson(a), &v, err)) return false;
  if (!value_is_array(&v)) {
    return error_set(err, 5858203, "$documents stage must be an array of objects: %s", value_text(a, &v));
  }
  bson_iter_t it;
  size_t n = 0;
  for (value_iter(&v, &it); bson_iter_next(&it);) n++;
  d->list = arena_alloc(a, n * sizeof *d->list);
  for (value_iter(&v, &it); bson_iter_next(&it); d->n++) {
    if (!BSON_ITER_HOLDS_DOCUMENT(&it)) {
      return error_set(err, 40228, "an element of $documents must be an object: %s",
                       value_text(a, bson_iter_value(&it)));
    }
    d->list[d->n] = *bson_iter_value(&it);
  }
  d->evaluated = true;
  return true;
}

static bool next_documents(struct stage *s, const bson_t **doc, struct error *err) {
  struct documents *d = s->state;
  if (!d->evaluated && !evaluate_documents(s, d, err)) return false;
  arena_reset(s->scratch);
  *doc = NULL;
  if (d->next == d->n) return true;
  const bson_value_t *v = &d->list[d->next++];
  *doc = arena_bson_view(s->scratch, v->value.v_doc.data, v->value.v_doc.data_len);
  return true;
}

const struct stage_type STAGES_EXTERNAL[] = {
    {"$documents", parse_documents, next_documents, .placement = PLACE_MERGER, .initial = true, .on_router = true},
    {"$currentOp", .initial = true, .on_router = true},
    {"$shardedDataDistribution", .initial = true, .on_router = true},
    {"$listClusterCatalog", .initial = true, .on_router = true},
    {"$listLocalSessions", .initial = true, .on_router = true},
    {"$listSessions", .initial = true},
    {"$collStats", .initial = true},
    {"$indexStats", .initial = true},
    {"$changeStream", .initial = true},
    {"$out", .placement = PLACE_MERGER, .writes = true},
    {"$merge", .placement = PLACE_MERGER, .writes = true},
    {"$bucketAuto", .refused = true},
    {"$changeStreamSplitLargeEvent", .refused = true},
    {"$densify", .refused = true},
    {"$fill", .refused = true},
    {"$geoNear", .refused = true},
    {"$graphLookup", .refused = true},
    {"$listSampledQueries", .refused = true},
    {"$listSearchIndexes", .refused = true},
    {"$lookup", .refused = true},
    {"$planCacheStats", .refused = true},
    {"$queryStats", .refused = true},
    {"$querySettings", .refused = true},
    {"$redact", .refused = true},
    {"$search", .refused = true},
    {"$searchMeta", .refused = true},
    {"$setWindowFields", .refused = true},
    {"$unionWith", .refused = true},
    {"$vectorSearch", .refused = true},
    {NULL},
};
