// The waits that end by time: a binary heap behind one timer of libuv. Setting a deadline costs no system call.
#include "common/net/timers.h"

#include "common/base/buf.h"

static void place(struct loop *l, struct wait *w, size_t i) {
  l->timed[i] = w;
  w->heap_at = i + 1;
}

static void sift_up(struct loop *l, struct wait *w, size_t i) {
  while (i > 0 && l->timed[(i - 1) / 2]->at_ms > w->at_ms) {
    place(l, l->timed[(i - 1) / 2], i);
    i = (i - 1) / 2;
  }
  place(l, w, i);
}

static void sift_down(struct loop *l, struct wait *w, size_t i) {
  for (;;) {
    size_t child = 2 * i + 1;
    if (child >= l->n_timed) break;
    if (child + 1 < l->n_timed && l->timed[child + 1]->at_ms < l->timed[child]->at_ms) child++;
    if (l->timed[child]->at_ms >= w->at_ms) break;
    place(l, l->timed[child], i);
    i = child;
  }
  place(l, w, i);
}

static void ring(uv_timer_t *timer);

// The timer is only ever set to something earlier. When its wait has gone it rings once for nothing.
static void set_timer(struct loop *l) {
  if (!l->n_timed || l->timed[0]->at_ms >= l->wait_timer_at) return;
  l->wait_timer_at = l->timed[0]->at_ms;
  int64_t ms = l->wait_timer_at - loop_now_ms(l);
  (void)uv_timer_start(&l->wait_timer, ring, ms > 0 ? (uint64_t)ms : 0, 0);
}

static void ring(uv_timer_t *timer) {
  struct loop *l = timer->data;
  int64_t now = loop_now_ms(l);
  l->wait_timer_at = INT64_MAX;
  while (l->n_timed && l->timed[0]->at_ms <= now) wait_end(l->timed[0], WAIT_TIMED_OUT);
  set_timer(l);
}

void timers_init(struct loop *l) {
  (void)uv_timer_init(&l->uv, &l->wait_timer);
  l->wait_timer.data = l;
  l->wait_timer_at = INT64_MAX;
}

void timers_close(struct loop *l) {
  uv_close((uv_handle_t *)&l->wait_timer, NULL);
}

void timers_add(struct loop *l, struct wait *w) {
  l->timed = array_grow(l->timed, &l->cap_timed, l->n_timed + 1, sizeof(struct wait *));
  sift_up(l, w, l->n_timed++);
  set_timer(l);
}

void timers_remove(struct loop *l, struct wait *w) {
  if (!w->heap_at) return;
  size_t i = w->heap_at - 1;
  w->heap_at = 0;
  struct wait *last = l->timed[--l->n_timed];
  if (last == w) return;
  if (i > 0 && l->timed[(i - 1) / 2]->at_ms > last->at_ms)
    sift_up(l, last, i);
  else
    sift_down(l, last, i);
}
