// One ordered stream of a scan: the documents of a file, one of its indexes, or the ids file.
//
// A source holds a statement while it stands on a row. Saving gives the statement back and keeps the place as (key,
// file, rid); the next step seeks it again.
#ifndef SHARDLET_STORE_SOURCE_H
#define SHARDLET_STORE_SOURCE_H

#include "common/base/buf.h"
#include "common/store/internal.h"

struct rid_set { // open addressing; 0 = free
  int64_t *slots;
  size_t n, cap;
};

struct source {
  struct scan *scan;
  struct store_file *file; // NULL: the ids file
  sqlite3_stmt *stmt;      // NULL: not standing anywhere
  struct db *pinned;       // the database of stmt
  size_t range;            // in the scan's direction
  bool ended;
  // The row it stands on.
  struct key key; // belongs to the statement
  uint32_t file_id;
  int64_t rid;
  // Without a statement, and if `placed`: where to go on, exclusively.
  bool placed;
  struct buf at_key;
  uint32_t at_file;
  int64_t at_rid;
  struct rid_set seen; // of a multikey index
  int64_t given;       // the ids file: rid of the last row given (wanted())
};

struct scan {
  struct store *store;
  struct arena *arena;
  struct collection *collection;
  struct collection_core *core;
  bool indexed, backward, by_order, closed;
  uint32_t index_id, only_file;
  struct key_range *ranges;
  size_t n_ranges;
  struct source *sources;
  size_t n_sources;
  struct source **heap; // by_order: those that stand on a row, the next one first
  size_t n_heap;
  bool heap_ready;
  size_t at;              // otherwise: the source in turn
  sqlite3_stmt *doc_stmt; // of the last document that was fetched, from doc_file
  struct store_file *doc_file;
  int64_t doc_rid;
  bson_t *doc;
  int64_t keys, seeks;
  bool listed; // among the store's active scans
  struct scan *next, *prev;
};

enum step { STEP_ROW, STEP_END, STEP_KILLED };

enum step source_next(struct source *s, struct error *err);
// Keeps the place: behind the row it stands on, or (pending) before it.
void source_save(struct source *s, bool pending);
void source_free(struct source *s);
int source_compare(const struct source *a,
                   const struct source *b); // by the rows they stand on, in the scan's direction

// A file that the scan may read: active when it was opened or asked for, or what such a one was merged into.
struct store_file *scan_file(const struct scan *s, uint32_t id);
// Reads the document, unless it is the one at hand already. false: it is not there.
bool scan_fetch(struct scan *s, struct store_file *f, int64_t rid);
void scan_activate(struct scan *s);

#endif
