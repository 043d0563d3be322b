// Chooses an index. See planner.h for the rules.
#include "common/node/planner.h"

#include <string.h>

#include "common/bson/compare.h"
#include "common/bson/doc.h"
#include "common/node/internal.h"
#include "common/sharding/chunk_map.h"
#include "common/sharding/shard_key.h"

struct candidate {
  const struct index *index;
  struct index_bounds bounds;
  size_t points; // leading fields that are fixed to single values or lists of them
  size_t fields;
  bool unique_point;
  bool gives_sort, backward;
};

static bool interval_is_point(const struct interval *i) {
  return i->low_inclusive && i->high_inclusive && value_compare(&i->low, &i->high) == 0;
}

static bool field_is_points(const struct field_bounds *f) {
  for (size_t i = 0; i < f->n; i++) {
    if (!interval_is_point(&f->intervals[i])) return false;
  }
  return f->n > 0;
}

static bool field_is_fixed(const struct index_bounds *b, size_t field) {
  return field < b->n_fields && b->fields[field].n == 1 && interval_is_point(&b->fields[field].intervals[0]);
}

// The index's order is the sort's when the sort's fields are the index's, in order and all in the same or all in the
// opposite direction; index fields that are fixed to one value may be skipped.
bool plan_gives_sort(const bson_t *index_key, const struct index_bounds *b, const bson_t *sort, bool *backward) {
  bson_iter_t want, have;
  bson_iter_init(&want, sort);
  bson_iter_init(&have, index_key);
  int direction = 0; // of the index against the sort: 1 same, -1 opposite, 0 not known yet
  size_t field = 0;
  bool more = bson_iter_next(&have);
  while (bson_iter_next(&want)) {
    if (!iter_is_number(&want)) return false; // {$meta: ...}
    while (more && strcmp(bson_iter_key(&have), bson_iter_key(&want))) {
      if (!field_is_fixed(b, field)) return false;
      more = bson_iter_next(&have);
      field++;
    }
    if (!more || !iter_is_number(&have)) return false; // a hashed field has no order
    int relation = (iter_i64(&want) < 0 ? -1 : 1) * (iter_i64(&have) < 0 ? -1 : 1);
    if (!field_is_fixed(b, field)) {
      if (direction && direction != relation) return false;
      direction = relation;
    }
    more = bson_iter_next(&have);
    field++;
  }
  *backward = direction < 0;
  return true;
}

// Whether every interval of `inner` lies within one of `outer`.
static bool intervals_within(const struct field_bounds *inner, const struct field_bounds *outer) {
  for (size_t i = 0; i < inner->n; i++) {
    const struct interval *in = &inner->intervals[i];
    bool found = false;
    for (size_t k = 0; k < outer->n && !found; k++) {
      const struct interval *o = &outer->intervals[k];
      int low = value_compare(&o->low, &in->low), high = value_compare(&in->high, &o->high);
      found = (low < 0 || (low == 0 && (o->low_inclusive || !in->low_inclusive))) &&
              (high < 0 || (high == 0 && (o->high_inclusive || !in->high_inclusive)));
    }
    if (!found) return false;
  }
  return true;
}

// {path: condition} of a partial index follows from the query when the query's values of the path, each condition taken
// alone (as for an array), lie within the condition's, and those say all of it. {$exists: true} follows from any bounds
// without null.
static bool implies_condition(struct arena *a, const struct match *m, const char *path, const bson_t *condition) {
  bson_t *pattern = arena_bson(a);
  BSON_APPEND_INT32(pattern, path, 1);
  struct index_bounds query, wanted;
  if (!bounds_build(a, m, pattern, true, &query) || !query.n_fields) return false;
  bson_iter_t it, op;
  bson_iter_init_find(&it, condition, path);
  if (BSON_ITER_HOLDS_DOCUMENT(&it) && bson_iter_recurse(&it, &op) && bson_iter_next(&op) &&
      !strcmp(bson_iter_key(&op), "$exists") && bson_iter_as_bool(&op) && !bson_iter_next(&op)) {
    bson_value_t null = value_null();
    struct interval at_null = {.low = null, .high = null, .low_inclusive = true, .high_inclusive = true};
    struct field_bounds missing = {.intervals = &at_null, .n = 1};
    return !intervals_within(&missing, &query.fields[0]);
  }
  struct match *alone = match_parse(a, condition, &(struct match_options){0}, NULL);
  if (!alone || !bounds_build(a, alone, pattern, false, &wanted) || !wanted.fields[0].exact) return false;
  return intervals_within(&query.fields[0], &wanted.fields[0]);
}

bool plan_filter_implies(struct arena *a, const struct match *m, const bson_t *partial_filter) {
  bson_iter_t it;
  bson_iter_init(&it, partial_filter);
  while (bson_iter_next(&it)) {
    if (bson_iter_key(&it)[0] == '$') return false;
    bson_t *condition = arena_bson(a);
    doc_append_iter(condition, NULL, &it);
    if (!implies_condition(a, m, bson_iter_key(&it), condition)) return false;
  }
  return true;
}

// A sparse index lacks the documents without any of its fields; it may answer only what such a document cannot match.
// Bounds of the field's values say so, also for a hashed index, whose own bounds are of hashes.
static bool first_field_excludes_missing(struct arena *a, const struct match *m, const struct index *index) {
  bson_iter_t first;
  bson_iter_init(&first, index->key);
  if (!bson_iter_next(&first)) return false;
  bson_t *pattern = arena_bson(a);
  BSON_APPEND_INT32(pattern, bson_iter_key(&first), 1);
  struct index_bounds values;
  if (!bounds_build(a, m, pattern, index->multikey, &values) || !values.n_fields) return false;
  bson_value_t null = value_null();
  struct interval at_null = {.low = null, .high = null, .low_inclusive = true, .high_inclusive = true};
  struct field_bounds missing = {.intervals = &at_null, .n = 1};
  return !intervals_within(&missing, &values.fields[0]);
}

// Looks at one index. hinted: it is used whatever it offers.
static bool consider(struct arena *a, const struct query *q, const struct index *index, bool hinted,
                     struct candidate *out) {
  *out = (struct candidate){.index = index, .fields = bson_count_keys(index->key)};
  if (!index->ready || (index->hidden && !hinted)) return false;
  bool bounded = bounds_build(a, q->match, index->key, index->multikey, &out->bounds);
  if (index->partial_filter && !plan_filter_implies(a, q->match, index->partial_filter)) return false;
  if (q->sort && !index->multikey) {
    out->gives_sort = plan_gives_sort(index->key, &out->bounds, q->sort_spec, &out->backward);
  }
  if (index->sparse && !hinted && !(bounded && first_field_excludes_missing(a, q->match, index))) return false;
  if (!bounded) return hinted || out->gives_sort;
  while (out->points < out->bounds.n_fields && field_is_points(&out->bounds.fields[out->points])) out->points++;
  out->unique_point = (index->unique || index->id == 0) && out->points == out->fields;
  return true;
}

static bool better(const struct candidate *x, const struct candidate *y) {
  if (x->unique_point != y->unique_point) return x->unique_point;
  if (x->points != y->points) return x->points > y->points;
  size_t cx = x->bounds.n_constrained, cy = y->bounds.n_constrained;
  if ((cx > 0) != (cy > 0)) return cx > 0;
  if (cx != cy) return cx > cy;
  if (x->gives_sort != y->gives_sort) return x->gives_sort;
  if (x->fields != y->fields) return x->fields < y->fields;
  return x->index->id < y->index->id;
}

static const struct index *hinted_index(const struct collection *c, const struct query *q) {
  return q->hint_name ? collection_index(c, q->hint_name) : collection_index_by_key(c, q->hint_key);
}

static bool choose_candidate(struct arena *a, const struct collection *c, const struct query *q, struct candidate *best,
                             bool *found, struct error *err) {
  *found = false;
  if (q->hint_name || q->hint_key) {
    const struct index *index = hinted_index(c, q);
    *found = index && consider(a, q, index, true, best);
    if (*found) return true;
    return error_set(err, ERR_BadValue,
                     "error processing query: ns=%s: planner returned error :: caused by :: hint provided does not "
                     "correspond to an existing index",
                     c->ns);
  }
  if (q->natural) return true;
  for (size_t i = 0; i < c->n_indexes; i++) {
    struct candidate one;
    if (!consider(a, q, c->indexes[i], false, &one)) continue;
    if (!*found || better(&one, best)) *best = one;
    *found = true;
  }
  return true;
}

static enum ownership_filter place_ownership(struct arena *a, const struct query *q, const struct access *x,
                                             const struct plan *p) {
  if (!x || !x->filtered || !x->owner_map) return OWNERSHIP_NONE;
  const struct shard_key *key = chunk_map_key(x->owner_map);
  const bson_t *fixed;
  if (shard_key_of_filter(key, a, q->match, &fixed)) return OWNERSHIP_KEY_FIXED;
  if (p->index_name && shard_key_prefix_of(key, p->index_key) && p->covers_filter && !p->multikey) {
    return OWNERSHIP_ON_KEY;
  }
  return OWNERSHIP_ON_DOC;
}

// The bounds are built again over the plan's own copy of the key: they borrow from it.
static void plan_use(struct arena *a, const struct query *q, const struct candidate *from, struct plan *out) {
  const struct index *i = from->index;
  out->index_name = arena_strdup(a, i->name);
  out->index_id = i->id;
  out->index_key = doc_copy(a, i->key);
  out->unique = i->unique;
  out->sparse = i->sparse;
  out->partial = i->partial_filter != NULL;
  out->multikey = i->multikey;
  bounds_build(a, q->match, out->index_key, i->multikey, &out->bounds);
  out->covers_filter = out->bounds.covers_filter && !i->multikey;
  out->all_points = out->bounds.all_points;
  out->backward = from->gives_sort && from->backward;
  out->gives_sort = from->gives_sort;
  if (out->bounds.n_constrained == 0) return;
  out->n_ranges = bounds_ranges(a, &out->bounds, out->index_key, PLAN_MAX_RANGES, &out->ranges);
  out->empty = out->n_ranges == 0;
}

bool plan_choose(struct arena *a, const struct collection *c, const struct query *q, const struct access *x,
                 struct plan *out, struct error *err) {
  *out = (struct plan){0};
  struct candidate best;
  bool found;
  if (!choose_candidate(a, c, q, &best, &found, err)) return false;
  if (found) {
    plan_use(a, q, &best, out);
  } else {
    out->backward = q->natural < 0;
    out->covers_filter = match_always_true(q->match);
  }
  out->by_order = out->gives_sort || q->natural;
  out->needs_sort = q->sort && !out->gives_sort;
  out->ownership = place_ownership(a, q, x, out);
  return true;
}

struct scan *plan_open_scan(struct arena *a, struct collection *c, const struct plan *p, struct error *err) {
  struct scan_spec spec = {
      .ranges = p->ranges, .n_ranges = p->n_ranges, .backward = p->backward, .by_order = p->by_order};
  if (p->index_name) {
    for (size_t i = 0; i < c->n_indexes && !spec.index; i++) {
      if (c->indexes[i]->id == p->index_id && c->indexes[i]->ready) spec.index = c->indexes[i];
    }
    if (!spec.index) {
      error_set(err, ERR_QueryPlanKilled, "query plan killed :: index '%s' dropped", p->index_name);
      return NULL;
    }
  }
  return scan_open(a, c, &spec);
}
