// The primary's lock table: who is about to change what.
//
// A lock is held by an owner, which is a proposal: from the read that it is based on to the apply, or the failure, of
// its entry. Nobody waits with a lock that is not proposed (write.h), so a lock is always freed by the log alone: no
// deadlock.
#ifndef SHARDLET_REPL_LOCKS_H
#define SHARDLET_REPL_LOCKS_H

#include "common/net/operation.h"

enum lock_kind { LOCK_DOCUMENT = 'd', LOCK_UNIQUE = 'u', LOCK_SESSION = 's', LOCK_NAMESPACE = 'n', LOCK_NAME = 'x' };

enum lock_mode {
  LOCK_SHARED,
  LOCK_EXCLUSIVE, // nobody else, not even an earlier proposal of the same writer: what it does is not readable yet
  LOCK_OWN,       // other proposals of the same writer may have it as well
};

struct hold;

struct lock_owner {
  uint64_t writer; // proposals of one write have the same
  uint64_t mark;   // holds with lower numbers belong to earlier statements, whose changes are not applied
  struct hold *holds;
};

struct lock; // one thing that is locked or waited for

struct lock_table {
  struct lock **slots; // by hash, a power of two of them; each a list
  size_t n_slots, n;
  uint64_t next_hold; // number of the next hold: they are numbered as they are taken
};

void lock_table_init(struct lock_table *t);
void lock_table_free(struct lock_table *t);

// Takes a lock, or finds that the owner has it already. false: somebody else has it. *lock is set in both cases. An
// exclusive request for a namespace that is refused keeps new shared ones out until it is taken or lock_forget() is
// called.
bool lock_take(struct lock_table *t, struct lock_owner *o, enum lock_kind kind, const void *key, size_t len,
               enum lock_mode mode, struct lock **lock);
void lock_release_all(struct lock_table *t, struct lock_owner *o); // wakes who waits
// An entry is full and the writer goes on in another: holds numbered from `since` on go to `to`; those on sessions,
// namespaces and names, which the writer took for all of its statements, are held by both.
void lock_continue(struct lock_table *t, struct lock_owner *from, struct lock_owner *to, uint64_t since);

// --- waiting for one that was refused ---
struct lock *lock_ref(struct lock *l); // it stays valid until lock_forget()
void lock_forget(struct lock_table *t, struct lock *l, uint64_t writer);
bool lock_intended(const struct lock *l, uint64_t writer); // whether this writer keeps others out of it
// Waits until lock_take() would succeed for this writer.
bool lock_wait(struct operation *op, struct lock *l, uint64_t writer, enum lock_mode mode, struct error *err);
// Waits until everything that holds the namespace now has let it go.
bool lock_drain(struct operation *op, struct lock_table *t, const char *ns, struct error *err);

size_t lock_count(const struct lock_table *t);

#endif
