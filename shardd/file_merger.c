// See file_merger.h.
#include "shardd/file_merger.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/bson/doc.h"
#include "shardd/failpoint.h"
#include "shardd/file_merge.h"

enum {
  SOON_MS = 200,   // after a merge
  LOOK_MS = 1000,  // how soon a changed parameter is noticed
  MAX_BACKOFF = 6, // after failures the interval doubles so many times
};

struct file_merger {
  struct shard *sh;
  struct file_merge *running; // NULL = none
  int failures;               // since the last success
  int64_t started, done, abandoned;
  int64_t files, documents, bytes, blocked_us; // of those that were done
};

struct file_merger *file_merger_new(struct shard *sh) {
  struct file_merger *m = calloc(1, sizeof *m);
  m->sh = sh;
  return m;
}

void file_merger_free(struct file_merger *m) {
  free(m);
}

void file_merger_applied(struct file_merger *m, const bson_t *entry) {
  if (m->running && m->running->changes) file_changes_entry(m->running->changes, entry);
}

void file_merger_status(const struct file_merger *m, bson_t *reply) {
  bson_t out;
  BSON_APPEND_DOCUMENT_BEGIN(reply, "rangeFileMerges", &out);
  BSON_APPEND_BOOL(&out, "running", m->running != NULL);
  BSON_APPEND_INT64(&out, "countStarted", m->started);
  BSON_APPEND_INT64(&out, "countDone", m->done);
  BSON_APPEND_INT64(&out, "countAbandoned", m->abandoned);
  BSON_APPEND_INT64(&out, "countFilesMerged", m->files);
  BSON_APPEND_INT64(&out, "countDocsCopied", m->documents);
  BSON_APPEND_INT64(&out, "countBytesCopied", m->bytes);
  BSON_APPEND_INT64(&out, "totalWritesBlockedMicros", m->blocked_us);
  bson_append_document_end(reply, &out);
}

// --- what is worth it ---

struct search {
  const struct shard *sh;
  struct arena *a;
  struct file_merge *out; // the best of what was looked at; run.n 0 = nothing yet
};

static void add_file(struct mergeable *list, size_t *n, const struct range_file *f) {
  if (f->state != FILE_ACTIVE) return;
  for (size_t i = 0; i < *n; i++)
    if (list[i].file == f->id) return;
  list[(*n)++] = (struct mergeable){.file = f->id, .bytes = f->bytes};
}

// In the order of the shard key: a file's place is that of its first interval. Those without any come last.
static size_t list_files(const struct search *s, const struct collection *c, struct mergeable **out) {
  struct mergeable *list = arena_alloc(s->a, (c->n_files + 1) * sizeof *list);
  size_t n = 0;
  for (size_t i = 0; i < c->n_intervals; i++) {
    const struct range_file *f = collection_file(c, c->intervals[i].file);
    if (f) add_file(list, &n, f);
  }
  for (size_t i = 0; i < c->n_files; i++) add_file(list, &n, c->files[i]);
  for (size_t i = 0; i < n; i++) list[i].excluded = file_merge_excluded(s->sh, c, list[i].file);
  *out = list;
  return n;
}

static bool look_at(void *ctx, struct collection *c) {
  struct search *s = ctx;
  struct mergeable *files;
  struct merge_run run;
  if (c->n_files < 2 || !file_merge_possible(s->sh, c)) return true;
  size_t n = list_files(s, c, &files);
  int64_t target = s->sh->parameters.range_file_merge_target_mb * 1024 * 1024;
  if (!merge_run_choose(files, n, target, &run) || run.n <= s->out->run.n) return true;
  s->out->run = run;
  s->out->ns = arena_strdup(s->a, c->ns);
  memcpy(s->out->collection, c->uuid, 16);
  return true;
}

// --- one merge ---

static void say_done(const struct file_merge *m, int64_t ms) {
  log_info("STORAGE", "Merged range files",
           "namespace:s files:l documents:l bytes:l recopied:l writesBlockedMicros:l durationMillis:l", m->ns,
           (int64_t)m->run.n, m->documents, m->bytes, m->recopied, m->blocked_us, ms);
}

static void count_done(struct file_merger *g, const struct file_merge *m) {
  g->failures = 0;
  g->done++;
  g->files += (int64_t)m->run.n;
  g->documents += m->documents;
  g->bytes += m->bytes;
  g->blocked_us += m->blocked_us;
}

static bool merge(struct operation *op, struct file_merger *g, struct file_merge *m) {
  struct error err = {0};
  int64_t began = loop_now_ms(op->loop);
  log_info("STORAGE", "Merging range files", "namespace:s files:l bytes:l", m->ns, (int64_t)m->run.n, m->run.bytes);
  g->started++;
  g->running = m;
  bool ok = file_merge_run(op, m, &err);
  if (g->running == m) g->running = NULL; // another one, when this member is primary again already
  if (ok) {
    count_done(g, m);
    say_done(m, loop_now_ms(op->loop) - began);
    return true;
  }
  g->failures++;
  g->abandoned++;
  log_info("STORAGE", "Range files were not merged", "namespace:s error:e", m->ns, &err);
  return false;
}

// Whether something was merged, so that there may be more.
static bool merge_best(struct operation *op, struct file_merger *g) {
  struct file_merge *m = arena_zalloc(op->arena, sizeof *m);
  struct search s = {.sh = g->sh, .a = op->arena, .out = m};
  store_each_collection(g->sh->node.store, look_at, &s);
  m->sh = g->sh;
  m->arena = op->arena;
  return m->run.n && merge(op, g, m);
}

static int64_t interval_ms(const struct file_merger *g) {
  int backoff = g->failures < MAX_BACKOFF ? g->failures : MAX_BACKOFF;
  return g->sh->parameters.range_file_merge_interval_secs * 1000 << backoff;
}

void file_merger_run(struct operation *op, void *merger) {
  struct file_merger *g = merger;
  struct error err = {0};
  g->failures = 0;
  int64_t last = loop_now_ms(op->loop);
  bool more = false;
  while (op_sleep(op, more ? SOON_MS : LOOK_MS, &err)) {
    int64_t wait = interval_ms(g); // 0: switched off
    if (!wait || (!more && loop_now_ms(op->loop) - last < wait)) continue;
    if (!failpoint_hang(op, g->sh, "suspendRangeFileMerge", &err)) return;
    more = merge_best(op, g);
    last = loop_now_ms(op->loop);
    arena_reset(op->arena);
  }
}
