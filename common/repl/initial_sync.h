// Initial sync: a member whose log ends before its set's begins (new, emptied, long absent) takes the leader's data.
//
//   1. It learns that from raft: the leader sends a snapshot instead of entries. That message is not given to consensus
//      but begins a copy (transport.c).
//   2. The leader takes a snapshot (index S) and promises to keep its log behind S. The member copies the leader's
//      files as they are, one after the other and the catalog last, into a new generation of its data directory
//      (store/copy.h).
//   3. When all of that is durable, consensus is given a snapshot that ends at S, and one write of raft.sqlite replaces
//      the log by it and names the new generation. This write is the whole switch: a crash before it leaves the old
//      generation with the old log, one after it leaves the new ones.
//   4. The store is put on the new generation; entries from S+1 on come from the leader like any others.
//
// Why the copy is right though writes go on: S is committed; each file holds every entry up to S and some of those that
// follow, and skips what it has already. So it is a crashed directory whose log is on the leader: the member is
// RECOVERING until it has applied up to the highest index of any file. That the leader had applied, so it is committed,
// and every later leader has it too. The member serves nothing and says STARTUP2 until it also has what the leader had
// when the copy was complete.
//
// Why disk stays bounded: a leader keeps entries for members that are copying, or that answer and are a little behind,
// up to a limit (pacing.c); a copy that takes longer than that much of writing begins anew. Nothing is spooled on the
// member. An image of one file at a time lies beside the leader's data while it is sent.
//
// Whenever the leader changes, the source refuses, or anything is lost, the copy begins anew, if the next leader still
// sends a snapshot. What is left of it on disk is removed by the next attempt or start.
#ifndef SHARDLET_REPL_INITIAL_SYNC_H
#define SHARDLET_REPL_INITIAL_SYNC_H

#include "common/repl/consensus.h"
#include "common/repl/repl.h"

enum { COPY_CHUNK_BYTES = 1 << 20 };

// --- the member that copies (initial_sync.c) ---
struct initial_sync;

struct initial_sync *initial_sync_new(uint64_t generation, bool joining);
void initial_sync_free(struct initial_sync *s);
// A leader sent a snapshot: this member is too far behind. Starts a copy, unless one runs or was tried just now.
void initial_sync_wanted(struct repl *r, const struct consensus_message *m);
void initial_sync_heard(struct repl *r, const struct consensus_message *m); // any other message
void initial_sync_leader_changed(struct repl *r);
void initial_sync_applied(struct repl *r); // the member may have caught up by that
// Not to be taken for a secondary: copies, is about to, or was added and has not had everything yet.
bool initial_sync_under_way(const struct repl *r);
bool initial_sync_holds_apply(const struct repl *r); // the store is being exchanged: nothing may be applied
void initial_sync_join(struct repl *r);              // it was added to a set that has a log already
bool initial_sync_joining(const struct repl *r);
// Consensus' wish, which it has only when this file gave it a snapshot; and that write is durable now.
void initial_sync_install(struct repl *r, const struct snapshot_mark *mark);
void initial_sync_durable(struct repl *r);
void initial_sync_status(const struct repl *r, bson_t *reply); // initialSyncStatus of replSetGetStatus, while it runs

// --- the member that is copied from (copy_source.c) ---
struct copy_source;

struct copy_source *copy_source_new(void);
void copy_source_free(struct copy_source *s);
// The log is needed from the entry after this one on. UINT64_MAX: by no copy. *bytes: of the largest one's data.
uint64_t copy_source_needs(struct repl *r, uint64_t *bytes);
void copy_source_end_below(struct repl *r, uint64_t index); // its promise cannot be kept
void copy_source_end_all(struct repl *r);                   // leadership is over

#endif
