// The checkers of lists and of sets on small histories, right ones and wrong ones.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/chaos/check_list.h"
#include "tests/chaos/items.h"

static void append(struct history *h, int64_t called, int64_t done, int64_t value) {
  history_add(h, &(struct op){.kind = OP_APPEND, .called = called, .done = done, .value = value, .version = -1});
}

// values: ends with 0.
static void read_list(struct history *h, int64_t called, int64_t done, bool strict, const int64_t *values) {
  struct op op = {.kind = OP_READ_LIST, .called = called, .done = done, .strict = strict, .version = -1};
  while (values[op.n_list]) op.n_list++;
  op.list = malloc((op.n_list + 1) * sizeof *op.list);
  memcpy(op.list, values, op.n_list * sizeof *op.list);
  history_add(h, &op);
}

static bool check(struct history *h) {
  struct verdict v;
  bool ok = check_list(h, &v) && check_list_cycles(h, &v);
  history_free(h);
  return ok;
}

static void right(void **state) {
  struct history h = {0};
  append(&h, 0, 1, 1);
  append(&h, 2, NEVER, 2);
  append(&h, 3, 9, 3);
  read_list(&h, 2, 3, true, (int64_t[]){1, 0});
  read_list(&h, 4, 5, true, (int64_t[]){1, 3, 0});
  read_list(&h, 6, 7, false, (int64_t[]){1, 0}); // may be stale
  read_list(&h, 10, 11, true, (int64_t[]){1, 3, 2, 0});
  assert_true(check(&h));
}

static void lost_or_twice(void **state) {
  struct history lost = {0}, twice = {0}, invented = {0};
  append(&lost, 0, 1, 1);
  append(&lost, 0, 1, 2);
  read_list(&lost, 2, 3, true, (int64_t[]){2, 0});
  assert_false(check(&lost));
  append(&twice, 0, NEVER, 1);
  read_list(&twice, 2, 3, false, (int64_t[]){1, 1, 0});
  assert_false(check(&twice));
  append(&invented, 5, 6, 1);
  read_list(&invented, 2, 3, false, (int64_t[]){1, 0});
  assert_false(check(&invented));
}

static void disagreeing_reads(void **state) {
  struct history h = {0};
  append(&h, 0, 9, 1);
  append(&h, 0, 9, 2);
  read_list(&h, 1, 2, true, (int64_t[]){1, 0});
  read_list(&h, 3, 4, true, (int64_t[]){2, 1, 0});
  assert_false(check(&h));
}

static void cycles(void **state) {
  struct history appends = {0}, reads = {0};
  append(&appends, 0, 1, 1); // answered before the other was called, and behind it in the list
  append(&appends, 2, 3, 2);
  read_list(&appends, 4, 5, true, (int64_t[]){2, 1, 0});
  assert_false(check(&appends));
  append(&reads, 0, 9, 1); // seen, then not seen
  read_list(&reads, 1, 2, true, (int64_t[]){1, 0});
  read_list(&reads, 3, 4, true, (int64_t[]){0});
  assert_false(check(&reads));
}

static bool scan(const struct items *s, uint8_t count, int64_t from, int64_t to) {
  struct verdict v;
  return items_check(s, &count, 1, from, to, &v);
}

static void sets(void **state) {
  struct items s;
  items_init(&s, 0);
  atomic_store(&s.n, 1);
  assert_true(scan(&s, 0, 10, 20) && scan(&s, 1, 10, 20)); // tried, outcome unknown: either
  assert_false(scan(&s, 2, 10, 20));
  atomic_store(&s.list[0].inserted, 15);
  assert_true(scan(&s, 0, 10, 20)); // acknowledged after the scan began
  assert_false(scan(&s, 0, 16, 20));
  atomic_store(&s.list[0].delete_called, 30);
  assert_false(scan(&s, 0, 16, 20));
  assert_true(scan(&s, 0, 16, 40) && scan(&s, 1, 16, 40));
  atomic_store(&s.list[0].deleted, 50);
  assert_true(scan(&s, 1, 45, 60));
  assert_false(scan(&s, 1, 55, 60));
  items_free(&s);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(right), cmocka_unit_test(lost_or_twice),
                                     cmocka_unit_test(disagreeing_reads), cmocka_unit_test(cycles),
                                     cmocka_unit_test(sets)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
