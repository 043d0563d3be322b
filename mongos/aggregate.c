// aggregate over a collection: to one shard as it is, or split into a part for the shards and one for the router.
#include "mongos/aggregate.h"

#include <string.h>

#include "common/base/clock.h"
#include "common/bson/doc.h"
#include "mongos/forward.h"
#include "mongos/read_commands.h"
#include "mongos/read_find.h"

struct pipeline *aggregate_parse(struct arena *a, const bson_t *stages, const bson_t *let, struct error *err) {
  struct variables *vars = variables_new(a, let, clock_wall_ms(), err);
  return vars != NULL ? pipeline_parse(a, stages, vars, err) : NULL;
}

static bool refuse(const char *stage, const char *why, struct error *err) {
  return error_set(err, ERR_CommandNotSupported, "%s is not supported by this router: %s", stage, why);
}

static bool produced_by_shards(const char *stage) {
  return strcmp(stage, "$collStats") == 0 || strcmp(stage, "$indexStats") == 0 || strcmp(stage, "$planCacheStats") == 0;
}

// All stages but the first.
static const bson_t *without_first(struct arena *a, const bson_t *stages) {
  bson_t *rest = arena_bson(a);
  bson_iter_t it;
  uint32_t n = 0;
  for (bool more = bson_iter_init(&it, stages) && bson_iter_next(&it); more && bson_iter_next(&it); n++) {
    char text[16];
    const char *key;
    (void)bson_uint32_to_string(n, &key, text, sizeof text);
    doc_append_iter(rest, key, &it);
  }
  return rest;
}

static const bson_t *first_only(struct arena *a, const bson_t *stages) {
  bson_t *first = arena_bson(a);
  bson_iter_t it;
  if (bson_iter_init(&it, stages) && bson_iter_next(&it)) doc_append_iter(first, "0", &it);
  return first;
}

bool aggregate_plan(struct arena *a, const bson_t *stages, const bson_t *let, struct aggregate_plan *out,
                    struct error *err) {
  *out = (struct aggregate_plan){0};
  struct pipeline *p = aggregate_parse(a, stages, let, err);
  if (p == NULL) return false;
  bson_value_t argument;
  const char *writing = pipeline_writing_stage(p, &argument);
  if (writing != NULL) return refuse(writing, "it would write to another collection", err);
  out->initial = pipeline_initial_stage(p, &out->initial_argument);
  if (out->initial != NULL) {
    if (!produced_by_shards(out->initial)) return refuse(out->initial, "it cannot be read from a collection", err);
    out->filter = arena_bson(a);
    out->split.shards = first_only(a, stages);
    out->split.merger = without_first(a, stages);
    return true;
  }
  pipeline_split(a, p, &out->split);
  out->filter = pipeline_take_match(p); // last, for it takes the stages out
  return true;
}

bson_t *aggregate_for_shards(struct arena *a, const bson_t *body, const struct aggregate_plan *plan) {
  static const char *const replaced[] = {"pipeline", "cursor", NULL};
  bson_t *to = arena_bson(a), cursor;
  forward_fields(to, body, replaced);
  bson_append_array(to, "pipeline", -1, plan->split.shards);
  // With work left for the router the client's batch size says nothing about how much is to be fetched.
  if (bson_empty(plan->split.merger) && doc_doc(body, "cursor", &cursor)) {
    bson_append_document(to, "cursor", -1, &cursor);
  } else {
    bson_t empty = BSON_INITIALIZER;
    bson_append_document(to, "cursor", -1, &empty);
  }
  return to;
}

struct aggregate_job {
  struct request *r;
  bson_t stages, let;
  bool has_let;
  struct aggregate_plan plan;
  int64_t batch_size; // < 0 = not given
  bson_t *reply;
};

// The documents of $collStats say whose they are, also where the shard leaves that to the router.
static const bson_t *name_shard(void *ctx, struct arena *scratch, const char *shard, const bson_t *doc) {
  if (shard == NULL || doc_has(doc, "shard")) return doc;
  bson_t *named = arena_bson(scratch);
  bson_iter_t it;
  bool done = false;
  for (bool more = bson_iter_init(&it, doc); more && bson_iter_next(&it);) {
    bool after_ns = strcmp(bson_iter_key(&it), "ns") == 0;
    doc_append_iter(named, NULL, &it);
    if (after_ns) bson_append_utf8(named, "shard", -1, shard, -1);
    done = done || after_ns;
  }
  if (!done) bson_append_utf8(named, "shard", -1, shard, -1);
  return named;
}

static bool set_up_merger(struct aggregate_job *j, struct router_cursor *c, struct error *err) {
  struct arena *a = cursor_arena(c);
  const struct pipeline_split *split = &j->plan.split;
  if (j->plan.initial != NULL) cursor_set_tap(c, name_shard, NULL);
  if (split->merge_sort != NULL) {
    const bson_t *pattern = doc_copy(a, split->merge_sort);
    const struct sort *sort = sort_parse(a, pattern, err);
    if (sort == NULL) return false;
    cursor_set_sort(c, sort, false);
  }
  if (bson_empty(split->merger)) return true;
  const bson_t *stages = doc_copy(a, split->merger);
  const bson_t *let = j->has_let ? doc_copy(a, &j->let) : NULL;
  struct pipeline *p = aggregate_parse(a, stages, let, err);
  if (p == NULL) return false;
  cursor_set_pipeline(c, p);
  return true;
}

static bool aggregate_many(struct aggregate_job *j, struct operation *op, struct router *rt, const struct placement *p,
                           const struct target *targets, size_t n, struct error *err) {
  struct request *r = j->r;
  struct router_cursor *c = cursor_new(rt, r, p->ns);
  struct shard_call *calls = shard_calls_new(op->arena, targets, n, aggregate_for_shards(op->arena, r->body, &j->plan));
  shard_calls_run(r, op, calls, n, CALL_READ);
  bool ok = shard_calls_ok(rt, p, calls, n, err);
  if (!ok) calls_kill_cursors(rt, r, calls, n);
  for (size_t i = 0; ok && i < n; i++)
    ok = cursor_add_shard(c, calls[i].target.shard, calls[i].host, calls[i].reply, err);
  ok = ok && set_up_merger(j, c, err);
  if (!ok) {
    if (err->extra != NULL) error_extra(err, op->arena, err->extra);
    cursor_discard(c);
    return false;
  }
  return cursor_reply(op, c, true, j->batch_size, false, j->reply, err);
}

static bool aggregate_one(struct aggregate_job *j, struct operation *op, struct router *rt, const struct placement *p,
                          const struct target *target, struct error *err) {
  struct shard_call call = {.target = *target, .body = forward_body(j->r, NULL)};
  shard_call_run(j->r, op, &call, CALL_READ);
  if (!shard_calls_ok(rt, p, &call, 1, err)) return false;
  return cursor_reply_direct(j->r, &call, p->ns, false, j->reply, err);
}

static bool aggregate_attempt(struct operation *op, struct router *rt, const struct placement *p, void *ctx,
                              struct error *err) {
  struct aggregate_job *j = ctx;
  if (p->kind == PLACE_NOWHERE) {
    reply_empty_cursor(j->reply, p->ns, false);
    return true;
  }
  struct filter_spec f = {.filter = j->plan.filter, .options = j->r->body, .command = j->r->body};
  struct target *targets;
  size_t n;
  bool exact;
  if (p->kind == PLACE_CONFIG || j->plan.initial != NULL) {
    n = placement_all(op->arena, p, &targets);
  } else if (!placement_targets(op->arena, p, &f, &targets, &n, &exact, err)) {
    return false;
  }
  placement_count(rt, TARGETED_AGGREGATE, p, n);
  bool whole = p->kind == PLACE_CONFIG || (n == 1 && j->plan.initial == NULL);
  return whole ? aggregate_one(j, op, rt, p, targets, err) : aggregate_many(j, op, rt, p, targets, n, err);
}

static bool wants_explain(const struct request *r) {
  return doc_bool(r->body, "explain", false);
}

// {aggregate, explain: true} is the older form of the explain command.
static bool run_explain_flag(struct request *r, bson_t *reply, struct error *err) {
  static const char *const flag[] = {"explain", NULL};
  bson_t *body = arena_bson(r->op->arena);
  bson_append_document(body, "explain", -1, forward_body(r, flag));
  bson_append_utf8(body, "verbosity", -1, "queryPlanner", -1);
  return dispatch_local(router_of(r)->dispatcher, r->op, r->db, body, reply, err);
}

bool run_aggregate(struct request *r, bson_t *reply, struct error *err) {
  struct aggregate_job j = {.r = r, .reply = reply, .batch_size = -1};
  if (!request_required_doc(r, "pipeline", &j.stages, err)) return false;
  if (wants_explain(r)) return run_explain_flag(r, reply, err);
  bson_t cursor;
  if (!doc_doc(r->body, "cursor", &cursor)) {
    return error_set(err, ERR_FailedToParse,
                     "The 'cursor' option is required, except for aggregate with the explain argument");
  }
  j.batch_size = doc_i64(&cursor, "batchSize", -1);
  if (r->coll == NULL) return run_aggregate_database(r, &j.stages, reply, err);
  if (!request_needs_collection(r, err)) return false;
  j.has_let = doc_doc(r->body, "let", &j.let);
  bool on_config = database_is_on_config(r->db); // parsed there
  if (!on_config && !aggregate_plan(r->op->arena, &j.stages, j.has_let ? &j.let : NULL, &j.plan, err)) return false;
  return routed_run(r->op, router_of(r), r->ns, "aggregate", false, aggregate_attempt, &j, err);
}
