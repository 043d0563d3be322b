// What must hold when all faults are over and all has come to rest: every document is on the shard that owns it and on
// no other, and the members of each set have the same documents, each consistent in itself.
#include <stdlib.h>
#include <string.h>

#include "common/base/map.h"
#include "common/bson/hash.h"
#include "tests/chaos/chunk_list.h"
#include "tests/chaos/client.h"

enum { AGREE_MS = 60000, DIRECT_MS = 20000 };

// Calls fn for every document as this member has it, orphans included.
static bool read_member(const struct member_daemon *d, const char *db, const char *coll_name,
                        void (*fn)(void *ctx, const bson_t *doc), void *ctx, bson_error_t *why) {
  mongoc_client_t *c = fleet_direct_client(d, DIRECT_MS);
  mongoc_collection_t *coll = mongoc_client_get_collection(c, db, coll_name);
  mongoc_read_prefs_t *prefs = mongoc_read_prefs_new(MONGOC_READ_SECONDARY_PREFERRED);
  bson_t all = BSON_INITIALIZER;
  mongoc_cursor_t *cursor = mongoc_collection_find_with_opts(coll, &all, NULL, prefs);
  const bson_t *doc;
  while (mongoc_cursor_next(cursor, &doc)) fn(ctx, doc);
  bool ok = !mongoc_cursor_error(cursor, why);
  mongoc_cursor_destroy(cursor);
  mongoc_read_prefs_destroy(prefs);
  mongoc_collection_destroy(coll);
  mongoc_client_destroy(c);
  return ok;
}

// --- each key on its shard ---

struct ownership {
  struct run *run;
  const struct chunk_list *chunks;
  const char *ns;
  char shard[8]; // that is being read
  bool hashed;
  struct map *seen; // key -> itself
  int64_t wrong;
};

static void look_at(void *ctx, const bson_t *doc) {
  struct ownership *o = ctx;
  bson_iter_t id;
  if (!bson_iter_init_find(&id, doc, "_id")) return;
  int64_t key = bson_iter_as_int64(&id);
  const char *owner = chunk_list_owner(o->chunks, o->hashed ? bson_hash64(bson_iter_value(&id), 0) : key);
  if (map_put(o->seen, &key, sizeof key, o) && o->wrong++ < 5)
    report_violation(&o->run->report, "%s: key %lld is there twice", o->ns, (long long)key);
  if ((!owner || strcmp(owner, o->shard) != 0) && o->wrong++ < 5)
    report_violation(&o->run->report, "%s: key %lld is on %s, its owner is %s", o->ns, (long long)key, o->shard,
                     owner ? owner : "nobody");
}

static void check_ownership(struct run *run, mongoc_client_t *router, const char *coll_name, bool hashed) {
  char ns[80];
  struct chunk_list chunks;
  bson_error_t why = {0};
  (void)snprintf(ns, sizeof ns, "%s.%s", CHAOS_DB, coll_name);
  struct ownership o = {.run = run, .chunks = &chunks, .ns = ns, .hashed = hashed, .seen = map_new()};
  bool ok = chunk_list_read(router, ns, &chunks, &why);
  for (int set = 1; ok && set < fleet_sets(&run->fleet); set++) {
    struct member_daemon *d = fleet_primary(&run->fleet, set);
    fleet_set_name(set, o.shard);
    ok = d && read_member(d, CHAOS_DB, coll_name, look_at, &o, &why);
  }
  if (!ok) report_violation(&run->report, "%s: cannot be read at the end: %s", ns, why.message);
  map_free(o.seen, NULL);
  chunk_list_free(&chunks);
}

// --- members equal ---

struct digest {
  uint64_t documents, sum;
};

static void add_to_digest(void *ctx, const bson_t *doc) {
  struct digest *d = ctx;
  uint64_t h = 1469598103934665603U; // FNV-1a; summed up, so that the order does not matter
  const uint8_t *data = bson_get_data(doc);
  for (uint32_t i = 0; i < doc->len; i++) h = (h ^ data[i]) * 1099511628211U;
  d->documents++;
  d->sum += h;
}

static bool members_agree(struct fleet *f, int set, const char *db, const char *coll, char *text, size_t size) {
  struct digest first = {0};
  int members = set ? f->plan.members : f->plan.config_members;
  for (int m = 0; m < members; m++) {
    struct member_daemon *d = fleet_member(f, set, m);
    struct digest digest = {0};
    bson_error_t why = {0};
    if (!read_member(d, db, coll, add_to_digest, &digest, &why)) {
      (void)snprintf(text, size, "%s: %s.%s: %s", d->process.name, db, coll, why.message);
      return false;
    }
    if (m == 0) first = digest;
    if (digest.documents == first.documents && digest.sum == first.sum) continue;
    (void)snprintf(text, size, "%s.%s differs between %s (%llu documents) and %s (%llu documents)", db, coll,
                   fleet_member(f, set, 0)->process.name, (unsigned long long)first.documents, d->process.name,
                   (unsigned long long)digest.documents);
    return false;
  }
  return true;
}

static void check_members(struct run *run, int set, const char *db, const char *coll) {
  char text[400];
  int64_t end = now_ms() + AGREE_MS;
  while (!members_agree(&run->fleet, set, db, coll, text, sizeof text)) {
    if (now_ms() > end) return report_violation(&run->report, "members are not equal: %s", text);
    fleet_poll(&run->fleet);
    wait_ms(300);
  }
}

static void validate(struct run *run, const struct member_daemon *d, const char *db, const char *coll) {
  mongoc_client_t *c = fleet_direct_client(d, DIRECT_MS);
  bson_t reply;
  bson_iter_t it;
  bool ok = command(c, db, &reply, "{'validate':'%s'}", coll) && bson_iter_init_find(&it, &reply, "valid") &&
            bson_iter_as_bool(&it);
  if (!ok) {
    char *text = bson_as_relaxed_extended_json(&reply, NULL);
    report_violation(&run->report, "%s: validate of %s.%s: %s", d->process.name, db, coll, text);
    bson_free(text);
  }
  bson_destroy(&reply);
  mongoc_client_destroy(c);
}

static void check_collection(struct run *run, int set, const char *db, const char *coll) {
  check_members(run, set, db, coll);
  int members = set ? run->fleet.plan.members : run->fleet.plan.config_members;
  for (int m = 0; m < members; m++) validate(run, fleet_member(&run->fleet, set, m), db, coll);
}

static void check_set(struct run *run, int set) {
  static const char *const dbs[] = {CHAOS_DB, "config", "admin"};
  struct member_daemon *d = fleet_primary(&run->fleet, set);
  char name[8];
  if (!d) return report_violation(&run->report, "%s has no primary at the end", fleet_set_name(set, name));
  mongoc_client_t *c = fleet_direct_client(d, DIRECT_MS);
  for (size_t i = 0; i < sizeof dbs / sizeof *dbs; i++) {
    mongoc_database_t *db = mongoc_client_get_database(c, dbs[i]);
    char **names = mongoc_database_get_collection_names_with_opts(db, NULL, NULL);
    for (char **n = names; n && *n; n++) check_collection(run, set, dbs[i], *n);
    bson_strfreev(names);
    mongoc_database_destroy(db);
  }
  mongoc_client_destroy(c);
}

void final_checks(struct run *run) {
  static const char *const loads[] = {"register", "list", "set", "counter", "bank", "session"};
  bool settled = chunks_settle(run);
  sets_check(run);
  registers_check(run);
  lists_check(run);
  counters_check(run);
  bank_check(run);
  mongoc_client_t *router = fleet_router_client(&run->fleet, 1);
  for (size_t i = 0; settled && i < 2 * sizeof loads / sizeof *loads; i++) {
    char name[40];
    (void)snprintf(name, sizeof name, "%s_%c", loads[i / 2], i % 2 ? 'r' : 'h');
    check_ownership(run, router, name, i % 2 == 0);
  }
  mongoc_client_destroy(router);
  for (int set = 0; set < fleet_sets(&run->fleet); set++) check_set(run, set);
}
