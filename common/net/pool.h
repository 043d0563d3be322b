// The connections to one host. Internal to common/net.
#ifndef SHARDLET_NET_POOL_H
#define SHARDLET_NET_POOL_H

#include "common/net/channel.h"

struct pool;

struct pool *pool_new(void);
void pool_free(void *pool);

// A call passes through these in order: reserve (waits while POOL_MAX connections are in use), then take_idle or, when
// there is none, add_busy with a new one (or unreserve), at the end check_in.
enum { POOL_MAX = 512, POOL_IDLE_MAX = 64 };
bool pool_reserve(struct operation *op, struct pool *p, int64_t until_ms, struct error *err);
void pool_unreserve(struct pool *p);
struct channel *pool_take_idle(struct pool *p); // the one used last; NULL: none
void pool_add_busy(struct pool *p, struct channel *c);
void pool_check_in(struct pool *p, struct channel *c,
                   bool usable); // closes it when it is not, or when too many are idle

// The new one is known here while it is made.
void pool_add_opening(struct pool *p, struct opening *o);
void pool_remove_opening(struct pool *p, struct opening *o);

void pool_close_idle(struct pool *p);
// Busy ones, and those that are being made.
void pool_fail_busy(struct pool *p, int32_t code, const char *text);
size_t pool_busy(const struct pool *p);

#endif
