// Which shards a filter concerns: the oracle table of reference/sharding.md 6.1.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

#include "common/bson/doc.h"
#include "common/sharding/targeting.h"

static bson_t *json(struct arena *a, const char *text) {
  bson_error_t why;
  bson_t *d = bson_new_from_json((const uint8_t *)text, -1, &why);
  if (!d) fail_msg("%s: %s", text, why.message);
  arena_on_free(a, (void (*)(void *))bson_destroy, d);
  return d;
}

// Chunk i, between the i-th and the next of the points, is on shard "i".
static struct chunk_map *make(struct arena *a, const char *pattern, const char *const *points, size_t n) {
  static const char *const names[] = {"0", "1", "2", "3", "4"};
  struct shard_key k;
  struct chunk chunks[5];
  assert_true(shard_key_parse(a, json(a, pattern), &k, NULL));
  const bson_t *min = shard_key_global_min(&k, a);
  for (size_t i = 0; i <= n; i++) {
    const bson_t *max = i < n ? json(a, points[i]) : shard_key_global_max(&k, a);
    chunks[i] = (struct chunk){.min_doc = min,
                               .max_doc = max,
                               .shard = names[i],
                               .major = 1,
                               .minor = (uint32_t)i,
                               .min = bound_key(a, min),
                               .max = bound_key(a, max)};
    min = max;
  }
  struct chunk_version g = {.timestamp = 1};
  struct error err = {0};
  struct chunk_map *m = chunk_map_make(k.pattern, &g, chunks, n + 1, &err);
  if (!m) fail_msg("%s", err.message);
  return m;
}

static void check(struct arena *a, const struct chunk_map *m, const char *filter, bool simple, const char *want) {
  struct error err = {0};
  struct match *f = match_parse(a, json(a, filter), &(struct match_options){0}, &err);
  if (!f) fail_msg("%s: %s", filter, err.message);
  struct targets t;
  if (!target_filter(a, m, f, simple, &t, &err)) fail_msg("%s: %s", filter, err.message);
  char got[32] = "";
  for (size_t i = 0; i < t.n; i++) strcat(got, t.shards[i]);
  if (strcmp(got, want) != 0) fail_msg("%s: shards %s, not %s", filter, got, want);
}

static void oracle_of_one_field(void **state) {
  static const char *const points[] = {"{\"a\": \"x\"}", "{\"a\": \"y\"}", "{\"a\": \"z\"}"};
  static const char *const table[][2] = {
      {"{}", "0123"},
      {"{\"b\": 1}", "0123"},
      {"{\"a\": \"y\"}", "2"},
      {"{\"a\": {\"$in\": [\"u\", \"y\"]}}", "02"},
      {"{\"$or\": [{\"a\": \"u\"}, {\"a\": \"y\"}]}", "02"},
      {"{\"a\": {\"$gt\": \"x\"}}", "123"},
      {"{\"a\": {\"$gte\": \"x\"}}", "123"},
      {"{\"a\": {\"$lt\": \"y\"}}", "012"},
      {"{\"a\": {\"$lte\": \"y\"}}", "012"},
      {"{\"$or\": [{\"a\": \"u\"}, {\"a\": {\"$gte\": \"y\"}}]}", "023"},
      {"{\"$or\": [{\"a\": \"u\"}, {\"a\": {\"$gte\": \"zz\"}}, {}]}", "0123"},
      {"{\"a\": {\"$gt\": \"x\", \"$lt\": \"x\"}}", "0"},
      {"{\"$or\": [{\"a\": \"x\"}, {\"a\": {\"$gt\": \"u\", \"$lt\": \"u\"}}, {\"a\": {\"$gte\": \"y\"}}]}", "123"},
  };
  struct arena *a = arena_new();
  struct chunk_map *m = make(a, "{\"a\": 1}", points, 3);
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) check(a, m, table[i][0], true, table[i][1]);
  check(a, m, "{\"a\": \"y\"}", false, "0123");
  check(a, m, "{\"a\": 5}", false, "0"); // numbers do not depend on a collation
  chunk_map_unref(m);
  arena_free(a);
}

static void oracle_of_two_fields(void **state) {
  static const char *const points[] = {"{\"a\": 5, \"b\": 10}", "{\"a\": 5, \"b\": 20}"};
  struct arena *a = arena_new();
  struct chunk_map *m = make(a, "{\"a\": 1, \"b\": 1}", points, 2);
  check(a, m, "{\"a\": {\"$in\": [0, 5, 10]}, \"b\": {\"$in\": [0, 5, 25]}}", true, "012");
  check(a, m, "{\"a\": 5}", true, "012");
  check(a, m, "{\"a\": 4}", true, "0");
  check(a, m, "{\"a\": 6}", true, "2");
  check(a, m, "{\"a\": 5, \"b\": 15}", true, "1");
  check(a, m, "{\"a\": 5, \"b\": {\"$gte\": 12, \"$lt\": 15}}", true, "1");
  check(a, m, "{\"a\": 5, \"b\": {\"$in\": [1, 30]}}", true, "02");
  check(a, m, "{\"b\": 15}", true, "012");
  chunk_map_unref(m);
  arena_free(a);
}

static void hashed_keys(void **state) {
  // The hash of 777 is negative, the hash of 2 is not (reference/sharding.md 9).
  static const char *const points[] = {"{\"userId\": {\"$numberLong\": \"0\"}}"};
  struct arena *a = arena_new();
  struct chunk_map *m = make(a, "{\"userId\": \"hashed\"}", points, 1);
  check(a, m, "{\"userId\": 777}", true, "0");
  check(a, m, "{\"userId\": 2}", true, "1");
  check(a, m, "{\"userId\": {\"$in\": [777, 470]}}", true, "0");
  check(a, m, "{\"userId\": {\"$in\": [777, 2]}}", true, "01");
  check(a, m, "{\"userId\": {\"$gte\": 100, \"$lt\": 110}}", true, "01");
  chunk_map_unref(m);
  arena_free(a);
}

static void exact_key_is_told(void **state) {
  static const char *const points[] = {"{\"a\": 5}"};
  struct arena *a = arena_new();
  struct chunk_map *m = make(a, "{\"a\": 1}", points, 1);
  struct targets t;
  struct match *f = match_parse(a, json(a, "{\"a\": 5, \"x\": 1}"), &(struct match_options){0}, NULL);
  assert_true(target_filter(a, m, f, true, &t, NULL) && t.exact_key && t.n == 1);
  f = match_parse(a, json(a, "{\"a\": {\"$gt\": 7}}"), &(struct match_options){0}, NULL);
  assert_true(target_filter(a, m, f, true, &t, NULL) && !t.exact_key && t.n == 1);
  chunk_map_unref(m);
  arena_free(a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(oracle_of_one_field),
      cmocka_unit_test(oracle_of_two_fields),
      cmocka_unit_test(hashed_keys),
      cmocka_unit_test(exact_key_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
