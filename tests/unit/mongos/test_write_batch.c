// Rounds and children of a batch of writes: the rules and numbers of reference/sharding.md 7.1.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mongos/write_batch.h"

// A world of single-letter shards: routes[i] names the shards of statement i ("A", "AB"), '!' cannot be routed, '*'
// needs a round of its own.
struct world {
  const char *const *routes;
  uint32_t minor_of_b; // B's version, to see what a change of it within a round does
  bool only_one;
  bool renew; // the first failure to route asks for newer placement
  size_t failed[16], n_failed;
  struct target targets[8];
};

static const char *const names[] = {"A", "B", "C", "D", "E"};

static bool route(void *ctx, size_t op, struct batch_targeting *out, struct error *err) {
  struct world *w = ctx;
  const char *to = w->routes[op];
  if (*to == '!') return error_set(err, ERR_ShardKeyNotFound, "no key");
  out->alone = *to == '*';
  out->only_one = w->only_one;
  out->targets = w->targets;
  for (; *to >= 'A' && *to <= 'E'; to++) {
    struct target *t = &w->targets[out->n++];
    *t = (struct target){.shard = names[*to - 'A'], .versioned = true};
    if (*to == 'B') t->version.minor = w->minor_of_b;
  }
  return true;
}

static bool note_failure(void *ctx, size_t op, const struct error *err) {
  struct world *w = ctx;
  if (w->renew) {
    w->renew = false;
    return false;
  }
  w->failed[w->n_failed++] = op;
  return true;
}

static struct batch *new_batch(struct arena *a, bool ordered, size_t n, uint32_t bytes) {
  struct batch *b = batch_new(a, ordered, false, n);
  for (size_t i = 0; i < n; i++) b->ops[i].bytes = bytes;
  return b;
}

static void execute(struct batch *b, const struct batch_round *round) {
  if (round->alone) batch_alone_done(b, round->op, false);
  for (size_t c = 0; c < round->n; c++) {
    const struct batch_child *child = &round->children[c];
    for (size_t i = 0; i < child->n; i++) {
      batch_child_op(b, child->ops[i], child->target.shard, CHILD_EXECUTED, MATCH_UNKNOWN);
    }
  }
}

// Runs all to their end; counts.
static void run_all(struct batch *b, struct arena *a, struct world *w, size_t *rounds, size_t *children) {
  struct batch_round round;
  *rounds = *children = 0;
  while (batch_next(b, a, route, note_failure, w, &round)) {
    if (round.n == 0 && !round.alone) continue;
    ++*rounds;
    *children += round.n;
    execute(b, &round);
  }
}

static void example_of_the_article(void **state) {
  struct arena *a = arena_new();
  struct world w = {.routes = (const char *const[]){"A", "B", "B", "C", "A", "C", "C", "B"}};
  size_t rounds, children;
  run_all(new_batch(a, true, 8, 100), a, &w, &rounds, &children);
  assert_int_equal(rounds, 6);
  assert_int_equal(children, 6);
  run_all(new_batch(a, false, 8, 100), a, &w, &rounds, &children);
  assert_int_equal(rounds, 1);
  assert_int_equal(children, 3);
  arena_free(a);
}

static void ordered_rounds_are_runs_of_equal_shards(void **state) {
  enum { N = 1000 };
  struct arena *a = arena_new();
  for (int shards = 2; shards <= 5; shards++) {
    const char *routes[N];
    size_t runs = 1, rounds, children;
    srand(7);
    for (int i = 0; i < N; i++) {
      routes[i] = names[rand() % shards];
      runs += i > 0 && routes[i] != routes[i - 1];
    }
    struct world w = {.routes = routes};
    run_all(new_batch(a, true, N, 50), a, &w, &rounds, &children);
    assert_int_equal(rounds, runs);
    double expected = 1 + (N - 1) * (1 - 1.0 / shards);
    assert_true(rounds > expected * 0.9 && rounds < expected * 1.1);
    run_all(new_batch(a, false, N, 50), a, &w, &rounds, &children);
    assert_int_equal(rounds, 1);
    assert_int_equal(children, shards);
  }
  arena_free(a);
}

static void a_child_has_a_hundred_thousand_statements(void **state) {
  enum { N = BATCH_CHILD_MAX_OPS + 1 };
  struct arena *a = arena_new();
  const char **routes = arena_alloc(a, N * sizeof *routes);
  for (size_t i = 0; i < N; i++) routes[i] = "A";
  struct world w = {.routes = routes};
  for (int ordered = 0; ordered < 2; ordered++) {
    struct batch *b = new_batch(a, ordered == 1, N, 20);
    struct batch_round round;
    // An unordered child reserves room for an error of each statement, so it is cut by size before.
    size_t most = ordered ? BATCH_CHILD_MAX_OPS : BATCH_CHILD_MAX_BYTES / (272 + 7);
    assert_true(batch_next(b, a, route, note_failure, &w, &round));
    assert_int_equal(round.n, 1);
    assert_int_equal(round.children[0].n, most);
    execute(b, &round);
    assert_true(batch_next(b, a, route, note_failure, &w, &round));
    assert_int_equal(round.children[0].ops[0], most);
    assert_int_equal(round.children[0].n, N - most);
  }
  arena_free(a);
}

static void a_child_has_sixteen_mebibytes(void **state) {
  enum { N = 40, BYTES = 1024 * 1024 - 7 };
  struct arena *a = arena_new();
  const char *routes[N];
  for (size_t i = 0; i < N; i++) routes[i] = "A";
  struct world w = {.routes = routes};
  for (int ordered = 0; ordered < 2; ordered++) {
    size_t rounds, children;
    struct batch *b = new_batch(a, ordered == 1, N, BYTES);
    struct batch_round round;
    assert_true(batch_next(b, a, route, note_failure, &w, &round));
    assert_int_equal(round.children[0].n, 16);
    execute(b, &round);
    run_all(b, a, &w, &rounds, &children);
    assert_int_equal(rounds, 2);
    assert_int_equal(b->settled, N);
  }
  // With statement numbers only 15 fit.
  struct batch *b = batch_new(a, true, true, N);
  struct batch_round round;
  for (size_t i = 0; i < N; i++) b->ops[i].bytes = BYTES;
  assert_true(batch_next(b, a, route, note_failure, &w, &round));
  assert_int_equal(round.children[0].n, 15);
  arena_free(a);
}

static void a_statement_for_several_shards(void **state) {
  struct arena *a = arena_new();
  struct world w = {.routes = (const char *const[]){"A", "A", "ABC", "A", "B"}};
  size_t rounds, children;
  run_all(new_batch(a, true, 5, 100), a, &w, &rounds, &children);
  assert_int_equal(rounds, 4); // AA | ABC | A | B
  assert_int_equal(children, 1 + 3 + 1 + 1);
  struct batch *b = new_batch(a, false, 5, 100);
  struct batch_round round;
  assert_true(batch_next(b, a, route, note_failure, &w, &round));
  assert_int_equal(round.n, 3);
  assert_int_equal(round.children[0].n, 4);
  arena_free(a);
}

// As when a statement is routed after another fiber's refresh.
static bool route_with_rising_version(void *ctx, size_t op, struct batch_targeting *out, struct error *err) {
  struct world *w = ctx;
  w->minor_of_b++;
  return route(ctx, op, out, err);
}

static void a_version_that_changes_ends_the_child(void **state) {
  struct arena *a = arena_new();
  struct world w = {.routes = (const char *const[]){"B", "B"}};
  struct batch_round round;
  for (int ordered = 0; ordered < 2; ordered++) {
    struct batch *b = new_batch(a, ordered == 1, 2, 100);
    assert_true(batch_next(b, a, route_with_rising_version, note_failure, &w, &round));
    assert_int_equal(round.n, 1);
    assert_int_equal(round.children[0].n, 1);
    execute(b, &round);
    assert_true(batch_next(b, a, route_with_rising_version, note_failure, &w, &round));
    assert_int_equal(round.children[0].ops[0], 1);
  }
  arena_free(a);
}

static void what_cannot_be_routed(void **state) {
  struct arena *a = arena_new();
  struct world w = {.routes = (const char *const[]){"A", "!", "B", "!", "A"}};
  size_t rounds, children;
  struct batch *b = new_batch(a, true, 5, 100);
  struct batch_round round;
  assert_true(batch_next(b, a, route, note_failure, &w, &round)); // what comes before it first
  assert_int_equal(round.n, 1);
  assert_int_equal(w.n_failed, 0);
  execute(b, &round);
  run_all(b, a, &w, &rounds, &children);
  assert_int_equal(rounds, 0);
  assert_int_equal(w.n_failed, 1);
  assert_int_equal(w.failed[0], 1);
  assert_int_equal(b->ops[0].state, WRITE_DONE);
  assert_int_equal(b->ops[4].state, WRITE_FAILED);

  w.n_failed = 0;
  b = new_batch(a, false, 5, 100);
  run_all(b, a, &w, &rounds, &children);
  assert_int_equal(rounds, 1);
  assert_int_equal(w.n_failed, 2);
  assert_int_equal(b->ops[2].state, WRITE_DONE);

  w.n_failed = 0;
  w.renew = true; // the first time the caller gets newer placement instead
  b = new_batch(a, true, 5, 100);
  run_all(b, a, &w, &rounds, &children);
  assert_int_equal(w.n_failed, 1);
  arena_free(a);
}

static void stale_children_are_sent_again(void **state) {
  struct arena *a = arena_new();
  struct world w = {.routes = (const char *const[]){"A", "A", "A", "B"}};
  struct batch *b = new_batch(a, true, 4, 100);
  struct batch_round round;
  assert_true(batch_next(b, a, route, note_failure, &w, &round));
  assert_int_equal(round.children[0].n, 3);
  // An ordered child keeps its completed prefix.
  batch_child_op(b, 0, "A", CHILD_EXECUTED, MATCH_UNKNOWN);
  batch_child_op(b, 1, "A", CHILD_STALE, MATCH_NONE);
  batch_child_op(b, 2, "A", CHILD_NOT_REACHED, MATCH_NONE);
  assert_int_equal(b->settled, 1);
  assert_true(batch_next(b, a, route, note_failure, &w, &round));
  assert_int_equal(round.children[0].n, 2);
  assert_int_equal(round.children[0].ops[0], 1);
  execute(b, &round);
  assert_true(batch_next(b, a, route, note_failure, &w, &round));
  execute(b, &round);
  assert_false(batch_next(b, a, route, note_failure, &w, &round));
  assert_int_equal(b->settled, 4);
  arena_free(a);
}

// A multi update that one of its shards executed goes again only to the other.
static void executed_shards_are_left_out(void **state) {
  struct arena *a = arena_new();
  struct world w = {.routes = (const char *const[]){"ABC"}};
  struct batch *b = new_batch(a, true, 1, 100);
  struct batch_round round;
  assert_true(batch_next(b, a, route, note_failure, &w, &round));
  batch_child_op(b, 0, "A", CHILD_EXECUTED, MATCH_FOUND);
  batch_child_op(b, 0, "B", CHILD_STALE, MATCH_NONE);
  batch_child_op(b, 0, "C", CHILD_EXECUTED, MATCH_NONE);
  assert_int_equal(b->ops[0].state, WRITE_READY);
  assert_true(batch_next(b, a, route, note_failure, &w, &round));
  assert_int_equal(round.n, 1);
  assert_string_equal(round.children[0].target.shard, "B");
  arena_free(a);
}

static void a_match_is_all_there_is_to_an_id(void **state) {
  struct arena *a = arena_new();
  struct world w = {.routes = (const char *const[]){"AB"}, .only_one = true};
  struct batch_round round;
  struct batch *b = new_batch(a, true, 1, 100);
  assert_true(batch_next(b, a, route, note_failure, &w, &round));
  batch_child_op(b, 0, "A", CHILD_EXECUTED, MATCH_FOUND);
  batch_child_op(b, 0, "B", CHILD_STALE, MATCH_NONE);
  assert_int_equal(b->ops[0].state, WRITE_DONE);

  // Not found on A, B stale: it may have gone to A meanwhile, so both are asked again.
  b = new_batch(a, true, 1, 100);
  assert_true(batch_next(b, a, route, note_failure, &w, &round));
  batch_child_op(b, 0, "A", CHILD_EXECUTED, MATCH_NONE);
  batch_child_op(b, 0, "B", CHILD_STALE, MATCH_NONE);
  assert_true(batch_next(b, a, route, note_failure, &w, &round));
  assert_int_equal(round.n, 2);
  arena_free(a);
}

static void rounds_of_their_own(void **state) {
  struct arena *a = arena_new();
  struct world w = {.routes = (const char *const[]){"A", "*", "A", "*", "B"}};
  size_t rounds, children;
  run_all(new_batch(a, true, 5, 100), a, &w, &rounds, &children);
  assert_int_equal(rounds, 5);
  run_all(new_batch(a, false, 5, 100), a, &w, &rounds, &children);
  assert_int_equal(rounds, 3); // A A B | * | *
  assert_int_equal(children, 2);
  arena_free(a);
}

static void an_error_ends_an_ordered_batch(void **state) {
  struct arena *a = arena_new();
  struct world w = {.routes = (const char *const[]){"A", "A", "B"}};
  struct batch_round round;
  struct batch *b = new_batch(a, true, 3, 100);
  assert_true(batch_next(b, a, route, note_failure, &w, &round));
  batch_child_op(b, 0, "A", CHILD_ERROR, MATCH_NONE);
  batch_child_op(b, 1, "A", CHILD_NOT_REACHED, MATCH_NONE);
  assert_false(batch_next(b, a, route, note_failure, &w, &round));
  assert_int_equal(b->settled, 3);

  b = new_batch(a, false, 3, 100);
  assert_true(batch_next(b, a, route, note_failure, &w, &round));
  batch_child_op(b, 0, "A", CHILD_ERROR, MATCH_NONE);
  batch_child_op(b, 1, "A", CHILD_EXECUTED, MATCH_UNKNOWN);
  batch_child_op(b, 2, "B", CHILD_STALE, MATCH_NONE);
  assert_true(batch_next(b, a, route, note_failure, &w, &round));
  assert_int_equal(round.children[0].ops[0], 2);
  arena_free(a);
}

// Six rounds by one placement are enough; not so when each had another one, until those are too many, too.
static void patience_ends(void **state) {
  struct batch_patience p = {0};
  assert_true(batch_patient(&p, 0, true));
  for (int i = 0; i < 4; i++) assert_true(batch_patient(&p, 0, false));
  assert_false(batch_patient(&p, 0, false));

  p = (struct batch_patience){0};
  for (int i = 0; i < 40; i++) assert_true(batch_patient(&p, 0, true));
  assert_false(batch_patient(&p, 0, true));

  p = (struct batch_patience){0};
  for (size_t i = 1; i < 100; i++) assert_true(batch_patient(&p, i, false)); // it gets on
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(example_of_the_article),
      cmocka_unit_test(ordered_rounds_are_runs_of_equal_shards),
      cmocka_unit_test(a_child_has_a_hundred_thousand_statements),
      cmocka_unit_test(a_child_has_sixteen_mebibytes),
      cmocka_unit_test(a_statement_for_several_shards),
      cmocka_unit_test(a_version_that_changes_ends_the_child),
      cmocka_unit_test(what_cannot_be_routed),
      cmocka_unit_test(stale_children_are_sent_again),
      cmocka_unit_test(executed_shards_are_left_out),
      cmocka_unit_test(a_match_is_all_there_is_to_an_id),
      cmocka_unit_test(rounds_of_their_own),
      cmocka_unit_test(an_error_ends_an_ordered_batch),
      cmocka_unit_test(patience_ends),
  };
  return cmocka_run_group_tests_name("mongos/write_batch", tests, NULL, NULL);
}
