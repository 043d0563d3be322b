// The find command.
#include "common/node/crud.h"

#include <string.h>

#include "common/base/clock.h"
#include "common/bson/doc.h"
#include "common/node/cursors.h"
#include "common/node/explain_plan.h"
#include "common/node/internal.h"
#include "common/node/reading.h"
#include "common/query/projection.h"

struct find {
  struct reading reading;
  struct arena *scratch; // one document's
  const bson_t *projection_spec;
  struct projection *projection; // NULL: whole documents
  const char *sort_key_field;    // a router wants the sort key in this field; NULL = no
  int64_t skipped, returned;
  bool done;
};

struct reading *find_reading(struct find *f) {
  return &f->reading;
}

// Only a list of top-level fields.
static bool projection_is_simple(const bson_t *spec) {
  bson_iter_t it;
  bson_iter_init(&it, spec);
  while (bson_iter_next(&it)) {
    bool flag = iter_is_number(&it) || BSON_ITER_HOLDS_BOOL(&it);
    if (!flag || strchr(bson_iter_key(&it), '.')) return false;
  }
  return true;
}

// A hashed index does not have the values.
static bool projection_is_covered(const struct find *f) {
  const bson_t *key = f->reading.plan.index_key;
  bson_iter_t it;
  if (!key || f->sort_key_field || !projection_covered_by(f->projection, key)) return false;
  bson_iter_init(&it, key);
  while (bson_iter_next(&it)) {
    if (!iter_is_number(&it)) return false;
  }
  return true;
}

void find_shape(const struct find *f, struct tree_shape *shape) {
  shape->skip = f->reading.query.skip;
  shape->limit = f->reading.query.limit;
  shape->projection = f->projection_spec;
  if (!f->projection) return;
  shape->projection_simple = projection_is_simple(f->projection_spec);
  shape->projection_covered = projection_is_covered(f);
}

static const char *const refused_options[] = {"tailable", "awaitData", "returnKey", "showRecordId", NULL};

static bool refuse_options(const bson_t *command, struct error *err) {
  for (size_t i = 0; refused_options[i]; i++) {
    if (!doc_bool(command, refused_options[i], false)) continue;
    return error_set(err, ERR_CommandNotSupported, "find option '%s' is not supported", refused_options[i]);
  }
  const char *const bounds[] = {"min", "max"};
  for (size_t i = 0; i < 2; i++) {
    bson_iter_t it;
    if (!doc_get(command, bounds[i], &it) || !BSON_ITER_HOLDS_DOCUMENT(&it)) continue;
    if (bson_iter_recurse(&it, &it) && bson_iter_next(&it)) {
      return error_set(err, ERR_CommandNotSupported, "find option '%s' is not supported", bounds[i]);
    }
  }
  return true;
}

// Takes {<field>: {$meta: "sortKey"}} out of a projection: the find command itself adds that field.
static const bson_t *take_sort_key(struct arena *a, const bson_t *spec, const char **field) {
  bson_t *rest = arena_bson(a);
  bson_iter_t it, meta;
  bson_iter_init(&it, spec);
  while (bson_iter_next(&it)) {
    if (BSON_ITER_HOLDS_DOCUMENT(&it) && bson_iter_recurse(&it, &meta) && bson_iter_next(&meta) &&
        !strcmp(bson_iter_key(&meta), "$meta") && BSON_ITER_HOLDS_UTF8(&meta) &&
        !strcmp(bson_iter_utf8(&meta, NULL), "sortKey")) {
      *field = arena_strdup(a, bson_iter_key(&it));
    } else {
      doc_append_iter(rest, NULL, &it);
    }
  }
  return rest;
}

static bool parse_projection(struct arena *a, const bson_t *command, struct find *f, struct error *err) {
  const struct query *q = &f->reading.query;
  const bson_t *spec;
  if (!optional_doc(a, command, "projection", false, &spec, err)) return false;
  if (!spec) return true;
  spec = take_sort_key(a, spec, &f->sort_key_field);
  if (f->sort_key_field && !q->sort) {
    return error_set(err, ERR_BadValue, "cannot use sortKey $meta projection without a sort");
  }
  if (bson_empty(spec)) return true;
  f->projection_spec = spec;
  f->projection = projection_parse(a, spec, true, q->match, &q->options, err);
  return f->projection != NULL;
}

bool find_open(struct request *r, struct arena *a, const bson_t *command, const char *ns, struct find **out,
               struct error *err) {
  struct find *f = *out = arena_zalloc(a, sizeof *f);
  f->scratch = arena_child(a);
  if (!refuse_options(command, err) || !query_parse(a, command, "filter", &f->reading.query, err) ||
      !parse_projection(a, command, f, err) || !reading_open(r, a, ns, &f->reading, err)) {
    return false;
  }
  const struct query *q = &f->reading.query;
  if (f->reading.executor && q->limit && q->limit < INT64_MAX - q->skip) {
    executor_limit(f->reading.executor, q->skip + q->limit);
  }
  return true;
}

static bool shape(struct find *f, const bson_t **doc, struct error *err) {
  if (!f->projection && !f->sort_key_field) return true;
  arena_reset(f->scratch);
  bson_t *out = arena_bson(f->scratch);
  if (!f->projection) {
    bson_concat(out, *doc);
  } else if (!projection_apply(f->projection, f->scratch, *doc, out, err)) {
    return false;
  }
  if (f->sort_key_field) {
    bson_t key;
    BSON_APPEND_ARRAY_BEGIN(out, f->sort_key_field, &key);
    sort_key_values(f->reading.query.sort, *doc, &key);
    bson_append_array_end(out, &key);
  }
  *doc = out;
  return true;
}

bool find_next(struct operation *op, void *ctx, const bson_t **doc, struct error *err) {
  struct find *f = ctx;
  const struct query *q = &f->reading.query;
  *doc = NULL;
  if (f->done || (q->limit && f->returned >= q->limit)) return true;
  for (;;) {
    if (!reading_next(op, &f->reading, doc, err)) return false;
    if (!*doc) {
      f->done = true;
      return true;
    }
    if (f->skipped >= q->skip) break;
    f->skipped++;
  }
  f->returned++;
  return shape(f, doc, err);
}

static bool find_at_end(const void *ctx) {
  const struct find *f = ctx;
  if (f->done || (f->reading.query.limit && f->returned >= f->reading.query.limit)) return true;
  return reading_at_end(&f->reading);
}

static void find_save(void *ctx) {
  reading_save(&((struct find *)ctx)->reading);
}

bool find_run(struct request *r, bson_t *reply, struct error *err) {
  struct node *n = request_node(r);
  if (!request_needs_collection(r, err)) return false;
  n->own->ops.query++;
  int64_t from = clock_mono_us(), batch_size = CURSOR_FIRST_BATCH;
  if (!optional_count(r->body, "batchSize", &batch_size, err)) return false;
  struct cursor *c = cursor_new(r, r->ns);
  struct find *f;
  if (!find_open(r, c->arena, c->command, r->ns, &f, err)) return false;
  c->next = find_next;
  c->at_end = find_at_end;
  c->save = find_save;
  c->ctx = f;
  uint8_t uuid[16];
  bool there = f->reading.collection != NULL;
  if (there) memcpy(uuid, f->reading.collection->uuid, sizeof uuid);
  if (!cursor_reply(r, c, batch_size, doc_bool(r->body, "singleBatch", false), reply, err)) return false;
  if (there) usage_count(n, uuid, USAGE_READ, clock_mono_us() - from);
  return true;
}
