// Which files are merged.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shardd/file_merge_policy.h"

enum { KB = 1024, MB = 1024 * 1024, TARGET = 64 * MB, MANY = 200 };

static struct merge_run chosen(const struct mergeable *files, size_t n) {
  struct merge_run run;
  bool any = merge_run_choose(files, n, TARGET, &run);
  assert_int_equal(any, run.n > 0);
  return run;
}

static void nothing_to_do(void **state) {
  assert_int_equal(chosen(NULL, 0).n, 0);
  assert_int_equal(chosen((struct mergeable[]){{1, 0, false}}, 1).n, 0);
  assert_int_equal(chosen((struct mergeable[]){{1, 70 * MB, false}, {2, 70 * MB, false}}, 2).n, 0);
  assert_int_equal(chosen((struct mergeable[]){{1, MB, false}, {2, MB, true}}, 2).n, 0);
  // Half of what is written would be written for nothing.
  assert_int_equal(chosen((struct mergeable[]){{1, 40 * MB, false}, {2, MB, false}}, 2).n, 0);
}

static void the_longest_run(void **state) {
  const struct mergeable files[] = {{9, 30 * MB, false}, {8, 35 * MB, false}, {7, 90 * MB, false},
                                    {6, 2 * MB, false},  {5, 0, true},        {4, 1 * MB, false},
                                    {3, 3 * MB, false},  {2, 125 * MB, false}};
  struct merge_run run = chosen(files, sizeof files / sizeof *files);
  const uint32_t expected[] = {9, 8, 6, 4, 3}; // over large files and excluded ones
  assert_int_equal(run.n, 5);
  assert_memory_equal(run.files, expected, sizeof expected);
  assert_int_equal(run.bytes, 71 * MB);
}

static void never_above_twice_the_target(void **state) {
  const struct mergeable files[] = {{1, 60 * MB, false}, {2, 50 * MB, false}, {3, 30 * MB, false}, {4, 20 * MB, false}};
  struct merge_run run = chosen(files, 4);
  const uint32_t expected[] = {2, 3, 4}; // as many as from 1 on would fit, with fewer bytes
  assert_int_equal(run.n, 3);
  assert_memory_equal(run.files, expected, sizeof expected);
}

static void a_bounded_number(void **state) {
  struct mergeable files[MANY];
  for (uint32_t i = 0; i < MANY; i++) files[i] = (struct mergeable){.file = i + 1, .bytes = KB};
  assert_int_equal(chosen(files, MANY).n, MERGE_MAX_FILES);
  files[0].bytes = 50 * KB; // tiny ones are merged whatever their proportions
  assert_int_equal(chosen(files, 2).n, 2);
}

// However files come, few are left, and each byte is written a few times only.
static void it_converges(void **state) {
  struct mergeable files[MANY];
  size_t n = 0;
  int64_t came = 0, written = 0;
  unsigned seed = 1;
  for (uint32_t id = 1; id <= 5000; id++) {
    seed = seed * 1103515245U + 12345U;
    files[n++] = (struct mergeable){.file = id, .bytes = (int64_t)((seed >> 8) % (2 * MB))};
    came += files[n - 1].bytes;
    struct merge_run run;
    while (merge_run_choose(files, n, TARGET, &run)) {
      size_t kept = 0, at = 0;
      for (size_t i = 0; i < n; i++) {
        if (at < run.n && files[i].file == run.files[at]) {
          if (at++ == 0) files[kept++] = (struct mergeable){.file = files[i].file, .bytes = run.bytes};
        } else {
          files[kept++] = files[i];
        }
      }
      assert_int_equal(at, run.n);
      n = kept;
      written += run.bytes;
    }
    assert_in_range(n, 1, 10 + (size_t)(came / TARGET));
  }
  assert_in_range(written, came, 8 * came);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_to_do),
      cmocka_unit_test(the_longest_run),
      cmocka_unit_test(never_above_twice_the_target),
      cmocka_unit_test(a_bounded_number),
      cmocka_unit_test(it_converges),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
