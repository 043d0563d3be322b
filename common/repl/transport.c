// Raft's messages between members. Each member opens a connection to each other one and sends on it; what it receives
// comes on the connections that others opened. A connection begins with the command _raftStream {set, id, host, to} and
// then carries encoded messages (consensus_message.c).
//
// Between them go reports: what a member tells about itself (frame: u8 100, u8 state, u8 electable, u64 applied, ts,
// term, wall).
//
// Messages may be lost at any time: raft repeats what matters. So there are no queues but the socket's, and what waits
// for a connection that is just being opened.
#include "common/repl/transport.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/bson/doc.h"
#include "common/repl/initial_sync.h"
#include "common/repl/repl_internal.h"

enum {
  MAX_PEERS = 64,
  PENDING_BYTES = 1 << 20,  // for a connection that is being opened
  BACKLOG_BYTES = 32 << 20, // a member that does not read: what is more is dropped
  HELD_BYTES = 16 << 20,    // while a vote is being written
  FRAME_BYTES = 64 << 20,   // largest message: MAX_INFLIGHT entries are cut to APPEND_BYTES, one entry may be larger
  APPEND_BYTES = 4 << 20,   // of entries in one message, unless the first alone is more
  RETRY_MS = 200,
  FORGET_MS = 30000,
  NOTE_BYTES = 16,
  REPORT_KIND = 100, // beside enum message_kind
  REPORT_BYTES = 3 + 4 * 8,
};

struct peer {
  struct transport *t;
  uint64_t id;
  char *host;
  struct stream *out;
  bool open, reading; // reading: a job fetches entries for it from the disk
  int64_t retry_at, heard;
  bool reported;
  struct report report;
};

struct incoming { // a connection that another member opened
  struct transport *t;
  struct connection *c;
  uint64_t id;
  char *host;
  struct buf data;
  bool closed;
  struct incoming *next;
};

struct transport {
  struct repl *r;
  struct peer *peers[MAX_PEERS];
  size_t n_peers;
  size_t holding; // writes of votes under way
  struct held {
    struct peer *to;
    struct buf bytes;
  } * held;
  size_t n_held, cap_held, held_bytes;
  struct incoming *incoming;
};

struct transport *transport_new(struct repl *r) {
  size_t cap = 0;
  struct transport *t = array_grow(NULL, &cap, 1, sizeof *t);
  t->r = r;
  return t;
}

static struct peer *find_peer(const struct transport *t, uint64_t id) {
  for (size_t i = 0; i < t->n_peers; i++)
    if (t->peers[i]->id == id) return t->peers[i];
  return NULL;
}

static struct peer *need_peer(struct transport *t, uint64_t id, const char *host) {
  struct peer *p = find_peer(t, id);
  if (p || t->n_peers == MAX_PEERS) return p;
  size_t cap = 0;
  p = array_grow(NULL, &cap, 1, sizeof *p);
  *p = (struct peer){.t = t, .id = id, .host = strdup(host), .heard = -1};
  if (!p->host) log_fatal("REPL", "Out of memory for a member's connection", NULL);
  t->peers[t->n_peers++] = p;
  return p;
}

const struct report *transport_report(const struct transport *t, uint64_t id) {
  const struct peer *p = find_peer(t, id);
  return p && p->reported ? &p->report : NULL;
}

int64_t transport_heard(const struct transport *t, uint64_t id) {
  const struct peer *p = find_peer(t, id);
  return p ? p->heard : -1;
}

// --- sending ---

static void on_open(void *ctx) {
  ((struct peer *)ctx)->open = true;
}

static void on_answer(void *ctx, const uint8_t *data, size_t len) {
  // Nothing comes back on this connection.
}

static void peer_free(struct peer *p) {
  free(p->host);
  free(p);
}

static void on_close(void *ctx) {
  struct peer *p = ctx;
  if (!p->t) {
    peer_free(p); // the transport went before
    return;
  }
  p->out = NULL;
  p->open = false;
  p->retry_at = loop_now_ms(p->t->r->loop) + RETRY_MS;
}

static void open_stream(struct peer *p) {
  struct repl *r = p->t->r;
  if (p->out || !r->remotes || r->stopping || loop_now_ms(r->loop) < p->retry_at) return;
  p->retry_at = loop_now_ms(r->loop) + RETRY_MS;
  bson_t hello = BSON_INITIALIZER;
  BSON_APPEND_INT32(&hello, "_raftStream", 1);
  BSON_APPEND_UTF8(&hello, "set", r->set_name);
  BSON_APPEND_INT64(&hello, "id", (int64_t)r->id);
  BSON_APPEND_UTF8(&hello, "host", r->self);
  BSON_APPEND_INT64(&hello, "to", (int64_t)p->id);
  p->out = remote_stream(r->remotes, p->host, "admin", &hello, on_open, on_answer, on_close, p);
  bson_destroy(&hello);
}

static void peer_send(struct peer *p, const struct buf *bytes) {
  open_stream(p);
  if (p->out && stream_backlog(p->out) < (p->open ? BACKLOG_BYTES : PENDING_BYTES))
    stream_send(p->out, bytes->data, bytes->len);
}

// Sends, or holds back while a vote is not on disk yet.
static void pass(struct peer *p, struct buf *bytes) {
  struct transport *t = p->t;
  if (!t->holding) {
    peer_send(p, bytes);
  } else if (t->held_bytes < HELD_BYTES) {
    t->held = array_grow(t->held, &t->cap_held, t->n_held + 1, sizeof *t->held);
    t->held[t->n_held++] = (struct held){p, *bytes};
    t->held_bytes += bytes->len;
    *bytes = (struct buf){0};
  }
  buf_free(bytes);
}

void transport_hold(struct transport *t) {
  t->holding++;
}

void transport_release(struct transport *t, size_t votes) {
  t->holding -= votes;
  if (t->holding) return;
  for (size_t i = 0; i < t->n_held; i++) {
    peer_send(t->held[i].to, &t->held[i].bytes);
    buf_free(&t->held[i].bytes);
  }
  t->n_held = t->held_bytes = 0;
}

static void send_encoded(struct peer *p, const struct consensus_message *m) {
  struct buf bytes = {0};
  message_encode(&bytes, m);
  pass(p, &bytes);
}

// Sends entries in messages of a bounded size.
static void send_append(struct peer *p, const struct consensus_message *m, struct entry **entries, size_t n) {
  struct consensus_message part = *m;
  for (size_t at = 0; at < n || !at;) {
    size_t k = 0, bytes = 0;
    while (at + k < n && (!k || bytes + entries[at + k]->len <= APPEND_BYTES)) bytes += entries[at + k++]->len;
    part.entries = entries + at;
    part.n_entries = (uint32_t)k;
    send_encoded(p, &part);
    if (!k) return;
    part.index += k;
    part.index_term = entries[at + k - 1]->term;
    at += k;
  }
}

// --- entries that are not in memory any more ---

struct fetch {
  struct peer *p;
  struct consensus_message m;
};

static void fetch_entries(struct operation *op, void *arg) {
  struct fetch f = *(struct fetch *)arg;
  free(arg);
  struct entry **entries = arena_alloc(op->arena, f.m.n_entries * sizeof(struct entry *));
  size_t n = raft_log_read(op, f.p->t->r->log, f.m.index + 1, f.m.n_entries, APPEND_BYTES, entries);
  f.p->reading = false;
  if (n && consensus_term(f.p->t->r->consensus) == f.m.term) send_append(f.p, &f.m, entries, n);
  for (size_t i = 0; i < n; i++) entry_unref(entries[i]);
}

static void fetch_and_send(struct peer *p, const struct consensus_message *m) {
  if (p->reading) return; // raft asks again
  size_t cap = 0;
  struct fetch *f = array_grow(NULL, &cap, 1, sizeof *f);
  *f = (struct fetch){p, *m};
  p->reading = repl_job(p->t->r, "replFetch", fetch_entries, f) != NULL;
  if (!p->reading) free(f);
}

void transport_send(struct transport *t, const struct consensus_message *m) {
  struct peer *p = need_peer(t, m->peer, m->address);
  if (!p) return;
  if (m->kind == RAFT_MSG_SNAPSHOT) {
    struct consensus_message whole = *m;
    uint8_t note[NOTE_BYTES] = {0};
    whole.snapshot = entry_new(ENTRY_COMMAND, m->index_term, note, sizeof note);
    send_encoded(p, &whole);
    entry_unref(whole.snapshot);
    return;
  }
  if (m->kind != RAFT_MSG_APPEND || !m->n_entries) {
    send_encoded(p, m);
    return;
  }
  struct entry *entries[MAX_INFLIGHT];
  size_t n = 0;
  while (n < m->n_entries && n < MAX_INFLIGHT && (entries[n] = raft_log_get(t->r->log, m->index + 1 + n))) n++;
  if (n == m->n_entries)
    send_append(p, m, entries, n);
  else
    fetch_and_send(p, m);
}

// --- reports ---

static void put_u64(struct buf *to, uint64_t v) {
  buf_add_u32le(to, (uint32_t)v);
  buf_add_u32le(to, (uint32_t)(v >> 32));
}

static uint64_t get_u64(const uint8_t *p) {
  uint64_t v = 0;
  for (int i = 7; i >= 0; i--) v = v << 8 | p[i];
  return v;
}

static void tell_one(struct peer *p) {
  const struct repl *r = p->t->r;
  struct optime last = repl_last_applied(r);
  struct buf bytes = {0};
  buf_add_u32le(&bytes, REPORT_BYTES);
  buf_add_byte(&bytes, REPORT_KIND);
  buf_add_byte(&bytes, (uint8_t)repl_state(r));
  buf_add_byte(&bytes, r->electable);
  put_u64(&bytes, r->applied);
  put_u64(&bytes, last.ts);
  put_u64(&bytes, (uint64_t)last.term);
  put_u64(&bytes, (uint64_t)r->last_wall_ms);
  peer_send(p, &bytes);
  buf_free(&bytes);
}

void transport_tell(struct transport *t, uint64_t id) {
  for (size_t i = 0; i < t->n_peers; i++)
    if (!id || t->peers[i]->id == id) tell_one(t->peers[i]);
}

void transport_keep(struct transport *t, const struct members *m) {
  int64_t now = loop_now_ms(t->r->loop);
  // Two secondaries have nothing to say to each other but reports.
  for (size_t i = 0; i < m->n; i++)
    if (m->list[i].id != t->r->id) (void)need_peer(t, m->list[i].id, m->list[i].address);
  for (size_t i = t->n_peers; i-- > 0 && !t->holding;) {
    struct peer *p = t->peers[i];
    if (p->reading || members_find(m, p->id) || (p->heard >= 0 && now - p->heard < FORGET_MS)) continue;
    t->peers[i] = t->peers[--t->n_peers];
    p->t = NULL;
    if (p->out)
      stream_close(p->out); // frees it
    else
      peer_free(p);
  }
}

static bool take_report(struct peer *p, const uint8_t *data, size_t len) {
  if (len != REPORT_BYTES) return false;
  p->reported = true;
  p->report = (struct report){
      .state = (enum member_state)data[1],
      .electable = data[2] != 0,
      .applied = get_u64(data + 3),
      .last = {.ts = get_u64(data + 11), .term = (int64_t)get_u64(data + 19), .index = get_u64(data + 3)},
      .wall_ms = (int64_t)get_u64(data + 27)};
  event_signal(&p->t->r->progressed);
  return true;
}

// --- receiving ---

static void incoming_free(struct incoming *in) {
  if (in->t) {
    struct incoming **at = &in->t->incoming;
    while (*at != in) at = &(*at)->next;
    *at = in->next;
  }
  buf_free(&in->data);
  free(in->host);
  free(in);
}

static void on_incoming_close(void *ctx) {
  incoming_free(ctx);
}

static uint32_t frame_length(const uint8_t *p) {
  return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

// Whether entries that are documents look like some: the store reads them without asking again.
static bool documents_valid(const struct consensus_message *m) {
  for (uint32_t i = 0; i < m->n_entries; i++) {
    const struct entry *e = m->entries[i];
    if (e->type == ENTRY_COMMAND && (e->len < 5 || frame_length(e->data) != e->len || e->data[e->len - 1] != 0))
      return false;
  }
  return true;
}

// One message. false: not one of ours.
static bool take_message(struct incoming *in, struct peer *p, const uint8_t *data, size_t len) {
  struct consensus_message m;
  if (len && data[0] == REPORT_KIND) return take_report(p, data, len);
  if (!message_decode(data, len, &m)) return false;
  struct repl *r = in->t->r;
  bool ok = documents_valid(&m);
  m.peer = in->id;
  m.address = in->host;
  if (ok && m.kind == RAFT_MSG_SNAPSHOT && m.index > r->applied) {
    initial_sync_wanted(r, &m); // consensus hears of it when the data is there
  } else if (ok) {
    initial_sync_heard(r, &m);
    drive_receive(r, &m);
  }
  message_clear(&m);
  return ok;
}

static void on_incoming_data(void *ctx, const uint8_t *data, size_t len) {
  struct incoming *in = ctx;
  if (in->closed || !in->t) return;
  struct peer *p = need_peer(in->t, in->id, in->host);
  if (!p) return;
  p->heard = loop_now_ms(in->t->r->loop);
  buf_add(&in->data, data, len);
  size_t at = 0;
  while (!in->closed && in->data.len - at >= 4) {
    uint32_t n = frame_length(in->data.data + at);
    if (n > FRAME_BYTES)
      in->closed = true;
    else if (in->data.len - at - 4 < n)
      break;
    else
      in->closed = !take_message(in, p, in->data.data + at + 4, n);
    at += 4 + (size_t)n;
  }
  if (in->closed) {
    log_warn("REPL", "Closing a member's connection: what came is not a message", "host:s", in->host);
    connection_close(in->c);
    return;
  }
  if (!at) return;
  in->data.len -= at;
  memmove(in->data.data, in->data.data + at, in->data.len);
}

bool repl_accept(struct repl *r, struct connection *c, const bson_t *hello, struct error *err) {
  const char *set = doc_str(hello, "set", ""), *host = doc_str(hello, "host", "");
  uint64_t id = (uint64_t)doc_i64(hello, "id", 0), to = (uint64_t)doc_i64(hello, "to", 0);
  if (strcmp(set, r->set_name) != 0)
    return error_set(err, ERR_InvalidReplicaSetConfig, "this is a member of the replica set %s, not %s", r->set_name,
                     set);
  if (!id || !*host || strlen(host) > 300)
    return error_set(err, ERR_BadValue, "a member's connection needs its id and host");
  if (!r->id || to != r->id) return error_set(err, ERR_NodeNotFound, "another member of %s was expected here", set);
  size_t cap = 0;
  struct incoming *in = array_grow(NULL, &cap, 1, sizeof *in);
  *in = (struct incoming){.t = r->transport, .c = c, .id = id, .host = strdup(host), .next = r->transport->incoming};
  if (!in->host) log_fatal("REPL", "Out of memory for a member's connection", NULL);
  r->transport->incoming = in;
  connection_upgrade(c, on_incoming_data, on_incoming_close, in);
  return true;
}

void transport_free(struct transport *t) {
  if (!t) return;
  // Closed connections are heard of later, when all this is gone.
  for (struct incoming *in = t->incoming; in; in = in->next) {
    in->t = NULL;
    connection_close(in->c);
  }
  for (size_t i = 0; i < t->n_held; i++) buf_free(&t->held[i].bytes);
  for (size_t i = 0; i < t->n_peers; i++) {
    struct peer *p = t->peers[i];
    p->t = NULL;
    if (p->out)
      stream_close(p->out);
    else
      peer_free(p);
  }
  free(t->held);
  free(t);
}
