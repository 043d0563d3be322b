// Accepts connections, cuts messages out of them, gives each to a handler in a fiber of its own, writes replies.
#ifndef SHARDLET_NET_SERVER_H
#define SHARDLET_NET_SERVER_H

#include "common/net/operation.h"
#include "proto/message.h"

struct server;
struct connection;

struct server_options {
  const char *const *bind_ips;
  size_t n_bind_ips; // numeric addresses or names
  int port;
  size_t max_connections;
  const char *what; // "mongos" ..., for the log
};

// handler: appends the reply to *reply (empty = send none). Runs in a fiber; a connection's requests run one after
// another.
typedef void (*server_handler)(void *ctx, struct operation *op, struct connection *c, const struct message *m,
                               bson_t *reply);

// Listens. err: the address, why, and what to do ("port 27017 is taken: choose another with --port").
struct server *server_listen(struct loop *l, const struct server_options *o, server_handler handler, void *ctx,
                             struct error *err);
int server_port(const struct server *s); // the real one when 0 was asked for
void server_stop_accepting(struct server *s);
// Ends: running operations get `code`, connections are closed when their reply is out, at most after grace_ms.
void server_close(struct operation *op, struct server *s, int32_t code, int64_t grace_ms);
struct server_traffic {
  int64_t bytes_in, bytes_out, requests;
};
struct server_traffic server_traffic(const struct server *s); // since the start
size_t server_connections(const struct server *s, size_t *total_created);

uint64_t connection_id(const struct connection *c);
const char *connection_remote(const struct connection *c); // "127.0.0.1:53122"
bool connection_alive(const struct connection *c);
void connection_set_compressor(struct connection *c, enum compressor comp); // after the handshake's reply
// Takes the socket over behind this request's reply: it becomes a raw byte stream (raft's transport). on_data gets what
// arrives, also what was read already; on_close exactly once, when the connection has ended for whatever reason (also
// connection_close(), but not inside that call), after which *c is gone. Both run in the loop and must not wait.
// Nothing more is parsed.
void connection_upgrade(struct connection *c, void (*on_data)(void *ctx, const uint8_t *data, size_t len),
                        void (*on_close)(void *ctx), void *ctx);
// Of an upgraded one; copied; dropped when more than 64 MiB wait.
void connection_send_raw(struct connection *c, const void *data, size_t len);
void connection_close(struct connection *c); // an ordinary one: behind the running request's reply
// Sends a further message on an ordinary connection (exhaust replies), not compressed. Returns its requestID.
int32_t connection_send(struct connection *c, int32_t response_to, uint32_t flags, const bson_t *body);

#endif
