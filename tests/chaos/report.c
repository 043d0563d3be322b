// Counting and telling. See report.h.
#include "tests/chaos/report.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tests/integration/harness.h"

void report_open(struct report *r, const char *folder) {
  char path[300];
  *r = (struct report){.lock = PTHREAD_MUTEX_INITIALIZER, .begun_ms = now_ms()};
  (void)snprintf(r->folder, sizeof r->folder, "%s", folder);
  (void)snprintf(path, sizeof path, "%s/events.log", folder);
  r->log = fopen(path, "w");
}

void report_close(struct report *r) {
  if (r->log) (void)fclose(r->log);
  r->log = NULL;
}

static struct tally *tally_of(struct report *r, const char *kind) {
  for (int i = 0; i < r->n_tallies; i++)
    if (!strcmp(r->tallies[i].name, kind)) return &r->tallies[i];
  if (r->n_tallies == MAX_TALLIES) return &r->tallies[MAX_TALLIES - 1];
  r->tallies[r->n_tallies].name = kind;
  return &r->tallies[r->n_tallies++];
}

void report_count(struct report *r, const char *kind, enum outcome o) {
  (void)pthread_mutex_lock(&r->lock);
  tally_of(r, kind)->counts[o]++;
  (void)pthread_mutex_unlock(&r->lock);
}

// --- the longest time without a write ---

static void note_gap(struct report *r, int64_t now) {
  long long last = atomic_exchange(&r->last_write_ms, now), longest = atomic_load(&r->longest_gap_ms);
  long long gap = last ? now - last : 0; // 0: before report_writes_begin()
  while (gap > longest && !atomic_compare_exchange_weak(&r->longest_gap_ms, &longest, gap)) {
  }
}

void report_writes_begin(struct report *r) {
  atomic_store(&r->last_write_ms, now_ms());
}

void report_write_done(struct report *r) {
  note_gap(r, now_ms());
}

void report_writes_end(struct report *r) {
  note_gap(r, now_ms());
}

// --- texts ---

void report_event(struct report *r, const char *fmt, ...) {
  va_list ap;
  if (!r->log) return;
  (void)pthread_mutex_lock(&r->lock);
  struct timespec wall;
  struct tm utc;
  char at[32];
  (void)clock_gettime(CLOCK_REALTIME, &wall);
  (void)strftime(at, sizeof at, "%H:%M:%S", gmtime_r(&wall.tv_sec, &utc)); // as the daemons' logs have it
  (void)fprintf(r->log, "%8lld %s.%03ld ", (long long)(now_ms() - r->begun_ms), at, wall.tv_nsec / 1000000);
  va_start(ap, fmt);
  (void)vfprintf(r->log, fmt, ap);
  va_end(ap);
  (void)fputc('\n', r->log);
  (void)fflush(r->log);
  (void)pthread_mutex_unlock(&r->lock);
}

void report_violation(struct report *r, const char *fmt, ...) {
  char *text = NULL, path[300];
  va_list ap;
  va_start(ap, fmt);
  int n = vasprintf(&text, fmt, ap);
  va_end(ap);
  if (n < 0) return;
  report_event(r, "VIOLATION %s", text);
  (void)pthread_mutex_lock(&r->lock);
  r->violations++;
  (void)printf("VIOLATION: %s\n", text);
  (void)fflush(stdout);
  (void)snprintf(path, sizeof path, "%s/violations.txt", r->folder);
  FILE *f = fopen(path, "a");
  if (f) {
    (void)fprintf(f, "%s\n", text);
    (void)fclose(f);
  }
  (void)pthread_mutex_unlock(&r->lock);
  free(text);
}

FILE *report_evidence(struct report *r, const char *name) {
  char path[300];
  (void)snprintf(path, sizeof path, "%s/%s", r->folder, name);
  return fopen(path, "w");
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const struct tally *)a)->name, ((const struct tally *)b)->name);
}

void report_print(struct report *r) {
  (void)pthread_mutex_lock(&r->lock);
  int64_t sum[OUTCOMES] = {0};
  qsort(r->tallies, (size_t)r->n_tallies, sizeof r->tallies[0], by_name);
  (void)printf("  %-26s %9s %9s %9s\n", "", "ok", "failed", "unknown");
  for (int i = 0; i < r->n_tallies; i++) {
    const struct tally *t = &r->tallies[i];
    (void)printf("  %-26s %9lld %9lld %9lld\n", t->name, (long long)t->counts[OUTCOME_OK],
                 (long long)t->counts[OUTCOME_FAILED], (long long)t->counts[OUTCOME_UNKNOWN]);
    bool operation = strncmp(t->name, "fault ", 6) != 0 && strncmp(t->name, "chunks ", 7) != 0;
    for (int o = 0; operation && o < OUTCOMES; o++) sum[o] += t->counts[o];
  }
  (void)printf("  %-26s %9lld %9lld %9lld\n", "operations together", (long long)sum[0], (long long)sum[1],
               (long long)sum[2]);
  (void)printf("  longest time without a successful write: %lld ms\n", (long long)atomic_load(&r->longest_gap_ms));
  (void)printf("  violations: %d\n", r->violations);
  (void)fflush(stdout);
  (void)pthread_mutex_unlock(&r->lock);
}
