// enter, still, leave, may_create: what a command's versions mean here (version_check.h).
#include "shardd/version_check.h"

#include <string.h>

#include "shardd/critical_section.h"
#include "shardd/range_deleter.h"

// Every attempt ends a wait (section, refresh); this many in a row do not happen by chance.
enum { CHECK_ATTEMPTS = 20 };

// --- databases ---

static bool database_fits(const struct shard *sh, const struct db_metadata *d, const struct database_version *v) {
  return d && d->exists && database_version_equal(&d->version, v) && !strcmp(d->primary, sh->name);
}

static bool check_database(struct operation *op, struct shard *sh, const char *db, const struct database_version *v,
                           struct error *err) {
  if (!metadata_wait_database(op, sh->metadata, db, err)) return false;
  const struct db_metadata *d = metadata_database(sh->metadata, db);
  if (database_fits(sh, d, v)) return true;
  // Unknown here, or the router may know a newer one: only a fresh read of the config server can refuse it. A router
  // that is behind pays for one such read.
  if (!metadata_refresh_database(op, sh->metadata, db, err)) return false;
  d = metadata_database(sh->metadata, db);
  if (database_fits(sh, d, v)) return true;
  return error_stale_db_version(err, op->arena, db, v, d && d->exists ? &d->version : NULL);
}

bool version_check_database(struct operation *op, struct shard *sh, const struct request *r, const char *db,
                            struct error *err) {
  if (!shard_enabled(sh) || !r->has_database_version) return true;
  struct database_version v;
  if (!database_version_parse(&r->database_version, &v, err)) return false;
  return v.last_mod == 0 || check_database(op, sh, db, &v, err);
}

// --- collections ---

// Whether a request with `received` can know something that this shard does not.
static bool may_be_newer(const struct chunk_version *received, const struct chunk_version *known) {
  if (chunk_version_is_unsharded(received) || chunk_version_is_unsharded(known)) return true; // not comparable
  if (!chunk_version_same_generation(received, known)) return received->timestamp > known->timestamp;
  return chunk_version_compare(received, known) > 0;
}

static const char *mismatch_text(struct arena *a, const char *ns, const struct chunk_version *received,
                                 const struct chunk_version *wanted) {
  if (chunk_version_is_unsharded(received))
    return arena_printf(a, "this shard contains chunks for %s, but the client expects unsharded collection", ns);
  if (!chunk_version_same_generation(received, wanted))
    return arena_printf(a, "timestamp mismatch detected for %s", ns);
  if (wanted->major == 0)
    return arena_printf(a, "this shard no longer contains chunks for %s, the collection may have been dropped", ns);
  return arena_printf(a, "placement version mismatch detected for %s", ns);
}

static void grant(struct shard *sh, struct ns_metadata *n, struct access *out) {
  const struct routing *r = n->routing;
  out->versioned = true;
  out->filtered = r->tracked && !r->collection.unsplittable;
  out->owner_map = r->tracked ? chunk_map_ref(r->chunks) : NULL;
  out->shard = sh->name;
  out->token = n->seq;
  out->prev = NULL;
  out->next = n->users;
  if (n->users) n->users->prev = out;
  n->users = out;
}

// One look at the namespace: *decided when it is granted (true) or refused (false); otherwise something was waited for.
static bool look(struct operation *op, struct shard *sh, struct ns_metadata *n, const struct chunk_version *received,
                 bool write, bool *refreshed, bool *decided, struct access *out, struct error *err) {
  *decided = false;
  if (section_blocks(n, write)) return section_wait(op, n, write, err);
  bool unknown = !n->routing;
  if (unknown) sh->counters.stale_config_errors++; // what MongoDB raises inside, and answers by a refresh
  bool fits = !unknown && (chunk_version_is_ignored(received) || chunk_version_compatible(received, &n->version));
  if (!fits && (unknown || (!*refreshed && may_be_newer(received, &n->version)))) {
    *refreshed = true;
    return metadata_refresh(op, sh->metadata, n->ns, err);
  }
  *decided = true;
  if (!fits)
    return error_stale_config(err, op->arena, n->ns, received, &n->version, sh->name,
                              mismatch_text(op->arena, n->ns, received, &n->version));
  grant(sh, n, out);
  return true;
}

static bool enter(struct operation *op, void *ctx, const struct request *r, const char *ns, bool write,
                  struct access *out, struct error *err) {
  struct shard *sh = ctx;
  *out = (struct access){.ns = ns};
  if (!shard_enabled(sh) || (r->read_level == LEVEL_AVAILABLE && !write)) return true;
  if (!version_check_database(op, sh, r, r->db, err)) return false;
  if (!r->has_shard_version) return true;
  struct chunk_version received;
  if (!chunk_version_parse(&r->shard_version, &received, err)) return false;
  struct ns_metadata *n = metadata_ns(sh->metadata, ns);
  metadata_pin(n);
  bool refreshed = false, decided = false, ok = true;
  int attempts = 0;
  while (ok && !decided && attempts++ < CHECK_ATTEMPTS)
    ok = look(op, sh, n, &received, write, &refreshed, &decided, out, err);
  if (ok && !decided)
    ok = error_stale_config(
        err, op->arena, ns, &received, NULL, sh->name,
        arena_printf(op->arena, "sharding status of collection %s is not currently known and needs to be recovered",
                     ns));
  metadata_unpin(n);
  return ok;
}

// What enter() granted holds as long as the table is the same, or one in which this shard has the same version: its
// ranges are the same then, since every move raises the major version on both sides.
static bool same_ranges(const struct access *a, const struct ns_metadata *n) {
  if (n->seq == a->token) return true;
  if (!a->owner_map || !n->routing->tracked) return !a->owner_map && !n->routing->tracked;
  struct chunk_version then = chunk_map_shard_version(a->owner_map, a->shard);
  return chunk_version_compatible(&then, &n->version);
}

// A reader goes on with the table it began with: the documents of a range that left stay until their readers are gone.
// A writer must not: what it writes now would be missing on the range's new owner.
static bool still(void *ctx, const struct access *a, bool write, struct error *err) {
  struct shard *sh = ctx;
  if (!a->versioned || !write) return true;
  const struct ns_metadata *n = metadata_find_ns(sh->metadata, a->ns);
  if (n && !section_blocks(n, true) && n->routing && same_ranges(a, n)) return true;
  return error_set(err, ERR_StaleConfig, "The placement of %s changed while the statement waited", a->ns);
}

static void leave(void *ctx, struct access *a) {
  struct shard *sh = ctx;
  if (!a->versioned) return;
  if (a->next) a->next->prev = a->prev;
  if (a->prev) {
    a->prev->next = a->next;
  } else {
    struct ns_metadata *n = metadata_find_ns(sh->metadata, a->ns);
    if (n && n->users == a) n->users = a->next;
  }
  chunk_map_unref(a->owner_map);
  *a = (struct access){.ns = a->ns};
  range_deleter_wake(sh->deleter);
}

static bool may_create(struct operation *op, void *ctx, const struct request *r, const char *ns, struct error *err) {
  struct shard *sh = ctx;
  if (!shard_enabled(sh) || !r->has_shard_version) return true;
  const struct ns_metadata *n = metadata_find_ns(sh->metadata, ns);
  if (n && n->routing && !n->routing->tracked) return true;
  // A tracked collection is created by its coordinator or by the migration that brings its first range, with its UUID.
  return error_set(err, ERR_CannotImplicitlyCreateCollection,
                   "Implicitly creating the sharded collection %s on shard %s is not allowed", ns, sh->name);
}

static void stale_config_seen(void *ctx) {
  struct shard *sh = ctx;
  sh->counters.stale_config_errors++;
}

void version_check_hooks(struct shard *sh, struct node_hooks *hooks) {
  hooks->ctx = sh;
  hooks->enter = enter;
  hooks->still = still;
  hooks->leave = leave;
  hooks->may_create = may_create;
  hooks->stale_config_seen = stale_config_seen;
}
