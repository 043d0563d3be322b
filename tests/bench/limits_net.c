// Network limits: a ping-pong, a two-hop echo, and the load that is used against both echo and router.
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <uv.h>

#include "tests/bench/client.h"
#include "tests/bench/limits.h"

static double clock_us(clockid_t clock) {
  struct timespec t;
  (void)clock_gettime(clock, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

double now_us(void) {
  return clock_us(CLOCK_MONOTONIC);
}

double cpu_us(void) {
  return clock_us(CLOCK_PROCESS_CPUTIME_ID);
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double median(double *values, size_t n) {
  qsort(values, n, sizeof *values, by_value);
  return n ? values[n / 2] : 0;
}

static int listen_loopback(int *port) {
  struct sockaddr_in address = {.sin_family = AF_INET};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t n = sizeof address;
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (fd < 0 || bind(fd, (struct sockaddr *)&address, n) || listen(fd, 128) ||
      getsockname(fd, (struct sockaddr *)&address, &n)) {
    give_up("cannot listen: %s", strerror(errno));
  }
  *port = ntohs(address.sin_port);
  return fd;
}

static int accept_one(int listener) {
  int fd = accept(listener, NULL, NULL), on = 1;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

// A process that answers `rounds` requests. sync_folder: as in limit_chain_us().
static pid_t echo_start(size_t request, size_t reply, int rounds, const char *sync_folder, int *port) {
  int listener = listen_loopback(port);
  pid_t child = fork();
  if (child != 0) {
    (void)close(listener);
    return child;
  }
  char *bytes = calloc(1, request + reply);
  int file = sync_folder ? sync_file_open(sync_folder, rounds) : -1, fd = accept_one(listener);
  for (int i = 0; i < rounds; i++) {
    read_all(fd, bytes, request);
    if (sync_folder) sync_file_write(file, i);
    write_all(fd, bytes, reply);
  }
  _exit(0);
}

// A process that hands `rounds` requests on to `next`, and the replies back.
static pid_t relay_start(size_t request, size_t reply, int rounds, int next, int *port) {
  int listener = listen_loopback(port);
  pid_t child = fork();
  if (child != 0) {
    (void)close(listener);
    return child;
  }
  char *bytes = calloc(1, request + reply);
  int on = connect_loopback(next), fd = accept_one(listener);
  for (int i = 0; i < rounds; i++) {
    read_all(fd, bytes, request);
    write_all(on, bytes, request);
    read_all(on, bytes, reply);
    write_all(fd, bytes, reply);
  }
  _exit(0);
}

static double round_trip_us(int port, size_t request, size_t reply, int rounds) {
  int fd = connect_loopback(port);
  char *bytes = calloc(1, request + reply);
  double *times = calloc((size_t)rounds, sizeof *times);
  for (int i = 0; i < rounds; i++) {
    double start = now_us();
    write_all(fd, bytes, request);
    read_all(fd, bytes, reply);
    times[i] = now_us() - start;
  }
  (void)close(fd);
  double result = median(times, (size_t)rounds);
  free(times);
  free(bytes);
  return result;
}

double limit_ping_pong_us(size_t request, size_t reply, int rounds) {
  int port;
  pid_t echo = echo_start(request, reply, rounds, NULL, &port);
  double result = round_trip_us(port, request, reply, rounds);
  (void)waitpid(echo, NULL, 0);
  return result;
}

double limit_chain_us(size_t request, size_t reply, int rounds, const char *sync_folder) {
  int echo_port, relay_port;
  pid_t echo = echo_start(request, reply, rounds, sync_folder, &echo_port);
  pid_t relay = relay_start(request, reply, rounds, echo_port, &relay_port);
  double result = round_trip_us(relay_port, request, reply, rounds);
  (void)waitpid(relay, NULL, 0);
  (void)waitpid(echo, NULL, 0);
  return result;
}

// One process of the two-hop echo: each client that connects is answered here (next == 0) or handed on to port `next`.
struct hop {
  size_t request, reply;
  int next;
  char *bytes; // what is sent: the content does not matter
};

struct leg {
  uv_tcp_t socket;
  struct hop *hop;
  struct leg *other; // the connection that the request goes on to; NULL in the last hop
  size_t want, have; // bytes that make up what is waited for
  size_t answer;     // bytes then sent
  bool back;         // this leg carries replies
};

static void leg_alloc(uv_handle_t *h, size_t size, uv_buf_t *buf) {
  static char room[65536];
  *buf = uv_buf_init(room, sizeof room);
}

static void leg_send(struct leg *to, size_t n) {
  uv_buf_t b = uv_buf_init(to->hop->bytes, (unsigned)n);
  (void)uv_try_write((uv_stream_t *)&to->socket, &b, 1); // a few hundred bytes on an empty socket: never partial
}

static void leg_read(uv_stream_t *s, ssize_t n, const uv_buf_t *buf) {
  struct leg *l = s->data;
  if (n < 0) {
    (void)uv_read_stop(s);
    return;
  }
  for (l->have += (size_t)n; l->have >= l->want; l->have -= l->want) leg_send(l->other ? l->other : l, l->answer);
}

static struct leg *leg_new(uv_loop_t *loop, struct hop *hop, bool back) {
  struct leg *l = calloc(1, sizeof *l);
  l->hop = hop;
  l->back = back;
  l->want = back ? hop->reply : hop->request;
  l->answer = back || !hop->next ? hop->reply : hop->request;
  l->socket.data = l;
  (void)uv_tcp_init(loop, &l->socket);
  return l;
}

static void hop_accept(uv_stream_t *server, int status) {
  struct hop *hop = server->data;
  struct leg *l = leg_new(server->loop, hop, false);
  (void)uv_accept(server, (uv_stream_t *)&l->socket);
  (void)uv_tcp_nodelay(&l->socket, 1);
  if (hop->next) {
    struct leg *o = leg_new(server->loop, hop, true);
    (void)uv_tcp_open(&o->socket, connect_loopback(hop->next));
    l->other = o;
    o->other = l;
    (void)uv_read_start((uv_stream_t *)&o->socket, leg_alloc, leg_read);
  }
  (void)uv_read_start((uv_stream_t *)&l->socket, leg_alloc, leg_read);
}

static pid_t hop_start(size_t request, size_t reply, int next, int *port) {
  int listener = listen_loopback(port);
  pid_t child = fork();
  if (child != 0) {
    (void)close(listener);
    return child;
  }
  uv_loop_t loop;
  uv_tcp_t server;
  struct hop hop = {request, reply, next, calloc(1, request + reply)};
  // A reply is a wire message for the load generator: its length stands first.
  uint32_t n = (uint32_t)reply;
  memcpy(hop.bytes, &n, sizeof n);
  ((int32_t *)(void *)hop.bytes)[3] = 2013;
  (void)uv_loop_init(&loop);
  (void)uv_tcp_init(&loop, &server);
  server.data = &hop;
  (void)uv_tcp_open(&server, listener);
  (void)uv_listen((uv_stream_t *)&server, 128, hop_accept);
  (void)uv_run(&loop, UV_RUN_DEFAULT);
  _exit(0);
}

double limit_two_hop_per_s(size_t request, size_t reply, int clients, double seconds) {
  int echo_port, relay_port;
  pid_t echo = hop_start(request, reply, 0, &echo_port);
  pid_t relay = hop_start(request, reply, echo_port, &relay_port);
  char *message = calloc(1, request);
  double rate = load_per_s(relay_port, message, request, clients, seconds);
  free(message);
  (void)kill(relay, SIGKILL);
  (void)kill(echo, SIGKILL);
  (void)waitpid(relay, NULL, 0);
  (void)waitpid(echo, NULL, 0);
  return rate;
}

struct load_client {
  int fd;
  size_t have, want; // of the reply; want is known once four bytes are there
  uint8_t head[4];
};

// Reads what is there; true when a whole reply has arrived.
static bool load_read(struct load_client *c) {
  static char room[65536];
  ssize_t n = read(c->fd, room, sizeof room);
  if (n <= 0) give_up("the connection broke under load");
  for (ssize_t i = 0; i < n && c->have + (size_t)i < 4; i++) c->head[c->have + (size_t)i] = (uint8_t)room[i];
  c->have += (size_t)n;
  if (c->have < 4) return false;
  c->want = (size_t)c->head[0] | (size_t)c->head[1] << 8 | (size_t)c->head[2] << 16 | (size_t)c->head[3] << 24;
  if (c->have < c->want) return false;
  c->have = 0;
  return true;
}

double load_per_s(int port, const void *message, size_t n, int clients, double seconds) {
  struct load_client *all = calloc((size_t)clients, sizeof *all);
  int poll = epoll_create1(EPOLL_CLOEXEC);
  for (int i = 0; i < clients; i++) {
    all[i].fd = connect_loopback(port);
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = &all[i]};
    (void)epoll_ctl(poll, EPOLL_CTL_ADD, all[i].fd, &e);
    write_all(all[i].fd, message, n);
  }
  long done = 0;
  double start = now_us(), end = start + seconds * 1e6;
  while (now_us() < end) {
    struct epoll_event events[64];
    int ready = epoll_wait(poll, events, 64, 1000);
    for (int i = 0; i < ready; i++) {
      struct load_client *c = events[i].data.ptr;
      if (!load_read(c)) continue;
      done++;
      write_all(c->fd, message, n);
    }
  }
  double elapsed = (now_us() - start) / 1e6;
  for (int i = 0; i < clients; i++) (void)close(all[i].fd);
  (void)close(poll);
  free(all);
  return (double)done / elapsed;
}
