// The aggregate command: a plan answers the leading $match and $sort, the pipeline does the rest.
#include "common/node/crud.h"

#include <string.h>

#include "common/base/clock.h"
#include "common/bson/doc.h"
#include "common/node/cursors.h"
#include "common/node/initial_stages.h"
#include "common/node/internal.h"
#include "common/node/reading.h"
#include "common/query/pipeline/pipeline.h"

struct aggregation {
  struct reading reading;
  struct pipeline *pipeline;
  struct operation *op; // of the command that pulls now
  bool own_source;      // the first stage makes its own documents
  bson_iter_t made;     // over them
  struct arena *row;    // the present one of them
};

struct reading *aggregation_reading(struct aggregation *g) {
  return g->own_source ? NULL : &g->reading;
}

const bson_t *aggregation_stages(struct arena *a, const struct aggregation *g) {
  bson_t *stages = arena_bson(a);
  pipeline_describe(g->pipeline, stages);
  return stages;
}

static bool next_read(void *ctx, const bson_t **doc, struct error *err) {
  struct aggregation *g = ctx;
  return reading_next(g->op, &g->reading, doc, err);
}

static bool next_made(void *ctx, const bson_t **doc, struct error *err) {
  struct aggregation *g = ctx;
  arena_reset(g->row);
  *doc = bson_iter_next(&g->made) ? iter_child(g->row, &g->made) : NULL;
  return true;
}

bool aggregation_next(struct operation *op, void *ctx, const bson_t **doc, struct error *err) {
  struct aggregation *g = ctx;
  g->op = op;
  return pipeline_next(g->pipeline, doc, err);
}

static void aggregation_save(void *ctx) {
  reading_save(&((struct aggregation *)ctx)->reading);
}

// The documents of $collStats, $currentOp...: all at once, they are few.
static bool open_initial(struct request *r, struct arena *a, const char *ns, const char *stage,
                         const bson_value_t *argument, struct variables *vars, struct aggregation *g,
                         struct error *err) {
  bson_t *docs = arena_bson(a);
  if (!initial_stage_documents(r, a, ns, stage, argument, vars, docs, err)) return false;
  g->own_source = true;
  g->row = arena_child(a);
  bson_iter_init(&g->made, docs);
  pipeline_start(g->pipeline, (struct doc_source){.next = next_made, .ctx = g});
  return true;
}

static bool open_collection(struct request *r, struct arena *a, const bson_t *command, const char *ns,
                            const bson_t *let, struct aggregation *g, struct error *err) {
  struct query *q = &g->reading.query;
  q->options.let = let;
  q->filter = pipeline_take_match(g->pipeline);
  if (!q->filter) q->filter = arena_bson(a);
  q->match = match_parse(a, q->filter, &q->options, err);
  if (!q->match || !query_parse_hint(a, command, q, err)) return false;
  const bson_t *sort;
  int64_t limit = 0;
  if (pipeline_leading_sort(g->pipeline, &sort, &limit)) {
    if (!query_parse_sort(a, sort, q, err)) return false;
    if (q->sort) pipeline_drop_leading_sort(g->pipeline);
  }
  if (!reading_open(r, a, ns, &g->reading, err)) return false;
  if (g->reading.executor && q->sort) executor_limit(g->reading.executor, limit);
  pipeline_start(g->pipeline, (struct doc_source){.next = next_read, .ctx = g});
  return true;
}

bool aggregation_open(struct request *r, struct arena *a, const bson_t *command, const char *ns,
                      struct aggregation **out, struct error *err) {
  struct aggregation *g = *out = arena_zalloc(a, sizeof *g);
  const bson_t *stages, *let;
  if (!optional_doc(a, command, "pipeline", true, &stages, err) || !optional_doc(a, command, "let", false, &let, err) ||
      !collation_is_simple(command, err)) {
    return false;
  }
  if (!stages) return error_set(err, ERR_NoSuchKey, "BSON field 'aggregate.pipeline' is missing but a required field");
  struct variables *vars = variables_new(a, let, clock_wall_ms(), err);
  if (!vars) return false;
  g->pipeline = pipeline_parse(a, stages, vars, err);
  if (!g->pipeline) return false;
  bson_value_t argument;
  const char *stage = pipeline_writing_stage(g->pipeline, &argument);
  if (stage) return error_set(err, ERR_CommandNotSupported, "pipeline stage %s is not supported", stage);
  stage = pipeline_initial_stage(g->pipeline, &argument);
  if (stage) return open_initial(r, a, ns, stage, &argument, vars, g, err);
  if (strstr(ns, ".$cmd.aggregate")) {
    return error_set(err, ERR_InvalidNamespace, "{aggregate: 1} is not valid here: a collection is required");
  }
  return open_collection(r, a, command, ns, let, g, err);
}

// aggregate: "coll", or 1 for stages that need no collection.
const char *aggregate_namespace(const struct request *r, const bson_iter_t *first, struct arena *a, struct error *err) {
  if (BSON_ITER_HOLDS_UTF8(first)) {
    const char *ns = arena_printf(a, "%s.%s", r->db, bson_iter_utf8(first, NULL));
    return namespace_valid(ns, err) ? ns : NULL;
  }
  if (iter_is_number(first) && iter_i64(first) == 1) return arena_printf(a, "%s.$cmd.aggregate", r->db);
  error_set(err, ERR_FailedToParse,
            "Invalid command format: the 'aggregate' field must specify a collection name or 1");
  return NULL;
}

bool aggregate_run(struct request *r, bson_t *reply, struct error *err) {
  struct node *n = request_node(r);
  const char *ns = aggregate_namespace(r, &r->first, r->op->arena, err);
  if (!ns) return false;
  if (doc_bool(r->body, "explain", false)) return explain_command(r, r->body, "queryPlanner", reply, err);
  int64_t from = clock_mono_us(), batch_size;
  if (!cursor_batch_size(r->body, true, &batch_size, err)) return false;
  struct cursor *c = cursor_new(r, ns);
  struct aggregation *g;
  if (!aggregation_open(r, c->arena, c->command, ns, &g, err)) return false;
  c->next = aggregation_next;
  c->save = aggregation_save;
  c->ctx = g;
  struct collection *there = g->own_source ? NULL : g->reading.collection;
  uint8_t uuid[16];
  if (there) memcpy(uuid, there->uuid, sizeof uuid);
  if (!cursor_reply(r, c, batch_size, false, reply, err)) return false;
  if (there) usage_count(n, uuid, USAGE_READ, clock_mono_us() - from);
  return true;
}
