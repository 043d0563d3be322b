// Split points: the figures of reference/sharding.md 4.3 (documents of 277 bytes, chunk size 1 MiB), frequent keys,
// limits.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "common/bson/doc.h"
#include "common/sharding/split_points.h"

enum { MIB = 1024 * 1024 };

struct run { // keys from..to-1, each `repeat` times; stands for the index scan
  int64_t from, to, repeat;
  struct split_spec spec;
};

struct outcome {
  int64_t points[64];
  size_t n;
};

static struct key encode(struct arena *a, int64_t n) {
  struct buf b = {0};
  bson_value_t v = value_int64(n);
  key_append(&b, &v, false);
  struct key k = key_copy(a, &b);
  buf_free(&b);
  return k;
}

static bool feed(struct split_points *s, struct arena *a, int64_t n) {
  struct key k = encode(a, n);
  if (split_points_feed(s, k)) {
    bson_t doc = BSON_INITIALIZER;
    bson_append_int64(&doc, "k", 1, n);
    split_points_take(s, k, &doc);
    bson_destroy(&doc);
  }
  return !split_points_enough(s);
}

static void scan(struct split_points *s, struct arena *a, const struct run *r) {
  struct key restart = split_points_restart(s);
  bool begun = restart.len == 0, more = true;
  for (int64_t i = 0; more && i < r->to - r->from; i++) {
    int64_t n = r->spec.backward ? r->to - 1 - i : r->from + i;
    if (!begun) begun = key_compare(encode(a, n), restart) == 0;
    for (int64_t j = 0; begun && more && j < r->repeat; j++) more = feed(s, a, n);
  }
}

static struct outcome split(const struct run *r) {
  struct arena *a = arena_new();
  struct outcome o = {0};
  struct split_points *s = split_points_new(a, &r->spec);
  if (s) {
    do scan(s, a, r);
    while (!split_points_end(s));
    const bson_t *const *docs = split_points_result(s, &o.n);
    for (size_t i = 0; i < o.n && i < 64; i++) o.points[i] = doc_i64(docs[i], "k", -1);
  }
  arena_free(a);
  return o;
}

static struct outcome by_size(int64_t docs, int64_t bytes, int64_t limit) {
  struct run r = {
      0, docs, 1, {.policy = SPLIT_BY_SIZE, .records = docs, .bytes = bytes, .chunk_bytes = MIB, .limit = limit}};
  return split(&r);
}

static void first_point_of_the_article(void **state) {
  struct outcome o = by_size(80000, 8000 * 282 + 72000 * 277, 1);
  assert_int_equal(o.n, 1);
  assert_int_equal(o.points[0], 3784);
}

static void later_moves_have_the_same_size(void **state) {
  for (int64_t move = 1; move < 10; move++) {
    struct run r = {move * 3784,
                    80000,
                    1,
                    {.policy = SPLIT_BY_SIZE, .records = 80000, .bytes = 22200000, .chunk_bytes = MIB, .limit = 1}};
    struct outcome o = split(&r);
    assert_int_equal(o.points[0], (move + 1) * 3784);
  }
  struct run manual = {37840,
                       100000,
                       1,
                       {.policy = SPLIT_BY_SIZE, .records = 100000, .bytes = 27740000, .chunk_bytes = MIB, .limit = 1}};
  assert_int_equal(split(&manual).points[0], 41624);
}

static void later_points_are_k_apart(void **state) {
  struct outcome o = by_size(80000, 80000 * 277, 3);
  assert_int_equal(o.n, 3);
  assert_int_equal(o.points[0], 3784);
  assert_int_equal(o.points[1], 7569);
  assert_int_equal(o.points[2], 11354);
}

static void the_last_piece_is_evened_out(void **state) {
  static const int64_t table[][2] = {{3784, -1},   {5000, -1},   {5500, 2749}, {6000, 2999},
                                     {6600, 3299}, {7000, 3784}, {9000, 3784}};
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    struct outcome o = by_size(table[i][0], table[i][0] * 277, 1);
    assert_int_equal(o.n, table[i][1] >= 0);
    if (o.n) assert_int_equal(o.points[0], table[i][1]);
  }
  struct outcome o = by_size(9000, 9000 * 277, 0);
  assert_int_equal(o.n, 2);
  assert_int_equal(o.points[0], 2999);
  assert_int_equal(o.points[1], 5999);
}

static void nothing_to_split(void **state) {
  assert_int_equal(by_size(100, 100 * 277, 0).n, 0);
  assert_int_equal(by_size(0, 0, 0).n, 0);
  struct arena *a = arena_new();
  struct split_spec spec = {.policy = SPLIT_BY_SIZE, .records = 20000, .bytes = 20000 * 277, .chunk_bytes = MIB};
  struct split_points *s = split_points_new(a, &spec);
  assert_true(split_points_end(s)); // an empty range
  struct run one_key = {5, 6, 20000, spec};
  s = split_points_new(a, &spec);
  scan(s, a, &one_key);
  assert_true(split_points_end(s) && split_points_single_key(s));
  arena_free(a);
  assert_int_equal(split(&one_key).n, 0);
}

static void frequent_keys_stay_whole(void **state) {
  // Five keys of 4000 documents each, K = 3785: every piece is one key.
  struct run r = {0, 5, 4000, {.policy = SPLIT_BY_SIZE, .records = 20000, .bytes = 20000 * 277, .chunk_bytes = MIB}};
  struct outcome o = split(&r);
  assert_int_equal(o.n, 4);
  for (int64_t i = 0; i < 4; i++) assert_int_equal(o.points[i], i + 1);
}

static void backward_gives_ascending_points(void **state) {
  struct run r = {0,
                  80000,
                  1,
                  {.policy = SPLIT_BY_SIZE,
                   .records = 80000,
                   .bytes = 80000 * 277,
                   .chunk_bytes = MIB,
                   .limit = 1,
                   .backward = true}};
  struct outcome o = split(&r);
  assert_int_equal(o.n, 1);
  assert_int_equal(o.points[0], 80000 - 3785);
  r.spec.limit = 2;
  o = split(&r);
  assert_true(o.n == 2 && o.points[0] < o.points[1]);
}

static void split_vector(void **state) {
  // keyCount = floor(C / (2 * 277)) = 1892: the 1893rd entry is the first point, then every 1893rd.
  struct run r = {0, 8000, 1, {.policy = SPLIT_HALF_SIZE, .records = 8000, .bytes = 8000 * 277, .chunk_bytes = MIB}};
  struct outcome o = split(&r);
  assert_int_equal(o.n, 4);
  assert_int_equal(o.points[0], 1892);
  assert_int_equal(o.points[1], 3785);
  r.spec.max_objects = 1000;
  assert_int_equal(split(&r).points[0], 1000);
  r.spec.limit = 1;
  assert_int_equal(split(&r).n, 1);
}

static void median(void **state) {
  struct run r = {0, 1000, 1, {.policy = SPLIT_MEDIAN, .records = 1000, .bytes = 1000}};
  struct outcome o = split(&r);
  assert_int_equal(o.n, 1);
  assert_int_equal(o.points[0], 500);
  r = (struct run){7, 8, 1000, {.policy = SPLIT_MEDIAN, .records = 1000, .bytes = 1000}};
  assert_int_equal(split(&r).n, 0); // indivisible
  r = (struct run){0, 2, 1, {.policy = SPLIT_MEDIAN, .records = 2, .bytes = 1000}};
  assert_int_equal(split(&r).points[0], 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(first_point_of_the_article),
      cmocka_unit_test(later_moves_have_the_same_size),
      cmocka_unit_test(later_points_are_k_apart),
      cmocka_unit_test(the_last_piece_is_evened_out),
      cmocka_unit_test(nothing_to_split),
      cmocka_unit_test(frequent_keys_stay_whole),
      cmocka_unit_test(backward_gives_ascending_points),
      cmocka_unit_test(split_vector),
      cmocka_unit_test(median),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
