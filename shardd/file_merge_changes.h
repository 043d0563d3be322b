// What was changed in files while they are copied into another one, from the stream of applied entries.
//
// The copy goes file by file, in the order of rids. What lies behind its place is read by it later, as it is then; what
// is changed before its place is noted here, and copied again.
#ifndef SHARDLET_SHARDD_FILE_MERGE_CHANGES_H
#define SHARDLET_SHARDD_FILE_MERGE_CHANGES_H

#include "common/store/change.h"

enum { FILE_CHANGES_MAX = 100000 }; // documents noted; more than that, and the copy is given up

struct changed_document {
  int64_t rid;
  uint32_t file;
  bson_value_t id;
};

struct file_changes;

// files: the caller's, which stay as they are.
struct file_changes *file_changes_new(const uint8_t collection[16], const uint32_t *files, size_t n);
void file_changes_free(struct file_changes *c); // NULL is allowed

// The copy has read all of the files before files[at], and of that one what is up to `rid`. In the step that reads it.
void file_changes_copied(struct file_changes *c, size_t at, int64_t rid);
void file_changes_entry(struct file_changes *c, const bson_t *entry); // each one that is applied

size_t file_changes_count(const struct file_changes *c);
// Takes one of them; its _id lives in `a`. false: there is none.
bool file_changes_take(struct file_changes *c, struct arena *a, struct changed_document *out);
// Calls fn for each of them, which stay, until it returns false. Their ids are valid during the call.
void file_changes_each(struct file_changes *c, bool (*fn)(void *ctx, const struct changed_document *d), void *ctx);
// false: there were too many, or something happened to the files that is not told document by document.
bool file_changes_complete(const struct file_changes *c);

#endif
