// Proposals: entries that the primary has given to consensus and that are not applied yet, with the locks that they
// hold.
#ifndef SHARDLET_REPL_PROPOSAL_H
#define SHARDLET_REPL_PROPOSAL_H

#include "common/net/cluster_time.h"
#include "common/net/operation.h"
#include "common/repl/entry.h"
#include "common/repl/locks.h"

enum proposal_state {
  PROPOSAL_OPEN, // being filled
  PROPOSAL_SENT,
  PROPOSAL_APPLIED,
  PROPOSAL_LOST, // leadership was lost, or the process ends: it may be applied one day or never
};

struct proposal {
  uint32_t refs; // of the write, and of the queue while it is sent
  enum proposal_state state;
  int32_t lost_code;
  uint64_t index, ts;
  size_t bytes;
  struct lock_owner owner;
  struct event done;
  struct proposal *next; // in the queue
};

struct proposals {
  struct proposal *first, **end; // sent, by index
  size_t bytes;                  // of those
  struct event room;             // some were applied
  struct lock_table locks;
  uint64_t writers; // numbers for writes
  uint64_t term;    // in which statements are evaluated and entries proposed; 0 = not here, not now
  int32_t refusal;  // why not: ERR_NotWritablePrimary or ERR_ShutdownInProgress
  struct cluster_clock *clock;
  uint64_t (*submit)(void *ctx, struct entry *e); // its index; 0 = refused
  void *ctx;
};

void proposals_init(struct proposals *ps, struct cluster_clock *clock, uint64_t (*submit)(void *ctx, struct entry *e),
                    void *ctx);
void proposals_free(struct proposals *ps);

struct proposal *proposal_new(uint64_t writer);
void proposal_unref(struct proposals *ps, struct proposal *p); // an open one lets its locks go

// Sends what `doc` says as the proposal's entry. false: refused, nothing of it was or will be written; its locks are
// free.
bool proposal_send(struct proposals *ps, struct proposal *p, const bson_t *doc, uint64_t ts);
void proposals_applied(struct proposals *ps,
                       uint64_t index); // everything up to `index` is applied: locks are freed, then all are woken
void proposals_lose(struct proposals *ps, int32_t code); // all that are sent

#endif
