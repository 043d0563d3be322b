// The daemon's half of the balancer: sends orders to the thread, keeps what it last reported.
#include "configsvr/balancer.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "configsvr/balancer_thread.h"

struct balancer {
  struct loop *loop;
  struct balancer_thread *thread;
  struct balancer_report last;
  uint64_t asked; // number of the last "where are you"
  struct event changed;
  bool drained; // the last message of an ended thread has been handled
};

static void *allocate(size_t size) {
  void *p = calloc(1, size);
  if (!p) log_fatal("BALANCER", "Out of memory", NULL);
  return p;
}

static struct balancer_order *order(struct balancer *b, enum balancer_order_kind what) {
  struct balancer_order *o = allocate(sizeof *o);
  o->to = b->thread;
  o->what = what;
  return o;
}

static void post(struct balancer *b, struct balancer_order *o) {
  loop_post(b->thread->loop, balancer_obey, o);
}

struct balancer *balancer_new(struct loop *l) {
  struct balancer *b = allocate(sizeof *b);
  struct balancer_thread *t = b->thread = allocate(sizeof *t);
  b->loop = l;
  t->loop = loop_new();
  t->daemon_loop = l;
  t->daemon = b;
  t->report.to = b;
  if (uv_thread_create(&t->id, balancer_thread_run, t) != 0)
    log_fatal("BALANCER", "The balancer's thread could not be started", NULL);
  return b;
}

static void join(void *arg) {
  uv_thread_join(arg);
}

static void mark_drained(void *arg) {
  struct balancer *b = arg;
  b->drained = true;
  event_signal(&b->changed);
}

void balancer_free(struct operation *op, struct balancer *b) {
  if (!b) return;
  post(b, order(b, ORDER_QUIT));
  op_run_in_pool(op, join, &b->thread->id);
  loop_post(b->loop, mark_drained, b); // behind everything the thread has posted
  struct error err = {0};
  while (!b->drained && event_wait(op, &b->changed, &err)) {
  }
  if (!b->drained) return; // shutting down in a hurry: what is still posted needs its memory
  loop_free(b->thread->loop);
  free(b->thread);
  free(b);
}

void balancer_start(struct balancer *b, int64_t term, const char *config_string) {
  if (!b) return;
  log_info("BALANCER", "Balancer command scheduler start requested", "term:l", term);
  struct balancer_order *o = order(b, ORDER_START);
  o->term = term;
  o->config = strdup(config_string);
  post(b, o);
}

void balancer_stop(struct balancer *b) {
  if (b) post(b, order(b, ORDER_STOP));
}

void balancer_wake(struct balancer *b) {
  if (b) post(b, order(b, ORDER_WAKE));
}

void balancer_apply_report(void *report) {
  struct balancer_report *r = report;
  struct balancer *b = r->to;
  b->last = *r;
  free(r);
  event_signal(&b->changed);
}

struct balancer_state balancer_state(const struct balancer *b) {
  return b ? b->last.state : (struct balancer_state){0};
}

static bool refuse_shutdown(struct error *err) {
  return error_set(err, ERR_ShutdownInProgress, "The config server is shutting down");
}

bool balancer_wait_for_round(struct operation *op, struct balancer *b, struct error *err) {
  if (!b) return refuse_shutdown(err);
  struct balancer_order *o = order(b, ORDER_WHERE);
  uint64_t number = o->number = ++b->asked;
  post(b, o);
  while (b->last.answered < number) { // ends: the thread answers at its next turn
    if (!event_wait(op, &b->changed, err)) return false;
  }
  uint64_t round = b->last.round;
  while (b->last.state.in_round && b->last.round == round) {
    if (!event_wait(op, &b->changed, err)) return false;
  }
  return true;
}

void balancer_take_answer(void *question) {
  struct balancer_question *q = question;
  if (q->abandoned) {
    free(q);
    return;
  }
  q->answered = true;
  event_signal(&q->asker->changed);
}

bool balancer_ask(struct operation *op, struct balancer *b, const char *ns, struct collection_balance *out,
                  struct error *err) {
  if (!b) return refuse_shutdown(err);
  struct balancer_question *q = allocate(sizeof *q);
  q->asker = b;
  (void)snprintf(q->ns, sizeof q->ns, "%s", ns);
  struct balancer_order *o = order(b, ORDER_ASK);
  o->question = q;
  post(b, o);
  while (!q->answered) {
    if (event_wait(op, &b->changed, err)) continue;
    q->abandoned = true; // whoever brings the answer frees it
    return false;
  }
  bool ok = q->ok;
  if (ok) *out = q->answer;
  if (!ok) *err = q->err;
  free(q);
  return ok;
}
