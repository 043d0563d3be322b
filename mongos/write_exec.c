// Executing a batch of writes: round after round of children until every statement is done or failed.
//
// A child that a shard refuses as stale leaves its statements ready; the cache is told, and the next round routes them
// anew. When a shard cannot be reached, a retryable command fails as a whole (its repetition is answered from the
// shards' records), any other one fails by the statements concerned.
#include <string.h>

#include "common/bson/doc.h"
#include "mongos/routing_cache.h"
#include "mongos/shard_call.h"
#include "mongos/two_phase.h"
#include "mongos/write_error.h"

// What a round was routed by.
struct route_seen {
  enum placement_kind kind;
  struct database_version db;
  struct chunk_version version;
};

struct execution {
  struct request *r;
  const struct write_command *w;
  struct write_result *out;
  struct batch *batch;
  struct arena *scratch; // of targeting
  struct arena *outer;   // the request's arena; op->arena is the round's meanwhile
  const struct placement *p;
  struct route_seen seen;         // of the last round
  bool new_route;                 // ... which no round before had been routed by
  struct write_targeter targeter; // of this round
  bool placement_renewed;         // once, because of a statement that could not be routed
  bool renew;                     // ... is to be done now
  int rounds;
};

// --- making children ---

static bool in_one_piece(const struct write_statement *s, const struct batch_child *c) {
  for (size_t i = 1; i < c->n; i++) {
    const struct write_statement *last = &s[c->ops[i - 1]], *next = &s[c->ops[i]];
    if (last->data + last->len != next->data) return false;
  }
  return true;
}

// The child's statements as a section: the client's own bytes when they stand together there, else copied together.
static void child_sequence(const struct execution *x, const struct batch_child *c, struct sequence *out) {
  const struct write_statement *s = x->w->statements;
  *out = (struct sequence){.name = write_statements_field(x->w->kind), .count = c->n};
  for (size_t i = 0; i < c->n; i++) out->len += s[c->ops[i]].len;
  if (in_one_piece(s, c)) {
    out->data = s[c->ops[0]].data;
    return;
  }
  uint8_t *to = arena_alloc(x->r->op->arena, out->len);
  out->data = to;
  for (size_t i = 0; i < c->n; i++) {
    memcpy(to, s[c->ops[i]].data, s[c->ops[i]].len);
    to += s[c->ops[i]].len;
  }
}

// A shard numbers statements by their place, so only other numbers have to be said.
static bool needs_stmt_ids(const struct execution *x, const struct batch_child *c) {
  for (size_t i = 0; i < c->n; i++) {
    if (x->w->statements[c->ops[i]].stmt_id != (int32_t)i) return true;
  }
  return false;
}

static bson_t *child_body(const struct execution *x, const struct batch_child *c) {
  bson_t *body = arena_bson(x->r->op->arena), ids;
  bson_concat(body, x->w->base);
  if (!x->r->has_txn_number || !needs_stmt_ids(x, c)) return body;
  bson_append_array_begin(body, "stmtIds", -1, &ids);
  for (size_t i = 0; i < c->n; i++) {
    char text[16];
    const char *key;
    size_t len = bson_uint32_to_string((uint32_t)i, &key, text, sizeof text);
    bson_append_int32(&ids, key, (int)len, x->w->statements[c->ops[i]].stmt_id);
  }
  bson_append_array_end(body, &ids);
  return body;
}

// --- reading answers ---

static void note(struct execution *x, const struct batch_child *c, size_t i, enum child_outcome outcome,
                 enum child_match match) {
  batch_child_op(x->batch, c->ops[i], c->target.shard, outcome, match);
}

static void stale(struct execution *x, const struct error *err) {
  stale_learn(router_of(x->r), x->p, err);
}

// The errors of a reply, by the child's numbers: NULL where there is none.
static struct error **errors_by_number(struct execution *x, const struct batch_child *c, const bson_t *reply) {
  struct arena *a = x->r->op->arena;
  bson_t list, entry;
  bson_iter_t it;
  if (!doc_doc(reply, "writeErrors", &list) || !bson_iter_init(&it, &list)) return NULL;
  struct error **errors = arena_zalloc(a, c->n * sizeof *errors);
  while (bson_iter_next(&it)) {
    struct error *e = arena_zalloc(a, sizeof *e);
    int64_t index;
    iter_doc(&entry, &it);
    write_error_parse(a, &entry, &index, e);
    if (index >= 0 && (size_t)index < c->n) errors[index] = e;
  }
  return errors;
}

static void digest_reply(struct execution *x, const struct batch_child *c, const bson_t *reply) {
  write_result_add(x->out, reply, c->ops, c->n, c->target.shard);
  struct error **errors = errors_by_number(x, c, reply);
  enum child_match match = c->n > 1 ? MATCH_UNKNOWN : doc_i64(reply, "n", 0) > 0 ? MATCH_FOUND : MATCH_NONE;
  bool stopped = false; // an ordered child executes nothing after an error
  for (size_t i = 0; i < c->n; i++) {
    const struct error *e = errors != NULL ? errors[i] : NULL;
    if (stopped) {
      note(x, c, i, CHILD_NOT_REACHED, MATCH_NONE);
    } else if (e == NULL) {
      note(x, c, i, CHILD_EXECUTED, match);
    } else if (stale_is(e)) {
      stale(x, e);
      note(x, c, i, CHILD_STALE, MATCH_NONE);
    } else {
      write_result_error(x->out, c->ops[i], e);
      note(x, c, i, CHILD_ERROR, MATCH_NONE);
    }
    stopped = stopped || (e != NULL && x->w->ordered);
  }
}

// Whether the failure of a child is the failure of the command: when a repetition by the client can repair it, when the
// operation itself has to end, or when the shard refused all that there is.
static bool fails_whole(const struct execution *x, const struct batch_round *round, const struct shard_call *call) {
  if (error_is_network(call->err.code)) return x->r->has_txn_number;
  if (error_is_interruption(call->err.code)) return true;
  return x->rounds == 1 && round->n == 1 && round->children[0].n == x->w->n;
}

static bool digest_failure(struct execution *x, const struct batch_round *round, const struct batch_child *c,
                           const struct shard_call *call, struct error *err) {
  if (stale_is(&call->err)) {
    stale(x, &call->err);
    for (size_t i = 0; i < c->n; i++) note(x, c, i, CHILD_STALE, MATCH_NONE);
    return true;
  }
  if (fails_whole(x, round, call)) {
    error_copy(err, &call->err, x->outer);
    return false;
  }
  for (size_t i = 0; i < c->n; i++) {
    if (i > 0 && x->w->ordered) break; // they failed with the first one
    write_result_error(x->out, c->ops[i], &call->err);
    note(x, c, i, CHILD_ERROR, MATCH_NONE);
  }
  return true;
}

static bool run_children(struct execution *x, const struct batch_round *round, struct error *err) {
  struct arena *a = x->r->op->arena;
  struct shard_call *calls = arena_zalloc(a, round->n * sizeof *calls);
  struct sequence *sequences = arena_zalloc(a, round->n * sizeof *sequences);
  for (size_t i = 0; i < round->n; i++) {
    const struct batch_child *c = &round->children[i];
    child_sequence(x, c, &sequences[i]);
    calls[i] = (struct shard_call){
        .target = c->target, .body = child_body(x, c), .sequences = &sequences[i], .n_sequences = 1, .db = x->w->db};
  }
  shard_calls_run(x->r, x->r->op, calls, round->n, CALL_WRITE);
  bool ok = true;
  for (size_t i = 0; i < round->n; i++) {
    const struct batch_child *c = &round->children[i];
    if (calls[i].ok) {
      digest_reply(x, c, calls[i].reply);
    } else if (ok) {
      ok = digest_failure(x, round, c, &calls[i], err);
    }
  }
  return ok;
}

static bool run_alone(struct execution *x, size_t op, struct error *err) {
  struct error e = {0};
  if (two_phase_write(x->r, x->w, op, x->p, x->out, &e)) {
    batch_alone_done(x->batch, op, false);
    return true;
  }
  if (stale_is(&e)) {
    stale(x, &e);
    batch_alone_done(x->batch, op, true);
    return true;
  }
  if ((error_is_network(e.code) && x->r->has_txn_number) || error_is_interruption(e.code)) {
    error_copy(err, &e, x->outer);
    return false;
  }
  write_result_error(x->out, op, &e);
  batch_fail(x->batch, op);
  return true;
}

// --- the rounds ---

static bool route(void *ctx, size_t op, struct batch_targeting *out, struct error *err) {
  return write_target(&((struct execution *)ctx)->targeter, op, out, err);
}

static bool cannot_route(void *ctx, size_t op, const struct error *err) {
  struct execution *x = ctx;
  if (!x->placement_renewed && x->p->kind == PLACE_CHUNKS) {
    x->placement_renewed = x->renew = true; // perhaps the shard key is another one by now
    return false;
  }
  write_result_error(x->out, op, err);
  return true;
}

static void fail_the_rest(struct execution *x, int stuck) {
  struct error err;
  error_set(
      &err, ERR_NoProgressMade,
      "no progress was made executing batch write op in %s after %d rounds (%zu ops completed in %d rounds total)",
      x->w->ns, stuck - 1, x->batch->settled, x->rounds);
  for (size_t i = 0; i < x->batch->n; i++) {
    if (x->batch->ops[i].state != WRITE_READY) continue;
    write_result_error(x->out, i, &err);
    batch_fail(x->batch, i);
  }
}

static enum targeted_family family_of(enum write_kind kind) {
  return kind == WRITE_INSERT ? TARGETED_INSERT : kind == WRITE_UPDATE ? TARGETED_UPDATE : TARGETED_DELETE;
}

static void note_route(struct execution *x, const struct placement *p) {
  struct route_seen now = {.kind = p->kind, .db = p->db_version, .version = chunk_version_unsharded()};
  if (p->routing && p->routing->tracked) now.version = chunk_map_version(p->routing->chunks);
  const struct route_seen *was = &x->seen;
  x->new_route = x->rounds == 0 || was->kind != now.kind || !database_version_equal(&was->db, &now.db) ||
                 !chunk_version_equal(&was->version, &now.version);
  x->seen = now;
}

// One round in the round's own arena. *done: nothing is left.
static bool run_round(struct execution *x, bool *done, struct error *err) {
  struct router *rt = router_of(x->r);
  struct operation *op = x->r->op;
  struct placement p;
  if (!placement_get(op, rt, x->w->ns, x->w->creates, &p, err)) return false;
  *done = p.kind == PLACE_NOWHERE;
  if (*done) return true;
  x->p = &p;
  note_route(x, &p);
  x->rounds++;
  x->targeter = (struct write_targeter){.w = x->w, .p = &p, .scratch = x->scratch};
  struct batch_round round;
  bool ok = true;
  if (!batch_next(x->batch, op->arena, route, cannot_route, x, &round)) {
    *done = true;
  } else if (round.alone) {
    ok = run_alone(x, round.op, err);
  } else if (round.n > 0) {
    placement_count(rt, family_of(x->w->kind), &p, round.n);
    ok = run_children(x, &round, err);
  }
  if (ok && x->renew) routing_cache_invalidate(rt->cache, x->w->ns, p.routing, NULL);
  x->renew = false;
  x->p = NULL;
  return ok;
}

static bool run_rounds(struct execution *x, struct error *err) {
  struct operation *op = x->r->op;
  struct arena *of_round __attribute__((cleanup(arena_cleanup))) = arena_new();
  bool done = false;
  struct batch_patience patience = {0};
  while (!done) {
    struct error e = {0};
    op->arena = of_round;
    bool ok = run_round(x, &done, &e);
    op->arena = x->outer;
    if (!ok) error_copy(err, &e, x->outer);
    arena_reset(of_round);
    if (!ok) return false;
    bool patient = batch_patient(&patience, x->batch->settled, x->new_route);
    if (done) return true;
    if (!patient) {
      fail_the_rest(x, patience.stuck);
      return true;
    }
    if (patience.stuck > 0 && !stale_pause(op, patience.stuck - 1, err)) return false;
  }
  return true;
}

bool write_execute(struct request *r, const struct write_command *w, struct write_result *out, struct error *err) {
  struct arena *scratch __attribute__((cleanup(arena_cleanup))) = arena_new();
  struct execution x = {.r = r, .w = w, .out = out, .scratch = scratch, .outer = r->op->arena};
  x.batch = batch_new(x.outer, w->ordered, r->has_txn_number, w->n);
  for (size_t i = 0; i < w->n; i++) x.batch->ops[i].bytes = w->statements[i].len;
  return run_rounds(&x, err);
}
