// Bounds as ranges of encoded keys for a scan, and as text for explain.
#include "common/query/bounds.h"

#include <math.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/query/intervals.h"
#include "common/query/values.h"

// The interval of a field that comes i-th in scan order.
static const struct interval *in_scan_order(const struct field_bounds *f, size_t i) {
  return &f->intervals[f->direction < 0 ? f->n - 1 - i : i];
}

static const bson_value_t *scan_start(const struct field_bounds *f, const struct interval *i, bool *inclusive) {
  *inclusive = f->direction < 0 ? i->high_inclusive : i->low_inclusive;
  return f->direction < 0 ? &i->high : &i->low;
}

static const bson_value_t *scan_end(const struct field_bounds *f, const struct interval *i, bool *inclusive) {
  *inclusive = f->direction < 0 ? i->low_inclusive : i->high_inclusive;
  return f->direction < 0 ? &i->low : &i->high;
}

// The first field that is not fixed to one value: the one whose intervals multiply. n_fields when there is none.
static size_t multiplying_field(const struct index_bounds *b) {
  size_t i = 0;
  while (i < b->n_fields && b->fields[i].n == 1 && interval_is_point(&b->fields[i].intervals[0])) i++;
  return i;
}

static bool matches_nothing(const struct index_bounds *b) {
  for (size_t i = 0; i < b->n_fields; i++) {
    if (b->fields[i].n == 0) return true;
  }
  return b->n_fields == 0;
}

size_t bounds_range_count(const struct index_bounds *b) {
  if (matches_nothing(b)) return 0;
  size_t m = multiplying_field(b);
  return m < b->n_fields ? b->fields[m].n : 1;
}

// The lowest key of a range: `prefix`, the start of field m's interval from, and, as long as the starts are inclusive,
// the starts of the fields behind it.
static struct key range_low(struct arena *a, const struct index_bounds *b, const struct buf *prefix, size_t m,
                            const struct interval *from) {
  __attribute__((cleanup(buf_cleanup))) struct buf key = {0};
  buf_add(&key, prefix->data, prefix->len);
  bool inclusive = true;
  for (size_t i = m; i < b->n_fields && inclusive; i++) {
    const struct field_bounds *f = &b->fields[i];
    const bson_value_t *v = scan_start(f, i == m ? from : in_scan_order(f, 0), &inclusive);
    key_append(&key, v, f->direction < 0);
  }
  struct key low = key_copy(a, &key);
  // An exclusive start: behind every key that begins so.
  return inclusive ? low : key_prefix_end(a, low);
}

static struct key range_high(struct arena *a, const struct index_bounds *b, const struct buf *prefix, size_t m,
                             const struct interval *to) {
  __attribute__((cleanup(buf_cleanup))) struct buf key = {0};
  buf_add(&key, prefix->data, prefix->len);
  bool inclusive = true;
  for (size_t i = m; i < b->n_fields && inclusive; i++) {
    const struct field_bounds *f = &b->fields[i];
    const bson_value_t *v = scan_end(f, i == m ? to : in_scan_order(f, f->n - 1), &inclusive);
    key_append(&key, v, f->direction < 0);
  }
  struct key high = key_copy(a, &key);
  return inclusive ? key_prefix_end(a, high) : high;
}

size_t bounds_ranges(struct arena *a, const struct index_bounds *b, const bson_t *pattern, size_t limit,
                     struct key_range **out) {
  *out = NULL;
  size_t wanted = bounds_range_count(b);
  if (wanted == 0) return 0;
  if (limit == 0) limit = 1;
  size_t m = multiplying_field(b), n = wanted < limit ? wanted : limit;
  __attribute__((cleanup(buf_cleanup))) struct buf prefix = {0};
  for (size_t i = 0; i < m; i++) key_append(&prefix, &b->fields[i].intervals[0].low, b->fields[i].direction < 0);
  *out = arena_alloc(a, n * sizeof **out);
  for (size_t i = 0; i < n; i++) {
    // Range i joins the intervals from `first` to `last`; as many as there are when no joining is needed.
    size_t first = i * wanted / n, last = (i + 1) * wanted / n - 1;
    const struct field_bounds *f = m < b->n_fields ? &b->fields[m] : NULL;
    (*out)[i].low = range_low(a, b, &prefix, m, f ? in_scan_order(f, first) : NULL);
    (*out)[i].high = range_high(a, b, &prefix, m, f ? in_scan_order(f, last) : NULL);
  }
  return n;
}

// --- text ---

// Doubles always show that they are doubles: 5.0, inf.0.
static void add_value(struct arena *a, struct buf *to, const bson_value_t *v) {
  if (v->value_type != BSON_TYPE_DOUBLE) {
    buf_printf(to, "%s", value_text(a, v));
    return;
  }
  double d = v->value.v_double;
  char text[40];
  (void)snprintf(text, sizeof text, "%.15g", d);
  bool marked = strpbrk(text, ".e") != NULL;
  buf_printf(to, "%s%s", text, marked ? "" : ".0");
}

// The end of a regex prefix's interval may be cut inside a character.
static void make_utf8(struct buf *text) {
  if (bson_utf8_validate(buf_str(text), text->len, true)) return;
  for (size_t i = 0; i < text->len; i++) {
    if (text->data[i] >= 0x80) text->data[i] = '?';
  }
}

void bounds_describe(const struct index_bounds *b, bson_t *out) {
  struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
  for (size_t i = 0; i < b->n_fields; i++) {
    const struct field_bounds *f = &b->fields[i];
    bson_t list;
    bson_append_array_begin(out, f->path, -1, &list);
    for (size_t k = 0; k < f->n; k++) {
      __attribute__((cleanup(buf_cleanup))) struct buf text = {0};
      const struct interval *at = in_scan_order(f, k);
      bool start_inclusive, end_inclusive;
      const bson_value_t *start = scan_start(f, at, &start_inclusive), *end = scan_end(f, at, &end_inclusive);
      buf_printf(&text, "%c", start_inclusive ? '[' : '(');
      add_value(a, &text, start);
      buf_printf(&text, ", ");
      add_value(a, &text, end);
      buf_printf(&text, "%c", end_inclusive ? ']' : ')');
      make_utf8(&text);
      char index[16];
      const char *key;
      bson_uint32_to_string((uint32_t)k, &key, index, sizeof index);
      bson_append_utf8(&list, key, -1, buf_str(&text), (int)text.len);
    }
    bson_append_array_end(out, &list);
  }
}
