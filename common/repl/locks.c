// The lock table. A lock exists while somebody holds it or waits for it.
#include "common/repl/locks.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/log.h"

enum { SMALL_KEY = 128 }; // nearly all are: no allocation to look one up

struct hold {
  struct lock *lock;
  struct lock_owner *owner;
  enum lock_mode mode;
  uint64_t number;
  struct hold *next_of_lock, **back_of_lock;
  struct hold *next_of_owner;
};

struct lock {
  struct hold *holds;
  uint64_t intent; // the writer that waits to have it alone, 0 = none
  uint32_t waiters;
  struct event freed;
  size_t key_len;
  uint8_t key[]; // kind, then what is locked
};

void lock_table_init(struct lock_table *t) {
  t->locks = map_new();
  t->next_hold = 1;
}

void lock_table_free(struct lock_table *t) {
  map_free(t->locks, free);
  t->locks = NULL;
}

size_t lock_count(const struct lock_table *t) {
  return map_count(t->locks);
}

static void *allocate(size_t bytes) {
  void *p = calloc(1, bytes);
  if (!p) log_fatal("REPL", "Out of memory for a lock", NULL);
  return p;
}

static void drop_unused(struct lock_table *t, struct lock *l) {
  if (l->holds || l->waiters || l->intent) return;
  (void)map_remove(t->locks, l->key, l->key_len);
  free(l);
}

static void hold_add(struct lock_table *t, struct lock *l, struct lock_owner *o, enum lock_mode mode) {
  struct hold *h = allocate(sizeof *h);
  *h = (struct hold){.lock = l, .owner = o, .mode = mode, .number = t->next_hold++};
  h->next_of_lock = l->holds;
  h->back_of_lock = &l->holds;
  if (l->holds) l->holds->back_of_lock = &h->next_of_lock;
  l->holds = h;
  h->next_of_owner = o->holds;
  o->holds = h;
}

// Whether a hold of another owner stands in the way of `mode` for this writer.
static bool compatible(const struct hold *h, uint64_t writer, enum lock_mode mode) {
  if (h->mode == LOCK_SHARED && mode == LOCK_SHARED) return true;
  return h->owner->writer == writer && h->mode == LOCK_OWN && mode == LOCK_OWN;
}

// *own: the hold that this owner has already.
static bool grantable(const struct lock *l, const struct lock_owner *o, uint64_t writer, enum lock_mode mode,
                      struct hold **own) {
  bool by_writer = false;
  *own = NULL;
  for (struct hold *h = l->holds; h; h = h->next_of_lock) {
    by_writer = by_writer || h->owner->writer == writer;
    if (h->owner == o)
      *own = h;
    else if (!compatible(h, writer, mode))
      return false;
  }
  return !l->intent || l->intent == writer || by_writer;
}

static struct lock *find(const struct lock_table *t, const uint8_t *key, size_t len) {
  return map_get(t->locks, key, len);
}

static struct lock *find_or_make(struct lock_table *t, enum lock_kind kind, const void *key, size_t len) {
  uint8_t small[SMALL_KEY];
  struct buf large __attribute__((cleanup(buf_cleanup))) = {0};
  uint8_t *whole = len < sizeof small ? small : buf_reserve(&large, len + 1);
  whole[0] = (uint8_t)kind;
  memcpy(whole + 1, key, len);
  struct lock *l = find(t, whole, len + 1);
  if (l) return l;
  l = allocate(sizeof *l + len + 1);
  l->key_len = len + 1;
  memcpy(l->key, whole, len + 1);
  (void)map_put(t->locks, l->key, l->key_len, l);
  return l;
}

bool lock_take(struct lock_table *t, struct lock_owner *o, enum lock_kind kind, const void *key, size_t len,
               enum lock_mode mode, struct lock **lock) {
  struct lock *l = find_or_make(t, kind, key, len);
  struct hold *own;
  *lock = l;
  if (!grantable(l, o, o->writer, mode, &own) || (own && mode == LOCK_EXCLUSIVE && own->number < o->mark)) {
    if (kind == LOCK_NAMESPACE && mode == LOCK_EXCLUSIVE && !l->intent) l->intent = o->writer;
    return false;
  }
  if (l->intent == o->writer) l->intent = 0;
  if (!own)
    hold_add(t, l, o, mode);
  else if (mode == LOCK_EXCLUSIVE)
    own->mode = LOCK_EXCLUSIVE;
  return true;
}

void lock_release_all(struct lock_table *t, struct lock_owner *o) {
  for (struct hold *h; (h = o->holds);) {
    struct lock *l = h->lock;
    o->holds = h->next_of_owner;
    *h->back_of_lock = h->next_of_lock;
    if (h->next_of_lock) h->next_of_lock->back_of_lock = h->back_of_lock;
    free(h);
    event_signal(&l->freed); // only marks fibers: none runs before all is released
    drop_unused(t, l);
  }
}

void lock_continue(struct lock_table *t, struct lock_owner *from, struct lock_owner *to, uint64_t since) {
  struct hold **at = &from->holds;
  for (struct hold *h; (h = *at);) {
    uint8_t kind = h->lock->key[0];
    if (h->number >= since) {
      *at = h->next_of_owner;
      h->owner = to;
      h->next_of_owner = to->holds;
      to->holds = h;
      continue;
    }
    if (kind == LOCK_SESSION || kind == LOCK_NAMESPACE || kind == LOCK_NAME) hold_add(t, h->lock, to, h->mode);
    at = &h->next_of_owner;
  }
}

// --- waiting ---

struct lock *lock_ref(struct lock *l) {
  l->waiters++;
  return l;
}

void lock_forget(struct lock_table *t, struct lock *l, uint64_t writer) {
  l->waiters--;
  if (l->intent == writer) {
    l->intent = 0;
    event_signal(&l->freed);
  }
  drop_unused(t, l);
}

bool lock_intended(const struct lock *l, uint64_t writer) {
  return l->intent == writer;
}

bool lock_wait(struct operation *op, struct lock *l, uint64_t writer, enum lock_mode mode, struct error *err) {
  struct hold *own;
  while (!grantable(l, NULL, writer, mode, &own))
    if (!event_wait(op, &l->freed, err)) return false;
  return op_check(op, err);
}

static bool held_since_before(const struct lock *l, uint64_t number) {
  for (const struct hold *h = l->holds; h; h = h->next_of_lock)
    if (h->mode != LOCK_EXCLUSIVE && h->number < number) return true; // an exclusive one is the caller's own
  return false;
}

bool lock_drain(struct operation *op, struct lock_table *t, const char *ns, struct error *err) {
  struct buf key __attribute__((cleanup(buf_cleanup))) = {0};
  buf_add_byte(&key, LOCK_NAMESPACE);
  buf_add(&key, ns, strlen(ns));
  struct lock *l = find(t, key.data, key.len);
  if (!l) return op_check(op, err);
  uint64_t now = t->next_hold;
  bool ok = true;
  (void)lock_ref(l);
  while (ok && held_since_before(l, now)) ok = event_wait(op, &l->freed, err);
  lock_forget(t, l, 0);
  return ok;
}
