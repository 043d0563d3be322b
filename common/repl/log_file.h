// raft.sqlite: the replicated log on disk. Blocking functions, for the thread pool (and for start).
//
//   entries(idx INTEGER PRIMARY KEY, term, type, data BLOB)
//   state: one row: term and vote; what the last snapshot ends with and the members then
//   notes(name PRIMARY KEY, value BLOB): small documents about this member (identity, configuration that was asked for)
//
// WAL mode, synchronous=FULL: a commit is one write of its pages and one fdatasync, as long as it overwrites what the
// WAL file already has. (Measured: 230 us against 222 us for a bare fdatasync of 4 KiB; 410 us while the file grows.)
// So the WAL is filled once when it is made, never truncated, kept over restarts, and begun again after each
// checkpoint.
//
// Any error while writing ends the process with one line: what was promised as durable must be. A crash leaves whole
// batches or none of them.
#ifndef SHARDLET_REPL_LOG_FILE_H
#define SHARDLET_REPL_LOG_FILE_H

#include "common/repl/consensus.h"

struct log_file;

enum log_op_kind { LOG_PUT_NOTHING, LOG_PUT_VOTE, LOG_PUT_ENTRIES, LOG_PUT_SNAPSHOT, LOG_PUT_MARK, LOG_PUT_NOTE };

struct log_op {
  enum log_op_kind kind;
  uint64_t term, voted_for; // LOG_PUT_VOTE
  uint64_t first;           // LOG_PUT_ENTRIES: replaces what is there from `first` on
  struct entry **entries;   // references
  size_t n;
  struct snapshot_mark mark; // LOG_PUT_SNAPSHOT: removes all entries; LOG_PUT_MARK: keeps them
  char *name;                // LOG_PUT_NOTE; LOG_PUT_SNAPSHOT: a note that changes with it, NULL = none
  bson_t *doc;
  void (*done)(void *ctx); // once it is durable, in the loop's thread; may be NULL
  void *ctx;
};

// err: not readable or writable (with the path), damaged, of a newer format.
struct log_file *log_file_open(const char *dbpath, struct error *err);
void log_file_close(struct log_file *f); // checkpoints; NULL allowed
bool log_file_exists(const char *dbpath);

// What was durable when the file was opened. heads and sizes are malloc'd for the caller, changes of members are
// references.
struct log_found {
  struct consensus_state state;
  struct log_head *heads;
  uint32_t *lengths; // of each entry's data
};
void log_file_load(struct log_file *f, struct log_found *out); // a damaged row ends the process
void log_found_free(struct log_found *found);

void log_file_write(struct log_file *f, struct log_op *const *ops, size_t n); // in one transaction: a batch
// Removes a slice of the entries before `below`. true: more are left.
bool log_file_cut(struct log_file *f, uint64_t below);
bool log_file_checkpoint_due(const struct log_file *f);
void log_file_checkpoint(struct log_file *f);

// Up to `max` entries from `from` on, as many as fit max_bytes (at least one, if it is there); new references. Any
// thread, beside a writer. Returns how many.
size_t log_file_read(struct log_file *f, uint64_t from, size_t max, size_t max_bytes, struct entry **out);
bool log_file_note(struct log_file *f, const char *name, bson_t **out); // *out is the caller's; false: not there

#endif
