// What this router believes about placement: databases -> primary shard, collections -> routing table.
//
// An entry is kept as long as the process runs, also when what it held was forgotten: a fiber that waits for an entry's
// refresh holds a pointer to it. Only when there are too many are the unused ones removed.
#include "mongos/routing_cache.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/map.h"
#include "common/bson/doc.h"

// Entries of one kind at most: a client may name any number of namespaces that do not exist.
enum { CACHE_MAX_ENTRIES = 50000 };
// A refresh whose result was invalidated while it ran is made again, this many times at most.
enum { CACHE_REFRESH_TRIES = 10 };

struct collection_entry {
  struct routing *routing; // NULL = never loaded or forgotten
  bool marked;             // to be refreshed before the next use
  uint64_t marks;          // how often it was marked: tells a refresh whether it is still good
  uint64_t forced;         // ... of these, how often without a wanted version
  bool has_wanted;
  struct chunk_version wanted; // the highest that a shard asked for since the last refresh
  struct mutex refreshing;
  size_t users; // fibers between their lookup and their result
};

struct database_entry {
  bool known, marked;
  uint64_t marks;
  char *primary;
  struct database_version version;
  struct mutex refreshing;
  size_t users;
};

struct routing_cache {
  struct loop *loop;
  struct replica_set *config;
  struct map *collections, *databases;
  int64_t stale_config_errors, wait_us, full_started, incremental_started, failed;
  int64_t full_active, incremental_active;
};

struct routing_cache *routing_cache_new(struct loop *l, struct replica_set *config) {
  struct routing_cache *c = calloc(1, sizeof *c);
  if (c == NULL) abort();
  c->loop = l;
  c->config = config;
  c->collections = map_new();
  c->databases = map_new();
  return c;
}

static void collection_entry_free(void *value) {
  struct collection_entry *e = value;
  if (e->routing != NULL) routing_unref(e->routing);
  free(e);
}

static void database_entry_free(void *value) {
  struct database_entry *e = value;
  free(e->primary);
  free(e);
}

void routing_cache_free(struct routing_cache *c) {
  if (c == NULL) return;
  map_free(c->collections, collection_entry_free);
  map_free(c->databases, database_entry_free);
  free(c);
}

struct sweep {
  struct map *map;
  bool collections;
};

static bool sweep_one(void *ctx, const void *key, size_t len, void *value) {
  struct sweep *s = ctx;
  size_t users = s->collections ? ((struct collection_entry *)value)->users : ((struct database_entry *)value)->users;
  if (users > 0) return true;
  map_remove(s->map, key, len);
  if (s->collections) {
    collection_entry_free(value);
  } else {
    database_entry_free(value);
  }
  return true;
}

static void *entry_of(struct map *m, bool collections, const char *name) {
  void *e = map_gets(m, name);
  if (e != NULL) return e;
  if (map_count(m) >= CACHE_MAX_ENTRIES) {
    struct sweep s = {.map = m, .collections = collections};
    map_each(m, sweep_one, &s);
  }
  e = calloc(1, collections ? sizeof(struct collection_entry) : sizeof(struct database_entry));
  if (e == NULL) abort();
  map_puts(m, name, e);
  return e;
}

// --- collections ---

static const char *version_text(struct arena *a, const struct routing *r) {
  if (r == NULL) return "NONE";
  if (!r->tracked) return "UNSHARDED";
  struct chunk_version v = chunk_map_version(r->chunks);
  return chunk_version_text(a, &v);
}

static void log_refresh(struct operation *op, const char *ns, const struct routing *before, const struct routing *now,
                        int64_t started_us) {
  int64_t ms = (clock_mono_us() - started_us) / 1000;
  const char *since = version_text(op->arena, before), *text = version_text(op->arena, now);
  if (!now->tracked && (before == NULL || !before->tracked)) {
    log_debug("SHARDING", "Collection is not tracked", "namespace:s durationMillis:l", ns, ms);
    return;
  }
  log_info("SHARDING", "Refreshed cached collection",
           "namespace:s lookupSinceVersion:s newVersion:s timeInStore:s durationMillis:l", ns, since, text, text, ms);
}

// Whether what was just read is good enough, though the entry may have been marked while it was being read.
static bool satisfies(const struct collection_entry *e, const struct routing *now, uint64_t marks, uint64_t forced) {
  if (e->marks == marks) return true;
  if (e->forced != forced || !e->has_wanted || !now->tracked) return false;
  struct chunk_version has = chunk_map_version(now->chunks);
  return chunk_version_same_generation(&has, &e->wanted) && chunk_version_compare(&has, &e->wanted) >= 0;
}

// One read of the config server. The entry's mutex is held.
static bool refresh_once(struct operation *op, struct routing_cache *c, const char *ns, struct collection_entry *e,
                         struct error *err) {
  int64_t started = clock_mono_us();
  uint64_t marks = e->marks, forced = e->forced;
  struct routing *before = e->routing != NULL ? routing_ref(e->routing) : NULL, *now = NULL;
  bool expect_incremental = before != NULL && before->tracked, incremental = false;
  int64_t *active = expect_incremental ? &c->incremental_active : &c->full_active;
  if (expect_incremental) {
    c->incremental_started++;
  } else {
    c->full_started++;
  }
  ++*active;
  bool ok = catalog_load_routing(op, c->config, ns, before, &now, &incremental, err);
  --*active;
  if (ok) {
    log_refresh(op, ns, before, now, started);
    if (e->routing != NULL) routing_unref(e->routing);
    e->routing = now;
    if (satisfies(e, now, marks, forced)) e->marked = e->has_wanted = false;
  } else {
    c->failed++;
    log_info("SHARDING", "Error refreshing cached collection", "namespace:s durationMillis:l error:e", ns,
             (clock_mono_us() - started) / 1000, err);
  }
  if (before != NULL) routing_unref(before);
  return ok;
}

static bool refresh(struct operation *op, struct routing_cache *c, const char *ns, struct collection_entry *e,
                    struct error *err) {
  int64_t started = clock_mono_us();
  bool ok = true;
  for (int tries = 0; ok && (e->routing == NULL || e->marked); tries++) {
    if (tries == CACHE_REFRESH_TRIES) {
      return error_set(err, ERR_ConflictingOperationInProgress,
                       "the routing table of %s changed %d times while it was being read", ns, tries);
    }
    if (!mutex_lock(op, &e->refreshing, err)) return false;
    if (e->routing == NULL || e->marked) ok = refresh_once(op, c, ns, e, err);
    mutex_unlock(&e->refreshing);
  }
  c->wait_us += clock_mono_us() - started;
  return ok;
}

bool routing_cache_get(struct operation *op, struct routing_cache *c, const char *ns, struct routing **out,
                       struct error *err) {
  struct collection_entry *e = entry_of(c->collections, true, ns);
  if (e->routing != NULL && !e->marked) {
    *out = routing_ref(e->routing);
    return true;
  }
  e->users++;
  bool ok = refresh(op, c, ns, e, err);
  e->users--;
  if (ok) *out = routing_ref(e->routing);
  return ok;
}

struct routing *routing_cache_peek(struct routing_cache *c, const char *ns) {
  struct collection_entry *e = map_gets(c->collections, ns);
  return e != NULL ? e->routing : NULL;
}

static void keep_wanted(struct collection_entry *e, const struct chunk_version *wanted) {
  bool newer = !e->has_wanted || !chunk_version_same_generation(wanted, &e->wanted) ||
               chunk_version_compare(wanted, &e->wanted) > 0;
  if (newer) e->wanted = *wanted;
  e->has_wanted = true;
}

void routing_cache_invalidate(struct routing_cache *c, const char *ns, const struct routing *seen,
                              const struct chunk_version *wanted) {
  struct collection_entry *e = map_gets(c->collections, ns);
  if (e == NULL || (seen != NULL && e->routing != seen)) return;
  e->marked = true;
  e->marks++;
  bool comparable = wanted != NULL && !chunk_version_is_unsharded(wanted) && !chunk_version_is_ignored(wanted);
  if (comparable) {
    keep_wanted(e, wanted);
  } else {
    e->forced++;
  }
}

// --- databases ---

static bool database_refresh(struct operation *op, struct routing_cache *c, const char *db, struct database_entry *e,
                             bool *exists, struct error *err) {
  uint64_t marks = e->marks;
  struct database_type found;
  if (!catalog_load_database(op, c->config, db, &found, exists, err)) return false;
  free(e->primary);
  e->primary = NULL;
  e->known = *exists;
  if (*exists) {
    e->primary = strdup(found.primary);
    if (e->primary == NULL) abort();
    e->version = found.version;
    if (e->marks == marks) e->marked = false;
  }
  return true;
}

bool routing_cache_database(struct operation *op, struct routing_cache *c, const char *db, struct database_type *out,
                            bool *exists, struct error *err) {
  struct database_entry *e = entry_of(c->databases, false, db);
  *exists = true;
  bool ok = true;
  e->users++;
  for (int tries = 0; ok && *exists && (!e->known || e->marked) && tries < CACHE_REFRESH_TRIES; tries++) {
    ok = mutex_lock(op, &e->refreshing, err);
    if (!ok) break;
    if (!e->known || e->marked) ok = database_refresh(op, c, db, e, exists, err);
    mutex_unlock(&e->refreshing);
  }
  e->users--;
  if (!ok || !*exists) return ok;
  if (!e->known) {
    *exists = false; // dropped while this fiber waited
    return true;
  }
  *out = (struct database_type){
      .name = arena_strdup(op->arena, db), .primary = arena_strdup(op->arena, e->primary), .version = e->version};
  return true;
}

void routing_cache_invalidate_database(struct routing_cache *c, const char *db, const struct database_version *seen) {
  struct database_entry *e = map_gets(c->databases, db);
  if (e == NULL || (seen != NULL && e->known && !database_version_equal(seen, &e->version))) return;
  e->marked = true;
  e->marks++;
}

// --- forgetting ---

static void collection_forget(struct collection_entry *e) {
  if (e->routing != NULL) routing_unref(e->routing);
  e->routing = NULL;
  e->marked = true;
  e->marks++;
  e->forced++;
}

void routing_cache_forget(struct routing_cache *c, const char *ns) {
  struct collection_entry *e = map_gets(c->collections, ns);
  if (e != NULL) collection_forget(e);
}

static bool forget_in_database(void *ctx, const void *key, size_t len, void *value) {
  const char *db = ctx;
  size_t n = strlen(db);
  if (len > n && memcmp(key, db, n) == 0 && ((const char *)key)[n] == '.') collection_forget(value);
  return true;
}

void routing_cache_forget_database(struct routing_cache *c, const char *db) {
  map_each(c->collections, forget_in_database, (void *)db);
  routing_cache_invalidate_database(c, db, NULL);
}

static bool forget_collection(void *ctx, const void *key, size_t len, void *value) {
  collection_forget(value);
  return true;
}

static bool forget_database(void *ctx, const void *key, size_t len, void *value) {
  struct database_entry *e = value;
  e->marked = true;
  e->marks++;
  return true;
}

void routing_cache_forget_all(struct routing_cache *c) {
  map_each(c->collections, forget_collection, NULL);
  map_each(c->databases, forget_database, NULL);
}

// --- counters ---

void routing_cache_count_stale(struct routing_cache *c) {
  c->stale_config_errors++;
}

static bool count_loaded(void *ctx, const void *key, size_t len, void *value) {
  const struct collection_entry *e = value;
  if (e->routing != NULL && e->routing->tracked) ++*(int64_t *)ctx;
  return true;
}

static bool count_known(void *ctx, const void *key, size_t len, void *value) {
  const struct database_entry *e = value;
  if (e->known) ++*(int64_t *)ctx;
  return true;
}

void routing_cache_status(const struct routing_cache *c, bson_t *out) {
  int64_t collections = 0, databases = 0;
  map_each(c->collections, count_loaded, &collections);
  map_each(c->databases, count_known, &databases);
  bson_append_int64(out, "numDatabaseEntries", -1, databases);
  bson_append_int64(out, "numCollectionEntries", -1, collections);
  bson_append_int64(out, "numIndexEntries", -1, 0);
  bson_append_int64(out, "countStaleConfigErrors", -1, c->stale_config_errors);
  bson_append_int64(out, "totalRefreshWaitTimeMicros", -1, c->wait_us);
  bson_append_int64(out, "numActiveIncrementalRefreshes", -1, c->incremental_active);
  bson_append_int64(out, "countIncrementalRefreshesStarted", -1, c->incremental_started);
  bson_append_int64(out, "numActiveFullRefreshes", -1, c->full_active);
  bson_append_int64(out, "countFullRefreshesStarted", -1, c->full_started);
  bson_append_int64(out, "countFailedRefreshes", -1, c->failed);
}
