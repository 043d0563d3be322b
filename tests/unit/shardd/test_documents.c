// The documents of a migration are read back as they were written; bounds as keys; refresh tickets.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/bson/doc.h"
#include "shardd/metadata.h"
#include "shardd/migration_documents.h"

static struct arena *a;

static int start(void **state) {
  a = arena_new();
  return 0;
}

static int stop(void **state) {
  arena_free(a);
  return 0;
}

static const bson_t *bound(int32_t n) {
  bson_t *b = arena_bson(a);
  BSON_APPEND_INT32(b, "k", n);
  return b;
}

static const bson_t *end_of_space(void) {
  bson_t *b = arena_bson(a);
  BSON_APPEND_MAXKEY(b, "k");
  return b;
}

static void coordinator(void **state) {
  struct coordinator_doc d = {.id = {1, 2},
                              .session_id = "sh1_sh2_x",
                              .ns = "a.b",
                              .lsid = {3},
                              .txn_number = 4,
                              .collection = {5},
                              .donor = "sh1",
                              .recipient = "sh2",
                              .min = bound(1),
                              .max = bound(2),
                              .before = {.timestamp = 9, .major = 7, .minor = 8}};
  for (int decision = DECISION_NONE; decision <= DECISION_ABORTED; decision++) {
    struct coordinator_doc back;
    struct error err = {0};
    d.decision = (enum decision)decision;
    assert_true(coordinator_doc_parse(a, coordinator_doc_make(a, &d), &back, &err));
    assert_memory_equal(back.id, d.id, 16);
    assert_memory_equal(back.collection, d.collection, 16);
    assert_string_equal(back.recipient, "sh2");
    assert_true(doc_equal_bytes(back.max, d.max));
    assert_true(chunk_version_equal(&back.before, &d.before));
    assert_int_equal(back.decision, decision);
  }
}

static void missing_field(void **state) {
  struct coordinator_doc back;
  struct error err = {0};
  assert_false(coordinator_doc_parse(a, bound(1), &back, &err));
  assert_int_equal(err.code, ERR_NoSuchKey);
}

static void range_deletion(void **state) {
  struct range_deletion_doc d = {.id = {1},
                                 .ns = "a.b",
                                 .collection = {2},
                                 .donor = "sh1",
                                 .min = bound(1),
                                 .max = end_of_space(),
                                 .pending = true,
                                 .now = true,
                                 .orphans = 42};
  struct range_deletion_doc back;
  struct error err = {0};
  const bson_t *doc = range_deletion_doc_make(a, &d);
  assert_true(range_deletion_doc_parse(a, doc, &back, &err));
  assert_true(back.pending && back.now && !back.processing);
  assert_int_equal(back.orphans, 42);
  d.pending = false;
  assert_false(doc_has(range_deletion_doc_make(a, &d), "pending")); // absent, not false
}

// A document whose key is MaxKey itself belongs to the last chunk.
static void ends(void **state) {
  struct key max = bound_key(a, end_of_space()), end = bound_end(a, end_of_space());
  assert_true(key_compare(max, end) < 0);
  assert_int_equal(key_compare(bound_key(a, bound(5)), bound_end(a, bound(5))), 0);
  assert_true(bound_is_all(end_of_space(), BSON_TYPE_MAXKEY));
  assert_false(bound_is_all(bound(1), BSON_TYPE_MAXKEY));
}

// A load that began before an invalidation satisfies nobody who asks after it.
static void tickets(void **state) {
  struct refresh f = {0};
  bool lead;
  struct error err = {0};
  uint64_t first = refresh_ask(&f);
  assert_true(refresh_join(NULL, &f, first, &lead, &err) && lead);
  refresh_invalidate(&f);
  assert_false(refresh_end(&f, true));
  assert_true(refresh_join(NULL, &f, first, &lead, &err) && lead); // once more
  uint64_t later = refresh_ask(&f);
  assert_true(refresh_end(&f, true));
  assert_true(refresh_join(NULL, &f, first, &lead, &err) && !lead);
  assert_true(refresh_join(NULL, &f, later, &lead, &err) && lead); // it asked after that load had begun
  assert_false(refresh_end(&f, false));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(coordinator), cmocka_unit_test(missing_field), cmocka_unit_test(range_deletion),
      cmocka_unit_test(ends),        cmocka_unit_test(tickets),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
