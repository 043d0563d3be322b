// The order in which documents of several sorted streams come out: a heap of the streams' next keys.
#include "mongos/merge.h"

#include <stdbool.h>

struct entry {
  struct key key;
  size_t stream;
};

struct merge {
  size_t n;
  struct entry *entries; // a binary heap: entries[i] is not after entries[2i + 1] and entries[2i + 2]
};

struct merge *merge_new(struct arena *a, size_t n_streams) {
  struct merge *m = arena_zalloc(a, sizeof *m);
  m->entries = arena_zalloc(a, (n_streams > 0 ? n_streams : 1) * sizeof *m->entries);
  return m;
}

static bool before(const struct entry *a, const struct entry *b) {
  int c = key_compare(a->key, b->key);
  return c != 0 ? c < 0 : a->stream < b->stream;
}

static void swap(struct entry *a, struct entry *b) {
  struct entry t = *a;
  *a = *b;
  *b = t;
}

void merge_put(struct merge *m, size_t stream, struct key key) {
  size_t i = m->n++;
  m->entries[i] = (struct entry){.key = key, .stream = stream};
  while (i > 0 && before(&m->entries[i], &m->entries[(i - 1) / 2])) {
    swap(&m->entries[i], &m->entries[(i - 1) / 2]);
    i = (i - 1) / 2;
  }
}

size_t merge_count(const struct merge *m) {
  return m->n;
}

size_t merge_first(const struct merge *m) {
  return m->entries[0].stream;
}

void merge_take(struct merge *m) {
  m->entries[0] = m->entries[--m->n];
  for (size_t i = 0;;) {
    size_t least = i, left = 2 * i + 1, right = left + 1;
    if (left < m->n && before(&m->entries[left], &m->entries[least])) least = left;
    if (right < m->n && before(&m->entries[right], &m->entries[least])) least = right;
    if (least == i) return;
    swap(&m->entries[i], &m->entries[least]);
    i = least;
  }
}
