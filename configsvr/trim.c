// config.changelog and config.actionlog are kept below their sizes.
#include "configsvr/trim.h"

#include "common/base/log.h"
#include "common/bson/doc.h"
#include "common/repl/write.h"
#include "common/store/scan.h"

enum { TRIM_ROWS = 1000, TRIM_TURNS = 100 }; // rows an entry, entries a visit

static const struct {
  const char *ns;
  int64_t bytes;
} limits[] = {{"config.changelog", 200 << 20}, {"config.actionlog", 20 << 20}};

// Adds the deletion of the oldest rows, in order of insertion. Does not yield.
static bool delete_oldest(struct config_server *cs, struct arena *a, struct collection *c, struct write *w,
                          struct error *err) {
  struct scan_spec spec = {.by_order = true};
  struct scan *s = scan_open(a, c, &spec);
  struct scan_row row;
  bool ok = true;
  for (int i = 0; ok && i < TRIM_ROWS && scan_next(s, &row, err); i++) {
    const bson_t *doc = scan_document(s, &row);
    bson_value_t id;
    if (doc && doc_value(doc, "_id", &id)) {
      id = value_copy(a, &id);
      ok = local_delete(&cs->node, w, c->ns, &id, err);
    }
  }
  scan_close(s);
  return ok;
}

static bool too_big(struct config_server *cs, const char *ns, int64_t limit) {
  struct collection_stats stats = {0};
  struct collection *c = store_collection(cs->node.store, ns);
  if (c) collection_stats(c, &stats);
  return stats.bytes > limit;
}

struct trim {
  struct config_server *cs;
  const char *ns;
  int64_t bytes; // allowed
  int turns;
};

static bool trim_once(struct operation *op, void *ctx, bool *more, struct error *err) {
  struct trim *t = ctx;
  struct config_server *cs = t->cs;
  *more = t->turns++ < TRIM_TURNS && too_big(cs, t->ns, t->bytes);
  if (!*more) return true;
  struct write *w = write_begin(op, cs->node.repl);
  while (!write_lock_namespace(w, t->ns, true)) {
    if (!write_wait(op, w, err)) return false;
  }
  struct collection *c = store_collection(cs->node.store, t->ns);
  if (c && delete_oldest(cs, op->arena, c, w, err) && !write_is_empty(w)) return write_commit(op, w, err);
  write_abandon(w);
  return err->code == 0;
}

void trim_logs(struct operation *op, struct config_server *cs) {
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    struct trim t = {.cs = cs, .ns = limits[i].ns, .bytes = limits[i].bytes};
    struct error err = {0};
    // The operation is as old as the term: its arena must not grow with every visit.
    if (op_in_batches(op, trim_once, &t, &err)) continue;
    log_warn("SHARDING", "Old rows of a log collection could not be deleted", "namespace:s error:e", t.ns, &err);
  }
}
