// The lock table. A lock exists while somebody holds it or waits for it.
//
// An insert takes a lock for each document, so a lock is one allocation in a hash table of its own: it has room for the
// hold that it is made for.
#include "common/repl/locks.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"

enum { FIRST_SLOTS = 64 };

struct hold {
  struct lock *lock;
  struct lock_owner *owner;
  enum lock_mode mode;
  uint64_t number;
  struct hold *next_of_lock, **back_of_lock;
  struct hold *next_of_owner;
};

struct lock {
  struct lock *next; // in its slot
  uint64_t hash;
  struct hold *holds;
  struct hold first; // room for one of them
  bool first_used;
  uint64_t intent; // the writer that waits to have it alone, 0 = none
  uint32_t waiters;
  struct event freed;
  uint8_t kind;
  size_t key_len;
  uint8_t key[]; // what is locked
};

static void *allocate(size_t bytes) {
  void *p = calloc(1, bytes);
  if (!p) log_fatal("REPL", "Out of memory for a lock", NULL);
  return p;
}

void lock_table_init(struct lock_table *t) {
  *t = (struct lock_table){.n_slots = FIRST_SLOTS, .next_hold = 1};
  t->slots = allocate(FIRST_SLOTS * sizeof *t->slots);
}

void lock_table_free(struct lock_table *t) {
  for (size_t i = 0; i < t->n_slots; i++) {
    for (struct lock *l = t->slots[i], *next; l; l = next) {
      next = l->next;
      free(l);
    }
  }
  free(t->slots);
  *t = (struct lock_table){0};
}

size_t lock_count(const struct lock_table *t) {
  return t->n;
}

// --- the hash table ---

static uint64_t mixed(uint64_t h, uint64_t word) {
  h = (h ^ word) * UINT64_C(0x9E3779B97F4A7C15);
  return h ^ h >> 32;
}

static uint64_t hash_of(enum lock_kind kind, const uint8_t *key, size_t len) {
  uint64_t h = mixed(len, kind), word = 0;
  for (; len >= sizeof word; key += sizeof word, len -= sizeof word) {
    memcpy(&word, key, sizeof word);
    h = mixed(h, word);
  }
  word = 0;
  memcpy(&word, key, len);
  return mixed(h, word);
}

static struct lock **slot_of(const struct lock_table *t, uint64_t hash) {
  return &t->slots[hash & (t->n_slots - 1)];
}

static struct lock *find(const struct lock_table *t, enum lock_kind kind, const void *key, size_t len, uint64_t hash) {
  struct lock *l = *slot_of(t, hash);
  while (l && (l->hash != hash || l->kind != kind || l->key_len != len || memcmp(l->key, key, len))) l = l->next;
  return l;
}

static void add(struct lock_table *t, struct lock *l) {
  struct lock **slot = slot_of(t, l->hash);
  l->next = *slot;
  *slot = l;
}

static void grow(struct lock_table *t) {
  struct lock_table old = *t;
  t->n_slots *= 2;
  t->slots = allocate(t->n_slots * sizeof *t->slots);
  for (size_t i = 0; i < old.n_slots; i++) {
    for (struct lock *l = old.slots[i], *next; l; l = next) {
      next = l->next;
      add(t, l);
    }
  }
  free(old.slots);
}

static struct lock *find_or_make(struct lock_table *t, enum lock_kind kind, const void *key, size_t len) {
  uint64_t hash = hash_of(kind, key, len);
  struct lock *l = find(t, kind, key, len, hash);
  if (l) return l;
  if (t->n == t->n_slots) grow(t);
  l = allocate(sizeof *l + len);
  l->hash = hash;
  l->kind = (uint8_t)kind;
  l->key_len = len;
  memcpy(l->key, key, len);
  add(t, l);
  t->n++;
  return l;
}

static void drop_unused(struct lock_table *t, struct lock *l) {
  if (l->holds || l->waiters || l->intent) return;
  struct lock **at = slot_of(t, l->hash);
  while (*at != l) at = &(*at)->next;
  *at = l->next;
  t->n--;
  free(l);
}

// --- holds ---

static struct hold *hold_new(struct lock *l) {
  if (l->first_used) return allocate(sizeof(struct hold));
  l->first_used = true;
  return &l->first;
}

static void hold_free(struct lock *l, struct hold *h) {
  if (h == &l->first)
    l->first_used = false;
  else
    free(h);
}

static void hold_add(struct lock_table *t, struct lock *l, struct lock_owner *o, enum lock_mode mode) {
  struct hold *h = hold_new(l);
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
    hold_free(l, h);
    event_signal(&l->freed); // only marks fibers: none runs before all is released
    drop_unused(t, l);
  }
}

void lock_continue(struct lock_table *t, struct lock_owner *from, struct lock_owner *to, uint64_t since) {
  struct hold **at = &from->holds;
  for (struct hold *h; (h = *at);) {
    uint8_t kind = h->lock->kind;
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
  size_t len = strlen(ns);
  struct lock *l = find(t, LOCK_NAMESPACE, ns, len, hash_of(LOCK_NAMESPACE, (const uint8_t *)ns, len));
  if (!l) return op_check(op, err);
  uint64_t now = t->next_hold;
  bool ok = true;
  (void)lock_ref(l);
  while (ok && held_since_before(l, now)) ok = event_wait(op, &l->freed, err);
  lock_forget(t, l, 0);
  return ok;
}
