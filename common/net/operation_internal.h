// How common/net makes operations by hand, and waits that nothing cuts short. Internal to common/net.
#ifndef SHARDLET_NET_OPERATION_INTERNAL_H
#define SHARDLET_NET_OPERATION_INTERNAL_H

#include "common/net/operation.h"

// In the loop's ring from new to end; its memory is the arena's. The fiber is the caller's to set.
struct operation *operation_new(struct loop *l, struct arena *a, const char *what);
void operation_end(struct operation *op);
void operation_has_thread(struct operation *op); // it got the thread just now: its slice begins

// event_wait() that neither a kill nor a deadline ends: for ends that must not be left half done.
void event_await(struct operation *op, struct event *e);

#endif
