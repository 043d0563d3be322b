// The connections to one host: idle ones, the last used first, busy ones, and those that are being made.
#include "common/net/pool.h"

#include <stdlib.h>

struct pool {
  struct channel *idle, *busy;
  struct opening *openings;
  size_t n_idle, n_busy, n_openings;
  size_t n_reserved; // calls between reserve and check_in
  struct event freed;
};

static void list_add(struct channel **list, struct channel *c) {
  c->prev = NULL;
  c->next = *list;
  if (c->next) c->next->prev = c;
  *list = c;
}

static void list_remove(struct channel **list, struct channel *c) {
  if (c->next) c->next->prev = c->prev;
  if (c->prev)
    c->prev->next = c->next;
  else
    *list = c->next;
}

struct pool *pool_new(void) {
  size_t cap = 0;
  return array_grow(NULL, &cap, 1, sizeof(struct pool));
}

void pool_free(void *pool) {
  free(pool);
}

bool pool_reserve(struct operation *op, struct pool *p, int64_t until_ms, struct error *err) {
  while (p->n_reserved >= POOL_MAX) {
    bool timed_out;
    int64_t left = until_ms == INT64_MAX ? INT64_MAX : until_ms - loop_now_ms(op->loop);
    if (event_wait_for(op, &p->freed, left, &timed_out, err)) continue;
    return timed_out ? error_set(err, ERR_NetworkTimeout, "all %d connections are in use", POOL_MAX) : false;
  }
  p->n_reserved++;
  return true;
}

void pool_unreserve(struct pool *p) {
  p->n_reserved--;
  event_signal(&p->freed);
}

// An idle connection that ends takes itself out.
static void idle_failed(void *ctx, struct channel *c) {
  struct pool *p = ctx;
  list_remove(&p->idle, c);
  p->n_idle--;
  channel_close(c);
}

// Neither failed nor with bytes that nobody asked for, after which the two sides would disagree about where a message
// ends.
static bool clean(const struct channel *c) {
  return !c->fail_code && !c->early.len && !c->frame.bytes.len;
}

struct channel *pool_take_idle(struct pool *p) {
  while (p->idle && !clean(p->idle)) idle_failed(p, p->idle);
  struct channel *c = p->idle;
  if (!c) return NULL;
  list_remove(&p->idle, c);
  p->n_idle--;
  pool_add_busy(p, c);
  return c;
}

void pool_add_busy(struct pool *p, struct channel *c) {
  c->on_fail = NULL;
  list_add(&p->busy, c);
  p->n_busy++;
}

void pool_add_opening(struct pool *p, struct opening *o) {
  o->prev = NULL;
  o->next = p->openings;
  if (o->next) o->next->prev = o;
  p->openings = o;
  p->n_openings++;
}

void pool_remove_opening(struct pool *p, struct opening *o) {
  if (o->next) o->next->prev = o->prev;
  if (o->prev)
    o->prev->next = o->next;
  else
    p->openings = o->next;
  p->n_openings--;
}

void pool_check_in(struct pool *p, struct channel *c, bool usable) {
  list_remove(&p->busy, c);
  p->n_busy--;
  if (usable && clean(c) && p->n_idle < POOL_IDLE_MAX) {
    c->ctx = p;
    c->on_fail = idle_failed;
    list_add(&p->idle, c);
    p->n_idle++;
  } else {
    channel_close(c);
  }
  pool_unreserve(p);
}

void pool_close_idle(struct pool *p) {
  while (p->idle) idle_failed(p, p->idle);
}

void pool_fail_busy(struct pool *p, int32_t code, const char *text) {
  for (struct channel *c = p->busy; c; c = c->next) channel_fail(c, code, text);
  for (struct opening *o = p->openings; o; o = o->next) opening_fail(o, code, text);
}

size_t pool_busy(const struct pool *p) {
  return p->n_busy + p->n_openings;
}
