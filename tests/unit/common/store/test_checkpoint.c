// Checkpoints under steady writes into a file in which an idle cursor stands: the WAL stays bounded, and the loop's
// thread never waits for the fsync of a database. (SQLite syncs the WAL's first block when it begins it anew: a small
// write, once a checkpoint.)
#include <pthread.h>
#include <sys/syscall.h>

#include "tests/unit/common/net/net_test.h"
#include "tests/unit/common/store/fixture.h"

enum { MIB = 1 << 20, WRITTEN = 150 };

static pthread_t loop_thread;
static bool watching;
static int loop_syncs, loop_wal_syncs, pool_syncs; // the pool's jobs are one after the other

// A WAL, or the directory that SQLite syncs with a new one.
static bool is_wal(int fd) {
  char link[40], path[300];
  struct stat st;
  if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) return true;
  (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path);
  return n > 4 && memcmp(path + n - 4, "-wal", 4) == 0;
}

static int note_sync(int fd, long call) {
  if (watching && !pthread_equal(pthread_self(), loop_thread)) {
    pool_syncs++;
  } else if (watching && is_wal(fd)) {
    loop_wal_syncs++;
  } else if (watching) {
    loop_syncs++;
  }
  return (int)syscall(call, fd);
}

int fsync(int fd) {
  return note_sync(fd, SYS_fsync);
}

int fdatasync(int fd) {
  return note_sync(fd, SYS_fdatasync);
}

struct writing {
  struct fixture *f;
  size_t largest_wal;
  bool done;
};

static void tick(struct operation *op, void *arg) {
  struct writing *w = arg;
  while (!w->done) {
    (void)op_sleep(op, 5, NULL);
    store_tick(op, w->f->s);
  }
}

// As a member applies: an entry of 256 KiB after the other, except while the store holds; others run in between.
static void write_much(struct operation *op, struct writing *w) {
  struct fixture *f = w->f;
  struct db *d = coll(f, UUID_A)->files[0]->handle->table.db;
  for (size_t i = 0; i < WRITTEN * 4; i++) {
    while (store_holds(f->s) || store_behind(f->s)) (void)op_sleep(op, 1, NULL);
    apply_quarter_mib(f);
    (void)op_sleep(op, 1, NULL);
    if (d->wal_bytes > w->largest_wal) w->largest_wal = d->wal_bytes;
  }
}

static void steady_writes(struct operation *op, void *arg) {
  struct writing w = {.f = arg};
  struct fixture *f = arg;
  loop_thread = pthread_self();
  f->s->limits =
      (struct db_limits){.commit_dirty = MIB, .checkpoint_wal = 5 * MIB, .wal = 60 * MIB, .checkpoint_again = 4 * MIB};
  struct arena *a = arena_new();
  struct scan *idle = idle_scan(f, a);
  struct scan_row row;
  EXPECT(idle != NULL);
  watching = true;
  (void)operation_start(op->loop, "tick", tick, &w);
  write_much(op, &w);
  watching = false;
  w.done = true;
  (void)op_sleep(op, 50, NULL);
  print_message("%d MiB: WAL up to %zu KiB; fsyncs: %d in the pool, in the loop %d of databases, %d of WALs\n", WRITTEN,
                w.largest_wal >> 10, pool_syncs, loop_syncs, loop_wal_syncs);
  EXPECT(pool_syncs > 0);
  EXPECT(loop_syncs == 0);
  EXPECT(loop_wal_syncs * 3 <= pool_syncs);
  EXPECT(w.largest_wal <= 50 * MIB);
  EXPECT(scan_next(idle, &row, NULL));
  arena_free(a);
}

static void test_steady_writes(void **state) {
  in_loop(steady_writes, *state);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_steady_writes, fixture_setup, fixture_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
