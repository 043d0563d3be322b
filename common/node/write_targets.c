// Finds the documents that update, delete and findAndModify change.
//
// A row is acted on in the step in which it was read. After a wait it is read again by its place, and must still match.
#include "common/node/write_batch.h"

#include <string.h>

#include "common/base/map.h"
#include "common/node/executor.h"
#include "common/node/internal.h"

// After others ran: the collection as it is now, with the indexes and files that it has now. false: it is gone.
static bool look_again(struct batch *b, const struct executor *e, struct collection **c, struct error *err) {
  if (!executor_alive(e, err)) return false;
  *c = store_collection_by_uuid(b->n->store, executor_collection(e)->uuid);
  return *c || error_set(err, ERR_QueryPlanKilled, "collection %s was dropped", b->ns);
}

static bool pause_scan(struct batch *b, struct executor *e, struct collection **c, struct error *err) {
  executor_save(e);
  return batch_pause(b, err) && look_again(b, e, c, err);
}

static bool open_targets(struct batch *b, struct collection *c, const struct query *q, struct executor **e, bool *sorts,
                         struct error *err) {
  struct plan *p = arena_alloc(b->plans, sizeof *p);
  if (!plan_choose(b->plans, c, q, b->access, p, err)) return false;
  // Sorting would lose where the rows are: the first one is looked for here.
  *sorts = p->needs_sort;
  p->needs_sort = false;
  *e = executor_open(b->plans, b->n, c, q, p, b->access, err);
  return *e != NULL;
}

// Reads a row again after others ran. false: it is gone, does not match any more or is not this shard's.
// invariant: what is written names the file that the document is in now. Files are merged only while nobody has the
// namespace's lock, so only over a wait.
static bool reread(struct batch *b, const struct executor *e, struct collection *c, const struct query *q,
                   struct exec_row *row) {
  row->file = collection_file_now(executor_collection(e), row->file);
  return store_find_rid(c, b->scratch, row->file, row->rid, &row->doc) && match_doc(q->match, row->doc) &&
         access_owns(b->access, b->scratch, row->doc);
}

// The least row by the query's sort, after the whole scan.
static enum step least_row(struct batch *b, struct collection **c, const struct query *q, struct executor *e,
                           struct exec_row *row, bool *found, struct error *err) {
  struct buf best __attribute__((cleanup(buf_cleanup))) = {0}, key __attribute__((cleanup(buf_cleanup))) = {0};
  struct exec_row at;
  for (;;) {
    enum exec_status status = executor_next(e, b->op, &at, err);
    if (status == EXEC_ERROR) return STEP_FAILED;
    if (status == EXEC_END) break;
    if (status == EXEC_PAUSE) {
      if (!pause_scan(b, e, c, err)) return STEP_FAILED;
      continue;
    }
    buf_clear(&key);
    sort_key_append(q->sort, at.doc, &key);
    struct key now = {key.data, key.len}, least = {best.data, best.len};
    if (*found && key_compare(now, least) >= 0) continue;
    buf_clear(&best);
    buf_add(&best, key.data, key.len);
    *row = (struct exec_row){.file = at.file, .rid = at.rid};
    *found = true;
  }
  executor_save(e);
  return !*found || reread(b, e, *c, q, row) ? STEP_DONE : STEP_WAIT;
}

enum step target_first(struct batch *b, struct collection **c, const struct query *q, struct exec_row *row, bool *found,
                       struct error *err) {
  struct executor *e;
  bool sorts;
  *found = false;
  if (!open_targets(b, *c, q, &e, &sorts, err)) return STEP_FAILED;
  if (sorts) return least_row(b, c, q, e, row, found, err);
  for (;;) {
    switch (executor_next(e, b->op, row, err)) {
    case EXEC_ROW: *found = true; return STEP_DONE;
    case EXEC_END: return STEP_DONE;
    case EXEC_ERROR: return STEP_FAILED;
    case EXEC_PAUSE:
      if (!pause_scan(b, e, c, err)) return STEP_FAILED;
    }
  }
}

// Acts on one row, waiting for its locks here, so that a long scan need not begin again.
static enum step act_with_waits(struct batch *b, struct collection **c, const struct query *q, struct executor *e,
                                struct exec_row *row, act_on act, void *ctx, struct error *err) {
  enum step step;
  while ((step = act(b, ctx, *c, row, err)) == STEP_WAIT) {
    executor_save(e);
    if (!batch_wait(b, err) || !look_again(b, e, c, err)) return STEP_FAILED;
    if (!reread(b, e, *c, q, row)) return STEP_DONE;
  }
  return step;
}

enum step target_each(struct batch *b, struct collection *c, const struct query *q, struct map *done, act_on act,
                      void *ctx, struct error *err) {
  struct executor *e;
  bool sorts;
  if (!open_targets(b, c, q, &e, &sorts, err)) return STEP_FAILED;
  for (;;) {
    struct exec_row row;
    enum exec_status status = executor_next(e, b->op, &row, err);
    if (status == EXEC_END) return STEP_DONE;
    if (status == EXEC_ERROR || (status == EXEC_PAUSE && !pause_scan(b, e, &c, err))) return STEP_FAILED;
    if (status == EXEC_PAUSE) continue;
    int64_t rid = row.rid; // the document's name: its file may be merged into another one before the statement ends
    if (map_get(done, &rid, sizeof rid)) continue;
    enum step step = act_with_waits(b, &c, q, e, &row, act, ctx, err);
    if (step != STEP_DONE) return step;
    map_put(done, &rid, sizeof rid, done);
    arena_reset(b->scratch);
  }
}
