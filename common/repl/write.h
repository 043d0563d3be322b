// Writing on a primary: evaluate on applied data under locks, propose the effects, wait until they are applied.
//
// Locks belong to the proposal, not the fiber: from the read to the apply (or failure) of its entry. A fiber waits only
// with nothing held that is not proposed: when it meets a lock it proposes what it has, waits, and evaluates that
// statement again from its read. So whoever holds a lock waits only for the log, and no deadlock is possible.
//
//   again:
//     find the document (applied state)                      -- may yield; then check primary/version/filter again
//     if (!write_lock_document(w, c, rid)) { if (!write_wait(op, w, err)) return false; goto again; }
//     ... the same for each unique key ...
//     change_put(write_changes(w), ...)                      -- no yield since the read
//   if (!write_commit(op, w, err)) return false;
#ifndef SHARDLET_REPL_WRITE_H
#define SHARDLET_REPL_WRITE_H

#include "common/repl/repl.h"

struct write; // one fiber's batch of changes; belongs to the operation's arena, which releases what is still held
              // unproposed

struct write *write_begin(struct operation *op, struct repl *r);
uint64_t write_serial(const struct write *w); // no two writes of a process have the same

// Each takes a lock for this write, or finds that this statement has it already (true). false: somebody else has it, or
// this very write has it from an earlier statement, whose changes cannot be read before they are applied; write_wait()
// knows which one. The session, and a namespace shared, are had by all statements of a write together. Statements end
// with write_changes().
bool write_lock_document(struct write *w, const struct collection *c, int64_t rid);
bool write_lock_unique(struct write *w, const struct collection *c, uint32_t index_id, struct key key);
bool write_lock_session(struct write *w, const uint8_t lsid[16]);
bool write_lock_namespace(struct write *w, const char *ns, bool exclusive);
bool write_lock_name(struct write *w, const char *name); // any other: "config.chunks/<uuid>"

// The list to add a statement's changes to: one call a statement, after its locks. Each call starts a new entry when
// the present one is full (ENTRY_TARGET_BYTES), unless `atomic` was asked for with write_atomic(): then everything up
// to the commit is one entry.
struct change_list *write_changes(struct write *w);
void write_atomic(struct write *w);
bool write_is_empty(const struct write *w); // nothing unproposed

// Proposes what there is; waits until all of it is applied; then, if a lock was refused, until that one is free.
bool write_wait(struct operation *op, struct write *w, struct error *err);
// Proposes what there is and waits until all of it is applied. Locks are gone afterwards, the write can be used again.
// err: NotWritablePrimary (nothing of the unproposed part was written), InterruptedDueToReplStateChange (unknown).
// A command must not answer the former when an earlier part of it was proposed (write_last_index()): routers send it
// again then.
bool write_commit(struct operation *op, struct write *w, struct error *err);
// Proposes without waiting; write_commit() later waits for all.
bool write_propose(struct write *w, struct error *err);
void write_abandon(struct write *w);              // forgets what is unproposed and frees its locks
uint64_t write_last_index(const struct write *w); // of the last entry proposed, for write concern and operationTime
uint64_t write_last_ts(const struct write *w);

// Waits until every proposal made under the namespace lock before this call is applied or failed; new ones wait while
// the caller holds its exclusive lock. This is how a critical section is entered.
bool write_drain_namespace(struct operation *op, struct repl *r, const char *ns, struct error *err);

// Bytes proposed and not yet applied are limited (32 MiB): evaluation waits here first.
bool write_admit(struct operation *op, struct repl *r, struct error *err);

#endif
