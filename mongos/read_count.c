// count and distinct: asked of every shard concerned, added up or united.
#include "common/bson/doc.h"
#include "common/bson/key.h"
#include "mongos/body.h"
#include "mongos/forward.h"
#include "mongos/read_commands.h"
#include "mongos/read_find.h"
#include "mongos/shard_call.h"

#include <stdlib.h>
#include <string.h>

struct read_job {
  struct request *r;
  bson_t filter;
  bson_t *reply;
};

// The shards that the job's filter concerns.
static bool targets_of(struct read_job *j, struct operation *op, const struct placement *p, struct target **targets,
                       size_t *n, struct error *err) {
  struct filter_spec f = {.filter = &j->filter, .options = j->r->body, .command = j->r->body};
  bool exact;
  return placement_targets(op->arena, p, &f, targets, n, &exact, err);
}

// --- count ---

static void reply_count(bson_t *reply, const struct shard_call *calls, size_t n, int64_t skip, int64_t limit) {
  int64_t total = 0;
  bson_t shards;
  bson_append_document_begin(reply, "shards", -1, &shards);
  for (size_t i = 0; i < n; i++) {
    int64_t part = doc_i64(calls[i].reply, "n", 0);
    doc_append_num(&shards, calls[i].target.shard != NULL ? calls[i].target.shard : "config", part);
    total += part;
  }
  bson_append_document_end(reply, &shards);
  total = total > skip ? total - skip : 0;
  if (limit > 0 && total > limit) total = limit;
  doc_append_num(reply, "n", total);
}

static bool count_attempt(struct operation *op, struct router *rt, const struct placement *p, void *ctx,
                          struct error *err) {
  static const char *const windowed[] = {"skip", "limit", NULL};
  struct read_job *j = ctx;
  struct request *r = j->r;
  struct target *targets;
  size_t n;
  if (p->kind == PLACE_NOWHERE) {
    if (!body_filter_check(j->r, &j->filter, err)) return false;
    reply_count(j->reply, NULL, 0, 0, 0);
    return true;
  }
  if (!targets_of(j, op, p, &targets, &n, err)) return false;
  int64_t skip = doc_i64(r->body, "skip", 0), limit = doc_i64(r->body, "limit", 0), most;
  if (skip < 0) return error_set(err, ERR_BadValue, "skip value must be non-negative, but received: %" PRId64, skip);
  if (limit < 0) limit = limit == INT64_MIN ? INT64_MAX : -limit;
  // A shard cannot know how many of the skipped documents are its own.
  bson_t *body = forward_body(r, n > 1 ? windowed : NULL);
  if (n > 1 && limit > 0 && !__builtin_add_overflow(limit, skip, &most)) bson_append_int64(body, "limit", -1, most);
  struct shard_call *calls = shard_calls_new(op->arena, targets, n, body);
  shard_calls_run(r, op, calls, n, CALL_READ);
  if (!shard_calls_ok(rt, p, calls, n, err)) return false;
  reply_count(j->reply, calls, n, n > 1 ? skip : 0, n > 1 ? limit : 0);
  return true;
}

bool run_count(struct request *r, bson_t *reply, struct error *err) {
  struct read_job j = {.r = r, .reply = reply};
  if (!request_needs_collection(r, err)) return false;
  if (!body_document(r, "query", &j.filter, err)) return false;
  return routed_run(r->op, router_of(r), r->ns, "count", false, count_attempt, &j, err);
}

// --- distinct ---

struct distinct_value {
  struct key key;
  bson_value_t value;
};

static int compare_distinct(const void *a, const void *b) {
  return key_compare(((const struct distinct_value *)a)->key, ((const struct distinct_value *)b)->key);
}

// The union of the shards' values, each once, ascending.
static void reply_union(struct arena *a, const struct shard_call *calls, size_t n, bson_t *reply) {
  struct distinct_value *all = NULL;
  size_t count = 0, cap = 0;
  struct buf encoded __attribute__((cleanup(buf_cleanup))) = {0};
  for (size_t i = 0; i < n; i++) {
    bson_t values;
    bson_iter_t it;
    if (!doc_doc(calls[i].reply, "values", &values) || !bson_iter_init(&it, &values)) continue;
    while (bson_iter_next(&it)) {
      all = array_grow(all, &cap, count + 1, sizeof *all);
      all[count].value = *bson_iter_value(&it);
      buf_clear(&encoded);
      key_append(&encoded, &all[count].value, false);
      all[count++].key = key_copy(a, &encoded);
    }
  }
  if (count > 0) qsort(all, count, sizeof *all, compare_distinct);
  bson_t array;
  bson_append_array_begin(reply, "values", -1, &array);
  uint32_t at = 0;
  for (size_t i = 0; i < count; i++) {
    if (i > 0 && key_compare(all[i - 1].key, all[i].key) == 0) continue;
    char text[16];
    const char *key;
    bson_uint32_to_string(at++, &key, text, sizeof text);
    doc_append_value(&array, key, &all[i].value);
  }
  bson_append_array_end(reply, &array);
  free(all);
}

static bool distinct_attempt(struct operation *op, struct router *rt, const struct placement *p, void *ctx,
                             struct error *err) {
  struct read_job *j = ctx;
  struct target *targets;
  size_t n;
  if (p->kind == PLACE_NOWHERE) {
    if (!body_filter_check(j->r, &j->filter, err)) return false;
    reply_union(op->arena, NULL, 0, j->reply);
    return true;
  }
  if (!targets_of(j, op, p, &targets, &n, err)) return false;
  struct shard_call *calls = shard_calls_new(op->arena, targets, n, forward_body(j->r, NULL));
  shard_calls_run(j->r, op, calls, n, CALL_READ);
  if (!shard_calls_ok(rt, p, calls, n, err)) return false;
  if (n == 1) {
    forward_reply(j->reply, calls[0].reply);
  } else {
    reply_union(op->arena, calls, n, j->reply);
  }
  return true;
}

bool run_distinct(struct request *r, bson_t *reply, struct error *err) {
  struct read_job j = {.r = r, .reply = reply};
  const char *key;
  if (!request_needs_collection(r, err) || !request_required_str(r, "key", &key, err)) return false;
  if (!body_document(r, "query", &j.filter, err)) return false;
  return routed_run(r->op, router_of(r), r->ns, "distinct", false, distinct_attempt, &j, err);
}
