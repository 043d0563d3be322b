// The side of an initial sync that is copied from: the leader. See initial_sync.h.
//
// Three internal commands, each of which the copying member repeats from the start if it fails:
//   _initialSyncBegin {set, id}               -> {session, index, term, members, membersIndex, last: {ts, t, wall},
//                                                 files: [{n: name, b: bytes}...]}
//   _initialSyncRead {session, file, at}      -> {size, data}; {gone: true} when the file was dropped meanwhile
//   _initialSyncEnd {session}                 -> {applied: index}
//
// A session is forgotten when its member is silent for a while, begins another one, or leadership ends.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/log.h"
#include "common/bson/doc.h"
#include "common/repl/initial_sync.h"
#include "common/repl/repl_internal.h"
#include "common/store/copy.h"

enum { MAX_SESSIONS = 8, SILENT_MS = 60000 };

struct copy_session {
  struct arena *arena;
  uint64_t number, member;
  uint64_t index; // the snapshot's: the log is kept behind it
  struct copy_item *items;
  size_t n_items;
  int64_t bytes;
  int64_t used_ms;
  bool busy;   // a command works on it
  bool doomed; // to be freed when that ends
  int fd;      // an image of item `open`; -1 = none
  size_t open;
  int64_t size;
};

struct copy_source {
  struct copy_session *sessions[MAX_SESSIONS];
  size_t n;
  uint64_t numbers;
};

struct copy_source *copy_source_new(void) {
  size_t cap = 0;
  struct copy_source *s = array_grow(NULL, &cap, 1, sizeof *s);
  return memset(s, 0, sizeof *s);
}

// --- sessions ---

static void close_image(struct copy_session *s) {
  if (s->fd >= 0) (void)close(s->fd);
  s->fd = -1;
}

static void session_free(struct copy_session *s) {
  close_image(s);
  arena_free(s->arena);
}

static void session_end(struct copy_source *source, size_t i) {
  struct copy_session *s = source->sessions[i];
  source->sessions[i] = source->sessions[--source->n];
  s->doomed = true;
  if (!s->busy) session_free(s);
}

void copy_source_free(struct copy_source *s) {
  while (s->n) session_end(s, 0);
  free(s);
}

void copy_source_end_all(struct repl *r) {
  while (r->copies->n) session_end(r->copies, 0);
}

static void end_silent(struct repl *r) {
  struct copy_source *source = r->copies;
  int64_t now = loop_now_ms(r->loop);
  for (size_t i = source->n; i-- > 0;) {
    struct copy_session *s = source->sessions[i];
    // Once it has the snapshot it is a member that is a little behind, like others.
    bool installed = s->index <= consensus_match(r->consensus, s->member);
    if (!s->busy && (installed || now - s->used_ms > SILENT_MS)) session_end(source, i);
  }
}

uint64_t copy_source_needs(struct repl *r, uint64_t *bytes) {
  uint64_t least = UINT64_MAX;
  *bytes = 0;
  end_silent(r);
  for (size_t i = 0; i < r->copies->n; i++) {
    const struct copy_session *s = r->copies->sessions[i];
    if (s->index < least) least = s->index;
    if ((uint64_t)s->bytes > *bytes) *bytes = (uint64_t)s->bytes;
  }
  return least;
}

void copy_source_end_below(struct repl *r, uint64_t index) {
  for (size_t i = r->copies->n; i-- > 0;) {
    if (r->copies->sessions[i]->index >= index) continue;
    log_warn("REPL", "An initial sync takes longer than the log can be kept; it has to begin anew", "snapshot:l",
             (int64_t)r->copies->sessions[i]->index);
    session_end(r->copies, i);
  }
}

static struct copy_session *session_new(struct repl *r, uint64_t member) {
  struct copy_source *source = r->copies;
  for (size_t i = source->n; i-- > 0;)
    if (source->sessions[i]->member == member) session_end(source, i);
  if (source->n == MAX_SESSIONS) return NULL;
  struct arena *a = arena_new();
  struct copy_session *s = arena_zalloc(a, sizeof *s);
  *s = (struct copy_session){
      .arena = a, .number = ++source->numbers, .member = member, .used_ms = loop_now_ms(r->loop), .fd = -1};
  s->items = store_copy_list(r->store, a, &s->n_items);
  for (size_t i = 0; i < s->n_items; i++) s->bytes += s->items[i].bytes;
  source->sessions[source->n++] = s;
  return s;
}

static bool not_leader(const struct repl *r, struct error *err) {
  return r->leading ? false : !error_set(err, ERR_NotWritablePrimary, "not primary: copy from another member");
}

static struct copy_session *session_of(struct repl *r, const bson_t *body, struct error *err) {
  uint64_t number = (uint64_t)doc_i64(body, "session", 0);
  if (not_leader(r, err)) return NULL;
  for (size_t i = 0; i < r->copies->n; i++) {
    struct copy_session *s = r->copies->sessions[i];
    if (s->number != number || s->busy) continue;
    s->used_ms = loop_now_ms(r->loop);
    return s;
  }
  error_set(err, ERR_OperationFailed, "there is no such initial sync here (any more)");
  return NULL;
}

// --- the commands ---

static void append_begin(struct repl *r, const struct copy_session *s, const struct snapshot_mark *mark,
                         const struct log_position *last, bson_t *reply) {
  bson_t sub, list;
  BSON_APPEND_INT64(reply, "session", (int64_t)s->number);
  BSON_APPEND_INT64(reply, "index", (int64_t)mark->index);
  BSON_APPEND_INT64(reply, "term", (int64_t)mark->term);
  BSON_APPEND_BINARY(reply, "members", BSON_SUBTYPE_BINARY, mark->configuration->data, mark->configuration->len);
  BSON_APPEND_INT64(reply, "membersIndex", (int64_t)mark->configuration_index);
  BSON_APPEND_DOCUMENT_BEGIN(reply, "last", &sub);
  doc_append_ts(&sub, "ts", last->optime.ts);
  BSON_APPEND_INT64(&sub, "t", last->optime.term);
  BSON_APPEND_DATE_TIME(&sub, "wall", last->wall_ms);
  bson_append_document_end(reply, &sub);
  BSON_APPEND_ARRAY_BEGIN(reply, "files", &list);
  char buffer[16];
  const char *key;
  for (size_t i = 0; i < s->n_items; i++) {
    bson_uint32_to_string((uint32_t)i, &key, buffer, sizeof buffer);
    BSON_APPEND_DOCUMENT_BEGIN(&list, key, &sub);
    BSON_APPEND_UTF8(&sub, "n", s->items[i].name);
    BSON_APPEND_INT64(&sub, "b", s->items[i].bytes);
    bson_append_document_end(&list, &sub);
  }
  bson_append_array_end(reply, &list);
}

bool repl_copy_begin(struct operation *op, struct repl *r, const bson_t *body, bson_t *reply, struct error *err) {
  const char *set = doc_str(body, "set", "");
  uint64_t member = (uint64_t)doc_i64(body, "id", 0);
  if (strcmp(set, r->set_name) != 0)
    return error_set(err, ERR_InvalidReplicaSetConfig, "this is a member of %s, not %s", r->set_name, set);
  if (not_leader(r, err)) return false;
  uint64_t term = r->leading;
  (void)pacing_snapshot(op, r); // a fresh one; false also when nothing is new
  if (r->leading != term) return error_set(err, ERR_NotWritablePrimary, "not primary any more");
  const struct snapshot_mark *mark = consensus_last_snapshot(r->consensus);
  struct log_position last = {0};
  for (uint64_t index = 0; index != mark->index && r->leading == term;) {
    index = mark->index;
    pacing_position(op, r, index, &last);
  }
  // From here to the session without a wait: the log is not cut in between.
  if (r->leading != term) return error_set(err, ERR_NotWritablePrimary, "not primary any more");
  if (!mark->index) return error_set(err, ERR_OperationFailed, "there is no snapshot to begin with yet");
  struct copy_session *s = session_new(r, member);
  if (!s) return error_set(err, ERR_ConflictingOperationInProgress, "too many members copy already");
  s->index = mark->index;
  append_begin(r, s, mark, &last, reply);
  log_info("REPL", "A member begins to copy this one's data", "snapshot:l files:l bytes:l", (int64_t)s->index,
           (int64_t)s->n_items, s->bytes);
  return true;
}

struct read_job {
  int fd;
  int64_t at;
  uint8_t *data;
  ssize_t n;
};

static void run_read(void *arg) {
  struct read_job *j = arg;
  j->n = pread(j->fd, j->data, COPY_CHUNK_BYTES, j->at);
}

static bool read_part(struct operation *op, struct repl *r, struct copy_session *s, size_t file, int64_t at,
                      bson_t *reply, struct error *err) {
  if (s->fd < 0 || s->open != file || at == 0) {
    close_image(s);
    s->open = file;
    s->fd = store_copy_file(op, r->store, s->items[file].name, &s->size, err);
    if (s->fd < 0 && err->code) return false;
    if (s->fd < 0) return BSON_APPEND_BOOL(reply, "gone", true);
  }
  struct read_job j = {.fd = s->fd, .at = at, .data = arena_alloc(op->arena, COPY_CHUNK_BYTES)};
  op_run_in_pool(op, run_read, &j);
  if (j.n < 0) return error_set(err, ERR_OperationFailed, "%s cannot be read", s->items[file].name);
  BSON_APPEND_INT64(reply, "size", s->size);
  BSON_APPEND_BINARY(reply, "data", BSON_SUBTYPE_BINARY, j.data, (uint32_t)j.n);
  return true;
}

bool repl_copy_read(struct operation *op, struct repl *r, const bson_t *body, bson_t *reply, struct error *err) {
  struct copy_session *s = session_of(r, body, err);
  if (!s) return false;
  int64_t file = doc_i64(body, "file", -1), at = doc_i64(body, "at", 0);
  if (file < 0 || (size_t)file >= s->n_items || at < 0) return error_set(err, ERR_BadValue, "no such file");
  s->busy = true;
  bool ok = read_part(op, r, s, (size_t)file, at, reply, err);
  s->busy = false;
  s->used_ms = loop_now_ms(r->loop);
  if (!s->doomed) return ok;
  session_free(s);
  return error_set(err, ERR_OperationFailed, "this initial sync was given up here");
}

bool repl_copy_end(struct operation *op, struct repl *r, const bson_t *body, bson_t *reply, struct error *err) {
  struct copy_session *s = session_of(r, body, err);
  if (!s) return false;
  close_image(s);
  BSON_APPEND_INT64(reply, "applied", (int64_t)r->applied);
  return true;
}
