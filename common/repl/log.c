// The loop's side of the replicated log: the queue to the disk, the entries in memory, their sizes.
#include "common/repl/log.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/log.h"

enum {
  CACHE_BYTES = 2 << 20, // of applied entries kept, for members that are a little behind
  BATCH_BYTES = 8 << 20, // of one transaction: what a commit can be made to wait for
  BATCH_OPS = 1024,
  SIZE_STEP = 64, // entries a size mark, at most
  SIZE_STEP_BYTES = 1 << 20,
};

enum job_kind { JOB_WRITE, JOB_CUT, JOB_CHECKPOINT };

struct size_mark { // bytes before the entry at `index`, counted from an arbitrary point
  uint64_t index, before;
};

struct raft_log {
  struct loop *loop;
  struct log_file *file;
  struct raft_log_events events;

  uint64_t first, last, durable;
  struct entry **ring; // entries base..last, at index modulo cap (a power of two)
  size_t cap;
  uint64_t base;
  size_t ring_bytes;
  uint64_t total; // bytes counted so far
  struct size_mark *marks;
  size_t n_marks, cap_marks;

  struct log_op **queue; // not given to a job yet
  size_t n_queue, cap_queue;
  uv_work_t work;
  bool busy, corked;
  enum job_kind kind, last_kind;
  struct log_op **batch; // of the running job
  size_t n_batch;
  uint64_t cut_below; // 0 = nothing to remove
  bool cut_more;
  struct fiber *closer; // waits in raft_log_close()
};

static size_t slot(const struct raft_log *log, uint64_t index) {
  return (size_t)(index & (log->cap - 1));
}

// --- sizes ---

static void count(struct raft_log *log, uint64_t index, uint32_t bytes) {
  const struct size_mark *latest = log->n_marks ? &log->marks[log->n_marks - 1] : NULL;
  if (!latest || index - latest->index >= SIZE_STEP || log->total - latest->before >= SIZE_STEP_BYTES) {
    log->marks = array_grow(log->marks, &log->cap_marks, log->n_marks + 1, sizeof *log->marks);
    log->marks[log->n_marks++] = (struct size_mark){index, log->total};
  }
  log->total += bytes;
}

uint64_t raft_log_bytes_after(const struct raft_log *log, uint64_t index) {
  uint64_t before = log->total;
  for (size_t i = log->n_marks; i-- > 0 && log->marks[i].index > index;) before = log->marks[i].before;
  return log->total - before;
}

uint64_t raft_log_tail(const struct raft_log *log, uint64_t bytes) {
  uint64_t index = log->last;
  for (size_t i = log->n_marks; i-- > 0 && log->total - log->marks[i].before <= bytes;) index = log->marks[i].index - 1;
  return index + 1 < log->first ? log->first - 1 : index;
}

static void marks_cut(struct raft_log *log, uint64_t first) {
  size_t gone = 0;
  while (gone + 1 < log->n_marks && log->marks[gone + 1].index <= first) gone++;
  if (!gone) return;
  log->n_marks -= gone;
  memmove(log->marks, log->marks + gone, log->n_marks * sizeof *log->marks);
}

// --- entries in memory ---

static void ring_reserve(struct raft_log *log, size_t n) {
  if (n <= log->cap) return;
  size_t cap = log->cap ? log->cap : 64;
  while (cap < n) cap *= 2;
  size_t zero = 0;
  struct entry **ring = array_grow(NULL, &zero, cap, sizeof(struct entry *));
  for (uint64_t i = log->base; i <= log->last; i++) ring[i & (cap - 1)] = log->ring[slot(log, i)];
  free(log->ring);
  log->ring = ring;
  log->cap = cap;
}

// Forgets `from` and what follows. After a restart that may be more than is in memory.
static void ring_truncate(struct raft_log *log, uint64_t from) {
  for (; log->last >= from && log->last >= log->base; log->last--) {
    struct entry *e = log->ring[slot(log, log->last)];
    log->total -= e->len;
    log->ring_bytes -= e->len;
    entry_unref(e);
  }
  if (log->last >= from) {
    log->last = from - 1;
    log->base = from;
  }
  for (; log->n_marks && log->marks[log->n_marks - 1].index >= from; log->n_marks--)
    if (log->total > log->marks[log->n_marks - 1].before) log->total = log->marks[log->n_marks - 1].before;
}

static void ring_add(struct raft_log *log, struct entry *e) {
  ring_reserve(log, (size_t)(log->last + 2 - log->base));
  log->last++;
  count(log, log->last, e->len);
  log->ring[slot(log, log->last)] = entry_ref(e);
  log->ring_bytes += e->len;
}

static void ring_drop_first(struct raft_log *log) {
  struct entry *e = log->ring[slot(log, log->base++)];
  log->ring_bytes -= e->len;
  entry_unref(e);
}

struct entry *raft_log_get(const struct raft_log *log, uint64_t index) {
  return index >= log->base && index <= log->last ? log->ring[slot(log, index)] : NULL;
}

void raft_log_release(struct raft_log *log, uint64_t applied) {
  while (log->ring_bytes > CACHE_BYTES && log->base <= applied && log->base <= log->durable && log->base <= log->last)
    ring_drop_first(log);
}

// --- the queue to the disk ---

static void op_free(struct log_op *o) {
  for (size_t i = 0; i < o->n; i++) entry_unref(o->entries[i]);
  free(o->entries);
  entry_unref(o->mark.configuration);
  free(o->name);
  bson_destroy(o->doc);
  free(o);
}

static void run_job(uv_work_t *work) {
  struct raft_log *log = work->data;
  switch (log->kind) {
  case JOB_WRITE: log_file_write(log->file, log->batch, log->n_batch); return;
  case JOB_CUT: log->cut_more = log_file_cut(log->file, log->cut_below); return;
  case JOB_CHECKPOINT: log_file_checkpoint(log->file); return;
  }
}

static size_t op_bytes(const struct log_op *o) {
  size_t bytes = 0;
  for (size_t i = 0; i < o->n; i++) bytes += o->entries[i]->len;
  return bytes;
}

// A batch ends with a snapshot that is installed: what comes after it belongs to another log.
static void take_batch(struct raft_log *log) {
  size_t n = 0, bytes = 0;
  bool last = false;
  while (n < log->n_queue && n < BATCH_OPS && bytes < BATCH_BYTES && !last) {
    last = log->queue[n]->kind == LOG_PUT_SNAPSHOT;
    bytes += op_bytes(log->queue[n++]);
  }
  size_t cap = 0;
  log->batch = array_grow(NULL, &cap, n, sizeof(struct log_op *));
  memcpy(log->batch, log->queue, n * sizeof(struct log_op *));
  log->n_batch = n;
  log->n_queue -= n;
  memmove(log->queue, log->queue + n, log->n_queue * sizeof(struct log_op *));
}

static void job_done(uv_work_t *work, int status);

// Starts the next job, if none runs. After a write comes what keeps the files small, so that a steady stream of writes
// cannot keep it waiting.
static void kick(struct raft_log *log) {
  if (log->busy) return;
  bool wrote = log->last_kind == JOB_WRITE;
  if (log_file_checkpoint_due(log->file)) {
    log->kind = JOB_CHECKPOINT;
  } else if (log->cut_below && (wrote || !log->n_queue)) {
    log->kind = JOB_CUT;
  } else if (log->n_queue && log->corked) {
    return;
  } else if (log->n_queue) {
    log->kind = JOB_WRITE;
    take_batch(log);
  } else {
    if (log->closer) fiber_ready(log->closer);
    return;
  }
  log->busy = true;
  (void)uv_queue_work(loop_uv(log->loop), &log->work, run_job, job_done); // fails only without a job
}

static void finish_batch(struct raft_log *log, struct log_op **batch, size_t n) {
  size_t votes = 0, appends = 0;
  bool installed = false;
  for (size_t i = 0; i < n; i++) {
    const struct log_op *o = batch[i];
    votes += o->kind == LOG_PUT_VOTE;
    appends += o->kind == LOG_PUT_ENTRIES;
    installed = installed || o->kind == LOG_PUT_SNAPSHOT;
    if (o->kind == LOG_PUT_ENTRIES) log->durable = o->first + o->n - 1;
    if (o->kind == LOG_PUT_SNAPSHOT) log->durable = o->mark.index;
  }
  if (votes || appends || installed) log->events.durable(log->events.ctx, votes, appends, installed);
  for (size_t i = 0; i < n; i++) {
    if (batch[i]->done) batch[i]->done(batch[i]->ctx);
    op_free(batch[i]);
  }
  free(batch);
}

static void job_done(uv_work_t *work, int status) {
  struct raft_log *log = work->data;
  struct log_op **batch = log->batch;
  size_t n = log->n_batch;
  log->batch = NULL;
  log->n_batch = 0;
  log->last_kind = log->kind;
  log->busy = false;
  if (log->kind == JOB_CUT && !log->cut_more) log->cut_below = 0;
  if (log->n_queue) kick(log); // the disk goes on while the batch's results are worked on
  if (batch) finish_batch(log, batch, n);
  kick(log);
}

static void put(struct raft_log *log, const struct log_op *o) {
  size_t cap = 0;
  struct log_op *copy = array_grow(NULL, &cap, 1, sizeof *copy);
  *copy = *o;
  log->queue = array_grow(log->queue, &log->cap_queue, log->n_queue + 1, sizeof(struct log_op *));
  log->queue[log->n_queue++] = copy;
  kick(log);
}

void raft_log_vote(struct raft_log *log, uint64_t term, uint64_t voted_for) {
  put(log, &(struct log_op){.kind = LOG_PUT_VOTE, .term = term, .voted_for = voted_for});
}

void raft_log_append(struct raft_log *log, uint64_t first, struct entry *const *entries, size_t n) {
  struct log_op o = {.kind = LOG_PUT_ENTRIES, .first = first, .n = n};
  size_t cap = 0;
  o.entries = array_grow(NULL, &cap, n, sizeof(struct entry *));
  ring_truncate(log, first);
  for (size_t i = 0; i < n; i++) {
    o.entries[i] = entry_ref(entries[i]);
    ring_add(log, entries[i]);
  }
  put(log, &o);
}

static struct snapshot_mark mark_ref(const struct snapshot_mark *mark) {
  struct snapshot_mark m = *mark;
  m.configuration = entry_ref(mark->configuration);
  return m;
}

void raft_log_install(struct raft_log *log, const struct snapshot_mark *mark, const char *note, const bson_t *doc) {
  while (log->base <= log->last) ring_drop_first(log);
  log->n_marks = 0;
  log->first = log->base = mark->index + 1;
  log->last = mark->index;
  log->cut_below = 0;
  char *name = note ? strdup(note) : NULL;
  if (note && !name) log_fatal("REPL", "Out of memory for the replication log", NULL);
  put(log, &(struct log_op){
               .kind = LOG_PUT_SNAPSHOT, .mark = mark_ref(mark), .name = name, .doc = note ? bson_copy(doc) : NULL});
}

void raft_log_mark(struct raft_log *log, const struct snapshot_mark *mark, uint64_t first) {
  while (log->base < first && log->base <= log->last) ring_drop_first(log);
  if (first > log->first) {
    log->first = log->cut_below = first;
    marks_cut(log, first);
  }
  put(log, &(struct log_op){.kind = LOG_PUT_MARK, .mark = mark_ref(mark)});
}

void raft_log_note(struct raft_log *log, const char *name, const bson_t *doc, void (*done)(void *ctx), void *ctx) {
  char *copy = strdup(name);
  if (!copy) log_fatal("REPL", "Out of memory for the replication log", NULL);
  put(log, &(struct log_op){.kind = LOG_PUT_NOTE, .name = copy, .doc = bson_copy(doc), .done = done, .ctx = ctx});
}

void raft_log_cork(struct raft_log *log, bool corked) {
  log->corked = corked;
  if (!corked) kick(log);
}

struct sync {
  struct fiber *fiber;
  bool done;
};

static void sync_done(void *ctx) {
  struct sync *s = ctx;
  s->done = true;
  fiber_ready(s->fiber);
}

void raft_log_sync(struct operation *op, struct raft_log *log) {
  struct sync s = {.fiber = op->fiber};
  put(log, &(struct log_op){.kind = LOG_PUT_NOTHING, .done = sync_done, .ctx = &s});
  while (!s.done) fiber_park(op->loop);
}

// --- life ---

struct raft_log *raft_log_new(struct loop *l, struct log_file *f, const struct log_found *found,
                              const struct raft_log_events *events) {
  size_t cap = 0;
  struct raft_log *log = array_grow(NULL, &cap, 1, sizeof *log);
  *log = (struct raft_log){
      .loop = l, .file = f, .events = *events, .first = found->state.first, .last_kind = JOB_CHECKPOINT};
  log->work.data = log;
  for (size_t i = 0; i < found->state.n; i++) count(log, log->first + i, found->lengths[i]);
  log->last = log->durable = log->first + found->state.n - 1;
  log->base = log->last + 1;
  return log;
}

static void close_file(void *arg) {
  log_file_close(arg);
}

void raft_log_close(struct operation *op, struct raft_log *log) {
  log->closer = op->fiber;
  while (log->busy || log->n_queue) fiber_park(op->loop); // also when it is killed: what was put gets to the disk
  op_run_in_pool(op, close_file, log->file);
  while (log->base <= log->last) ring_drop_first(log);
  free(log->ring);
  free(log->marks);
  free(log->queue);
  free(log);
}

struct read_job {
  struct log_file *file;
  uint64_t from;
  size_t max, max_bytes, n;
  struct entry **out;
};

static void read_entries(void *arg) {
  struct read_job *j = arg;
  j->n = log_file_read(j->file, j->from, j->max, j->max_bytes, j->out);
}

size_t raft_log_read(struct operation *op, struct raft_log *log, uint64_t from, size_t max, size_t max_bytes,
                     struct entry **out) {
  struct read_job j = {.file = log->file, .from = from, .max = max, .max_bytes = max_bytes, .out = out};
  op_run_in_pool(op, read_entries, &j);
  return j.n;
}

uint64_t raft_log_first(const struct raft_log *log) {
  return log->first;
}

uint64_t raft_log_last(const struct raft_log *log) {
  return log->last;
}

uint64_t raft_log_durable(const struct raft_log *log) {
  return log->durable;
}
