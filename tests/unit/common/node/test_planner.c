// Which index a query gets, whether it gives the sort, and where the ownership filter sits.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

#include "common/bson/doc.h"
#include "common/node/explain_plan.h"
#include "common/node/planner.h"
#include "common/sharding/chunk_map.h"

enum { MAX_INDEXES = 16 };

struct fixture {
  struct arena *a;
  struct collection c;
  struct index indexes[MAX_INDEXES];
  struct index *list[MAX_INDEXES];
};

static const bson_t *json(struct arena *a, const char *text) {
  bson_error_t e;
  bson_t *made = bson_new_from_json((const uint8_t *)text, -1, &e);
  if (!made) fail_msg("%s: %s", text, e.message);
  const bson_t *copy = doc_copy(a, made);
  bson_destroy(made);
  return copy;
}

static struct index *add_index(struct fixture *f, const char *name, const char *key) {
  struct index *i = &f->indexes[f->c.n_indexes];
  *i = (struct index){.id = (uint32_t)f->c.n_indexes, .name = name, .key = json(f->a, key), .ready = true};
  i->spec = i->key;
  f->list[f->c.n_indexes++] = i;
  return i;
}

static int setup(void **state) {
  struct fixture *f = calloc(1, sizeof *f);
  f->a = arena_new();
  f->c = (struct collection){.ns = "d.c", .db = "d", .name = "c", .indexes = f->list};
  add_index(f, "_id_", "{\"_id\": 1}");
  *state = f;
  return 0;
}

static int teardown(void **state) {
  struct fixture *f = *state;
  arena_free(f->a);
  free(f);
  return 0;
}

static const struct plan *plan(struct fixture *f, const char *filter, const char *sort, const struct access *x) {
  struct query *q = arena_zalloc(f->a, sizeof *q);
  struct plan *p = arena_zalloc(f->a, sizeof *p);
  struct error err = {0};
  assert_true(query_of_filter(f->a, json(f->a, filter), q, &err));
  assert_true(query_parse_sort(f->a, sort ? json(f->a, sort) : NULL, q, &err));
  if (!plan_choose(f->a, &f->c, q, x, p, &err)) fail_msg("%s", err.message);
  return p;
}

static void uses(struct fixture *f, const char *filter, const char *sort, const char *index) {
  const struct plan *p = plan(f, filter, sort, NULL);
  if (!index) {
    assert_null(p->index_name);
  } else {
    assert_non_null(p->index_name);
    assert_string_equal(p->index_name, index);
  }
}

static void chooses_by_bounds(void **state) {
  struct fixture *f = *state;
  add_index(f, "a_1", "{\"a\": 1}");
  add_index(f, "a_1_b_1", "{\"a\": 1, \"b\": 1}");
  add_index(f, "b_1_c_1", "{\"b\": 1, \"c\": 1}");
  uses(f, "{}", NULL, NULL);
  uses(f, "{\"x\": 1}", NULL, NULL);
  uses(f, "{\"_id\": 5, \"a\": 1, \"b\": 2}", NULL, "_id_");
  uses(f, "{\"a\": 1}", NULL, "a_1");
  uses(f, "{\"a\": 1, \"b\": 2}", NULL, "a_1_b_1");
  uses(f, "{\"a\": {\"$gt\": 1}}", NULL, "a_1");
  uses(f, "{\"b\": 2, \"a\": {\"$gt\": 1}}", NULL, "b_1_c_1");
  uses(f, "{\"a\": 1, \"b\": {\"$gt\": 2}}", NULL, "a_1_b_1");
  uses(f, "{\"c\": 1}", NULL, NULL);
}

static void chooses_by_sort(void **state) {
  struct fixture *f = *state;
  add_index(f, "a_1", "{\"a\": 1}");
  add_index(f, "a_1_b_-1", "{\"a\": 1, \"b\": -1}");
  uses(f, "{}", "{\"a\": 1}", "a_1");
  uses(f, "{}", "{\"a\": -1}", "a_1");
  uses(f, "{}", "{\"a\": 1, \"b\": -1}", "a_1_b_-1");
  uses(f, "{}", "{\"a\": -1, \"b\": 1}", "a_1_b_-1");
  uses(f, "{}", "{\"a\": 1, \"b\": 1}", NULL);
  uses(f, "{\"a\": 5}", "{\"b\": 1}", "a_1_b_-1");
  uses(f, "{}", "{\"b\": 1}", NULL);
  const struct plan *p = plan(f, "{\"a\": 5}", "{\"b\": 1}", NULL);
  assert_true(p->gives_sort && p->backward && !p->needs_sort);
  p = plan(f, "{\"a\": {\"$in\": [1, 2]}}", "{\"b\": 1}", NULL);
  assert_true(!p->gives_sort && p->needs_sort);
  p = plan(f, "{\"x\": 1}", "{\"b\": 1}", NULL);
  assert_true(p->needs_sort && !p->index_name);
}

static void multikey_gives_no_order(void **state) {
  struct fixture *f = *state;
  add_index(f, "a_1", "{\"a\": 1}")->multikey = true;
  uses(f, "{}", "{\"a\": 1}", NULL);
  const struct plan *p = plan(f, "{\"a\": 5}", "{\"a\": 1}", NULL);
  assert_string_equal(p->index_name, "a_1");
  assert_true(p->needs_sort);
}

static void hints(void **state) {
  struct fixture *f = *state;
  add_index(f, "a_1", "{\"a\": 1}");
  struct query q;
  struct plan p;
  struct error err = {0};
  assert_true(query_of_filter(f->a, json(f->a, "{\"_id\": 1}"), &q, &err));
  q.natural = -1;
  assert_true(plan_choose(f->a, &f->c, &q, NULL, &p, &err));
  assert_true(!p.index_name && p.backward && p.by_order);
}

static void hidden_and_unready_are_not_used(void **state) {
  struct fixture *f = *state;
  add_index(f, "a_1", "{\"a\": 1}")->hidden = true;
  add_index(f, "b_1", "{\"b\": 1}")->ready = false;
  uses(f, "{\"a\": 1}", NULL, NULL);
  uses(f, "{\"b\": 1}", NULL, NULL);
}

static void sparse_needs_a_value(void **state) {
  struct fixture *f = *state;
  add_index(f, "a_1", "{\"a\": 1}")->sparse = true;
  uses(f, "{\"a\": 1}", NULL, "a_1");
  uses(f, "{\"a\": null}", NULL, NULL);
  uses(f, "{}", "{\"a\": 1}", NULL);
  add_index(f, "b_hashed", "{\"b\": \"hashed\"}")->sparse = true;
  uses(f, "{\"b\": {\"$in\": [1, 2]}}", NULL, "b_hashed");
  uses(f, "{\"b\": {\"$in\": [1, null]}}", NULL, NULL);
}

static void partial_must_be_implied(void **state) {
  struct fixture *f = *state;
  struct index *i = add_index(f, "a_1", "{\"a\": 1}");
  i->partial_filter = json(f->a, "{\"b\": {\"$gt\": 5}}");
  uses(f, "{\"a\": 1}", NULL, NULL);
  uses(f, "{\"a\": 1, \"b\": 7}", NULL, "a_1");
  uses(f, "{\"a\": 1, \"b\": {\"$gt\": 5}}", NULL, "a_1");
  uses(f, "{\"a\": 1, \"b\": {\"$gte\": 5}}", NULL, NULL);
  uses(f, "{\"a\": 1, \"b\": {\"$gt\": 10}}", NULL, "a_1");
  i->partial_filter = json(f->a, "{\"b\": {\"$exists\": true}}");
  uses(f, "{\"a\": 1, \"b\": 7}", NULL, "a_1");
  uses(f, "{\"a\": 1, \"b\": null}", NULL, NULL);
  i->partial_filter = json(f->a, "{\"b\": \"x\"}");
  uses(f, "{\"a\": 1, \"b\": \"x\"}", NULL, "a_1");
  uses(f, "{\"a\": 1, \"b\": \"y\"}", NULL, NULL);
}

// --- the placement table of sharding.md 6.4 ---

static struct chunk_map *one_chunk(struct fixture *f, const char *pattern) {
  struct shard_key key;
  struct error err = {0};
  assert_true(shard_key_parse(f->a, json(f->a, pattern), &key, &err));
  struct chunk c = {.shard = "sh1", .major = 1};
  c.min_doc = shard_key_global_min(&key, f->a);
  c.max_doc = shard_key_global_max(&key, f->a);
  c.min = bound_key(f->a, c.min_doc);
  c.max = bound_key(f->a, c.max_doc);
  struct chunk_version generation = {.timestamp = 1};
  struct chunk_map *m = chunk_map_make(json(f->a, pattern), &generation, &c, 1, &err);
  if (!m) fail_msg("%s", err.message);
  return m;
}

static const char *stages(struct fixture *f, const char *filter, const char *projection, const struct access *x) {
  const struct plan *p = plan(f, filter, NULL, x);
  struct query *q = arena_zalloc(f->a, sizeof *q);
  struct error err = {0};
  assert_true(query_of_filter(f->a, json(f->a, filter), q, &err));
  struct tree_shape shape = {.root = STAGE_EOF, .sharded = x && x->filtered};
  if (projection) {
    shape.projection = json(f->a, projection);
    shape.projection_simple = shape.projection_covered = true;
  }
  struct plan_tree t;
  plan_tree_make(&t, q, p, &shape);
  bson_t *out = arena_bson(f->a);
  plan_tree_append(f->a, &t, out);
  const char *text = "";
  const bson_t *at = out;
  for (;;) {
    text = arena_printf(f->a, "%s%s%s", text, *text ? " > " : "", doc_str(at, "stage", "?"));
    bson_iter_t it;
    if (!bson_iter_init_find(&it, at, "inputStage")) return text;
    const uint8_t *data;
    uint32_t len;
    bson_iter_document(&it, &len, &data);
    at = arena_bson_view(f->a, data, len);
  }
}

static void placement_of_the_ownership_filter(void **state) {
  struct fixture *f = *state;
  struct access x = {.versioned = true, .filtered = true, .owner_map = one_chunk(f, "{\"k\": 1}"), .shard = "sh1"};
  assert_string_equal(stages(f, "{\"s\": 1}", NULL, &x), "SHARDING_FILTER > COLLSCAN");
  add_index(f, "k_1", "{\"k\": 1}");
  add_index(f, "a_1", "{\"a\": 1}");
  assert_string_equal(stages(f, "{\"k\": {\"$gte\": 1}}", NULL, &x), "FETCH > SHARDING_FILTER > IXSCAN");
  assert_string_equal(stages(f, "{\"k\": {\"$gte\": 1}, \"z\": 1}", NULL, &x), "SHARDING_FILTER > FETCH > IXSCAN");
  assert_string_equal(stages(f, "{\"a\": 1}", NULL, &x), "SHARDING_FILTER > FETCH > IXSCAN");
  assert_string_equal(stages(f, "{\"k\": {\"$gte\": 1}}", "{\"k\": 1, \"_id\": 0}", &x),
                      "PROJECTION_COVERED > SHARDING_FILTER > IXSCAN");
  assert_string_equal(stages(f, "{\"k\": 5}", NULL, &x), "FETCH > IXSCAN");
  assert_string_equal(stages(f, "{\"_id\": 5}", NULL, &x), "SHARDING_FILTER > FETCH > IXSCAN");
  assert_string_equal(stages(f, "{\"k\": {\"$gte\": 1}}", NULL, NULL), "FETCH > IXSCAN");
  assert_string_equal(stages(f, "{\"_id\": 5}", NULL, NULL), "EXPRESS_IXSCAN");
  assert_string_equal(stages(f, "{\"s\": 1}", NULL, NULL), "COLLSCAN");
  chunk_map_unref(x.owner_map);
}

static void placement_with_a_hashed_key(void **state) {
  struct fixture *f = *state;
  struct access x = {
      .versioned = true, .filtered = true, .owner_map = one_chunk(f, "{\"u\": \"hashed\"}"), .shard = "sh1"};
  add_index(f, "u_hashed", "{\"u\": \"hashed\"}");
  assert_string_equal(stages(f, "{\"u\": {\"$gte\": 1}}", NULL, &x), "SHARDING_FILTER > COLLSCAN");
  assert_string_equal(stages(f, "{\"u\": 777}", NULL, &x), "FETCH > IXSCAN");
  chunk_map_unref(x.owner_map);
}

static void contradiction_reads_nothing(void **state) {
  struct fixture *f = *state;
  add_index(f, "a_1", "{\"a\": 1}");
  assert_true(plan(f, "{\"a\": {\"$gt\": 5, \"$lt\": 3}}", NULL, NULL)->empty);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(chooses_by_bounds, setup, teardown),
      cmocka_unit_test_setup_teardown(chooses_by_sort, setup, teardown),
      cmocka_unit_test_setup_teardown(multikey_gives_no_order, setup, teardown),
      cmocka_unit_test_setup_teardown(hints, setup, teardown),
      cmocka_unit_test_setup_teardown(hidden_and_unready_are_not_used, setup, teardown),
      cmocka_unit_test_setup_teardown(sparse_needs_a_value, setup, teardown),
      cmocka_unit_test_setup_teardown(partial_must_be_implied, setup, teardown),
      cmocka_unit_test_setup_teardown(placement_of_the_ownership_filter, setup, teardown),
      cmocka_unit_test_setup_teardown(placement_with_a_hashed_key, setup, teardown),
      cmocka_unit_test_setup_teardown(contradiction_reads_nothing, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
