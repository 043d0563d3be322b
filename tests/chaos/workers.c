// The threads of a round: which workloads there are, and through which routers.
#include <stdlib.h>
#include <string.h>

#include "tests/chaos/client.h"

struct role {
  const char *name;
  void (*turn)(struct worker *w);
  void (*end)(struct worker *w);
  int threads;
  int pause_ms; // between turns
};

static const struct role roles[] = {
    {"register", registers_turn, NULL, 4, 2}, {"set", sets_turn, sets_end_turn, 2, 4},
    {"list", lists_turn, NULL, 2, 2},         {"counter", counters_turn, NULL, 2, 3},
    {"bank", bank_turn, NULL, 1, 3},          {"session", session_turn, session_end, 1, 3},
    {"scan", sets_scan_turn, NULL, 1, 0},     {"chunks", chunks_turn, NULL, 1, 0},
};

static const struct role *role_of(const struct worker *w) {
  for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
    if (!strcmp(roles[i].name, w->name)) return &roles[i];
  return NULL;
}

static void *work(void *arg) {
  struct worker *w = arg;
  const struct role *role = role_of(w);
  while (!atomic_load(&w->run->stop)) {
    w->turn(w);
    if (role->pause_ms) wait_ms(role->pause_ms);
  }
  if (role->end) role->end(w);
  return NULL;
}

void workers_start(struct workers *ws, struct run *run) {
  for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
    for (int k = 0; k < roles[i].threads && ws->n < MAX_WORKERS; k++) {
      struct worker *w = &ws->list[ws->n];
      char user[40];
      (void)snprintf(user, sizeof user, "%s %d", roles[i].name, k);
      *w = (struct worker){.run = run, .name = roles[i].name, .id = ws->n, .turn = roles[i].turn};
      w->rng = rng_stream(run->seed, user);
      // A third knows the first router only, a third the second one, the rest both.
      w->client = fleet_router_client(&run->fleet, ws->n % 3 + 1);
      if (pthread_create(&w->thread, NULL, work, w) == 0) ws->n++;
    }
  }
}

void workers_stop(struct workers *ws) {
  for (int i = 0; i < ws->n; i++) {
    (void)pthread_join(ws->list[i].thread, NULL);
    mongoc_client_destroy(ws->list[i].client);
  }
  ws->n = 0;
}
