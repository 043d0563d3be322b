// Histories of one key. See history.h.
#include "tests/chaos/history.h"

#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

#include "common/base/buf.h"

int64_t now_ns(void) {
  struct timespec t;
  (void)clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void history_add(struct history *h, const struct op *op) {
  h->ops = array_grow(h->ops, &h->cap, h->n + 1, sizeof *h->ops);
  h->ops[h->n++] = *op;
}

void history_free(struct history *h) {
  for (size_t i = 0; i < h->n; i++) free(h->ops[i].list);
  free(h->ops);
  *h = (struct history){0};
}

static int by_call(const void *a, const void *b) {
  const struct op *const *x = a, *const *y = b;
  return ((*x)->called > (*y)->called) - ((*x)->called < (*y)->called);
}

static void write_op(const struct op *o, int64_t base, FILE *f) {
  static const char *const names[] = {"read", "write", "cas", "cas missed", "append", "read list"};
  (void)fprintf(f, "%12.3f ", (double)(o->called - base) / 1e6);
  if (o->done == NEVER)
    (void)fprintf(f, "%12s ", "?");
  else
    (void)fprintf(f, "%12.3f ", (double)(o->done - base) / 1e6);
  (void)fprintf(f, "worker %-2d %s%s ", o->worker, names[o->kind],
                (o->kind == OP_READ || o->kind == OP_READ_LIST) && !o->strict ? " (may be stale)" : "");
  if (o->kind == OP_CAS || o->kind == OP_CAS_MISSED) (void)fprintf(f, "expected %lld ", (long long)o->expected);
  if (o->kind != OP_READ_LIST && o->kind != OP_CAS_MISSED) (void)fprintf(f, "value %lld ", (long long)o->value);
  if (o->version >= 0) (void)fprintf(f, "version %lld", (long long)o->version);
  for (size_t i = 0; i < o->n_list; i++) (void)fprintf(f, "%lld ", (long long)o->list[i]);
  (void)fputc('\n', f);
}

void history_write(const struct history *h, FILE *f) {
  const struct op **sorted = malloc((h->n + 1) * sizeof(struct op *));
  if (!sorted) return;
  for (size_t i = 0; i < h->n; i++) sorted[i] = &h->ops[i];
  qsort(sorted, h->n, sizeof(struct op *), by_call);
  (void)fprintf(f, "key %lld: called ms, answered ms (? = unknown outcome), who, what\n", (long long)h->key);
  for (size_t i = 0; i < h->n; i++) write_op(sorted[i], sorted[0]->called, f);
  free(sorted);
}

bool verdict_set(struct verdict *v, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  (void)vsnprintf(v->text, sizeof v->text, fmt, ap);
  va_end(ap);
  v->ok = false;
  return false;
}
