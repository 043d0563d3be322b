// Copies of a store that is written to meanwhile: the files stand at different entries, and with the log behind the
// snapshot they become what a straight run gives. A store with data of its own is put on such a copy while it is read.
//
// An argument is the seed.
#include <fcntl.h>

#include "common/store/copy.h"
#include "tests/unit/common/store/script.h"

enum { ENTRIES = 300, COPIES = 12 };

struct copying {
  uint64_t seed;
  struct script *script, *other;
  struct buf expected;
  char from[64], to[64];
  struct loop *loop;
};

static uint64_t counting_generation;

static bool the_generation(const char *dbpath, uint64_t *out, struct error *err) {
  *out = counting_generation;
  return true;
}

static uint32_t below(struct copying *c, uint32_t n) {
  c->seed = c->seed * 6364136223846793005ULL + 1442695040888963407ULL;
  return (uint32_t)(c->seed >> 33) % n;
}

// As the two sides of an initial sync do it together. false: the file was dropped meanwhile.
static bool copy_one(struct operation *op, struct copying *c, struct store *s, const char *name) {
  struct error err = {0};
  int64_t bytes = 0;
  int fd = store_copy_file(op, s, name, &bytes, &err);
  assert_int_equal(err.code, 0);
  if (fd < 0) return false;
  assert_true(store_generation_admit(c->to, 1, name, &err));
  char path[512];
  (void)snprintf(path, sizeof path, "%s/generation-1/%s", c->to, name);
  int out = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
  char *data = malloc((size_t)bytes);
  assert_int_equal(pread(fd, data, (size_t)bytes, 0), bytes);
  assert_int_equal(write(out, data, (size_t)bytes), bytes);
  free(data);
  (void)close(out);
  (void)close(fd);
  return true;
}

// Between two files some entries are applied and some commits made. Returns the snapshot's index.
static uint64_t copy_all(struct operation *op, struct copying *c, struct store *s) {
  struct error err = {0};
  uint64_t at = 1 + below(c, ENTRIES / 2);
  script_apply(c->script, s, 1, at);
  uint64_t snapshot = store_snapshot(op, s);
  assert_int_equal(snapshot, at);
  struct arena *a = arena_new();
  size_t n;
  struct copy_item *items = store_copy_list(s, a, &n);
  assert_string_equal(items[n - 1].name, "catalog.sqlite");
  assert_true(store_generation_begin(c->to, 1, &err));
  for (size_t i = 0; i < n; i++) {
    uint64_t more = below(c, 30);
    if (at + more > ENTRIES) more = ENTRIES - at;
    if (more) script_apply(c->script, s, at + 1, at + more);
    at += more;
    if (below(c, 2)) store_commit_all(s);
    (void)copy_one(op, c, s, items[i].name);
  }
  assert_true(store_generation_finish(c->to, 1, snapshot, &err));
  arena_free(a);
  return snapshot;
}

// A scan that is under way when the store is exchanged.
struct reader {
  struct arena *a;
  struct scan *scan;
};

static struct reader begin_reading(struct store *s) {
  struct reader r = {.a = arena_new()};
  struct collection *c = store_collection(s, "db.a");
  struct error err = {0};
  struct scan_row row;
  if (!c) return r;
  r.scan = scan_open(r.a, c, &(struct scan_spec){0});
  if (scan_next(r.scan, &row, &err)) scan_save(r.scan);
  return r;
}

static void end_reading(struct reader *r) {
  struct error err = {0};
  struct scan_row row;
  while (r->scan && scan_next(r->scan, &row, &err)) continue;
  arena_free(r->a);
}

static void copy_and_switch(struct operation *op, struct copying *c) {
  struct error err = {0};
  struct store *source = open_at(c->from), *s = open_at(c->to);
  store_replay_done(source);
  store_replay_done(s);
  script_apply(c->other, s, 1, 1 + below(c, ENTRIES));
  uint64_t snapshot = copy_all(op, c, source);
  struct reader reader = begin_reading(s);
  if (!store_generation_check(s, 1, &err)) fail_msg("%s", err.message);
  assert_true(store_switch(op, s, 1, &err));
  end_reading(&reader);
  store_generation_keep(c->to, 1);
  assert_int_equal(store_applied(s), snapshot);
  assert_true(store_replay_target(s) <= ENTRIES);
  script_apply(c->script, s, snapshot + 1, ENTRIES);
  store_replay_done(s);
  struct buf got = dump(s);
  assert_true(same_dump(&c->expected, &got));
  buf_free(&got);
  store_close(s);
  store_close(source);
  counting_generation = 1;
  s = store_open(&(struct store_options){.dbpath = c->to, .role = "shardd", .generation = the_generation}, &err);
  assert_non_null(s);
  store_replay_done(s);
  got = dump(s);
  assert_true(same_dump(&c->expected, &got));
  buf_free(&got);
  store_close(s);
}

static void run(struct operation *op, void *arg) {
  struct copying *c = arg;
  for (int i = 0; i < COPIES; i++) {
    (void)snprintf(c->from, sizeof c->from, "%s/store-copy-XXXXXX", base_folder());
    (void)snprintf(c->to, sizeof c->to, "%s/store-copy-XXXXXX", base_folder());
    assert_non_null(mkdtemp(c->from));
    assert_non_null(mkdtemp(c->to));
    copy_and_switch(op, c);
    remove_tree(c->from);
    remove_tree(c->to);
  }
  loop_stop(op->loop);
}

static void test_copies(void **state) {
  struct copying c = {.seed = *state ? strtoul(*state, NULL, 10) : 4711};
  c.script = script_new(c.seed, ENTRIES);
  c.other = script_new(c.seed + 1, ENTRIES);
  char path[64];
  (void)snprintf(path, sizeof path, "%s/store-copy-XXXXXX", base_folder());
  assert_non_null(mkdtemp(path));
  struct store *s = open_at(path);
  script_apply(c.script, s, 1, ENTRIES);
  store_replay_done(s);
  c.expected = dump(s);
  store_close(s);
  remove_tree(path);
  c.loop = loop_new();
  (void)operation_start(c.loop, "test", run, &c);
  loop_run(c.loop);
  loop_free(c.loop);
  buf_free(&c.expected);
  script_free(c.script);
  script_free(c.other);
}

// Leftovers do not count, and names from the other side cannot lead anywhere else.
static void test_names(void **state) {
  char dir[64], path[128];
  struct error err = {0};
  (void)snprintf(dir, sizeof dir, "%s/store-copy-XXXXXX", base_folder());
  assert_non_null(mkdtemp(dir));
  assert_true(store_generation_begin(dir, 3, &err));
  static const char *const bad[] = {"../catalog.sqlite",
                                    "/etc/passwd",
                                    "raft.sqlite",
                                    "",
                                    "21b41954-fc93-4d1f-9fe5-d3197482d67d/../1.sqlite",
                                    "21b41954-fc93-4d1f-9fe5-d3197482d67d/1.sqlite-wal",
                                    "21b41954-fc93-4d1f-9fe5-d3197482d67d/",
                                    "21B41954-fc93-4d1f-9fe5-d3197482d67d/1.sqlite"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(store_generation_admit(dir, 3, bad[i], &err));
  assert_true(store_generation_admit(dir, 3, "21b41954-fc93-4d1f-9fe5-d3197482d67d/ids.sqlite", &err));
  struct store *s = open_at(dir); // an attempt that did not come to its end
  store_close(s);
  (void)snprintf(path, sizeof path, "%s/generation-3", dir);
  assert_int_not_equal(access(path, F_OK), 0);
  remove_tree(dir);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_prestate(test_copies, argc > 1 ? argv[1] : NULL),
      cmocka_unit_test(test_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
