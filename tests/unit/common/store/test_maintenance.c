// Commits, checkpoints and snapshots: the WAL stays bounded under steady writes with an idle cursor, and a snapshot is
// durable.
#include <sys/wait.h>

#include "tests/unit/common/net/net_test.h"
#include "tests/unit/common/store/fixture.h"

enum { MIB = 1 << 20 };

static size_t wal_size(const struct db *d) {
  char name[300];
  (void)snprintf(name, sizeof name, "%s-wal", d->path);
  struct stat st;
  return stat(name, &st) == 0 ? (size_t)st.st_size : 0;
}

// Writes `mib` MiB, an entry of 256 KiB after the other, and returns the largest size the WAL had.
static size_t write_much(struct operation *op, struct fixture *f, size_t mib, bool tick) {
  struct db *d = coll(f, UUID_A)->files[0]->handle->table.db;
  size_t largest = 0;
  for (size_t i = 0; i < mib * 4; i++) {
    apply_quarter_mib(f);
    if (tick && i % 4 == 0) store_tick(op, f->s);
    if (wal_size(d) > largest) largest = wal_size(d);
  }
  return largest;
}

static void use_small_limits(struct fixture *f) {
  f->s->limits =
      (struct db_limits){.commit_dirty = MIB, .checkpoint_wal = 4 * MIB, .wal = 9 * MIB, .checkpoint_again = 2 * MIB};
}

static void bounded_wal(struct operation *op, void *arg) {
  struct fixture *f = arg;
  use_small_limits(f);
  struct arena *a = arena_new();
  struct scan *idle = idle_scan(f, a);
  struct scan_row row;
  EXPECT(idle != NULL);
  size_t largest = write_much(op, f, 60, true);
  if (largest > 8 * MIB) (void)fprintf(stderr, "with ticks: %zu\n", largest);
  EXPECT(largest <= 8 * MIB);
  // Without anybody's tick the loop's own checkpoint bounds it.
  largest = write_much(op, f, 60, false);
  if (largest > 12 * MIB) (void)fprintf(stderr, "without ticks: %zu\n", largest);
  EXPECT(largest <= 12 * MIB);
  scan_save(idle);
  EXPECT(scan_next(idle, &row, NULL));
  arena_free(a);
}

static void test_bounded_wal(void **state) {
  in_loop(bounded_wal, *state);
}

// Another process opens and reads the files all the time, as a curious person with `sqlite3` does. (This program again:
// a mere fork would share SQLite's idea of which locks the process has.)
static int read_from_outside(const char *path) {
  for (int i = 0; i < 100; i++) {
    sqlite3 *sql = NULL;
    if (sqlite3_open_v2(path, &sql, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK) return 1;
    sqlite3_busy_timeout(sql, 10000);
    if (sqlite3_exec(sql, "SELECT count(*) FROM documents", NULL, NULL, NULL) != SQLITE_OK) return 2;
    if (sqlite3_close(sql) != SQLITE_OK) return 3;
    usleep(1000);
  }
  return 0;
}

static void readers_outside(struct operation *op, void *arg) {
  struct fixture *f = arg;
  use_small_limits(f);
  create(f, UUID_A, "db.a", 1, "{}", "[]");
  (void)write_much(op, f, 1, true);
  struct db *d = coll(f, UUID_A)->files[0]->handle->table.db;
  store_commit_all(f->s);
  pid_t pid = fork();
  if (pid == 0) {
    (void)execl("/proc/self/exe", "outside", d->path, NULL);
    _exit(9);
  }
  (void)write_much(op, f, 60, true);
  int status;
  EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
  (void)write_much(op, f, 10, true);
  EXPECT(write_much(op, f, 10, true) <= 12 * MIB); // whatever their reading has held up is over
  sqlite3_stmt *q = db_prepare(d, "PRAGMA quick_check");
  EXPECT(db_step(d, q) && strcmp((const char *)sqlite3_column_text(q, 0), "ok") == 0);
  sqlite3_finalize(q);
}

static void test_readers_outside(void **state) {
  in_loop(readers_outside, *state);
}

static void commits_by_time(struct operation *op, void *arg) {
  struct fixture *f = arg;
  create(f, UUID_A, "db.a", 1, "{}", "[]");
  struct db *d = coll(f, UUID_A)->files[0]->handle->table.db;
  store_commit_all(f->s);
  EXPECT(d->txn == DB_IDLE);
  put(f, UUID_A, 1, 1, "{\"_id\": 1}");
  EXPECT(d->txn == DB_WRITE);
  store_commit_due(f->s, clock_mono_ms());
  EXPECT(d->txn == DB_WRITE); // not yet
  store_commit_due(f->s, clock_mono_ms() + DB_COMMIT_MS);
  EXPECT(d->txn == DB_IDLE);
  EXPECT(has_id(f, UUID_A, 1, 1, 1)); // reading begins a transaction, too
  EXPECT(d->txn == DB_READ);
  store_tick(op, f->s);
  EXPECT(d->txn == DB_IDLE);
}

static void test_commits_by_time(void **state) {
  in_loop(commits_by_time, *state);
}

static void removes_files(struct operation *op, void *arg) {
  struct fixture *f = arg;
  create(f, UUID_A, "db.a", 1, "{}", "[]");
  put(f, UUID_A, 1, 1, "{\"_id\": 1}");
  char *path = file_path(f->s, UUID_A, "1.sqlite"), *folder = file_path(f->s, UUID_A, "");
  change_drop(f->list, UUID_A);
  apply(f);
  EXPECT(access(path, F_OK) == 0); // the catalog still has it, on disk
  store_tick(op, f->s);
  EXPECT(access(path, F_OK) != 0);
  EXPECT(access(folder, F_OK) != 0);
  free(path);
  free(folder);
}

static void test_removes_files(void **state) {
  in_loop(removes_files, *state);
}

// Closed databases leave their WAL behind; a tick copies it.
static void closed_wals(struct operation *op, void *arg) {
  struct fixture *f = arg;
  f->s->max_open = 2;
  create(f, UUID_A, "db.a", 1, "{\"_id\": 1}", "[]");
  for (uint32_t n = 2; n <= 6; n++) {
    change_file(f->list, UUID_A, n, num(f, (int)n), num(f, (int)n + 1));
    change_adopt(f->list, UUID_A, n, num(f, (int)n), num(f, (int)n + 1));
    apply(f);
    put(f, UUID_A, n, n, arena_printf(f->a, "{\"_id\": %u}", n));
  }
  struct db *d = coll(f, UUID_A)->files[1]->handle->table.db;
  EXPECT(!d->sql);
  EXPECT(wal_size(d) > 0);
  store_tick(op, f->s);
  EXPECT(wal_size(d) == 0);
  for (int32_t n = 2; n <= 6; n++) EXPECT(has_id(f, UUID_A, n, (uint32_t)n, n));
}

static void test_closed_wals(void **state) {
  in_loop(closed_wals, *state);
}

static void snapshot_and_die(struct operation *op, void *arg) {
  struct fixture *f = arg;
  create(f, UUID_A, "db.a", 1, "{}", "[]");
  put(f, UUID_A, 1, 1, "{\"_id\": 1}");
  EXPECT(store_snapshot(op, f->s) == f->index);
  put(f, UUID_A, 1, 2, "{\"_id\": 2}");
  store_commit_all(f->s);
  _exit(failures);
}

static void test_snapshot(void **state) {
  struct fixture *f = *state;
  store_close(f->s);
  pid_t pid = fork();
  if (pid == 0) {
    f->s = open_at(f->dir);
    store_replay_done(f->s);
    in_loop(snapshot_and_die, f);
    _exit(1);
  }
  int status;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_int_equal(status, 0);
  f->s = open_at(f->dir);
  assert_int_equal(store_applied(f->s), 2);       // the snapshot: replay begins behind it
  assert_int_equal(store_replay_target(f->s), 3); // but the file has more
  f->index = 2;
  put(f, UUID_A, 1, 2, "{\"_id\": 2}");
  store_replay_done(f->s);
  assert_true(has_id(f, UUID_A, 2, 1, 2));
  assert_int_equal(coll(f, UUID_A)->files[0]->count, 2);
  assert_true(store_free_bytes(f->s) > 0);
}

int main(int argc, char **argv) {
  if (argc > 1) return read_from_outside(argv[1]);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_bounded_wal, fixture_setup, fixture_teardown),
      cmocka_unit_test_setup_teardown(test_readers_outside, fixture_setup, fixture_teardown),
      cmocka_unit_test_setup_teardown(test_commits_by_time, fixture_setup, fixture_teardown),
      cmocka_unit_test_setup_teardown(test_removes_files, fixture_setup, fixture_teardown),
      cmocka_unit_test_setup_teardown(test_closed_wals, fixture_setup, fixture_teardown),
      cmocka_unit_test_setup_teardown(test_snapshot, fixture_setup, fixture_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
