// The documents of one file and their indexes: tables of a database. A range file holds one such set (documents,
// index_<n>); internal.sqlite one for each internal collection (documents_<file>, index_<file>_<n>).
//
// A set carries everything that decides what an entry does to it: index definitions, shard key, counters. They are kept
// in memory, also while the database is closed, and written before each commit.
#ifndef SHARDLET_STORE_TABLE_H
#define SHARDLET_STORE_TABLE_H

#include "common/base/arena.h"
#include "common/base/buf.h"
#include "common/bson/index_keys.h"
#include "common/query/match.h"
#include "common/store/change.h"
#include "common/store/db.h"

// Statements of a scan that are not in use; a scan takes one out and puts it back when it is saved.
enum cursor_kind { CURSOR_FORWARD, CURSOR_BACKWARD, CURSOR_GET, CURSOR_KINDS };

// Greater than every key: no encoding begins with FF.
#define KEY_ABOVE_ALL ((struct key){.data = (const uint8_t *)"\xff", .len = 1})

struct table_index {
  uint32_t id;
  struct arena *arena; // everything below that points
  const bson_t *spec, *pattern;
  bool unique, sparse;
  struct match *partial; // NULL = every document
  bool ready;            // the primary says that the build is complete
  bool multikey;         // sticky: a document had an array here
  bool multikey_shown;   // readers know
  bool conflict;         // a put met a key that another document has: the index is not complete
  int64_t entries, key_bytes;
  double dirty_pages; // since the last commit, estimated
  struct buf highest; // the highest key put since the file was opened: keys above it go to the last page
  bool highest_known; // it is the highest of all keys, or one that is gone was
  sqlite3_stmt *insert, *erase;
  sqlite3_stmt *idle[CURSOR_KINDS]; // GET: the document of a unique key
};

struct table {
  struct db *db;
  uint32_t file;
  bool prefixed; // one of several in its database
  bool exists;   // its SQL tables do
  bool changed;  // since they were written: definitions or counters
  uint8_t uuid[16];
  bool own_id; // has an _id index (index 0)
  bson_t *shard_key;
  struct table_index **indexes; // by id
  size_t n_indexes;
  int64_t count, bytes, next_rid; // next_rid is above every rid that was ever put here
  double dirty_pages;             // of the documents, as above
  sqlite3_stmt *insert, *replace, *erase;
  sqlite3_stmt *idle[CURSOR_KINDS];
};

// The definitions of a new file, as the catalog keeps them: {u, ownId, sk, x: [{id, spec, ready}]}.
void table_definitions(bson_t *out, const uint8_t uuid[16], bool own_id, const bson_t *shard_key);

void table_define(struct table *t, const bson_t *definitions); // in memory
void table_create(struct table *t, const bson_t *definitions);
bool table_load(struct table *t, struct error *err); // from meta; err: damaged
void table_save(struct table *t);                    // if changed
void table_drop(struct table *t);
void table_finalize(struct table *t); // its statements: the database is about to be closed
void table_free(struct table *t);     // its memory, not the struct

// --- definitions; each in a write transaction ---
struct table_index *table_index(const struct table *t, uint32_t id); // NULL = not there
void table_add_index(struct table *t, uint32_t id, const bson_t *spec);
void table_remove_index(struct table *t, uint32_t id);
void table_index_ready(struct table *t, uint32_t id);
void table_set_shard_key(struct table *t, const bson_t *key);
// The index that has the documents of a range of the shard key together; NULL = none.
struct table_index *table_shard_key_index(const struct table *t);

// --- documents; each in a write transaction, `a` for what is needed meanwhile ---
// Inserts or replaces. Returns whether the rid was there.
bool table_put(struct table *t, struct arena *a, int64_t rid, const bson_t *doc);
// Deletes the document and returns its size; 0: it is not there. gone() sees it before.
size_t table_remove(struct table *t, struct arena *a, int64_t rid,
                    void (*gone)(void *ctx, int64_t rid, const bson_t *doc), void *ctx);
// false: a key of a unique index belongs to another document; that one stays.
bool table_add_keys(struct table *t, struct table_index *i, const struct index_keys *keys, int64_t rid);
// The keys a document has in the index: none when it is sparse or partial and leaves the document out, or when the keys
// cannot be made (*failed receives the code).
void table_keys(const struct table_index *i, struct arena *a, const bson_t *doc, struct index_keys *out,
                int32_t *failed);

// --- slices ---
enum { MAX_SLICE = 100000 }; // documents
void table_build(struct table *t, struct arena *a, uint32_t index_id, int64_t after_rid, int64_t n,
                 struct slice_result *out);
// Deletes up to n documents whose shard key is in [min, max), calling gone() for each. len 0 = without bound.
void table_delete_range(struct table *t, struct arena *a, struct key min, struct key max, int64_t n,
                        void (*gone)(void *ctx, int64_t rid, const bson_t *doc), void *ctx, struct slice_result *out);

// --- reading; the database is open and in a transaction ---
// false: not there. The bytes are valid until the statement is given back.
bool table_get(struct table *t, int64_t rid, sqlite3_stmt **held, struct key *doc);
sqlite3_stmt *table_cursor(struct table *t, enum cursor_kind kind);
void table_cursor_back(struct table *t, enum cursor_kind kind, sqlite3_stmt *s);
sqlite3_stmt *index_cursor(struct table *t, struct table_index *i, enum cursor_kind kind);
void index_cursor_back(struct table_index *i, enum cursor_kind kind, sqlite3_stmt *s);
// The document that has this key in a unique index (or any of those that have it in another).
// false: the key is above all that the index has; no need to look.
bool index_may_have(struct table *t, struct table_index *i, struct key key);
bool index_get(struct table *t, struct table_index *i, struct key key, int64_t *rid);

// What writing somewhere into `bytes` of a B-tree adds to the transaction's dirty pages, as an expected value.
size_t dirty_estimate(double *dirty_pages, int64_t bytes);

// --- keys ---
// Whether documents with one _id have one shard key: {_id: 1} or {_id: "hashed"}; or no shard key at all.
bool shard_key_determines_id(const bson_t *pattern);
// A bound that stands for everything becomes len 0: MinKey in every field as a lower one, MaxKey as an upper one.
void shard_key_normalize_range(const bson_t *pattern, struct key *min, struct key *max);

#endif
