// What may be asked of an index, how it is stored, and what a duplicate key is called.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

#include "common/bson/doc.h"
#include "common/bson/index_keys.h"
#include "common/node/ddl.h"
#include "common/node/write_batch.h"

static const bson_t *json(struct arena *a, const char *text) {
  bson_error_t e;
  bson_t *made = bson_new_from_json((const uint8_t *)text, -1, &e);
  if (!made) fail_msg("%s: %s", text, e.message);
  const bson_t *copy = doc_copy(a, made);
  bson_destroy(made);
  return copy;
}

static void stored_form(void **state) {
  static const char *const cases[][2] = {
      {"{\"key\": {\"a\": 1}, \"name\": \"a_1\", \"background\": true}",
       "{\"v\": 2, \"key\": {\"a\": 1}, \"name\": \"a_1\"}"},
      {"{\"key\": {\"a\": 1, \"b.c\": -1}}", "{\"v\": 2, \"key\": {\"a\": 1, \"b.c\": -1}, \"name\": \"a_1_b.c_-1\"}"},
      {"{\"key\": {\"u\": \"hashed\"}}", "{\"v\": 2, \"key\": {\"u\": \"hashed\"}, \"name\": \"u_hashed\"}"},
      {"{\"v\": 2, \"key\": {\"a\": 1}, \"name\": \"x\", \"unique\": true, \"sparse\": false}",
       "{\"v\": 2, \"key\": {\"a\": 1}, \"name\": \"x\", \"unique\": true}"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct arena *a = arena_new();
    const bson_t *out;
    struct error err = {0};
    if (!index_spec_normalise(a, json(a, cases[i][0]), &out, &err)) fail_msg("%s", err.message);
    assert_string_equal(doc_text(a, out), doc_text(a, json(a, cases[i][1])));
    arena_free(a);
  }
}

static void refused(void **state) {
  static const struct {
    const char *spec, *says;
    int32_t code;
  } cases[] = {
      {"{\"key\": {\"a\": \"text\"}}", "text", ERR_CannotCreateIndex},
      {"{\"key\": {\"a\": \"2dsphere\"}}", "2dsphere", ERR_CannotCreateIndex},
      {"{\"key\": {\"$**\": 1}}", "wildcard", ERR_CannotCreateIndex},
      {"{\"key\": {\"a\": 0}}", "a", ERR_CannotCreateIndex},
      {"{\"key\": {}}", "empty", ERR_CannotCreateIndex},
      {"{\"key\": {\"a\": 1}, \"expireAfterSeconds\": 10}", "expireAfterSeconds", ERR_CannotCreateIndex},
      {"{\"key\": {\"a\": 1}, \"nonsense\": 1}", "nonsense", 197},
      {"{\"key\": {\"a\": \"hashed\"}, \"unique\": true}", "hashed", 16764},
      {"{\"key\": {\"a\": 1}, \"sparse\": true, \"partialFilterExpression\": {\"b\": 1}}", "sparse",
       ERR_CannotCreateIndex},
      {"{\"key\": {\"a\": 1}, \"collation\": {\"locale\": \"de\"}}", "de", ERR_CommandNotSupported},
      {"{\"name\": \"x\"}", "key", ERR_FailedToParse},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct arena *a = arena_new();
    const bson_t *out;
    struct error err = {0};
    assert_false(index_spec_normalise(a, json(a, cases[i].spec), &out, &err));
    assert_int_equal(err.code, cases[i].code);
    if (!strstr(err.message, cases[i].says)) fail_msg("%s does not name %s", err.message, cases[i].says);
    arena_free(a);
  }
}

static void duplicate_names_the_key(const char *pattern, const char *doc, size_t which, const char *value) {
  struct arena *a = arena_new();
  struct index_keys keys;
  struct error err = {0};
  assert_true(index_keys_of(a, json(a, pattern), json(a, doc), &keys, &err));
  duplicate_error(&err, a, "d.c", "i", json(a, pattern), json(a, doc), keys.keys[which]);
  assert_int_equal(err.code, ERR_DuplicateKey);
  assert_string_equal(err.message,
                      arena_printf(a, "E11000 duplicate key error collection: d.c index: i dup key: %s", value));
  assert_non_null(err.extra);
  bson_iter_t it;
  assert_true(bson_iter_init_find(&it, err.extra, "keyPattern"));
  assert_true(bson_iter_init_find(&it, err.extra, "keyValue"));
  arena_free(a);
}

static void duplicates(void **state) {
  duplicate_names_the_key("{\"a\": 1}", "{\"_id\": 1, \"a\": 7}", 0, "{ a: 7 }");
  duplicate_names_the_key("{\"a\": 1}", "{\"_id\": 1}", 0, "{ a: null }");
  duplicate_names_the_key("{\"a\": 1, \"b\": -1}", "{\"a\": 7, \"b\": \"x\"}", 0, "{ a: 7, b: \"x\" }");
  duplicate_names_the_key("{\"a\": 1}", "{\"a\": [3, 5]}", 0, "{ a: 3 }");
  duplicate_names_the_key("{\"a\": 1}", "{\"a\": [3, 5]}", 1, "{ a: 5 }");
}

static void documents_for_insert(void **state) {
  static const struct {
    const char *doc, *says;
  } bad[] = {{"{\"_id\": [1]}", "array"}, {"{\"_id\": {\"$a\": 1}}", "$a"}};
  struct node *n = calloc(1, sizeof *n);
  struct arena *a = arena_new();
  const bson_t *out;
  struct error err = {0};
  assert_true(document_for_insert(n, a, json(a, "{\"x\": 1, \"_id\": 5}"), &out, &err));
  assert_string_equal(doc_text(a, out), "{ _id: 5, x: 1 }");
  assert_true(document_for_insert(n, a, json(a, "{\"x\": 1}"), &out, &err));
  bson_iter_t it;
  assert_true(bson_iter_init(&it, out) && bson_iter_next(&it) && BSON_ITER_HOLDS_OID(&it));
  assert_true(
      document_for_insert(n, a, json(a, "{\"_id\": 1, \"t\": {\"$timestamp\": {\"t\": 0, \"i\": 0}}}"), &out, &err));
  uint64_t ts;
  assert_true(doc_timestamp(out, "t", &ts) && ts != 0);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_false(document_for_insert(n, a, json(a, bad[i].doc), &out, &err));
    assert_non_null(strstr(err.message, bad[i].says));
  }
  bson_t *twice = arena_bson(a);
  BSON_APPEND_INT32(twice, "_id", 1);
  BSON_APPEND_INT32(twice, "_id", 2);
  assert_false(document_for_insert(n, a, twice, &out, &err));
  bson_t *regex = arena_bson(a);
  BSON_APPEND_REGEX(regex, "_id", "x", "");
  assert_false(document_for_insert(n, a, regex, &out, &err));
  assert_non_null(strstr(err.message, "regex"));
  arena_free(a);
  free(n);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(stored_form),
      cmocka_unit_test(refused),
      cmocka_unit_test(duplicates),
      cmocka_unit_test(documents_for_insert),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
