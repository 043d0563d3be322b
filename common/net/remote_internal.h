// All pools of a loop, as remote.c and stream.c see them. Internal to common/net.
#ifndef SHARDLET_NET_REMOTE_INTERNAL_H
#define SHARDLET_NET_REMOTE_INTERNAL_H

#include "common/base/map.h"
#include "common/net/channel.h"
#include "common/net/remote.h"

enum { CONNECT_MS = 10000 };

struct remotes {
  struct loop *loop;
  const char *app_name;
  struct arena *arena; // of what lives as long
  struct map *pools;   // struct pool *, by host
  struct stream *streams;
  struct buf out; // where messages are put together
  void (*incoming)(void *ctx, const bson_t *reply);
  void (*outgoing)(void *ctx, bson_t *body);
  void *gossip_ctx;
  bool closed;
  uint8_t scratch[CHANNEL_READ_BYTES];
};

// One command on a channel: sends it and waits for the reply. *sent: whether any of it went out.
bool exchange(struct operation *op, struct remotes *r, struct channel *c, const struct remote_command *cmd,
              int64_t until_ms, bool *sent, const bson_t **reply, struct error *err);

void streams_close(struct remotes *r);

#endif
