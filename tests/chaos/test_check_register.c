// The register's checkers on small histories, right ones and wrong ones.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/chaos/check_register.h"
#include "tests/chaos/rng.h"

static const struct verdict fine = {.ok = true};

static struct history take(const struct op *ops, size_t n) {
  struct history h = {.key = 7};
  for (size_t i = 0; i < n; i++) history_add(&h, &ops[i]);
  return h;
}

#define CHECK(expected, checker, ...)                                                                                  \
  do {                                                                                                                 \
    const struct op ops[] = {__VA_ARGS__};                                                                             \
    struct history h = take(ops, sizeof ops / sizeof *ops);                                                            \
    struct verdict v = fine;                                                                                           \
    assert_int_equal(checker(&h, &v), expected);                                                                       \
    assert_int_equal(v.ok, expected);                                                                                  \
    history_free(&h);                                                                                                  \
  } while (0)

#define WRITE(from, to, what)                                                                                          \
  { .kind = OP_WRITE, .called = (from), .done = (to), .value = (what), .version = -1 }
#define READ(from, to, what)                                                                                           \
  { .kind = OP_READ, .called = (from), .done = (to), .value = (what), .version = -1, .strict = true }
#define STALE(from, to, what)                                                                                          \
  { .kind = OP_READ, .called = (from), .done = (to), .value = (what), .version = -1 }
#define CAS(from, to, was, what)                                                                                       \
  { .kind = OP_CAS, .called = (from), .done = (to), .expected = (was), .value = (what), .version = -1 }
#define MISSED(from, to, was)                                                                                          \
  { .kind = OP_CAS_MISSED, .called = (from), .done = (to), .expected = (was), .version = -1 }
#define SEEN(from, to, what, n)                                                                                        \
  { .kind = OP_READ, .called = (from), .done = (to), .value = (what), .version = (n), .strict = true }

static void linear(void **state) {
  CHECK(true, check_register, READ(0, 1, 0), WRITE(2, 3, 5), READ(4, 5, 5));
  CHECK(true, check_register, WRITE(0, 10, 5), READ(1, 2, 0), READ(3, 4, 5));     // takes effect in between
  CHECK(true, check_register, WRITE(0, 10, 5), WRITE(0, 10, 6), READ(11, 12, 5)); // either order
  CHECK(true, check_register, WRITE(0, 1, 5), CAS(2, 3, 5, 6), MISSED(4, 5, 5), READ(6, 7, 6));
  CHECK(true, check_register, WRITE(0, 1, 5), STALE(2, 3, 0)); // a stale read says nothing
}

static void not_linear(void **state) {
  CHECK(false, check_register, WRITE(0, 1, 5), READ(2, 3, 0));                    // lost, or stale
  CHECK(false, check_register, WRITE(0, 1, 5), WRITE(2, 3, 6), READ(4, 5, 5));    // the older one
  CHECK(false, check_register, WRITE(0, 10, 5), READ(1, 2, 5), READ(3, 4, 0));    // there, then not
  CHECK(false, check_register, WRITE(0, 1, 5), READ(2, 3, 9));                    // never written
  CHECK(false, check_register, WRITE(0, 1, 5), CAS(2, 6, 5, 6), CAS(2, 6, 5, 7)); // both cannot have it
  CHECK(false, check_register, WRITE(0, 1, 5), MISSED(2, 3, 5));                  // it was there
  CHECK(false, check_register, WRITE(0, 10, 5), WRITE(0, 10, 6), READ(11, 12, 5), READ(13, 14, 6));
}

static void unknown_outcomes(void **state) {
  CHECK(true, check_register, WRITE(0, NEVER, 5), READ(2, 3, 0), READ(4, 5, 5));                 // late
  CHECK(true, check_register, WRITE(0, NEVER, 5), READ(2, 3, 0), READ(4, 5, 0));                 // never
  CHECK(true, check_register, WRITE(0, NEVER, 5), WRITE(2, 3, 6), READ(4, 5, 6), READ(6, 7, 5)); // later still
  CHECK(false, check_register, WRITE(4, NEVER, 5), READ(2, 3, 5));                               // before its call
  CHECK(false, check_register, WRITE(0, NEVER, 5), READ(2, 3, 5), WRITE(4, 5, 6), READ(6, 7, 6),
        READ(8, 9, 5));                                                              // twice
  CHECK(true, check_register, WRITE(0, 1, 5), CAS(2, NEVER, 5, 6), MISSED(4, 5, 5)); // nobody saw the 6 itself
  CHECK(true, check_register, WRITE(0, 1, 5), WRITE(2, NEVER, 6), MISSED(4, 5, 5));
}

static void versions(void **state) {
  CHECK(true, check_versions, WRITE(0, 1, 5), SEEN(2, 3, 5, 1), WRITE(4, NEVER, 6), SEEN(5, 6, 5, 1), SEEN(7, 8, 6, 2));
  CHECK(false, check_versions, WRITE(0, 1, 5), SEEN(2, 3, 5, 2));                                   // applied twice
  CHECK(false, check_versions, WRITE(0, 1, 5), WRITE(2, 3, 6), SEEN(4, 5, 6, 1));                   // one was lost
  CHECK(false, check_versions, WRITE(0, 9, 5), WRITE(0, 9, 6), SEEN(2, 3, 6, 1), SEEN(4, 5, 5, 1)); // two histories
}

// Histories of a real register, with overlaps and unknown outcomes, are found right; with one value read wrong, not.
static void random_histories(void **state) {
  for (uint64_t seed = 0; seed < 300; seed++) {
    struct rng r = rng_stream(seed, "test");
    struct history h = {.key = 1};
    int64_t value = REGISTER_ABSENT, now = 0;
    size_t last_read = SIZE_MAX;
    for (int i = 0; i < 60; i++) {
      int64_t begin = now - rng_below(&r, 30), end = now + rng_below(&r, 30);
      struct op op = {.kind = OP_READ, .called = begin, .done = end, .strict = true, .version = -1};
      int what = rng_below(&r, 3);
      if (what == 0) op = (struct op){.kind = OP_WRITE, .called = begin, .done = end, .value = i + 1, .version = -1};
      if (what == 1 && value)
        op =
            (struct op){.kind = OP_CAS, .called = begin, .done = end, .expected = value, .value = i + 1, .version = -1};
      if (op.kind == OP_READ) {
        op.value = value;
        last_read = h.n;
      } else {
        if (rng_chance(&r, 10)) op.done = NEVER;
        if (op.done != NEVER || rng_chance(&r, 50)) value = i + 1;
      }
      history_add(&h, &op);
      now += 10;
    }
    struct verdict v;
    assert_true(check_register(&h, &v));
    if (last_read != SIZE_MAX) {
      h.ops[last_read].value = 1000;
      assert_false(check_register(&h, &v));
    }
    history_free(&h);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(linear), cmocka_unit_test(not_linear),
                                     cmocka_unit_test(unknown_outcomes), cmocka_unit_test(versions),
                                     cmocka_unit_test(random_histories)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
