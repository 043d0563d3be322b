// The tree of stages. See explain_plan.h.
#include "common/node/explain_plan.h"

#include <string.h>

#include "common/bson/doc.h"
#include "common/node/internal.h"
#include "common/query/match.h"

enum { SORT_MEMORY_LIMIT = 100 * 1024 * 1024 };

static const char *const names[] = {
    [STAGE_EOF] = "EOF",
    [STAGE_COLLSCAN] = "COLLSCAN",
    [STAGE_IXSCAN] = "IXSCAN",
    [STAGE_EXPRESS] = "EXPRESS_IXSCAN",
    [STAGE_FAST_COUNT] = "RECORD_STORE_FAST_COUNT",
    [STAGE_FETCH] = "FETCH",
    [STAGE_SHARDING_FILTER] = "SHARDING_FILTER",
    [STAGE_SORT] = "SORT",
    [STAGE_SKIP] = "SKIP",
    [STAGE_PROJECTION_SIMPLE] = "PROJECTION_SIMPLE",
    [STAGE_PROJECTION_DEFAULT] = "PROJECTION_DEFAULT",
    [STAGE_PROJECTION_COVERED] = "PROJECTION_COVERED",
    [STAGE_LIMIT] = "LIMIT",
    [STAGE_COUNT] = "COUNT",
    [STAGE_UPDATE] = "UPDATE",
    [STAGE_DELETE] = "DELETE",
};

static void push(struct plan_tree *t, enum stage_kind kind) {
  t->stages[t->n++] = kind;
}

static bool is_express(const struct plan *p, const struct tree_shape *s) {
  return p->index_name && p->index_id == 0 && p->all_points && p->n_ranges == 1 && p->covers_filter && !s->sharded &&
         s->root == STAGE_EOF && !s->skip && !s->limit && !p->needs_sort && !p->gives_sort;
}

static void push_access(struct plan_tree *t, const struct plan *p, bool covered) {
  bool filter_stage = p->ownership == OWNERSHIP_ON_DOC || p->ownership == OWNERSHIP_ON_KEY;
  if (!p->index_name) {
    if (filter_stage) push(t, STAGE_SHARDING_FILTER);
    push(t, STAGE_COLLSCAN);
    return;
  }
  bool on_key = p->ownership == OWNERSHIP_ON_KEY;
  if (filter_stage && (!on_key || covered)) push(t, STAGE_SHARDING_FILTER);
  if (!covered) push(t, STAGE_FETCH);
  if (filter_stage && on_key && !covered) push(t, STAGE_SHARDING_FILTER);
  push(t, STAGE_IXSCAN);
}

void plan_tree_make(struct plan_tree *t, const struct query *q, const struct plan *p, const struct tree_shape *s) {
  *t = (struct plan_tree){
      .query = q, .plan = p, .projection = s->projection, .skip = s->skip, .limit = s->limit, .at_end = true};
  if (s->root != STAGE_EOF) push(t, s->root);
  if (!p || p->empty) {
    push(t, STAGE_EOF);
    return;
  }
  if (is_express(p, s)) {
    push(t, STAGE_EXPRESS);
    return;
  }
  // A covered projection takes the values that the index has; a sort that is still to be done needs the documents.
  bool covered = s->projection && s->projection_covered && p->index_name && p->covers_filter && !p->multikey &&
                 !p->needs_sort && p->ownership != OWNERSHIP_ON_DOC;
  if (s->limit && !p->needs_sort) push(t, STAGE_LIMIT);
  if (s->projection) {
    push(t, covered                ? STAGE_PROJECTION_COVERED
            : s->projection_simple ? STAGE_PROJECTION_SIMPLE
                                   : STAGE_PROJECTION_DEFAULT);
  }
  if (s->skip) push(t, STAGE_SKIP);
  if (p->needs_sort) push(t, STAGE_SORT);
  push_access(t, p, covered);
}

// --- the residual filter ---

static bool exact_field(const struct plan *p, const char *path) {
  if (p->multikey) return false;
  for (size_t i = 0; i < p->bounds.n_fields; i++) {
    if (!strcmp(p->bounds.fields[i].path, path)) return p->bounds.fields[i].exact;
  }
  return false;
}

static void keep_residual(struct arena *a, const struct plan *p, const bson_t *part, bson_t *kept, uint32_t *n) {
  bson_iter_t it;
  bson_iter_init(&it, part);
  while (bson_iter_next(&it)) {
    if (exact_field(p, bson_iter_key(&it))) continue;
    char text[16];
    const char *key;
    bson_t one;
    bson_uint32_to_string((*n)++, &key, text, sizeof text);
    BSON_APPEND_DOCUMENT_BEGIN(kept, key, &one);
    doc_append_iter(&one, NULL, &it);
    bson_append_document_end(kept, &one);
  }
}

const bson_t *plan_residual(struct arena *a, const struct query *q, const struct plan *p) {
  bson_t *all = arena_bson(a), *kept = arena_bson(a), *out = arena_bson(a);
  match_describe(q->match, all);
  if (!p->index_name) return all;
  if (p->covers_filter) return out;
  bson_iter_t it, part;
  uint32_t n = 0;
  if (bson_iter_init_find(&it, all, "$and") && BSON_ITER_HOLDS_ARRAY(&it)) {
    bson_iter_recurse(&it, &part);
    while (bson_iter_next(&part)) keep_residual(a, p, iter_child(a, &part), kept, &n);
  } else {
    keep_residual(a, p, all, kept, &n);
  }
  if (n == 1) {
    bson_iter_init(&it, kept);
    bson_iter_next(&it);
    return iter_child(a, &it);
  }
  if (n) BSON_APPEND_ARRAY(out, "$and", kept);
  return out;
}

// --- fields of a stage ---

// How many rows a stage gave, from what the one loop counted.
static int64_t rows_of(const struct plan_tree *t, enum stage_kind kind) {
  const struct exec_counters *c = t->counters;
  bool on_key = t->plan && t->plan->ownership == OWNERSHIP_ON_KEY;
  switch (kind) {
  case STAGE_IXSCAN: return c->scanned_rows;
  case STAGE_COLLSCAN: return c->matched + c->filtered;
  case STAGE_FETCH: return on_key ? c->matched : c->matched + c->filtered;
  case STAGE_SHARDING_FILTER: return on_key ? c->scanned_rows - c->filtered : c->matched;
  case STAGE_SKIP: return c->matched > t->skip ? c->matched - t->skip : 0;
  default: return t->returned;
  }
}

static int64_t works_of(const struct plan_tree *t, enum stage_kind kind) {
  const struct exec_counters *c = t->counters;
  switch (kind) {
  case STAGE_IXSCAN: return c->keys + t->at_end;
  case STAGE_COLLSCAN: return c->docs + t->at_end;
  default: return (t->plan && t->plan->index_name ? c->keys : c->docs) + t->at_end;
  }
}

static void append_execution(const struct plan_tree *t, enum stage_kind kind, bson_t *out) {
  int64_t rows = rows_of(t, kind), works = works_of(t, kind);
  if (works < rows) works = rows;
  doc_append_num(out, "nReturned", rows);
  doc_append_num(out, "executionTimeMillisEstimate", t->counters->micros / 1000);
  doc_append_num(out, "works", works);
  doc_append_num(out, "advanced", rows);
  doc_append_num(out, "needTime", works - rows - (works > rows && t->at_end ? 1 : 0));
  BSON_APPEND_INT32(out, "needYield", 0);
  doc_append_num(out, "saveState", t->counters->pauses);
  doc_append_num(out, "restoreState", t->counters->pauses);
  BSON_APPEND_INT32(out, "isEOF", t->at_end);
}

static void append_ixscan(const struct plan_tree *t, bson_t *out) {
  const struct plan *p = t->plan;
  bson_t doc;
  bson_iter_t it;
  BSON_APPEND_DOCUMENT(out, "keyPattern", p->index_key);
  BSON_APPEND_UTF8(out, "indexName", p->index_name);
  BSON_APPEND_BOOL(out, "isMultiKey", p->multikey);
  BSON_APPEND_DOCUMENT_BEGIN(out, "multiKeyPaths", &doc);
  bson_iter_init(&it, p->index_key);
  while (bson_iter_next(&it)) {
    bson_t none;
    bson_append_array_begin(&doc, bson_iter_key(&it), -1, &none);
    bson_append_array_end(&doc, &none);
  }
  bson_append_document_end(out, &doc);
  BSON_APPEND_BOOL(out, "isUnique", p->unique);
  BSON_APPEND_BOOL(out, "isSparse", p->sparse);
  BSON_APPEND_BOOL(out, "isPartial", p->partial);
  BSON_APPEND_INT32(out, "indexVersion", 2);
  BSON_APPEND_UTF8(out, "direction", p->backward ? "backward" : "forward");
  BSON_APPEND_DOCUMENT_BEGIN(out, "indexBounds", &doc);
  bounds_describe(&p->bounds, &doc);
  bson_append_document_end(out, &doc);
  if (!t->counters) return;
  doc_append_num(out, "keysExamined", t->counters->keys);
  doc_append_num(out, "seeks", t->counters->seeks);
  BSON_APPEND_INT32(out, "dupsTested", 0);
  BSON_APPEND_INT32(out, "dupsDropped", 0);
}

static void append_sort(const struct plan_tree *t, bson_t *out) {
  BSON_APPEND_DOCUMENT(out, "sortPattern", t->query->sort_spec);
  BSON_APPEND_INT32(out, "memLimit", SORT_MEMORY_LIMIT);
  if (t->limit) doc_append_num(out, "limitAmount", t->skip + t->limit);
  BSON_APPEND_UTF8(out, "type", "simple");
  if (!t->counters) return;
  BSON_APPEND_INT64(out, "totalDataSizeSorted", t->counters->sorted_bytes);
  BSON_APPEND_BOOL(out, "usedDisk", false);
  BSON_APPEND_INT64(out, "spills", 0);
  BSON_APPEND_INT64(out, "spilledDataStorageSize", 0);
}

static void append_write(const struct plan_tree *t, enum stage_kind kind, bson_t *out) {
  if (!t->counters) return;
  if (kind == STAGE_DELETE) {
    doc_append_num(out, "nWouldDelete", t->would_match);
    return;
  }
  doc_append_num(out, "nMatched", t->would_match);
  doc_append_num(out, "nWouldModify", t->would_modify);
  BSON_APPEND_INT32(out, "nWouldUpsert", t->would_upsert);
}

static void append_specific(struct arena *a, const struct plan_tree *t, enum stage_kind kind, bson_t *out) {
  const struct exec_counters *c = t->counters;
  switch (kind) {
  case STAGE_COLLSCAN:
    BSON_APPEND_UTF8(out, "direction", t->plan->backward ? "backward" : "forward");
    if (c) doc_append_num(out, "docsExamined", c->docs);
    break;
  case STAGE_IXSCAN: append_ixscan(t, out); break;
  case STAGE_EXPRESS:
    BSON_APPEND_UTF8(out, "keyPattern", doc_text(a, t->plan->index_key));
    BSON_APPEND_UTF8(out, "indexName", t->plan->index_name);
    if (!c) break;
    doc_append_num(out, "keysExamined", c->keys);
    doc_append_num(out, "docsExamined", c->docs);
    break;
  case STAGE_FETCH:
    if (!c) break;
    doc_append_num(out, "docsExamined", c->docs);
    BSON_APPEND_INT32(out, "alreadyHasObj", 0);
    break;
  case STAGE_SHARDING_FILTER:
    if (c) doc_append_num(out, "chunkSkips", c->filtered);
    break;
  case STAGE_SORT: append_sort(t, out); break;
  case STAGE_SKIP: doc_append_num(out, "skipAmount", t->skip); break;
  case STAGE_LIMIT: doc_append_num(out, "limitAmount", t->limit); break;
  case STAGE_PROJECTION_SIMPLE:
  case STAGE_PROJECTION_DEFAULT:
  case STAGE_PROJECTION_COVERED: BSON_APPEND_DOCUMENT(out, "transformBy", t->projection); break;
  case STAGE_COUNT:
    if (!c) break;
    doc_append_num(out, "nCounted", t->returned);
    doc_append_num(out, "nSkipped", t->skip);
    break;
  case STAGE_UPDATE:
  case STAGE_DELETE: append_write(t, kind, out); break;
  case STAGE_EOF:
  case STAGE_FAST_COUNT: break;
  }
}

static void append_stage(struct arena *a, const struct plan_tree *t, size_t i, bson_t *out) {
  enum stage_kind kind = t->stages[i];
  BSON_APPEND_UTF8(out, "stage", names[kind]);
  if (kind == STAGE_COLLSCAN || kind == STAGE_FETCH) {
    const bson_t *residual = plan_residual(a, t->query, t->plan);
    if (!bson_empty(residual)) BSON_APPEND_DOCUMENT(out, "filter", residual);
  }
  if (t->counters) append_execution(t, kind, out);
  append_specific(a, t, kind, out);
  if (i + 1 == t->n) return;
  bson_t input;
  BSON_APPEND_DOCUMENT_BEGIN(out, "inputStage", &input);
  append_stage(a, t, i + 1, &input);
  bson_append_document_end(out, &input);
}

void plan_tree_append(struct arena *a, const struct plan_tree *t, bson_t *out) {
  append_stage(a, t, 0, out);
}
