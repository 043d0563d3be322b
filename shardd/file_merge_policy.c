// See file_merge_policy.h.
#include "shardd/file_merge_policy.h"

enum { LEAST_BYTES = 64 * 1024 }; // what a file counts at least: tiny ones are worth it whatever their proportions

static bool is_small(const struct mergeable *f, int64_t target) {
  return !f->excluded && f->bytes < target;
}

static int64_t weight(const struct mergeable *f) {
  return f->bytes > LEAST_BYTES ? f->bytes : LEAST_BYTES;
}

static bool better(const struct merge_run *a, const struct merge_run *than) {
  return a->n != than->n ? a->n > than->n : a->bytes < than->bytes;
}

// The longest run that begins at files[at]; n 0: none does.
static void run_from(const struct mergeable *files, size_t n, size_t at, int64_t target, struct merge_run *out) {
  struct merge_run run = {.n = 0};
  int64_t weights = 0, largest = 0;
  out->n = 0;
  for (size_t i = at; i < n && run.n < MERGE_MAX_FILES; i++) {
    if (!is_small(&files[i], target)) continue;
    if (run.bytes + files[i].bytes > 2 * target) break;
    int64_t w = weight(&files[i]);
    run.files[run.n++] = files[i].file;
    run.bytes += files[i].bytes;
    weights += w;
    if (w > largest) largest = w;
    if (run.n >= 2 && 2 * largest <= weights) *out = run;
  }
}

bool merge_run_choose(const struct mergeable *files, size_t n, int64_t target, struct merge_run *out) {
  out->n = 0;
  for (size_t at = 0; at < n; at++) {
    struct merge_run run;
    if (!is_small(&files[at], target)) continue;
    run_from(files, n, at, target, &run);
    if (run.n && better(&run, out)) *out = run;
  }
  return out->n > 0;
}
