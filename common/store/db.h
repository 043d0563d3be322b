// One SQLite database file of the store: how it is opened, its one transaction, its statements, and what happens on
// errors.
//
// All of it belongs to the loop's thread, on one connection a file. Reads and writes happen inside a transaction that
// stays open over many log entries: a read outside of one costs 4 us more (two locks and the WAL's index). Whoever is
// going to read or write calls db_read() or db_write() first; store_tick() ends transactions.
//
// An error of SQLite ends the process: a full disk or an I/O error rolls back the whole open transaction, and with it
// entries that were answered already. The log has them, and the next start applies them again.
#ifndef SHARDLET_STORE_DB_H
#define SHARDLET_STORE_DB_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <bson/bson.h>

#include "common/base/error.h"
#include "common/bson/key.h"

enum db_transaction { DB_IDLE, DB_READ, DB_WRITE };

enum { DB_COMMIT_MS = 1000 }; // a transaction as old as this is committed

struct db_limits {     // bytes
  size_t commit_dirty; // a transaction with as much of changes is committed
  // A checkpoint begins when the WAL is this large. What is written while the pool copies it (up to 50 MB in the second
  // that may take) has to fit below 100 MB with it.
  size_t checkpoint_wal;
  size_t wal;              // past this, the loop checkpoints by itself right after a commit, however long that takes
  size_t checkpoint_again; // after a checkpoint that could not copy all, when the WAL has grown by this
};
extern const struct db_limits db_default_limits;

struct db;
struct db_owner {
  void (*before_commit)(void *owner); // writes what it keeps in memory (counters, definitions)
  void (*closing)(void *owner);       // finalizes its statements
};

struct db {
  char *path;
  sqlite3 *sql;     // NULL = closed
  bool missing;     // there is no such file (yet)
  uint64_t applied; // the last entry that is in it, the open transaction included
  uint64_t entry;   // the entry that is being applied to it (0 = none): `applied` once that is complete
  enum db_transaction txn;
  int64_t since_ms;   // when the transaction began to write
  size_t dirty_bytes; // what it wrote, estimated
  size_t wal_bytes;   // what of the WAL is not known to be in the file, as of the last commit
  size_t wal_tried;   // what it was when a checkpoint could not copy all (somebody outside reads); 0 = it could
  int64_t file_bytes; // as of the last commit: pages of the database, WAL included
  bool fresh;         // made, and never fsynced itself: the next snapshot does (sync.c)
  bool unsynced;      // committed since the WAL was last fsynced
  bool named;         // the directory was fsynced since the file and its WAL were made
  bool last_pass;     // the checkpoint is about to end, if nothing much comes in
  bool checkpointing; // a thread of the pool is at it
  unsigned pins;      // may not be closed: a job in the pool, an active scan
  uint64_t uses;      // since the cache was last distributed; halved then
  size_t cache_bytes; // its share
  sqlite3_stmt *begin, *commit, *set_meta, *get_meta, *page_count;
  const struct db_limits *limits;
  const struct db_owner *owner_ops;
  void *owner;
  struct db *next, *prev;   // all of the store's
  struct db *newer, *older; // open ones, by last use; the catalog and internal.sqlite are not among them
};

// false: err says what is wrong with the path; `missing` is set instead when the file is not there and create is false,
// or when it has no meta table (a creation that a crash ended). With create the file and its meta table are made.
bool db_open(struct db *d, bool create, struct error *err);
void db_close(struct db *d, bool checkpoint); // commits; without checkpoint the WAL stays beside the file
void db_free(struct db *d);                   // of a closed one: what it owns, not the struct

void db_read(struct db *d);
void db_write(struct db *d);
void db_commit(struct db *d); // ends the transaction, if one is open
bool db_due(const struct db *d, int64_t now_ms);
// Copies the WAL into the file, as far as it goes; with no transaction open, and no reader outside, that is all of it.
void db_checkpoint(struct db *d);
bool db_wal_past(const struct db *d, size_t limit);
void db_set_cache(struct db *d, size_t bytes);

// Statements live until the connection is closed. The text is trusted.
sqlite3_stmt *db_prepare(struct db *d, const char *sql) __attribute__((nonnull));
sqlite3_stmt *db_preparef(struct db *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void db_exec(struct db *d, const char *sql);
void db_execf(struct db *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
// Prepares, binds and runs a statement once. types: i int64_t, t const char *, k struct key, d const bson_t *.
void db_do(struct db *d, const char *sql, const char *types, ...);
bool db_step(struct db *d, sqlite3_stmt *s); // true: a row
void db_run(struct db *d, sqlite3_stmt *s);  // to its end, then resets it
// As db_run, for an INSERT: false when the row's key is there already.
bool db_run_unique(struct db *d, sqlite3_stmt *s);

void bind_blob(sqlite3_stmt *s, int n, const void *data, size_t len); // must stay valid until the statement is reset
void bind_key(sqlite3_stmt *s, int n, struct key k);
struct key column_key(sqlite3_stmt *s, int n); // valid until the next step or reset

// Values of the meta table, by name. A missing integer is `otherwise`; a missing blob has data NULL. The blob is valid
// until the next call.
int64_t db_meta_i64(struct db *d, const char *name, int64_t otherwise);
struct key db_meta_blob(struct db *d, const char *name);
void db_meta_set_i64(struct db *d, const char *name, int64_t value);
void db_meta_set_blob(struct db *d, const char *name, const void *data, size_t len);
void db_meta_remove(struct db *d, const char *name);

// Ends the process with a line that names the file, what was being done, SQLite's message and what to do about it.
void db_fatal(const struct db *d, const char *operation) __attribute__((noreturn));

// fsyncs a file that is not a database (a WAL, a directory) or ends the process. Not there = nothing to do.
void file_sync(const char *path);
void file_sync_directory(const char *path); // in which this is
void db_sync_wal(const struct db *d);
// Before a checkpoint writes to the file: SQLite fsyncs the WAL then, but a WAL whose name the power takes away is
// lost, and with it what makes the half-written file whole.
void db_sync_names(struct db *d);

#endif
