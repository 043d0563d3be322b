// find: to one shard as it is, or to several whose answers become one cursor.
//
// One shard: the original body goes on with the versions added, and the reply's bytes come back with at most the cursor
// id changed. Several: each sorts and limits for itself (limit + skip documents), the router merges.
#include "mongos/read_find.h"

#include <string.h>

#include "common/bson/doc.h"
#include "common/query/sort.h"
#include "mongos/body.h"
#include "mongos/forward.h"
#include "mongos/router_cursor.h"

enum { ERR_NEGATIVE_NUMBER = 51024 };

static bool not_negative(const bson_t *body, const char *field, int64_t *out, struct error *err) {
  *out = doc_i64(body, field, 0);
  if (*out >= 0) return true;
  return error_set(err, ERR_NEGATIVE_NUMBER, "BSON field '%s' value must be >= 0, actual value '%" PRId64 "'", field,
                   *out);
}

bool find_window_parse(const bson_t *body, struct find_window *out, struct error *err) {
  *out = (struct find_window){0};
  if (!not_negative(body, "skip", &out->skip, err) || !not_negative(body, "limit", &out->limit, err)) return false;
  out->has_sort = doc_doc(body, "sort", &out->sort) && !bson_empty(&out->sort) && !doc_has(&out->sort, "$natural");
  out->has_projection = doc_doc(body, "projection", &out->projection) && !bson_empty(&out->projection);
  return true;
}

// With a sort the documents need their sort key along when a projection may take its fields away.
static void append_projection(bson_t *to, const bson_t *projection) {
  bson_t with_key, meta;
  bson_append_document_begin(to, "projection", -1, &with_key);
  bson_concat(&with_key, projection);
  bson_append_document_begin(&with_key, "$sortKey", -1, &meta);
  bson_append_utf8(&meta, "$meta", -1, "sortKey", -1);
  bson_append_document_end(&with_key, &meta);
  bson_append_document_end(to, &with_key);
}

bson_t *find_for_shards(struct arena *a, const bson_t *body, const struct find_window *w) {
  static const char *const windowed[] = {"skip", "limit", "singleBatch", "allowPartialResults", NULL};
  static const char *const sorted[] = {"skip", "limit", "singleBatch", "allowPartialResults", "projection", NULL};
  bson_t *to = arena_bson(a);
  bool with_key = w->has_sort && w->has_projection;
  forward_fields(to, body, with_key ? sorted : windowed);
  if (with_key) append_projection(to, &w->projection);
  int64_t most;
  if (w->limit > 0 && !__builtin_add_overflow(w->limit, w->skip, &most)) bson_append_int64(to, "limit", -1, most);
  return to;
}

void reply_empty_cursor(bson_t *reply, const char *ns, bool partial) {
  bson_t cursor, batch = BSON_INITIALIZER;
  bson_append_document_begin(reply, "cursor", -1, &cursor);
  bson_append_array(&cursor, "firstBatch", -1, &batch);
  if (partial) bson_append_bool(&cursor, "partialResultsReturned", -1, true);
  bson_append_int64(&cursor, "id", -1, 0);
  bson_append_utf8(&cursor, "ns", -1, ns, -1);
  bson_append_document_end(reply, &cursor);
}

struct find_job {
  struct request *r;
  bson_t filter;
  struct find_window window;
  bson_t *reply;
};

// The router's own business.
static const char *const partial_field[] = {"allowPartialResults", NULL};

static bool allows_partial(const struct find_job *j) {
  return doc_bool(j->r->body, "allowPartialResults", false);
}

static bool find_one(struct find_job *j, struct operation *op, struct router *rt, const struct placement *p,
                     const struct target *target, struct error *err) {
  bool partial = allows_partial(j);
  struct shard_call call = {.target = *target, .body = forward_body(j->r, partial_field)};
  shard_call_run(j->r, op, &call, partial ? CALL_PARTIAL_READ : CALL_READ);
  if (!call.ok && partial && call_error_is_absence(&call.err)) {
    reply_empty_cursor(j->reply, p->ns, true);
    return true;
  }
  if (!shard_calls_ok(rt, p, &call, 1, err)) return false;
  return cursor_reply_direct(j->r, &call, p->ns, doc_bool(j->r->body, "noCursorTimeout", false), j->reply, err);
}

static bool set_up_merge(struct find_job *j, struct router_cursor *c, struct error *err) {
  struct arena *a = cursor_arena(c);
  const struct find_window *w = &j->window;
  cursor_set_window(c, w->skip, w->limit);
  if (doc_bool(j->r->body, "noCursorTimeout", false)) cursor_set_no_timeout(c);
  if (!w->has_sort) return true;
  const bson_t *pattern = doc_copy(a, &w->sort);
  const struct sort *sort = sort_parse(a, pattern, err);
  if (sort == NULL) return false;
  cursor_set_sort(c, sort, w->has_projection);
  return true;
}

// Moves the calls to shards that are not there behind the others; returns how many others there are.
static size_t leave_out_absent(struct shard_call *calls, size_t n) {
  size_t kept = 0;
  for (size_t i = 0; i < n; i++) {
    if (!calls[i].ok && call_error_is_absence(&calls[i].err)) continue;
    struct shard_call absent = calls[kept];
    calls[kept++] = calls[i];
    calls[i] = absent;
  }
  return kept;
}

static bool find_many(struct find_job *j, struct operation *op, struct router *rt, const struct placement *p,
                      const struct target *targets, size_t n, struct error *err) {
  struct request *r = j->r;
  struct router_cursor *c = cursor_new(rt, r, p->ns);
  if (!set_up_merge(j, c, err)) {
    cursor_discard(c);
    return false;
  }
  struct shard_call *calls = shard_calls_new(op->arena, targets, n, find_for_shards(op->arena, r->body, &j->window));
  shard_calls_run(r, op, calls, n, allows_partial(j) ? CALL_PARTIAL_READ : CALL_READ);
  if (allows_partial(j)) {
    size_t present = leave_out_absent(calls, n);
    cursor_set_partial(c, present < n);
    n = present;
  }
  bool ok = shard_calls_ok(rt, p, calls, n, err);
  if (!ok) calls_kill_cursors(rt, r, calls, n);
  for (size_t i = 0; ok && i < n; i++)
    ok = cursor_add_shard(c, calls[i].target.shard, calls[i].host, calls[i].reply, err);
  if (!ok) {
    cursor_discard(c);
    return false;
  }
  int64_t batch_size = doc_i64(r->body, "batchSize", -1);
  return cursor_reply(op, c, true, batch_size, doc_bool(r->body, "singleBatch", false), j->reply, err);
}

static bool find_attempt(struct operation *op, struct router *rt, const struct placement *p, void *ctx,
                         struct error *err) {
  struct find_job *j = ctx;
  if (p->kind == PLACE_NOWHERE) {
    if (!body_filter_check(j->r, &j->filter, err)) return false;
    if (j->window.has_sort && sort_parse(op->arena, &j->window.sort, err) == NULL) return false;
    reply_empty_cursor(j->reply, p->ns, false);
    return true;
  }
  struct filter_spec f = {.filter = &j->filter, .options = j->r->body, .command = j->r->body};
  struct target *targets;
  size_t n;
  bool exact;
  if (!placement_targets(op->arena, p, &f, &targets, &n, &exact, err)) return false;
  placement_count(rt, TARGETED_FIND, p, n);
  if (n == 1) return find_one(j, op, rt, p, targets, err);
  return find_many(j, op, rt, p, targets, n, err);
}

bool run_find(struct request *r, bson_t *reply, struct error *err) {
  struct find_job j = {.r = r, .reply = reply};
  bson_t checked;
  if (!request_needs_collection(r, err) || !body_document(r, "filter", &j.filter, err) ||
      !body_document(r, "sort", &checked, err) || !body_document(r, "projection", &checked, err) ||
      !find_window_parse(r->body, &j.window, err)) {
    return false;
  }
  return routed_run(r->op, router_of(r), r->ns, "find", false, find_attempt, &j, err);
}
