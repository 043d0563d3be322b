// The proxies' thread: one epoll loop over all listeners and relays. See proxy.h.
//
// A relay is two sockets and two directions; a direction has a queue of what was read and not yet written, each piece
// with the time from which it may go. What a rule withholds is not even read, beyond what the queue holds already, so
// that a daemon's sends pile up in its own socket as they would before a silent network.
//
// Who a connection comes from is looked up when the first rule is set after it was accepted, for all such connections
// together: most of the time there is no rule, and the look-up is what costs most here.
#include "tests/chaos/proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "tests/chaos/proxy_source.h"
#include "tests/integration/harness.h"

enum {
  QUEUE_BYTES = 1 << 20,
  READ_BYTES = 64 << 10,
  MAX_EVENTS = 64,
  IDLE_WAIT_MS = 1000,
  BACKLOG = 256,
  PRIORITY = -10
};

struct piece {
  int64_t due_ms;
  size_t len, at;
  struct piece *next;
  uint8_t data[];
};

struct relay;

struct end {           // what epoll hands back
  struct relay *relay; // NULL: a listener of `daemon`
  int daemon, fd;
  uint32_t watched;  // events asked for; 0 = not in epoll
  struct piece *out; // to be written to fd
  struct piece **out_tail;
  size_t queued;
  bool eof; // nothing more comes from fd
};

enum { SOURCE_NOT_ASKED = -2 };

struct relay {
  struct end ends[2]; // [0] who connected: its daemon may be SOURCE_NOT_ASKED or -1 (none of them); [1] the daemon
  int source_port;
  bool closed;
  struct relay *next;
};

struct link {
  enum rule rule;
  int delay_ms;
};

struct proxies {
  pthread_t thread;
  pthread_mutex_t lock; // of links, pids, resets, stopping
  struct link links[MAX_DAEMONS][MAX_DAEMONS];
  bool resets[MAX_DAEMONS][MAX_DAEMONS];
  pid_t pids[MAX_DAEMONS];
  int ports[MAX_DAEMONS], proxy_ports[MAX_DAEMONS];
  bool stopping;
  int n, epoll, wake, diag;
  struct end listeners[MAX_DAEMONS], waker;
  struct link now[MAX_DAEMONS][MAX_DAEMONS]; // the thread's copy
  bool rules;                                // now has some other than to pass
  struct relay *relays;
};

// --- rules, from other threads ---

static void poke(struct proxies *p) {
  uint64_t one = 1;
  (void)!write(p->wake, &one, sizeof one);
}

void proxies_pid(struct proxies *p, int daemon, pid_t pid) {
  (void)pthread_mutex_lock(&p->lock);
  p->pids[daemon] = pid;
  (void)pthread_mutex_unlock(&p->lock);
}

void proxies_rule(struct proxies *p, int from, int to, enum rule rule, int delay_ms) {
  (void)pthread_mutex_lock(&p->lock);
  p->links[from][to] = (struct link){rule, delay_ms};
  (void)pthread_mutex_unlock(&p->lock);
  poke(p);
}

void proxies_reset(struct proxies *p, int a, int b) {
  (void)pthread_mutex_lock(&p->lock);
  p->resets[a][b] = p->resets[b][a] = true;
  (void)pthread_mutex_unlock(&p->lock);
  poke(p);
}

void proxies_pass_all(struct proxies *p) {
  (void)pthread_mutex_lock(&p->lock);
  memset(p->links, 0, sizeof p->links);
  (void)pthread_mutex_unlock(&p->lock);
  poke(p);
}

// --- relays ---

static const struct link *link_to(const struct proxies *p, const struct relay *r, int side) {
  static const struct link pass = {RULE_PASS, 0};
  int from = r->ends[!side].daemon, to = r->ends[side].daemon;
  return from < 0 || to < 0 || from == to ? &pass : &p->now[from][to];
}

static void watch(struct proxies *p, struct end *e, uint32_t events) {
  if (events == e->watched) return;
  struct epoll_event ev = {.events = events, .data.ptr = e};
  int how = !e->watched ? EPOLL_CTL_ADD : events ? EPOLL_CTL_MOD : EPOLL_CTL_DEL;
  (void)epoll_ctl(p->epoll, how, e->fd, &ev);
  e->watched = events;
}

static void relay_close(struct proxies *p, struct relay *r) {
  struct linger reset = {.l_onoff = 1};
  for (int i = 0; i < 2; i++) {
    if (r->closed) break;
    struct end *e = &r->ends[i];
    watch(p, e, 0);
    if (r->ends[0].queued || r->ends[1].queued) (void)setsockopt(e->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    (void)close(e->fd);
  }
  for (int i = 0; i < 2; i++) {
    for (struct piece *x = r->ends[i].out, *next; x; x = next) {
      next = x->next;
      free(x);
    }
    r->ends[i].out = NULL;
  }
  r->closed = true;
}

static void take_in(struct relay *r, int side, int delay_ms) {
  struct end *from = &r->ends[!side], *to = &r->ends[side];
  struct piece *x = malloc(sizeof *x + READ_BYTES);
  ssize_t n = x ? recv(from->fd, x->data, READ_BYTES, MSG_DONTWAIT) : -1;
  if (n <= 0) {
    if (n == 0 || (errno != EAGAIN && errno != EINTR)) from->eof = true;
    free(x);
    return;
  }
  struct piece *fit = realloc(x, sizeof *x + (size_t)n); // most pieces are small
  if (fit) x = fit;
  *x = (struct piece){.due_ms = delay_ms ? now_ms() + delay_ms : 0, .len = (size_t)n};
  if (!to->out) to->out_tail = &to->out;
  *to->out_tail = x;
  to->out_tail = &x->next;
  to->queued += (size_t)n;
}

// Writes what is due. false: the other side is gone.
static bool give_out(struct end *to, int64_t now, bool *full) {
  *full = false;
  while (to->out && to->out->due_ms <= now) {
    struct piece *x = to->out;
    ssize_t n = send(to->fd, x->data + x->at, x->len - x->at, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0) {
      *full = errno == EAGAIN;
      return *full || errno == EINTR;
    }
    x->at += (size_t)n;
    to->queued -= (size_t)n;
    if (x->at < x->len) continue;
    to->out = x->next;
    free(x);
  }
  return true;
}

// Moves bytes in both directions as the rules allow and asks epoll for what is to be waited for. Returns the time of
// the next delayed piece, INT64_MAX = none.
static int64_t relay_run(struct proxies *p, struct relay *r) {
  int64_t now = now_ms(), next = INT64_MAX;
  uint32_t wanted[2] = {0, 0};
  for (int side = 0; side < 2 && !r->closed; side++) {
    struct end *to = &r->ends[side], *from = &r->ends[!side];
    const struct link *l = link_to(p, r, side);
    bool full = false;
    if (l->rule == RULE_SILENT) continue;
    if (!from->eof && to->queued < QUEUE_BYTES) take_in(r, side, l->delay_ms);
    if (!give_out(to, now, &full) || (from->eof && !to->out)) {
      relay_close(p, r);
      return next;
    }
    if (!from->eof && to->queued < QUEUE_BYTES) wanted[!side] |= EPOLLIN;
    if (full) wanted[side] |= EPOLLOUT;
    if (to->out && !full && to->out->due_ms < next) next = to->out->due_ms;
  }
  for (int i = 0; i < 2 && !r->closed; i++) watch(p, &r->ends[i], wanted[i]);
  return next;
}

static void set_options(int fd) {
  int on = 1;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

// Finds out who the connections come from that nobody has asked about yet.
static void identify(struct proxies *p) {
  struct socket_end *ends = NULL;
  size_t n = 0, cap = 0;
  pid_t pids[MAX_DAEMONS];
  (void)pthread_mutex_lock(&p->lock);
  memcpy(pids, p->pids, sizeof pids);
  (void)pthread_mutex_unlock(&p->lock);
  for (const struct relay *r = p->relays; r; r = r->next) {
    if (r->closed || r->ends[0].daemon != SOURCE_NOT_ASKED) continue;
    ends = array_grow(ends, &cap, n + 1, sizeof *ends);
    ends[n++] = (struct socket_end){r->source_port, p->proxy_ports[r->ends[1].daemon], -1};
  }
  socket_owners(p->diag, ends, n, pids, p->n);
  n = 0;
  for (struct relay *r = p->relays; r; r = r->next)
    if (!r->closed && r->ends[0].daemon == SOURCE_NOT_ASKED) r->ends[0].daemon = ends[n++].owner;
  free(ends);
}

static bool is_cut(const struct proxies *p, const struct relay *r, const bool resets[MAX_DAEMONS][MAX_DAEMONS]) {
  int a = r->ends[0].daemon, b = r->ends[1].daemon;
  if (a < 0 || b < 0 || a == b) return false;
  return p->now[a][b].rule == RULE_CUT || p->now[b][a].rule == RULE_CUT || (resets && resets[a][b]);
}

// Returns the time of its next delayed piece, as relay_run().
static int64_t accept_one(struct proxies *p, int daemon) {
  struct sockaddr_in peer, to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)p->ports[daemon])};
  socklen_t len = sizeof peer;
  int fd = accept4(p->listeners[daemon].fd, (struct sockaddr *)&peer, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd < 0) return INT64_MAX;
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  int on = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (connect(on, (struct sockaddr *)&to, sizeof to) && errno != EINPROGRESS) {
    (void)close(on);
    (void)close(fd);
    return INT64_MAX;
  }
  set_options(fd);
  set_options(on);
  struct relay *r = calloc(1, sizeof *r);
  r->source_port = ntohs(peer.sin_port);
  r->ends[0] = (struct end){.relay = r, .daemon = SOURCE_NOT_ASKED, .fd = fd};
  r->ends[1] = (struct end){.relay = r, .daemon = daemon, .fd = on};
  r->next = p->relays;
  p->relays = r;
  if (p->rules) identify(p);
  if (!is_cut(p, r, NULL)) return relay_run(p, r);
  relay_close(p, r);
  return INT64_MAX;
}

// --- the loop ---

// Takes new rules over. Returns false when it is time to end.
static bool refresh(struct proxies *p) {
  bool resets[MAX_DAEMONS][MAX_DAEMONS];
  static const struct link none[MAX_DAEMONS][MAX_DAEMONS];
  (void)pthread_mutex_lock(&p->lock);
  memcpy(p->now, p->links, sizeof p->now);
  memcpy(resets, p->resets, sizeof resets);
  memset(p->resets, 0, sizeof p->resets);
  bool go_on = !p->stopping;
  (void)pthread_mutex_unlock(&p->lock);
  p->rules = memcmp(p->now, none, sizeof none) != 0;
  if (p->rules) identify(p);
  for (struct relay *r = p->relays; r; r = r->next)
    if (!r->closed && is_cut(p, r, resets)) relay_close(p, r);
  return go_on;
}

static int64_t run_all(struct proxies *p) {
  int64_t next = INT64_MAX;
  for (struct relay **at = &p->relays; *at;) {
    struct relay *r = *at;
    int64_t due = r->closed ? INT64_MAX : relay_run(p, r);
    if (due < next) next = due;
    if (r->closed) {
      *at = r->next;
      free(r);
    } else {
      at = &r->next;
    }
  }
  return next;
}

static void *run(void *arg) {
  struct proxies *p = arg;
  int64_t next = INT64_MAX;
  bool go_on = true;
  (void)setpriority(PRIO_PROCESS, 0, PRIORITY); // of this thread, where this user may: it stands for the network
  while (go_on) {
    struct epoll_event events[MAX_EVENTS];
    int64_t wait = next == INT64_MAX ? IDLE_WAIT_MS : next - now_ms();
    int n = epoll_wait(p->epoll, events, MAX_EVENTS, wait < 0 ? 0 : (int)wait);
    bool all = next <= now_ms();
    for (int i = 0; i < n; i++) {
      struct end *e = events[i].data.ptr;
      if (e == &p->waker) {
        uint64_t times;
        (void)!read(p->wake, &times, sizeof times);
        go_on = refresh(p);
        all = true;
      } else if (!e->relay) {
        int64_t due = accept_one(p, e->daemon);
        if (due < next) next = due;
      } else if (!e->relay->closed) {
        int64_t due = relay_run(p, e->relay);
        // A socket that is gone while its direction is silent would be reported again and again.
        if (!e->relay->closed && (events[i].events & (EPOLLHUP | EPOLLERR))) watch(p, e, 0);
        if (due < next) next = due;
        all = all || e->relay->closed;
      }
    }
    if (all) next = run_all(p); // also frees what was closed: no event of this turn names it any more
  }
  for (struct relay *r = p->relays, *after; r; r = after) {
    after = r->next;
    relay_close(p, r);
    free(r);
  }
  return NULL;
}

// --- start and stop ---

struct proxies *proxies_start(int n_daemons) {
  struct proxies *p = calloc(1, sizeof *p);
  p->n = n_daemons;
  (void)pthread_mutex_init(&p->lock, NULL);
  p->epoll = epoll_create1(EPOLL_CLOEXEC);
  p->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  p->diag = socket_diag_open();
  p->waker = (struct end){.fd = p->wake};
  watch(p, &p->waker, EPOLLIN);
  if (p->epoll >= 0 && p->wake >= 0 && pthread_create(&p->thread, NULL, run, p) == 0) return p;
  free(p);
  return NULL;
}

int proxies_add(struct proxies *p, int daemon, int port) {
  int proxy_port = free_port(), fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), on = 1;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)proxy_port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, BACKLOG)) {
    (void)close(fd);
    return 0;
  }
  p->ports[daemon] = port;
  p->proxy_ports[daemon] = proxy_port;
  p->listeners[daemon] = (struct end){.daemon = daemon, .fd = fd};
  watch(p, &p->listeners[daemon], EPOLLIN);
  return proxy_port;
}

void proxies_stop(struct proxies *p) {
  if (!p) return;
  (void)pthread_mutex_lock(&p->lock);
  p->stopping = true;
  (void)pthread_mutex_unlock(&p->lock);
  poke(p);
  (void)pthread_join(p->thread, NULL);
  for (int i = 0; i < p->n; i++)
    if (p->listeners[i].fd > 0) (void)close(p->listeners[i].fd);
  (void)close(p->epoll);
  (void)close(p->wake);
  if (p->diag >= 0) (void)close(p->diag);
  (void)pthread_mutex_destroy(&p->lock);
  free(p);
}
