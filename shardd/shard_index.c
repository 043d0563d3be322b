// Finding and scanning the index of a shard key.
#include "shardd/shard_index.h"

#include "common/bson/doc.h"
#include "common/net/operation.h"
#include "shardd/migration_documents.h"

static const char *unfit_because(const struct index *i) {
  if (i->partial_filter) return "Index key is partial.";
  if (i->sparse) return "Index key is sparse.";
  if (i->multikey) return "Index key is multikey.";
  if (!i->ready) return "Index is still being built.";
  return NULL;
}

const struct index *shard_index_find(const struct collection *c, const struct shard_key *k, struct buf *why) {
  const struct index *best = NULL;
  for (size_t n = 0; n < c->n_indexes; n++) {
    const struct index *i = c->indexes[n];
    if (!shard_key_prefix_of(k, i->key)) continue;
    const char *unfit = unfit_because(i);
    if (unfit) {
      if (why) buf_printf(why, "Index %s: %s\n", i->name, unfit);
    } else if (!best || bson_count_keys(i->key) == k->n) {
      best = i;
    }
  }
  return best;
}

struct key_range shard_index_range(struct arena *a, const bson_t *min, const bson_t *max) {
  return (struct key_range){.low = bound_key(a, min), .high = bound_end(a, max)};
}

int64_t shard_index_count(struct operation *op, struct collection *c, const struct index *i,
                          const struct key_range *range, int64_t most, struct error *err) {
  struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
  struct scan *s = scan_open(a, c, &(struct scan_spec){.index = i, .ranges = range, .n_ranges = 1});
  struct scan_row row;
  int64_t n = 0;
  while (n < most && scan_next(s, &row, err)) {
    n++;
    if (!op_yield_due(op)) continue;
    scan_save(s);
    if (!op_yield(op, err)) return -1;
  }
  scan_close(s);
  return n < most && err->code ? -1 : n;
}
