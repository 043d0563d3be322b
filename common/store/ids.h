// Where the documents of a collection are, by _id, when its shard key says nothing about _id: ids(key, file, rid).
//
// A row is true when its file is active and has that rid; any other one is stale. Rows of deleted ranges are removed
// with their documents where that costs nothing, those of forgotten files by a purge in the background; rids and file
// ids are never used again, so a stale row never becomes true.
#ifndef SHARDLET_STORE_IDS_H
#define SHARDLET_STORE_IDS_H

#include "common/store/db.h"

enum ids_cursor_kind { IDS_FORWARD, IDS_BACKWARD, IDS_FIND, IDS_CURSOR_KINDS };

struct ids {
  struct db db;
  int64_t entries, key_bytes;
  bool changed;
  double dirty_pages;
  struct buf highest; // no key is above it; only true while highest_known
  bool highest_known;
  sqlite3_stmt *insert, *erase;
  sqlite3_stmt *idle[IDS_CURSOR_KINDS];
};

void ids_init(struct ids *i, char *path); // takes the path
bool ids_open(struct ids *i, bool create, struct error *err);

// In a write transaction. Putting a row that is there and erasing one that is not do nothing.
void ids_put(struct ids *i, struct key key, uint32_t file, int64_t rid);
void ids_erase(struct ids *i, struct key key, uint32_t file, int64_t rid);

// false: no row has the key, known without looking it up: _ids mostly grow.
bool ids_may_have(struct ids *i, struct key key);

// (key, file, rid) as columns 0, 1, 2. FORWARD: after (?1, ?2, ?3) and key below ?4; BACKWARD: before them and key from
// ?4 on; FIND: of the key ?1.
sqlite3_stmt *ids_cursor(struct ids *i, enum ids_cursor_kind kind);
void ids_cursor_back(struct ids *i, enum ids_cursor_kind kind, sqlite3_stmt *s);

#endif
