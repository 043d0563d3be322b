// The balancer's thread: its loop, the operation of a term, and the orders that the daemon posts.
//
// At most one term's operation runs. An order to start in a later term while an earlier one still winds up is kept, and
// carried out when that has ended.
#include "configsvr/balancer_thread.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "configsvr/balancer_view.h"

enum { ASK_TIMEOUT_MS = 30000 };

static const char question_name[] = "BalancerStatus";

static void report(struct balancer_thread *t) {
  struct balancer_report *r = malloc(sizeof *r);
  if (!r) log_fatal("BALANCER", "Out of memory", NULL);
  *r = t->report;
  loop_post(t->daemon_loop, balancer_apply_report, r);
}

// --- a term: referred to by its operation and by questions that are being answered ---

static void routing_free(void *value) {
  routing_unref(value);
}

static void quit_when_idle(struct balancer_thread *t) {
  if (t->running || t->terms_alive > 0) return;
  remotes_close(t->remotes);
  loop_stop(t->loop);
}

void balancer_term_unref(struct balancer_term *term) {
  if (--term->refs > 0) return;
  struct balancer_thread *t = term->thread;
  map_free(term->routings, routing_free);
  shard_registry_free(term->shards);
  if (term->config) replica_set_unwatch(term->config);
  free(term);
  t->terms_alive--;
  if (t->quitting) quit_when_idle(t);
}

static struct balancer_term *term_new(struct balancer_thread *t, struct error *err) {
  struct balancer_term *term = calloc(1, sizeof *term);
  if (!term) log_fatal("BALANCER", "Out of memory", NULL);
  *term = (struct balancer_term){.refs = 1, .thread = t, .number = t->wanted_term, .last_merge_ms = clock_mono_ms()};
  t->terms_alive++;
  term->routings = map_new();
  term->config = replica_set_watch(t->loop, t->remotes, t->wanted_config, err);
  if (!term->config) {
    balancer_term_unref(term);
    return NULL;
  }
  term->shards = shard_registry_new(t->loop, t->remotes, term->config);
  return term;
}

// --- the term's operation ---

static void begin_round(struct balancer_thread *t) {
  t->woken = false;
  t->report.round++;
  t->report.state.in_round = true;
  report(t);
}

static void end_round(struct balancer_thread *t) {
  t->report.state.in_round = false;
  t->report.state.rounds++;
  report(t);
}

// Rounds until the operation is killed: at once after one that moved something, else after the interval or when woken.
static void rounds(struct operation *op, struct balancer_thread *t) {
  struct arena *terms = op->arena;
  struct error err = {0};
  while (op_check(op, &err) && t->wanted_term == t->term->number) {
    int64_t interval_ms = 0;
    bool moved = false, timed_out;
    op->arena = arena_new(); // a round's memory goes with the round
    begin_round(t);
    struct error why = {0};
    if (!balancer_round(op, t->term, &interval_ms, &moved, &why) && op_check(op, &err)) {
      log_warn("BALANCER", "Error during balancer round", "error:e", &why);
    }
    if (op->killed == ERR_BalancerInterrupted) op->killed = 0; // only the round was meant
    arena_free(op->arena);
    op->arena = terms;
    end_round(t);
    if (!moved && !t->woken) (void)event_wait_for(op, &t->wake, interval_ms, &timed_out, &err);
  }
}

static void run_term(struct operation *op, void *arg);

static void start_term(struct balancer_thread *t) {
  struct error err = {0};
  t->term = term_new(t, &err);
  if (t->term) {
    t->running = operation_start(t->loop, "Balancer", run_term, t);
  } else {
    log_error("BALANCER", "The balancer could not start", "error:e", &err);
  }
}

static void run_term(struct operation *op, void *arg) {
  struct balancer_thread *t = arg;
  int64_t number = t->term->number;
  log_info("BALANCER", "CSRS balancer is starting", "term:l", number);
  t->report.state = (struct balancer_state){.term = number};
  report(t);
  log_info("BALANCER", "Balancer worker thread initialised. Entering main loop.", NULL);
  rounds(op, t);
  log_info("BALANCER", "CSRS balancer is now stopped", "term:l", number);
  t->report.state = (struct balancer_state){0};
  report(t);
  struct balancer_term *ended = t->term;
  t->term = NULL;
  t->running = NULL;
  balancer_term_unref(ended);
  if (t->quitting) {
    quit_when_idle(t);
  } else if (t->wanted_term > number) {
    start_term(t);
  }
}

// --- questions ---

static void answer(struct operation *op, void *arg) {
  struct balancer_question *q = arg;
  struct balancer_term *term = q->term;
  struct loop *back = term->thread->daemon_loop;
  op_deadline_in(op, ASK_TIMEOUT_MS, ERR_ExceededTimeLimit);
  q->ok = balancer_evaluate(op, term, q->ns, &q->answer, &q->err);
  q->err.extra = NULL; // it lives in this thread's memory
  loop_post(back, balancer_take_answer, q);
  balancer_term_unref(term);
}

static void ask(struct balancer_thread *t, struct balancer_question *q) {
  q->term = t->term;
  if (t->term) {
    t->term->refs++;
    operation_start(t->loop, question_name, answer, q);
    return;
  }
  error_set(&q->err, ERR_NotWritablePrimary, "The balancer is not running on this member");
  loop_post(t->daemon_loop, balancer_take_answer, q);
}

static bool is_question(void *ctx, const struct operation *op) {
  return strcmp(op->what, question_name) == 0;
}

// --- orders ---

// Says which round runs. One that only looks (and may wait for a shard that is down) ends at once: whoever asks wants
// it over.
static void tell_where(struct balancer_thread *t, uint64_t number) {
  if (t->running && t->term->selecting) operation_kill(t->running, ERR_BalancerInterrupted);
  t->report.answered = number;
  report(t);
}

static void wake(struct balancer_thread *t) {
  t->woken = true;
  event_signal(&t->wake);
}

static void start(struct balancer_thread *t, struct balancer_order *o) {
  free(t->wanted_config);
  t->wanted_config = o->config;
  t->wanted_term = o->term;
  if (!t->running) start_term(t);
}

static void stop(struct balancer_thread *t) {
  t->wanted_term = 0;
  if (t->running) operation_kill(t->running, ERR_InterruptedDueToReplStateChange);
  operations_kill(t->loop, ERR_InterruptedDueToReplStateChange, is_question, NULL);
}

void balancer_obey(void *order) {
  struct balancer_order *o = order;
  struct balancer_thread *t = o->to;
  switch (o->what) {
  case ORDER_START: start(t, o); break;
  case ORDER_STOP: stop(t); break;
  case ORDER_WAKE: wake(t); break;
  case ORDER_WHERE: tell_where(t, o->number); break;
  case ORDER_ASK: ask(t, o->question); break;
  case ORDER_QUIT:
    t->quitting = true;
    stop(t);
    quit_when_idle(t);
    break;
  }
  free(o);
}

void balancer_thread_run(void *arg) {
  struct balancer_thread *t = arg;
  log_set_context("Balancer");
  t->remotes = remotes_new(t->loop, "Balancer");
  loop_run(t->loop);
  free(t->wanted_config);
}
