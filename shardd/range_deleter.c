// The registry of range deletions, and the worker that takes one ready task after the other (range_deletion_work.c does
// it).
#include "shardd/range_deleter.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/bson/doc.h"
#include "shardd/metadata.h"
#include "shardd/range_deletion_work.h"

enum { RETRY_MS = 1000 }; // after a failure, and while readers are waited for without being told of their end

struct range_task {
  struct arena *arena; // of doc and the keys; replaced when the document changes
  struct range_deletion_doc doc;
  struct key min, max;
  int64_t ready_ms; // since when it is not pending, here (loop time)
};

struct range_deleter {
  struct shard *sh;
  struct map *tasks; // migration id -> struct range_task
  struct event changed;
};

struct range_deleter *range_deleter_new(struct shard *sh) {
  struct range_deleter *d = calloc(1, sizeof *d);
  d->sh = sh;
  d->tasks = map_new();
  return d;
}

static void free_task(void *p) {
  struct range_task *t = p;
  arena_free(t->arena);
  free(t);
}

void range_deleter_free(struct range_deleter *d) {
  if (!d) return;
  map_free(d->tasks, free_task);
  free(d);
}

void range_deleter_wake(struct range_deleter *d) {
  event_signal(&d->changed);
}

// --- the registry ---

static void register_doc(struct range_deleter *d, const bson_t *doc) {
  struct arena *a = arena_new();
  struct range_deletion_doc parsed;
  struct error err = {0};
  if (!range_deletion_doc_parse(a, doc, &parsed, &err)) {
    log_warn("RANGEDEL", "A range deletion task cannot be read and is left alone", "error:e", &err);
    arena_free(a);
    return;
  }
  struct range_task *t = map_get(d->tasks, parsed.id, sizeof parsed.id);
  bool was_ready = t && !t->doc.pending;
  if (!t) {
    t = calloc(1, sizeof *t);
    map_put(d->tasks, parsed.id, sizeof parsed.id, t);
  }
  arena_free(t->arena);
  t->arena = a;
  t->doc = parsed;
  t->min = bound_key(a, parsed.min);
  t->max = bound_end(a, parsed.max);
  if (!was_ready && !parsed.pending) t->ready_ms = loop_now_ms(d->sh->loop);
}

void range_deleter_load(struct range_deleter *d) {
  map_free(d->tasks, free_task);
  d->tasks = map_new();
  struct arena *a __attribute__((cleanup(arena_cleanup))) = arena_new();
  const bson_t **docs;
  size_t n = local_find(&d->sh->node, a, RANGE_DELETIONS_NS, arena_bson(a), NULL, 0, &docs);
  for (size_t i = 0; i < n; i++) register_doc(d, docs[i]);
  event_signal(&d->changed);
}

// On a secondary the deletions come whoever reads. The range is ready to be deleted: it has moved away for good, so a
// table known before that must not be read by any more. The primary is about to delete: who reads by such a table ends.
static void follow_primary(struct range_deleter *d, const struct range_task *t, bool was_ready) {
  if (!was_ready && !t->doc.pending) metadata_invalidate(d->sh->metadata, t->doc.ns);
  if (t->doc.processing) metadata_end_older_users(d->sh->metadata, t->doc.ns, t->min, t->max);
}

void range_deleter_applied(struct range_deleter *d, const bson_value_t *id, const bson_t *doc) {
  if (id->value_type != BSON_TYPE_BINARY || id->value.v_binary.data_len != 16) return;
  if (doc) {
    const struct range_task *t = map_get(d->tasks, id->value.v_binary.data, 16);
    bool was_ready = t && !t->doc.pending;
    register_doc(d, doc);
    t = map_get(d->tasks, id->value.v_binary.data, 16);
    if (t && !repl_is_primary(d->sh->node.repl)) follow_primary(d, t, was_ready);
  } else {
    struct range_task *t = map_remove(d->tasks, id->value.v_binary.data, 16);
    if (t) free_task(t);
  }
  event_signal(&d->changed);
}

struct search {
  const uint8_t *collection, *but;
  struct key min, max;
  bool found;
};

static bool overlaps(void *ctx, const void *key, size_t len, void *value) {
  struct search *s = ctx;
  const struct range_task *t = value;
  if (s->but && !memcmp(t->doc.id, s->but, 16)) return true;
  s->found = !memcmp(t->doc.collection, s->collection, 16) && key_compare(t->min, s->max) < 0 &&
             key_compare(s->min, t->max) < 0;
  return !s->found;
}

bool range_deleter_overlaps(struct range_deleter *d, const uint8_t collection[16], struct key min, struct key max,
                            const uint8_t *but) {
  struct search s = {.collection = collection, .but = but, .min = min, .max = max};
  map_each(d->tasks, overlaps, &s);
  return s.found;
}

bool range_deleter_wait_clear(struct operation *op, struct range_deleter *d, const uint8_t collection[16],
                              struct key min, struct key max, int64_t ms, bool *timed_out, struct error *err) {
  int64_t end = loop_now_ms(op->loop) + ms;
  *timed_out = false;
  while (range_deleter_overlaps(d, collection, min, max, NULL)) {
    int64_t left = end - loop_now_ms(op->loop);
    if (left <= 0) {
      *timed_out = true;
      return false;
    }
    bool woke_late = false;
    if (!event_wait_for(op, &d->changed, left, &woke_late, err) && !woke_late) return false;
  }
  return true;
}

bool range_deleter_wait_task(struct operation *op, struct range_deleter *d, const uint8_t id[16], struct error *err) {
  while (map_get(d->tasks, id, 16))
    if (!event_wait(op, &d->changed, err)) return false;
  return true;
}

bool range_deleter_wait_change(struct operation *op, struct range_deleter *d, struct error *err) {
  return event_wait(op, &d->changed, err);
}

bool range_deleter_task(struct range_deleter *d, struct arena *a, const uint8_t id[16],
                        struct range_deletion_doc *out) {
  const struct range_task *t = map_get(d->tasks, id, 16);
  if (!t) return false;
  *out = t->doc;
  out->ns = arena_strdup(a, t->doc.ns);
  out->donor = arena_strdup(a, t->doc.donor);
  out->min = doc_copy(a, t->doc.min);
  out->max = doc_copy(a, t->doc.max);
  out->key = t->doc.key ? doc_copy(a, t->doc.key) : NULL;
  return true;
}

struct ns_search {
  const char *ns;
  bool found;
};

static bool has_ns(void *ctx, const void *key, size_t len, void *value) {
  struct ns_search *s = ctx;
  const struct range_task *t = value;
  s->found = !strcmp(t->doc.ns, s->ns);
  return !s->found;
}

bool range_deleter_has_ns(struct range_deleter *d, const char *ns) {
  struct ns_search s = {.ns = ns};
  map_each(d->tasks, has_ns, &s);
  return s.found;
}

struct sum {
  const uint8_t *collection;
  int64_t orphans;
};

static bool add_orphans(void *ctx, const void *key, size_t len, void *value) {
  struct sum *s = ctx;
  const struct range_task *t = value;
  if (!memcmp(t->doc.collection, s->collection, 16)) s->orphans += t->doc.orphans;
  return true;
}

int64_t range_deleter_orphans(const struct range_deleter *d, const uint8_t collection[16]) {
  struct sum s = {.collection = collection};
  map_each(d->tasks, add_orphans, &s);
  return s.orphans;
}

size_t range_deleter_count(const struct range_deleter *d) {
  return map_count(d->tasks);
}

// --- the worker ---

struct pick {
  struct range_deleter *d;
  const struct range_task *task; // the one to work on
  int64_t now, wait_ms;          // until another one may be ready
};

static bool pick_ready(void *ctx, const void *key, size_t len, void *value) {
  struct pick *p = ctx;
  const struct range_task *t = value;
  if (t->doc.pending) return true;
  int64_t delay = t->doc.now ? 0 : p->d->sh->parameters.orphan_cleanup_delay_secs * 1000;
  int64_t left = t->ready_ms + delay - p->now;
  if (left > 0) {
    if (left < p->wait_ms) p->wait_ms = left;
    return true;
  }
  if (metadata_has_older_users(p->d->sh->metadata, t->doc.ns, t->min, t->max)) return true; // leave() wakes us
  p->task = t;
  return false;
}

// What the worker does with the task it picked: its own copy, since the registry changes with the log.
static bool work_on(struct operation *op, struct range_deleter *d, const struct range_task *t, struct error *err) {
  struct range_deletion_doc doc;
  range_deleter_task(d, op->arena, t->doc.id, &doc);
  return range_deletion_work(op, d->sh, &doc, err);
}

void range_deleter_run(struct operation *op, void *deleter) {
  struct range_deleter *d = deleter;
  struct error err = {0};
  while (op_check(op, &err)) {
    struct pick p = {.d = d, .now = loop_now_ms(op->loop), .wait_ms = 60000};
    map_each(d->tasks, pick_ready, &p);
    bool timed_out = false;
    if (!p.task) {
      event_wait_for(op, &d->changed, p.wait_ms, &timed_out, &err);
    } else if (!work_on(op, d, p.task, &err)) {
      log_warn("RANGEDEL", "Deleting an orphaned range failed and is tried again", "error:e", &err);
      arena_reset(op->arena); // with it what the failed try still has locked
      op_sleep(op, RETRY_MS, &err);
    }
    arena_reset(op->arena);
    err = (struct error){0};
  }
}
