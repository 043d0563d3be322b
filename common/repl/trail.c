// Terms of a log's indexes, as runs.
#include "common/repl/trail.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"

void trail_reset(struct trail *t, uint64_t first, uint64_t snapshot, uint64_t snapshot_term) {
  t->n = 0;
  t->first = first;
  t->last = first - 1;
  t->snapshot = snapshot;
  t->snapshot_term = snapshot_term;
}

void trail_append(struct trail *t, uint64_t term) {
  t->last++;
  if (t->n && t->runs[t->n - 1].term == term) return;
  t->runs = array_grow(t->runs, &t->cap, t->n + 1, sizeof *t->runs);
  t->runs[t->n++] = (struct trail_run){t->last, term};
}

void trail_truncate(struct trail *t, uint64_t from) {
  if (from > t->last) return;
  t->last = from - 1;
  while (t->n && t->runs[t->n - 1].first >= from) t->n--;
}

void trail_cut(struct trail *t, uint64_t first) {
  if (first <= t->first) return;
  size_t gone = 0;
  while (gone + 1 < t->n && t->runs[gone + 1].first <= first) gone++;
  if (first > t->last) gone = t->n;
  if (gone) memmove(t->runs, t->runs + gone, (t->n - gone) * sizeof *t->runs);
  t->n -= gone;
  if (t->n && t->runs[0].first < first) t->runs[0].first = first;
  t->first = first;
  if (t->last < first - 1) t->last = first - 1;
}

uint64_t trail_term(const struct trail *t, uint64_t index) {
  if (index && index == t->snapshot) return t->snapshot_term;
  if (index < t->first || index > t->last) return 0;
  size_t low = 0, high = t->n; // the last run that begins at or before index
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    if (t->runs[middle].first <= index)
      low = middle;
    else
      high = middle;
  }
  return t->runs[low].term;
}

void trail_free(struct trail *t) {
  free(t->runs);
  *t = (struct trail){0};
}
