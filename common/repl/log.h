// The replicated log of a member: recent entries in memory, all of it in raft.sqlite (log_file.h), written in the
// thread pool.
//
// What is put is written in order. One job runs at a time; all that is put meanwhile goes into the next one's
// transaction, so a commit (one fdatasync) is shared by everybody who waits. The job starts inside the call that puts
// something, when none runs: not in the loop's next turn.
#ifndef SHARDLET_REPL_LOG_H
#define SHARDLET_REPL_LOG_H

#include "common/net/operation.h"
#include "common/repl/consensus.h"
#include "common/repl/log_file.h"

struct raft_log;

struct raft_log_events { // called in the loop's thread, outside of fibers, after each batch
  void *ctx;
  void (*durable)(void *ctx, size_t votes, size_t appends, bool installed);
};

// Takes the file over. found: as loaded from it.
struct raft_log *raft_log_new(struct loop *l, struct log_file *f, const struct log_found *found,
                              const struct raft_log_events *events);
// Waits until all is written and closes the file; events no longer come.
void raft_log_close(struct operation *op, struct raft_log *log);

void raft_log_vote(struct raft_log *log, uint64_t term, uint64_t voted_for);
void raft_log_append(struct raft_log *log, uint64_t first, struct entry *const *entries,
                     size_t n); // as struct consensus_output
// Replaces the whole log; the note (NULL = none) changes in the same write.
void raft_log_install(struct raft_log *log, const struct snapshot_mark *mark, const char *note, const bson_t *doc);
// Remembers a snapshot; entries before `first` are removed in the background.
void raft_log_mark(struct raft_log *log, const struct snapshot_mark *mark, uint64_t first);
// A small document about this member, replaced. doc is copied. done may be NULL.
void raft_log_note(struct raft_log *log, const char *name, const bson_t *doc, void (*done)(void *ctx), void *ctx);

// Waits until everything put so far is durable; also when the operation is killed.
void raft_log_sync(struct operation *op, struct raft_log *log);
// Nothing is written while it is corked; what was put meanwhile is then one batch: all of it is durable, or none.
void raft_log_cork(struct raft_log *log, bool corked);

// --- reading ---
uint64_t raft_log_first(const struct raft_log *log);
uint64_t raft_log_last(const struct raft_log *log);
uint64_t raft_log_durable(const struct raft_log *log); // last index that is on disk, now that the last batch has ended
struct entry *raft_log_get(const struct raft_log *log, uint64_t index); // borrowed; NULL = not in memory (any more)
// In the pool: reads what is not in memory. As log_file_read().
size_t raft_log_read(struct operation *op, struct raft_log *log, uint64_t from, size_t max, size_t max_bytes,
                     struct entry **out);
// Entries up to `applied` are kept in memory only as a cache from now on.
void raft_log_release(struct raft_log *log, uint64_t applied);

// --- sizes, for pacing; exact to within 64 entries or 1 MiB and an entry, whichever is less ---
uint64_t raft_log_bytes_after(const struct raft_log *log, uint64_t index); // of data in the entries after it
uint64_t raft_log_tail(const struct raft_log *log,
                       uint64_t bytes); // the smallest index whose followers have at most so many bytes

#endif
