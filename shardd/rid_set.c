// Open addressing with linear probing; at most three quarters full.
#include "shardd/rid_set.h"

#include <stdlib.h>

// Where rid is, or the free slot where it would go. cap > 0.
static size_t slot_of(const struct rid_set *s, int64_t rid) {
  size_t at = (size_t)((uint64_t)rid * 0x9e3779b97f4a7c15u >> 20) & (s->cap - 1); // Fibonacci hashing
  while (s->slots[at] && s->slots[at] != rid) at = (at + 1) & (s->cap - 1);
  return at;
}

static void grow(struct rid_set *s) {
  struct rid_set bigger = {.n = s->n, .cap = s->cap ? s->cap * 2 : 64};
  bigger.slots = calloc(bigger.cap, sizeof *bigger.slots);
  if (!bigger.slots) abort(); // no memory left
  for (size_t i = 0; i < s->cap; i++)
    if (s->slots[i]) bigger.slots[slot_of(&bigger, s->slots[i])] = s->slots[i];
  free(s->slots);
  *s = bigger;
}

void rid_set_add(struct rid_set *s, int64_t rid) {
  if (!rid) return;
  if (s->n * 4 >= s->cap * 3) grow(s);
  size_t at = slot_of(s, rid);
  if (s->slots[at]) return;
  s->slots[at] = rid;
  s->n++;
}

bool rid_set_has(const struct rid_set *s, int64_t rid) {
  return s->cap && rid && s->slots[slot_of(s, rid)] == rid;
}

void rid_set_free(struct rid_set *s) {
  free(s->slots);
  *s = (struct rid_set){0};
}
