// A replica set in virtual time: chance, the queue of what happens, the network, and each member's life. See
// simulation.h.
#include "tests/unit/common/repl/simulation.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/repl/trail.h"

// --- randomness ---

static uint64_t sim_random(struct simulation *s) {
  uint64_t z = (s->random += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

uint64_t sim_below(struct simulation *s, uint64_t n) {
  return n ? sim_random(s) % n : 0;
}

static bool sim_percent(struct simulation *s, int p) {
  return sim_below(s, 100) < (uint64_t)p;
}

__attribute__((noreturn, format(printf, 2, 3))) void sim_break(struct simulation *s, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  (void)vsnprintf(s->failure, sizeof s->failure, fmt, ap);
  va_end(ap);
  longjmp(s->broken, 1);
}

// --- the queue of what will happen, earliest first ---

static bool sim_before(const struct happening *a, const struct happening *b) {
  return a->at < b->at || (a->at == b->at && a->seq < b->seq);
}

static struct happening *sim_schedule(struct simulation *s, uint64_t at, enum event_kind kind, int node) {
  struct happening *h = calloc(1, sizeof *h);
  *h = (struct happening){
      .at = at, .seq = s->seq++, .kind = kind, .node = node, .incarnation = s->nodes[node].incarnation};
  s->heap = array_grow(s->heap, &s->cap_heap, s->n_heap + 1, sizeof *s->heap);
  size_t i = s->n_heap++;
  for (; i && sim_before(h, s->heap[(i - 1) / 2]); i = (i - 1) / 2) s->heap[i] = s->heap[(i - 1) / 2];
  s->heap[i] = h;
  return h;
}

static struct happening *sim_take(struct simulation *s) {
  struct happening *first = s->heap[0], *last = s->heap[--s->n_heap];
  size_t i = 0;
  for (size_t child; (child = 2 * i + 1) < s->n_heap; i = child) {
    if (child + 1 < s->n_heap && sim_before(s->heap[child + 1], s->heap[child])) child++;
    if (!sim_before(s->heap[child], last)) break;
    s->heap[i] = s->heap[child];
  }
  if (s->n_heap) s->heap[i] = last;
  return first;
}

static void happening_free(struct happening *h) {
  buf_free(&h->bytes);
  free(h);
}

// --- what consensus asks for ---

struct output_context {
  struct simulation *s;
  struct node *n;
};

static void node_queue(struct simulation *s, struct node *n, struct disk_op *o) {
  *n->queue_end = o;
  n->queue_end = &o->next;
  uint64_t at = s->now + sim_below(s, (uint64_t)s->plan.disk_ms + 1);
  if (at < n->disk_free_at) at = n->disk_free_at;
  n->disk_free_at = at;
  sim_schedule(s, at, EVENT_DISK, n->id);
}

static void on_vote(void *ctx, uint64_t term, uint64_t voted_for) {
  struct output_context *x = ctx;
  struct log_image *m = &x->n->memory;
  if (term < m->term) sim_break(x->s, "node %d: term went back", x->n->id);
  if (term == m->term && m->vote && m->vote != voted_for) sim_break(x->s, "node %d: voted twice", x->n->id);
  m->term = term;
  m->vote = voted_for;
  struct disk_op *o = calloc(1, sizeof *o);
  *o = (struct disk_op){.kind = OP_VOTE, .term = term, .vote = voted_for};
  x->n->votes_pending++;
  node_queue(x->s, x->n, o);
}

static uint64_t content_of(const struct entry *e) {
  uint64_t h = e->term * 0x9e3779b97f4a7c15ULL + e->type;
  for (uint32_t i = 0; i < e->len; i++) h = (h ^ e->data[i]) * 0x100000001b3ULL;
  return h;
}

static void check_content(struct simulation *s, uint64_t index, const struct entry *e) {
  uint64_t h = content_of(e);
  for (int i = 0; i < 8; i++)
    if (s->content_term[index][i] == e->term) {
      if (s->content[index][i] != h)
        sim_break(s, "two entries %llu of term %llu", (unsigned long long)index, (unsigned long long)e->term);
      return;
    }
  unsigned at = s->content_next[index]++ % 8;
  s->content_term[index][at] = e->term;
  s->content[index][at] = h;
}

static void on_append(void *ctx, uint64_t first, struct entry *const *entries, size_t n) {
  struct output_context *x = ctx;
  struct log_image *m = &x->n->memory;
  if (first > m->last + 1 || first < m->first) sim_break(x->s, "node %d: entries do not join its log", x->n->id);
  if (first <= x->n->applied) sim_break(x->s, "node %d: overwrites what it applied", x->n->id);
  if (first + n >= MAX_INDEX) sim_break(x->s, "the simulated log is full");
  image_put(m, first, entries, n);
  struct disk_op *o = calloc(1, sizeof *o);
  *o = (struct disk_op){.kind = OP_APPEND, .first = first, .n = n, .entries = calloc(n, sizeof(struct entry *))};
  for (size_t i = 0; i < n; i++) {
    check_content(x->s, first + i, entries[i]);
    o->entries[i] = entry_ref(entries[i]);
  }
  node_queue(x->s, x->n, o);
}

static void on_install(void *ctx, const struct snapshot_mark *mark, struct entry *snapshot) {
  struct output_context *x = ctx;
  struct disk_op *o = calloc(1, sizeof *o);
  *o = (struct disk_op){.kind = OP_INSTALL, .mark = *mark};
  entry_ref(mark->configuration);
  memcpy(&o->state, snapshot->data, 8);
  image_mark(&x->n->memory, mark, o->state);
  image_reset(&x->n->memory, mark->index + 1);
  x->s->installs++;
  node_queue(x->s, x->n, o);
}

// Puts a message's bytes on the wire, as many times as the network likes.
static void transmit(struct simulation *s, int from, int to, const struct buf *bytes) {
  int copies = 1;
  if (!s->quiet && sim_percent(s, s->plan.drop))
    copies = 0;
  else if (!s->quiet && !s->plan.fifo && sim_percent(s, s->plan.duplicate))
    copies = 2;
  for (; copies; copies--) {
    uint64_t at = s->now + 1 + sim_below(s, (uint64_t)s->plan.net_ms);
    if (!s->plan.fifo && !s->quiet && sim_below(s, 50) == 0) at += sim_below(s, 3 * ELECTION_MS);
    if (s->plan.fifo) {
      if (at < s->delivered[from][to]) at = s->delivered[from][to];
      s->delivered[from][to] = at;
    }
    struct happening *h = sim_schedule(s, at, EVENT_MESSAGE, to);
    h->from = from;
    buf_add(&h->bytes, bytes->data, bytes->len);
  }
}

static void on_send(void *ctx, const struct consensus_message *message) {
  struct output_context *x = ctx;
  struct simulation *s = x->s;
  struct log_image *log = &x->n->memory;
  struct consensus_message m = *message;
  struct entry *state = NULL;
  if (m.peer < 1 || m.peer > (uint64_t)s->plan.nodes) sim_break(s, "a message to nobody");
  if (m.kind == RAFT_MSG_APPEND && m.n_entries) {
    if (m.index + 1 < log->first || m.index + m.n_entries > log->last)
      sim_break(s, "node %d sends what it does not have", x->n->id);
    m.entries = &log->entries[m.index + 1];
  }
  if (m.kind == RAFT_MSG_SNAPSHOT) {
    if (log->mark.index != m.index || log->mark.term != m.index_term)
      sim_break(s, "node %d sends a snapshot it does not have", x->n->id);
    m.snapshot = state = entry_new(ENTRY_COMMAND, 1, &log->state, 8);
  }
  struct buf bytes = {0};
  message_encode(&bytes, &m);
  entry_unref(state);
  if (!x->n->votes_pending)
    transmit(s, x->n->id, (int)m.peer, &bytes);
  else if (x->n->n_held < 64) {
    x->n->held_to[x->n->n_held] = (int)m.peer;
    x->n->held[x->n->n_held++] = bytes;
    return;
  }
  buf_free(&bytes);
}

// --- a member's life ---

void node_start(struct simulation *s, struct node *n) {
  static struct log_head heads[MAX_INDEX];
  static struct output_context contexts[MAX_NODES + 1];
  contexts[n->id] = (struct output_context){s, n};
  struct consensus_output out = {&contexts[n->id], on_vote, on_append, on_install, on_send};
  char address[16];
  (void)snprintf(address, sizeof address, "node:%d", n->id);
  struct consensus_options o = {.id = (uint64_t)n->id,
                                .address = address,
                                .election_timeout_ms = ELECTION_MS,
                                .heartbeat_ms = HEARTBEAT_MS,
                                .snapshot_timeout_ms = 2 * ELECTION_MS,
                                .max_inflight = 32,
                                .seed = (uint32_t)sim_random(s)};
  n->incarnation++;
  n->up = true;
  n->queue = NULL;
  n->queue_end = &n->queue;
  n->disk_free_at = s->now;
  n->snapshotting = n->copying = false;
  n->was = CONSENSUS_FOLLOWER;

  struct consensus_state st = {.snapshot = n->disk.mark, .first = n->disk.first};
  for (uint64_t i = n->disk.first; i <= n->disk.last; i++) {
    struct entry *e = n->disk.entries[i];
    heads[st.n++] = (struct log_head){e->term, e->type, e->type == ENTRY_CHANGE ? e : NULL};
  }
  st.heads = heads;
  if (consensus_lone_voter(&st, o.id)) {
    n->disk.term++;
    n->disk.vote = o.id;
  }
  st.term = n->disk.term;
  st.voted_for = n->disk.vote;
  image_reset(&n->memory, n->disk.first);
  if (n->disk.last >= n->disk.first)
    image_put(&n->memory, n->disk.first, &n->disk.entries[n->disk.first], (size_t)(n->disk.last - n->disk.first + 1));
  image_mark(&n->memory, &n->disk.mark, n->disk.state);
  n->memory.term = st.term;
  n->memory.vote = st.voted_for;
  n->applied = n->disk.mark.index;
  n->state = n->disk.state;
  n->c = consensus_new(&o, &out);
  consensus_set_eligible(n->c, n->eligible);
  struct error err;
  if (!consensus_start(n->c, s->now, &st, &err)) sim_break(s, "node %d: %s", n->id, err.message);
}

void node_crash(struct simulation *s, struct node *n) {
  bool lost = false; // of what was not finished, a random first part survives, the last write of it maybe torn
  n->up = false;
  s->crashes++;
  for (struct disk_op *o; (o = n->queue);) {
    n->queue = o->next;
    if (!lost && sim_below(s, 2))
      op_apply(&n->disk, o, o->n);
    else if (!lost) {
      if (o->kind == OP_APPEND) op_apply(&n->disk, o, (size_t)sim_below(s, o->n + 1));
      lost = true;
    }
    op_free(o);
  }
  n->queue_end = &n->queue;
  n->votes_pending = 0;
  while (n->n_held) buf_free(&n->held[--n->n_held]);
  consensus_free(n->c);
  n->c = NULL;
}

static void node_apply(struct simulation *s, struct node *n) {
  while (!consensus_installing(n->c) && n->applied < consensus_commit(n->c)) {
    uint64_t i = n->applied + 1;
    if (i < n->memory.first || i > n->memory.last)
      sim_break(s, "node %d: committed %llu is not in its log", n->id, (unsigned long long)i);
    struct entry *e = n->memory.entries[i];
    uint64_t state = (n->state ^ content_of(e)) * 0x100000001b3ULL;
    if (i > s->committed) {
      if (i != s->committed + 1) sim_break(s, "a gap in what is committed");
      s->committed = i;
      s->committed_state[i] = state;
      s->committed_term[i] = e->term;
      s->seen_in_term[i] = consensus_term(n->c);
      s->commits++;
    } else if (s->committed_state[i] != state || s->committed_term[i] != e->term) {
      sim_break(s, "node %d applies another entry %llu than was committed", n->id, (unsigned long long)i);
    }
    n->applied = i;
    n->state = state;
    consensus_applied(n->c, s->now, i, e);
  }
  if (s->plan.snapshot_every && !n->snapshotting && !consensus_installing(n->c) &&
      n->applied - n->memory.mark.index >= (uint64_t)s->plan.snapshot_every) {
    n->snapshotting = true;
    sim_schedule(s, s->now + 1 + sim_below(s, 3 * (uint64_t)s->plan.disk_ms), EVENT_SNAPSHOT, n->id)->index =
        n->applied;
  }
}

// After every event: a new leader is looked at, and what is committed is applied.
void node_settle(struct simulation *s, struct node *n) {
  if (consensus_role(n->c) == CONSENSUS_LEADER && n->was != CONSENSUS_LEADER) {
    uint64_t term = consensus_term(n->c), who = (uint64_t)n->id << 32 | n->incarnation;
    s->elections++;
    if (term < MAX_TERM && s->leader_of[term] && s->leader_of[term] != who)
      sim_break(s, "two leaders in term %llu", (unsigned long long)term);
    if (term < MAX_TERM) s->leader_of[term] = who;
    uint64_t sure = s->committed; // only what was seen committed in a lower term: a late winner of an old term is legal
    while (sure && s->seen_in_term[sure] >= term) sure--;
    if (n->memory.last < sure)
      sim_break(s, "leader %d of term %llu lacks committed entries", n->id, (unsigned long long)term);
    for (uint64_t i = n->memory.first; i <= sure; i++)
      if (n->memory.entries[i]->term != s->committed_term[i])
        sim_break(s, "leader %d has another entry %llu", n->id, (unsigned long long)i);
  }
  n->was = consensus_role(n->c);
  if (consensus_last(n->c) != n->memory.last) sim_break(s, "node %d: the log's end is in doubt", n->id);
  if (consensus_first(n->c) != n->memory.first) sim_break(s, "node %d: the log's beginning is in doubt", n->id);
  node_apply(s, n);
}

static void node_disk_done(struct simulation *s, struct node *n) {
  struct disk_op *o = n->queue;
  n->queue = o->next;
  if (!n->queue) n->queue_end = &n->queue;
  op_apply(&n->disk, o, o->n);
  switch (o->kind) {
  case OP_VOTE:
    if (--n->votes_pending) break;
    for (size_t i = 0; i < n->n_held; i++) {
      transmit(s, n->id, n->held_to[i], &n->held[i]);
      buf_free(&n->held[i]);
    }
    n->n_held = 0;
    break;
  case OP_APPEND: consensus_persisted(n->c, s->now, 1); break;
  case OP_INSTALL:
    if (n->applied > o->mark.index) sim_break(s, "node %d installs an older snapshot", n->id);
    if (o->mark.index > s->committed || s->committed_state[o->mark.index] != o->state)
      sim_break(s, "a snapshot of another state");
    n->applied = o->mark.index;
    n->state = o->state;
    consensus_installed(n->c, s->now);
    break;
  }
  op_free(o);
}

static void node_snapshot_done(struct simulation *s, struct node *n, uint64_t index) {
  uint64_t trailing = sim_below(s, 2 * (uint64_t)s->plan.snapshot_every);
  n->snapshotting = false;
  if (n->disk.last < index || !consensus_snapshot(n->c, s->now, index, trailing)) return;
  const struct snapshot_mark *m = consensus_last_snapshot(n->c);
  image_mark(&n->memory, m, s->committed_state[index]);
  image_mark(&n->disk, m, s->committed_state[index]);
  image_cut(&n->memory, consensus_first(n->c));
  image_cut(&n->disk, consensus_first(n->c));
}

// As initial_sync.c does it: the message only begins a copy, and the leader may have a newer snapshot, or be another
// one, when that is complete.
static void sim_copy(struct simulation *s, struct node *n, const struct happening *h) {
  if (n->copying) return;
  n->copying = true;
  struct happening *done = sim_schedule(s, s->now + sim_below(s, (uint64_t)s->plan.copy_ms), EVENT_COPIED, n->id);
  done->from = h->from;
  buf_add(&done->bytes, h->bytes.data, h->bytes.len);
}

static void sim_deliver(struct simulation *s, struct node *n, const struct happening *h) {
  struct consensus_message m;
  char address[16];
  if (h->kind == EVENT_MESSAGE && s->cut[h->from][n->id]) return;
  if (!message_decode(h->bytes.data + 4, h->bytes.len - 4, &m)) sim_break(s, "a message cannot be read");
  (void)snprintf(address, sizeof address, "node:%d", h->from);
  m.peer = (uint64_t)h->from;
  m.address = address;
  if (h->kind == EVENT_COPIED) {
    n->copying = false;
    m.term = consensus_term(n->c);
    if (consensus_leader(n->c) == m.peer && !consensus_installing(n->c)) consensus_receive(n->c, s->now, &m);
  } else if (s->plan.copy_ms && m.kind == RAFT_MSG_SNAPSHOT && m.index > n->applied) {
    sim_copy(s, n, h);
  } else {
    consensus_receive(n->c, s->now, &m);
  }
  message_clear(&m);
}

// Runs what is due up to `until`.
void sim_run(struct simulation *s, uint64_t until) {
  for (;;) {
    struct node *timer = NULL;
    uint64_t at = until + 1;
    for (int i = 1; i <= s->plan.nodes; i++) {
      struct node *n = &s->nodes[i];
      if (!n->up || consensus_timer(n->c) >= at) continue;
      at = consensus_timer(n->c) < s->now ? s->now : consensus_timer(n->c);
      timer = n;
    }
    if (s->n_heap && s->heap[0]->at <= at) {
      at = s->heap[0]->at;
      timer = NULL;
    }
    if (at > until) break;
    s->now = at;
    if (timer) {
      consensus_timeout(timer->c, s->now);
      node_settle(s, timer);
      continue;
    }
    struct happening *h = sim_take(s);
    struct node *n = &s->nodes[h->node];
    if (n->up && (h->kind == EVENT_MESSAGE || h->incarnation == n->incarnation)) {
      if (h->kind == EVENT_MESSAGE || h->kind == EVENT_COPIED)
        sim_deliver(s, n, h);
      else if (h->kind == EVENT_DISK)
        node_disk_done(s, n);
      else
        node_snapshot_done(s, n, h->index);
      node_settle(s, n);
    }
    happening_free(h);
  }
  s->now = until;
}

struct node *sim_leader(struct simulation *s) {
  struct node *best = NULL;
  for (int i = 1; i <= s->plan.nodes; i++) {
    struct node *n = &s->nodes[i];
    if (n->up && consensus_role(n->c) == CONSENSUS_LEADER && (!best || consensus_term(n->c) > consensus_term(best->c)))
      best = n;
  }
  return best;
}

void sim_propose(struct simulation *s, struct node *n, size_t count) {
  for (size_t i = 0; i < count; i++) {
    uint64_t value = ++s->value;
    struct entry *e = entry_new(ENTRY_COMMAND, 0, &value, sizeof value);
    (void)consensus_propose(n->c, s->now, e);
    entry_unref(e);
  }
  node_settle(s, n);
}

struct simulation *sim_new(const struct plan *p, uint64_t seed) {
  struct simulation *s = calloc(1, sizeof *s);
  s->plan = *p;
  s->random = seed * 0x2545f4914f6cdd1dULL;
  s->now = 1;
  struct members m = {0};
  for (int i = 1; i <= p->voters; i++) {
    char address[16];
    (void)snprintf(address, sizeof address, "node:%d", i);
    members_add(&m, (uint64_t)i, address, ROLE_VOTER);
  }
  struct entry *first = members_encode(&m);
  first->term = 1;
  members_free(&m);
  for (int i = 1; i <= p->nodes; i++) {
    struct node *n = &s->nodes[i];
    n->id = i;
    n->eligible = !(p->ineligible && i == p->ineligible);
    n->memory.first = n->disk.first = 1;
    if (i > p->voters) continue;
    n->disk.term = 1;
    image_put(&n->disk, 1, &first, 1);
  }
  entry_unref(first);
  return s;
}

void sim_free(struct simulation *s) {
  for (int i = 1; i <= s->plan.nodes; i++) {
    struct node *n = &s->nodes[i];
    if (n->up) node_crash(s, n);
    image_reset(&n->memory, 1);
    image_reset(&n->disk, 1);
    entry_unref(n->memory.mark.configuration);
    entry_unref(n->disk.mark.configuration);
  }
  while (s->n_heap) happening_free(sim_take(s));
  free(s->heap);
  free(s);
}
