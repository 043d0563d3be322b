// Operations: their life, their deadlines, how they are killed.
#include "common/net/operation.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/net/operation_internal.h"
#include "common/net/timers.h"

struct start {
  struct operation *op;
  void (*fn)(struct operation *op, void *arg);
  void *arg;
};

// In a block of its own, because a job may reset its arena.
struct operation_block {
  struct operation op;
  struct start start;
  char what[];
};

static void ring_add(struct loop *l, struct operation *op) {
  struct operation *first = l->operations;
  if (!first) {
    op->next = op->prev = l->operations = op;
    return;
  }
  struct operation *last = first->prev;
  op->next = first;
  op->prev = last;
  last->next = first->prev = op;
}

static void ring_remove(struct loop *l, struct operation *op) {
  struct operation *next = op->next, *prev = op->prev;
  if (next == op) {
    l->operations = NULL;
    return;
  }
  next->prev = prev;
  prev->next = next;
  if (l->operations == op) l->operations = next;
}

struct operation *operation_new(struct loop *l, struct arena *a, const char *what) {
  size_t cap = 0, len = strlen(what) + 1;
  struct operation_block *b = array_grow(NULL, &cap, 1, sizeof *b + len);
  memcpy(b->what, what, len);
  b->op = (struct operation){.loop = l,
                             .arena = a,
                             .deadline_ms = OPERATION_NO_DEADLINE,
                             .deadline_code = ERR_MaxTimeMSExpired,
                             .id = ++l->last_operation_id,
                             .what = b->what};
  ring_add(l, &b->op);
  return &b->op;
}

void operation_end(struct operation *op) {
  ring_remove(op->loop, op);
  free(op); // the first member of its block
}

void operation_has_thread(struct operation *op) {
  op->slice_start_us = clock_mono_us();
}

static void run_operation(void *arg) {
  struct start *s = arg;
  struct operation *op = s->op;
  struct arena *a = op->arena;
  operation_has_thread(op);
  s->fn(op, s->arg);
  operation_end(op);
  arena_free(a);
}

struct operation *operation_start(struct loop *l, const char *what, void (*fn)(struct operation *op, void *arg),
                                  void *arg) {
  struct operation *op = operation_new(l, arena_new(), what);
  struct start *s = &((struct operation_block *)op)->start;
  *s = (struct start){.op = op, .fn = fn, .arg = arg};
  op->fiber = fiber_start(l, what, run_operation, s);
  return op;
}

void operation_kill(struct operation *op, int32_t code) {
  if (!op->killed) op->killed = code;
  if (op->waiting) wait_end(op->waiting, WAIT_KILLED);
  if (!op->branches) return;
  // Branches are rarely deep: a branch's own branches are found when it is killed in turn.
  for (struct operation *o = op->next; o != op; o = o->next) {
    if (o->parent == op) operation_kill(o, code);
  }
}

void operations_each(struct loop *l, bool (*fn)(void *ctx, struct operation *op), void *ctx) {
  struct operation *op = l->operations;
  if (!op) return;
  do {
    struct operation *next = op->next;
    if (!fn(ctx, op)) return;
    op = next;
  } while (op != l->operations);
}

struct pick {
  int32_t code;
  bool (*wants)(void *ctx, const struct operation *op);
  void *ctx;
};

static bool kill_picked(void *ctx, struct operation *op) {
  const struct pick *p = ctx;
  if (!p->wants || p->wants(p->ctx, op)) operation_kill(op, p->code);
  return true;
}

void operations_kill(struct loop *l, int32_t code, bool (*pick)(void *ctx, const struct operation *op), void *ctx) {
  struct pick p = {.code = code, .wants = pick, .ctx = ctx};
  operations_each(l, kill_picked, &p);
}

struct operation *operation_find(struct loop *l, uint64_t id) {
  struct operation *op = l->operations;
  if (!op) return NULL;
  do {
    if (op->id == id) return op;
    op = op->next;
  } while (op != l->operations);
  return NULL;
}

void op_deadline_in(struct operation *op, int64_t ms, int32_t code) {
  int64_t now = loop_now_ms(op->loop);
  int64_t at = ms < OPERATION_NO_DEADLINE - now ? now + ms : OPERATION_NO_DEADLINE;
  if (at >= op->deadline_ms) return;
  op->deadline_ms = at;
  op->deadline_code = code;
}

static const char *kill_text(int32_t code) {
  switch (code) {
  case ERR_ClientDisconnect: return "operation was interrupted because a client disconnected";
  case ERR_MaxTimeMSExpired: return "operation exceeded time limit";
  case ERR_InterruptedAtShutdown: return "interrupted at shutdown";
  case ERR_InterruptedDueToReplStateChange:
    return "operation was interrupted because the replica set member changed its state";
  case ERR_CursorNotFound:
  case ERR_QueryPlanKilled: return "operation was interrupted because its cursor was killed";
  case ERR_NetworkTimeout: return "operation timed out";
  case ERR_NotWritablePrimary: return "operation was interrupted because this member is not primary any more";
  case ERR_PrimarySteppedDown: return "operation was interrupted because the primary stepped down";
  default: return "operation was interrupted";
  }
}

bool op_check(struct operation *op, struct error *err) {
  if (op->killed) return error_set(err, op->killed, "%s", kill_text(op->killed));
  if (op->deadline_ms > loop_now_ms(op->loop)) return true;
  return error_set(err, op->deadline_code, "%s", kill_text(op->deadline_code));
}
