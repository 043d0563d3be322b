// {aggregate: 1}: pipelines whose first stage the router itself answers, on no collection.
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/bson/doc.h"
#include "mongos/aggregate.h"

struct rows {
  const bson_t **docs;
  size_t n;
};

// $documents: [...], or an expression that gives an array.
static bool documents_rows(struct arena *a, const bson_value_t *argument, const bson_t *let, struct rows *out,
                           struct error *err) {
  struct variables *vars = variables_new(a, let, clock_wall_ms(), err);
  struct expression *e = vars != NULL ? expression_parse(a, argument, vars, err) : NULL;
  bson_value_t value;
  bson_t empty = BSON_INITIALIZER, array;
  if (e == NULL || !expression_eval(e, a, &empty, &value, err)) return false;
  if (value.value_type != BSON_TYPE_ARRAY) {
    return error_set(err, 5858203, "an array is expected for $documents, found: %s", value_text(a, &value));
  }
  doc_view(&array, value.value.v_doc.data, value.value.v_doc.data_len);
  out->docs = arena_alloc(a, (bson_count_keys(&array) + 1) * sizeof *out->docs);
  bson_iter_t it;
  for (bool more = bson_iter_init(&it, &array); more && bson_iter_next(&it);) {
    if (!BSON_ITER_HOLDS_DOCUMENT(&it)) {
      return error_set(err, 40228, "$documents: every element of the array must be an object");
    }
    uint32_t len;
    const uint8_t *data;
    bson_iter_document(&it, &len, &data);
    out->docs[out->n++] = arena_bson_view(a, data, len);
  }
  return true;
}

static bool admin_only(const struct request *r, const char *stage, int32_t code, struct error *err) {
  if (strcmp(r->db, "admin") == 0) return true;
  return error_set(err, code, "%s must be run on the admin database", stage);
}

static bool distribution_rows(struct request *r, const bson_value_t *argument, struct rows *out, struct error *err) {
  enum { ERR_NOT_EMPTY = 6789100, ERR_NOT_ADMIN = 6789102 };
  if (argument->value_type != BSON_TYPE_DOCUMENT || argument->value.v_doc.data_len != 5) {
    return error_set(err, ERR_NOT_EMPTY, "The $shardedDataDistribution stage specification must be an empty object");
  }
  if (!admin_only(r, "$shardedDataDistribution", ERR_NOT_ADMIN, err)) return false;
  return data_distribution(r, &out->docs, &out->n, err);
}

static const char *first_stage_name(const bson_t *stages) {
  bson_iter_t it, stage;
  bool has =
      bson_iter_init(&it, stages) && bson_iter_next(&it) && bson_iter_recurse(&it, &stage) && bson_iter_next(&stage);
  return has ? bson_iter_key(&stage) : "an empty pipeline";
}

static bool rows_of(struct request *r, const bson_t *stages, const char *stage, const bson_value_t *argument,
                    const bson_t *let, struct rows *out, struct error *err) {
  if (stage == NULL) {
    return error_set(err, ERR_InvalidNamespace, "{aggregate: 1} is not valid for '%s'; a collection is required.",
                     first_stage_name(stages));
  }
  if (strcmp(stage, "$documents") == 0) return documents_rows(r->op->arena, argument, let, out, err);
  if (strcmp(stage, "$shardedDataDistribution") == 0) return distribution_rows(r, argument, out, err);
  if (strcmp(stage, "$currentOp") == 0) {
    if (!admin_only(r, "$currentOp", ERR_InvalidNamespace, err)) return false;
    current_operations(r, &out->docs, &out->n);
    return true;
  }
  return error_set(err, ERR_CommandNotSupported, "%s is not supported by this router", stage);
}

bool run_aggregate_database(struct request *r, const bson_t *stages, bson_t *reply, struct error *err) {
  const char *ns = arena_printf(r->op->arena, "%s.$cmd.aggregate", r->db);
  bson_t let_view, cursor_options;
  bool has_let = doc_doc(r->body, "let", &let_view);
  struct router_cursor *c = cursor_new(router_of(r), r, ns);
  struct arena *a = cursor_arena(c); // the pipeline may go on in later batches
  const bson_t *kept = doc_copy(a, stages);
  const bson_t *let = has_let ? doc_copy(a, &let_view) : NULL;
  struct pipeline *p = aggregate_parse(a, kept, let, err);
  struct rows rows = {0};
  bson_value_t argument;
  bool ok = p != NULL && rows_of(r, kept, pipeline_initial_stage(p, &argument), &argument, let, &rows, err);
  if (!ok) {
    if (err->extra != NULL) error_extra(err, r->op->arena, err->extra);
    cursor_discard(c);
    return false;
  }
  cursor_add_documents(c, rows.docs, rows.n);
  cursor_set_pipeline(c, p);
  int64_t batch_size = doc_doc(r->body, "cursor", &cursor_options) ? doc_i64(&cursor_options, "batchSize", -1) : -1;
  return cursor_reply(r->op, c, true, batch_size, false, reply, err);
}

// --- $currentOp ---

struct operation_rows {
  struct request *r;
  const bson_t **docs;
  size_t n, cap;
};

static bool add_operation(void *ctx, struct operation *op) {
  struct operation_rows *x = ctx;
  struct arena *a = x->r->op->arena;
  x->docs = arena_grow(a, x->docs, x->n, &x->cap, sizeof *x->docs);
  bson_t *row = arena_bson(a);
  bson_append_utf8(row, "host", -1, router_of(x->r)->host_port, -1);
  bson_append_utf8(row, "desc", -1, op->what != NULL ? op->what : "", -1);
  bson_append_utf8(row, "type", -1, "op", -1);
  bson_append_bool(row, "active", -1, true);
  bson_append_date_time(row, "currentOpTime", -1, clock_wall_ms());
  bson_append_int64(row, "opid", -1, (int64_t)op->id);
  bson_append_utf8(row, "op", -1, "command", -1);
  bson_append_bool(row, "killPending", -1, op->killed != 0);
  x->docs[x->n++] = row;
  return true;
}

void current_operations(struct request *r, const bson_t ***rows, size_t *n) {
  struct operation_rows x = {.r = r};
  operations_each(r->op->loop, add_operation, &x);
  *rows = x.docs;
  *n = x.n;
}
