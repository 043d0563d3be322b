// Commands to other daemons: a pool of connections a host, one command at a time on each.
#ifndef SHARDLET_NET_REMOTE_H
#define SHARDLET_NET_REMOTE_H

#include "common/net/operation.h"
#include "proto/message.h"

struct remotes; // all pools of a loop

struct remotes *remotes_new(struct loop *l,
                            const char *app_name); // app_name: sent in the handshake, for the other side's log
void remotes_close(struct remotes *r);             // closes idle connections, fails running calls

struct remote_command {
  const char *db;
  const bson_t *body;               // without $db; sent as it is, $db and gossip are added
  const struct sequence *sequences; // kind-1 sections, forwarded without copying
  size_t n_sequences;
  int64_t timeout_ms; // 0 = only the operation's deadline
};

// Sends and waits. false: no usable answer. err tells transport failures (error_is_network(), *reply NULL: the command
// may or may not have run) from the other side's ok:0 (*reply is the whole reply). *reply is a view allocated from
// op->arena. A dead pooled connection that fails before anything was written is replaced silently, once.
bool remote_call(struct operation *op, struct remotes *r, const char *host, const struct remote_command *cmd,
                 const bson_t **reply, struct error *err);

// Drops a host's idle connections, after it was found dead.
void remotes_forget(struct remotes *r, const char *host);

// Called with every reply's gossip fields ($clusterTime, $configTime, $topologyTime), and before every send to add
// them.
void remotes_set_gossip(struct remotes *r, void (*incoming)(void *ctx, const bson_t *reply),
                        void (*outgoing)(void *ctx, bson_t *body), void *ctx);

// A long-lived raw stream after an upgrading command (raft's transport). on_close is called once, also if it never
// connects.
struct stream;
struct stream *remote_stream(struct remotes *r, const char *host, const char *db, const bson_t *hello,
                             void (*on_open)(void *ctx), void (*on_data)(void *ctx, const uint8_t *data, size_t len),
                             void (*on_close)(void *ctx), void *ctx);
void stream_send(struct stream *s, const void *data, size_t len); // copied; dropped when more than 64 MiB wait
size_t stream_backlog(const struct stream *s);
void stream_close(struct stream *s);

#endif
