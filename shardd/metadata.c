// The state of metadata.h: namespaces and databases by name, their refresh, their users.
#include "shardd/metadata.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "shardd/cache_writer.h"
#include "shardd/critical_section.h"
#include "shardd/metadata_secondary.h"
#include "shardd/migration_recovery.h"

enum {
  IDLE_NAMESPACES = 20000, // entries without users or sections kept before the idle ones are dropped
  LOAD_ATTEMPTS = 10,      // a table invalidated again while it was handed over is loaded again so often
};

struct metadata {
  struct shard *sh;
  struct map *namespaces; // ns -> struct ns_metadata
  struct map *databases;  // db -> struct db_metadata
  uint64_t last_seq;
};

struct metadata *metadata_new(struct shard *sh) {
  struct metadata *m = calloc(1, sizeof *m);
  m->sh = sh;
  m->namespaces = map_new();
  m->databases = map_new();
  return m;
}

static void free_ns(void *p) {
  struct ns_metadata *n = p;
  routing_unref(n->routing);
  routing_unref(n->base);
  free(n->section.owner);
  free(n->section.reason);
  free(n->ns);
  free(n);
}

static void free_db(void *p) {
  struct db_metadata *d = p;
  free(d->name);
  free(d->primary);
  free(d);
}

void metadata_free(struct metadata *m) {
  if (!m) return;
  map_free(m->namespaces, free_ns);
  map_free(m->databases, free_db);
  free(m);
}

// --- entries ---

static bool drop_if_idle(void *ctx, const void *key, size_t len, void *value) {
  struct metadata *m = ctx;
  struct ns_metadata *n = value;
  if (!n->users && !n->pins && !n->section.owner && !n->refresh.running) {
    map_remove(m->namespaces, key, len);
    free_ns(n);
  }
  return true;
}

struct ns_metadata *metadata_find_ns(struct metadata *m, const char *ns) {
  return map_gets(m->namespaces, ns);
}

struct ns_metadata *metadata_ns(struct metadata *m, const char *ns) {
  struct ns_metadata *n = metadata_find_ns(m, ns);
  if (n) return n;
  // Names come from requests: what a client made up must not stay for ever.
  if (map_count(m->namespaces) >= IDLE_NAMESPACES) map_each(m->namespaces, drop_if_idle, m);
  n = calloc(1, sizeof *n);
  n->ns = strdup(ns);
  map_puts(m->namespaces, ns, n);
  return n;
}

static bool drop_database_if_idle(void *ctx, const void *key, size_t len, void *value) {
  struct metadata *m = ctx;
  struct db_metadata *d = value;
  if (!d->pins && !d->refresh.running && !d->blocked) {
    map_remove(m->databases, key, len);
    free_db(d);
  }
  return true;
}

static struct db_metadata *database_entry(struct metadata *m, const char *db) {
  struct db_metadata *d = map_gets(m->databases, db);
  if (d) return d;
  if (map_count(m->databases) >= IDLE_NAMESPACES) map_each(m->databases, drop_database_if_idle, m);
  d = calloc(1, sizeof *d);
  d->name = strdup(db);
  map_puts(m->databases, db, d);
  return d;
}

void metadata_pin(struct ns_metadata *n) {
  n->pins++;
}

void metadata_unpin(struct ns_metadata *n) {
  n->pins--;
}

// --- forgetting ---

static void forget_routing(struct ns_metadata *n) {
  refresh_invalidate(&n->refresh);
  routing_unref(n->routing);
  n->routing = NULL;
}

void metadata_invalidate(struct metadata *m, const char *ns) {
  struct ns_metadata *n = metadata_find_ns(m, ns);
  if (n) forget_routing(n);
}

static void forget_database(struct db_metadata *d) {
  refresh_invalidate(&d->refresh);
  d->known = false;
}

struct prefix {
  const char *text;
  size_t len;
};

static bool forget_if_in_database(void *ctx, const void *key, size_t len, void *value) {
  const struct prefix *p = ctx;
  if (len > p->len && !memcmp(key, p->text, p->len)) forget_routing(value);
  return true;
}

void metadata_invalidate_database(struct metadata *m, const char *db) {
  struct db_metadata *d = map_gets(m->databases, db);
  if (d) forget_database(d);
  size_t n = strlen(db);
  char *text = malloc(n + 2);
  memcpy(text, db, n);
  memcpy(text + n, ".", 2);
  struct prefix p = {.text = text, .len = n + 1};
  map_each(m->namespaces, forget_if_in_database, &p);
  free(text);
}

static bool invalidate_db(void *ctx, const void *key, size_t len, void *value) {
  forget_database(value);
  return true;
}

static bool invalidate_ns(void *ctx, const void *key, size_t len, void *value) {
  forget_routing(value);
  return true;
}

static bool forget_ns(void *ctx, const void *key, size_t len, void *value) {
  struct ns_metadata *n = value;
  forget_routing(n);
  routing_unref(n->base);
  n->base = NULL;
  section_end(&n->section);
  return true;
}

static bool forget_db(void *ctx, const void *key, size_t len, void *value) {
  struct db_metadata *d = value;
  forget_database(d);
  d->blocked = false;
  event_signal(&d->unblocked);
  return true;
}

void metadata_forget_all(struct metadata *m) {
  map_each(m->namespaces, forget_ns, NULL);
  map_each(m->databases, forget_db, NULL);
}

void metadata_invalidate_everything(struct metadata *m) {
  map_each(m->namespaces, invalidate_ns, NULL);
  map_each(m->databases, invalidate_db, NULL);
}

// --- a namespace's refresh ---

static const char *version_or_unsharded(struct arena *a, const struct routing *r) {
  if (!r || !r->tracked) return "UNSHARDED";
  struct chunk_version v = chunk_map_version(r->chunks);
  return chunk_version_text(a, &v);
}

static bool load_from_config(struct operation *op, struct metadata *m, struct ns_metadata *n, struct routing **out,
                             struct error *err) {
  struct shard *sh = m->sh;
  if (!migration_decide_all_of(op, sh, n->ns, err)) return false;
  struct routing *known = n->base ? routing_ref(n->base) : NULL;
  bool incremental = false, was_incremental = known != NULL;
  int64_t begun = clock_mono_us();
  int64_t *active = was_incremental ? &sh->counters.active_incremental_refreshes : &sh->counters.active_full_refreshes;
  ++*active;
  bool ok = catalog_load_routing(op, sh->config, n->ns, known, out, &incremental, err);
  --*active;
  int64_t us = clock_mono_us() - begun;
  sh->counters.refresh_wait_us += us;
  if (!ok) {
    sh->counters.failed_refreshes++;
    log_warn("SH_REFR", "Refresh of a collection failed", "namespace:s error:e", n->ns, err);
  } else {
    ++*(incremental ? &sh->counters.incremental_refreshes : &sh->counters.full_refreshes);
    log_info("SH_REFR", "Refreshed cached collection", "namespace:s lookupSinceVersion:s newVersion:s durationMillis:l",
             n->ns, version_or_unsharded(op->arena, known), version_or_unsharded(op->arena, *out), us / 1000);
  }
  routing_unref(known);
  return ok;
}

// Takes over the caller's reference.
static void install(struct metadata *m, struct ns_metadata *n, struct routing *r) {
  struct chunk_version v = r->tracked ? chunk_map_version(r->chunks) : chunk_version_unsharded();
  if (n->routing && n->routing->tracked && r->tracked) {
    struct chunk_version old = chunk_map_version(n->routing->chunks);
    // invariant: metadata only moves forward
    if (chunk_version_same_generation(&old, &v) && chunk_version_compare(&v, &old) <= 0) {
      routing_unref(r);
      return;
    }
  }
  routing_unref(n->routing);
  routing_unref(n->base);
  n->routing = r;
  n->base = r->tracked ? routing_ref(r) : NULL;
  n->version = r->tracked ? chunk_map_shard_version(r->chunks, m->sh->name) : v;
  n->seq = ++m->last_seq;
}

static bool refresh_ns(struct operation *op, struct metadata *m, struct ns_metadata *n, uint64_t ticket,
                       struct error *err) {
  for (;;) {
    bool lead;
    if (!refresh_join(op, &n->refresh, ticket, &lead, err)) return false;
    if (!lead) return true;
    struct routing *r = NULL;
    bool ok = repl_is_primary(m->sh->node.repl) ? load_from_config(op, m, n, &r, err)
                                                : secondary_load_routing(op, m->sh, n->ns, &r, err);
    if (refresh_end(&n->refresh, ok)) {
      install(m, n, r);
      if (repl_is_primary(m->sh->node.repl)) cache_flush_soon(m->sh, n->ns);
    } else {
      routing_unref(r);
    }
    if (!ok) return false;
  }
}

bool metadata_refresh(struct operation *op, struct metadata *m, const char *ns, struct error *err) {
  if (!shard_require_identity(m->sh, err)) return false;
  struct ns_metadata *n = metadata_ns(m, ns);
  uint64_t ticket = refresh_ask(&n->refresh);
  metadata_pin(n);
  bool ok = refresh_ns(op, m, n, ticket, err);
  metadata_unpin(n);
  return ok;
}

void metadata_renew(struct operation *op, struct metadata *m, const char *ns, const char *after) {
  struct error err = {0};
  if (metadata_refresh(op, m, ns, &err)) return;
  metadata_invalidate(m, ns);
  log_warn("SHARDING", "Metadata could not be refreshed", "namespace:s after:s error:e", ns, after, &err);
}

bool metadata_advance(struct metadata *m, const char *ns, const struct routing *from, struct routing *next) {
  struct ns_metadata *n = metadata_find_ns(m, ns);
  bool current = n && n->routing == from; // else it was forgotten since, or a refresh was faster
  if (current)
    install(m, n, next);
  else
    routing_unref(next);
  return current;
}

bool metadata_load(struct operation *op, struct metadata *m, const char *ns, struct routing **out, struct error *err) {
  for (int i = 0; i < LOAD_ATTEMPTS; i++) {
    if (!metadata_refresh(op, m, ns, err)) return false;
    struct ns_metadata *n = metadata_find_ns(m, ns);
    if (n && n->routing) {
      *out = routing_ref(n->routing);
      return true;
    }
  }
  return error_set(err, ERR_ConflictingOperationInProgress, "The placement of %s changed %d times while it was read",
                   ns, LOAD_ATTEMPTS);
}

// --- a database's refresh ---

static bool load_database(struct operation *op, struct metadata *m, struct db_metadata *d, struct error *err) {
  struct database_type t = {0};
  bool exists = false;
  bool ok = repl_is_primary(m->sh->node.repl) ? catalog_load_database(op, m->sh->config, d->name, &t, &exists, err)
                                              : secondary_load_database(op, m->sh, d->name, &t, &exists, err);
  if (!refresh_end(&d->refresh, ok)) return ok;
  free(d->primary);
  d->primary = exists ? strdup(t.primary) : NULL;
  d->version = exists ? t.version : (struct database_version){0};
  d->exists = exists;
  d->known = true;
  return true;
}

bool metadata_refresh_database(struct operation *op, struct metadata *m, const char *db, struct error *err) {
  if (!shard_require_identity(m->sh, err)) return false;
  struct db_metadata *d = database_entry(m, db);
  uint64_t ticket = refresh_ask(&d->refresh);
  d->pins++;
  bool ok = true;
  for (bool lead = true; ok && lead;) {
    ok = refresh_join(op, &d->refresh, ticket, &lead, err);
    if (ok && lead) ok = load_database(op, m, d, err);
  }
  d->pins--;
  return ok;
}

bool metadata_load_database(struct operation *op, struct metadata *m, const char *db, struct database_type *out,
                            bool *exists, struct error *err) {
  if (!metadata_refresh_database(op, m, db, err)) return false;
  struct db_metadata *d = database_entry(m, db);
  *exists = d->known && d->exists;
  if (*exists)
    *out = (struct database_type){
        .name = arena_strdup(op->arena, db), .primary = arena_strdup(op->arena, d->primary), .version = d->version};
  return true;
}

const struct db_metadata *metadata_database(struct metadata *m, const char *db) {
  struct db_metadata *d = map_gets(m->databases, db);
  return d && d->known ? d : NULL;
}

void metadata_block_database(struct metadata *m, const char *db, bool block) {
  struct db_metadata *d = database_entry(m, db);
  d->blocked = block;
  event_signal(&d->unblocked);
}

bool metadata_wait_database(struct operation *op, struct metadata *m, const char *db, struct error *err) {
  struct db_metadata *d = map_gets(m->databases, db);
  if (!d || !d->blocked) return true;
  bool ok = true;
  d->pins++;
  while (ok && d->blocked) ok = event_wait(op, &d->unblocked, err);
  d->pins--;
  return ok;
}

// --- users ---

struct overlap {
  const char *shard;
  struct key max;
  bool found;
};

static bool owned_part(void *ctx, const struct chunk *c) {
  struct overlap *o = ctx;
  if (key_compare(c->min, o->max) >= 0) return false; // chunk_map_each() takes its upper bound as inclusive
  o->found = !strcmp(c->shard, o->shard);
  return !o->found;
}

static bool owns_part(const struct access *u, struct key min, struct key max) {
  if (!u->owner_map) return false;
  struct overlap o = {.shard = u->shard, .max = max};
  chunk_map_each(u->owner_map, min, max, owned_part, &o);
  return o.found;
}

bool metadata_has_older_users(struct metadata *m, const char *ns, struct key min, struct key max) {
  struct ns_metadata *n = metadata_find_ns(m, ns);
  for (const struct access *u = n ? n->users : NULL; u; u = u->next)
    if (owns_part(u, min, max)) return true;
  return false;
}

void metadata_end_older_users(struct metadata *m, const char *ns, struct key min, struct key max) {
  struct ns_metadata *n = metadata_find_ns(m, ns);
  for (struct access *u = n ? n->users : NULL; u; u = u->next)
    if (owns_part(u, min, max)) u->ended = ERR_QueryPlanKilled;
}

struct each {
  bool (*fn)(void *ctx, struct ns_metadata *n);
  void *ctx;
};

static bool each_ns(void *ctx, const void *key, size_t len, void *value) {
  const struct each *e = ctx;
  return e->fn(e->ctx, value);
}

void metadata_each(struct metadata *m, bool (*fn)(void *ctx, struct ns_metadata *n), void *ctx) {
  struct each e = {.fn = fn, .ctx = ctx};
  map_each(m->namespaces, each_ns, &e);
}

size_t metadata_count(const struct metadata *m, size_t *databases) {
  if (databases) *databases = map_count(m->databases);
  return map_count(m->namespaces);
}
