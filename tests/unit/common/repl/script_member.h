// A member of a set of one on a disk that is watched: it proposes the entries of a script (store/script.h), several in
// flight, while it commits, checkpoints and takes snapshots at random times. And what it must hold after each of them.
//
// Each entry also puts its number into db.progress, so that a member can say how far it got.
#ifndef SHARDLET_TEST_SCRIPT_MEMBER_H
#define SHARDLET_TEST_SCRIPT_MEMBER_H

#include <sys/wait.h>

#include "common/repl/repl_internal.h"
#include "common/repl/write.h"
#include "tests/unit/common/repl/faulty_disk.h"
#include "tests/unit/common/store/script.h"

enum { SCRIPT_ENTRIES = 150, IN_FLIGHT = 6, PROGRESS_FILE = 90 };

static const uint8_t progress_uuid[16] = {0x99};

struct script_model {
  struct script *script;
  struct buf dumps[SCRIPT_ENTRIES + 1]; // after so many entries
};

struct member_run { // of a process
  const char *dir;
  const struct script_model *model;
  uint64_t acknowledged; // must be there
  uint64_t until;        // entry to end with; 0 = only looks
  uint64_t seed;
  struct loop *loop;
  struct store *store;
  struct repl *repl;
  struct cluster_clock clock;
  uint64_t started, done, in_flight;
  struct event changed;
};

// --- the model ---

// Entry i as it is proposed; `to` is empty.
static void script_changes(const struct script *script, uint64_t i, struct change_list *to) {
  bson_t changes, doc = BSON_INITIALIZER, nothing = BSON_INITIALIZER;
  struct collection progress = {0};
  memcpy(progress.uuid, progress_uuid, 16);
  if (!doc_doc(script->entries[i - 1], "c", &changes)) abort();
  (void)bson_concat(&to->changes, &changes);
  to->n += bson_count_keys(&changes);
  if (i == 1) change_create(to, progress_uuid, "db.progress", &nothing, PROGRESS_FILE, &nothing, &nothing);
  BSON_APPEND_INT32(&doc, "_id", 1);
  BSON_APPEND_INT64(&doc, "n", (int64_t)i);
  change_put(to, &progress, PROGRESS_FILE, 1, &doc);
  bson_destroy(&doc);
}

static void model_make(struct script_model *m, uint64_t seed, const char *dir) {
  m->script = script_new(seed, SCRIPT_ENTRIES);
  struct store *s = open_at(dir);
  struct change_list *list = arena_alloc(m->script->a, sizeof *list);
  changes_init(list);
  m->dumps[0] = dump(s);
  for (uint64_t i = 1; i <= SCRIPT_ENTRIES; i++) {
    script_changes(m->script, i, list);
    store_apply(s, i, changes_finish(list, i << 32, 1700000000000));
    changes_clear(list);
    m->dumps[i] = dump(s);
  }
  changes_cleanup(list);
  store_close(s);
}

static void model_free(struct script_model *m) {
  for (size_t i = 0; i <= SCRIPT_ENTRIES; i++) buf_free(&m->dumps[i]);
  script_free(m->script);
}

// --- a member's process; what is wrong ends it with 1 ---

static void member_fails(const char *what, const struct error *err) {
  (void)fprintf(stderr, "%s: %s\n", what, err ? err->message : "");
  _exit(1);
}

static uint64_t member_progress(struct member_run *m, struct arena *a) {
  struct collection *c = store_collection_by_uuid(m->store, progress_uuid);
  bson_value_t id = value_int32(1);
  uint32_t file;
  int64_t rid;
  const bson_t *doc;
  return c && store_find_id(c, a, &id, &file, &rid, &doc) ? (uint64_t)doc_i64(doc, "n", 0) : 0;
}

static uint64_t member_check(struct operation *op, struct member_run *m) {
  uint64_t n = member_progress(m, op->arena);
  if (n < m->acknowledged) {
    (void)fprintf(stderr, "entry %lu was acknowledged, the member has %lu\n", m->acknowledged, n);
    _exit(1);
  }
  struct buf got = dump(m->store);
  if (!same_dump(&m->model->dumps[n], &got)) member_fails("not what the script says", NULL);
  buf_free(&got);
  return n;
}

static void member_open(struct operation *op, struct member_run *m) {
  struct error err = {0};
  m->store = store_open(&(struct store_options){.dbpath = m->dir, .role = "shardd", .max_open_files = 4}, &err);
  if (!m->store) member_fails("the store", &err);
  m->store->limits = (struct db_limits){
      .commit_dirty = 64 << 10, .checkpoint_wal = 100 << 10, .wal = 400 << 10, .checkpoint_again = 100 << 10};
  struct repl_options o = {.set_name = "rs0",
                           .dbpath = m->dir,
                           .role = "shardd",
                           .store = m->store,
                           .clock = &m->clock,
                           .self = "127.0.0.1:27018"};
  m->repl = repl_start(op, op->loop, &o, NULL, &err);
  if (!m->repl) member_fails("the log", &err);
  if (!repl_config(m->repl) && !repl_initiate(op, m->repl, NULL, &err)) member_fails("initiate", &err);
  op_deadline_in(op, 60000, ERR_MaxTimeMSExpired);
  if (!repl_wait_primary(op, m->repl, &err)) member_fails("not primary", &err);
  op->deadline_ms = OPERATION_NO_DEADLINE;
}

static void member_propose(struct operation *op, void *arg) {
  struct member_run *m = arg;
  struct error err = {0};
  uint64_t i = ++m->started;
  struct write *w = write_begin(op, m->repl);
  script_changes(m->model->script, i, write_changes(w));
  if (!write_commit(op, w, &err)) member_fails("a write", &err);
  disk_mark(i);
  m->done = i;
  m->in_flight--;
  event_signal(&m->changed);
}

static void member_maintains(struct operation *op, void *arg) {
  struct member_run *m = arg;
  struct script random = {.random = m->seed};
  while (op_sleep(op, 1 + pick(&random, 4), NULL)) {
    if (pick(&random, 3) == 0) store_commit_all(m->store);
    store_tick(op, m->store);
    if (pick(&random, 6) == 0) (void)pacing_snapshot(op, m->repl);
  }
}

static void member_main(struct operation *op, void *arg) {
  struct member_run *m = arg;
  member_open(op, m);
  m->started = m->done = member_check(op, m);
  if (!m->until) _exit(0);
  (void)operation_start(op->loop, "maintenance", member_maintains, m);
  while (m->started + m->in_flight < m->until || m->in_flight) {
    if (m->in_flight < IN_FLIGHT && m->started + m->in_flight < m->until) {
      m->in_flight++;
      (void)operation_start(op->loop, "entry", member_propose, m);
      if (m->started % 4 == 0) (void)op_sleep(op, 1, NULL);
    } else {
      (void)event_wait(op, &m->changed, NULL);
    }
  }
  _exit(0);
}

// Runs it in a process of its own (which has a thread pool, and the SQLite that this one never used for it) and returns
// how that ended, as waitpid() says. d: NULL = a disk that nobody watches; output: for what it says, -1 = as this one.
static int member_process(struct member_run *m, struct disk *d, int output) {
  pid_t pid = fork();
  if (pid == 0) {
    if (output >= 0 && (dup2(output, STDOUT_FILENO) < 0 || dup2(output, STDERR_FILENO) < 0)) _exit(3);
    disk = d;
    m->loop = loop_new();
    (void)operation_start(m->loop, "member", member_main, m);
    loop_run(m->loop);
    _exit(2);
  }
  int status = -1;
  (void)waitpid(pid, &status, 0);
  return status;
}

#endif
