// Checking list-append. See check_list.h.
#include "tests/chaos/check_list.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"

static const struct op *append_of(const struct history *h, int64_t value) {
  for (size_t i = 0; i < h->n; i++)
    if (h->ops[i].kind == OP_APPEND && h->ops[i].value == value) return &h->ops[i];
  return NULL;
}

static bool contains(const struct op *read, int64_t value) {
  for (size_t i = 0; i < read->n_list; i++)
    if (read->list[i] == value) return true;
  return false;
}

static bool check_values(const struct history *h, const struct op *read, struct verdict *v) {
  for (size_t i = 0; i < read->n_list; i++) {
    const struct op *a = append_of(h, read->list[i]);
    if (!a || a->called > read->done)
      return verdict_set(v, "list %lld: %lld was read and not appended before", (long long)h->key,
                         (long long)read->list[i]);
    for (size_t j = 0; j < i; j++)
      if (read->list[j] == read->list[i])
        return verdict_set(v, "list %lld: %lld is there twice", (long long)h->key, (long long)read->list[i]);
  }
  return true;
}

static bool check_present(const struct history *h, const struct op *read, struct verdict *v) {
  for (size_t i = 0; i < h->n; i++) {
    const struct op *a = &h->ops[i];
    if (a->kind != OP_APPEND || a->done >= read->called || contains(read, a->value)) continue;
    return verdict_set(v, "list %lld: %lld was acknowledged and is missing from a read that began later",
                       (long long)h->key, (long long)a->value);
  }
  return true;
}

static const struct op *longest_read(const struct history *h) {
  const struct op *longest = NULL;
  for (size_t i = 0; i < h->n; i++) {
    const struct op *o = &h->ops[i];
    if (o->kind == OP_READ_LIST && (!longest || o->n_list > longest->n_list)) longest = o;
  }
  return longest;
}

static bool check_prefix(const struct history *h, const struct op *read, const struct op *longest, struct verdict *v) {
  for (size_t i = 0; i < read->n_list; i++) {
    if (read->list[i] == longest->list[i]) continue;
    return verdict_set(v, "list %lld: two reads disagree at position %zu: %lld and %lld", (long long)h->key, i,
                       (long long)read->list[i], (long long)longest->list[i]);
  }
  return true;
}

bool check_list(const struct history *h, struct verdict *v) {
  const struct op *longest = longest_read(h);
  *v = (struct verdict){.ok = true};
  for (size_t i = 0; i < h->n; i++) {
    const struct op *o = &h->ops[i];
    if (o->kind != OP_READ_LIST) continue;
    if (!check_values(h, o, v) || !check_prefix(h, o, longest, v)) return false;
    if (o->strict && !check_present(h, o, v)) return false;
  }
  return true;
}

// --- cycles ---
//
// In this graph a node's place in the list decides nearly everything: append number i comes before append i + 1, a read
// of n values after append n - 1 and before append n. An order of time that contradicts is a cycle; the search below
// finds one as the edge of time that leads to a smaller place. With place(append i) = 2 i + 1 and place(read of n) =
// 2 n, edges of the list always lead to an equal or greater place, so any cycle needs an edge of time that leads back.

static int64_t place(const struct op *longest, const struct op *o) {
  if (o->kind == OP_READ_LIST) return o->strict ? 2 * (int64_t)o->n_list : -1;
  for (size_t i = 0; longest && i < longest->n_list; i++)
    if (longest->list[i] == o->value) return 2 * (int64_t)i + 1;
  return -1; // never seen: its place is not known
}

bool check_list_cycles(const struct history *h, struct verdict *v) {
  const struct op *longest = longest_read(h);
  int64_t *places = malloc((h->n + 1) * sizeof *places);
  *v = (struct verdict){.ok = true};
  for (size_t i = 0; i < h->n; i++) places[i] = place(longest, &h->ops[i]);
  for (size_t i = 0; i < h->n && v->ok; i++) {
    for (size_t j = 0; j < h->n && v->ok; j++) {
      const struct op *a = &h->ops[i], *b = &h->ops[j];
      if (places[i] < 0 || places[j] < 0 || a->done >= b->called || places[i] <= places[j]) continue;
      (void)verdict_set(
          v, "list %lld: a cycle: operation %zu (place %lld) was answered before %zu (place %lld) was called",
          (long long)h->key, i, (long long)places[i], j, (long long)places[j]);
    }
  }
  free(places);
  return v->ok;
}
