// Frames of a write-ahead log: fewer writes, the same file, and nothing stays behind in memory.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <sqlite3.h>

#include "common/store/wal_vfs.h"

enum { HEADER = 24, PAGE = 4096, FRAME = HEADER + PAGE, FIRST = 32 };

struct fixture {
  char database[64], path[80]; // SQLite's own VFS takes a log's permissions from its database
  sqlite3_vfs *vfs;
  sqlite3_file *wal;
  unsigned char header[HEADER], page[PAGE];
};

static int setup(void **state) {
  struct fixture *f = calloc(1, sizeof *f);
  (void)snprintf(f->database, sizeof f->database, "/tmp/shardlet-XXXXXX");
  (void)close(mkstemp(f->database));
  (void)snprintf(f->path, sizeof f->path, "%s-wal", f->database);
  f->vfs = sqlite3_vfs_find(wal_vfs());
  assert_non_null(f->vfs);
  f->wal = calloc(1, (size_t)f->vfs->szOsFile);
  int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_WAL, got;
  assert_int_equal(f->vfs->xOpen(f->vfs, f->path, f->wal, flags, &got), SQLITE_OK);
  memset(f->header, 'h', sizeof f->header);
  memset(f->page, 'p', sizeof f->page);
  *state = f;
  return 0;
}

static int teardown(void **state) {
  struct fixture *f = *state;
  if (f->wal->pMethods) (void)f->wal->pMethods->xClose(f->wal);
  (void)unlink(f->path);
  (void)unlink(f->database);
  free(f->wal);
  free(f);
  return 0;
}

static void put(struct fixture *f, const void *data, int n, sqlite3_int64 at) {
  assert_int_equal(f->wal->pMethods->xWrite(f->wal, data, n, at), SQLITE_OK);
}

// The file as everybody else sees it.
static size_t seen(const struct fixture *f, unsigned char *to, size_t size) {
  FILE *file = fopen(f->path, "rb");
  size_t n = fread(to, 1, size, file);
  (void)fclose(file);
  return n;
}

static void frames_are_written_when_their_page_is(void **state) {
  struct fixture *f = *state;
  unsigned char got[FIRST + 2 * FRAME + 1];
  put(f, f->header, HEADER, FIRST);
  assert_int_equal(seen(f, got, sizeof got), 0);
  put(f, f->page, PAGE, FIRST + HEADER);
  assert_int_equal(seen(f, got, sizeof got), FIRST + FRAME);
  put(f, f->header, HEADER, FIRST + FRAME);
  put(f, f->page, PAGE, FIRST + FRAME + HEADER);
  assert_int_equal(seen(f, got, sizeof got), FIRST + 2 * FRAME);
  for (int i = 0; i < 2; i++) {
    assert_memory_equal(got + FIRST + i * FRAME, f->header, HEADER);
    assert_memory_equal(got + FIRST + i * FRAME + HEADER, f->page, PAGE);
  }
}

static void headers_do_not_wait_for_anything_else(void **state) {
  struct fixture *f = *state;
  unsigned char got[FIRST + 3 * FRAME];
  sqlite3_int64 size = 0;
  put(f, f->header, HEADER, FIRST);
  put(f, f->header, HEADER, FIRST + FRAME); // not its page
  assert_int_equal(seen(f, got, sizeof got), FIRST + HEADER);
  assert_int_equal(f->wal->pMethods->xFileSize(f->wal, &size), SQLITE_OK);
  assert_int_equal(size, FIRST + FRAME + HEADER);
  put(f, f->header, HEADER, FIRST);
  assert_int_equal(f->wal->pMethods->xRead(f->wal, got, HEADER, FIRST), SQLITE_OK);
  put(f, f->header, HEADER, FIRST);
  assert_int_equal(f->wal->pMethods->xTruncate(f->wal, FIRST), SQLITE_OK);
  assert_int_equal(seen(f, got, sizeof got), FIRST);
  put(f, f->header, HEADER, FIRST);
  assert_int_equal(f->wal->pMethods->xSync(f->wal, SQLITE_SYNC_NORMAL), SQLITE_OK);
  assert_int_equal(seen(f, got, sizeof got), FIRST + HEADER);
  put(f, f->header, HEADER, FIRST + FRAME);
  assert_int_equal(f->wal->pMethods->xClose(f->wal), SQLITE_OK);
  f->wal->pMethods = NULL;
  assert_int_equal(seen(f, got, sizeof got), FIRST + FRAME + HEADER);
}

static void other_writes_go_through(void **state) {
  struct fixture *f = *state;
  unsigned char got[2 * PAGE + FIRST];
  put(f, f->page, FIRST, 0); // the log's own header
  assert_int_equal(seen(f, got, sizeof got), FIRST);
  put(f, f->page, HEADER, 0); // 24 bytes, but no frame's
  put(f, f->header, HEADER, FIRST);
  put(f, f->page, 100, FIRST + HEADER); // part of a page: SQLite cuts one where a sync point lies
  assert_int_equal(seen(f, got, sizeof got), FIRST + HEADER + 100);
}

static void a_database_is_the_same_for_everybody(void **state) {
  struct fixture *f = *state;
  char path[80], wal[90];
  (void)snprintf(path, sizeof path, "%s-db", f->database);
  sqlite3 *ours, *theirs;
  sqlite3_stmt *count;
  assert_int_equal(sqlite3_open_v2(path, &ours, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, wal_vfs()), SQLITE_OK);
  assert_int_equal(sqlite3_exec(ours, "PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0; CREATE TABLE t (x)",
                                NULL, NULL, NULL),
                   SQLITE_OK);
  assert_int_equal(sqlite3_exec(ours,
                                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 5000)"
                                "INSERT INTO t SELECT randomblob(100) FROM n",
                                NULL, NULL, NULL),
                   SQLITE_OK);
  assert_int_equal(sqlite3_open_v2(path, &theirs, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
  assert_int_equal(sqlite3_prepare_v2(theirs, "SELECT count(*) FROM t", -1, &count, NULL), SQLITE_OK);
  assert_int_equal(sqlite3_step(count), SQLITE_ROW);
  assert_int_equal(sqlite3_column_int(count, 0), 5000);
  sqlite3_finalize(count);
  assert_int_equal(sqlite3_close(theirs), SQLITE_OK);
  assert_int_equal(sqlite3_close(ours), SQLITE_OK);
  (void)unlink(path);
  (void)snprintf(wal, sizeof wal, "%s-wal", path);
  assert_int_not_equal(access(wal, F_OK), 0); // the last one to close has emptied it
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(frames_are_written_when_their_page_is, setup, teardown),
      cmocka_unit_test_setup_teardown(headers_do_not_wait_for_anything_else, setup, teardown),
      cmocka_unit_test_setup_teardown(other_writes_go_through, setup, teardown),
      cmocka_unit_test_setup_teardown(a_database_is_the_same_for_everybody, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
