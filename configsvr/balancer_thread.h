// The balancer's thread: what belongs to it. Internal to the balancer's files.
#ifndef SHARDLET_CONFIGSVR_BALANCER_THREAD_H
#define SHARDLET_CONFIGSVR_BALANCER_THREAD_H

#include "common/net/remote.h"
#include "configsvr/balancer.h"

struct balancer_question { // made and freed by the daemon's thread; in between it belongs to the balancer's
  struct balancer *asker;
  struct balancer_term *term; // what is looked at
  char ns[256];
  struct collection_balance answer;
  struct error err;
  bool ok, answered, abandoned;
};

struct balancer_report { // from the balancer's thread to the daemon's
  struct balancer *to;
  struct balancer_state state;
  uint64_t round;    // number of the round that runs or ran last
  uint64_t answered; // number of the last "where are you" that this answers
};

struct balancer_term; // balancer_view.h

struct balancer_thread {
  // Set before the thread starts, never changed.
  uv_thread_t id;
  struct loop *loop, *daemon_loop;
  struct balancer *daemon; // only to be handed back in reports

  // From here on the thread's own.
  struct remotes *remotes;
  struct operation *running;  // the term's operation
  struct balancer_term *term; // what it works with; NULL when none runs
  size_t terms_alive;         // terms that somebody still refers to
  int64_t wanted_term;        // what the daemon wants; 0 = not to run
  char *wanted_config;
  bool quitting;
  struct balancer_report report; // the latest
  struct event wake;
  bool woken; // something changed since the round began
};

// Started with uv_thread_create(arg: struct balancer_thread).
void balancer_thread_run(void *arg);

// Messages, posted to the thread's loop.
enum balancer_order_kind { ORDER_START, ORDER_STOP, ORDER_WAKE, ORDER_WHERE, ORDER_ASK, ORDER_QUIT };

struct balancer_order {
  struct balancer_thread *to;
  enum balancer_order_kind what;
  int64_t term;
  char *config;                       // START
  uint64_t number;                    // WHERE
  struct balancer_question *question; // ASK
};
void balancer_obey(void *order); // frees it

// Posted to the daemon's loop; both in balancer.c.
void balancer_apply_report(void *report); // frees it
void balancer_take_answer(void *question);

void balancer_term_unref(struct balancer_term *term);

// balancer_round.c. One round; *moved: it moved something, so that the next round follows at once. *interval_ms: how
// long to wait otherwise. false: it failed, err says why.
bool balancer_round(struct operation *op, struct balancer_term *term, int64_t *interval_ms, bool *moved,
                    struct error *err);
bool balancer_evaluate(struct operation *op, struct balancer_term *term, const char *ns, struct collection_balance *out,
                       struct error *err);

#endif
