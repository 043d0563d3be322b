// Making one range file of several: their documents are copied, under their rids, into a staged file that takes their
// place (DESIGN section 4).
//
//   1 {staged file}                                            the collection's definitions are remembered
//   2 {documents...}: batches, file by file                    changes are noted from the stream of applied entries
//   3 {changed documents...}: until few are left
//   4 the namespace's lock alone: {the rest, merge}            one entry
//
// Invariants
// - In step 4 nothing is proposed and not applied in the namespace, and nobody can begin: what was noted by then is all
//   that the copy lacks. It is checked against the counts and bytes of the files; a copy that is not exact is thrown
// away.
// - Who waited for the namespace's lock, or yielded at all, looks for its documents again before it writes: at their
//   place of now (collection_file_now(), write_targets.c), or from the start. An entry that names a file which the
//   catalog has forgotten would be left out by every member, and its write be lost.
// - A task of config.rangeDeletions names a range, and its work the files of that range as they were when it began: a
//   file that overlaps one is not merged. Migrations register theirs before they begin.
// - The files of an index build are those of when it began: nothing is merged while an index is not ready, and a staged
//   file whose definitions are not those of now is thrown away.
// - Until step 4 is in the log nothing has changed but that there is a staged file, which whoever steps up drops.
#ifndef SHARDLET_SHARDD_FILE_MERGE_H
#define SHARDLET_SHARDD_FILE_MERGE_H

#include "shardd/file_merge_changes.h"
#include "shardd/file_merge_policy.h"
#include "shardd/shard.h"

struct file_merge {
  struct shard *sh;
  struct arena *arena;
  uint8_t collection[16];
  const char *ns;
  struct merge_run run;
  struct file_changes *changes; // while it runs: is to be told of every entry that is applied (file_changes_entry())

  uint32_t target; // the staged file; 0 = not made yet
  const bson_t *shard_key;
  uint32_t *indexes; // their ids, when the file was made
  size_t n_indexes;
  size_t at;  // the file that is being copied
  size_t few; // so many changed documents may be left for the last step
  struct scan *scan;
  bool done;
  int64_t batch_began_ms;
  int64_t documents, bytes; // copied
  int64_t recopied;         // documents that were changed meanwhile
  int64_t blocked_us;       // how long writes waited for the last step
};

// Whether the collection's files may be merged at all now.
bool file_merge_possible(const struct shard *sh, const struct collection *c);
// Whether this one must stay as it is: a range that overlaps it is about to be deleted, or is moving.
bool file_merge_excluded(const struct shard *sh, const struct collection *c, uint32_t file);

// From step 1 on; m has the first group of members. false: err, and nothing has changed, or (killed, not primary any
// more) it is the next primary's business. ConflictingOperationInProgress: something else came in between.
bool file_merge_run(struct operation *op, struct file_merge *m, struct error *err);

#endif
