// The log on disk: what was reported durable is there after a restart, a kill -9 and a damaged end; replacing, cutting,
// snapshots.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/repl/log.h"

struct fixture {
  char dir[64];
  struct raft_log *log;
  size_t votes, appends, installs;
  struct event changed;
};

static void make_dir(struct fixture *f) {
  strcpy(f->dir, "/tmp/shardlet-log-XXXXXX");
  assert_non_null(mkdtemp(f->dir));
}

static void remove_dir(const char *dir) {
  static const char *const files[] = {"raft.sqlite", "raft.sqlite-wal", "raft.sqlite-shm"};
  char path[128];
  for (size_t i = 0; i < 3; i++) {
    (void)snprintf(path, sizeof path, "%s/%s", dir, files[i]);
    (void)unlink(path);
  }
  (void)rmdir(dir);
}

static void on_durable(void *ctx, size_t votes, size_t appends, bool installed) {
  struct fixture *f = ctx;
  f->votes += votes;
  f->appends += appends;
  f->installs += installed;
  event_signal(&f->changed);
}

static void open_log(struct operation *op, struct fixture *f, struct log_found *found) {
  struct error err;
  struct log_file *file = log_file_open(f->dir, &err);
  if (!file) fail_msg("%s", err.message);
  log_file_load(file, found);
  struct raft_log_events events = {f, on_durable};
  f->votes = f->appends = f->installs = 0;
  f->log = raft_log_new(op->loop, file, found, &events);
}

// What entry i of term t says; its length differs so that pages split and blobs overflow.
static struct entry *make_entry(uint64_t term, uint64_t index) {
  size_t len = 8 + (index * 7919) % (index % 10 ? 400 : 20000);
  uint8_t *data = malloc(len);
  memset(data, (int)(index + term), len);
  memcpy(data, &index, 8);
  struct entry *e = entry_new(ENTRY_COMMAND, term, data, len);
  free(data);
  return e;
}

static void put(struct fixture *f, uint64_t term, uint64_t index) {
  struct entry *e = make_entry(term, index);
  raft_log_append(f->log, index, &e, 1);
  entry_unref(e);
}

static void wait_appends(struct operation *op, struct fixture *f, size_t n) {
  while (f->appends < n) assert_true(event_wait(op, &f->changed, NULL));
}

static void check_entry(const struct entry *e, uint64_t term, uint64_t index) {
  struct entry *want = make_entry(term, index);
  assert_int_equal(e->term, term);
  assert_int_equal(e->len, want->len);
  assert_memory_equal(e->data, want->data, e->len);
  entry_unref(want);
}

static void check_range(struct operation *op, struct fixture *f, uint64_t from, uint64_t to, uint64_t term) {
  static struct entry *entries[64];
  for (uint64_t i = from; i <= to;) {
    size_t n = raft_log_read(op, f->log, i, 64, 1 << 20, entries);
    assert_true(n > 0);
    for (size_t k = 0; k < n; k++, i++) {
      if (i <= to) check_entry(entries[k], term, i);
      entry_unref(entries[k]);
    }
  }
}

// Runs a test in a loop's fiber.
struct test_run {
  void (*fn)(struct operation *op);
};

static void run_then_stop(struct operation *op, void *arg) {
  ((struct test_run *)arg)->fn(op);
  loop_stop(op->loop);
}

static void in_fiber(void (*fn)(struct operation *op)) {
  struct test_run r = {fn};
  struct loop *l = loop_new();
  (void)operation_start(l, "test", run_then_stop, &r);
  loop_run(l);
  loop_free(l);
}

static void restart(struct operation *op) {
  struct fixture f = {0};
  struct log_found found;
  make_dir(&f);
  open_log(op, &f, &found);
  assert_int_equal(found.state.term, 0);
  assert_int_equal(found.state.n, 0);
  assert_int_equal(raft_log_last(f.log), 0);
  log_found_free(&found);
  raft_log_vote(f.log, 3, 0xfedcba9876543210u);
  for (uint64_t i = 1; i <= 300; i++) put(&f, 3, i);
  assert_non_null(raft_log_get(f.log, 300));
  wait_appends(op, &f, 300);
  assert_int_equal(f.votes, 1);
  assert_int_equal(raft_log_durable(f.log), 300);
  raft_log_close(op, f.log);

  open_log(op, &f, &found);
  assert_int_equal(found.state.term, 3);
  assert_true(found.state.voted_for == 0xfedcba9876543210u);
  assert_int_equal(found.state.first, 1);
  assert_int_equal(found.state.n, 300);
  log_found_free(&found);
  assert_null(raft_log_get(f.log, 300));
  check_range(op, &f, 1, 300, 3);
  put(&f, 4, 201); // replaces 201..300
  put(&f, 4, 202);
  wait_appends(op, &f, 2);
  assert_int_equal(raft_log_last(f.log), 202);
  raft_log_close(op, f.log);

  open_log(op, &f, &found);
  assert_int_equal(found.state.n, 202);
  assert_int_equal(found.heads[199].term, 3);
  assert_int_equal(found.heads[200].term, 4);
  log_found_free(&found);
  check_range(op, &f, 1, 200, 3);
  check_range(op, &f, 201, 202, 4);
  raft_log_close(op, f.log);
  remove_dir(f.dir);
}

static struct entry *some_members(void) {
  struct members m = {0};
  members_add(&m, 5, "here:1", ROLE_VOTER);
  struct entry *e = members_encode(&m);
  members_free(&m);
  return e;
}

// What is kept of a log of large entries is told by their bytes, not by their number.
static void sizes_of_large_entries(struct operation *op) {
  enum { LARGE = 2 << 20, ENTRIES = 20 };
  struct fixture f = {0};
  struct log_found found;
  make_dir(&f);
  open_log(op, &f, &found);
  log_found_free(&found);
  void *data = calloc(1, LARGE);
  for (uint64_t i = 1; i <= ENTRIES; i++) {
    struct entry *e = entry_new(ENTRY_COMMAND, 1, data, LARGE);
    raft_log_append(f.log, i, &e, 1);
    entry_unref(e);
  }
  free(data);
  wait_appends(op, &f, ENTRIES);
  for (int opened = 0; opened < 2; opened++) {
    assert_int_equal(raft_log_tail(f.log, 5 * LARGE), ENTRIES - 5);
    assert_int_equal(raft_log_bytes_after(f.log, ENTRIES - 5), 5 * LARGE);
    raft_log_close(op, f.log);
    if (opened) break;
    open_log(op, &f, &found);
    log_found_free(&found);
  }
  remove_dir(f.dir);
}

static void snapshots(struct operation *op) {
  struct fixture f = {0};
  struct log_found found;
  make_dir(&f);
  open_log(op, &f, &found);
  log_found_free(&found);
  for (uint64_t i = 1; i <= 2000; i++) put(&f, 1, i);
  wait_appends(op, &f, 2000);
  uint64_t all = raft_log_bytes_after(f.log, 0), half = raft_log_tail(f.log, all / 2);
  assert_in_range(half, 700, 1300);
  assert_in_range(raft_log_bytes_after(f.log, half), all / 2 - all / 10, all / 2);
  struct entry *members = some_members();
  struct snapshot_mark mark = {.index = 1500, .term = 1, .configuration = members, .configuration_index = 1};
  raft_log_mark(f.log, &mark, 1401);
  assert_int_equal(raft_log_first(f.log), 1401);
  put(&f, 1, 2001);
  raft_log_close(op, f.log);

  open_log(op, &f, &found); // the cut may not be finished: what is left of it is dropped by the next snapshot
  assert_int_equal(found.state.snapshot.index, 1500);
  assert_int_equal(found.state.snapshot.configuration->len, members->len);
  assert_int_equal(found.state.first + found.state.n - 1, 2001);
  log_found_free(&found);
  mark.index = 1900;
  raft_log_mark(f.log, &mark, 1901);
  for (uint64_t i = 2002; i <= 2100; i++) {
    put(&f, 1, i);
    wait_appends(op, &f, (size_t)(i - 2001));
  }
  raft_log_close(op, f.log);
  open_log(op, &f, &found);
  assert_int_equal(found.state.first, 1901);
  assert_int_equal(found.state.n, 200);
  log_found_free(&found);

  mark.index = 5000;
  mark.term = 7;
  raft_log_install(f.log, &mark, NULL, NULL);
  put(&f, 8, 5001);
  wait_appends(op, &f, 1);
  assert_int_equal(f.installs, 1);
  raft_log_close(op, f.log);
  open_log(op, &f, &found);
  assert_int_equal(found.state.snapshot.term, 7);
  assert_int_equal(found.state.first, 5001);
  assert_int_equal(found.state.n, 1);
  log_found_free(&found);
  raft_log_close(op, f.log);
  entry_unref(members);
  remove_dir(f.dir);
}

// The last writes before a power cut may be half on the disk: what is read afterwards are whole batches from the
// beginning.
static void copy_damaged(const char *from, const char *to, const char *file, size_t damage_at) {
  char path[160];
  static uint8_t data[16 << 20];
  (void)snprintf(path, sizeof path, "%s/%s", from, file);
  FILE *in = fopen(path, "rb");
  if (!in) return;
  size_t n = fread(data, 1, sizeof data, in);
  (void)snprintf(path, sizeof path, "%s/%s", to, file);
  FILE *out = fopen(path, "wb");
  for (size_t i = damage_at; damage_at && i < damage_at + 64 && i < n; i++) data[i] ^= 0x5a;
  assert_int_equal(fwrite(data, 1, n, out), n);
  (void)fclose(in);
  (void)fclose(out);
}

static void damaged_end(struct operation *op) {
  struct fixture f = {0}, g = {0};
  struct log_found found;
  make_dir(&f);
  open_log(op, &f, &found);
  log_found_free(&found);
  for (uint64_t i = 1; i <= 60; i++) {
    put(&f, 2, i);
    wait_appends(op, &f, (size_t)i);
  }
  make_dir(&g);
  uint64_t lost = 0;
  for (size_t at = 40; at < 400000; at += 1 + random_u64() % 30000) {
    copy_damaged(f.dir, g.dir, "raft.sqlite", 0);
    copy_damaged(f.dir, g.dir, "raft.sqlite-wal", at);
    open_log(op, &g, &found);
    assert_true(found.state.n <= 60);
    lost += 60 - found.state.n;
    if (found.state.n) check_range(op, &g, 1, found.state.n, 2);
    log_found_free(&found);
    raft_log_close(op, g.log);
    remove_dir(g.dir);
    (void)mkdir(g.dir, 0700);
  }
  assert_true(lost > 0);
  raft_log_close(op, f.log);
  remove_dir(f.dir);
  remove_dir(g.dir);
}

// kill -9 of a process that appends: everything it was told to be durable is there.
static void child_writes(struct operation *op, struct fixture *f, volatile uint64_t *acknowledged) {
  struct log_found found;
  open_log(op, f, &found);
  log_found_free(&found);
  uint64_t first = raft_log_last(f->log) + 1;
  for (uint64_t i = first;; i++) {
    put(f, 1, i);
    if (i % 3) wait_appends(op, f, (size_t)(i - first + 1));
    if (raft_log_durable(f->log) > *acknowledged) *acknowledged = raft_log_durable(f->log);
  }
}

static struct fixture *child_fixture;
static volatile uint64_t *child_acknowledged;

static void child(struct operation *op) {
  child_writes(op, child_fixture, child_acknowledged);
}

static void check_after_kill(struct operation *op) {
  struct log_found found;
  open_log(op, child_fixture, &found);
  assert_true(raft_log_last(child_fixture->log) >= *child_acknowledged);
  if (found.state.n) check_range(op, child_fixture, 1, found.state.n, 1);
  log_found_free(&found);
  raft_log_close(op, child_fixture->log);
}

static void test_killed(void **state) {
  struct fixture f = {0};
  make_dir(&f);
  child_fixture = &f;
  child_acknowledged = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  for (int round = 0; round < 15; round++) {
    pid_t pid = fork();
    if (!pid) {
      in_fiber(child);
      _exit(0);
    }
    uint64_t before = *child_acknowledged;
    for (int ms = 0; round % 4 && ms < 10000 && *child_acknowledged == before; ms++) (void)usleep(1000);
    (void)usleep((unsigned)(random_u64() % 20000)); // one in four while it opens, the others while it writes
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    in_fiber(check_after_kill);
  }
  assert_true(*child_acknowledged > 10);
  (void)munmap((void *)child_acknowledged, 4096);
  remove_dir(f.dir);
}

static void test_restart(void **state) {
  in_fiber(restart);
}

static void test_large_entries(void **state) {
  in_fiber(sizes_of_large_entries);
}

static void test_snapshots(void **state) {
  in_fiber(snapshots);
}

static void test_damaged_end(void **state) {
  in_fiber(damaged_end);
}

static void test_refused(void **state) {
  struct error err;
  assert_null(log_file_open("/tmp/shardlet-no-such-directory", &err));
  assert_non_null(strstr(err.message, "/tmp/shardlet-no-such-directory/raft.sqlite"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_killed), // forks: before this process has a thread pool
      cmocka_unit_test(test_restart),     cmocka_unit_test(test_snapshots), cmocka_unit_test(test_large_entries),
      cmocka_unit_test(test_damaged_end), cmocka_unit_test(test_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
