// Retryable-write records: found again, bounded, taken along with a range.
#include "tests/unit/common/store/fixture.h"

static const uint8_t ALICE[16] = {1}, BOB[16] = {2};

static void record(struct fixture *f, const uint8_t lsid[16], int64_t txn, int32_t stmt, int n, const struct key *key) {
  change_session(f->list, lsid, txn, stmt, json(f, "{\"n\": %d}", n), key ? coll(f, UUID_A) : NULL, key);
  apply(f);
}

// What the statement answered; -1: it was not executed.
static int64_t answer(struct fixture *f, const uint8_t lsid[16], int64_t txn, int32_t stmt) {
  const bson_t *reply = store_session_statement(f->s, f->a, lsid, txn, stmt);
  return reply ? doc_i64(reply, "n", -2) : -1;
}

static void test_records(void **state) {
  struct fixture *f = *state;
  assert_int_equal(store_session_txn_number(f->s, ALICE), -1);
  record(f, ALICE, 5, 0, 50, NULL);
  record(f, ALICE, 5, 1, 51, NULL);
  record(f, BOB, 1, 0, 10, NULL);
  assert_int_equal(store_session_txn_number(f->s, ALICE), 5);
  assert_int_equal(answer(f, ALICE, 5, 0), 50);
  assert_int_equal(answer(f, ALICE, 5, 1), 51);
  assert_int_equal(answer(f, ALICE, 5, 2), -1);
  assert_int_equal(answer(f, ALICE, 6, 0), -1);
  assert_int_equal(answer(f, BOB, 1, 0), 10);
  reopen(f);
  assert_int_equal(answer(f, ALICE, 5, 1), 51);
  record(f, ALICE, 6, 1, 61, NULL); // the next transaction number: what was before goes
  assert_int_equal(answer(f, ALICE, 5, 0), -1);
  assert_int_equal(answer(f, ALICE, 6, 0), -1);
  assert_int_equal(answer(f, ALICE, 6, 1), 61);
  record(f, ALICE, 4, 0, 40, NULL); // of a chunk that came late
  assert_int_equal(store_session_txn_number(f->s, ALICE), 6);
  assert_int_equal(answer(f, ALICE, 6, 1), 61);
  record(f, ALICE, 7, 1, 71, NULL);
  record(f, ALICE, 8, 0, 80, NULL);
  assert_int_equal(answer(f, ALICE, 8, 0), 80);
  reopen(f);
  assert_int_equal(store_session_txn_number(f->s, ALICE), 8);
  assert_int_equal(answer(f, ALICE, 8, 1), -1);
}

static void test_idle_sessions_go(void **state) {
  struct fixture *f = *state;
  record(f, ALICE, 1, 0, 10, NULL);
  f->wall += 20 * 60 * 1000;
  record(f, BOB, 1, 0, 20, NULL);
  assert_int_equal(answer(f, ALICE, 1, 0), 10);
  f->wall += 11 * 60 * 1000;
  record(f, BOB, 2, 0, 21, NULL);
  assert_int_equal(store_session_txn_number(f->s, ALICE), -1);
  reopen(f);
  assert_int_equal(store_session_txn_number(f->s, ALICE), -1);
  assert_int_equal(answer(f, BOB, 2, 0), 21);
}

static void test_records_of_a_range(void **state) {
  struct fixture *f = *state;
  create(f, UUID_A, "db.a", 1, "{\"x\": 1}", "[]");
  for (uint8_t i = 0; i < 10; i++) {
    uint8_t lsid[16] = {100, i};
    struct key k = num(f, i);
    record(f, lsid, 1, 0, i, &k);
  }
  record(f, BOB, 1, 0, 99, NULL); // of no collection
  bson_t array;
  bson_init(&array);
  store_sessions_for_range(f->s, coll(f, UUID_A), num(f, 3), num(f, 6), &array);
  assert_int_equal(bson_count_keys(&array), 3);
  bson_iter_t it;
  assert_true(bson_iter_init(&it, &array) && bson_iter_next(&it));
  bson_t row, reply;
  iter_doc(&row, &it);
  uint8_t lsid[16];
  assert_true(doc_uuid(&row, "l", lsid));
  assert_int_equal(lsid[1], 3);
  assert_int_equal(doc_i64(&row, "t", 0), 1);
  assert_true(doc_doc(&row, "r", &reply));
  assert_int_equal(doc_i64(&reply, "n", -1), 3);
  store_sessions_for_range(f->s, coll(f, UUID_A), extreme(f, BSON_TYPE_MINKEY), extreme(f, BSON_TYPE_MAXKEY), &array);
  assert_int_equal(bson_count_keys(&array), 13);
  bson_destroy(&array);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_records, fixture_setup, fixture_teardown),
      cmocka_unit_test_setup_teardown(test_idle_sessions_go, fixture_setup, fixture_teardown),
      cmocka_unit_test_setup_teardown(test_records_of_a_range, fixture_setup, fixture_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
