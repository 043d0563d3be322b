// All cursors of the router: their ids, getMore, killCursors, and the end of those that nobody uses.
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/map.h"
#include "common/bson/doc.h"
#include "mongos/forward.h"
#include "mongos/router_cursor_internal.h"

enum { REAPER_PERIOD_MS = 4000 };

struct router_cursors {
  struct router *rt;
  struct map *by_id;
  int64_t timed_out, opened;
  struct operation *reaper;
};

static void look_for_idle(struct router_cursors *all);

static void reaper_run(struct operation *op, void *arg) {
  struct router_cursors *all = arg;
  struct error ignored;
  while (op_sleep(op, REAPER_PERIOD_MS, &ignored)) look_for_idle(all);
}

struct router_cursors *router_cursors_new(struct router *rt) {
  struct router_cursors *all = calloc(1, sizeof *all);
  if (all == NULL) abort();
  all->rt = rt;
  all->by_id = map_new();
  all->reaper = operation_start(rt->loop, "clientcursormon", reaper_run, all);
  return all;
}

static void free_value(void *value) {
  cursor_free(value);
}

void router_cursors_free(struct router_cursors *all) {
  if (all == NULL) return;
  map_free(all->by_id, free_value);
  free(all);
}

void cursor_register(struct router_cursor *c) {
  struct router_cursors *all = c->rt->cursors;
  do {
    c->id = (int64_t)(random_u64() >> 1);
  } while (c->id == 0 || map_get(all->by_id, &c->id, sizeof c->id) != NULL);
  map_put(all->by_id, &c->id, sizeof c->id, c);
  c->last_used_ms = clock_mono_ms();
  all->opened++;
}

void cursor_unregister(struct router_cursor *c) {
  map_remove(c->rt->cursors->by_id, &c->id, sizeof c->id);
  c->id = 0;
}

// --- direct cursors ---

void reply_set_cursor_id(bson_t *reply, int64_t id) {
  bson_iter_t it, field;
  if (!bson_iter_init_find(&it, reply, "cursor") || !bson_iter_recurse(&it, &field)) return;
  if (bson_iter_find(&field, "id") && BSON_ITER_HOLDS_INT64(&field)) bson_iter_overwrite_int64(&field, id);
}

static int64_t reply_cursor_id(const bson_t *reply) {
  bson_t cursor;
  return doc_doc(reply, "cursor", &cursor) ? doc_i64(&cursor, "id", 0) : 0;
}

bool cursor_reply_direct(struct request *r, const struct shard_call *call, const char *ns, bool no_timeout,
                         bson_t *reply, struct error *err) {
  forward_reply(reply, call->reply);
  int64_t id = reply_cursor_id(call->reply);
  if (id == 0) return true;
  struct router_cursor *c = cursor_new(router_of(r), r, ns);
  bson_t cursor;
  doc_doc(call->reply, "cursor", &cursor);
  // Only where the shard's cursor is matters, not the batch that passes through.
  bson_t *head = arena_bson(r->op->arena), inner, empty = BSON_INITIALIZER;
  bson_append_document_begin(head, "cursor", -1, &inner);
  bson_append_array(&inner, "firstBatch", -1, &empty);
  bson_append_int64(&inner, "id", -1, id);
  bson_append_utf8(&inner, "ns", -1, doc_str(&cursor, "ns", ns), -1);
  bson_append_document_end(head, &inner);
  if (!cursor_add_shard(c, call->target.shard, call->host, head, err)) {
    cursor_discard(c);
    return false;
  }
  c->ns = arena_strdup(c->arena, doc_str(&cursor, "ns", ns));
  c->direct = true;
  c->no_timeout = no_timeout;
  cursor_register(c);
  reply_set_cursor_id(reply, c->id);
  return true;
}

static bool get_more_direct(struct request *r, struct router_cursor *c, bson_t *reply, bool *more, struct error *err) {
  static const char *const renewed[] = {"getMore", "collection", "lsid", "$readPreference", NULL};
  struct shard_stream *s = c->streams[0];
  bson_t *body = arena_bson(r->op->arena);
  bson_append_int64(body, "getMore", -1, s->id);
  bson_append_utf8(body, "collection", -1, s->collection, -1);
  forward_fields(body, r->body, renewed);
  if (c->session.lsid != NULL) bson_append_document(body, "lsid", -1, c->session.lsid);
  if (c->session.read_preference != NULL) {
    bson_append_document(body, "$readPreference", -1, c->session.read_preference);
  }
  struct remote_command cmd = {.db = s->db, .body = body};
  const bson_t *answer;
  *more = false;
  if (!remote_call(r->op, c->rt->remotes, s->host, &cmd, &answer, err)) {
    if (stale_is(err)) err->code = ERR_QueryPlanKilled;
    // The shard's cursor goes on after an awaitData or maxTimeMS that ran out.
    *more = err->code == ERR_MaxTimeMSExpired;
    call_error_for_client(err, s->shard);
    return false;
  }
  note_operation_time(r, answer);
  s->id = reply_cursor_id(answer);
  *more = s->id != 0;
  forward_reply(reply, answer);
  if (*more) reply_set_cursor_id(reply, c->id);
  return true;
}

// --- getMore and killCursors ---

bool cursor_get_more(struct request *r, int64_t id, const char *ns, int64_t batch_size, bson_t *reply,
                     struct error *err) {
  struct router *rt = router_of(r);
  struct router_cursor *c = map_get(rt->cursors->by_id, &id, sizeof id);
  if (c == NULL) return error_set(err, ERR_CursorNotFound, "cursor id %" PRId64 " not found", id);
  if (strcmp(c->ns, ns) != 0) {
    return error_set(err, ERR_Unauthorized,
                     "Requested getMore on namespace '%s', but cursor belongs to a different namespace %s", ns, c->ns);
  }
  if (c->op != NULL) return error_set(err, ERR_CursorInUse, "cursor id %" PRId64 " is already in use", id);
  bool more, ok;
  c->op = r->op;
  if (c->direct) {
    ok = get_more_direct(r, c, reply, &more, err);
  } else {
    ok = cursor_append_batch(r->op, c, false, batch_size, false, reply, &more, err);
    if (!ok && err->extra != NULL) error_extra(err, r->op->arena, err->extra);
  }
  c->op = NULL;
  c->last_used_ms = clock_mono_ms();
  if (more && !c->killed) return ok;
  if (!c->killed) cursor_unregister(c);
  cursor_discard(c);
  return ok;
}

enum cursor_kill cursor_kill(struct router *rt, int64_t id) {
  struct router_cursor *c = map_get(rt->cursors->by_id, &id, sizeof id);
  if (c == NULL) return CURSOR_NOT_FOUND;
  cursor_unregister(c);
  if (c->op == NULL) {
    cursor_discard(c);
    return CURSOR_KILLED;
  }
  c->killed = true; // whoever uses it discards it
  operation_kill(c->op, ERR_CursorNotFound);
  return CURSOR_KILLED;
}

void calls_kill_cursors(struct router *rt, const struct request *r, const struct shard_call *calls, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (!calls[i].ok) continue;
    bson_t cursor;
    int64_t id = reply_cursor_id(calls[i].reply);
    if (id == 0 || !doc_doc(calls[i].reply, "cursor", &cursor)) continue;
    const char *ns = doc_str(&cursor, "ns", ""), *dot = strchr(ns, '.');
    if (dot == NULL) continue;
    const char *db = arena_strndup(r->op->arena, ns, (size_t)(dot - ns));
    shard_cursor_kill(rt, calls[i].host, db, dot + 1, id, r->has_lsid ? &r->lsid_doc : NULL);
  }
}

// --- many at once ---

struct choice {
  struct router *rt;
  bool idle_only, session_only;
  uint8_t lsid[16];
  int64_t idle_before_ms;
  int64_t n;
};

static bool kill_chosen(void *ctx, const void *key, size_t len, void *value) {
  struct choice *x = ctx;
  struct router_cursor *c = value;
  if (x->idle_only && (c->op != NULL || c->no_timeout || c->last_used_ms > x->idle_before_ms)) return true;
  if (x->session_only && (!c->has_lsid || memcmp(c->lsid, x->lsid, sizeof x->lsid) != 0)) return true;
  cursor_kill(x->rt, c->id);
  x->n++;
  return true;
}

static void look_for_idle(struct router_cursors *all) {
  struct choice x = {.rt = all->rt, .idle_only = true, .idle_before_ms = clock_mono_ms() - all->rt->cursor_timeout_ms};
  map_each(all->by_id, kill_chosen, &x);
  all->timed_out += x.n;
}

void router_cursors_kill_session(struct router_cursors *all, const uint8_t lsid[16]) {
  struct choice x = {.rt = all->rt, .session_only = lsid != NULL};
  if (lsid != NULL) memcpy(x.lsid, lsid, sizeof x.lsid);
  map_each(all->by_id, kill_chosen, &x);
}

void router_cursors_status(const struct router_cursors *all, bson_t *out) {
  bson_t open;
  bson_append_int64(out, "timedOut", -1, all->timed_out);
  bson_append_int64(out, "totalOpened", -1, all->opened);
  bson_append_document_begin(out, "open", -1, &open);
  bson_append_int64(&open, "total", -1, (int64_t)map_count(all->by_id));
  bson_append_document_end(out, &open);
}
