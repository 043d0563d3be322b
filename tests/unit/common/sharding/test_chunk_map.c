// The routing table: random splits, merges and moves against a plain array; what is refused; blocks that are shared.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/bson/doc.h"
#include "common/sharding/chunk_map.h"

enum { KEYS = 100000, MODEL_MAX = 20000 };

// The model: chunk i is [bounds[i], bounds[i + 1]); bounds[0] = -1 stands for MinKey, KEYS for MaxKey.
struct model {
  int bounds[MODEL_MAX + 1];
  int shard[MODEL_MAX];
  uint32_t major[MODEL_MAX], minor[MODEL_MAX];
  size_t n;
  uint32_t top_major, top_minor;
};

static const char *const shards[] = {"sh1", "sh2", "sh3", "sh4", "sh5"};

static const bson_t *bound(struct arena *a, int n) {
  bson_t *d = arena_bson(a);
  if (n < 0) {
    bson_append_minkey(d, "k", 1);
  } else if (n >= KEYS) {
    bson_append_maxkey(d, "k", 1);
  } else {
    bson_append_int32(d, "k", 1, n);
  }
  return d;
}

static struct key encode(struct arena *a, const bson_t *d) {
  struct buf b = {0};
  key_append_doc(&b, d, NULL);
  struct key k = key_copy(a, &b);
  buf_free(&b);
  return k;
}

static struct chunk chunk_of(struct arena *a, const struct model *m, size_t i) {
  struct chunk c = {.min_doc = bound(a, m->bounds[i]),
                    .max_doc = bound(a, m->bounds[i + 1]),
                    .shard = shards[m->shard[i]],
                    .major = m->major[i],
                    .minor = m->minor[i]};
  c.min = encode(a, c.min_doc);
  c.max = encode(a, c.max_doc);
  return c;
}

static struct chunk_map *make(struct arena *a, const struct model *m, struct error *err) {
  bson_t pattern = BSON_INITIALIZER;
  bson_append_int32(&pattern, "k", 1, 1);
  struct chunk *list = calloc(m->n, sizeof *list);
  for (size_t i = 0; i < m->n; i++) list[i] = chunk_of(a, m, i);
  for (size_t i = 0; i + 1 < m->n; i++) { // in any order
    size_t j = i + (size_t)rand() % (m->n - i);
    struct chunk t = list[i];
    list[i] = list[j];
    list[j] = t;
  }
  struct chunk_version generation = {.timestamp = 77};
  struct chunk_map *map = chunk_map_make(&pattern, &generation, list, m->n, err);
  free(list);
  bson_destroy(&pattern);
  return map;
}

static void insert_bound(struct model *m, size_t i, int at) { // splits chunk i at `at`
  memmove(&m->bounds[i + 2], &m->bounds[i + 1], (m->n - i) * sizeof m->bounds[0]);
  memmove(&m->shard[i + 1], &m->shard[i], (m->n - i) * sizeof m->shard[0]);
  memmove(&m->major[i + 1], &m->major[i], (m->n - i) * sizeof m->major[0]);
  memmove(&m->minor[i + 1], &m->minor[i], (m->n - i) * sizeof m->minor[0]);
  m->bounds[i + 1] = at;
  m->n++;
}

static void remove_bound(struct model *m, size_t i) { // merges chunks i and i + 1
  memmove(&m->bounds[i + 1], &m->bounds[i + 2], (m->n - i - 1) * sizeof m->bounds[0]);
  memmove(&m->shard[i + 1], &m->shard[i + 2], (m->n - i - 2) * sizeof m->shard[0]);
  memmove(&m->major[i + 1], &m->major[i + 2], (m->n - i - 2) * sizeof m->major[0]);
  memmove(&m->minor[i + 1], &m->minor[i + 2], (m->n - i - 2) * sizeof m->minor[0]);
  m->n--;
}

static void raise_version(struct model *m, size_t i, bool moved) {
  if (moved) {
    m->top_major++;
    m->top_minor = 0;
  } else {
    m->top_minor++;
  }
  m->major[i] = m->top_major;
  m->minor[i] = m->top_minor;
}

// One change of the model; the chunks that it wrote go to changed[].
static size_t change(struct model *m, struct arena *a, struct chunk *changed) {
  size_t i = (size_t)rand() % m->n;
  int what = rand() % 4;
  if (what <= 1 && m->n < MODEL_MAX - 1 && m->bounds[i + 1] - m->bounds[i] > 1) {
    int low = m->bounds[i] + 1;
    insert_bound(m, i, low + rand() % (m->bounds[i + 1] - low));
    raise_version(m, i, false);
    raise_version(m, i + 1, false);
    changed[0] = chunk_of(a, m, i);
    changed[1] = chunk_of(a, m, i + 1);
    return 2;
  }
  if (what == 2 && i + 1 < m->n) {
    remove_bound(m, i);
    raise_version(m, i, false);
    changed[0] = chunk_of(a, m, i);
    return 1;
  }
  m->shard[i] = rand() % 5;
  raise_version(m, i, true);
  changed[0] = chunk_of(a, m, i);
  return 1;
}

struct walk {
  const struct model *m;
  struct arena *a;
  size_t i;
};

static bool compare_one(void *ctx, const struct chunk *c) {
  struct walk *w = ctx;
  const struct model *m = w->m;
  size_t i = w->i++;
  struct arena *a = w->a;
  assert_true(i < m->n);
  assert_string_equal(c->shard, shards[m->shard[i]]);
  assert_int_equal(c->major, m->major[i]);
  assert_int_equal(c->minor, m->minor[i]);
  assert_int_equal(key_compare(c->min, encode(a, bound(a, m->bounds[i]))), 0);
  assert_int_equal(key_compare(c->max, encode(a, bound(a, m->bounds[i + 1]))), 0);
  return true;
}

static size_t find_in_model(const struct model *m, int key) {
  size_t i = 0;
  while (i + 1 < m->n && m->bounds[i + 1] <= key) i++;
  return i;
}

static void compare(const struct model *m, const struct chunk_map *map) {
  struct arena *a = arena_new();
  struct walk w = {m, a, 0};
  chunk_map_all(map, compare_one, &w);
  assert_int_equal(w.i, m->n);
  assert_int_equal(chunk_map_count(map), m->n);
  struct chunk_version v = chunk_map_version(map);
  assert_int_equal(v.timestamp, 77);
  uint32_t top[5][2] = {0}, all[2] = {0};
  size_t counts[5] = {0};
  for (size_t i = 0; i < m->n; i++) {
    uint32_t *t = top[m->shard[i]];
    counts[m->shard[i]]++;
    if (m->major[i] > t[0] || (m->major[i] == t[0] && m->minor[i] > t[1])) t[0] = m->major[i], t[1] = m->minor[i];
    if (m->major[i] > all[0] || (m->major[i] == all[0] && m->minor[i] > all[1]))
      all[0] = m->major[i], all[1] = m->minor[i];
  }
  assert_true(v.major == all[0] && v.minor == all[1]);
  for (int s = 0; s < 5; s++) {
    struct chunk_version sv = chunk_map_shard_version(map, shards[s]);
    assert_true(sv.major == top[s][0] && sv.minor == top[s][1] && sv.timestamp == 77);
    assert_int_equal(chunk_map_shard_count(map, shards[s]), counts[s]);
  }
  for (int t = 0; t < 50; t++) {
    int key = rand() % KEYS;
    size_t i = find_in_model(m, key);
    struct chunk c;
    struct key k = encode(a, bound(a, key));
    chunk_map_find(map, k, &c);
    assert_string_equal(c.shard, shards[m->shard[i]]);
    assert_true(chunk_map_owned_by(map, k, shards[m->shard[i]]));
    const bson_t *min, *max;
    chunk_docs(map, a, &c, &min, &max);
    assert_true(bson_equal(min, bound(a, m->bounds[i])) && bson_equal(max, bound(a, m->bounds[i + 1])));
  }
  arena_free(a);
}

static void random_changes_match_the_model(void **state) {
  srand(4711);
  static struct model m;
  m = (struct model){.bounds = {-1, KEYS}, .major = {1}, .n = 1, .top_major = 1};
  struct arena *a = arena_new();
  struct chunk_map *map = make(a, &m, NULL);
  for (int round = 0; round < 6000; round++) {
    struct chunk changed[2];
    size_t n = change(&m, a, changed);
    struct error err = {0};
    struct chunk_map *next = chunk_map_update(map, changed, n, &err);
    if (!next) fail_msg("%s", err.message);
    chunk_map_unref(map);
    map = next;
    if (round % 500 == 0 || round < 20) compare(&m, map);
  }
  compare(&m, map);
  struct chunk_map *whole = make(a, &m, NULL);
  compare(&m, whole);
  chunk_map_unref(whole);
  chunk_map_unref(map);
  arena_free(a);
}

static void many_changes_at_once(void **state) {
  srand(99);
  static struct model m;
  m = (struct model){.bounds = {-1}, .n = 5000, .top_major = 1};
  for (int i = 0; i < 5000; i++)
    m.bounds[i] = i ? i * 20 : -1, m.shard[i] = i % 5, m.major[i] = 1, m.minor[i] = (uint32_t)i;
  m.bounds[5000] = KEYS;
  m.top_minor = 5000;
  struct arena *a = arena_new();
  struct chunk_map *map = make(a, &m, NULL);
  compare(&m, map);
  struct chunk changed[600];
  size_t n = 0;
  for (size_t i = 0; i < 5000; i += 10) {
    m.shard[i] = rand() % 5;
    raise_version(&m, i, true);
    changed[n++] = chunk_of(a, &m, i);
  }
  struct chunk_map *next = chunk_map_update(map, changed, n, NULL);
  compare(&m, next);
  chunk_map_unref(next);
  next = chunk_map_update(map, NULL, 0, NULL);
  assert_int_equal(chunk_map_count(next), 5000);
  chunk_map_unref(next);
  chunk_map_unref(map);
  arena_free(a);
}

static void gaps_and_overlaps_are_refused(void **state) {
  struct arena *a = arena_new();
  static struct model m;
  m = (struct model){.bounds = {-1, 10, 20, KEYS}, .n = 3, .major = {1, 1, 1}, .minor = {0, 1, 2}};
  struct chunk_map *map = make(a, &m, NULL);
  static const int bad[][4] = {{5, 10}, {10, 15}, {10, 30}, {0, 20}, {-1, 5}, {20, 25}, {10, 10}, {20, 10}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    static struct model c;
    c = (struct model){.bounds = {bad[i][0], bad[i][1]}, .n = 1, .major = {2}};
    struct chunk one = chunk_of(a, &c, 0);
    struct error err = {0};
    assert_null(chunk_map_update(map, &one, 1, &err));
    assert_int_equal(err.code, ERR_IncompatibleShardingMetadata);
  }
  struct error err = {0};
  struct chunk list[3] = {chunk_of(a, &m, 0), chunk_of(a, &m, 1), chunk_of(a, &m, 2)};
  struct chunk_version g = {0};
  const bson_t *pattern = chunk_map_key(map)->pattern;
  assert_null(chunk_map_make(pattern, &g, list, 2, &err));
  assert_null(chunk_map_make(pattern, &g, list + 1, 2, &err));
  assert_null(chunk_map_make(pattern, &g, NULL, 0, &err));
  list[1] = list[2];
  assert_null(chunk_map_make(pattern, &g, list, 3, &err));
  assert_int_equal(err.code, ERR_IncompatibleShardingMetadata);
  chunk_map_unref(map);
  arena_free(a);
}

static bool remember(void *ctx, const struct chunk *c) {
  strcat(ctx, c->shard + 2);
  return true;
}

static bool remember_name(void *ctx, const char *shard) {
  strcat(ctx, shard + 2);
  return true;
}

static void ranges_include_their_upper_end(void **state) {
  struct arena *a = arena_new();
  static struct model m;
  m = (struct model){
      .bounds = {-1, 10, 20, 30, KEYS}, .n = 4, .shard = {0, 1, 2, 3}, .major = {1, 1, 1, 1}, .minor = {0, 1, 2, 3}};
  struct chunk_map *map = make(a, &m, NULL);
  static const struct {
    int low, high;
    const char *want;
  } table[] = {{0, 9, "1"},        {0, 10, "12"},     {10, 19, "2"}, {10, 20, "23"},
               {-1, KEYS, "1234"}, {KEYS, KEYS, "4"}, {25, 29, "3"}};
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    char got[32] = "";
    chunk_map_each(map, encode(a, bound(a, table[i].low)), encode(a, bound(a, table[i].high)), remember, got);
    assert_string_equal(got, table[i].want);
  }
  char names[32] = "";
  chunk_map_shards(map, remember_name, names);
  assert_string_equal(names, "1234");
  // The only chunk of sh2 goes to sh1: sh2 has none and its version is 0|0.
  static struct model c;
  c = (struct model){.bounds = {10, 20}, .n = 1, .shard = {0}, .major = {2}};
  struct chunk moved = chunk_of(a, &c, 0);
  struct chunk_map *next = chunk_map_update(map, &moved, 1, NULL);
  names[0] = '\0';
  chunk_map_shards(next, remember_name, names);
  assert_string_equal(names, "134");
  struct chunk_version v = chunk_map_shard_version(next, "sh2");
  assert_true(v.major == 0 && v.minor == 0 && v.timestamp == 77);
  assert_int_equal(chunk_map_shard_version(map, "sh2").minor, 1); // the old one stays as it is
  assert_int_equal(chunk_map_shard_version(map, "nosuch").major, 0);
  chunk_map_unref(next);
  chunk_map_unref(map);
  arena_free(a);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_changes_match_the_model),
      cmocka_unit_test(many_changes_at_once),
      cmocka_unit_test(gaps_and_overlaps_are_refused),
      cmocka_unit_test(ranges_include_their_upper_end),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
