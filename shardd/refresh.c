// One refresh at a time, by tickets.
//
// Who needs fresh metadata takes a ticket. A load that begins serves every ticket taken until then, so that any number
// of waiters share the next load, and none is satisfied by a load that began before it asked.
#include "shardd/metadata.h"

uint64_t refresh_ask(struct refresh *f) {
  return ++f->asked;
}

void refresh_invalidate(struct refresh *f) {
  f->floor = ++f->asked;
}

bool refresh_join(struct operation *op, struct refresh *f, uint64_t ticket, bool *lead, struct error *err) {
  *lead = false;
  while (f->served < ticket) {
    if (!f->running) {
      f->running = true;
      f->begun = f->asked;
      *lead = true;
      return true;
    }
    if (!event_wait(op, &f->ended, err)) return false;
  }
  return true;
}

bool refresh_end(struct refresh *f, bool loaded) {
  f->running = false;
  event_signal(&f->ended);
  // invariant: a refresh begun before an invalidation satisfies nobody
  if (!loaded || f->begun < f->floor) return false;
  f->served = f->begun;
  return true;
}
