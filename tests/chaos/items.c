// The set workload's memory and its checker. See items.h.
#include "tests/chaos/items.h"

#include <stdlib.h>

void items_init(struct items *s, int writer) {
  *s = (struct items){.writer = writer, .list = calloc(MAX_ITEMS, sizeof *s->list)};
}

void items_free(struct items *s) {
  free(s->list);
  s->list = NULL;
}

static bool check_item(const struct items *s, int i, int seen, int64_t from, int64_t to, struct verdict *v) {
  const struct item *it = &s->list[i];
  int64_t inserted = atomic_load(&it->inserted), called = atomic_load(&it->delete_called),
          deleted = atomic_load(&it->deleted);
  bool must_be = inserted && inserted < from && (!called || called > to), must_not = deleted && deleted < from;
  if (seen > 1) return verdict_set(v, "document %d of writer %d was seen %d times", i, s->writer, seen);
  if (must_be && !seen)
    return verdict_set(v, "document %d of writer %d was acknowledged %.1f ms before the scan and is missing", i,
                       s->writer, (double)(from - inserted) / 1e6);
  if (must_not && seen)
    return verdict_set(v, "document %d of writer %d was deleted %.1f ms before the scan and is there", i, s->writer,
                       (double)(from - deleted) / 1e6);
  return true;
}

bool items_check(const struct items *s, const uint8_t *counts, size_t n_counts, int64_t from, int64_t to,
                 struct verdict *v) {
  *v = (struct verdict){.ok = true};
  int n = atomic_load(&s->n);
  for (int i = 0; i < n && v->ok; i++) (void)check_item(s, i, (size_t)i < n_counts ? counts[i] : 0, from, to, v);
  return v->ok;
}
