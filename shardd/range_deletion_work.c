// Deletes a range: file by file, each in slices of a few hundred documents that are log entries of their own (so that
// neither the loop nor a secondary ever stands still for long), or by unlinking the file when nothing else lives in it.
#include "shardd/range_deletion_work.h"

#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/bson/doc.h"

enum { SLICE_DOCUMENTS = 200 }; // about 3 ms of applying

struct range {
  struct key min, max;
  bool from_start, to_end; // min is the key space's beginning, max its end
};

// Whether interval i of the collection overlaps the range, and whether it lies wholly inside.
static bool interval_overlaps(const struct collection *c, size_t i, const struct range *r, bool *inside) {
  bool last = i + 1 == c->n_intervals;
  struct key from = c->intervals[i].min;
  bool from_inside = i == 0 ? r->from_start : key_compare(r->min, from) <= 0;
  bool to_inside = last ? r->to_end : key_compare(c->intervals[i + 1].min, r->max) <= 0;
  *inside = from_inside && to_inside;
  bool ends_before = !last && key_compare(c->intervals[i + 1].min, r->min) <= 0;
  bool begins_after = i > 0 && key_compare(from, r->max) >= 0;
  return !ends_before && !begins_after;
}

struct file_plan {
  uint32_t file;
  bool unlink; // all of its intervals are in the range, and the collection has another file
};

static size_t active_files(const struct collection *c) {
  size_t n = 0;
  for (size_t i = 0; i < c->n_files; i++) n += c->files[i]->state == FILE_ACTIVE;
  return n;
}

// Documents of a key are in the file whose interval holds the key: a range that comes back gets a file of its own, and
// only when nothing of it is left here.
static size_t plan_files(struct arena *a, const struct collection *c, const struct range *r, struct file_plan **out) {
  struct file_plan *plans = arena_zalloc(a, (c->n_intervals + 1) * sizeof *plans);
  size_t n = 0;
  for (size_t i = 0; i < c->n_intervals; i++) {
    bool inside;
    if (!interval_overlaps(c, i, r, &inside)) continue;
    size_t at = 0;
    while (at < n && plans[at].file != c->intervals[i].file) at++;
    if (at == n) plans[n++] = (struct file_plan){.file = c->intervals[i].file, .unlink = true};
  }
  size_t unlinked = 0;
  for (size_t at = 0; at < n; at++) {
    for (size_t i = 0; i < c->n_intervals; i++) {
      bool inside;
      bool overlap = interval_overlaps(c, i, r, &inside);
      if (c->intervals[i].file == plans[at].file && !(overlap && inside)) plans[at].unlink = false;
    }
    if (plans[at].unlink && unlinked + 1 == active_files(c)) plans[at].unlink = false; // one must take the intervals
    unlinked += plans[at].unlink;
  }
  *out = plans;
  return n;
}

static bool lock_namespace(struct operation *op, struct write *w, const char *ns, bool exclusive, struct error *err) {
  while (!write_lock_namespace(w, ns, exclusive))
    if (!write_wait(op, w, err)) return false;
  return true;
}

// One entry: up to SLICE_DOCUMENTS documents of one file, and the count as of the slices before.
static bool delete_slice(struct operation *op, struct shard *sh, const struct range_deletion_doc *t,
                         const struct range *r, uint32_t file, struct slice_result *result, struct error *err) {
  char uuid[37];
  uuid_text(t->collection, uuid);
  struct write *w = write_begin(op, sh->node.repl);
  const char *slice = arena_printf(op->arena, "slice/%s", uuid); // one pacer of a collection at a time
  while (!write_lock_name(w, slice))
    if (!write_wait(op, w, err)) return false;
  if (!lock_namespace(op, w, t->ns, false, err)) return false;
  if (!local_put(&sh->node, w, RANGE_DELETIONS_NS, range_deletion_doc_make(op->arena, t), err)) return false;
  change_range_delete(write_changes(w), t->collection, file, r->min, r->max, SLICE_DOCUMENTS);
  if (!write_commit(op, w, err)) return false;
  *result = (struct slice_result){.done = true};
  store_last_slice(sh->node.store, t->collection, result);
  return true;
}

struct deleting { // the documents of one file
  struct shard *sh;
  struct range_deletion_doc *task;
  const struct range *range;
  uint32_t file;
  int64_t in_batch; // deleted since the last pause
};

static bool delete_step(struct operation *op, void *ctx, bool *more, struct error *err) {
  struct deleting *x = ctx;
  struct shard *sh = x->sh;
  struct slice_result slice;
  if (!delete_slice(op, sh, x->task, x->range, x->file, &slice, err)) return false;
  x->task->orphans = x->task->orphans > slice.n ? x->task->orphans - slice.n : 0;
  x->in_batch += slice.n;
  sh->counters.docs_deleted_by_range_deleter += slice.n;
  sh->counters.bytes_deleted_by_range_deleter += slice.bytes;
  *more = !slice.done;
  int64_t batch = sh->parameters.range_deleter_batch_size; // 0: no limit
  if (slice.done || !batch || x->in_batch < batch) return true;
  x->in_batch = 0;
  return op_sleep(op, sh->parameters.range_deleter_batch_delay_ms, err);
}

static bool delete_documents(struct operation *op, struct shard *sh, struct range_deletion_doc *t,
                             const struct range *r, uint32_t file, struct error *err) {
  struct deleting x = {.sh = sh, .task = t, .range = r, .file = file};
  return op_in_batches(op, delete_step, &x, err);
}

// The last entry: files that held nothing else are forgotten, and the task with them.
static bool finish(struct operation *op, struct shard *sh, const struct range_deletion_doc *t,
                   const struct file_plan *plans, size_t n, struct error *err) {
  struct write *w = write_begin(op, sh->node.repl);
  if (!lock_namespace(op, w, t->ns, true, err)) return false; // files go: a change of the catalog
  struct collection *c = store_collection_by_uuid(sh->node.store, t->collection);
  write_atomic(w);
  for (size_t i = 0; c && i < n; i++) {
    const struct range_file *f = plans[i].unlink ? collection_file(c, plans[i].file) : NULL;
    if (!f) continue;
    sh->counters.docs_deleted_by_range_deleter += f->count;
    sh->counters.bytes_deleted_by_range_deleter += f->bytes;
    change_unfile(write_changes(w), t->collection, f->id);
  }
  bson_value_t id = uuid_value(t->id);
  return local_delete(&sh->node, w, RANGE_DELETIONS_NS, &id, err) && write_commit(op, w, err);
}

static bool delete_files(struct operation *op, struct shard *sh, struct range_deletion_doc *t, struct collection *c,
                         struct error *err) {
  struct range r = {.min = bound_key(op->arena, t->min),
                    .max = bound_key(op->arena, t->max),
                    .from_start = bound_is_all(t->min, BSON_TYPE_MINKEY),
                    .to_end = bound_is_all(t->max, BSON_TYPE_MAXKEY)};
  struct file_plan *plans;
  size_t n = plan_files(op->arena, c, &r, &plans);
  for (size_t i = 0; i < n; i++)
    if (!plans[i].unlink && !delete_documents(op, sh, t, &r, plans[i].file, err)) return false;
  return finish(op, sh, t, plans, n, err);
}

bool range_deletion_work(struct operation *op, struct shard *sh, struct range_deletion_doc *t, struct error *err) {
  const char *range = range_text(op->arena, t->min, t->max);
  struct collection *c = store_collection_by_uuid(sh->node.store, t->collection);
  if (!c) {
    log_info("RANGEDEL", "The collection of an orphaned range is gone", "namespace:s range:s", t->ns, range);
    return finish(op, sh, t, NULL, 0, err);
  }
  log_info("RANGEDEL", "Beginning deletion of any documents in orphan range", "namespace:s range:s", t->ns, range);
  t->processing = true;
  if (!local_put_now(op, &sh->node, RANGE_DELETIONS_NS, range_deletion_doc_make(op->arena, t), err)) return false;
  // Others ran. The files of now stay until the end: files that overlap the range of a task are not merged.
  c = store_collection_by_uuid(sh->node.store, t->collection);
  if (c) collection_ref(c);
  bool ok = !c || delete_files(op, sh, t, c, err);
  if (ok && (!c || c->dropped)) ok = finish(op, sh, t, NULL, 0, err);
  if (c) collection_unref(c);
  if (ok) log_info("RANGEDEL", "Completed deletion of documents in orphan range", "namespace:s range:s", t->ns, range);
  return ok;
}
