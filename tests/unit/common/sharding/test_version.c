// Versions: which requests a shard accepts, which metadata is newer, and the forms on the wire.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

#include "common/bson/doc.h"
#include "common/sharding/version.h"

static struct chunk_version version(uint8_t epoch, uint64_t ts, uint32_t major, uint32_t minor) {
  struct chunk_version v = {.timestamp = ts, .major = major, .minor = minor};
  memset(v.epoch.bytes, epoch, sizeof v.epoch.bytes);
  return v;
}

static void compatible_is_same_generation_and_major(void **state) {
  struct chunk_version a = version(1, 10, 5, 0), minor = version(1, 10, 5, 9), major = version(1, 10, 6, 0);
  struct chunk_version other = version(2, 11, 5, 0), none = chunk_version_unsharded(),
                       ignored = chunk_version_ignored();
  assert_true(chunk_version_compatible(&a, &minor));
  assert_false(chunk_version_compatible(&a, &major));
  assert_false(chunk_version_compatible(&a, &other));
  assert_false(chunk_version_compatible(&none, &a));
  assert_false(chunk_version_compatible(&a, &none));
  assert_true(chunk_version_compatible(&none, &none));
  assert_true(chunk_version_compatible(&ignored, &a));
  assert_true(chunk_version_is_ignored(&ignored) && chunk_version_is_unsharded(&none));
  assert_false(chunk_version_is_unsharded(&a) || chunk_version_is_ignored(&a));
}

static void order_is_timestamp_major_minor(void **state) {
  struct chunk_version list[] = {version(9, 1, 9, 9), version(1, 2, 1, 0), version(1, 2, 1, 1), version(1, 2, 2, 0)};
  for (size_t i = 0; i < 4; i++) {
    for (size_t j = 0; j < 4; j++) {
      int c = chunk_version_compare(&list[i], &list[j]);
      assert_int_equal((c > 0) - (c < 0), (i > j) - (i < j));
    }
  }
}

static void wire_form_comes_back(void **state) {
  bson_t doc = BSON_INITIALIZER, in;
  struct chunk_version v = version(7, (uint64_t)1700000000 << 32 | 3, 12, 1), back, ignored = chunk_version_ignored();
  chunk_version_append(&doc, "a", &v);
  chunk_version_append(&doc, "b", &ignored);
  assert_true(doc_doc(&doc, "a", &in) && chunk_version_parse(&in, &back, NULL) && chunk_version_equal(&v, &back));
  assert_true(doc_doc(&doc, "b", &in) && chunk_version_parse(&in, &back, NULL) && chunk_version_is_ignored(&back));
  bson_destroy(&doc);
}

static void bad_forms_are_refused(void **state) {
  struct chunk_version v;
  struct error err = {0};
  bson_t doc = BSON_INITIALIZER;
  assert_false(chunk_version_parse(&doc, &v, &err));
  assert_int_equal(err.code, ERR_NoSuchKey);
  bson_append_int32(&doc, "e", -1, 5);
  assert_false(chunk_version_parse(&doc, &v, &err));
  assert_int_equal(err.code, ERR_BadValue);
  bson_destroy(&doc);
  struct database_version d;
  bson_init(&doc);
  assert_false(database_version_parse(&doc, &d, &err));
  assert_int_equal(err.code, ERR_BadValue);
  bson_destroy(&doc);
}

static void text_is_what_logs_show(void **state) {
  struct arena *a = arena_new();
  struct chunk_version v = version(0xab, (uint64_t)1700000000 << 32 | 3, 11, 1);
  assert_string_equal(chunk_version_text(a, &v),
                      "{ e: ObjectId('abababababababababababab'), t: Timestamp(1700000000, 3), "
                      "v: Timestamp(11, 1) }");
  arena_free(a);
}

static void stale_config_carries_both_versions(void **state) {
  struct arena *a = arena_new();
  struct chunk_version got = version(1, 5, 1, 0), want = version(1, 5, 2, 0), back;
  struct error err;
  const char *ns;
  bool has;
  assert_false(error_stale_config(&err, a, "shop.orders", &got, &want, "sh1",
                                  "placement version mismatch detected for shop.orders"));
  assert_int_equal(err.code, ERR_StaleConfig);
  assert_true(error_read_stale_config(&err, &ns, &back, &has));
  assert_string_equal(ns, "shop.orders");
  assert_true(has && chunk_version_equal(&back, &want));
  assert_string_equal(doc_str(err.extra, "shardId", ""), "sh1");
  error_stale_config(&err, a, "shop.orders", &got, NULL, "sh1", "not known");
  assert_true(error_read_stale_config(&err, &ns, &back, &has) && !has);
  struct database_version d = {.timestamp = 5, .last_mod = 1};
  assert_false(error_stale_db_version(&err, a, "shop", &d, NULL));
  assert_int_equal(err.code, ERR_StaleDbVersion);
  assert_false(error_read_stale_config(&err, &ns, &back, &has));
  arena_free(a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(compatible_is_same_generation_and_major),
      cmocka_unit_test(order_is_timestamp_major_minor),
      cmocka_unit_test(wire_form_comes_back),
      cmocka_unit_test(bad_forms_are_refused),
      cmocka_unit_test(text_is_what_logs_show),
      cmocka_unit_test(stale_config_carries_both_versions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
