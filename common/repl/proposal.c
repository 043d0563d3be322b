// Proposals on their way through the log.
#include "common/repl/proposal.h"

#include <stdlib.h>

#include "common/base/log.h"

void proposals_init(struct proposals *ps, struct cluster_clock *clock, uint64_t (*submit)(void *ctx, struct entry *e),
                    void *ctx) {
  *ps = (struct proposals){.refusal = ERR_NotWritablePrimary, .clock = clock, .submit = submit, .ctx = ctx};
  ps->end = &ps->first;
  lock_table_init(&ps->locks);
}

void proposals_free(struct proposals *ps) {
  lock_table_free(&ps->locks);
}

struct proposal *proposal_new(uint64_t writer) {
  struct proposal *p = calloc(1, sizeof *p);
  if (!p) log_fatal("REPL", "Out of memory for a proposal", NULL);
  p->refs = 1;
  p->owner.writer = writer;
  return p;
}

void proposal_unref(struct proposals *ps, struct proposal *p) {
  if (--p->refs) return;
  lock_release_all(&ps->locks, &p->owner);
  free(p);
}

bool proposal_send(struct proposals *ps, struct proposal *p, const bson_t *doc, uint64_t ts) {
  struct entry *e = entry_new(ENTRY_COMMAND, 0, bson_get_data(doc), doc->len);
  uint64_t index = ps->submit(ps->ctx, e);
  entry_unref(e);
  if (!index) {
    lock_release_all(&ps->locks, &p->owner);
    return false;
  }
  p->state = PROPOSAL_SENT;
  p->index = index;
  p->ts = ts;
  p->bytes = doc->len;
  p->refs++;
  *ps->end = p;
  ps->end = &p->next;
  ps->bytes += p->bytes;
  return true;
}

// Takes the first proposal out of the queue: its locks are free, and its writer is marked to run.
static void finish_first(struct proposals *ps, enum proposal_state state, int32_t code) {
  struct proposal *p = ps->first;
  ps->first = p->next;
  if (!ps->first) ps->end = &ps->first;
  p->next = NULL;
  ps->bytes -= p->bytes;
  p->state = state;
  p->lost_code = code;
  lock_release_all(&ps->locks, &p->owner);
  event_signal(&p->done);
  proposal_unref(ps, p);
}

void proposals_applied(struct proposals *ps, uint64_t index) {
  bool any = false;
  for (; ps->first && ps->first->index <= index; any = true) finish_first(ps, PROPOSAL_APPLIED, 0);
  if (any) event_signal(&ps->room);
}

void proposals_lose(struct proposals *ps, int32_t code) {
  while (ps->first) finish_first(ps, PROPOSAL_LOST, code);
  event_signal(&ps->room);
}
