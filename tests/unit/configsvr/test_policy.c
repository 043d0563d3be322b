// The balancer's policy: what moves, from where to where, and why.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

#include "common/bson/doc.h"
#include "configsvr/balancer_policy.h"

enum { MIB = 1024 * 1024, KEYS = 1000 };

struct world {
  struct arena *a;
  struct shard_key key;
  struct chunk_map *map;
  struct policy_shard shards[5];
  struct policy_zone zones[4];
  struct policy_input in;
  struct policy_move moves[POLICY_MOVES_MAX];
  struct chunk crossing;
  size_t n;
};

static const bson_t *bound(struct world *w, int n) {
  bson_t *d = arena_bson(w->a);
  if (n < 0) {
    bson_append_minkey(d, "k", 1);
  } else if (n >= KEYS) {
    bson_append_maxkey(d, "k", 1);
  } else {
    bson_append_int32(d, "k", 1, n);
  }
  return d;
}

static const char *const names[] = {"sh0", "sh1", "sh2", "sh3", "sh4"};

// placement: one digit a chunk, the shard; an 'x' after it makes the chunk jumbo. Chunk i is [10 i, 10 (i + 1)).
static struct world make(size_t n_shards, const char *placement) {
  struct world w = {.a = arena_new()};
  struct chunk chunks[128];
  size_t n = 0, count = 0;
  for (const char *p = placement; *p; p++) count += *p != 'x';
  bson_t *pattern = arena_bson(w.a);
  bson_append_int32(pattern, "k", 1, 1);
  assert_true(shard_key_parse(w.a, pattern, &w.key, NULL));
  for (const char *p = placement; *p; p++) {
    if (*p == 'x') {
      chunks[n - 1].jumbo = true;
      continue;
    }
    struct chunk *c = &chunks[n];
    *c = (struct chunk){.shard = names[*p - '0'], .major = 1, .minor = (uint32_t)n};
    c->min_doc = bound(&w, n == 0 ? -1 : (int)n * 10);
    c->max_doc = bound(&w, n + 1 == count ? KEYS : (int)(n + 1) * 10);
    c->min = bound_key(w.a, c->min_doc);
    c->max = bound_key(w.a, c->max_doc);
    n++;
  }
  struct chunk_version g = {.timestamp = 1};
  w.map = chunk_map_make(pattern, &g, chunks, n, NULL);
  assert_non_null(w.map);
  for (size_t i = 0; i < n_shards; i++) w.shards[i] = (struct policy_shard){.name = names[i], .available = true};
  w.in = (struct policy_input){.chunks = w.map, .n_shards = n_shards, .chunk_bytes = MIB};
  return w;
}

static void zone(struct world *w, const char *name, int min, int max) {
  w->zones[w->in.n_zones++] =
      (struct policy_zone){bound_key(w->a, bound(w, min)), bound_key(w->a, bound(w, max)), name};
}

static const bson_t *tags(struct world *w, const char *name) {
  bson_t *d = arena_bson(w->a);
  bson_append_utf8(d, "0", 1, name, -1);
  return d;
}

static void run(struct world *w) {
  w->in.shards = w->shards;
  w->in.zones = w->zones;
  w->n = policy_balance(&w->in, w->moves, &w->crossing);
}

static int chunk_number(struct world *w, const struct chunk *c) {
  const bson_t *min, *max;
  chunk_docs(w->map, w->a, c, &min, &max);
  return (int)doc_i64(min, "k", 0) / 10;
}

static void expect(struct world *w, size_t i, const char *from, const char *to, int chunk, enum move_reason reason) {
  assert_true(i < w->n);
  assert_string_equal(w->moves[i].from, from);
  assert_string_equal(w->moves[i].to, to);
  assert_int_equal(chunk_number(w, &w->moves[i].chunk), chunk);
  assert_int_equal(w->moves[i].reason, reason);
}

static void end(struct world *w) {
  chunk_map_unref(w->map);
  arena_free(w->a);
}

// The article: 80000 documents, 22.2 MB, 1 MB chunks, ten moves of 1050063 bytes or a little less.
static void ten_moves_and_then_balanced(void **state) {
  int64_t from = 22200000, to = 0;
  int moves = 0;
  for (;; moves++) {
    struct world w = make(2, moves ? "10" : "0");
    w.shards[0].size = from;
    w.shards[1].size = to;
    run(&w);
    size_t n = w.n;
    if (n) {
      expect(&w, 0, "sh0", "sh1", moves ? 1 : 0, REASON_IMBALANCE);
      assert_false(w.moves[0].whole);
      assert_int_equal(w.moves[0].force_jumbo, 0);
    }
    end(&w);
    if (n == 0) break;
    from -= 1048168; // 3784 documents of 277 bytes: what floor(size / records) makes of each move
    to += 1048168;
  }
  assert_int_equal(moves, 10);
}

static void threshold_is_three_chunks(void **state) {
  struct world w = make(2, "01");
  w.shards[0].size = 3 * MIB - 1;
  run(&w);
  assert_int_equal(w.n, 0);
  w.shards[0].size = 3 * MIB;
  run(&w);
  assert_int_equal(w.n, 1);
  end(&w);
}

static void a_shard_takes_part_in_one_move(void **state) {
  struct world w = make(4, "0123");
  w.shards[0].size = 100 * MIB;
  w.shards[1].size = 90 * MIB;
  run(&w);
  assert_int_equal(w.n, 2);
  expect(&w, 0, "sh0", "sh2", 0, REASON_IMBALANCE);
  expect(&w, 1, "sh1", "sh3", 1, REASON_IMBALANCE);
  for (size_t i = 0; i < 4; i++) assert_false(w.shards[i].available);
  run(&w);
  assert_int_equal(w.n, 0);
  end(&w);
}

static void neither_side_of_the_ideal_alone(void **state) {
  // Three shards, ideal 5 MB: sh1 is below it, but so is sh0; only sh2 gives.
  struct world w = make(3, "012");
  w.shards[0].size = 4 * MIB;
  w.shards[2].size = 11 * MIB;
  run(&w);
  assert_int_equal(w.n, 1);
  expect(&w, 0, "sh2", "sh1", 2, REASON_IMBALANCE);
  end(&w);
}

static void jumbo_chunks_stay(void **state) {
  struct world w = make(2, "0x00x1");
  w.shards[0].size = 100 * MIB;
  run(&w);
  expect(&w, 0, "sh0", "sh1", 1, REASON_IMBALANCE);
  end(&w);
  w = make(2, "0x0x1");
  w.shards[0].size = 100 * MIB;
  run(&w);
  assert_int_equal(w.n, 0);
  end(&w);
}

static void draining_comes_first(void **state) {
  struct world w = make(3, "0x0012");
  w.shards[0].draining = true;
  w.shards[1].size = 2 * MIB;
  w.shards[2].size = MIB;
  run(&w);
  assert_int_equal(w.n, 1);
  expect(&w, 0, "sh0", "sh2", 1, REASON_DRAINING);
  assert_int_equal(w.moves[0].force_jumbo, 2);
  end(&w);
  // Nothing moves to a draining shard, however empty it is.
  w = make(2, "0001");
  w.shards[1].draining = true;
  w.shards[0].size = 100 * MIB;
  run(&w);
  assert_int_equal(w.n, 1);
  expect(&w, 0, "sh1", "sh0", 3, REASON_DRAINING);
  end(&w);
}

static void chunks_go_to_their_zone(void **state) {
  struct world w = make(3, "0000");
  w.shards[1].tags = tags(&w, "east");
  w.shards[2].tags = tags(&w, "east");
  w.shards[1].size = MIB;
  zone(&w, "east", 10, 20);
  run(&w);
  assert_int_equal(w.n, 1);
  expect(&w, 0, "sh0", "sh2", 1, REASON_ZONE);
  end(&w);
}

static void jumbo_chunks_leave_their_zone_only_when_asked(void **state) {
  struct world w = make(2, "00x0");
  w.shards[1].tags = tags(&w, "east");
  zone(&w, "east", 10, 20);
  run(&w);
  assert_int_equal(w.n, 0);
  w.in.attempt_jumbo = true;
  run(&w);
  expect(&w, 0, "sh0", "sh1", 1, REASON_ZONE);
  end(&w);
}

static void zoned_chunks_balance_within_their_zone(void **state) {
  struct world w = make(3, "0002");
  w.shards[0].tags = tags(&w, "east");
  w.shards[1].tags = tags(&w, "east");
  w.shards[0].size = 100 * MIB;
  zone(&w, "east", 10, 20);
  run(&w);
  // In the zone only sh1 can receive; the first chunk of sh0 inside the zone goes.
  assert_int_equal(w.n, 1);
  expect(&w, 0, "sh0", "sh1", 1, REASON_IMBALANCE);
  end(&w);
}

static void a_zone_bound_inside_a_chunk_comes_before_all(void **state) {
  struct world w = make(2, "0001");
  w.shards[0].size = 100 * MIB;
  w.shards[1].tags = tags(&w, "east");
  zone(&w, "east", 15, 25);
  zone(&w, "east", 25, 40);
  run(&w);
  assert_int_equal(w.n, 0);
  assert_int_equal(chunk_number(&w, &w.crossing), 1);
  const struct key *bounds[8];
  assert_int_equal(policy_zone_bounds_within(&w.in, &w.crossing, bounds, 8), 1);
  assert_ptr_equal(bounds[0], &w.zones[0].min);
  struct chunk c;
  chunk_map_find(w.map, bound_key(w.a, bound(&w, 25)), &c);
  assert_int_equal(policy_zone_bounds_within(&w.in, &c, bounds, 8), 1); // 25 once, though two zones meet there
  end(&w);
}

static void classic_thresholds(void **state) {
  static const struct {
    const char *placement;
    size_t moves;
  } table[] = {{"01", 0},
               {"001", 0},
               {"000", 1},
               {"0001", 1},
               {"00000000001111111111", 0},
               {"000000000001111111111", 0},
               {"0000000000000111111111", 1},
               {"00000000000011111111", 1}};
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    struct world w = make(2, table[i].placement);
    w.in.classic = true;
    run(&w);
    assert_int_equal(w.n, table[i].moves);
    if (w.n) {
      expect(&w, 0, "sh0", "sh1", 0, REASON_IMBALANCE);
      assert_true(w.moves[0].whole);
    }
    end(&w);
  }
}

static void reasons_have_the_servers_names(void **state) {
  assert_string_equal(move_reason_text(REASON_DRAINING), "draining");
  assert_string_equal(move_reason_text(REASON_ZONE), "zoneViolation");
  assert_string_equal(move_reason_text(REASON_IMBALANCE), "chunksImbalance");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ten_moves_and_then_balanced),
      cmocka_unit_test(threshold_is_three_chunks),
      cmocka_unit_test(a_shard_takes_part_in_one_move),
      cmocka_unit_test(neither_side_of_the_ideal_alone),
      cmocka_unit_test(jumbo_chunks_stay),
      cmocka_unit_test(draining_comes_first),
      cmocka_unit_test(chunks_go_to_their_zone),
      cmocka_unit_test(jumbo_chunks_leave_their_zone_only_when_asked),
      cmocka_unit_test(zoned_chunks_balance_within_their_zone),
      cmocka_unit_test(a_zone_bound_inside_a_chunk_comes_before_all),
      cmocka_unit_test(classic_thresholds),
      cmocka_unit_test(reasons_have_the_servers_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
