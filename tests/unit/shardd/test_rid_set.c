// rid_set against a plain table.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "shardd/rid_set.h"

enum { RIDS = 20000 };

static void holds_what_was_added(void **state) {
  struct rid_set s = {0};
  uint8_t *added = calloc(RIDS, 1);
  unsigned seed = 7;
  assert_false(rid_set_has(&s, 1));
  for (int i = 0; i < RIDS; i++) {
    seed = seed * 1103515245U + 12345U;
    int64_t rid = 1 + (seed >> 8) % (RIDS - 1);
    rid_set_add(&s, rid);
    added[rid] = 1;
  }
  size_t n = 0;
  for (int64_t rid = 1; rid < RIDS; rid++) {
    assert_int_equal(rid_set_has(&s, rid), added[rid]);
    n += added[rid];
  }
  assert_int_equal(s.n, n);
  assert_false(rid_set_has(&s, 0)); // no document has rid 0
  rid_set_free(&s);
  free(added);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(holds_what_was_added)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
