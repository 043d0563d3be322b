// Commands to other daemons: a pool of connections a host, one command at a time on each.
#ifndef SHARDLET_NET_REMOTE_H
#define SHARDLET_NET_REMOTE_H

#include "common/net/operation.h"
#include "proto/message.h"

struct remotes; // all pools of a loop

// app_name: sent in the handshake, for the other side's log. The memory goes with the loop.
struct remotes *remotes_new(struct loop *l, const char *app_name);
// Closes connections and streams, fails running and later calls (InterruptedAtShutdown), ends the monitors of replica
// sets.
void remotes_close(struct remotes *r);

struct remote_command {
  const char *db;
  const bson_t *body;               // without $db; sent as it is, $db and gossip are added
  const struct sequence *sequences; // kind-1 sections, forwarded without copying
  size_t n_sequences;
  int64_t timeout_ms; // 0 = only the operation's deadline
  bool *may_have_run; // NULL, or set by the call: false when surely nothing of the command reached the other side
};

// Sends and waits. false: no usable answer. err tells transport failures (error_is_network(), *reply NULL: the command
// may or may not have run, see may_have_run) from the other side's ok:0 (*reply is the whole reply). *reply is a view
// allocated from op->arena. A dead pooled connection that fails before anything was written is replaced silently, once.
// A call that is given up (deadline, kill) closes its connection, which ends the command on the other side.
bool remote_call(struct operation *op, struct remotes *r, const char *host, const struct remote_command *cmd,
                 const bson_t **reply, struct error *err);

// Drops a host's idle connections, after it was found dead.
void remotes_forget(struct remotes *r, const char *host);
// Fails the calls that wait for this host with HostUnreachable, after it stopped answering and another took its place.
void remotes_interrupt(struct remotes *r, const char *host);
size_t remotes_waiting(const struct remotes *r, const char *host); // calls that wait for an answer

// Called with every reply's gossip fields ($clusterTime, $configTime, $topologyTime), and before every send to add
// them.
void remotes_set_gossip(struct remotes *r, void (*incoming)(void *ctx, const bson_t *reply),
                        void (*outgoing)(void *ctx, bson_t *body), void *ctx);

// A long-lived raw stream after an upgrading command (raft's transport). on_open once, when the other side has accepted
// the command; on_close exactly once in every case (never connected, refused, ended by either side, stream_close()),
// but not inside a call of these functions; *s is gone afterwards. Callbacks must not wait.
struct stream;
struct stream *remote_stream(struct remotes *r, const char *host, const char *db, const bson_t *hello,
                             void (*on_open)(void *ctx), void (*on_data)(void *ctx, const uint8_t *data, size_t len),
                             void (*on_close)(void *ctx), void *ctx);
// Copied; dropped as a whole when more than 64 MiB would wait. Before on_open it is kept and sent then.
void stream_send(struct stream *s, const void *data, size_t len);
size_t stream_backlog(const struct stream *s);
void stream_close(struct stream *s);

#endif
