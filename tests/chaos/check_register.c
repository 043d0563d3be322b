// Linearizability of a register. See check_register.h.
//
// The search walks a list of events (calls and returns in the order of time), as Lowe describes it: an operation whose
// call is met may be placed next when the register allows it, its events are then lifted out of the list; a return that
// is met belongs to an operation that ought to have been placed before: the last choice is undone.
#include "tests/chaos/check_register.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/map.h"

enum { MAX_CONFIGURATIONS = 2000000 };

struct event {
  int64_t at;
  int op;
  struct event *match; // of a call: its return, NULL for an unknown outcome; of a return: NULL
  bool is_call;
  struct event *prev, *next;
};

struct choice { // an operation that was placed, and the value before it
  struct event *call;
  int64_t before;
};

struct search {
  const struct op **ops;
  int n, required; // required: those whose outcome is known
  struct event *events, head;
  uint64_t *placed; // bits
  size_t words;
  int64_t value;
  int n_required_placed;
  struct choice *choices;
  int n_choices, deepest;
  struct map *seen;
  int configurations;
};

// --- which operations take part ---

// An unknown write that nobody saw changes nothing when it is left out, unless somebody saw that it was *not* so.
static bool matters(const struct history *h, const struct op *w) {
  for (size_t i = 0; i < h->n; i++) {
    const struct op *o = &h->ops[i];
    if (o->kind == OP_READ && o->strict && o->value == w->value) return true;
    if (o->kind == OP_CAS && o->expected == w->value) return true;
    if (o->kind == OP_CAS_MISSED && o->done > w->called) return true;
  }
  return false;
}

static bool takes_part(const struct history *h, const struct op *o) {
  if (o->kind == OP_READ) return o->strict && o->done != NEVER;
  if (o->kind == OP_CAS_MISSED) return o->done != NEVER;
  return o->done != NEVER || matters(h, o);
}

static int by_time(const void *a, const void *b) {
  const struct event *x = a, *y = b;
  if (x->at != y->at) return x->at < y->at ? -1 : 1;
  return (int)y->is_call - (int)x->is_call; // at the same instant: as if they overlapped
}

static void search_init(struct search *s, const struct history *h) {
  s->ops = malloc((h->n + 1) * sizeof(struct op *));
  for (size_t i = 0; i < h->n; i++)
    if (takes_part(h, &h->ops[i])) s->ops[s->n++] = &h->ops[i];
  s->events = calloc(2 * (size_t)s->n + 1, sizeof *s->events);
  int n = 0;
  for (int i = 0; i < s->n; i++) {
    s->events[n++] = (struct event){.at = s->ops[i]->called, .op = i, .is_call = true};
    if (s->ops[i]->done == NEVER) continue;
    s->events[n++] = (struct event){.at = s->ops[i]->done, .op = i};
    s->required++;
  }
  qsort(s->events, (size_t)n, sizeof *s->events, by_time);
  struct event **returns = calloc((size_t)s->n + 1, sizeof(struct event *)), *last = &s->head;
  for (int i = 0; i < n; i++) {
    if (!s->events[i].is_call) returns[s->events[i].op] = &s->events[i];
    s->events[i].prev = last;
    last = last->next = &s->events[i];
  }
  for (int i = 0; i < n; i++)
    if (s->events[i].is_call) s->events[i].match = returns[s->events[i].op];
  free(returns);
  s->words = ((size_t)s->n + 63) / 64;
  s->placed = calloc(s->words + 1, sizeof *s->placed);
  s->choices = calloc((size_t)s->n + 1, sizeof *s->choices);
  s->seen = map_new();
  s->value = REGISTER_ABSENT;
}

static void search_free(struct search *s) {
  free(s->ops);
  free(s->events);
  free(s->placed);
  free(s->choices);
  map_free(s->seen, NULL);
}

// --- the walk ---

static bool allowed(const struct op *o, int64_t value, int64_t *after) {
  *after = value;
  switch (o->kind) {
  case OP_READ: return o->value == value;
  case OP_CAS: *after = o->value; return o->expected == value;
  case OP_CAS_MISSED: return o->expected != value;
  default: *after = o->value; return true;
  }
}

static void lift(struct event *e) {
  e->prev->next = e->next;
  if (e->next) e->next->prev = e->prev;
}

static void unlift(struct event *e) {
  e->prev->next = e;
  if (e->next) e->next->prev = e;
}

// Remembers this configuration; false: it was met before.
static bool is_new(struct search *s) {
  s->placed[s->words] = (uint64_t)s->value; // the word behind the bits
  static char mark;
  size_t len = (s->words + 1) * sizeof *s->placed;
  if (map_get(s->seen, s->placed, len)) return false;
  (void)map_put(s->seen, s->placed, len, &mark);
  s->configurations++;
  return true;
}

static bool try_place(struct search *s, struct event *call) {
  const struct op *o = s->ops[call->op];
  int64_t before = s->value, after;
  uint64_t bit = (uint64_t)1 << (call->op % 64);
  if (!allowed(o, before, &after)) return false;
  s->value = after;
  s->placed[call->op / 64] |= bit;
  if (!is_new(s)) {
    s->value = before;
    s->placed[call->op / 64] &= ~bit;
    return false;
  }
  s->choices[s->n_choices++] = (struct choice){call, before};
  lift(call);
  if (call->match) {
    lift(call->match);
    s->n_required_placed++;
  }
  if (s->n_required_placed > s->deepest) s->deepest = s->n_required_placed;
  return true;
}

static struct event *undo(struct search *s) {
  struct choice *c = &s->choices[--s->n_choices];
  if (c->call->match) {
    unlift(c->call->match);
    s->n_required_placed--;
  }
  unlift(c->call);
  s->placed[c->call->op / 64] &= ~((uint64_t)1 << (c->call->op % 64));
  s->value = c->before;
  return c->call->next;
}

bool check_register(const struct history *h, struct verdict *v) {
  struct search s = {0};
  *v = (struct verdict){.ok = true};
  search_init(&s, h);
  struct event *at = s.head.next;
  while (s.n_required_placed < s.required) {
    if (s.configurations > MAX_CONFIGURATIONS) {
      (void)verdict_set(v, "key %lld: undecided after %d configurations", (long long)h->key, s.configurations);
      v->ok = true;
      break;
    }
    if (at && at->is_call) {
      at = try_place(&s, at) ? s.head.next : at->next;
    } else if (s.n_choices) {
      at = undo(&s);
    } else {
      (void)verdict_set(v, "register %lld is not linearizable (%d of %d operations fit)", (long long)h->key, s.deepest,
                        s.required);
      break;
    }
  }
  search_free(&s);
  return v->ok;
}

// --- versions ---

static bool is_write(const struct op *o) {
  return o->kind == OP_WRITE || o->kind == OP_CAS;
}

// The writes that must be, and that can be, behind what `seen` saw.
static void count_writes(const struct history *h, const struct op *seen, int64_t *least, int64_t *most) {
  *least = *most = 0;
  for (size_t i = 0; i < h->n; i++) {
    const struct op *o = &h->ops[i];
    *least += is_write(o) && o->done < seen->called;
    *most += is_write(o) && o->called < seen->done;
  }
}

static bool check_version(const struct history *h, const struct op *a, struct verdict *v) {
  int64_t least, most;
  count_writes(h, a, &least, &most);
  if (a->version > most)
    return verdict_set(v, "register %lld: version %lld was seen after at most %lld writes: one was applied twice",
                       (long long)h->key, (long long)a->version, (long long)most);
  if (a->kind == OP_READ && a->strict && a->version < least)
    return verdict_set(v, "register %lld: version %lld was seen after %lld acknowledged writes", (long long)h->key,
                       (long long)a->version, (long long)least);
  for (const struct op *b = h->ops; b < a; b++) {
    if (b->version != a->version || b->value == a->value) continue;
    return verdict_set(v, "register %lld: version %lld was seen with the values %lld and %lld", (long long)h->key,
                       (long long)a->version, (long long)a->value, (long long)b->value);
  }
  return true;
}

bool check_versions(const struct history *h, struct verdict *v) {
  *v = (struct verdict){.ok = true};
  for (size_t i = 0; i < h->n && v->ok; i++)
    if (h->ops[i].version >= 0) (void)check_version(h, &h->ops[i], v);
  return v->ok;
}
