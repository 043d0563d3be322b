// Runs a plan over the store. See executor.h.
#include "common/node/executor.h"

#include "common/base/clock.h"
#include "common/bson/compare.h"
#include "common/bson/doc.h"
#include "common/bson/path.h"
#include "common/node/internal.h"
#include "common/sharding/chunk_map.h"
#include "common/sharding/shard_key.h"

struct executor {
  struct node *node;
  struct arena *arena, *scratch; // scratch: one row's
  struct collection *collection;
  const struct query *query;
  const struct plan *plan;
  struct access *access;
  struct scan *scan; // NULL for a lookup by _id or an empty plan
  bool by_id, done;
  struct sorter *sorter;
  bool sorted; // the sorter has everything
  size_t sort_limit;
  struct exec_counters counters;
};

bool access_owns(const struct access *x, struct arena *scratch, const bson_t *doc) {
  if (!x || !x->filtered || !x->owner_map) return true;
  struct key key;
  // No document with an array in its shard key is ever stored; if there were one, hiding it would be worse.
  if (!path_encode_key(scratch, doc, chunk_map_key(x->owner_map)->pattern, &key, NULL)) return true;
  return chunk_map_owned_by(x->owner_map, key, x->shard);
}

static void close_executor(void *arg) {
  executor_close(arg);
}

// A query for one _id needs no scan: the store finds it directly.
static bool is_id_lookup(const struct plan *p) {
  return p->index_name && p->index_id == 0 && p->bounds.all_points && p->n_ranges == 1 && !p->needs_sort;
}

struct executor *executor_open(struct arena *a, struct node *n, struct collection *c, const struct query *q,
                               const struct plan *p, struct access *x, struct error *err) {
  struct executor *e = arena_zalloc(a, sizeof *e);
  *e = (struct executor){.node = n, .arena = a, .query = q, .plan = p, .access = x, .done = p->empty};
  e->scratch = arena_child(a);
  e->collection = collection_hold(a, c);
  e->by_id = is_id_lookup(p);
  if (p->index_name) usage_count_index(n, c->uuid, p->index_id);
  if (!e->by_id && !p->empty) {
    e->scan = plan_open_scan(a, c, p, err);
    if (!e->scan) return NULL;
  }
  arena_on_free(a, close_executor, e);
  return e;
}

void executor_limit(struct executor *e, int64_t n) {
  e->sort_limit = (size_t)n;
}

void executor_close(struct executor *e) {
  if (e->scan) {
    executor_counters(e, &e->counters);
    scan_close(e->scan);
  }
  e->scan = NULL;
  e->done = true;
}

void executor_save(struct executor *e) {
  if (e->scan) scan_save(e->scan);
}

bool executor_alive(const struct executor *e, struct error *err) {
  if (e->collection->dropped) {
    return error_set(err, ERR_QueryPlanKilled, "collection dropped. UUID of %s is gone", e->collection->ns);
  }
  if (e->access && e->access->ended) {
    return error_set(err, e->access->ended, "the range that was read on %s has moved away and is being deleted",
                     e->collection->ns);
  }
  return true;
}

bool executor_pause(struct operation *op, struct executor *e, struct error *err) {
  executor_save(e);
  e->counters.pauses++;
  return op_yield(op, err) && executor_alive(e, err);
}

static enum exec_status lookup_id(struct executor *e, struct exec_row *row, struct error *err) {
  e->done = true;
  const struct interval *point = &e->plan->bounds.fields[0].intervals[0];
  e->counters.keys++;
  e->counters.seeks++;
  if (!store_find_id(e->collection, e->scratch, &point->low, &row->file, &row->rid, &row->doc)) return EXEC_END;
  e->counters.scanned_rows++;
  e->counters.docs++;
  if (!match_doc(e->query->match, row->doc)) return match_ok(e->query->match, err) ? EXEC_END : EXEC_ERROR;
  if (!access_owns(e->access, e->scratch, row->doc)) {
    e->counters.filtered++;
    return EXEC_END;
  }
  e->counters.matched++;
  return EXEC_ROW;
}

// One row of the scan that passes. The order of the checks is the plan's: what decides on the key alone comes first.
static bool accept_row(struct executor *e, const struct scan_row *at, struct exec_row *row) {
  e->counters.scanned_rows++;
  if (e->plan->ownership == OWNERSHIP_ON_KEY && !chunk_map_owned_by(e->access->owner_map, at->key, e->access->shard)) {
    e->counters.filtered++;
    return false;
  }
  const bson_t *doc = scan_document(e->scan, at);
  if (!doc) return false;
  e->counters.docs++;
  if (!match_doc(e->query->match, doc)) return false;
  if (e->plan->ownership != OWNERSHIP_NONE && e->plan->ownership != OWNERSHIP_ON_KEY &&
      !access_owns(e->access, e->scratch, doc)) {
    e->counters.filtered++;
    return false;
  }
  e->counters.matched++;
  *row = (struct exec_row){.doc = doc, .file = at->file, .rid = at->rid};
  return true;
}

static enum exec_status next_from_scan(struct executor *e, const struct operation *op, struct exec_row *row,
                                       struct error *err) {
  if (e->done) return EXEC_END;
  if (e->by_id) return lookup_id(e, row, err);
  struct scan_row at;
  for (;;) {
    if (op && op_yield_due(op)) return EXEC_PAUSE;
    arena_reset(e->scratch);
    *err = (struct error){0};
    if (!scan_next(e->scan, &at, err)) {
      if (err->code || !match_ok(e->query->match, err)) return EXEC_ERROR;
      e->done = true;
      return EXEC_END;
    }
    if (accept_row(e, &at, row)) return EXEC_ROW;
  }
}

static enum exec_status next_sorted(struct executor *e, const struct operation *op, struct exec_row *row,
                                    struct error *err) {
  if (!e->sorter) e->sorter = sorter_new(e->arena, e->query->sort, e->sort_limit);
  while (!e->sorted) {
    enum exec_status status = next_from_scan(e, op, row, err);
    if (status == EXEC_PAUSE || status == EXEC_ERROR) return status;
    if (status == EXEC_ROW) {
      if (!sorter_add(e->sorter, row->doc, err)) return EXEC_ERROR;
      e->counters.sorted_bytes += row->doc->len;
      continue;
    }
    executor_save(e);
    sorter_finish(e->sorter);
    e->sorted = true;
  }
  *row = (struct exec_row){.doc = sorter_next(e->sorter)};
  return row->doc ? EXEC_ROW : EXEC_END;
}

enum exec_status executor_next(struct executor *e, const struct operation *op, struct exec_row *row,
                               struct error *err) {
  if (!executor_alive(e, err)) return EXEC_ERROR;
  int64_t from = clock_mono_us();
  enum exec_status status = e->plan->needs_sort ? next_sorted(e, op, row, err) : next_from_scan(e, op, row, err);
  e->counters.micros += clock_mono_us() - from;
  return status;
}

void executor_counters(const struct executor *e, struct exec_counters *out) {
  if (out != &e->counters) *out = e->counters;
  if (e->scan && e->plan->index_name) {
    out->keys = scan_keys_examined(e->scan);
    out->seeks = scan_seeks(e->scan);
  }
}

bool executor_at_end(const struct executor *e) {
  return e->done && !e->sorter;
}

struct collection *executor_collection(const struct executor *e) {
  return e->collection;
}
