// The count and distinct commands.
#include "common/node/crud.h"

#include <string.h>

#include "common/base/clock.h"
#include "common/base/map.h"
#include "common/bson/doc.h"
#include "common/bson/key.h"
#include "common/bson/path.h"
#include "common/node/internal.h"
#include "common/node/reading.h"

// count's limit may be negative: its absolute value counts.
static bool parse_count(struct arena *a, const bson_t *body, struct query *q, struct error *err) {
  bson_t *plain = arena_bson(a);
  bson_iter_t it;
  bson_iter_init(&it, body);
  while (bson_iter_next(&it)) {
    if (!strcmp(bson_iter_key(&it), "limit") && iter_is_number(&it) && iter_i64(&it) < 0) {
      BSON_APPEND_INT64(plain, "limit", iter_i64(&it) == INT64_MIN ? INT64_MAX : -iter_i64(&it));
    } else {
      doc_append_iter(plain, NULL, &it);
    }
  }
  return query_parse(a, plain, "query", q, err);
}

static int64_t within(const struct query *q, int64_t n) {
  n = n > q->skip ? n - q->skip : 0;
  return q->limit && n > q->limit ? q->limit : n;
}

bool count_open(struct request *r, struct arena *a, const bson_t *command, const char *ns, struct reading *out,
                struct error *err) {
  *out = (struct reading){0};
  return parse_count(a, command, &out->query, err) && reading_open(r, a, ns, out, err);
}

bool count_rows(struct operation *op, struct reading *x, int64_t *n, struct error *err) {
  const struct query *q = &x->query;
  int64_t enough = q->limit && q->limit < INT64_MAX - q->skip ? q->skip + q->limit : INT64_MAX;
  int64_t rows = 0;
  while (rows < enough) {
    const bson_t *doc;
    if (!reading_next(op, x, &doc, err)) return false;
    if (!doc) break;
    rows++;
  }
  *n = within(q, rows);
  return true;
}

bool count_run(struct request *r, bson_t *reply, struct error *err) {
  if (!request_needs_collection(r, err)) return false;
  int64_t from = clock_mono_us(), n = 0;
  struct reading x;
  if (!count_open(r, r->op->arena, r->body, r->ns, &x, err)) return false;
  if (x.collection && bson_empty(x.query.filter)) {
    // As MongoDB: without a filter the statistics answer, orphans included.
    struct collection_stats stats;
    collection_stats(x.collection, &stats);
    n = within(&x.query, stats.count);
  } else if (!count_rows(r->op, &x, &n, err)) {
    return false;
  }
  doc_append_num(reply, "n", n);
  if (x.collection) usage_count(x.node, x.collection->uuid, USAGE_READ, clock_mono_us() - from);
  return true;
}

// --- distinct ---

struct distinct {
  struct arena *arena;
  struct map *seen; // encoded value -> anything
  bson_t *values;
  uint32_t n;
  bool too_big;
};

static bool add_value(struct distinct *d, const bson_value_t *v) {
  struct buf key __attribute__((cleanup(buf_cleanup))) = {0};
  key_append(&key, v, false);
  if (map_get(d->seen, key.data, key.len)) return true;
  map_put(d->seen, key.data, key.len, d);
  char text[16];
  const char *name;
  bson_uint32_to_string(d->n++, &name, text, sizeof text);
  doc_append_value(d->values, name, v);
  d->too_big = d->values->len > DOC_MAX_BYTES - 1024;
  return !d->too_big;
}

// A value that is an array counts by its elements, one level deep.
static bool add_reached(void *ctx, const bson_value_t *v) {
  struct distinct *d = ctx;
  if (!v) return true;
  if (v->value_type != BSON_TYPE_ARRAY) return add_value(d, v);
  bson_t array;
  bson_iter_t it;
  if (!bson_init_static(&array, v->value.v_doc.data, v->value.v_doc.data_len)) return true;
  bson_iter_init(&it, &array);
  while (bson_iter_next(&it)) {
    if (!add_value(d, bson_iter_value(&it))) return false;
  }
  return true;
}

bool distinct_values(struct operation *op, struct reading *x, const char *key, bson_t *values, struct error *err) {
  struct distinct d = {.arena = op->arena, .seen = map_in_arena(op->arena), .values = values};
  for (;;) {
    const bson_t *doc;
    if (!reading_next(op, x, &doc, err)) return false;
    if (!doc) return true;
    path_each(doc, key, add_reached, &d);
    if (d.too_big) return error_set(err, 17217, "distinct too big, 16mb cap");
  }
}

bool distinct_open(struct request *r, struct arena *a, const bson_t *command, const char *ns, struct reading *out,
                   const char **key, struct error *err) {
  *out = (struct reading){0};
  *key = doc_str(command, "key", NULL);
  if (!*key) return error_set(err, ERR_NoSuchKey, "BSON field 'distinct.key' is missing but a required field");
  return query_parse(a, command, "query", &out->query, err) && reading_open(r, a, ns, out, err);
}

bool distinct_run(struct request *r, bson_t *reply, struct error *err) {
  if (!request_needs_collection(r, err)) return false;
  int64_t from = clock_mono_us();
  struct reading x;
  const char *key;
  bson_t *values = arena_bson(r->op->arena);
  if (!distinct_open(r, r->op->arena, r->body, r->ns, &x, &key, err) || !distinct_values(r->op, &x, key, values, err)) {
    return false;
  }
  BSON_APPEND_ARRAY(reply, "values", values);
  if (x.collection) usage_count(x.node, x.collection->uuid, USAGE_READ, clock_mono_us() - from);
  return true;
}
