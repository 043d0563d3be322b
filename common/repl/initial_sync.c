// The side of an initial sync that copies. See initial_sync.h.
//
// One attempt is one fiber. It ends with the member on the leader's data, or with nothing changed; then the leader's
// next snapshot message begins another one. Only when the log has been replaced it must not end before the store is
// exchanged, too: if it is killed in between, another fiber goes on.
#include "common/repl/initial_sync.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/bson/doc.h"
#include "common/repl/repl_internal.h"
#include "common/repl/transport.h"
#include "common/store/copy.h"

enum {
  BEGIN_MS = 60000, // the leader takes a snapshot
  READ_MS = 300000, // and an image of a file, before its first part
  RETRY_MS = 1000,
  PROGRESS_MS = 5000,
  SHOWN_ERROR = 200,
};

enum phase { IDLE, COPYING, INSTALLING, SWITCHING };

struct sync_file {
  const char *name;
  int64_t bytes; // as the leader said; its size once it is copied
};

struct initial_sync {
  enum phase phase;
  struct operation *op; // the fiber's, NULL = none runs
  uint64_t generation;  // that counts
  bool behind;          // a leader sent a snapshot, and nothing was applied since
  uint64_t behind_at;   // what was applied then
  uint64_t source;      // that leader
  char *host;
  int64_t retry_at;
  bool joining;         // was added to the set, and has not had all of its data yet
  uint64_t join_target; // applied up to here it has; 0 = not known yet

  // The attempt.
  struct arena *arena;
  uint64_t session;
  struct snapshot_mark mark; // owns its configuration
  struct log_position last;
  struct sync_file *files;
  size_t n_files, done_files;
  int64_t total, copied;

  // For status and log.
  unsigned failed;
  int64_t begun_ms, begun_wall, told_ms;
  char error[SHOWN_ERROR];
};

struct initial_sync *initial_sync_new(uint64_t generation, bool joining) {
  size_t cap = 0;
  struct initial_sync *s = array_grow(NULL, &cap, 1, sizeof *s);
  *s = (struct initial_sync){.generation = generation, .joining = joining};
  return s;
}

static void forget_attempt(struct initial_sync *s) {
  if (s->arena) arena_free(s->arena);
  s->arena = NULL;
  entry_unref(s->mark.configuration);
  s->mark = (struct snapshot_mark){0};
  s->files = NULL;
  s->n_files = s->done_files = 0;
  s->total = s->copied = 0;
}

void initial_sync_free(struct initial_sync *s) {
  forget_attempt(s);
  free(s->host);
  free(s);
}

// --- calls to the leader ---

static bool ask(struct operation *op, struct repl *r, bson_t *body, int64_t timeout_ms, const bson_t **reply,
                struct error *err) {
  struct remote_command cmd = {.db = "admin", .body = body, .timeout_ms = timeout_ms};
  return remote_call(op, r->remotes, r->sync->host, &cmd, reply, err);
}

static bool take_list(struct initial_sync *s, const bson_t *reply) {
  bson_iter_t field, it;
  bson_t list;
  if (!doc_doc(reply, "files", &list) || !bson_iter_init_find(&field, reply, "files") ||
      !bson_iter_recurse(&field, &it))
    return false;
  s->files = arena_alloc(s->arena, (bson_count_keys(&list) + 1) * sizeof *s->files);
  while (bson_iter_next(&it)) {
    bson_t file;
    iter_doc(&file, &it);
    struct sync_file *f = &s->files[s->n_files++];
    *f = (struct sync_file){arena_strdup(s->arena, doc_str(&file, "n", "")), doc_i64(&file, "b", 0)};
    s->total += f->bytes;
  }
  return s->n_files && !strcmp(s->files[s->n_files - 1].name, "catalog.sqlite");
}

static bool take_begin(struct initial_sync *s, const bson_t *reply, struct error *err) {
  bson_value_t members;
  bson_t last;
  bson_iter_t wall;
  struct members list;
  if (!doc_value(reply, "members", &members) || members.value_type != BSON_TYPE_BINARY ||
      !members_decode(members.value.v_binary.data, members.value.v_binary.data_len, &list))
    return error_set(err, ERR_BadValue, "the members of the snapshot cannot be read");
  members_free(&list);
  s->session = (uint64_t)doc_i64(reply, "session", 0);
  s->mark =
      (struct snapshot_mark){.index = (uint64_t)doc_i64(reply, "index", 0),
                             .term = (uint64_t)doc_i64(reply, "term", 0),
                             .configuration = entry_new(ENTRY_CHANGE, (uint64_t)doc_i64(reply, "term", 0),
                                                        members.value.v_binary.data, members.value.v_binary.data_len),
                             .configuration_index = (uint64_t)doc_i64(reply, "membersIndex", 0)};
  s->last = (struct log_position){.optime = {.index = s->mark.index}};
  if (doc_doc(reply, "last", &last)) {
    (void)doc_timestamp(&last, "ts", &s->last.optime.ts);
    s->last.optime.term = doc_i64(&last, "t", 0);
    if (bson_iter_init_find(&wall, &last, "wall") && BSON_ITER_HOLDS_DATE_TIME(&wall))
      s->last.wall_ms = bson_iter_date_time(&wall);
  }
  if (!s->mark.index || !s->mark.term || !s->mark.configuration_index || !take_list(s, reply))
    return error_set(err, ERR_BadValue, "the list of files cannot be read");
  return true;
}

static bool begin(struct operation *op, struct repl *r, struct error *err) {
  bson_t body = BSON_INITIALIZER;
  const bson_t *reply;
  BSON_APPEND_INT32(&body, "_initialSyncBegin", 1);
  BSON_APPEND_UTF8(&body, "set", r->set_name);
  BSON_APPEND_INT64(&body, "id", (int64_t)r->id);
  bool ok = ask(op, r, &body, BEGIN_MS, &reply, err) && take_begin(r->sync, reply, err);
  bson_destroy(&body);
  if (ok && store_free_bytes(r->store) < (uint64_t)r->sync->total)
    ok = error_set(err, ERR_OutOfDiskSpace, "the copy needs %lld bytes, but the disk has not as many",
                   (long long)r->sync->total);
  if (ok)
    log_info("REPL", "Initial sync: copying data", "from:s snapshot:l files:l bytes:l", r->sync->host,
             (int64_t)r->sync->mark.index, (int64_t)r->sync->n_files, r->sync->total);
  return ok;
}

static bool end(struct operation *op, struct repl *r, struct error *err) {
  bson_t body = BSON_INITIALIZER;
  const bson_t *reply;
  BSON_APPEND_INT32(&body, "_initialSyncEnd", 1);
  BSON_APPEND_INT64(&body, "session", (int64_t)r->sync->session);
  bool ok = ask(op, r, &body, BEGIN_MS, &reply, err);
  if (ok) r->sync->join_target = (uint64_t)doc_i64(reply, "applied", 0);
  bson_destroy(&body);
  return ok;
}

// --- files ---

struct pool_job { // what blocks
  struct repl *r;
  const struct sync_file *file;
  int fd;
  const uint8_t *data;
  size_t n;
  int64_t at;
  struct error *err;
  bool ok;
};

static void run_prepare(void *arg) {
  struct pool_job *j = arg;
  j->ok = store_generation_begin(j->r->dbpath, j->r->sync->generation + 1, j->err);
}

static void run_open(void *arg) {
  struct pool_job *j = arg;
  uint64_t generation = j->r->sync->generation + 1;
  j->fd = -1;
  j->ok = store_generation_admit(j->r->dbpath, generation, j->file->name, j->err);
  if (!j->ok) return;
  char *root = store_generation_path(j->r->dbpath, generation), *path = NULL;
  if (asprintf(&path, "%s/%s", root, j->file->name) < 0) abort();
  j->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  j->ok = j->fd >= 0 || error_set(j->err, ERR_OperationFailed, "%s: %m", path);
  free(path);
  free(root);
}

static void run_write(void *arg) {
  struct pool_job *j = arg;
  size_t done = 0;
  while (done < j->n) {
    ssize_t n = pwrite(j->fd, j->data + done, j->n - done, j->at + (int64_t)done);
    if (n <= 0) break;
    done += (size_t)n;
  }
  j->ok = done == j->n || error_set(j->err, ERR_OperationFailed, "%s: %m", j->file->name);
}

static void run_gone(void *arg) {
  const struct pool_job *j = arg;
  char *root = store_generation_path(j->r->dbpath, j->r->sync->generation + 1), *path = NULL;
  if (asprintf(&path, "%s/%s", root, j->file->name) < 0) abort();
  (void)unlink(path);
  free(path);
  free(root);
}

static void run_finish(void *arg) {
  struct pool_job *j = arg;
  struct initial_sync *s = j->r->sync;
  j->ok = store_generation_finish(j->r->dbpath, s->generation + 1, s->mark.index, j->err);
}

static void run_keep(void *arg) {
  const struct pool_job *j = arg;
  store_generation_keep(j->r->dbpath, j->r->sync->generation);
}

static bool in_pool(struct operation *op, struct repl *r, void (*job)(void *arg), struct error *err) {
  struct pool_job j = {.r = r, .err = err};
  op_run_in_pool(op, job, &j);
  return j.ok;
}

static void tell_progress(struct initial_sync *s) {
  int64_t now = clock_mono_ms();
  if (now - s->told_ms < PROGRESS_MS) return;
  s->told_ms = now;
  log_info("REPL", "Initial sync: progress", "percent:l bytesCopied:l bytes:l filesCopied:l files:l",
           s->total > 0 ? s->copied * 100 / s->total : 0, s->copied, s->total, (int64_t)s->done_files,
           (int64_t)s->n_files);
}

// The next part of a file. *more: there is another one.
static bool copy_part(struct operation *op, struct repl *r, struct pool_job *j, size_t i, bool *more,
                      struct error *err) {
  bson_t body = BSON_INITIALIZER;
  const bson_t *reply;
  bson_value_t data;
  BSON_APPEND_INT32(&body, "_initialSyncRead", 1);
  BSON_APPEND_INT64(&body, "session", (int64_t)r->sync->session);
  BSON_APPEND_INT64(&body, "file", (int64_t)i);
  BSON_APPEND_INT64(&body, "at", j->at);
  bool ok = ask(op, r, &body, READ_MS, &reply, err);
  bson_destroy(&body);
  *more = false;
  if (!ok) return false;
  if (doc_bool(reply, "gone", false)) {
    op_run_in_pool(op, run_gone, j);
    return true;
  }
  int64_t size = doc_i64(reply, "size", -1);
  if (!doc_value(reply, "data", &data) || data.value_type != BSON_TYPE_BINARY || size < 0)
    return error_set(err, ERR_BadValue, "a part of %s cannot be read", j->file->name);
  j->data = data.value.v_binary.data;
  j->n = data.value.v_binary.data_len;
  op_run_in_pool(op, run_write, j);
  j->at += (int64_t)j->n;
  r->sync->copied += (int64_t)j->n;
  *more = j->at < size;
  if (*more && !j->n) return error_set(err, ERR_OperationFailed, "%s ended early", j->file->name);
  return j->ok;
}

static bool copy_file(struct operation *op, struct repl *r, size_t i, struct error *err) {
  struct pool_job j = {.r = r, .file = &r->sync->files[i], .err = err};
  op_run_in_pool(op, run_open, &j);
  bool ok = j.ok, more = ok;
  while (ok && more) {
    arena_reset(op->arena);
    ok = copy_part(op, r, &j, i, &more, err);
    tell_progress(r->sync);
  }
  if (j.fd >= 0) (void)close(j.fd);
  r->sync->done_files++;
  return ok;
}

static bool copy_all(struct operation *op, struct repl *r, struct error *err) {
  struct initial_sync *s = r->sync;
  if (!in_pool(op, r, run_prepare, err)) return false;
  for (size_t i = 0; i < s->n_files; i++)
    if (!copy_file(op, r, i, err)) return false;
  return end(op, r, err) && in_pool(op, r, run_finish, err) && store_generation_check(r->store, s->generation + 1, err);
}

// --- the switch ---

// Gives consensus the snapshot. Without a wait from the last check on: nothing is being applied, and the leader is the
// one that the copy is of.
static bool install(struct operation *op, struct repl *r, struct error *err) {
  struct initial_sync *s = r->sync;
  while (r->applier_runs)
    if (!op_sleep(op, 1, err)) return false;
  if (consensus_leader(r->consensus) != s->source)
    return error_set(err, ERR_OperationFailed, "the leader is another one by now");
  uint8_t note = 0;
  struct consensus_message m = {.kind = RAFT_MSG_SNAPSHOT,
                                .peer = s->source,
                                .address = s->host,
                                .term = consensus_term(r->consensus),
                                .index = s->mark.index,
                                .index_term = s->mark.term,
                                .configuration = s->mark.configuration,
                                .configuration_index = s->mark.configuration_index,
                                .snapshot = entry_new(ENTRY_COMMAND, s->mark.term, &note, sizeof note)};
  s->phase = INSTALLING;
  consensus_receive(r->consensus, drive_now(), &m);
  entry_unref(m.snapshot);
  if (consensus_installing(r->consensus)) return true;
  s->phase = COPYING;
  return error_set(err, ERR_OperationFailed, "the log has reached the snapshot by itself");
}

void initial_sync_install(struct repl *r, const struct snapshot_mark *mark) {
  bson_t doc = BSON_INITIALIZER;
  BSON_APPEND_INT64(&doc, "n", (int64_t)(r->sync->generation + 1));
  raft_log_install(r->log, mark, GENERATION_NOTE, &doc);
  bson_destroy(&doc);
}

void initial_sync_durable(struct repl *r) {
  r->sync->phase = SWITCHING;
  event_signal(&r->progressed);
}

// The log is replaced, so the store has to be, whatever happens. false: killed before.
static bool exchange(struct operation *op, struct repl *r) {
  struct initial_sync *s = r->sync;
  struct error err;
  while (s->phase == INSTALLING)
    if (!event_wait(op, &r->progressed, &err)) return false;
  if (!store_switch(op, r->store, s->generation + 1, &err)) return false;
  s->generation++;
  r->applied = s->mark.index;
  r->last = s->last.optime;
  r->last_wall_ms = s->last.wall_ms;
  cluster_clock_advance(r->clock, r->last.ts);
  pacing_note_position(r, &s->last);
  r->replay_target = store_replay_target(r->store);
  if (!r->replay_target) r->replay_target = r->applied;
  config_reload(r, op->arena);
  s->joining = true;
  s->behind = false;
  s->phase = IDLE;
  if (r->hooks.replaced) r->hooks.replaced(r->hooks.ctx);
  consensus_installed(r->consensus, drive_now());
  log_info("REPL", "Initial sync: the copy is complete, entries follow", "snapshot:l replayTo:l bytes:l millis:l",
           (int64_t)r->applied, (int64_t)r->replay_target, s->copied, clock_mono_ms() - s->begun_ms);
  drive_settle(r);
  struct pool_job j = {.r = r};
  op_run_in_pool(op, run_keep, &j);
  return true;
}

// --- attempts ---

static void sync_fiber(struct operation *op, void *arg);

static void start_fiber(struct repl *r) {
  r->sync->op = repl_job(r, "initialSync", sync_fiber, r);
}

static bool attempt(struct operation *op, struct repl *r, struct error *err) {
  return begin(op, r, err) && copy_all(op, r, err) && install(op, r, err);
}

static void attempt_failed(struct repl *r, const struct error *err) {
  struct initial_sync *s = r->sync;
  s->failed++;
  s->phase = IDLE;
  s->retry_at = loop_now_ms(r->loop) + RETRY_MS;
  (void)snprintf(s->error, sizeof s->error, "%s", err->message);
  log_warn("REPL", "Initial sync failed; it begins anew when the leader says so again", "from:s failed:l error:e",
           s->host, (int64_t)s->failed, err);
}

static void sync_fiber(struct operation *op, void *arg) {
  struct repl *r = arg;
  struct initial_sync *s = r->sync;
  struct error err = {0};
  if (s->phase == COPYING && !attempt(op, r, &err)) attempt_failed(r, &err);
  bool again = s->phase != IDLE && !exchange(op, r); // killed
  s->op = NULL;
  if (again && !r->stopping) {
    start_fiber(r);
    return;
  }
  if (s->phase == IDLE) forget_attempt(s);
  if (!r->stopping) drive_settle(r);
}

void initial_sync_wanted(struct repl *r, const struct consensus_message *m) {
  struct initial_sync *s = r->sync;
  if (r->stopping || !r->consensus || !r->remotes || m->term < consensus_term(r->consensus)) return;
  if (m->index <= r->applied || s->op) return;
  if (!s->behind) {
    s->begun_ms = clock_mono_ms();
    s->begun_wall = clock_wall_ms();
    log_warn("REPL", "This member is further behind than its set's log reaches back: it copies the data",
             "from:s applied:l snapshot:l", m->address, (int64_t)r->applied, (int64_t)m->index);
  }
  s->behind = true;
  s->behind_at = r->applied;
  if (loop_now_ms(r->loop) < s->retry_at) return;
  free(s->host);
  s->host = strdup(m->address);
  if (!s->host) log_fatal("REPL", "Out of memory for an initial sync", NULL);
  s->source = m->peer;
  forget_attempt(s);
  s->arena = arena_new();
  s->phase = COPYING;
  start_fiber(r);
  if (!s->op) s->phase = IDLE;
  drive_settle(r);
}

void initial_sync_leader_changed(struct repl *r) {
  const struct initial_sync *s = r->sync;
  uint64_t leader = consensus_leader(r->consensus);
  if (s->op && s->phase == COPYING && leader && leader != s->source)
    operation_kill(s->op, ERR_InterruptedDueToReplStateChange);
}

// --- joining ---

void initial_sync_join(struct repl *r) {
  r->sync->joining = true;
}

bool initial_sync_joining(const struct repl *r) {
  return r->sync->joining;
}

// The first that a leader says tells a member that was added how much there is.
void initial_sync_heard(struct repl *r, const struct consensus_message *m) {
  struct initial_sync *s = r->sync;
  if (s->joining && !s->join_target && m->kind == RAFT_MSG_APPEND) s->join_target = m->commit ? m->commit : 1;
}

void initial_sync_applied(struct repl *r) {
  struct initial_sync *s = r->sync;
  if (s->behind && s->phase == IDLE && r->applied > s->behind_at) s->behind = false;
  if (!s->joining || !s->join_target || r->applied < s->join_target || r->replay_target || s->phase != IDLE) return;
  s->joining = false;
  initiate_note_identity(r);
  log_info("REPL", "This member has all of its set's data", "applied:l", (int64_t)r->applied);
}

bool initial_sync_under_way(const struct repl *r) {
  return r->sync->behind || r->sync->joining || r->sync->phase != IDLE;
}

bool initial_sync_holds_apply(const struct repl *r) {
  return r->sync->phase == INSTALLING || r->sync->phase == SWITCHING;
}

// --- status ---

void initial_sync_status(const struct repl *r, bson_t *reply) {
  const struct initial_sync *s = r->sync;
  bson_t sub;
  if (!s->behind && s->phase == IDLE) return;
  int64_t elapsed = clock_mono_ms() - s->begun_ms;
  BSON_APPEND_DOCUMENT_BEGIN(reply, "initialSyncStatus", &sub);
  BSON_APPEND_INT32(&sub, "failedInitialSyncAttempts", (int32_t)s->failed);
  BSON_APPEND_DATE_TIME(&sub, "initialSyncStart", s->begun_wall);
  BSON_APPEND_INT64(&sub, "totalInitialSyncElapsedMillis", elapsed);
  if (s->copied > 0)
    BSON_APPEND_INT64(&sub, "remainingInitialSyncEstimatedMillis",
                      s->total > s->copied ? elapsed * (s->total - s->copied) / s->copied : 0);
  BSON_APPEND_INT64(&sub, "approxTotalDataSize", s->total);
  BSON_APPEND_INT64(&sub, "approxTotalBytesCopied", s->copied);
  BSON_APPEND_INT32(&sub, "filesCopied", (int32_t)s->done_files);
  BSON_APPEND_INT32(&sub, "files", (int32_t)s->n_files);
  BSON_APPEND_UTF8(&sub, "syncSourceHost", s->host ? s->host : "");
  if (*s->error) BSON_APPEND_UTF8(&sub, "lastError", s->error);
  bson_append_document_end(reply, &sub);
}
