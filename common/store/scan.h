// Reading documents: by _id, by index range, or all of a collection; over several files, in order.
//
// No SQLite statement stays active over a yield: call scan_save() first (the position is kept as key and rid, the next
// scan_next() seeks again). Rows appear as of the moment they are read: a document changed meanwhile is seen in its
// new state, one whose key moved behind the scan is not seen again... nothing that was there all the time is missed.
//
// Files that are merged under a scan: its rows stay those of the files that it was opened on, as of the merge;
// documents are read where they are now, and a row's file is that place. So what a scan gives can be written to in the
// same step, as always; a document that is changed after the merge may stand where its old key was.
#ifndef SHARDLET_STORE_SCAN_H
#define SHARDLET_STORE_SCAN_H

#include "common/query/bounds.h"
#include "common/store/store.h"

struct scan;

struct scan_spec {
  const struct index *index;      // NULL: the documents in insertion order
  const struct key_range *ranges; // of index keys, ascending and apart; n_ranges 0 = everything
  size_t n_ranges;
  bool backward;
  bool by_order;      // several files: merge by key (or rid); otherwise file after file
  uint32_t only_file; // 0 = all active files; else this one, even when it is staged
};

struct scan_row {
  uint32_t file;
  int64_t rid;
  struct key key; // the index entry's key, len 0 without an index; valid until the next call
};

struct scan *scan_open(struct arena *a, struct collection *c, const struct scan_spec *spec);
// false: the end (err->code 0), or the collection/index was dropped or a file the scan needs is gone (QueryPlanKilled
// 175). A multikey index gives each document once a file.
bool scan_next(struct scan *s, struct scan_row *row, struct error *err);
// The row's document; NULL when it went away since (index scans, and files that were merged). Valid until the next
// call.
const bson_t *scan_document(struct scan *s, const struct scan_row *row);
void scan_save(struct scan *s);
void scan_close(struct scan *s); // also when its arena goes
int64_t scan_keys_examined(const struct scan *s);
int64_t scan_seeks(const struct scan *s);

// One document by _id, through the _id index or the ids file. false: not there. Reads active files only; with sharded
// collections at most one of the shard's documents has an _id.
bool store_find_id(struct collection *c, struct arena *a, const bson_value_t *id, uint32_t *file, int64_t *rid,
                   const bson_t **doc);
// One document by place.
bool store_find_rid(struct collection *c, struct arena *a, uint32_t file, int64_t rid, const bson_t **doc);
// Whether a unique index has this key already, and on which document.
bool store_find_unique(struct collection *c, const struct index *i, struct key key, uint32_t *file, int64_t *rid);

#endif
