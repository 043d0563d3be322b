// Trying again when a shard says that this router's placement is stale.
//
// A shard that knows better answers StaleConfig (StaleDbVersion for a database's primary) before it does anything. The
// cache entry is marked, the next lookup refreshes it, and the whole operation is routed anew. A client never sees
// any of these errors.
#include <string.h>

#include "common/base/log.h"
#include "common/bson/doc.h"
#include "mongos/placement.h"
#include "mongos/routing_cache.h"

// The pause before repetition n is this times 2^n, up to the limit: the first ones are at once, for a refresh is
// enough nearly always; the later ones wait for a migration or a config server that is about to finish.
enum { PAUSE_FROM_RETRY = 2, PAUSE_BASE_MS = 5, PAUSE_MAX_MS = 1000 };

bool stale_is(const struct error *err) {
  return error_is_stale(err->code);
}

void stale_learn(struct router *rt, const struct placement *p, const struct error *err) {
  if (err->code == ERR_StaleDbVersion) {
    const char *db = err->extra != NULL ? doc_str(err->extra, "db", p->db) : p->db;
    routing_cache_invalidate_database(rt->cache, db, strcmp(db, p->db) == 0 ? &p->db_version : NULL);
    return;
  }
  routing_cache_count_stale(rt->cache);
  const char *ns = NULL;
  struct chunk_version wanted;
  bool has_wanted = false;
  if (!error_read_stale_config(err, &ns, &wanted, &has_wanted) || ns == NULL) ns = p->ns;
  routing_cache_invalidate(rt->cache, ns, strcmp(ns, p->ns) == 0 ? p->routing : NULL, has_wanted ? &wanted : NULL);
  // A collection that is not where the database's primary was thought to be may have moved with it.
  if (err->code == ERR_StaleEpoch) routing_cache_invalidate_database(rt->cache, p->db, &p->db_version);
}

bool stale_pause(struct operation *op, int n, struct error *err) {
  if (n < PAUSE_FROM_RETRY) return op_check(op, err);
  int64_t ms = (int64_t)PAUSE_BASE_MS << n;
  return op_sleep(op, ms < PAUSE_MAX_MS ? ms : PAUSE_MAX_MS, err);
}

bool stale_give_up(struct error *err, const char *what, const char *ns) {
  struct error last = *err;
  log_warn("SHARDING", "Gave up routing an operation: every try met a stale version", "namespace:s command:s error:e",
           ns, what, &last);
  return error_set(err, ERR_NoProgressMade,
                   "Exceeded maximum number of %d retries attempting '%s' on %s :: caused by :: %s", STALE_RETRIES,
                   what, ns, last.message);
}

static bool run(struct operation *op, struct router *rt, const char *name, bool database, const char *what, bool create,
                routed_fn fn, void *ctx, struct error *err) {
  for (int n = 0;; n++) {
    struct placement p;
    bool found =
        database ? placement_get_database(op, rt, name, create, &p, err) : placement_get(op, rt, name, create, &p, err);
    if (!found) return false;
    if (fn(op, rt, &p, ctx, err)) return true;
    if (!stale_is(err)) return false;
    stale_learn(rt, &p, err);
    if (n == STALE_RETRIES) return stale_give_up(err, what, name);
    if (!stale_pause(op, n, err)) return false;
  }
}

bool routed_run(struct operation *op, struct router *rt, const char *ns, const char *what, bool create, routed_fn fn,
                void *ctx, struct error *err) {
  return run(op, rt, ns, false, what, create, fn, ctx, err);
}

bool routed_run_database(struct operation *op, struct router *rt, const char *db, const char *what, bool create,
                         routed_fn fn, void *ctx, struct error *err) {
  return run(op, rt, db, true, what, create, fn, ctx, err);
}
