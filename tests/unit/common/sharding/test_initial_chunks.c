// First chunks: the hashed points and the fixed shard orders of reference/sharding.md 4.4, zones, the single chunk.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

#include "common/bson/compare.h"
#include "common/bson/doc.h"
#include "common/sharding/initial_chunks.h"

static void hashed_points(void **state) {
  static const int64_t want[7][5] = {
      {0},
      {0},
      {0},
      {-3074457345618258602, 3074457345618258602},
      {-4611686018427387902, 0, 4611686018427387902},
      {-5534023222112865483, -1844674407370955161, 1844674407370955161, 5534023222112865483},
      {-6148914691236517204, -3074457345618258602, 0, 3074457345618258602, 6148914691236517204}};
  for (size_t n = 1; n <= 6; n++) {
    int64_t points[6];
    hashed_split_points(n, points);
    for (size_t i = 0; i + 1 < n; i++) assert_true(points[i] == want[n][i]);
  }
}

static void shard_orders(void **state) {
  static const size_t want[9][8] = {{0},
                                    {1},
                                    {2, 1},
                                    {3, 1, 2},
                                    {3, 4, 2, 1},
                                    {4, 1, 5, 3, 2},
                                    {3, 4, 2, 5, 6, 1},
                                    {4, 1, 5, 7, 6, 2, 3},
                                    {3, 8, 2, 7, 6, 1, 5, 4}};
  for (size_t n = 1; n <= 8; n++) {
    size_t order[8];
    initial_shard_order(n, order);
    for (size_t i = 0; i < n; i++) assert_int_equal(order[i] + 1, want[n][i]);
  }
}

struct setup {
  struct arena *a;
  struct shard_key key;
  struct shard_type shards[3];
  struct initial_chunks_spec spec;
};

static bson_t *json(struct arena *a, const char *text) {
  bson_t *d = bson_new_from_json((const uint8_t *)text, -1, NULL);
  assert_non_null(d);
  arena_on_free(a, (void (*)(void *))bson_destroy, d);
  return d;
}

static void set_up(struct setup *s, const char *pattern, bool empty) {
  *s = (struct setup){.a = arena_new()};
  assert_true(shard_key_parse(s->a, json(s->a, pattern), &s->key, NULL));
  s->shards[0].name = "sh1";
  s->shards[1].name = "sh2";
  s->spec = (struct initial_chunks_spec){
      .key = &s->key, .empty = empty, .primary = "sh1", .shards = s->shards, .n_shards = 2};
}

static void check_covering(const struct setup *s, const struct initial_chunk *c, size_t n) {
  assert_int_equal(doc_compare_values(c[0].min, shard_key_global_min(&s->key, s->a)), 0);
  for (size_t i = 1; i < n; i++) assert_int_equal(doc_compare_values(c[i].min, c[i - 1].max), 0);
  assert_int_equal(doc_compare_values(c[n - 1].max, shard_key_global_max(&s->key, s->a)), 0);
}

static void range_key_has_one_chunk(void **state) {
  struct setup s;
  struct initial_chunk *c;
  size_t n;
  set_up(&s, "{\"customerId\": 1}", true);
  assert_true(initial_chunks(s.a, &s.spec, &c, &n, NULL));
  assert_int_equal(n, 1);
  assert_string_equal(c[0].shard, "sh1");
  check_covering(&s, c, n);
  arena_free(s.a);
}

static void hashed_key_has_one_chunk_per_shard(void **state) {
  struct setup s;
  struct initial_chunk *c;
  size_t n;
  set_up(&s, "{\"userId\": \"hashed\", \"b\": 1}", true);
  assert_true(initial_chunks(s.a, &s.spec, &c, &n, NULL));
  assert_int_equal(n, 2);
  assert_string_equal(c[0].shard, "sh2"); // the negative half, as the article shows
  assert_string_equal(c[1].shard, "sh1");
  bson_iter_t it;
  assert_true(doc_get(c[0].max, "userId", &it) && BSON_ITER_HOLDS_INT64(&it) && bson_iter_int64(&it) == 0);
  assert_true(doc_get(c[0].max, "b", &it) && bson_iter_type(&it) == BSON_TYPE_MINKEY);
  check_covering(&s, c, n);
  s.spec.empty = false;
  assert_true(initial_chunks(s.a, &s.spec, &c, &n, NULL));
  assert_int_equal(n, 1);
  s.spec.empty = true;
  s.shards[0].draining = true;
  assert_true(initial_chunks(s.a, &s.spec, &c, &n, NULL));
  assert_int_equal(n, 1);
  assert_string_equal(c[0].shard, "sh2");
  arena_free(s.a);
}

static void hashed_second_field_has_one_chunk(void **state) {
  struct setup s;
  struct initial_chunk *c;
  size_t n;
  set_up(&s, "{\"a\": 1, \"b\": \"hashed\"}", true);
  assert_true(initial_chunks(s.a, &s.spec, &c, &n, NULL));
  assert_int_equal(n, 1);
  arena_free(s.a);
}

static void zones_and_holes(void **state) {
  struct setup s;
  struct initial_chunk *c;
  size_t n;
  set_up(&s, "{\"a\": 1}", true);
  s.shards[0].tags = json(s.a, "[\"east\"]");
  s.shards[1].tags = json(s.a, "[\"west\"]");
  struct tag_type zones[] = {{.tag = "east", .min = json(s.a, "{\"a\": 0}"), .max = json(s.a, "{\"a\": 10}")},
                             {.tag = "west", .min = json(s.a, "{\"a\": 10}"), .max = json(s.a, "{\"a\": 20}")},
                             {.tag = "east", .min = json(s.a, "{\"a\": 30}"), .max = json(s.a, "{\"a\": 40}")}};
  s.spec.zones = zones;
  s.spec.n_zones = 3;
  assert_true(initial_chunks(s.a, &s.spec, &c, &n, NULL));
  assert_int_equal(n, 6);
  check_covering(&s, c, n);
  static const char *const want[] = {"sh2", "sh1", "sh2", "sh1", "sh1", "sh2"};
  for (size_t i = 0; i < 6; i++) assert_string_equal(c[i].shard, want[i]);
  zones[1].tag = "nowhere";
  struct error err = {0};
  assert_false(initial_chunks(s.a, &s.spec, &c, &n, &err));
  assert_int_equal(err.code, ERR_CannotCreateChunkDistribution);
  s.spec.presplit_hashed_zones = true;
  assert_false(initial_chunks(s.a, &s.spec, &c, &n, &err));
  assert_int_equal(err.code, ERR_InvalidOptions);
  arena_free(s.a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(hashed_points),
      cmocka_unit_test(shard_orders),
      cmocka_unit_test(range_key_has_one_chunk),
      cmocka_unit_test(hashed_key_has_one_chunk_per_shard),
      cmocka_unit_test(hashed_second_field_has_one_chunk),
      cmocka_unit_test(zones_and_holes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
