// The open databases: a bounded number of them, and one cache budget.
//
// The catalog and internal.sqlite stay open. Range and ids files are opened when they are used; past the limit the one
// that was used longest ago is closed, unless a scan stands in it, an entry is being applied to it or a job of the pool
// works on it.
#include "common/base/clock.h"
#include "common/store/internal.h"

enum {
  CACHE_TUNE_MS = 500, // how often the budget is distributed anew
  CACHE_SHARES = 4,    // one part of the budget of so many is shared out evenly, the rest by use
};

void store_add_db(struct store *s, struct db *d) {
  d->limits = &s->limits;
  d->prev = NULL;
  d->next = s->all;
  if (s->all) s->all->prev = d;
  s->all = d;
}

void store_remove_db(struct store *s, struct db *d) {
  if (d->next) d->next->prev = d->prev;
  if (d->prev) d->prev->next = d->next;
  if (s->all == d) s->all = d->next;
  d->next = d->prev = NULL;
}

static void unlink_open(struct store *s, struct db *d) {
  if (d->newer) d->newer->older = d->older;
  if (d->older) d->older->newer = d->newer;
  if (s->newest == d) s->newest = d->older;
  if (s->oldest == d) s->oldest = d->newer;
  d->newer = d->older = NULL;
}

static void link_open(struct store *s, struct db *d) {
  d->older = s->newest;
  d->newer = NULL;
  if (s->newest) s->newest->newer = d;
  s->newest = d;
  if (!s->oldest) s->oldest = d;
}

void store_used(struct store *s, struct db *d) {
  if (s->newest == d || d == &s->catalog || d == &s->internal) return;
  unlink_open(s, d);
  link_open(s, d);
}

void store_closed(struct store *s, struct db *d) {
  unlink_open(s, d);
  s->n_open--;
}

void store_trim_open(struct store *s) {
  struct db *d = s->oldest;
  while (s->n_open > s->max_open && d) {
    struct db *newer = d->newer;
    if (!d->pins && !d->entry && !d->checkpointing) {
      // Without a checkpoint where there is something to copy, which could take long; store_tick() does that later.
      db_commit(d);
      db_close(d, d->wal_bytes == 0);
      store_closed(s, d);
    }
    d = newer;
  }
}

void store_opened(struct store *s, struct db *d) {
  link_open(s, d);
  s->n_open++;
  d->uses = 1;
  store_tune_caches(s);
  d->pins++; // not the one that is about to be used
  store_trim_open(s);
  d->pins--;
}

static size_t share(size_t budget, size_t n, uint64_t uses, uint64_t all_uses) {
  size_t even = budget / CACHE_SHARES / n;
  double by_use = (double)(budget - budget / CACHE_SHARES) * (double)uses / (double)all_uses;
  // In steps, so that small shifts change nothing.
  size_t step = 256 * 1024;
  return (even + (size_t)by_use) / step * step + step;
}

void store_tune_caches(struct store *s) {
  uint64_t uses = s->catalog.uses + s->internal.uses + 1;
  for (struct db *d = s->newest; d; d = d->older) uses += d->uses;
  size_t n = s->n_open + 2;
  struct db *fixed[] = {&s->catalog, &s->internal};
  for (size_t i = 0; i < 2; i++) db_set_cache(fixed[i], share(s->cache_bytes, n, fixed[i]->uses, uses));
  for (struct db *d = s->newest; d; d = d->older) db_set_cache(d, share(s->cache_bytes, n, d->uses, uses));
  int64_t now = clock_mono_ms();
  if (now - s->cache_tuned_ms < CACHE_TUNE_MS) return;
  s->cache_tuned_ms = now;
  s->catalog.uses /= 2;
  s->internal.uses /= 2;
  for (struct db *d = s->newest; d; d = d->older) d->uses /= 2;
}
