// Sets of values of one field: union, intersection, complement.
#include "common/query/intervals.h"

#include <stdlib.h>
#include <string.h>

#include "common/bson/compare.h"
#include "common/query/values.h"

static bson_value_t type_only(bson_type_t type) {
  return (bson_value_t){.value_type = type};
}

struct interval interval_of(bson_value_t low, bool low_inclusive, bson_value_t high, bool high_inclusive) {
  return (struct interval){low, high, low_inclusive, high_inclusive};
}

struct interval interval_point(bson_value_t v) {
  return interval_of(v, true, v, true);
}

bool interval_is_point(const struct interval *i) {
  return i->low_inclusive && i->high_inclusive && value_compare(&i->low, &i->high) == 0;
}

static bool interval_is_empty(const struct interval *i) {
  int c = value_compare(&i->low, &i->high);
  return c > 0 || (c == 0 && !(i->low_inclusive && i->high_inclusive));
}

struct interval_set intervals_all(struct arena *a) {
  struct interval all = interval_of(type_only(BSON_TYPE_MINKEY), true, type_only(BSON_TYPE_MAXKEY), true);
  return (struct interval_set){arena_memdup(a, &all, sizeof all), 1};
}

bool intervals_is_all(const struct interval_set *s) {
  return s->n == 1 && s->list[0].low.value_type == BSON_TYPE_MINKEY && s->list[0].low_inclusive &&
         s->list[0].high.value_type == BSON_TYPE_MAXKEY && s->list[0].high_inclusive;
}

bool intervals_are_points(const struct interval_set *s) {
  for (size_t i = 0; i < s->n; i++) {
    if (!interval_is_point(&s->list[i])) return false;
  }
  return true;
}

// Where an interval begins: at the same value an inclusive one begins first.
static int compare_lows(const struct interval *a, const struct interval *b) {
  int c = value_compare(&a->low, &b->low);
  return c ? c : (int)b->low_inclusive - (int)a->low_inclusive;
}

static int compare_highs(const struct interval *a, const struct interval *b) {
  int c = value_compare(&a->high, &b->high);
  return c ? c : (int)a->high_inclusive - (int)b->high_inclusive;
}

static int by_low(const void *a, const void *b) {
  return compare_lows(a, b);
}

// True when next, which begins no earlier, leaves no gap behind x.
static bool touches(const struct interval *x, const struct interval *next) {
  int c = value_compare(&next->low, &x->high);
  return c < 0 || (c == 0 && (next->low_inclusive || x->high_inclusive));
}

struct interval_set intervals_from(struct arena *a, const struct interval *list, size_t n) {
  struct interval_set out = {arena_alloc(a, n * sizeof *list), 0};
  size_t kept = 0;
  for (size_t i = 0; i < n; i++) {
    if (!interval_is_empty(&list[i])) out.list[kept++] = list[i];
  }
  qsort(out.list, kept, sizeof *out.list, by_low);
  for (size_t i = 0; i < kept; i++) {
    struct interval *last = out.n ? &out.list[out.n - 1] : NULL;
    if (!last || !touches(last, &out.list[i])) {
      out.list[out.n++] = out.list[i];
    } else if (compare_highs(&out.list[i], last) > 0) {
      last->high = out.list[i].high;
      last->high_inclusive = out.list[i].high_inclusive;
    }
  }
  return out;
}

struct interval_set intervals_union(struct arena *a, const struct interval_set *sets, size_t n) {
  size_t total = 0, at = 0;
  for (size_t i = 0; i < n; i++) total += sets[i].n;
  struct interval *list = arena_alloc(a, total * sizeof *list);
  for (size_t i = 0; i < n; i++) {
    if (sets[i].n) memcpy(list + at, sets[i].list, sets[i].n * sizeof *list);
    at += sets[i].n;
  }
  return intervals_from(a, list, total);
}

struct interval_set intervals_intersect(struct arena *a, const struct interval_set *x, const struct interval_set *y) {
  struct interval_set out = {arena_alloc(a, (x->n + y->n) * sizeof *out.list), 0};
  for (size_t i = 0, k = 0; i < x->n && k < y->n;) {
    const struct interval *p = &x->list[i], *q = &y->list[k];
    struct interval both = *p;
    if (compare_lows(q, p) > 0) {
      both.low = q->low;
      both.low_inclusive = q->low_inclusive;
    }
    bool q_ends_first = compare_highs(q, p) < 0;
    if (q_ends_first) {
      both.high = q->high;
      both.high_inclusive = q->high_inclusive;
    }
    if (!interval_is_empty(&both)) out.list[out.n++] = both;
    if (q_ends_first)
      k++;
    else
      i++;
  }
  return out;
}

struct interval_set intervals_complement(struct arena *a, const struct interval_set *s) {
  struct interval *gaps = arena_alloc(a, (s->n + 1) * sizeof *gaps);
  bson_value_t from = type_only(BSON_TYPE_MINKEY);
  bool inclusive = true;
  for (size_t i = 0; i < s->n; i++) {
    gaps[i] = interval_of(from, inclusive, s->list[i].low, !s->list[i].low_inclusive);
    from = s->list[i].high;
    inclusive = !s->list[i].high_inclusive;
  }
  gaps[s->n] = interval_of(from, inclusive, type_only(BSON_TYPE_MAXKEY), true);
  return intervals_from(a, gaps, s->n + 1);
}
