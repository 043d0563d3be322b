// The scan behind split points; the algorithm is in common/sharding/split_points.h.
#include "shardd/split_scan.h"

#include "common/base/log.h"
#include "common/bson/doc.h"
#include "shardd/migration_documents.h"
#include "shardd/shard_index.h"

struct splitter {
  const struct shard_key *key;
  const struct index *index;
  bool exact; // the index has the shard key's fields and no more: its keys are shard keys
  struct split_points *points;
  struct arena *scratch; // a document's key
};

// The row's shard key: its index key, or for a longer index taken from its document. NULL document: it went away.
static bool feed_row(struct splitter *s, struct scan *scan, const struct scan_row *row, struct error *err) {
  const bson_t *doc = NULL, *values;
  struct key key = row->key;
  if (!s->exact) {
    doc = scan_document(scan, row);
    if (!doc) return true;
    if (!shard_key_of_document(s->key, s->scratch, doc, &values, err)) return false;
    key = bound_key(s->scratch, values);
  }
  if (!split_points_feed(s->points, key)) return true;
  if (!doc) doc = scan_document(scan, row);
  if (!doc || !shard_key_of_document(s->key, s->scratch, doc, &values, err)) return doc == NULL;
  split_points_take(s->points, bound_key(s->scratch, values), values);
  return true;
}

static bool scan_once(struct operation *op, struct collection *c, struct splitter *s, const struct key_range *range,
                      bool backward, struct error *err) {
  struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
  struct scan *scan = scan_open(
      a, c,
      &(struct scan_spec){.index = s->index, .ranges = range, .n_ranges = 1, .backward = backward, .by_order = true});
  struct scan_row row;
  bool ok = true;
  while (ok && !split_points_enough(s->points) && scan_next(scan, &row, err)) {
    ok = feed_row(s, scan, &row, err);
    arena_reset(s->scratch);
    if (!op_yield_due(op)) continue;
    scan_save(scan);
    ok = ok && op_yield(op, err);
  }
  scan_close(scan);
  return ok && err->code == 0;
}

static struct key_range rest_of(struct arena *a, const struct split_points *s, struct key_range whole, bool backward) {
  struct key from = split_points_restart(s);
  if (!from.len) return whole;
  if (backward)
    whole.high = key_prefix_end(a, from);
  else
    whole.low = from;
  return whole;
}

bool split_scan(struct operation *op, struct collection *c, const struct shard_key *k, const bson_t *min,
                const bson_t *max, struct split_spec *spec, struct split_result *out, struct error *err) {
  *out = (struct split_result){0};
  *err = (struct error){0};
  struct splitter s = {.key = k, .index = shard_index_find(c, k, NULL)};
  if (!s.index)
    return error_set(err, ERR_IndexNotFound, "couldn't find index over splitting key %s",
                     doc_text(op->arena, k->pattern));
  s.exact = bson_count_keys(s.index->key) == k->n;
  struct collection_stats stats;
  collection_stats(c, &stats);
  spec->records = stats.count;
  spec->bytes = stats.bytes;
  s.points = split_points_new(op->arena, spec);
  if (!s.points) return true;
  struct arena *scratch __attribute__((cleanup(arena_cleanup))) = arena_new();
  s.scratch = scratch;
  struct key_range range = shard_index_range(op->arena, min, max);
  do {
    struct key_range part = rest_of(op->arena, s.points, range, spec->backward);
    if (!scan_once(op, c, &s, &part, spec->backward, err)) return false;
  } while (!split_points_end(s.points));
  if (split_points_single_key(s.points))
    log_warn("SHARDING", "Possible low cardinality key detected in range. Range contains only a single key.",
             "namespace:s min:b max:b", c->ns, min, max);
  out->points = split_points_result(s.points, &out->n);
  out->continuation = split_points_continuation(s.points);
  return true;
}
