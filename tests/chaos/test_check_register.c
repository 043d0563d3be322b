// The register's checkers on small histories, right ones and wrong ones.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/chaos/check_register.h"
#include "tests/chaos/rng.h"

// --- histories: a list that ends with END ---

enum { END = -1 };
static const struct op end = {.kind = (enum op_kind)END};

static struct op wrote(int64_t from, int64_t to, int64_t value) {
  return (struct op){.kind = OP_WRITE, .called = from, .done = to, .value = value, .version = -1};
}

static struct op read_as(int64_t from, int64_t to, int64_t value) {
  return (struct op){.kind = OP_READ, .called = from, .done = to, .value = value, .version = -1, .strict = true};
}

static struct op stale(int64_t from, int64_t to, int64_t value) {
  return (struct op){.kind = OP_READ, .called = from, .done = to, .value = value, .version = -1};
}

static struct op seen(int64_t from, int64_t to, int64_t value, int64_t version) {
  return (struct op){.kind = OP_READ, .called = from, .done = to, .value = value, .version = version, .strict = true};
}

static struct op cas(int64_t from, int64_t to, int64_t expected, int64_t value) {
  return (struct op){.kind = OP_CAS, .called = from, .done = to, .expected = expected, .value = value, .version = -1};
}

static struct op missed(int64_t from, int64_t to, int64_t expected) {
  return (struct op){.kind = OP_CAS_MISSED, .called = from, .done = to, .expected = expected, .version = -1};
}

static void expect(bool expected, bool (*checker)(const struct history *h, struct verdict *v), const struct op *ops) {
  struct history h = {.key = 7};
  struct verdict v;
  for (; (int)ops->kind != END; ops++) history_add(&h, ops);
  assert_int_equal(checker(&h, &v), expected);
  assert_int_equal(v.ok, expected);
  history_free(&h);
}

static void linear(void **state) {
  expect(true, check_register, (struct op[]){read_as(0, 1, 0), wrote(2, 3, 5), read_as(4, 5, 5), end});
  expect(true, check_register,
         (struct op[]){wrote(0, 10, 5), read_as(1, 2, 0), read_as(3, 4, 5), end}); // takes effect in between
  expect(true, check_register,
         (struct op[]){wrote(0, 10, 5), wrote(0, 10, 6), read_as(11, 12, 5), end}); // either order
  expect(true, check_register, (struct op[]){wrote(0, 1, 5), cas(2, 3, 5, 6), missed(4, 5, 5), read_as(6, 7, 6), end});
  expect(true, check_register, (struct op[]){wrote(0, 1, 5), stale(2, 3, 0), end}); // a stale read says nothing
}

static void not_linear(void **state) {
  expect(false, check_register, (struct op[]){wrote(0, 1, 5), read_as(2, 3, 0), end});                 // lost, or stale
  expect(false, check_register, (struct op[]){wrote(0, 1, 5), wrote(2, 3, 6), read_as(4, 5, 5), end}); // the older one
  expect(false, check_register,
         (struct op[]){wrote(0, 10, 5), read_as(1, 2, 5), read_as(3, 4, 0), end});     // there, then not
  expect(false, check_register, (struct op[]){wrote(0, 1, 5), read_as(2, 3, 9), end}); // never written
  expect(false, check_register,
         (struct op[]){wrote(0, 1, 5), cas(2, 6, 5, 6), cas(2, 6, 5, 7), end});       // both cannot have it
  expect(false, check_register, (struct op[]){wrote(0, 1, 5), missed(2, 3, 5), end}); // it was there
  expect(false, check_register,
         (struct op[]){wrote(0, 10, 5), wrote(0, 10, 6), read_as(11, 12, 5), read_as(13, 14, 6), end});
}

static void unknown_outcomes(void **state) {
  expect(true, check_register, (struct op[]){wrote(0, NEVER, 5), read_as(2, 3, 0), read_as(4, 5, 5), end}); // late
  expect(true, check_register, (struct op[]){wrote(0, NEVER, 5), read_as(2, 3, 0), read_as(4, 5, 0), end}); // never
  expect(true, check_register,
         (struct op[]){wrote(0, NEVER, 5), wrote(2, 3, 6), read_as(4, 5, 6), read_as(6, 7, 5), end}); // later still
  expect(false, check_register, (struct op[]){wrote(4, NEVER, 5), read_as(2, 3, 5), end});            // before its call
  expect(false, check_register,
         (struct op[]){wrote(0, NEVER, 5), read_as(2, 3, 5), wrote(4, 5, 6), read_as(6, 7, 6), read_as(8, 9, 5),
                       end}); // twice
  expect(true, check_register,
         (struct op[]){wrote(0, 1, 5), cas(2, NEVER, 5, 6), missed(4, 5, 5), end}); // nobody saw the 6 itself
  expect(true, check_register, (struct op[]){wrote(0, 1, 5), wrote(2, NEVER, 6), missed(4, 5, 5), end});
}

static void versions(void **state) {
  expect(true, check_versions,
         (struct op[]){wrote(0, 1, 5), seen(2, 3, 5, 1), wrote(4, NEVER, 6), seen(5, 6, 5, 1), seen(7, 8, 6, 2), end});
  expect(false, check_versions, (struct op[]){wrote(0, 1, 5), seen(2, 3, 5, 2), end});                 // applied twice
  expect(false, check_versions, (struct op[]){wrote(0, 1, 5), wrote(2, 3, 6), seen(4, 5, 6, 1), end}); // one was lost
  expect(false, check_versions,
         (struct op[]){wrote(0, 9, 5), wrote(0, 9, 6), seen(2, 3, 6, 1), seen(4, 5, 5, 1), end}); // two histories
}

// One step of a real register at a time: takes effect at `now`, which lies within it.
static struct op step(struct rng *r, int64_t now, int64_t unique, int64_t *value) {
  int64_t begin = now - rng_below(r, 30), answered = now + rng_below(r, 30);
  int what = rng_below(r, 3);
  if (what == 0 || (what == 1 && !*value)) return read_as(begin, answered, *value);
  struct op op = what == 1 ? cas(begin, answered, *value, unique) : wrote(begin, answered, unique);
  if (rng_chance(r, 10)) op.done = NEVER;
  if (op.done != NEVER || rng_chance(r, 50)) *value = unique;
  return op;
}

// Histories of a real register, with overlaps and unknown outcomes, are found right; with one value read wrong, not.
static void random_histories(void **state) {
  for (uint64_t seed = 0; seed < 300; seed++) {
    struct rng r = rng_stream(seed, "test");
    struct history h = {.key = 1};
    struct verdict v;
    int64_t value = REGISTER_ABSENT;
    size_t last_read = SIZE_MAX;
    for (int i = 0; i < 60; i++) {
      struct op op = step(&r, 10 * i, i + 1, &value);
      if (op.kind == OP_READ) last_read = h.n;
      history_add(&h, &op);
    }
    assert_true(check_register(&h, &v));
    if (last_read != SIZE_MAX) h.ops[last_read].value = 1000;
    assert_int_equal(check_register(&h, &v), last_read == SIZE_MAX);
    history_free(&h);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(linear), cmocka_unit_test(not_linear),
                                     cmocka_unit_test(unknown_outcomes), cmocka_unit_test(versions),
                                     cmocka_unit_test(random_histories)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
