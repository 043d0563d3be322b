// Opens and drives an executor on behalf of a command.
#include "common/node/reading.h"

#include "common/node/internal.h"

bool reading_open(struct request *r, struct arena *a, const char *ns, struct reading *out, struct error *err) {
  struct node *n = request_node(r);
  out->node = n;
  out->ns = arena_strdup(a, ns);
  if (!node_read_concern(r, err) || !node_enter(r, a, ns, false, &out->access, err)) return false;
  // No yield from the version check to the opened executor: what it saw is what is read.
  out->collection = store_collection(n->store, ns);
  if (!out->collection && virtual_is(ns)) return (out->virtual = virtual_open(a, n, out->ns, &out->query, err)) != NULL;
  if (!out->collection) return true;
  if (!plan_choose(a, out->collection, &out->query, out->access, &out->plan, err)) return false;
  out->executor = executor_open(a, n, out->collection, &out->query, &out->plan, out->access, err);
  return out->executor != NULL;
}

bool reading_next(struct operation *op, struct reading *x, const bson_t **doc, struct error *err) {
  *doc = NULL;
  if (x->virtual) return virtual_next(op, x->virtual, doc, err);
  if (!x->executor) return true;
  for (;;) {
    struct exec_row row;
    switch (executor_next(x->executor, op, &row, err)) {
    case EXEC_ROW: *doc = row.doc; return true;
    case EXEC_END: return true;
    case EXEC_ERROR: return false;
    case EXEC_PAUSE:
      if (!executor_pause(op, x->executor, err)) return false;
    }
  }
}

void reading_save(struct reading *x) {
  if (x->executor) executor_save(x->executor);
}

bool reading_at_end(const struct reading *x) {
  if (x->virtual) return virtual_at_end(x->virtual);
  return !x->executor || executor_at_end(x->executor);
}
