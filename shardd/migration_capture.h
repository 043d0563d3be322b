// Which documents of a moving range changed since its clone began.
//
// Fed with every applied log entry, in the same step as it is applied. Only `_id`s are kept: what a document is like is
// read when it is sent, so that many changes of one document are sent once.
//
// Invariants
// - Capture starts in the step in which the clone's scan takes its first position: a document of the range is either
//   seen by the scan after its last change, or its change is captured.
// - Once captured and taken, a later change of the document is captured again.
// - A document that left the range (or was deleted) is captured when the recipient may have it: its rid was sent, or
//   captured.
#ifndef SHARDLET_SHARDD_MIGRATION_CAPTURE_H
#define SHARDLET_SHARDD_MIGRATION_CAPTURE_H

#include "common/store/change.h"
#include "common/store/store.h"

enum { CAPTURE_MAX_BYTES = 500 * 1024 * 1024 };

struct capture;

struct capture *capture_new(struct store *s, const uint8_t collection[16], struct key min, struct key max);
void capture_free(struct capture *c); // NULL is allowed

void capture_entry(struct capture *c, const bson_t *entry); // a log entry that was just applied
void capture_sent(struct capture *c, int64_t rid);          // this document goes to the recipient now

// The next `_id` in order of its first change, forgotten here by this call; the value lives in `a`. false: none is
// left.
bool capture_take(struct capture *c, struct arena *a, bson_value_t *id);
size_t capture_count(const struct capture *c);
size_t capture_bytes(const struct capture *c); // of the `_id`s

// false: the migration cannot go on. err ExceededMemoryLimit (146) when too much was recorded; Interrupted when the
// collection was dropped, renamed, or its indexes or options changed.
bool capture_ok(const struct capture *c, struct error *err);
bool capture_saw_catalog_change(const struct capture *c);

#endif
