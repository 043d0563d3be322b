// The shard's own operations, in a list so that they can be ended.
#include "shardd/background.h"

#include <stdlib.h>

struct background {
  struct shard *sh;
  struct operation *op; // NULL until it runs
  void (*fn)(struct operation *op, void *arg);
  void *arg;
  int32_t killed; // before it ran
  struct background *next, *prev;
};

static void unlink_job(struct background *b) {
  if (b->next) b->next->prev = b->prev;
  if (b->prev)
    b->prev->next = b->next;
  else
    b->sh->background = b->next;
}

static void run(struct operation *op, void *arg) {
  struct background *b = arg;
  struct shard *sh = b->sh;
  b->op = op;
  if (b->killed) operation_kill(op, b->killed);
  b->fn(op, b->arg);
  unlink_job(b);
  free(b);
  event_signal(&sh->changed);
}

void background_start(struct shard *sh, const char *what, void (*fn)(struct operation *op, void *arg), void *arg) {
  struct background *b = calloc(1, sizeof *b);
  *b = (struct background){.sh = sh, .fn = fn, .arg = arg, .next = sh->background};
  if (sh->stopping) b->killed = ERR_InterruptedAtShutdown;
  if (b->next) b->next->prev = b;
  sh->background = b;
  operation_start(sh->loop, what, run, b);
}

void background_kill(struct shard *sh, int32_t code) {
  for (struct background *b = sh->background; b; b = b->next) {
    b->killed = code;
    if (b->op) operation_kill(b->op, code);
  }
}

void background_wait(struct operation *op, struct shard *sh) {
  while (sh->background) event_wait(op, &sh->changed, NULL);
}
