// Which file new documents of a range go to: a sorted list of intervals of the encoded shard key that covers
// everything.
#include <stdlib.h>
#include <string.h>

#include "common/store/internal.h"

static struct key min_of(const struct owned_interval *i) {
  return (struct key){.data = i->min, .len = i->min_len};
}

// The position of the interval that k lies in.
static size_t position(const struct intervals *v, struct key k) {
  size_t low = 0, high = v->n; // list[low].min <= k < list[high].min
  while (high - low > 1) {
    size_t middle = low + (high - low) / 2;
    if (key_compare(min_of(&v->list[middle]), k) <= 0) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

static void insert_at(struct intervals *v, size_t at, struct key min, uint32_t file) {
  struct owned_interval *grown = realloc(v->list, (v->n + 1) * sizeof *grown);
  uint8_t *copy = malloc(min.len ? min.len : 1);
  if (!grown || !copy) abort();
  if (min.len) memcpy(copy, min.data, min.len);
  v->list = grown;
  memmove(v->list + at + 1, v->list + at, (v->n - at) * sizeof *v->list);
  v->list[at] = (struct owned_interval){.min = copy, .min_len = min.len, .file = file};
  v->n++;
}

static void remove_at(struct intervals *v, size_t at) {
  free(v->list[at].min);
  memmove(v->list + at, v->list + at + 1, (v->n - at - 1) * sizeof *v->list);
  v->n--;
}

void intervals_free(struct intervals *v) {
  for (size_t i = 0; i < v->n; i++) free(v->list[i].min);
  free(v->list);
  *v = (struct intervals){0};
}

void intervals_init(struct intervals *v, uint32_t file) {
  intervals_free(v);
  insert_at(v, 0, (struct key){0}, file);
}

void intervals_append(struct intervals *v, struct key min, uint32_t file) {
  insert_at(v, v->n, min, file);
}

// Makes an interval begin at k; returns its position.
static size_t split_at(struct intervals *v, struct key k) {
  size_t at = position(v, k);
  if (key_compare(min_of(&v->list[at]), k) == 0) return at;
  insert_at(v, at + 1, k, v->list[at].file);
  return at + 1;
}

static void join_neighbours(struct intervals *v) {
  for (size_t i = 1; i < v->n;) {
    if (v->list[i].file == v->list[i - 1].file) {
      remove_at(v, i);
    } else {
      i++;
    }
  }
}

void intervals_set(struct intervals *v, struct key min, struct key max, uint32_t file) {
  if (!v->n || (max.len && key_compare(min, max) >= 0)) return;
  if (max.len) (void)split_at(v, max);
  size_t begin = split_at(v, min);
  size_t end = max.len ? position(v, max) : v->n;
  for (size_t i = begin; i < end; i++) v->list[i].file = file;
  join_neighbours(v);
}

void intervals_replace(struct intervals *v, uint32_t file, uint32_t by) {
  for (size_t i = 0; i < v->n; i++) {
    if (v->list[i].file == file) v->list[i].file = by;
  }
  join_neighbours(v);
}

uint32_t intervals_find(const struct intervals *v, struct key k) {
  return v->n ? v->list[position(v, k)].file : 0;
}
