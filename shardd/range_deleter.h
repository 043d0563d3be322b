// Deletes the documents of ranges that this shard has given away (or received in vain): the tasks of
// config.rangeDeletions.
//
// A task is `pending` while its migration is undecided. Then it is ready: it waits until no query uses metadata in
// which the range was still owned here, and for orphanCleanupDelaySecs from when it became ready or this member became
// primary (not with whenToClean "now"). One task is worked on at a time.
//
// Invariants
// - The registry below mirrors the documents as applied, on every member: it changes only with the log.
// - On the primary nothing of a range is deleted while a reader with older metadata is at work. On a secondary such
//   readers are ended when the task's `processing` mark arrives, which precedes the first deletion in the log.
// - A range whose task is registered is not received again (migration_destination.c waits, then refuses).
#ifndef SHARDLET_SHARDD_RANGE_DELETER_H
#define SHARDLET_SHARDD_RANGE_DELETER_H

#include "shardd/migration_documents.h"
#include "shardd/shard.h"

struct range_deleter *range_deleter_new(struct shard *sh);
void range_deleter_free(struct range_deleter *d); // NULL is allowed

// From the documents as applied: at start and at every step-up. Delays begin anew.
void range_deleter_load(struct range_deleter *d);
// A document of config.rangeDeletions was put or (doc NULL) deleted by a log entry.
void range_deleter_applied(struct range_deleter *d, const bson_value_t *id, const bson_t *doc);
void range_deleter_wake(struct range_deleter *d); // something a task may wait for has changed

// The primary's worker, in a fiber of its own; it ends when its operation is killed.
void range_deleter_run(struct operation *op, void *deleter);

// Waits until no task overlaps the range; false with *timed_out after ms.
bool range_deleter_wait_clear(struct operation *op, struct range_deleter *d, const uint8_t collection[16],
                              struct key min, struct key max, int64_t ms, bool *timed_out, struct error *err);
// Whether one does now (besides the one with this id, when given).
bool range_deleter_overlaps(struct range_deleter *d, const uint8_t collection[16], struct key min, struct key max,
                            const uint8_t *but);
// Waits until the task is done and its document is gone.
bool range_deleter_wait_task(struct operation *op, struct range_deleter *d, const uint8_t id[16], struct error *err);
bool range_deleter_wait_change(struct operation *op, struct range_deleter *d, struct error *err); // of any task
// The task's document as it is now; false: no such task. Documents and strings live in `a`.
bool range_deleter_task(struct range_deleter *d, struct arena *a, const uint8_t id[16], struct range_deletion_doc *out);
bool range_deleter_has_ns(struct range_deleter *d, const char *ns);

int64_t range_deleter_orphans(const struct range_deleter *d, const uint8_t collection[16]); // documents, all tasks
size_t range_deleter_count(const struct range_deleter *d);

#endif
