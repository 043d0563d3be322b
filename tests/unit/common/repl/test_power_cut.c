// The power goes at hundreds of random moments, and takes with it what was not fsynced, whole or in parts: the member
// always starts again, has everything that was acknowledged, and equals the model. Its recovery is cut as well.
//
// Arguments: seed, rounds.
#include "tests/unit/common/repl/power_cut.h"
#include "tests/unit/common/repl/script_member.h"

enum { ROUNDS = 8, CUTS = 30, ENTRIES_A_ROUND = 40 };

static uint64_t seed = 20240817;
static int rounds = ROUNDS;

struct place { // where the power goes
  size_t *events;
  size_t n;
};

static struct place places_of(const struct disk *d) {
  struct place p = {0};
  size_t cap = 0;
  for (size_t at = 0; at < d->used;) {
    const struct disk_event *e = (const struct disk_event *)(d->trace + at);
    p.events = array_grow(p.events, &cap, p.n + 1, sizeof *p.events);
    p.events[p.n++] = at;
    at += sizeof *e + ((e->len + 7) & ~(size_t)7);
  }
  return p;
}

static int by_size(const void *a, const void *b) {
  size_t x = *(const size_t *)a, y = *(const size_t *)b;
  return x < y ? -1 : x > y;
}

// Runs it, and shows the lines of a fault when it ends in another way than it should.
static void must_end_well(struct member_run *run, struct disk *d, const char *what, int round, int cut) {
  char name[] = "/tmp/power-cut-XXXXXX", line[4096];
  int output = mkstemp(name);
  assert_true(output >= 0 && unlink(name) == 0);
  int status = member_process(run, d, output);
  FILE *said = fdopen(output, "r");
  assert_non_null(said);
  rewind(said);
  while (status && fgets(line, sizeof line, said))
    if (line[0] != '{' || strstr(line, "\"s\":\"F\"")) print_error("%s", line);
  (void)fclose(said);
  if (status == 0) return;
  fail_msg("%s: status %d in round %d, cut %d, seed %lu: look at %s", what, status, round, cut, seed, run->dir);
}

struct progress {
  uint64_t acknowledged;
  size_t cuts, events;
};

// One run on `dir`, cut at CUTS places; one of what is found becomes `next`.
static void run_and_cut(struct disk *d, const struct script_model *model, const char *dir, const char *next, int round,
                        struct script *random, struct progress *p) {
  char image[120];
  (void)snprintf(image, sizeof image, "%s-cut", dir);
  struct cut *c = cut_new(dir, seed + (uint64_t)round);
  disk_reset(d);
  c->last_mark = p->acknowledged;
  struct member_run run = {.dir = dir, .model = model, .acknowledged = p->acknowledged, .seed = seed};
  run.until = p->acknowledged + ENTRIES_A_ROUND < SCRIPT_ENTRIES ? p->acknowledged + ENTRIES_A_ROUND : SCRIPT_ENTRIES;
  must_end_well(&run, d, "the run", round, -1);
  struct place all = places_of(d);
  size_t at[CUTS];
  for (int i = 0; i < CUTS; i++) at[i] = all.events[pick(random, (uint32_t)all.n)];
  qsort(at, CUTS, sizeof *at, by_size);
  int chosen = CUTS / 2 + (int)pick(random, CUTS / 2);
  for (int i = 0; i < CUTS; i++) {
    cut_advance(c, d, at[i]);
    uint64_t acknowledged = cut_power(c, i == chosen ? next : image);
    if (i == chosen) {
      p->acknowledged = acknowledged; // the next round looks at it
      continue;
    }
    struct member_run look = {.dir = image, .model = model, .acknowledged = acknowledged};
    must_end_well(&look, NULL, "a start", round, i);
    remove_tree(image);
  }
  p->cuts += CUTS;
  p->events += all.n;
  free(all.events);
  cut_free(c);
}

static void test_power_cuts(void **state) {
  char base[64], dir[2][80];
  (void)snprintf(base, sizeof base, "%s/power-cut-XXXXXX", base_folder());
  assert_non_null(mkdtemp(base));
  struct script_model *model = calloc(1, sizeof *model);
  (void)snprintf(dir[0], sizeof dir[0], "%s/model", base);
  assert_int_equal(mkdir(dir[0], 0700), 0);
  assert_true(disk_install());
  model_make(model, seed, dir[0]);
  struct disk *d = disk_new();
  assert_non_null(d);
  struct script random = {.random = seed};
  struct progress p = {0};
  for (int round = 0; round < rounds; round++) {
    if (round == 0 || p.acknowledged >= SCRIPT_ENTRIES - 1) { // from nothing
      p.acknowledged = 0;
      (void)snprintf(dir[0], sizeof dir[0], "%s/%d", base, round);
      assert_int_equal(mkdir(dir[0], 0700), 0);
    }
    (void)snprintf(dir[1], sizeof dir[1], "%s/%d", base, round + 1);
    run_and_cut(d, model, dir[0], dir[1], round, &random, &p);
    remove_tree(dir[0]);
    memcpy(dir[0], dir[1], sizeof dir[0]);
  }
  print_message("%zu power cuts in %d runs of %zu writes, syncs and names; seed %lu\n", p.cuts, rounds, p.events, seed);
  model_free(model);
  free(model);
  (void)munmap(d, sizeof *d);
  remove_tree(base);
}

int main(int argc, char **argv) {
  if (argc > 1) seed = strtoul(argv[1], NULL, 10);
  if (argc > 2) rounds = atoi(argv[2]);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_power_cuts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
