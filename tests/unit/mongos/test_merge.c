// The merge of sorted streams.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mongos/merge.h"

enum { STREAMS = 7, EACH = 200 };

static int compare_bytes(const void *a, const void *b) {
  return memcmp(a, b, 2);
}

static void merges_random_streams(void **state) {
  struct arena *a = arena_new();
  static uint8_t keys[STREAMS][EACH][2];
  size_t at[STREAMS] = {0}, total = 0;
  srand(3);
  for (int s = 0; s < STREAMS; s++) {
    for (int i = 0; i < EACH; i++) {
      keys[s][i][0] = (uint8_t)(rand() % 4); // many equal ones
      keys[s][i][1] = (uint8_t)(rand() % 8);
    }
    qsort(keys[s], EACH, 2, compare_bytes);
  }
  struct merge *m = merge_new(a, STREAMS);
  for (size_t s = 0; s < STREAMS; s++) merge_put(m, s, (struct key){.data = keys[s][0], .len = 2});
  uint8_t last[2] = {0};
  size_t last_stream = 0;
  while (merge_count(m) > 0) {
    size_t s = merge_first(m);
    const uint8_t *key = keys[s][at[s]];
    int c = memcmp(key, last, 2);
    assert_true(c > 0 || (c == 0 && s >= last_stream)); // equal keys in the order of the streams
    memcpy(last, key, 2);
    last_stream = s;
    total++;
    merge_take(m);
    if (++at[s] < EACH) merge_put(m, s, (struct key){.data = keys[s][at[s]], .len = 2});
  }
  assert_int_equal(total, STREAMS * EACH);
  arena_free(a);
}

static void a_prefix_sorts_first(void **state) {
  struct arena *a = arena_new();
  struct merge *m = merge_new(a, 2);
  merge_put(m, 0, (struct key){.data = (const uint8_t *)"ab", .len = 2});
  merge_put(m, 1, (struct key){.data = (const uint8_t *)"a", .len = 1});
  assert_int_equal(merge_first(m), 1);
  merge_take(m);
  assert_int_equal(merge_first(m), 0);
  merge_take(m);
  assert_int_equal(merge_count(m), 0);
  arena_free(a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(merges_random_streams),
      cmocka_unit_test(a_prefix_sorts_first),
  };
  return cmocka_run_group_tests_name("mongos/merge", tests, NULL, NULL);
}
