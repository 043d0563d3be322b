// A write: the statements of one fiber, evaluated under locks and turned into entries.
//
// The open proposal collects locks and changes until the entry is full, is waited for, or is committed. Each statement
// asks for the list of changes once, after it has its locks: the locks taken since the last such call go with these
// changes when the entry is full and a new one begins.
#include "common/repl/write.h"

#include <string.h>

#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/repl/repl_internal.h"

enum {
  IN_FLIGHT_BYTES = 32 << 20,   // proposed and not applied
  FIRST_ENTRY_BYTES = 64 << 10, // the log writes a batch's first entry while the rest is evaluated
  BEHIND_MS = 5,
  LEAST_FREE_BYTES = 64 << 20, // of the file system: below that a primary takes no more writes
};

struct write {
  struct change_list list; // of the open proposal
  struct proposals *ps;
  uint64_t writer, term;  // term: of the open proposal
  struct proposal *open;  // NULL = nothing locked or changed since the last one
  uint64_t mark;          // locks numbered from here on belong to the statement that is being evaluated
  struct proposal **sent; // waited for by the next commit
  size_t n_sent, cap_sent;
  bool atomic;
  int32_t failed; // an entry in between was refused: the code. Nothing more is proposed before the commit that says so
  struct lock *refused; // what write_wait() waits for
  enum lock_mode refused_mode;
  uint64_t last_index, last_ts;
};

static void drop_sent(struct write *w) {
  for (size_t i = 0; i < w->n_sent; i++) proposal_unref(w->ps, w->sent[i]);
  w->n_sent = 0;
}

static void drop_refused(struct write *w) {
  if (w->refused) lock_forget(&w->ps->locks, w->refused, w->writer);
  w->refused = NULL;
}

static void drop_open(struct write *w) {
  if (w->open) proposal_unref(w->ps, w->open);
  w->open = NULL;
  changes_clear(&w->list);
}

static void write_cleanup(void *arg) {
  struct write *w = arg;
  drop_open(w);
  drop_refused(w);
  drop_sent(w);
  free(w->sent);
  changes_cleanup(&w->list);
}

struct write *write_begin(struct operation *op, struct repl *r) {
  struct write *w = arena_zalloc(op->arena, sizeof *w);
  w->ps = &r->proposals;
  w->writer = ++w->ps->writers;
  changes_init(&w->list);
  arena_on_free(op->arena, write_cleanup, w);
  return w;
}

uint64_t write_serial(const struct write *w) {
  return w->writer;
}

static void open_proposal(struct write *w) {
  if (w->open) return;
  w->open = proposal_new(w->writer);
  w->term = w->ps->term;
}

// --- locks ---

static bool take(struct write *w, enum lock_kind kind, const void *key, size_t len, enum lock_mode mode) {
  struct lock *lock;
  if (!w->failed && !w->ps->term) w->failed = w->ps->refusal;
  if (w->failed) return false; // write_wait() says why
  open_proposal(w);
  if (lock_take(&w->ps->locks, &w->open->owner, kind, key, len, mode, &lock)) {
    if (w->refused == lock) drop_refused(w);
    return true;
  }
  if (w->refused != lock) {
    (void)lock_ref(lock);
    drop_refused(w);
    w->refused = lock;
  }
  w->refused_mode = mode;
  return false;
}

bool write_lock_document(struct write *w, const struct collection *c, int64_t rid) {
  uint8_t key[24];
  memcpy(key, c->uuid, 16);
  memcpy(key + 16, &rid, 8);
  return take(w, LOCK_DOCUMENT, key, sizeof key, LOCK_EXCLUSIVE);
}

bool write_lock_unique(struct write *w, const struct collection *c, uint32_t index_id, struct key key) {
  struct buf b __attribute__((cleanup(buf_cleanup))) = {0};
  buf_add(&b, c->uuid, 16);
  buf_add_u32le(&b, index_id);
  buf_add(&b, key.data, key.len);
  return take(w, LOCK_UNIQUE, b.data, b.len, LOCK_EXCLUSIVE);
}

bool write_lock_session(struct write *w, const uint8_t lsid[16]) {
  return take(w, LOCK_SESSION, lsid, 16, LOCK_OWN);
}

bool write_lock_namespace(struct write *w, const char *ns, bool exclusive) {
  return take(w, LOCK_NAMESPACE, ns, strlen(ns), exclusive ? LOCK_EXCLUSIVE : LOCK_SHARED);
}

bool write_lock_name(struct write *w, const char *name) {
  return take(w, LOCK_NAME, name, strlen(name), LOCK_EXCLUSIVE);
}

// --- changes ---

static void fail_open(struct write *w, int32_t code) {
  w->failed = code;
  drop_open(w);
}

// Sends the open proposal, which has changes.
static void send_open(struct write *w) {
  struct proposals *ps = w->ps;
  if (!ps->term || ps->term != w->term) {
    fail_open(w, ps->term ? ERR_NotWritablePrimary : ps->refusal);
    return;
  }
  uint64_t ts = cluster_clock_tick(ps->clock);
  if (!proposal_send(ps, w->open, changes_finish(&w->list, ts, clock_wall_ms()), ts)) {
    fail_open(w, ERR_NotWritablePrimary);
    return;
  }
  w->last_index = w->open->index;
  w->last_ts = ts;
  w->sent = array_grow(w->sent, &w->cap_sent, w->n_sent + 1, sizeof(struct proposal *));
  w->sent[w->n_sent++] = w->open;
  w->open = NULL;
  changes_clear(&w->list);
}

static void continue_in_new_entry(struct write *w) {
  struct proposal *next = proposal_new(w->writer);
  lock_continue(&w->ps->locks, &w->open->owner, &next->owner, w->open->owner.mark);
  send_open(w);
  if (w->failed) {
    proposal_unref(w->ps, next);
    next = proposal_new(w->writer); // takes what is still evaluated; never sent
  }
  w->open = next;
}

struct change_list *write_changes(struct write *w) {
  open_proposal(w);
  size_t full = w->n_sent ? ENTRY_TARGET_BYTES : FIRST_ENTRY_BYTES;
  if (!w->atomic && w->list.n && w->list.bytes >= full) continue_in_new_entry(w);
  w->open->owner.mark = w->ps->locks.next_hold; // what is locked from now on is for the next statement
  return &w->list;
}

void write_atomic(struct write *w) {
  w->atomic = true;
}

bool write_is_empty(const struct write *w) {
  return !w->list.n;
}

void write_abandon(struct write *w) {
  drop_open(w);
  drop_refused(w);
  w->atomic = false;
}

// --- proposing and waiting ---

static bool say_failed(struct write *w, struct error *err) {
  int32_t code = w->failed;
  w->failed = 0;
  return error_set(err, code, code == ERR_ShutdownInProgress ? "this member is shutting down" : "not primary");
}

bool write_propose(struct write *w, struct error *err) {
  if (!w->failed && w->open && w->list.n) send_open(w);
  drop_open(w); // locks without changes
  return w->failed ? say_failed(w, err) : true;
}

static bool wait_sent(struct operation *op, struct write *w, struct error *err) {
  int32_t lost = 0;
  bool ok = true;
  for (size_t i = 0; i < w->n_sent && ok; i++) {
    struct proposal *p = w->sent[i];
    while (ok && p->state == PROPOSAL_SENT) ok = event_wait(op, &p->done, err);
    if (p->state == PROPOSAL_LOST) lost = p->lost_code;
  }
  drop_sent(w);
  if (!ok || !lost) return ok;
  return error_set(err, lost,
                   "operation was interrupted because this member is not primary any more; it may have taken effect");
}

static bool propose_and_wait(struct operation *op, struct write *w, struct error *err) {
  struct error refusal;
  bool proposed = write_propose(w, &refusal), applied = wait_sent(op, w, err);
  if (!applied) return false; // unknown outweighs refused
  if (proposed) return true;
  return error_set(err, refusal.code, "%s", refusal.message);
}

bool write_commit(struct operation *op, struct write *w, struct error *err) {
  drop_refused(w);
  w->atomic = false;
  return propose_and_wait(op, w, err);
}

bool write_wait(struct operation *op, struct write *w, struct error *err) {
  if (!propose_and_wait(op, w, err)) {
    drop_refused(w);
    return false;
  }
  if (!w->refused) return op_check(op, err);
  bool ok = lock_wait(op, w->refused, w->writer, w->refused_mode, err);
  // An intent on a namespace stays until the lock is taken, or is forgotten with this write.
  if (!ok || !lock_intended(w->refused, w->writer)) drop_refused(w);
  return ok;
}

uint64_t write_last_index(const struct write *w) {
  return w->last_index;
}

uint64_t write_last_ts(const struct write *w) {
  return w->last_ts;
}

bool write_drain_namespace(struct operation *op, struct repl *r, const char *ns, struct error *err) {
  return lock_drain(op, &r->proposals.locks, ns, err);
}

bool write_admit(struct operation *op, struct repl *r, struct error *err) {
  struct proposals *ps = &r->proposals;
  if (store_free_bytes(r->store) < LEAST_FREE_BYTES)
    return error_set(err, ERR_OutOfDiskSpace,
                     "less than %d MiB are free in the file system of the data directory: writes are refused",
                     LEAST_FREE_BYTES >> 20);
  while (ps->bytes >= IN_FLIGHT_BYTES)
    if (!event_wait(op, &ps->room, err)) return false;
  while (store_behind(r->store)) // a checkpoint does not keep up with the writing
    if (!op_sleep(op, BEHIND_MS, err)) return false;
  return op_check(op, err);
}
