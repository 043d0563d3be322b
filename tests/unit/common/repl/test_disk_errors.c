// The n-th write (or sync) of a member's disk fails, and all after it: the process ends with one clear line and a
// non-zero exit, whichever file it was and whatever it was doing. Without the fault it starts again, and has everything
// that was acknowledged.
#include "tests/unit/common/repl/script_member.h"

#include "common/base/log.h"

enum { ATTEMPTS = 24, FATAL_EXIT = 14, LINES_BYTES = 64 << 10, NO_LINE = -1 };

static const int codes[] = {SQLITE_FULL, SQLITE_IOERR_WRITE};

static char *lines_of(int fd) {
  char *text = calloc(1, LINES_BYTES);
  assert_non_null(text);
  assert_true(lseek(fd, 0, SEEK_SET) == 0);
  assert_true(read(fd, text, LINES_BYTES - 1) >= 0);
  return text;
}

// One line says which file it is and what is the matter: in the log, or (of a start that is refused) as the error.
static void check_line(const char *text, bool fatal, int64_t n) {
  const char *line = strstr(text, "\"s\":\"F\"");
  if (fatal != (line != NULL) || (line && strstr(line + 1, "\"s\":\"F\""))) fail_msg("write %ld: %s", n, text);
  const char *file = strstr(line ? line : text, ".sqlite");
  if (!file || (!strstr(file, "full") && !strstr(file, "I/O error"))) fail_msg("write %ld: %s", n, text);
}

static uint64_t last_mark(const struct disk *d) {
  uint64_t last = 0;
  for (size_t at = 0; at < d->used;) {
    const struct disk_event *e = (const struct disk_event *)(d->trace + at);
    if (e->kind == DISK_MARK) last = e->offset;
    at += sizeof *e + ((e->len + 7) & ~(size_t)7);
  }
  return last;
}

struct trial {
  char dir[100];
  struct script_model *model;
  struct disk *disk;
};

static void must_end_well(struct member_run *run, struct disk *d) {
  int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  assert_int_equal(member_process(run, d, nowhere), 0);
  (void)close(nowhere);
}

static void try_to_fail_at(struct trial *t, int64_t n, int code, int64_t *ended) {
  char name[] = "/tmp/disk-errors-XXXXXX";
  int output = mkstemp(name);
  assert_true(output >= 0 && unlink(name) == 0);
  assert_int_equal(mkdir(t->dir, 0700), 0);
  disk_reset(t->disk);
  t->disk->fail_from = n;
  t->disk->fail_code = code;
  struct member_run run = {.dir = t->dir, .model = t->model, .until = SCRIPT_ENTRIES / 2, .seed = (uint64_t)n};
  int status = member_process(&run, t->disk, output);
  char *text = lines_of(output);
  (void)close(output);
  assert_true(WIFEXITED(status));
  int exit_code = WEXITSTATUS(status);
  if (exit_code != 0) check_line(text, exit_code == FATAL_EXIT, n); // or the run was over before
  *ended += exit_code == FATAL_EXIT;
  free(text);
  struct member_run again = {.dir = t->dir, .model = t->model, .acknowledged = last_mark(t->disk)};
  must_end_well(&again, NULL);
  remove_tree(t->dir);
}

// How many writes a run up to this entry makes.
static int64_t writes_until(struct trial *t, uint64_t entry) {
  assert_int_equal(mkdir(t->dir, 0700), 0);
  disk_reset(t->disk);
  struct member_run run = {.dir = t->dir, .model = t->model, .until = entry, .seed = 1};
  must_end_well(&run, t->disk);
  remove_tree(t->dir);
  return t->disk->writes;
}

static void test_every_write(void **state) {
  char base[64];
  struct trial t = {.model = calloc(1, sizeof *t.model)};
  (void)snprintf(base, sizeof base, "%s/disk-errors-XXXXXX", base_folder());
  assert_non_null(mkdtemp(base));
  (void)snprintf(t.dir, sizeof t.dir, "%s/model", base);
  assert_int_equal(mkdir(t.dir, 0700), 0);
  assert_true(disk_install());
  model_make(t.model, 4242, t.dir);
  (void)snprintf(t.dir, sizeof t.dir, "%s/member", base);
  t.disk = disk_new();
  assert_non_null(t.disk);
  int64_t first = writes_until(&t, 1), all = writes_until(&t, SCRIPT_ENTRIES / 2), ended = 0;
  assert_true(first > 1000); // the log's first megabytes and the store's files are among them
  struct script random = {.random = (uint64_t)all};
  for (int i = 0; i < ATTEMPTS; i++) { // most of them after its start
    int64_t from = i % 4 ? first : 1;
    try_to_fail_at(&t, from + pick(&random, (uint32_t)(all - from)), codes[i % 2], &ended);
  }
  print_message("%d faults at one of %ld writes and syncs (%ld up to the first entry), %ld ended the process\n",
                ATTEMPTS, all, first, ended);
  assert_true(ended > ATTEMPTS / 4);
  (void)munmap(t.disk, sizeof *t.disk);
  model_free(t.model);
  free(t.model);
  remove_tree(base);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_write)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
