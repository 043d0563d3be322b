// Disk limits: an fdatasync, rows straight into SQLite, rows copied from file to file.
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/bench/client.h"
#include "tests/bench/limits.h"

enum { DOCUMENT_BYTES = 277, KEY_BYTES = 10, PER_TRANSACTION = 20000 };

static void folder_path(char to[512], const char *folder, const char *name) {
  (void)snprintf(to, 512, "%s/%s", folder, name);
}

enum { SYNC_BYTES = 4096 };

int sync_file_open(const char *folder, int pages) {
  char path[512], page[SYNC_BYTES] = {1};
  folder_path(path, folder, "limit-fdatasync");
  int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) give_up("cannot write to %s", folder);
  for (int i = 0; i < pages; i++) write_all(fd, page, sizeof page); // allocated before: only data is synced
  (void)fsync(fd);
  (void)unlink(path);
  return fd;
}

void sync_file_write(int fd, int page) {
  char bytes[SYNC_BYTES] = {2};
  if (pwrite(fd, bytes, sizeof bytes, (off_t)page * SYNC_BYTES) != SYNC_BYTES || fdatasync(fd))
    give_up("fdatasync failed");
}

double limit_fdatasync_us(const char *folder, int rounds) {
  int fd = sync_file_open(folder, rounds);
  double *times = calloc((size_t)rounds, sizeof *times);
  for (int i = 0; i < rounds; i++) {
    double start = now_us();
    sync_file_write(fd, i);
    times[i] = now_us() - start;
  }
  (void)close(fd);
  double result = median(times, (size_t)rounds);
  free(times);
  return result;
}

static void run(sqlite3 *db, const char *sql) {
  if (sqlite3_exec(db, sql, NULL, NULL, NULL) != SQLITE_OK) give_up("%s: %s", sql, sqlite3_errmsg(db));
}

static sqlite3 *open_rows(const char *path) {
  sqlite3 *db;
  (void)unlink(path);
  if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK) {
    give_up("cannot open %s", path);
  }
  run(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=0; PRAGMA cache_size=-65536;"
          "CREATE TABLE documents(rid INTEGER PRIMARY KEY, doc BLOB);"
          "CREATE TABLE index_0(key BLOB, rid INTEGER, PRIMARY KEY(key)) WITHOUT ROWID;"
          "CREATE TABLE index_1(key BLOB, rid INTEGER, PRIMARY KEY(key, rid)) WITHOUT ROWID;");
  return db;
}

struct inserter {
  sqlite3_stmt *document, *by_id, *by_key;
};

static sqlite3_stmt *prepare(sqlite3 *db, const char *sql) {
  sqlite3_stmt *s;
  if (sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, &s, NULL) != SQLITE_OK)
    give_up("%s: %s", sql, sqlite3_errmsg(db));
  return s;
}

static struct inserter inserter_of(sqlite3 *db) {
  return (struct inserter){
      prepare(db, "INSERT INTO documents(rid, doc) VALUES(?1, ?2)"),
      prepare(db, "INSERT INTO index_0(key, rid) VALUES(?1, ?2)"),
      prepare(db, "INSERT INTO index_1(key, rid) VALUES(?1, ?2)"),
  };
}

static void inserter_end(struct inserter *i) {
  (void)sqlite3_finalize(i->document);
  (void)sqlite3_finalize(i->by_id);
  (void)sqlite3_finalize(i->by_key);
}

static void step(sqlite3_stmt *s) {
  if (sqlite3_step(s) != SQLITE_DONE) give_up("an insert failed: %s", sqlite3_errmsg(sqlite3_db_handle(s)));
  (void)sqlite3_reset(s);
}

static void insert_row(struct inserter *i, sqlite3_int64 rid, const void *doc) {
  uint8_t id[13] = {37}, key[KEY_BYTES] = {15};
  for (int b = 0; b < 8; b++) {
    id[1 + b] = (uint8_t)(rid >> (56 - 8 * b));                                             // ObjectIds grow
    key[1 + b] = (uint8_t)(((uint64_t)rid * UINT64_C(0x9E3779B97F4A7C15)) >> (56 - 8 * b)); // keys do not
  }
  (void)sqlite3_bind_int64(i->document, 1, rid);
  (void)sqlite3_bind_blob(i->document, 2, doc, DOCUMENT_BYTES, SQLITE_STATIC);
  step(i->document);
  (void)sqlite3_bind_blob(i->by_id, 1, id, sizeof id, SQLITE_STATIC);
  (void)sqlite3_bind_int64(i->by_id, 2, rid);
  step(i->by_id);
  (void)sqlite3_bind_blob(i->by_key, 1, key, sizeof key, SQLITE_STATIC);
  (void)sqlite3_bind_int64(i->by_key, 2, rid);
  step(i->by_key);
}

static void insert_rows(sqlite3 *db, int rows) {
  struct inserter i = inserter_of(db);
  char doc[DOCUMENT_BYTES] = {0};
  run(db, "BEGIN");
  for (int n = 1; n <= rows; n++) {
    memcpy(doc, &n, sizeof n);
    insert_row(&i, n, doc);
    if (n % PER_TRANSACTION == 0) run(db, "COMMIT; BEGIN");
  }
  run(db, "COMMIT");
  inserter_end(&i);
}

double limit_sqlite_rows_per_s(const char *folder, int rows) {
  char path[512];
  folder_path(path, folder, "limit-rows.sqlite");
  sqlite3 *db = open_rows(path);
  double start = now_us();
  insert_rows(db, rows);
  double seconds = (now_us() - start) / 1e6;
  (void)sqlite3_close(db);
  (void)unlink(path);
  return rows / seconds;
}

double limit_sqlite_copy_s(const char *folder, int rows) {
  char from_path[512], to_path[512];
  folder_path(from_path, folder, "limit-from.sqlite");
  folder_path(to_path, folder, "limit-to.sqlite");
  sqlite3 *from = open_rows(from_path), *to = open_rows(to_path);
  insert_rows(from, rows);
  double start = now_us();
  struct inserter i = inserter_of(to);
  sqlite3_stmt *read = prepare(from, "SELECT rid, doc FROM documents ORDER BY rid");
  run(to, "BEGIN");
  int n = 0;
  while (sqlite3_step(read) == SQLITE_ROW) {
    insert_row(&i, sqlite3_column_int64(read, 0), sqlite3_column_blob(read, 1));
    if (++n % PER_TRANSACTION == 0) run(to, "COMMIT; BEGIN");
  }
  run(to, "COMMIT");
  double seconds = (now_us() - start) / 1e6;
  (void)sqlite3_finalize(read);
  inserter_end(&i);
  (void)sqlite3_close(from);
  (void)sqlite3_close(to);
  (void)unlink(from_path);
  (void)unlink(to_path);
  return seconds;
}
