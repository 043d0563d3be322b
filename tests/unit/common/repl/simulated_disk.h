// The disk of a simulated member: the log as it is on it, and writes that are not finished yet.
#ifndef SHARDLET_TESTS_REPL_SIMULATED_DISK_H
#define SHARDLET_TESTS_REPL_SIMULATED_DISK_H

#include "common/repl/consensus.h"

enum { MAX_INDEX = 8192 };

enum op_kind { OP_VOTE, OP_APPEND, OP_INSTALL };

struct disk_op {
  enum op_kind kind;
  uint64_t term, vote;
  uint64_t first;
  struct entry **entries;
  size_t n;
  struct snapshot_mark mark;
  uint64_t state; // of a snapshot
  struct disk_op *next;
};

struct log_image { // a log as it is in memory or on a disk
  uint64_t term, vote, first, last;
  struct entry *entries[MAX_INDEX];
  struct snapshot_mark mark;
  uint64_t state; // at the snapshot
};

// Each takes references of its own to entries.
void image_put(struct log_image *l, uint64_t first, struct entry *const *entries,
               size_t n);                              // replaces all from `first` on
void image_reset(struct log_image *l, uint64_t first); // empty, to go on at `first`
void image_cut(struct log_image *l, uint64_t first);   // entries below `first` go
void image_mark(struct log_image *l, const struct snapshot_mark *m, uint64_t state);
// A write gets to the disk: of an append only its first n entries.
void op_apply(struct log_image *disk, const struct disk_op *o, size_t n);
void op_free(struct disk_op *o);

#endif
