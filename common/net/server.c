// Listening and accepting, and the orderly end of a server.
#include "common/net/server.h"

#include <stdlib.h>

#include "common/base/log.h"
#include "common/net/connection.h"
#include "common/net/loop_internal.h"
#include "common/net/operation_internal.h"

enum { BACKLOG = 1024, MAX_LISTENERS = 16 };

struct listener {
  uv_tcp_t tcp;
  struct server *server;
};

static void on_connection(uv_stream_t *stream, int status) {
  struct server *s = ((struct listener *)stream->data)->server;
  if (status < 0) {
    log_warn("NETWORK", "Cannot accept a connection", "reason:s", uv_strerror(status));
    return;
  }
  struct connection *c = connection_new(s);
  if (uv_accept(stream, (uv_stream_t *)&c->tcp) != 0) {
    connection_abort(c, ERR_ClientDisconnect);
  } else if (s->n_connections > s->options.max_connections) {
    log_warn("NETWORK", "Connection refused because there are too many connections", "connectionCount:l maxConns:l",
             (int64_t)s->n_connections - 1, (int64_t)s->options.max_connections);
    connection_abort(c, ERR_ClientDisconnect);
  } else {
    connection_begin(c);
  }
}

static bool listen_error(struct server *s, const char *where, int rc, struct error *err) {
  if (rc == UV_EADDRINUSE) {
    return error_set(err, ERR_OperationFailed, "cannot listen on %s:%d: port %d is taken, choose another with --port",
                     where, s->options.port, s->options.port);
  }
  if (rc == UV_EACCES) {
    return error_set(err, ERR_OperationFailed,
                     "cannot listen on %s:%d: ports below 1024 need special rights, choose another with --port", where,
                     s->options.port);
  }
  if (rc == UV_EADDRNOTAVAIL) {
    return error_set(err, ERR_OperationFailed,
                     "cannot listen on %s:%d: this machine has no such address, choose another with --bind_ip", where,
                     s->options.port);
  }
  return error_set(err, ERR_OperationFailed, "cannot listen on %s:%d: %s", where, s->options.port, uv_strerror(rc));
}

static void set_port(struct sockaddr *address, int port) {
  if (address->sa_family == AF_INET6)
    ((struct sockaddr_in6 *)address)->sin6_port = htons((uint16_t)port);
  else
    ((struct sockaddr_in *)address)->sin_port = htons((uint16_t)port);
}

static int bound_port(const uv_tcp_t *tcp) {
  struct sockaddr_storage bound;
  int len = sizeof bound;
  if (uv_tcp_getsockname(tcp, (struct sockaddr *)&bound, &len) != 0) return 0;
  return bound.ss_family == AF_INET6 ? ntohs(((struct sockaddr_in6 *)&bound)->sin6_port)
                                     : ntohs(((struct sockaddr_in *)&bound)->sin_port);
}

// An IPv4 socket may listen beside an IPv6 one on the same port, so the latter must not take both.
static int listen_on(struct server *s, struct sockaddr *address) {
  struct listener *l = &s->listeners[s->n_listeners];
  set_port(address, s->port);
  int rc = uv_tcp_init(loop_uv(s->loop), &l->tcp);
  if (rc) return rc;
  l->tcp.data = l;
  l->server = s;
  s->n_listeners++;
  rc = uv_tcp_bind(&l->tcp, address, address->sa_family == AF_INET6 ? UV_TCP_IPV6ONLY : 0);
  if (!rc) rc = uv_listen((uv_stream_t *)&l->tcp, BACKLOG, on_connection);
  if (!rc) s->port = bound_port(&l->tcp); // further addresses share the port that the first one got
  return rc;
}

static bool listen_on_name(struct server *s, const char *name, struct error *err) {
  uv_getaddrinfo_t lookup;
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
  int rc = uv_getaddrinfo(loop_uv(s->loop), &lookup, NULL, name, NULL, &hints); // waits: before anybody is served
  if (rc) return error_set(err, ERR_HostNotFound, "cannot listen on %s: %s", name, uv_strerror(rc));
  size_t listening = 0;
  for (struct addrinfo *a = lookup.addrinfo; a; a = a->ai_next) {
    if (s->n_listeners == MAX_LISTENERS) break;
    int one = listen_on(s, a->ai_addr);
    if (!one) listening++;
    // A name like "localhost" may have an IPv6 address on a machine without IPv6; a taken port is never passed over.
    if (one && (one != UV_EADDRNOTAVAIL && one != UV_EAFNOSUPPORT)) {
      uv_freeaddrinfo(lookup.addrinfo);
      return listen_error(s, name, one, err);
    }
    rc = one ? one : rc;
  }
  uv_freeaddrinfo(lookup.addrinfo);
  return listening || listen_error(s, name, rc, err);
}

static void close_listeners(struct server *s) {
  for (size_t i = 0; i < s->n_listeners; i++) {
    uv_handle_t *handle = (uv_handle_t *)&s->listeners[i].tcp;
    if (!uv_is_closing(handle)) uv_close(handle, NULL);
  }
}

// The listeners' handles end in the loop, after which the memory can go.
static void free_server(void *arg) {
  struct server *s = arg;
  buf_free(&s->out);
  free(s->listeners);
  free(s);
}

struct server *server_listen(struct loop *l, const struct server_options *o, server_handler handler, void *ctx,
                             struct error *err) {
  size_t cap = 0;
  struct server *s = array_grow(NULL, &cap, 1, sizeof *s);
  s->loop = l;
  s->options = *o;
  s->handler = handler;
  s->ctx = ctx;
  s->port = o->port;
  cap = 0;
  s->listeners = array_grow(NULL, &cap, MAX_LISTENERS, sizeof *s->listeners);
  loop_at_free(l, free_server, s);
  for (size_t i = 0; i < o->n_bind_ips; i++) {
    if (listen_on_name(s, o->bind_ips[i], err)) continue;
    close_listeners(s);
    return NULL;
  }
  log_info("NETWORK", "Listening", "what:s port:d", o->what, s->port);
  return s;
}

int server_port(const struct server *s) {
  return s->port;
}

struct server_traffic server_traffic(const struct server *s) {
  return s->traffic;
}

size_t server_connections(const struct server *s, size_t *total_created) {
  if (total_created) *total_created = s->n_created;
  return s->n_connections;
}

void server_stop_accepting(struct server *s) {
  close_listeners(s);
}

static void each_connection(struct server *s, void (*fn)(struct connection *c, int32_t code), int32_t code) {
  struct connection *next;
  for (struct connection *c = s->connections; c; c = next) {
    next = c->next;
    fn(c, code);
  }
}

static void end_request(struct connection *c, int32_t code) {
  if (c->op) operation_kill(c->op, code);
  if (c->upgraded)
    connection_close(c);
  else
    connection_finish(c);
}

void server_close(struct operation *op, struct server *s, int32_t code, int64_t grace_ms) {
  s->closing = true;
  s->closing_code = code;
  close_listeners(s);
  each_connection(s, end_request, code);
  struct error err;
  int64_t until = loop_now_ms(op->loop) + grace_ms;
  while (s->connections && loop_now_ms(op->loop) < until) {
    bool timed_out;
    if (!event_wait_for(op, &s->changed, until - loop_now_ms(op->loop), &timed_out, &err)) break;
  }
  each_connection(s, connection_abort, code);
  while (s->connections) event_await(op, &s->changed); // requests that were killed end by themselves
}
