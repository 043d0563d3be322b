// A client's connection, as connection.c and server.c see it. Internal to common/net.
#ifndef SHARDLET_NET_CONNECTION_H
#define SHARDLET_NET_CONNECTION_H

#include "common/net/frame.h"
#include "common/net/server.h"

enum { READ_BYTES = 64 * 1024 };

struct server {
  struct loop *loop;
  struct server_options options;
  server_handler handler;
  void *ctx;
  struct listener *listeners;
  size_t n_listeners;
  int port;
  struct connection *connections;
  size_t n_connections, n_created;
  bool closing;
  int32_t closing_code; // what the requests that still run were killed with
  struct event changed; // a connection has gone
  struct server_traffic traffic;
  struct buf out;              // where replies are put together
  uint8_t scratch[READ_BYTES]; // what is read, between two callbacks that follow each other
};

struct connection {
  uv_tcp_t tcp;
  struct server *server;
  struct connection *next, *prev;
  uint64_t id;
  char name[24], remote[64];

  struct frame frame;   // the message that is arriving
  struct buf early;     // what came while a request was running: not looked at yet
  struct buf request;   // the message that is being answered
  struct operation *op; // answers it; NULL = idle
  bool expects_reply;   // the running request's sender waits for one
  int32_t last_id;      // requestID of our last message

  bool reading;
  bool direct;  // what is read goes into the frame itself
  bool gone;    // the other side closed, or the socket failed
  bool ending;  // close when the output is out
  bool closing; // the socket is being closed
  bool closed;

  enum compressor compressor;

  bool upgraded;
  struct buf held; // raw bytes that were sent while the request that upgrades still ran
  void (*on_data)(void *ctx, const uint8_t *data, size_t len);
  void (*on_close)(void *ctx);
  void *upgrade_ctx;
};

// Takes over an accepted socket; the server knows it until it is freed.
struct connection *connection_new(struct server *s);
void connection_begin(struct connection *c); // after uv_accept()
// Closes the socket at once and kills the running request. The connection is freed when both have ended.
void connection_abort(struct connection *c, int32_t code);
// Closes it as soon as it is idle and its output is out.
void connection_finish(struct connection *c);

#endif
