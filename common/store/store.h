// A member's data directory: collections, their range files and indexes, in SQLite (a file per chunk range).
//
//   <dbpath>/store.lock                 held by the running daemon
//   <dbpath>/catalog.sqlite             collections, indexes, intervals, files, retryable-write records, local state
//   <dbpath>/internal.sqlite            the collections of config, admin and local, with their indexes: tables of one
//   file <dbpath>/<collection uuid>/<file id>.sqlite      documents of one or more ranges of the shard key, and their
//   indexes <dbpath>/<collection uuid>/ids.sqlite            _id -> (file, rid), where the shard key does not determine
//   _id's file
//
// Data changes only by applying log entries (change.h): store_apply() neither waits, yields nor fails. Everything read
// is applied state. An SQLite error while applying ends the process with one clear line.
//
// Invariants
// - What an entry does to a file depends on that file and the entry alone. Each file has its own applied index (written
// in
//   the transaction that changed it) and skips entries it already holds: after a crash files stand at different
//   indexes.
// - A file id is never used again; files change state in the catalog (staged, active, dropped), never their name.
// - A file is unlinked only after the catalog commit that forgets it is durable; unknown files are removed after
// replay.
// - No statement is active while anything else may run: scans are saved before a yield (scan.h).
#ifndef SHARDLET_STORE_STORE_H
#define SHARDLET_STORE_STORE_H

#include <bson/bson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/arena.h"
#include "common/base/error.h"
#include "common/bson/key.h"

struct store;
struct change_list;

struct store_options {
  const char *dbpath;
  const char *role;      // "shardd", "configsvr": refused when the directory belongs to the other
  size_t cache_bytes;    // over all open files; 0 = 64 MiB
  size_t max_open_files; // 0 = 256
  // Which generation of the directory counts (copy.h); called once the directory is locked. NULL: the first.
  bool (*generation)(const char *dbpath, uint64_t *out, struct error *err);
};

// Opens or creates a directory. err (one line each, with the path and what to do): not there, not writable (with the
// uid), locked by another process, made by another role, newer format, damaged.
struct store *store_open(const struct store_options *o, struct error *err);
void store_close(struct store *s); // commits everything; NULL allowed

// --- local state: small values that are not replicated (set name, instance, replica-set configuration...) ---
bool store_local_get(struct store *s, struct arena *a, const char *name, const bson_t **value);
void store_local_put(struct store *s, const char *name, const bson_t *value); // durable when it returns

// --- applying ---
// entry: as made by change.h. Entries come in order of index; one below what a file has is skipped there.
void store_apply(struct store *s, uint64_t index, const bson_t *entry);
// The last index given to store_apply(). After start: the index of the last snapshot (or orderly end), up to which
// every file surely holds everything. Replay begins with the next one; each file skips what it has already.
uint64_t store_applied(const struct store *s);
uint64_t store_replay_target(const struct store *s); // highest index any file had at start: serve no data before this
void store_replay_done(struct store *s);             // removes what no entry brought back; called once

// --- durability ---
// Commits open transactions that are due (16 MiB of dirty pages, one second), checkpoints WALs past 48 MiB. Called by
// the daemon's timer every 100 ms. Parts run in the pool.
struct operation;
void store_tick(struct operation *op, struct store *s);
// Everything up to the returned index is in the files, fsynced: the log may be cut there. 0: failed or cancelled.
uint64_t store_snapshot(struct operation *op, struct store *s);
// Whether checkpoints cannot keep up with what is written: whoever proposes, or applies much, should wait (some
// milliseconds, and ask again), or the WALs grow past their bound and the loop stands still for a checkpoint.
bool store_behind(const struct store *s);
// Whether nothing should be applied right now: the end of a checkpoint, an fsync or two in the pool. Whoever applies
// waits some milliseconds and asks again. (What is applied all the same is only copied by the loop itself.)
bool store_holds(const struct store *s);
// Of the file system; below the floor a primary refuses writes (14031).
uint64_t store_free_bytes(const struct store *s);

// --- catalog ---
enum file_state { FILE_STAGED, FILE_ACTIVE };

struct range_file {
  uint32_t id;
  enum file_state state;
  struct collection *collection;
  int64_t count, bytes;      // documents and their BSON bytes, as applied
  struct store_file *handle; // internal
};

struct index {
  uint32_t id; // 0 is _id
  const char *name;
  const bson_t *spec; // as listIndexes shows it: {v: 2, key, name, unique...}
  const bson_t *key;
  bool unique, sparse, hidden;
  const bson_t *partial_filter; // NULL = none
  bool multikey;                // sticky: some file has had an array key
  bool ready;                   // false while it is being built: maintained by writes, not used by reads
  bool in_ids_file;             // the _id index, where it lives in ids.sqlite
};

struct interval_entry { // [min, max) of the shard key's encoding -> where new documents of it go
  struct key min;       // max is the next entry's min
  uint32_t file;
};

struct collection { // immutable for readers between two applies; referenced across yields
  uint8_t uuid[16];
  const char *ns, *db, *name;
  const bson_t *options;   // create's options, {} = none
  const bson_t *shard_key; // {} = not sharded
  bool internal;           // a config, admin or local collection: its tables are in internal.sqlite, exactly one "file"
  bool dropped;            // look here after every yield
  uint64_t generation;     // changes with every catalog change of this collection (index, file, interval)
  struct index **indexes;  // [0] is _id
  size_t n_indexes;
  struct range_file **files;
  size_t n_files;
  struct interval_entry *intervals; // sorted, covering everything
  size_t n_intervals;
  struct store *store;
};

// A view (created with viewOn) has no files. NULL = not there.
struct collection *store_collection(struct store *s, const char *ns);
struct collection *store_collection_by_uuid(struct store *s, const uint8_t uuid[16]);
struct collection *collection_ref(struct collection *c); // keeps the struct (not the data) over yields
void collection_unref(struct collection *c);
void store_each_collection(struct store *s, bool (*fn)(void *ctx, struct collection *c), void *ctx); // by ns
const struct index *collection_index(const struct collection *c, const char *name);
const struct index *collection_index_by_key(const struct collection *c, const bson_t *key);
struct range_file *collection_file(const struct collection *c, uint32_t id);
// Where documents are now that were in file `id` at some time since this generation: there, or in what it was merged
// into.
uint32_t collection_file_now(const struct collection *c, uint32_t id);
// Whether every document of the file has its keys in all unique indexes: false when one met a key of another (change.h,
// copies arrive in any order).
bool collection_file_whole(const struct collection *c, uint32_t id);
// Where a document with this encoded shard key goes (unsharded: its only file).
struct range_file *collection_file_for(const struct collection *c, struct key shard_key);
// The encoded shard key of a document (hashed parts hashed, missing fields null). err ShardKeyNotFound for arrays.
bool collection_shard_key_of(const struct collection *c, struct arena *a, const bson_t *doc, struct key *out,
                             struct error *err);

// Counters that run ahead of what is applied; only a primary uses them, and again from applied state after each
// step-up.
int64_t collection_next_rid(struct collection *c);
uint32_t store_next_file_id(struct store *s);
uint32_t collection_next_index_id(struct collection *c);
void store_reset_counters(struct store *s);

// --- statistics, kept up to date by applying: cost nothing to read ---
struct collection_stats {
  int64_t count, bytes;  // of active files, orphans included
  int64_t storage_bytes; // of the files on disk
  int64_t index_bytes;   // all
};
void collection_stats(const struct collection *c, struct collection_stats *out);
int64_t collection_index_bytes(const struct collection *c, const struct index *i);

// --- retryable-write records ---
// Finds what statement stmt_id of this transaction number answered. NULL = not executed.
const bson_t *store_session_statement(struct store *s, struct arena *a, const uint8_t lsid[16], int64_t txn_number,
                                      int32_t stmt_id);
// The shard key (encoded, copied) of the document that statement touched; false: not recorded, or without one.
bool store_session_key(struct store *s, struct arena *a, const uint8_t lsid[16], int64_t txn_number, int32_t stmt_id,
                       struct key *out);
int64_t store_session_txn_number(struct store *s, const uint8_t lsid[16]); // highest seen, -1 = none
// Records whose statements touched [min, max) of the collection: for a chunk's move. Appends documents for
// change_session().
void store_sessions_for_range(struct store *s, const struct collection *c, struct key min, struct key max,
                              bson_t *array);

#endif
