// Cursors between their batches. See cursors.h.
#include "common/node/cursors.h"

#include <string.h>

#include "common/base/clock.h"
#include "common/base/map.h"
#include "common/bson/doc.h"
#include "common/node/internal.h"

struct cursors {
  struct map *by_id; // int64_t -> struct cursor
  int64_t timed_out, opened;
};

struct cursors *cursors_new(void) {
  struct cursors *all = calloc(1, sizeof *all);
  all->by_id = map_new();
  return all;
}

static void free_cursor(void *value) {
  struct cursor *c = value;
  arena_free(c->arena);
}

void cursors_free(struct node *n) {
  if (!n->cursors) return;
  map_free(n->cursors->by_id, free_cursor);
  free(n->cursors);
  n->cursors = NULL;
}

static void drop_cursor(struct node *n, struct cursor *c) {
  if (c->id) map_remove(n->cursors->by_id, &c->id, sizeof c->id);
  arena_free(c->arena);
}

// The command that uses a cursor frees it with its arena, unless it gave it back by then.
struct loan {
  struct node *node;
  struct cursor *cursor; // NULL: given back
};

static void end_loan(void *arg) {
  struct loan *l = arg;
  if (l->cursor) drop_cursor(l->node, l->cursor);
}

static void lend(struct request *r, struct cursor *c) {
  struct loan *l = arena_zalloc(r->op->arena, sizeof *l);
  *l = (struct loan){.node = request_node(r), .cursor = c};
  c->user = r->op;
  c->loan = l;
  arena_on_free(r->op->arena, end_loan, l);
}

struct cursor *cursor_new(struct request *r, const char *ns) {
  struct arena *a = arena_new();
  struct cursor *c = arena_zalloc(a, sizeof *c);
  c->arena = a;
  c->ns = arena_strdup(a, ns);
  c->command = doc_copy(a, r->body);
  c->created_wall_ms = clock_wall_ms();
  c->has_lsid = r->has_lsid;
  memcpy(c->lsid, r->lsid, sizeof c->lsid);
  c->no_timeout = doc_bool(r->body, "noCursorTimeout", false);
  lend(r, c);
  return c;
}

static int64_t new_id(struct cursors *all) {
  int64_t id;
  do {
    id = (int64_t)(random_u64() >> 1);
  } while (id == 0 || map_get(all->by_id, &id, sizeof id));
  return id;
}

// Puts the cursor into the table, or back to rest in it.
static void give_back(struct node *n, struct cursor *c) {
  if (c->save) c->save(c->ctx);
  if (!c->id) {
    c->id = new_id(n->cursors);
    map_put(n->cursors->by_id, &c->id, sizeof c->id, c);
    n->cursors->opened++;
  }
  c->last_used_ms = clock_mono_ms();
  c->user = NULL;
  c->loan->cursor = NULL;
  c->loan = NULL;
}

static void finish(struct node *n, struct cursor *c) {
  c->loan->cursor = NULL;
  drop_cursor(n, c);
}

// Appends documents to the array until it is full. *more: the cursor may have further ones.
static bool fill_batch(struct operation *op, struct cursor *c, int64_t batch_size, bson_t *batch, bool *more,
                       struct error *err) {
  *more = true;
  for (uint32_t i = 0; i < batch_size; i++) {
    const bson_t *doc = c->unread;
    if (!doc && !c->next(op, c->ctx, &doc, err)) return false;
    if (!doc) {
      *more = false;
      return true;
    }
    if (i > 0 && batch->len + doc->len + 16 > CURSOR_BATCH_BYTES) {
      if (c->unread) return true;
      if (c->held)
        arena_reset(c->held);
      else
        c->held = arena_child(c->arena);
      c->unread = doc_copy(c->held, doc);
      return true;
    }
    char text[16];
    const char *key;
    size_t len = bson_uint32_to_string(i, &key, text, sizeof text);
    bson_append_document(batch, key, (int)len, doc);
    c->unread = NULL;
    c->returned++;
  }
  if (c->at_end && !c->unread && c->at_end(c->ctx)) *more = false;
  return true;
}

static void append_cursor(bson_t *reply, const char *batch_name, const bson_t *batch, int64_t id, const char *ns) {
  bson_t doc;
  BSON_APPEND_DOCUMENT_BEGIN(reply, "cursor", &doc);
  BSON_APPEND_ARRAY(&doc, batch_name, batch);
  BSON_APPEND_INT64(&doc, "id", id);
  BSON_APPEND_UTF8(&doc, "ns", ns);
  bson_append_document_end(reply, &doc);
}

bool cursor_reply(struct request *r, struct cursor *c, int64_t batch_size, bool single, bson_t *reply,
                  struct error *err) {
  bson_t *batch = arena_bson(r->op->arena);
  bool more;
  if (!fill_batch(r->op, c, batch_size, batch, &more, err)) return false;
  bool keep = more && !single;
  const char *ns = arena_strdup(r->op->arena, c->ns);
  int64_t id = 0;
  if (keep) {
    give_back(request_node(r), c);
    id = c->id;
  } else {
    finish(request_node(r), c);
  }
  append_cursor(reply, "firstBatch", batch, id, ns);
  return true;
}

bool cursor_batch_size(const bson_t *command, bool required, int64_t *batch_size, struct error *err) {
  bson_iter_t it, size;
  *batch_size = CURSOR_FIRST_BATCH;
  if (!doc_get(command, "cursor", &it) || BSON_ITER_HOLDS_NULL(&it)) {
    if (!required) return true;
    return error_set(err, ERR_FailedToParse,
                     "The 'cursor' option is required, except for aggregate with the explain argument");
  }
  if (!BSON_ITER_HOLDS_DOCUMENT(&it))
    return error_set(err, ERR_TypeMismatch, "cursor field must be missing or an object");
  bson_iter_recurse(&it, &size);
  if (!bson_iter_find(&size, "batchSize")) return true;
  if (!iter_is_number(&size)) return error_set(err, ERR_TypeMismatch, "cursor.batchSize must be a number");
  *batch_size = iter_i64(&size);
  if (*batch_size < 0) return error_set(err, ERR_BadValue, "cursor.batchSize must not be negative");
  return true;
}

// --- a cursor over documents that exist already ---

struct array_source {
  struct arena *arena;
  const bson_t *docs;
  bson_iter_t at;
};

static bool next_of_array(struct operation *op, void *ctx, const bson_t **doc, struct error *err) {
  struct array_source *s = ctx;
  *doc = bson_iter_next(&s->at) ? iter_child(s->arena, &s->at) : NULL;
  return true;
}

static bool array_at_end(const void *ctx) {
  bson_iter_t rest = ((const struct array_source *)ctx)->at;
  return !bson_iter_next(&rest);
}

void cursor_from_array(struct cursor *c, const bson_t *docs) {
  struct array_source *s = arena_zalloc(c->arena, sizeof *s);
  s->arena = c->arena;
  s->docs = docs;
  bson_iter_init(&s->at, docs);
  c->next = next_of_array;
  c->at_end = array_at_end;
  c->ctx = s;
}

// --- getMore ---

static struct cursor *find_for_get_more(struct request *r, int64_t id, const char *ns, struct error *err) {
  struct node *n = request_node(r);
  struct cursor *c = map_get(n->cursors->by_id, &id, sizeof id);
  if (!c) {
    error_set(err, ERR_CursorNotFound, "cursor id %lld not found", (long long)id);
    return NULL;
  }
  if (c->user) {
    error_set(err, ERR_CursorInUse, "cursor id %lld is already in use", (long long)id);
    return NULL;
  }
  if (strcmp(c->ns, ns)) {
    error_set(err, ERR_Unauthorized,
              "Requested getMore on namespace '%s', but cursor belongs to a different namespace %s", ns, c->ns);
    return NULL;
  }
  return c;
}

bool cursor_get_more(struct request *r, bson_t *reply, struct error *err) {
  struct node *n = request_node(r);
  bson_iter_t first = r->first;
  if (!BSON_ITER_HOLDS_INT64(&first) && !BSON_ITER_HOLDS_INT32(&first)) {
    return error_set(err, ERR_TypeMismatch, "Field 'getMore' must be of type long");
  }
  const char *collection = doc_str(r->body, "collection", NULL);
  if (!collection)
    return error_set(err, ERR_NoSuchKey, "BSON field 'getMore.collection' is missing but a required field");
  int64_t batch_size = 0;
  if (!optional_count(r->body, "batchSize", &batch_size, err)) return false;
  if (batch_size == 0) batch_size = INT64_MAX;
  const char *ns = arena_printf(r->op->arena, "%s.%s", r->db, collection);
  struct cursor *c = find_for_get_more(r, iter_i64(&first), ns, err);
  if (!c) return false;
  n->own->ops.getmore++;
  lend(r, c);
  bson_t *batch = arena_bson(r->op->arena);
  bool more;
  if (!fill_batch(r->op, c, batch_size, batch, &more, err)) return false;
  int64_t id = 0;
  if (more && !c->killed) {
    id = c->id;
    give_back(n, c);
  } else {
    finish(n, c);
  }
  append_cursor(reply, "nextBatch", batch, id, ns);
  return true;
}

// --- ending cursors ---

// One in use is left to its command, which ends at its next wait.
static void kill_cursor(struct node *n, struct cursor *c, int32_t code) {
  c->killed = true;
  if (c->user) {
    operation_kill(c->user, code);
  } else {
    drop_cursor(n, c);
  }
}

bool cursor_kill_command(struct request *r, bson_t *reply, struct error *err) {
  struct node *n = request_node(r);
  bson_iter_t it, id;
  if (!doc_get(r->body, "cursors", &it) || !BSON_ITER_HOLDS_ARRAY(&it)) {
    return error_set(err, ERR_BadValue, "Field 'cursors' must be an array of cursor ids");
  }
  bson_t *killed = arena_bson(r->op->arena), *missing = arena_bson(r->op->arena), *none = arena_bson(r->op->arena);
  uint32_t n_killed = 0, n_missing = 0;
  bson_iter_recurse(&it, &id);
  while (bson_iter_next(&id)) {
    int64_t value = iter_i64(&id);
    struct cursor *c = map_get(n->cursors->by_id, &value, sizeof value);
    char text[16];
    const char *key;
    bson_uint32_to_string(c ? n_killed++ : n_missing++, &key, text, sizeof text);
    BSON_APPEND_INT64(c ? killed : missing, key, value);
    if (c) kill_cursor(n, c, ERR_CursorNotFound);
  }
  BSON_APPEND_ARRAY(reply, "cursorsKilled", killed);
  BSON_APPEND_ARRAY(reply, "cursorsNotFound", missing);
  BSON_APPEND_ARRAY(reply, "cursorsAlive", none);
  BSON_APPEND_ARRAY(reply, "cursorsUnknown", none);
  return true;
}

struct expiry {
  struct node *node;
  int64_t now_ms;
  const uint8_t *lsid; // of a session that ends; NULL: by age
};

static bool expire_one(void *ctx, const void *key, size_t len, void *value) {
  struct expiry *x = ctx;
  struct cursor *c = value;
  if (x->lsid) {
    if (c->has_lsid && !memcmp(c->lsid, x->lsid, sizeof c->lsid)) kill_cursor(x->node, c, ERR_CursorNotFound);
  } else if (!c->user && !c->no_timeout && x->now_ms - c->last_used_ms > CURSOR_TIMEOUT_MS) {
    x->node->cursors->timed_out++;
    drop_cursor(x->node, c);
  }
  return true;
}

void cursors_expire(struct node *n) {
  struct expiry x = {.node = n, .now_ms = clock_mono_ms()};
  map_each(n->cursors->by_id, expire_one, &x);
}

void cursors_kill_session(struct node *n, const uint8_t lsid[16]) {
  struct expiry x = {.node = n, .lsid = lsid};
  map_each(n->cursors->by_id, expire_one, &x);
}

struct visit {
  bool (*fn)(void *ctx, const struct cursor *c);
  void *ctx;
};

static bool visit_one(void *ctx, const void *key, size_t len, void *value) {
  struct visit *v = ctx;
  return v->fn(v->ctx, value);
}

void cursors_each(struct node *n, bool (*fn)(void *ctx, const struct cursor *c), void *ctx) {
  struct visit v = {.fn = fn, .ctx = ctx};
  map_each(n->cursors->by_id, visit_one, &v);
}

static bool count_untimed(void *ctx, const void *key, size_t len, void *value) {
  int64_t *n = ctx;
  *n += ((const struct cursor *)value)->no_timeout;
  return true;
}

void cursors_status(const struct node *n, bson_t *out) {
  int64_t untimed = 0;
  map_each(n->cursors->by_id, count_untimed, &untimed);
  bson_t open;
  BSON_APPEND_INT64(out, "timedOut", n->cursors->timed_out);
  BSON_APPEND_INT64(out, "totalOpened", n->cursors->opened);
  BSON_APPEND_DOCUMENT_BEGIN(out, "open", &open);
  BSON_APPEND_INT64(&open, "noTimeout", untimed);
  BSON_APPEND_INT64(&open, "pinned", 0);
  BSON_APPEND_INT64(&open, "total", (int64_t)map_count(n->cursors->by_id));
  bson_append_document_end(out, &open);
}
