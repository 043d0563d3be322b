// The explain command: how a command would be answered and, when asked, what it examines. Nothing is written.
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/bson/doc.h"
#include "common/bson/hash.h"
#include "common/node/crud.h"
#include "common/node/delete_step.h"
#include "common/node/explain_plan.h"
#include "common/node/internal.h"
#include "common/node/reading.h"
#include "common/node/update_step.h"
#include "common/query/projection.h"

struct explaining {
  struct request *r;
  struct arena *arena;
  const bson_t *command; // the inner one
  const char *ns;
  bool execute, all_plans;
  bson_t *reply;
  // --- filled by the family ---
  struct reading *reading;
  struct plan_tree tree;
  struct exec_counters counters;
  int64_t millis;
};

// --- queryPlanner ---

// The shape of a document: its values replaced, so that the same kind of query always has the same hash.
static void append_shape(struct arena *a, const bson_t *doc, bson_t *out) {
  bson_iter_t it;
  bson_iter_init(&it, doc);
  while (bson_iter_next(&it)) {
    const char *name = bson_iter_key(&it);
    bool nested = BSON_ITER_HOLDS_DOCUMENT(&it) || BSON_ITER_HOLDS_ARRAY(&it);
    if (!nested) {
      BSON_APPEND_INT32(out, name, 1);
      continue;
    }
    bson_t child;
    BSON_APPEND_DOCUMENT_BEGIN(out, name, &child);
    append_shape(a, iter_child(a, &it), &child);
    bson_append_document_end(out, &child);
  }
}

static void append_hash(bson_t *out, const char *name, const bson_t *of) {
  char text[9];
  bson_value_t v = value_doc(of);
  snprintf(text, sizeof text, "%08X", (unsigned)(bson_hash64(&v, 0) & 0xffffffff));
  BSON_APPEND_UTF8(out, name, text);
}

static void append_hashes(struct explaining *x, const bson_t *parsed, bson_t *out) {
  const struct query *q = &x->reading->query;
  bson_t *shape = arena_bson(x->arena), filter, *key;
  BSON_APPEND_DOCUMENT_BEGIN(shape, "filter", &filter);
  append_shape(x->arena, parsed, &filter);
  bson_append_document_end(shape, &filter);
  if (q->sort_spec) BSON_APPEND_DOCUMENT(shape, "sort", q->sort_spec);
  append_hash(out, "queryHash", shape);
  append_hash(out, "planCacheShapeHash", shape);
  key = bson_copy(shape);
  if (x->reading->plan.index_name) BSON_APPEND_UTF8(key, "index", x->reading->plan.index_name);
  append_hash(out, "planCacheKey", key);
  bson_destroy(key);
}

static void append_planner(struct explaining *x, bson_t *out) {
  bson_t doc, plan, *parsed = arena_bson(x->arena);
  match_describe(x->reading->query.match, parsed);
  struct plan_tree tree = x->tree;
  tree.counters = NULL;
  BSON_APPEND_DOCUMENT_BEGIN(out, "queryPlanner", &doc);
  BSON_APPEND_UTF8(&doc, "namespace", x->ns);
  BSON_APPEND_DOCUMENT(&doc, "parsedQuery", parsed);
  BSON_APPEND_BOOL(&doc, "indexFilterSet", false);
  append_hashes(x, parsed, &doc);
  BSON_APPEND_INT32(&doc, "optimizationTimeMillis", 0);
  BSON_APPEND_BOOL(&doc, "maxIndexedOrSolutionsReached", false);
  BSON_APPEND_BOOL(&doc, "maxIndexedAndSolutionsReached", false);
  BSON_APPEND_BOOL(&doc, "maxScansToExplodeReached", false);
  BSON_APPEND_BOOL(&doc, "prunedSimilarIndexes", false);
  BSON_APPEND_DOCUMENT_BEGIN(&doc, "winningPlan", &plan);
  BSON_APPEND_BOOL(&plan, "isCached", false);
  plan_tree_append(x->arena, &tree, &plan);
  bson_append_document_end(&doc, &plan);
  BSON_APPEND_ARRAY(&doc, "rejectedPlans", arena_bson(x->arena));
  bson_append_document_end(out, &doc);
}

// --- executionStats ---

static void append_execution(struct explaining *x, bson_t *out) {
  bson_t doc, stages;
  BSON_APPEND_DOCUMENT_BEGIN(out, "executionStats", &doc);
  BSON_APPEND_BOOL(&doc, "executionSuccess", true);
  doc_append_num(&doc, "nReturned", x->tree.returned);
  doc_append_num(&doc, "executionTimeMillis", x->millis);
  doc_append_num(&doc, "totalKeysExamined", x->counters.keys);
  doc_append_num(&doc, "totalDocsExamined", x->counters.docs);
  BSON_APPEND_DOCUMENT_BEGIN(&doc, "executionStages", &stages);
  plan_tree_append(x->arena, &x->tree, &stages);
  bson_append_document_end(&doc, &stages);
  if (x->all_plans) BSON_APPEND_ARRAY(&doc, "allPlansExecution", arena_bson(x->arena));
  bson_append_document_end(out, &doc);
}

// The store keeps values only in documents, so a covered projection reads them there; that is no document of the plan.
static void take_counters(struct explaining *x) {
  if (x->reading->executor) executor_counters(x->reading->executor, &x->counters);
  for (size_t i = 0; i < x->tree.n; i++) {
    if (x->tree.stages[i] == STAGE_PROJECTION_COVERED) x->counters.docs = 0;
  }
  x->tree.counters = &x->counters;
}

static const struct plan *plan_of(const struct reading *r) {
  return r->executor ? &r->plan : NULL;
}

static bool is_sharded(const struct reading *r) {
  return r->access && r->access->filtered;
}

// --- the families ---

static bool explain_find(struct explaining *x, struct error *err) {
  struct find *f;
  if (!find_open(x->r, x->arena, x->command, x->ns, &f, err)) return false;
  x->reading = find_reading(f);
  struct tree_shape shape = {.root = STAGE_EOF, .sharded = is_sharded(x->reading)};
  find_shape(f, &shape);
  plan_tree_make(&x->tree, &x->reading->query, plan_of(x->reading), &shape);
  int64_t from = clock_mono_us();
  while (x->execute) {
    const bson_t *doc;
    if (!find_next(x->r->op, f, &doc, err)) return false;
    if (!doc) break;
    x->tree.returned++;
  }
  x->millis = (clock_mono_us() - from) / 1000;
  return true;
}

static bool run_rows(struct explaining *x, int64_t *rows, struct error *err) {
  int64_t from = clock_mono_us();
  *rows = 0;
  while (x->execute) {
    const bson_t *doc;
    if (!reading_next(x->r->op, x->reading, &doc, err)) return false;
    if (!doc) break;
    (*rows)++;
  }
  x->millis = (clock_mono_us() - from) / 1000;
  return true;
}

static bool explain_count(struct explaining *x, struct error *err) {
  x->reading = arena_zalloc(x->arena, sizeof *x->reading);
  if (!count_open(x->r, x->arena, x->command, x->ns, x->reading, err)) return false;
  const struct query *q = &x->reading->query;
  struct tree_shape shape = {.root = STAGE_COUNT, .skip = q->skip, .limit = q->limit};
  plan_tree_make(&x->tree, q, plan_of(x->reading), &shape);
  if (bson_empty(q->filter)) {
    x->tree.n = 0;
    x->tree.stages[x->tree.n++] = STAGE_FAST_COUNT;
    return true;
  }
  int64_t from = clock_mono_us();
  if (x->execute && !count_rows(x->r->op, x->reading, &x->tree.returned, err)) return false;
  x->millis = (clock_mono_us() - from) / 1000;
  return true;
}

static bool explain_distinct(struct explaining *x, struct error *err) {
  const char *key;
  x->reading = arena_zalloc(x->arena, sizeof *x->reading);
  if (!distinct_open(x->r, x->arena, x->command, x->ns, x->reading, &key, err)) return false;
  struct tree_shape shape = {.root = STAGE_EOF, .sharded = is_sharded(x->reading)};
  plan_tree_make(&x->tree, &x->reading->query, plan_of(x->reading), &shape);
  return run_rows(x, &x->tree.returned, err);
}

// The only statement of an update or delete.
static bool only_statement(struct explaining *x, const char *field, const bson_t **out, struct error *err) {
  const bson_t *list;
  if (!optional_doc(x->arena, x->command, field, true, &list, err)) return false;
  if (!list || bson_count_keys(list) != 1) {
    return error_set(err, ERR_InvalidLength, "explained write batches must be of size 1");
  }
  bson_iter_t it;
  bson_iter_init(&it, list);
  bson_iter_next(&it);
  *out = iter_child(x->arena, &it);
  return true;
}

static bool open_write(struct explaining *x, const struct query *q, enum stage_kind root, struct error *err) {
  x->reading = arena_zalloc(x->arena, sizeof *x->reading);
  x->reading->query = *q;
  if (!reading_open(x->r, x->arena, x->ns, x->reading, err)) return false;
  struct tree_shape shape = {.root = root, .sharded = is_sharded(x->reading)};
  plan_tree_make(&x->tree, &x->reading->query, plan_of(x->reading), &shape);
  return true;
}

// Counts what an update would do. Stops after the first document unless `multi`.
static bool run_update(struct explaining *x, const struct update_statement *s, struct error *err) {
  struct arena *scratch = arena_child(x->arena);
  while (x->execute && (s->multi || !x->tree.would_match)) {
    const bson_t *doc, *after;
    bool modified = false;
    int position = -1;
    if (!reading_next(x->r->op, x->reading, &doc, err)) return false;
    if (!doc) break;
    arena_reset(scratch);
    match_doc_position(x->reading->query.match, doc, &position);
    if (!update_apply(s->update, scratch, doc, position, s->now_ms, false, &after, &modified, err)) return false;
    x->tree.would_match++;
    x->tree.would_modify += modified;
  }
  x->tree.would_upsert = x->execute && s->upsert && !x->tree.would_match;
  return true;
}

static bool run_delete(struct explaining *x, bool multi, struct error *err) {
  while (x->execute && (multi || !x->tree.would_match)) {
    const bson_t *doc;
    if (!reading_next(x->r->op, x->reading, &doc, err)) return false;
    if (!doc) break;
    x->tree.would_match++;
  }
  return true;
}

static bool explain_update(struct explaining *x, struct error *err) {
  const bson_t *spec;
  struct update_statement s;
  return only_statement(x, "updates", &spec, err) && update_statement_parse(x->r, x->arena, spec, &s, err) &&
         open_write(x, &s.query, STAGE_UPDATE, err) && run_update(x, &s, err);
}

static bool explain_delete(struct explaining *x, struct error *err) {
  const bson_t *spec;
  struct delete_statement s;
  return only_statement(x, "deletes", &spec, err) && delete_statement_parse(x->r, x->arena, spec, &s, err) &&
         open_write(x, &s.query, STAGE_DELETE, err) && run_delete(x, s.multi, err);
}

static bool explain_find_and_modify(struct explaining *x, struct error *err) {
  struct query q;
  if (!query_parse(x->arena, x->command, "query", &q, err)) return false;
  bool remove = doc_bool(x->command, "remove", false);
  return open_write(x, &q, remove ? STAGE_DELETE : STAGE_UPDATE, err) && run_delete(x, false, err);
}

// --- aggregate ---

static void append_query_part(struct explaining *x, bson_t *out) {
  if (x->execute) take_counters(x);
  append_planner(x, out);
  if (x->execute) append_execution(x, out);
}

// What the plan does not answer follows as the pipeline's own stages.
static void append_stages(struct explaining *x, const bson_t *rest) {
  bson_t stages, one, cursor;
  bson_iter_t it;
  uint32_t n = 1;
  BSON_APPEND_ARRAY_BEGIN(x->reply, "stages", &stages);
  BSON_APPEND_DOCUMENT_BEGIN(&stages, "0", &one);
  BSON_APPEND_DOCUMENT_BEGIN(&one, "$cursor", &cursor);
  append_query_part(x, &cursor);
  bson_append_document_end(&one, &cursor);
  if (x->execute) BSON_APPEND_INT64(&one, "nReturned", x->counters.matched);
  if (x->execute) BSON_APPEND_INT64(&one, "executionTimeMillisEstimate", x->millis);
  bson_append_document_end(&stages, &one);
  bson_iter_init(&it, rest);
  while (bson_iter_next(&it)) {
    char text[16];
    const char *key;
    bson_uint32_to_string(n++, &key, text, sizeof text);
    BSON_APPEND_DOCUMENT(&stages, key, iter_child(x->arena, &it));
  }
  bson_append_array_end(x->reply, &stages);
}

static bool explain_aggregate(struct explaining *x, struct error *err) {
  struct aggregation *g;
  if (!aggregation_open(x->r, x->arena, x->command, x->ns, &g, err)) return false;
  x->reading = aggregation_reading(g);
  const bson_t *rest = aggregation_stages(x->arena, g);
  if (!x->reading) {
    BSON_APPEND_ARRAY(x->reply, "stages", rest);
    return true;
  }
  struct tree_shape shape = {.root = STAGE_EOF, .sharded = is_sharded(x->reading)};
  plan_tree_make(&x->tree, &x->reading->query, plan_of(x->reading), &shape);
  int64_t from = clock_mono_us();
  while (x->execute) {
    const bson_t *doc;
    if (!aggregation_next(x->r->op, g, &doc, err)) return false;
    if (!doc) break;
    x->tree.returned++;
  }
  x->millis = (clock_mono_us() - from) / 1000;
  if (bson_empty(rest)) {
    append_query_part(x, x->reply);
  } else {
    append_stages(x, rest);
  }
  return true;
}

// --- the command ---

struct family {
  const char *name;
  bool (*explain)(struct explaining *x, struct error *err);
};

static const struct family families[] = {
    {"find", explain_find},
    {"count", explain_count},
    {"distinct", explain_distinct},
    {"update", explain_update},
    {"delete", explain_delete},
    {"findAndModify", explain_find_and_modify},
    {"findandmodify", explain_find_and_modify},
};

static void append_tail(struct explaining *x) {
  bson_t doc;
  BSON_APPEND_DOCUMENT(x->reply, "command", x->command);
  node_append_server_info(request_node(x->r), x->reply);
  BSON_APPEND_DOCUMENT_BEGIN(x->reply, "serverParameters", &doc);
  BSON_APPEND_INT32(&doc, "internalDocumentSourceGroupMaxMemoryBytes", 100 * 1024 * 1024);
  BSON_APPEND_INT32(&doc, "internalQueryMaxBlockingSortMemoryUsageBytes", 100 * 1024 * 1024);
  bson_append_document_end(x->reply, &doc);
}

static bool set_verbosity(struct explaining *x, const char *verbosity, struct error *err) {
  x->all_plans = !strcmp(verbosity, "allPlansExecution");
  x->execute = x->all_plans || !strcmp(verbosity, "executionStats");
  return x->execute || !strcmp(verbosity, "queryPlanner") ||
         error_set(err, ERR_FailedToParse,
                   "verbosity string must be one of {'queryPlanner', 'executionStats', "
                   "'allPlansExecution'}");
}

// A router may put the version into the inner command.
static void take_inner_version(struct request *r, const bson_t *command) {
  if (!r->has_shard_version) r->has_shard_version = doc_doc(command, "shardVersion", &r->shard_version);
  if (!r->has_database_version) r->has_database_version = doc_doc(command, "databaseVersion", &r->database_version);
}

static bool run_family(struct explaining *x, const bson_iter_t *first, struct error *err) {
  const char *name = bson_iter_key(first);
  if (!strcmp(name, "aggregate")) {
    x->ns = aggregate_namespace(x->r, first, x->arena, err);
    return x->ns && explain_aggregate(x, err);
  }
  for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
    if (strcmp(families[i].name, name)) continue;
    if (!BSON_ITER_HOLDS_UTF8(first)) {
      return error_set(err, ERR_InvalidNamespace, "collection name has invalid type in explained %s", name);
    }
    x->ns = arena_printf(x->arena, "%s.%s", x->r->db, bson_iter_utf8(first, NULL));
    if (!namespace_valid(x->ns, err) || !families[i].explain(x, err)) return false;
    append_query_part(x, x->reply);
    return true;
  }
  return error_set(err, ERR_CommandNotFound, "Explain failed due to unknown command: %s", name);
}

bool explain_command(struct request *r, const bson_t *command, const char *verbosity, bson_t *reply,
                     struct error *err) {
  struct explaining *x = arena_zalloc(r->op->arena, sizeof *x);
  x->r = r;
  x->arena = r->op->arena;
  x->command = command;
  x->reply = reply;
  bson_iter_t first;
  if (!bson_iter_init(&first, command) || !bson_iter_next(&first)) {
    return error_set(err, ERR_FailedToParse, "explain command requires a nested object");
  }
  take_inner_version(r, command);
  BSON_APPEND_UTF8(reply, "explainVersion", "1");
  if (!set_verbosity(x, verbosity, err) || !run_family(x, &first, err)) return false;
  append_tail(x);
  return true;
}

bool explain_run(struct request *r, bson_t *reply, struct error *err) {
  bson_iter_t it = r->first;
  if (!BSON_ITER_HOLDS_DOCUMENT(&it)) {
    return error_set(err, ERR_FailedToParse, "explain command requires a nested object");
  }
  const char *verbosity = doc_str(r->body, "verbosity", "allPlansExecution");
  return explain_command(r, iter_child(r->op->arena, &it), verbosity, reply, err);
}
