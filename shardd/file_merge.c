// See file_merge.h.
#include "shardd/file_merge.h"

#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/bson/doc.h"
#include "common/store/scan.h"
#include "shardd/failpoint.h"
#include "shardd/migrations.h"
#include "shardd/range_deleter.h"

enum {
  BATCH_BYTES = 64 * 1024, // of one entry: about a millisecond of applying, on every member
  BATCH_DOCUMENTS = 200,
  PAUSE_MIN_MS = 3, // after each entry: clients go first
  PAUSE_MAX_MS = 100,
  QUIET_MS = 200,      // between looks whether a migration is over
  REST_DOCUMENTS = 50, // copied while writes wait
  REST_BYTES = 64 * 1024,
  MAX_SWITCHES = 100, // tries, each after catching up
};

static bool give_up(struct error *err, const char *why) {
  return error_set(err, ERR_ConflictingOperationInProgress, "%s", why);
}

// --- what may be merged ---

bool file_merge_possible(const struct shard *sh, const struct collection *c) {
  if (c->internal || c->dropped || bson_empty(c->shard_key)) return false;
  for (size_t i = 0; i < c->n_indexes; i++)
    if (!c->indexes[i]->ready) return false;
  return !migrations_running(sh->migrations, c->ns);
}

bool file_merge_excluded(const struct shard *sh, const struct collection *c, uint32_t file) {
  static const struct key above_all = {.data = (const uint8_t *)"\xff", .len = 1}; // no encoding begins with FF
  for (size_t i = 0; i < c->n_intervals; i++) {
    if (c->intervals[i].file != file) continue;
    struct key max = i + 1 < c->n_intervals ? c->intervals[i + 1].min : above_all;
    if (range_deleter_overlaps(sh->deleter, c->uuid, c->intervals[i].min, max, NULL)) return true;
  }
  return false;
}

static bool wait_quiet(struct operation *op, const struct file_merge *m, struct error *err) {
  while (migrations_running(m->sh->migrations, m->ns))
    if (!op_sleep(op, QUIET_MS, err)) return false;
  return op_check(op, err);
}

static bool lock(struct operation *op, struct file_merge *m, struct write *w, bool exclusive, struct error *err) {
  while (!write_lock_namespace(w, m->ns, exclusive))
    if (!write_wait(op, w, err)) return false;
  return true;
}

// The collection under the namespace's lock. NULL: err, it is not what was to be merged any more.
static struct collection *collection_of(const struct file_merge *m, struct error *err) {
  struct collection *c = store_collection_by_uuid(m->sh->node.store, m->collection);
  const char *why = !c || strcmp(c->ns, m->ns) != 0 ? "the collection was dropped or renamed" : NULL;
  for (size_t i = 0; !why && i < m->run.n; i++) {
    const struct range_file *f = collection_file(c, m->run.files[i]);
    if (!f || f->state != FILE_ACTIVE) why = "one of the files is gone";
  }
  const struct range_file *target = !why && m->target ? collection_file(c, m->target) : NULL;
  if (!why && m->target && (!target || target->state != FILE_STAGED)) why = "the staged file is gone";
  if (!why) return c;
  give_up(err, why);
  return NULL;
}

static bool none_excluded(const struct file_merge *m, const struct collection *c, struct error *err) {
  for (size_t i = 0; i < m->run.n; i++)
    if (file_merge_excluded(m->sh, c, m->run.files[i])) return give_up(err, "a part of the files moves or has moved");
  return true;
}

// --- 1: the staged file ---

static void remember_definitions(struct file_merge *m, const struct collection *c) {
  m->shard_key = arena_bson_copy(m->arena, bson_get_data(c->shard_key), c->shard_key->len);
  m->n_indexes = c->n_indexes;
  m->indexes = arena_alloc(m->arena, c->n_indexes * sizeof *m->indexes);
  for (size_t i = 0; i < c->n_indexes; i++) m->indexes[i] = c->indexes[i]->id;
}

static bool same_definitions(const struct file_merge *m, const struct collection *c) {
  if (m->n_indexes != c->n_indexes || !doc_equal_bytes(m->shard_key, c->shard_key)) return false;
  for (size_t i = 0; i < c->n_indexes; i++)
    if (m->indexes[i] != c->indexes[i]->id || !c->indexes[i]->ready) return false;
  return true;
}

static bool stage(struct operation *op, struct file_merge *m, struct error *err) {
  struct write *w = write_begin(op, m->sh->node.repl);
  if (!lock(op, m, w, false, err)) return false; // keeps DDL away; writers are not concerned
  const struct collection *c = collection_of(m, err);
  if (!c || !none_excluded(m, c, err)) return false;
  if (!file_merge_possible(m->sh, c)) return give_up(err, "an index is being built, or a range is moving");
  remember_definitions(m, c);
  m->target = store_next_file_id(m->sh->node.store);
  change_file(write_changes(w), c->uuid, m->target, (struct key){0}, (struct key){0});
  return write_commit(op, w, err);
}

// --- 2: the copy ---

static void open_scan(struct file_merge *m, struct collection *c) {
  m->scan = scan_open(m->arena, c, &(struct scan_spec){.only_file = m->run.files[m->at]});
}

// One document. In the step in which it is read its place is noted, so that what changes it from here on is, too.
static bool copy_next(struct file_merge *m, struct collection *c, struct write *w, size_t *bytes, struct error *err) {
  struct scan_row row;
  if (!m->scan) open_scan(m, c);
  if (!scan_next(m->scan, &row, err)) {
    if (err->code) return false;
    scan_close(m->scan);
    m->scan = NULL;
    file_changes_copied(m->changes, ++m->at, 0);
    return true;
  }
  file_changes_copied(m->changes, m->at, row.rid);
  const bson_t *doc = scan_document(m->scan, &row);
  if (!doc) return true;
  change_copy(write_changes(w), c, m->target, row.rid, doc);
  *bytes += doc->len;
  m->documents++;
  m->bytes += doc->len;
  return true;
}

// The lock keeps DDL away until what was read is applied.
static struct collection *begin_batch(struct operation *op, struct file_merge *m, struct write **w, struct error *err) {
  *w = write_begin(op, m->sh->node.repl);
  if (!wait_quiet(op, m, err) || !write_admit(op, m->sh->node.repl, err) || !lock(op, m, *w, false, err)) return NULL;
  m->batch_began_ms = clock_mono_ms();
  return collection_of(m, err);
}

// As long as the batch took, clients have the disk and the other members for themselves.
static bool end_batch(struct operation *op, const struct file_merge *m, struct write *w, struct error *err) {
  if (!write_commit(op, w, err)) return false;
  int64_t took = clock_mono_ms() - m->batch_began_ms;
  return op_sleep(op, took < PAUSE_MIN_MS ? PAUSE_MIN_MS : took > PAUSE_MAX_MS ? PAUSE_MAX_MS : took, err);
}

static bool copy_step(struct operation *op, void *ctx, bool *more, struct error *err) {
  struct file_merge *m = ctx;
  struct write *w;
  struct collection *c = begin_batch(op, m, &w, err);
  if (!c) return false;
  size_t bytes = 0;
  do {
    if (!copy_next(m, c, w, &bytes, err)) return false;
    *more = m->at < m->run.n;
  } while (*more && bytes < BATCH_BYTES && !op_yield_due(op));
  if (m->scan) scan_save(m->scan);
  if (m->bytes > 2 * m->run.bytes + BATCH_BYTES) return give_up(err, "the files grow while they are copied");
  return end_batch(op, m, w, err);
}

// --- 3: what was changed meanwhile ---

static bool catch_up_step(struct operation *op, void *ctx, bool *more, struct error *err) {
  struct file_merge *m = ctx;
  struct write *w;
  struct changed_document d;
  const bson_t *doc;
  *more = file_changes_count(m->changes) > m->few;
  if (!*more) return true;
  struct collection *c = begin_batch(op, m, &w, err);
  if (!c) return false;
  size_t bytes = 0, n = 0;
  while (n < BATCH_DOCUMENTS && bytes < BATCH_BYTES && !op_yield_due(op) &&
         file_changes_take(m->changes, op->arena, &d)) {
    // Read in the step that takes it: a later change is noted again, and comes later in the log.
    if (store_find_rid(c, op->arena, d.file, d.rid, &doc)) {
      change_copy(write_changes(w), c, m->target, d.rid, doc);
      bytes += doc->len;
    } else {
      change_uncopy(write_changes(w), c, m->target, d.rid, &d.id);
    }
    n++;
  }
  m->recopied += (int64_t)n;
  return write_commit(op, w, err) && op_sleep(op, PAUSE_MIN_MS, err); // no longer: it has to become less
}

// --- 4: the switch ---

struct rest_document {
  struct changed_document changed;
  const bson_t *old, *now; // in the staged file, and in its own; NULL = not there
};

struct rest {
  const struct file_merge *m;
  struct collection *c;
  struct arena *a;
  struct rest_document *list;
  size_t n, bytes;
  int64_t count_delta, bytes_delta; // what it changes in the staged file
};

static bool read_rest(void *ctx, const struct changed_document *d) {
  struct rest *r = ctx;
  struct rest_document *x = &r->list[r->n++];
  *x = (struct rest_document){.changed = *d};
  x->changed.id = value_copy(r->a, &d->id);
  if (!store_find_rid(r->c, r->a, r->m->target, d->rid, &x->old)) x->old = NULL;
  if (!store_find_rid(r->c, r->a, d->file, d->rid, &x->now)) x->now = NULL;
  r->count_delta += (x->now != NULL) - (x->old != NULL);
  r->bytes_delta += (x->now ? x->now->len : 0) - (int64_t)(x->old ? x->old->len : 0);
  r->bytes += (x->now ? x->now->len : 0) + (x->old ? x->old->len : 0);
  return r->bytes <= REST_BYTES;
}

// All old versions go first: a key of a unique index may have gone from one of these documents to another.
static void write_rest(struct write *w, const struct rest *r) {
  for (size_t i = 0; i < r->n; i++) {
    const struct rest_document *x = &r->list[i];
    if (x->old) change_uncopy(write_changes(w), r->c, r->m->target, x->changed.rid, &x->changed.id);
  }
  for (size_t i = 0; i < r->n; i++) {
    const struct rest_document *x = &r->list[i];
    if (x->now) change_copy(write_changes(w), r->c, r->m->target, x->changed.rid, x->now);
  }
}

// With the rest the staged file has the documents of the others, by count and bytes: no fault of the copy may become a
// lost document.
static bool is_exact(const struct rest *r) {
  const struct file_merge *m = r->m;
  const struct range_file *target = collection_file(r->c, m->target);
  int64_t count = target->count + r->count_delta, bytes = target->bytes + r->bytes_delta;
  for (size_t i = 0; i < m->run.n; i++) {
    const struct range_file *f = collection_file(r->c, m->run.files[i]);
    count -= f->count;
    bytes -= f->bytes;
  }
  if (count == 0 && bytes == 0) return true;
  log_error("STORAGE", "A merged range file is not what the files were; it is thrown away",
            "namespace:s documents:l bytes:l", m->ns, count, bytes);
  return false;
}

// Nothing yields from here to the proposal. *ready false: try again.
static bool write_switch(struct operation *op, struct file_merge *m, struct write *w, bool *ready, struct error *err) {
  struct rest r = {.m = m, .c = collection_of(m, err), .a = op->arena};
  *ready = false;
  if (!r.c || !none_excluded(m, r.c, err)) return false;
  if (!same_definitions(m, r.c)) return give_up(err, "the collection's indexes or its shard key changed");
  if (!file_changes_complete(m->changes)) return give_up(err, "too much was changed in the files");
  if (!collection_file_whole(r.c, m->target)) return give_up(err, "documents exchanged keys of a unique index");
  size_t n = file_changes_count(m->changes);
  if (n > REST_DOCUMENTS || migrations_running(m->sh->migrations, m->ns)) return true;
  r.list = arena_alloc(op->arena, (n + 1) * sizeof *r.list);
  file_changes_each(m->changes, read_rest, &r);
  if (r.bytes > REST_BYTES && n > 1) { // large documents: not while writes wait
    m->few = 0;
    return true;
  }
  if (!is_exact(&r)) return give_up(err, "the copy is not exact");
  write_atomic(w);
  write_rest(w, &r);
  change_merge(write_changes(w), m->collection, m->target, m->run.files, m->run.n);
  m->recopied += (int64_t)n;
  *ready = true;
  return true;
}

static bool switch_step(struct operation *op, void *ctx, bool *more, struct error *err) {
  struct file_merge *m = ctx;
  bool ready;
  *more = false;
  if (!wait_quiet(op, m, err)) return false;
  int64_t began = clock_mono_us();
  struct write *w = write_begin(op, m->sh->node.repl);
  if (!lock(op, m, w, true, err) || !write_switch(op, m, w, &ready, err)) return false;
  if (ready) m->done = write_commit(op, w, err);
  write_abandon(w);
  m->blocked_us += clock_mono_us() - began;
  return m->done || (!ready && op_sleep(op, PAUSE_MIN_MS, err));
}

// --- the whole ---

static bool steps(struct operation *op, struct file_merge *m, struct error *err) {
  if (!op_in_batches(op, copy_step, m, err) || !failpoint_hang(op, m->sh, "hangRangeFileMergeAfterCopy", err))
    return false;
  for (int n = 0; !m->done && n < MAX_SWITCHES; n++)
    if (!op_in_batches(op, catch_up_step, m, err) || !op_in_batches(op, switch_step, m, err)) return false;
  return m->done || give_up(err, "the files change faster than they are copied");
}

static bool unstage(struct operation *op, struct file_merge *m, struct error *err) {
  struct write *w = write_begin(op, m->sh->node.repl);
  const struct collection *c = store_collection_by_uuid(m->sh->node.store, m->collection);
  if (!c) return true;
  m->ns = arena_strdup(m->arena, c->ns);
  if (!lock(op, m, w, true, err)) return false;
  c = store_collection_by_uuid(m->sh->node.store, m->collection);
  const struct range_file *f = c ? collection_file(c, m->target) : NULL;
  if (f && f->state == FILE_STAGED) change_unfile(write_changes(w), m->collection, m->target);
  return write_commit(op, w, err);
}

bool file_merge_run(struct operation *op, struct file_merge *m, struct error *err) {
  m->changes = file_changes_new(m->collection, m->run.files, m->run.n);
  m->few = REST_DOCUMENTS / 2;
  bool ok = stage(op, m, err) && failpoint_hang(op, m->sh, "hangRangeFileMergeBeforeCopy", err) && steps(op, m, err);
  if (m->scan) scan_close(m->scan);
  file_changes_free(m->changes);
  m->changes = NULL;
  struct error why;
  if (!ok && m->target && op_check(op, &why) && !unstage(op, m, &why))
    log_warn("STORAGE", "A staged range file stays until the next step-up", "namespace:s error:e", m->ns, &why);
  return ok;
}
