// Which term each index of a log has: a run a term, so it stays small however long the log is.
#ifndef SHARDLET_REPL_TRAIL_H
#define SHARDLET_REPL_TRAIL_H

#include <stddef.h>
#include <stdint.h>

struct trail {
  uint64_t first, last;             // indexes held; last == first - 1: none
  uint64_t snapshot, snapshot_term; // index and term that the last snapshot ends with, 0 = none
  struct trail_run {
    uint64_t first, term;
  } * runs;
  size_t n, cap;
};

void trail_reset(struct trail *t, uint64_t first, uint64_t snapshot, uint64_t snapshot_term); // an empty log
void trail_append(struct trail *t, uint64_t term);                                            // at last + 1
void trail_truncate(struct trail *t, uint64_t from);        // forgets `from` and what follows
void trail_cut(struct trail *t, uint64_t first);            // forgets what is before `first`
uint64_t trail_term(const struct trail *t, uint64_t index); // 0 = not held (the snapshot's own index counts as held)
void trail_free(struct trail *t);

#endif
