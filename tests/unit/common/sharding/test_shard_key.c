// Shard key patterns: what is refused, keys of documents and filters, bounds, indexes; and the documents of config.*.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

#include "common/bson/compare.h"
#include "common/bson/doc.h"
#include "common/sharding/catalog_types.h"
#include "common/sharding/shard_key.h"

static bson_t *json(struct arena *a, const char *text) {
  bson_error_t why;
  bson_t *d = bson_new_from_json((const uint8_t *)text, -1, &why);
  if (!d) fail_msg("%s: %s", text, why.message);
  arena_on_free(a, (void (*)(void *))bson_destroy, d);
  return d;
}

static void bad_patterns_are_refused(void **state) {
  static const char *const bad[] = {"{}",
                                    "{\"a\": -1}",
                                    "{\"a\": 2}",
                                    "{\"a\": \"text\"}",
                                    "{\"a\": true}",
                                    "{\"$a\": 1}",
                                    "{\"a.$b\": 1}",
                                    "{\"a..b\": 1}",
                                    "{\".a\": 1}",
                                    "{\"a.\": 1}",
                                    "{\"\": 1}",
                                    "{\"a\": \"hashed\", \"b\": \"hashed\"}",
                                    "{\"a\": 1, \"a\": 1}"};
  struct arena *a = arena_new();
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    struct shard_key k;
    struct error err = {0};
    if (shard_key_parse(a, json(a, bad[i]), &k, &err)) fail_msg("%s was accepted", bad[i]);
    assert_int_equal(err.code, ERR_BadValue);
  }
  struct shard_key k;
  assert_true(shard_key_parse(a, json(a, "{\"a\": 1, \"b.c\": \"hashed\", \"d\": 1.0}"), &k, NULL));
  assert_int_equal(k.n, 3);
  assert_int_equal(k.hashed, 1);
  arena_free(a);
}

static void keys_of_documents(void **state) {
  static const struct {
    const char *pattern, *doc, *key; // key NULL: refused
  } table[] = {
      {"{\"a\": 1}", "{\"x\": 1, \"a\": 5}", "{\"a\": 5}"},
      {"{\"a\": 1, \"b.c\": 1}", "{\"b\": {\"c\": \"x\"}}", "{\"a\": null, \"b.c\": \"x\"}"},
      {"{\"a\": \"hashed\"}", "{\"a\": 777}", "{\"a\": {\"$numberLong\": \"-8990214526626424009\"}}"},
      {"{\"a\": \"hashed\"}", "{}", "{\"a\": {\"$numberLong\": \"2338878944348059895\"}}"},
      {"{\"a\": 1}", "{\"a\": [1]}", NULL},
      {"{\"a.b\": 1}", "{\"a\": [{\"b\": 1}]}", NULL},
  };
  struct arena *a = arena_new();
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    struct shard_key k;
    struct error err = {0};
    const bson_t *key;
    assert_true(shard_key_parse(a, json(a, table[i].pattern), &k, NULL));
    bool ok = shard_key_of_document(&k, a, json(a, table[i].doc), &key, &err);
    assert_int_equal(ok, table[i].key != NULL);
    if (ok && doc_compare(key, json(a, table[i].key)) != 0) fail_msg("%s: %s", table[i].doc, doc_text(a, key));
    if (!ok) assert_int_equal(err.code, ERR_ShardKeyNotFound);
  }
  arena_free(a);
}

static void keys_of_filters(void **state) {
  static const struct {
    const char *pattern, *filter, *key; // key NULL: not fixed
  } table[] = {
      {"{\"a\": 1}", "{\"a\": 5, \"x\": 1}", "{\"a\": 5}"},
      {"{\"a\": 1}", "{\"a\": {\"$eq\": 5}}", "{\"a\": 5}"},
      {"{\"a\": 1}", "{\"$and\": [{\"b\": 2}, {\"a\": 5}]}", "{\"a\": 5}"},
      {"{\"a\": 1}", "{\"a\": {\"$in\": [5, 6]}}", NULL},
      {"{\"a\": 1}", "{\"a\": {\"$gt\": 5}}", NULL},
      {"{\"a\": 1}", "{\"$or\": [{\"a\": 5}, {\"a\": 6}]}", NULL},
      {"{\"a\": 1}", "{\"a\": [5]}", NULL},
      {"{\"a\": 1, \"b\": 1}", "{\"a\": 5}", NULL},
      {"{\"a\": 1, \"b\": 1}", "{\"b\": 1, \"a\": 5}", "{\"a\": 5, \"b\": 1}"},
      {"{\"a.b\": 1}", "{\"a\": {\"b\": 5}}", "{\"a.b\": 5}"},
      {"{\"a.b\": 1}", "{\"a.b\": 5}", "{\"a.b\": 5}"},
      {"{\"a\": \"hashed\"}", "{\"a\": 777}", "{\"a\": {\"$numberLong\": \"-8990214526626424009\"}}"},
  };
  struct arena *a = arena_new();
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    struct shard_key k;
    struct error err = {0};
    const bson_t *key;
    assert_true(shard_key_parse(a, json(a, table[i].pattern), &k, NULL));
    struct match *m = match_parse(a, json(a, table[i].filter), &(struct match_options){0}, &err);
    if (!m) fail_msg("%s: %s", table[i].filter, err.message);
    bool fixed = shard_key_of_filter(&k, a, m, &key);
    if (fixed != (table[i].key != NULL)) fail_msg("%s", table[i].filter);
    if (fixed && doc_compare(key, json(a, table[i].key)) != 0) fail_msg("%s: %s", table[i].filter, doc_text(a, key));
  }
  arena_free(a);
}

static void bounds(void **state) {
  struct arena *a = arena_new();
  struct shard_key k, h;
  assert_true(shard_key_parse(a, json(a, "{\"a\": 1, \"b\": 1}"), &k, NULL));
  assert_true(shard_key_parse(a, json(a, "{\"a\": \"hashed\"}"), &h, NULL));
  assert_true(shard_key_is_bound(&k, json(a, "{\"a\": 1, \"b\": {\"$minKey\": 1}}")));
  assert_false(shard_key_is_bound(&k, json(a, "{\"a\": 1}")));
  assert_false(shard_key_is_bound(&k, json(a, "{\"b\": 1, \"a\": 1}")));
  assert_false(shard_key_is_bound(&k, json(a, "{\"a\": 1, \"b\": [1]}")));
  assert_false(shard_key_is_bound(&k, json(a, "{\"a\": 1, \"b\": 1, \"c\": 1}")));
  assert_true(shard_key_is_bound(&h, json(a, "{\"a\": {\"$numberLong\": \"5\"}}")));
  assert_false(shard_key_is_bound(&h, json(a, "{\"a\": \"x\"}")));
  const bson_t *e = shard_key_extend(&k, a, json(a, "{\"a\": 1}"), true);
  assert_int_equal(doc_compare(e, json(a, "{\"a\": 1, \"b\": {\"$maxKey\": 1}}")), 0);
  struct key low = bound_key(a, shard_key_global_min(&k, a)), mid = bound_key(a, e);
  struct key high = bound_key(a, shard_key_global_max(&k, a));
  assert_true(key_compare(low, mid) < 0 && key_compare(mid, high) < 0);
  arena_free(a);
}

static void indexes_and_equal_patterns(void **state) {
  struct arena *a = arena_new();
  struct shard_key k, h;
  assert_true(shard_key_parse(a, json(a, "{\"a\": 1}"), &k, NULL));
  assert_true(shard_key_parse(a, json(a, "{\"a\": \"hashed\"}"), &h, NULL));
  assert_true(shard_key_prefix_of(&k, json(a, "{\"a\": 1, \"b\": -1}")));
  assert_false(shard_key_prefix_of(&k, json(a, "{\"b\": 1, \"a\": 1}")));
  assert_false(shard_key_prefix_of(&k, json(a, "{\"a\": \"hashed\"}")));
  assert_false(shard_key_prefix_of(&h, json(a, "{\"a\": 1}")));
  assert_true(shard_key_prefix_of(&h, json(a, "{\"a\": \"hashed\"}")));
  assert_true(shard_key_equal_patterns(json(a, "{\"a\": 1}"), json(a, "{\"a\": 1.0}")));
  assert_false(shard_key_equal_patterns(json(a, "{\"a\": 1}"), json(a, "{\"a\": \"hashed\"}")));
  assert_false(shard_key_equal_patterns(json(a, "{\"a\": 1}"), json(a, "{\"a\": 1, \"b\": 1}")));
  arena_free(a);
}

static const char chunk_json[] = "{\"_id\": {\"$oid\": \"507f1f77bcf86cd799439011\"}, \"uuid\": {\"$binary\": "
                                 "{\"base64\": \"AAECAwQFBgcICQoLDA0ODw==\", "
                                 "\"subType\": \"04\"}}, \"min\": {\"a\": 1}, \"max\": {\"a\": 5}, \"shard\": \"sh1\", "
                                 "\"lastmod\": {\"$timestamp\": {\"t\": 3, "
                                 "\"i\": 1}}, \"jumbo\": false, \"onCurrentShardSince\": {\"$timestamp\": {\"t\": 9, "
                                 "\"i\": 2}}, \"history\": [{\"validAfter\": "
                                 "{\"$timestamp\": {\"t\": 9, \"i\": 2}}, \"shard\": \"sh1\"}]}";
static const char collection_json[] =
    "{\"_id\": \"shop.orders\", \"lastmodEpoch\": {\"$oid\": \"507f1f77bcf86cd799439011\"}, \"lastmod\": {\"$date\": "
    "{\"$numberLong\": \"1700000000000\"}}, \"timestamp\": {\"$timestamp\": {\"t\": 9, \"i\": 2}}, \"uuid\": "
    "{\"$binary\": "
    "{\"base64\": \"AAECAwQFBgcICQoLDA0ODw==\", \"subType\": \"04\"}}, \"key\": {\"customerId\": 1}, \"unique\": "
    "false, "
    "\"maxChunkSizeBytes\": {\"$numberLong\": \"1048576\"}, \"noBalance\": true, \"unsplittable\": true}";

static void catalog_documents_come_back_byte_for_byte(void **state) {
  struct arena *a = arena_new();
  struct error err = {0};
  struct chunk_type c;
  bson_t *doc = json(a, chunk_json);
  if (!chunk_type_parse(a, doc, &c, &err)) fail_msg("%s", err.message);
  assert_true(doc_equal_bytes(chunk_type_doc(a, &c), doc));
  struct collection_type t;
  doc = json(a, collection_json);
  if (!collection_type_parse(a, doc, &t, &err)) fail_msg("%s", err.message);
  assert_true(doc_equal_bytes(collection_type_doc(a, &t), doc));
  struct shard_type s = {.name = "sh1",
                         .host = "sh1/h:1",
                         .topology_time = 5,
                         .draining = true,
                         .tags = json(a, "[\"east\"]")},
                    back;
  assert_true(shard_type_parse(a, shard_type_doc(a, &s), &back, NULL));
  assert_true(back.draining && back.topology_time == 5 && strcmp(back.host, "sh1/h:1") == 0 &&
              bson_equal(back.tags, s.tags));
  bson_t *broken = json(a, "{\"_id\": 5}");
  assert_false(chunk_type_parse(a, broken, &c, &err) || shard_type_parse(a, broken, &back, &err));
  assert_int_equal(err.code, ERR_TypeMismatch);
  assert_false(collection_type_parse(a, json(a, "{}"), &t, &err));
  assert_int_equal(err.code, ERR_NoSuchKey);
  arena_free(a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bad_patterns_are_refused),
      cmocka_unit_test(keys_of_documents),
      cmocka_unit_test(keys_of_filters),
      cmocka_unit_test(bounds),
      cmocka_unit_test(indexes_and_equal_patterns),
      cmocka_unit_test(catalog_documents_come_back_byte_for_byte),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
