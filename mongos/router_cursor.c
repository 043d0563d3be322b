// One cursor of the router: the shards' streams, their merge, and the making of batches.
#include "mongos/router_cursor_internal.h"

#include <string.h>

#include "common/bson/doc.h"

// --- making one ---

struct router_cursor *cursor_new(struct router *rt, const struct request *r, const char *ns) {
  struct arena *a = arena_new();
  struct router_cursor *c = arena_zalloc(a, sizeof *c);
  c->rt = rt;
  c->arena = a;
  c->scratch = arena_new();
  c->ns = arena_strdup(a, ns);
  c->at = NO_STREAM;
  c->limit = -1;
  c->fetch_size = -1;
  if (r->has_lsid) {
    c->has_lsid = true;
    memcpy(c->lsid, r->lsid, sizeof c->lsid);
    c->session.lsid = doc_copy(a, &r->lsid_doc);
  }
  if (r->has_read_preference && r->read_mode != READ_PRIMARY) {
    c->session.read_preference = doc_copy(a, &r->read_preference);
  }
  return c;
}

struct arena *cursor_arena(struct router_cursor *c) {
  return c->arena;
}

static struct shard_stream *new_stream(struct router_cursor *c) {
  c->streams = arena_grow(c->arena, c->streams, c->n_streams, &c->cap_streams, sizeof *c->streams);
  struct shard_stream *s = arena_zalloc(c->arena, sizeof *s); // in one place for ever: views point into it
  s->number = c->n_streams;
  c->streams[c->n_streams++] = s;
  return s;
}

bool cursor_add_shard(struct router_cursor *c, const char *shard, const char *host, const bson_t *reply,
                      struct error *err) {
  struct shard_stream *s = new_stream(c);
  s->shard = shard != NULL ? arena_strdup(c->arena, shard) : NULL;
  s->host = arena_strdup(c->arena, host);
  return stream_load(s, c->arena, reply, err);
}

void cursor_add_documents(struct router_cursor *c, const bson_t *const *docs, size_t n) {
  stream_load_documents(new_stream(c), docs, n);
}

void cursor_set_sort(struct router_cursor *c, const struct sort *sort, bool by_meta) {
  c->sort = sort;
  c->sort_by_meta = by_meta;
}

void cursor_set_window(struct router_cursor *c, int64_t skip, int64_t limit) {
  c->skip = skip;
  c->limit = limit > 0 ? limit : -1;
}

void cursor_set_no_timeout(struct router_cursor *c) {
  c->no_timeout = true;
}

void cursor_set_partial(struct router_cursor *c, bool missing) {
  c->partial_allowed = true;
  c->partial = missing;
}

void cursor_set_tap(struct router_cursor *c,
                    const bson_t *(*tap)(void *ctx, struct arena *scratch, const char *shard, const bson_t *doc),
                    void *ctx) {
  c->tap = tap;
  c->tap_ctx = ctx;
}

void cursor_free(struct router_cursor *c) {
  for (size_t i = 0; i < c->n_streams; i++) stream_free(c->streams[i]);
  buf_free(&c->pending);
  arena_free(c->scratch);
  arena_free(c->arena);
}

void cursor_kill_streams(struct router_cursor *c) {
  for (size_t i = 0; i < c->n_streams; i++) {
    struct shard_stream *s = c->streams[i];
    if (s->id != 0) shard_cursor_kill(c->rt, s->host, s->db, s->collection, s->id, c->session.lsid);
    s->id = 0;
  }
}

void cursor_discard(struct router_cursor *c) {
  cursor_kill_streams(c);
  cursor_free(c);
}

// --- the merged stream ---

static bool wants_fetch(const struct shard_stream *s) {
  return !s->has && s->id != 0;
}

struct fetch_job {
  struct router_cursor *c;
  struct shard_stream **streams;
  bool *ok;
  struct error *errors;
};

static void fetch_branch(struct operation *op, size_t i, void *ctx) {
  struct fetch_job *j = ctx;
  struct router_cursor *c = j->c;
  struct error err = {0};
  j->ok[i] = stream_fetch(op, c->rt, j->streams[i], &c->session, c->fetch_size, c->arena, &err);
  if (!j->ok[i]) error_copy(&j->errors[i], &err, c->op->arena); // this branch's memory ends with it
}

static void put_in_merge(struct router_cursor *c, struct shard_stream *s) {
  if (c->merge == NULL || !s->has) return;
  buf_clear(&s->key);
  bson_t values;
  if (c->sort_by_meta && doc_doc(&s->doc, "$sortKey", &values)) {
    key_append_doc(&s->key, &values, sort_pattern(c->sort));
  } else {
    sort_key_append(c->sort, &s->doc, &s->key);
  }
  merge_put(c->merge, s->number, (struct key){.data = s->key.data, .len = s->key.len});
}

// Fetches a batch for every stream that has none and is not at its end, all at once. A batch may be empty.
static bool fetch_missing(struct router_cursor *c, struct error *err) {
  struct arena *a = c->op->arena;
  struct fetch_job j = {.c = c, .streams = arena_alloc(a, c->n_streams * sizeof *j.streams)};
  size_t n = 0;
  for (size_t i = 0; i < c->n_streams; i++) {
    if (wants_fetch(c->streams[i])) j.streams[n++] = c->streams[i];
  }
  if (n == 0) return true;
  j.ok = arena_zalloc(a, n * sizeof *j.ok);
  j.errors = arena_zalloc(a, n * sizeof *j.errors);
  op_parallel(c->op, n, fetch_branch, &j);
  for (size_t i = 0; i < n; i++) {
    if (!j.ok[i] && c->partial_allowed && call_error_is_absence(&j.errors[i])) {
      j.streams[i]->id = 0;
      c->partial = true;
      continue;
    }
    if (!j.ok[i]) {
      *err = j.errors[i];
      return false;
    }
    put_in_merge(c, j.streams[i]);
  }
  return op_check(c->op, err);
}

static void start_merge(struct router_cursor *c) {
  if (c->sort == NULL || c->merge != NULL) return;
  c->merge = merge_new(c->arena, c->n_streams);
  for (size_t i = 0; i < c->n_streams; i++) put_in_merge(c, c->streams[i]);
}

static void use_up(struct router_cursor *c) {
  if (c->at == NO_STREAM) return;
  struct shard_stream *s = c->streams[c->at];
  c->at = NO_STREAM;
  stream_advance(s);
  put_in_merge(c, s);
}

static bool any_wants_fetch(const struct router_cursor *c) {
  for (size_t i = 0; i < c->n_streams; i++) {
    if (wants_fetch(c->streams[i])) return true;
  }
  return false;
}

// The stream whose document is next; NO_STREAM when all are at their end. Sorted: only when each has its next document
// here, for any of them may be the least.
static bool choose(struct router_cursor *c, ptrdiff_t *out, struct error *err) {
  for (;;) {
    if (c->merge != NULL && !any_wants_fetch(c)) {
      *out = merge_count(c->merge) > 0 ? (ptrdiff_t)merge_first(c->merge) : NO_STREAM;
      if (*out != NO_STREAM) merge_take(c->merge);
      return true;
    }
    if (c->merge == NULL) {
      for (size_t i = 0; i < c->n_streams; i++) {
        if (!c->streams[i]->has) continue;
        *out = (ptrdiff_t)i;
        return true;
      }
      *out = NO_STREAM;
      if (!any_wants_fetch(c)) return true;
    }
    if (!fetch_missing(c, err)) return false;
  }
}

// As a doc_source: the merged documents, before skip and limit.
static bool next_merged(void *ctx, const bson_t **doc, struct error *err) {
  struct router_cursor *c = ctx;
  start_merge(c);
  use_up(c);
  *doc = NULL;
  if (!choose(c, &c->at, err)) return false;
  if (c->at == NO_STREAM) return true;
  struct shard_stream *s = c->streams[c->at];
  *doc = &s->doc;
  if (c->tap != NULL) *doc = c->tap(c->tap_ctx, c->scratch, s->shard, *doc);
  return true;
}

void cursor_set_pipeline(struct router_cursor *c, struct pipeline *p) {
  c->pipeline = p;
  pipeline_start(p, (struct doc_source){.next = next_merged, .ctx = c});
}

static bool next_in_window(struct router_cursor *c, const bson_t **doc, struct error *err) {
  *doc = NULL;
  while (c->skip > 0) {
    if (!next_merged(c, doc, err)) return false;
    if (*doc == NULL) return true;
    c->skip--;
  }
  if (c->limit == 0) {
    *doc = NULL;
    return true;
  }
  if (!next_merged(c, doc, err)) return false;
  if (*doc != NULL && c->limit > 0) c->limit--;
  return true;
}

// The next document for the client, valid until the next call; NULL at the end.
static bool cursor_next(struct router_cursor *c, const bson_t **doc, struct error *err) {
  arena_reset(c->scratch);
  if (c->pipeline != NULL) return pipeline_next(c->pipeline, doc, err);
  if (!next_in_window(c, doc, err)) return false;
  if (*doc == NULL || !c->sort_by_meta) return true;
  bson_t *without_key = arena_bson(c->scratch);
  bson_copy_to_excluding_noinit(*doc, without_key, "$sortKey", NULL);
  *doc = without_key;
  return true;
}

// --- batches ---

struct batch {
  bson_t array;
  uint32_t n;
};

static void batch_add(struct batch *b, const bson_t *doc) {
  char text[16];
  const char *key;
  size_t len = bson_uint32_to_string(b->n++, &key, text, sizeof text);
  bson_append_document(&b->array, key, (int)len, doc);
}

static bool batch_fits(const struct batch *b, const bson_t *doc) {
  return b->n == 0 || (uint64_t)b->array.len + doc->len < BATCH_MAX_BYTES;
}

// Whether the next document can be had without asking a shard.
static bool at_hand(const struct router_cursor *c) {
  if (c->pipeline != NULL || c->merge != NULL) return true;
  for (size_t i = 0; i < c->n_streams; i++) {
    const struct shard_stream *s = c->streams[i];
    bson_iter_t peek = s->at;
    if (s->has && ((ptrdiff_t)i != c->at || bson_iter_next(&peek))) return true;
  }
  return false;
}

static bool nothing_left(const struct router_cursor *c) {
  if (c->ended || (c->limit == 0 && c->pipeline == NULL)) return true;
  if (c->pipeline != NULL) return false;
  for (size_t i = 0; i < c->n_streams; i++) {
    if (c->streams[i]->id != 0) return false;
  }
  return c->merge == NULL ? !at_hand(c) : false;
}

static bool take_pending(struct router_cursor *c, struct batch *b) {
  if (!c->has_pending) return false;
  bson_t doc;
  doc_view(&doc, c->pending.data, c->pending.len);
  batch_add(b, &doc);
  c->has_pending = false;
  return true;
}

static bool fill(struct router_cursor *c, struct batch *b, bool first, int64_t batch_size, struct error *err) {
  int64_t most = batch_size >= 0 ? batch_size : first ? FIRST_BATCH_DOCUMENTS : INT64_MAX;
  if (most > 0) take_pending(c, b);
  while (b->n < most && !c->ended) {
    // Without a size asked for, a getMore gives what has arrived rather than wait to fill 16 MiB.
    if (!first && batch_size < 0 && b->n > 0 && !at_hand(c)) return true;
    const bson_t *doc;
    if (!op_yield_if_due(c->op, err) || !cursor_next(c, &doc, err)) return false;
    if (doc == NULL) {
      c->ended = true;
    } else if (batch_fits(b, doc)) {
      batch_add(b, doc);
    } else {
      buf_clear(&c->pending);
      buf_add(&c->pending, bson_get_data(doc), doc->len);
      c->has_pending = true;
      return true;
    }
  }
  return true;
}

bool cursor_append_batch(struct operation *op, struct router_cursor *c, bool first, int64_t batch_size, bool single,
                         bson_t *reply, bool *more, struct error *err) {
  c->op = op;
  c->fetch_size = c->pipeline == NULL && batch_size > 0 ? batch_size : -1;
  struct batch b = {.n = 0};
  bson_init(&b.array);
  bool ok = fill(c, &b, first, batch_size, err);
  *more = ok && !single && (c->has_pending || !nothing_left(c));
  if (ok && *more && c->id == 0 && !c->killed) cursor_register(c);
  if (ok) {
    bson_t cursor;
    bson_append_document_begin(reply, "cursor", -1, &cursor);
    bson_append_array(&cursor, first ? "firstBatch" : "nextBatch", -1, &b.array);
    bson_append_int64(&cursor, "id", -1, *more ? c->id : 0); // 0 also when it was killed meanwhile
    bson_append_utf8(&cursor, "ns", -1, c->ns, -1);
    if (c->partial) bson_append_bool(&cursor, "partialResultsReturned", -1, true);
    bson_append_document_end(reply, &cursor);
  }
  bson_destroy(&b.array);
  c->op = NULL;
  return ok;
}

bool cursor_reply(struct operation *op, struct router_cursor *c, bool first, int64_t batch_size, bool single,
                  bson_t *reply, struct error *err) {
  bool more;
  bool ok = cursor_append_batch(op, c, first, batch_size, single, reply, &more, err);
  if (!ok && err->extra != NULL) error_extra(err, op->arena, err->extra);
  if (!more) cursor_discard(c);
  return ok;
}
