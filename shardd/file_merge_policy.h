// Which range files of a collection are worth making one of: a pure function of their sizes.
#ifndef SHARDLET_SHARDD_FILE_MERGE_POLICY_H
#define SHARDLET_SHARDD_FILE_MERGE_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MERGE_MAX_FILES = 64 }; // at once: the entry that replaces them is applied in one go, in some milliseconds

struct mergeable { // an active file of the collection; they are in the order of the shard key
  uint32_t file;
  int64_t bytes;
  bool excluded; // a part of it is about to be deleted, or of a moving range
};

struct merge_run {
  uint32_t files[MERGE_MAX_FILES];
  size_t n;
  int64_t bytes;
};

// A run of at least two neighbours among the small files (those below `target` bytes that are not excluded; others that
// lie between them do not matter), with at most twice `target` bytes together. The one of most files, of these the one
// of fewest bytes. No file of a run has more than half of its bytes: else every little file that comes would have a
// large one written again; as it is, a document is copied about log2(target / its file's first size) times. false:
// there is none.
bool merge_run_choose(const struct mergeable *files, size_t n, int64_t target, struct merge_run *out);

#endif
