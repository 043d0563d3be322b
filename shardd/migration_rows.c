// The donor's rows of config.changelog (reference/sharding.md 1.2).
#include "common/bson/doc.h"
#include "shardd/change_log.h"
#include "shardd/migration_source.h"

static void log_bounds(struct operation *op, struct donation *d, const char *what, const bson_t *counts) {
  bson_t *details = arena_bson(op->arena);
  BSON_APPEND_DOCUMENT(details, "min", d->doc.min);
  BSON_APPEND_DOCUMENT(details, "max", d->doc.max);
  BSON_APPEND_UTF8(details, "from", d->sh->name);
  BSON_APPEND_UTF8(details, "to", d->request.to);
  if (counts) BSON_APPEND_DOCUMENT(details, "counts", counts);
  log_change_soon(op, d->sh, what, d->request.ns, details);
}

void donation_log(struct operation *op, struct donation *d, const char *what) {
  log_bounds(op, d, what, NULL);
}

void donation_log_commit(struct operation *op, struct donation *d) {
  bson_t *counts = arena_bson(op->arena);
  BSON_APPEND_INT64(counts, "cloned", d->cloned);
  BSON_APPEND_INT64(counts, "clonedBytes", d->cloned_bytes);
  BSON_APPEND_INT64(counts, "catchup", d->catchup);
  BSON_APPEND_INT64(counts, "steady", d->steady);
  log_bounds(op, d, "moveChunk.commit", counts);
}

void donation_log_steps(struct operation *op, struct donation *d, const struct error *err) {
  bson_t *details = arena_bson(op->arena);
  for (int i = 0; i < d->steps; i++)
    doc_append_num(details, arena_printf(op->arena, "step %d of %d", i + 1, MOVE_STEPS), d->step_ms[i]);
  if (d->doc.min) BSON_APPEND_DOCUMENT(details, "min", d->doc.min);
  if (d->doc.max) BSON_APPEND_DOCUMENT(details, "max", d->doc.max);
  BSON_APPEND_UTF8(details, "to", d->request.to);
  BSON_APPEND_UTF8(details, "from", d->sh->name);
  bool committed = d->doc.decision == DECISION_COMMITTED;
  BSON_APPEND_UTF8(details, "note", committed ? "success" : "aborted");
  if (err->code) BSON_APPEND_UTF8(details, "errmsg", error_text(err, op->arena));
  log_change_soon(op, d->sh, "moveChunk.from", d->request.ns, details);
}
