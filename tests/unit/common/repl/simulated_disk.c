// The disk of a simulated member. See simulated_disk.h.
#include "tests/unit/common/repl/simulated_disk.h"

#include <stdlib.h>

void image_put(struct log_image *l, uint64_t first, struct entry *const *entries, size_t n) {
  for (uint64_t i = first; i <= l->last; i++) entry_unref(l->entries[i]);
  for (size_t i = 0; i < n; i++) l->entries[first + i] = entry_ref(entries[i]);
  l->last = first + n - 1;
}

void image_reset(struct log_image *l, uint64_t first) {
  for (uint64_t i = l->first; i <= l->last; i++) entry_unref(l->entries[i]);
  l->first = first;
  l->last = first - 1;
}

void image_cut(struct log_image *l, uint64_t first) {
  for (; l->first < first && l->first <= l->last; l->first++) entry_unref(l->entries[l->first]);
  l->first = first > l->first ? first : l->first;
  if (l->last + 1 < l->first) l->last = l->first - 1;
}

void image_mark(struct log_image *l, const struct snapshot_mark *m, uint64_t state) {
  if (m->configuration) entry_ref(m->configuration);
  entry_unref(l->mark.configuration);
  l->mark = *m;
  l->state = state;
}

void op_apply(struct log_image *disk, const struct disk_op *o, size_t n) {
  switch (o->kind) {
  case OP_VOTE:
    disk->term = o->term;
    disk->vote = o->vote;
    return;
  case OP_APPEND:
    if (n) image_put(disk, o->first, o->entries, n);
    return;
  case OP_INSTALL:
    image_mark(disk, &o->mark, o->state);
    image_reset(disk, o->mark.index + 1);
    return;
  }
}

void op_free(struct disk_op *o) {
  for (size_t i = 0; i < o->n; i++) entry_unref(o->entries[i]);
  free(o->entries);
  entry_unref(o->mark.configuration);
  free(o);
}
