// One wait of one fiber, and the heap of waits that end by time. Internal to common/net.
#ifndef SHARDLET_NET_TIMERS_H
#define SHARDLET_NET_TIMERS_H

#include "common/net/loop_internal.h"
#include "common/net/operation.h"

enum wait_outcome { WAIT_RUNS, WAIT_SIGNALLED, WAIT_TIMED_OUT, WAIT_KILLED };

// Lives on the waiting fiber's stack. It ends once: whoever ends it takes it out of the event's list and of the heap.
struct wait {
  struct operation *op;
  struct event *event;      // NULL when only time or a kill ends it
  struct wait *next, *prev; // the ring of those who wait for the same event
  int64_t at_ms;            // when it times out; INT64_MAX = never
  size_t heap_at;           // place in loop->timed + 1; 0 = not there
  enum wait_outcome outcome;
};

void timers_init(struct loop *l);
void timers_close(struct loop *l);
void timers_add(struct loop *l, struct wait *w);
void timers_remove(struct loop *l, struct wait *w);

// Ends a wait and makes its fiber ready. For a wait that still runs.
void wait_end(struct wait *w, enum wait_outcome outcome);

#endif
