// explain: asks the shards that the explained command would go to, in the form in which it would go there.
#include "mongos/explain.h"

#include <string.h>

#include "common/base/clock.h"
#include "common/bson/doc.h"
#include "mongos/forward.h"
#include "mongos/read_commands.h"
#include "mongos/read_find.h"

enum explained {
  EXPLAIN_FIND,
  EXPLAIN_COUNT,
  EXPLAIN_DISTINCT,
  EXPLAIN_MODIFY,
  EXPLAIN_UPDATE,
  EXPLAIN_DELETE,
  EXPLAIN_AGGREGATE,
  EXPLAIN_KINDS
};

// A command that can be explained, and where it has its filter.
struct explainable {
  const char *name, *alias, *filter, *statements;
};

static const struct explainable explainable[EXPLAIN_KINDS] = {
    [EXPLAIN_FIND] = {"find", NULL, "filter", NULL},
    [EXPLAIN_COUNT] = {"count", NULL, "query", NULL},
    [EXPLAIN_DISTINCT] = {"distinct", NULL, "query", NULL},
    [EXPLAIN_MODIFY] = {"findAndModify", "findandmodify", "query", NULL},
    [EXPLAIN_UPDATE] = {"update", NULL, "q", "updates"},
    [EXPLAIN_DELETE] = {"delete", NULL, "q", "deletes"},
    [EXPLAIN_AGGREGATE] = {"aggregate", NULL, NULL, NULL},
};

struct explain_job {
  struct request *r;
  enum explained kind;
  bson_t inner, filter, statement, let;
  bool has_let;
  struct find_window window;
  struct aggregate_plan plan;
  bson_t *reply;
};

// {explain: inner, verbosity...}
static bson_t *explain_body(struct explain_job *j, const bson_t *inner) {
  bson_value_t value = value_doc(inner);
  return forward_renamed(j->r, "explain", &value, NULL);
}

static const bson_t *inner_for(struct explain_job *j, struct arena *a, size_t n) {
  if (n > 1 && j->kind == EXPLAIN_FIND) return find_for_shards(a, &j->inner, &j->window);
  if (n > 1 && j->kind == EXPLAIN_AGGREGATE) return aggregate_for_shards(a, &j->inner, &j->plan);
  bson_t *inner = arena_bson(a);
  forward_fields(inner, &j->inner, NULL);
  return inner;
}

static const char *stage_of(const struct explain_job *j, size_t n) {
  if (j->kind == EXPLAIN_UPDATE || j->kind == EXPLAIN_DELETE) return "SHARD_WRITE";
  if (n == 1) return "SINGLE_SHARD";
  bson_t sort;
  bool sorts = j->kind == EXPLAIN_FIND && doc_doc(&j->inner, "sort", &sort) && !bson_empty(&sort);
  return sorts ? "SHARD_MERGE_SORT" : "SHARD_MERGE";
}

static void explain_nothing(struct explain_job *j, const struct placement *p) {
  bson_t planner, plan;
  bson_append_document_begin(j->reply, "queryPlanner", -1, &planner);
  bson_append_utf8(&planner, "namespace", -1, p->ns, -1);
  bson_append_document_begin(&planner, "winningPlan", -1, &plan);
  bson_append_utf8(&plan, "stage", -1, "EOF", -1);
  bson_append_document_end(&planner, &plan);
  bson_append_document_end(j->reply, &planner);
  explain_append_common(j->r, &j->inner, j->reply);
}

static bool explain_attempt(struct operation *op, struct router *rt, const struct placement *p, void *ctx,
                            struct error *err) {
  struct explain_job *j = ctx;
  if (p->kind == PLACE_NOWHERE) {
    explain_nothing(j, p);
    return true;
  }
  struct filter_spec f = {.filter = &j->filter, .options = &j->inner, .command = &j->inner};
  if (j->kind == EXPLAIN_UPDATE || j->kind == EXPLAIN_DELETE) f.options = &j->statement;
  if (j->kind == EXPLAIN_AGGREGATE && j->plan.filter != NULL) f.filter = j->plan.filter;
  struct target *targets;
  size_t n;
  bool exact;
  if (j->plan.initial != NULL) {
    n = placement_all(op->arena, p, &targets);
  } else if (!placement_targets(op->arena, p, &f, &targets, &n, &exact, err)) {
    return false;
  }
  int64_t started = clock_mono_ms();
  struct shard_call *calls = shard_calls_new(op->arena, targets, n, explain_body(j, inner_for(j, op->arena, n)));
  shard_calls_run(j->r, op, calls, n, CALL_READ);
  if (!shard_calls_ok(rt, p, calls, n, err)) return false;
  if (j->kind == EXPLAIN_AGGREGATE) {
    explain_append_pipeline(j->r, n > 1 ? &j->plan : NULL, calls, n, j->reply);
  } else {
    explain_append_query(j->r, stage_of(j, n), calls, n, clock_mono_ms() - started, j->reply);
  }
  explain_append_common(j->r, &j->inner, j->reply);
  return true;
}

// The filter of the explained command; of an update or delete that of its only statement.
static bool find_filter(struct explain_job *j, struct error *err) {
  const struct explainable *e = &explainable[j->kind];
  const bson_t *holder = &j->inner;
  bson_t list;
  bson_iter_t it;
  bson_init(&j->filter);
  if (e->filter == NULL) return true;
  if (e->statements != NULL) {
    if (!doc_doc(&j->inner, e->statements, &list) || bson_count_keys(&list) != 1 || !bson_iter_init(&it, &list) ||
        !bson_iter_next(&it)) {
      return error_set(err, ERR_InvalidLength, "explained write batches must be of size 1");
    }
    iter_doc(&j->statement, &it);
    holder = &j->statement;
  }
  if (!doc_doc(holder, e->filter, &j->filter)) bson_init(&j->filter);
  return true;
}

static bool which(const char *name, enum explained *out) {
  for (int i = 0; i < EXPLAIN_KINDS; i++) {
    const struct explainable *e = &explainable[i];
    if (strcmp(e->name, name) != 0 && (e->alias == NULL || strcmp(e->alias, name) != 0)) continue;
    *out = (enum explained)i;
    return true;
  }
  return false;
}

static bool prepare(struct explain_job *j, struct error *err) {
  if (!find_filter(j, err)) return false;
  if (j->kind == EXPLAIN_FIND) return find_window_parse(&j->inner, &j->window, err);
  bool on_config = database_is_on_config(j->r->db);
  if (j->kind != EXPLAIN_AGGREGATE || on_config) return true;
  bson_t stages;
  if (!doc_doc(&j->inner, "pipeline", &stages)) {
    return error_set(err, 40414, "BSON field 'aggregate.pipeline' is missing but a required field");
  }
  j->has_let = doc_doc(&j->inner, "let", &j->let);
  return aggregate_plan(j->r->op->arena, &stages, j->has_let ? &j->let : NULL, &j->plan, err);
}

bool run_explain(struct request *r, bson_t *reply, struct error *err) {
  struct explain_job j = {.r = r, .reply = reply};
  bson_iter_t first;
  if (!doc_doc(r->body, "explain", &j.inner) || !bson_iter_init(&first, &j.inner) || !bson_iter_next(&first)) {
    return error_set(err, ERR_FailedToParse, "explain command requires a nested object");
  }
  if (!which(bson_iter_key(&first), &j.kind)) {
    return error_set(err, ERR_CommandNotFound, "Explain failed due to unknown command: %s", bson_iter_key(&first));
  }
  if (!BSON_ITER_HOLDS_UTF8(&first)) {
    return error_set(err, ERR_InvalidNamespace, "explain of '%s' requires a collection name", bson_iter_key(&first));
  }
  const char *ns = arena_printf(r->op->arena, "%s.%s", r->db, bson_iter_utf8(&first, NULL));
  if (!namespace_valid(ns, err) || !prepare(&j, err)) return false;
  return routed_run(r->op, router_of(r), ns, "explain", false, explain_attempt, &j, err);
}
