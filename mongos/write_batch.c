// Which statements of a client's batch go to which shard, round by round.
#include "mongos/write_batch.h"

#include <string.h>

// What a statement takes in a child besides its own bytes: an array element's type and key, with a retryable write also
// that of its stmtId. An unordered child's reply may hold an error for each of its statements.
enum { ELEMENT_BYTES = 7, STMT_ID_BYTES = 4 + 7, ERROR_BYTES = 272 };

enum {
  ROUNDS_WITHOUT_PROGRESS = 5, // in a row, by a placement that was tried before
  ROUNDS_WITHOUT_END = 40,     // in a row by whatever placement; most of them wait a second
};

struct batch *batch_new(struct arena *a, bool ordered, bool retryable, size_t n) {
  struct batch *b = arena_zalloc(a, sizeof *b);
  *b = (struct batch){.arena = a, .ordered = ordered, .retryable = retryable, .n = n};
  b->ops = arena_zalloc(a, (n > 0 ? n : 1) * sizeof *b->ops);
  return b;
}

static void settle(struct batch *b, struct batch_op *o, enum write_state state) {
  if (o->state < WRITE_DONE) b->settled++;
  o->state = state;
}

static size_t cost(const struct batch *b, size_t op) {
  size_t bytes = b->ops[op].bytes;
  if (!b->ordered && bytes < ERROR_BYTES) bytes = ERROR_BYTES;
  return bytes + ELEMENT_BYTES + (b->retryable ? STMT_ID_BYTES : 0);
}

static bool same_versions(const struct target *a, const struct target *b) {
  if (a->versioned != b->versioned || a->db_versioned != b->db_versioned) return false;
  if (a->versioned && !chunk_version_equal(&a->version, &b->version)) return false;
  return !a->db_versioned || database_version_equal(&a->db_version, &b->db_version);
}

static bool same_shard(const struct target *a, const struct target *b) {
  return a->shard == b->shard || (a->shard != NULL && b->shard != NULL && strcmp(a->shard, b->shard) == 0);
}

static struct batch_child *child_for(struct batch_round *round, const struct target *t) {
  for (size_t i = 0; i < round->n; i++) {
    if (same_shard(&round->children[i].target, t)) return &round->children[i];
  }
  return NULL;
}

static bool has_room(const struct batch *b, const struct batch_child *c, size_t op) {
  return c->n < BATCH_CHILD_MAX_OPS && c->bytes + cost(b, op) <= BATCH_CHILD_MAX_BYTES;
}

// Whether each of the statement's shards can take it in this round.
static bool fits(const struct batch *b, struct batch_round *round, const struct batch_targeting *t, size_t op) {
  for (size_t i = 0; i < t->n; i++) {
    const struct batch_child *c = child_for(round, &t->targets[i]);
    if (c != NULL && (!has_room(b, c, op) || !same_versions(&c->target, &t->targets[i]))) return false;
  }
  return true;
}

static struct batch_child *add_child(struct batch_round *round, struct arena *a, const struct target *t) {
  round->children = arena_grow(a, round->children, round->n, &round->cap, sizeof *round->children);
  struct batch_child *c = &round->children[round->n++];
  *c = (struct batch_child){.target = *t};
  return c;
}

static void put(struct batch *b, struct arena *a, struct batch_round *round, const struct target *t, size_t op) {
  struct batch_child *c = child_for(round, t);
  if (c == NULL) c = add_child(round, a, t);
  c->ops = arena_grow(a, c->ops, c->n, &c->cap, sizeof *c->ops);
  c->ops[c->n++] = op;
  c->bytes += cost(b, op);
  b->ops[op].awaiting++;
}

static bool done_on(const struct batch_op *o, const char *shard) {
  for (uint32_t i = 0; i < o->n_done_on; i++) {
    if (strcmp(o->done_on[i], shard) == 0) return true;
  }
  return false;
}

// Leaves out the shards that executed the statement in an earlier round.
static void drop_done(const struct batch_op *o, struct batch_targeting *t) {
  size_t kept = 0;
  for (size_t i = 0; i < t->n; i++) {
    if (t->targets[i].shard == NULL || !done_on(o, t->targets[i].shard)) t->targets[kept++] = t->targets[i];
  }
  t->n = kept;
}

static void assign(struct batch *b, struct arena *a, struct batch_round *round, const struct batch_targeting *t,
                   size_t op) {
  struct batch_op *o = &b->ops[op];
  o->state = WRITE_SENT;
  o->again = false;
  o->only_one = t->only_one;
  for (size_t i = 0; i < t->n; i++) put(b, a, round, &t->targets[i], op);
}

enum step { STEP_NEXT, STEP_END };

static enum step take_alone(struct batch *b, struct batch_round *round, size_t op) {
  if (round->n > 0) return b->ordered ? STEP_END : STEP_NEXT; // it waits for a round of its own
  b->ops[op].state = WRITE_SENT;
  round->alone = true;
  round->op = op;
  return STEP_END;
}

static enum step take_ordered(struct batch *b, struct arena *a, struct batch_round *round,
                              const struct batch_targeting *t, size_t op) {
  if (round->n > 0 && (t->n > 1 || child_for(round, &t->targets[0]) == NULL || !fits(b, round, t, op))) return STEP_END;
  assign(b, a, round, t, op);
  return t->n > 1 ? STEP_END : STEP_NEXT;
}

static enum step take_unordered(struct batch *b, struct arena *a, struct batch_round *round,
                                const struct batch_targeting *t, size_t op) {
  if (fits(b, round, t, op)) assign(b, a, round, t, op);
  return STEP_NEXT;
}

bool batch_next(struct batch *b, struct arena *a, batch_target_fn target, batch_fail_fn fail, void *ctx,
                struct batch_round *round) {
  *round = (struct batch_round){0};
  while (b->first_ready < b->n && b->ops[b->first_ready].state >= WRITE_DONE) b->first_ready++;
  bool any = false;
  for (size_t op = b->first_ready; op < b->n; op++) {
    if (b->ops[op].state != WRITE_READY) continue;
    struct batch_targeting t = {0};
    struct error err = {0};
    if (!target(ctx, op, &t, &err)) {
      if (b->ordered && round->n > 0) return true; // what comes before it is sent first
      any = true;
      if (!fail(ctx, op, &err)) return true; // it is to be routed again, from newer placement
      batch_fail(b, op);
      if (b->ordered) return true;
      continue;
    }
    any = true;
    drop_done(&b->ops[op], &t);
    if (t.n == 0 && !t.alone) {
      settle(b, &b->ops[op], WRITE_DONE);
      continue;
    }
    enum step step = t.alone      ? take_alone(b, round, op)
                     : b->ordered ? take_ordered(b, a, round, &t, op)
                                  : take_unordered(b, a, round, &t, op);
    if (step == STEP_END) return true;
  }
  return any;
}

// Whether a shard that executed the statement must not get it again when it has to be sent once more to others.
static bool executed_for_good(const struct batch *b, const struct batch_op *o, enum child_match match) {
  if (o->only_one && match == MATCH_NONE) return false; // it may move to that shard before the next round
  if (o->only_one && match == MATCH_UNKNOWN && b->retryable) return false; // the shard would answer from its record
  return true;
}

static void note_done_on(struct batch *b, struct batch_op *o, const char *shard) {
  const char **more = arena_alloc(b->arena, (o->n_done_on + 1) * sizeof *more);
  if (o->n_done_on > 0) memcpy(more, o->done_on, o->n_done_on * sizeof *more);
  more[o->n_done_on++] = arena_strdup(b->arena, shard);
  o->done_on = more;
}

void batch_child_op(struct batch *b, size_t op, const char *shard, enum child_outcome outcome, enum child_match match) {
  struct batch_op *o = &b->ops[op];
  if (o->state != WRITE_SENT) return;
  if (outcome == CHILD_ERROR) {
    batch_fail(b, op);
    return;
  }
  if (outcome == CHILD_EXECUTED) {
    if (match == MATCH_FOUND) o->matched = true;
    bool others = o->awaiting > 1 || o->again;
    if (shard != NULL && others && executed_for_good(b, o, match)) note_done_on(b, o, shard);
  } else {
    o->again = true;
  }
  if (--o->awaiting > 0) return;
  if (o->again && !(o->only_one && o->matched)) {
    o->state = WRITE_READY;
  } else {
    settle(b, o, WRITE_DONE);
  }
}

void batch_alone_done(struct batch *b, size_t op, bool again) {
  if (again) {
    b->ops[op].state = WRITE_READY;
  } else {
    settle(b, &b->ops[op], WRITE_DONE);
  }
}

void batch_fail(struct batch *b, size_t op) {
  settle(b, &b->ops[op], WRITE_FAILED);
  if (!b->ordered) return;
  for (size_t i = op + 1; i < b->n; i++) {
    if (b->ops[i].state < WRITE_DONE) settle(b, &b->ops[i], WRITE_FAILED);
  }
}

bool batch_patient(struct batch_patience *p, size_t settled, bool new_route) {
  p->stuck = settled > p->settled ? 0 : p->stuck + 1;
  p->same = p->stuck == 0 || new_route ? 0 : p->same + 1;
  p->settled = settled;
  return p->same < ROUNDS_WITHOUT_PROGRESS && p->stuck <= ROUNDS_WITHOUT_END;
}
