// The queue of changelog rows: one writer in the background while there are any (change_log.h).
#include "shardd/change_log.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/sharding/changelog.h"
#include "shardd/background.h"

enum { QUEUED_ROWS = 1000, ROWS_AT_ONCE = 100 };

struct change_log {
  struct shard *sh;
  bson_t *rows[QUEUED_ROWS]; // a ring: made - written of them, from written on
  uint64_t made, written;
  bool runs;
  struct event progressed;
};

struct change_log *change_log_new(struct shard *sh) {
  struct change_log *l = calloc(1, sizeof *l);
  l->sh = sh;
  return l;
}

static void drop_rows(struct change_log *l, size_t n) {
  for (size_t i = 0; i < n; i++) bson_destroy(l->rows[l->written++ % QUEUED_ROWS]);
}

void change_log_free(struct change_log *l) {
  if (!l) return;
  drop_rows(l, l->made - l->written);
  free(l);
}

static void write_rows(struct operation *op, void *arg) {
  struct change_log *l = arg;
  while (l->written < l->made) {
    size_t left = l->made - l->written, n = left < ROWS_AT_ONCE ? left : ROWS_AT_ONCE;
    const bson_t *rows[ROWS_AT_ONCE];
    for (size_t i = 0; i < n; i++) rows[i] = l->rows[(l->written + i) % QUEUED_ROWS];
    catalog_log_rows(op, l->sh->config, "changelog", rows, n);
    drop_rows(l, n);
    event_signal(&l->progressed);
    arena_reset(op->arena);
  }
  l->runs = false;
}

void log_change_soon(struct operation *op, struct shard *sh, const char *what, const char *ns, const bson_t *details) {
  struct change_log *l = sh->change_log;
  if (l->made - l->written == QUEUED_ROWS) {
    log_warn("SHARDING", "Too many config changes wait for being logged: one is left out", "changeType:s namespace:s",
             what, ns);
    return;
  }
  l->rows[l->made++ % QUEUED_ROWS] =
      bson_copy(changelog_row(op->arena, sh->node.host_port, sh->name, what, ns, details));
  if (l->runs) return;
  l->runs = true;
  background_start(sh, "changeLog", write_rows, l);
}

void log_changes_wait(struct operation *op, struct shard *sh) {
  struct change_log *l = sh->change_log;
  struct error err;
  for (uint64_t until = l->made; l->written < until;)
    if (!event_wait(op, &l->progressed, &err)) return;
}

void log_change(struct operation *op, struct shard *sh, const char *what, const char *ns, const bson_t *details) {
  log_change_soon(op, sh, what, ns, details);
  log_changes_wait(op, sh);
}
