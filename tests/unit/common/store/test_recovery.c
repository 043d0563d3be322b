// Recovery without processes: after a crash the catalog and every file stand at different entries. From any such state
// replaying the log gives what a straight run gives.
//
// A child that ends without closing anything leaves the directory as it is at entry i; the directories of several i are
// then mixed: the catalog of one, the files of another, or each file of any. An argument is the seed of the log.
#include <sys/wait.h>

#include "tests/unit/common/store/script.h"

enum { ENTRIES = 200, STATES = 11, MIXES = 40 };

struct recovery {
  uint64_t seed;
  char dir[64];
  struct script *script;
  struct buf expected;
  uint64_t at[STATES]; // the entries of the states
};

static void state_path(const struct recovery *r, size_t i, char path[128]) {
  (void)snprintf(path, 128, "%s/%zu", r->dir, i);
}

static void copy_file(const char *from, const char *to) {
  FILE *in = fopen(from, "rb"), *out = in ? fopen(to, "wb") : NULL;
  if (!in) return;
  assert_non_null(out);
  static char buffer[1 << 16];
  size_t n;
  while ((n = fread(buffer, 1, sizeof buffer, in))) assert_int_equal(fwrite(buffer, 1, n, out), n);
  (void)fclose(in);
  (void)fclose(out);
}

// Copies a database with its WAL (the shared memory is made anew).
static void copy_database(const char *from, const char *to, const char *name) {
  static const char *const suffixes[] = {"", "-wal"};
  for (int i = 0; i < 2; i++) {
    char a[512], b[512];
    (void)snprintf(a, sizeof a, "%s/%s%s", from, name, suffixes[i]);
    (void)snprintf(b, sizeof b, "%s/%s%s", to, name, suffixes[i]);
    copy_file(a, b);
  }
}

static bool is_database(const char *name) {
  size_t n = strlen(name);
  return n > 7 && strcmp(name + n - 7, ".sqlite") == 0;
}

// Every file that any of the states has, from the state `of` names for it.
static void mix_files(struct recovery *r, const char *to, size_t (*of)(void *ctx), void *ctx) {
  char last[128];
  state_path(r, STATES - 1, last);
  DIR *dir = opendir(last);
  assert_non_null(dir);
  for (struct dirent *e = readdir(dir); e; e = readdir(dir)) {
    if (strlen(e->d_name) != 36) continue;
    char sub[512], target[512];
    (void)snprintf(sub, sizeof sub, "%s/%s", last, e->d_name);
    (void)snprintf(target, sizeof target, "%s/%s", to, e->d_name);
    (void)mkdir(target, 0700);
    DIR *files = opendir(sub);
    for (struct dirent *g = readdir(files); g; g = readdir(files)) {
      if (!is_database(g->d_name)) continue;
      char from[128], folder[512];
      state_path(r, of(ctx), from);
      (void)snprintf(folder, sizeof folder, "%s/%s", from, e->d_name);
      copy_database(folder, target, g->d_name);
    }
    (void)closedir(files);
  }
  (void)closedir(dir);
}

static void make_state(const struct recovery *r, size_t i) {
  char path[128];
  state_path(r, i, path);
  assert_int_equal(mkdir(path, 0700), 0);
  pid_t pid = fork();
  if (pid == 0) {
    struct error err = {0};
    struct store *s = store_open(&(struct store_options){.dbpath = path, .role = "shardd"}, &err);
    if (!s) _exit(1);
    script_apply(r->script, s, 1, r->at[i]);
    store_commit_all(s);
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
}

static int setup(void **state) {
  struct recovery *r = calloc(1, sizeof *r);
  r->seed = *state ? strtoul(*state, NULL, 10) : 4711;
  (void)snprintf(r->dir, sizeof r->dir, "%s/store-recovery-XXXXXX", base_folder());
  assert_non_null(mkdtemp(r->dir));
  r->script = script_new(r->seed, ENTRIES);
  for (size_t i = 0; i < STATES; i++) {
    r->at[i] = i == STATES - 1 ? ENTRIES : 1 + i * (ENTRIES / (STATES - 1)) + i;
    make_state(r, i);
  }
  char path[128];
  (void)snprintf(path, sizeof path, "%s/straight", r->dir);
  assert_int_equal(mkdir(path, 0700), 0);
  struct store *s = open_at(path);
  script_apply(r->script, s, 1, ENTRIES);
  store_replay_done(s);
  r->expected = dump(s);
  store_close(s);
  s = open_at(path);
  struct buf again = dump(s);
  assert_true(same_dump(&r->expected, &again));
  buf_free(&again);
  store_close(s);
  *state = r;
  return 0;
}

static int teardown(void **state) {
  struct recovery *r = *state;
  remove_tree(r->dir);
  script_free(r->script);
  buf_free(&r->expected);
  free(r);
  return 0;
}

static void replay_and_compare(struct recovery *r, const char *path, const char *what) {
  struct store *s = open_at(path);
  assert_true(store_replay_target(s) <= ENTRIES);
  script_apply(r->script, s, store_applied(s) + 1, ENTRIES);
  store_replay_done(s);
  struct buf got = dump(s);
  bool same = same_dump(&r->expected, &got);
  buf_free(&got);
  store_close(s);
  if (!same) print_error("%s\n", what);
  assert_true(same);
  remove_tree(path);
}

static size_t constant(void *ctx) {
  return *(size_t *)ctx;
}

static void test_every_pair(void **state) {
  struct recovery *r = *state;
  for (size_t i = 0; i < STATES; i++) {
    for (size_t j = 0; j < STATES; j++) {
      char path[128], from[128], what[100];
      (void)snprintf(path, sizeof path, "%s/pair", r->dir);
      assert_int_equal(mkdir(path, 0700), 0);
      state_path(r, i, from);
      copy_database(from, path, "catalog.sqlite");
      state_path(r, j, from);
      copy_database(from, path, "internal.sqlite");
      mix_files(r, path, constant, &j);
      (void)snprintf(what, sizeof what, "catalog at %lu, files at %lu", r->at[i], r->at[j]);
      replay_and_compare(r, path, what);
    }
  }
}

static size_t random_state(void *ctx) {
  return pick(ctx, STATES);
}

static void test_random_mixes(void **state) {
  struct recovery *r = *state;
  for (uint64_t seed = 1; seed <= MIXES; seed++) {
    char path[128], from[128], what[100];
    struct script random = {.random = seed * 77};
    (void)snprintf(path, sizeof path, "%s/mix", r->dir);
    assert_int_equal(mkdir(path, 0700), 0);
    size_t catalog = pick(&random, STATES), internal = pick(&random, STATES);
    state_path(r, catalog, from);
    copy_database(from, path, "catalog.sqlite");
    state_path(r, internal, from);
    copy_database(from, path, "internal.sqlite");
    mix_files(r, path, random_state, &random);
    (void)snprintf(what, sizeof what, "mix %lu: catalog at %lu, internal at %lu", seed, r->at[catalog],
                   r->at[internal]);
    replay_and_compare(r, path, what);
  }
}

static char *seed; // of the command line

static int setup_seeded(void **state) {
  *state = seed;
  return setup(state);
}

int main(int argc, char **argv) {
  seed = argc > 1 ? argv[1] : NULL;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_pair),
      cmocka_unit_test(test_random_mixes),
  };
  return cmocka_run_group_tests(tests, setup_seeded, teardown);
}
