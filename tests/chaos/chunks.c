// The collections of a round, and a thread that moves, splits and merges their chunks all the time; the balancer is on
// as well, and is switched off and on again now and then.
#include <stdlib.h>
#include <string.h>

#include "tests/chaos/chunk_list.h"
#include "tests/chaos/client.h"

enum { FIRST_RANGES = 8, MANY_CHUNKS = 24, PAUSE_MIN_MS = 20, PAUSE_MAX_MS = 700, SETUP_MS = 30000, SETTLE_MS = 90000 };

static const char *const loads[] = {"register", "list", "set", "counter", "bank", "session"};
enum { LOADS = sizeof loads / sizeof *loads };

static bool run_command(mongoc_client_t *c, const char *db, bson_t *doc, bson_error_t *why) {
  bson_t reply;
  bool ok = mongoc_client_command_simple(c, db, doc, NULL, &reply, why);
  bson_destroy(&reply);
  bson_destroy(doc);
  return ok;
}

// --- before the round ---

static bool shard_collection(mongoc_client_t *c, const char *load, enum place p) {
  bson_error_t why;
  char place = p == PLACE_HASHED ? 'h' : 'r';
  if (!run_command(c, "admin",
                   json("{'shardCollection':'%s.%s_%c','key':{%s}}", CHAOS_DB, load, place,
                        p == PLACE_HASHED ? "'_id':'hashed'" : "'k':1"),
                   &why)) {
    (void)printf("shardCollection: %s\n", why.message);
    return false;
  }
  bool ok = true;
  for (int i = 1; p == PLACE_RANGED && i < FIRST_RANGES; i++)
    ok = run_command(
             c, "admin",
             json("{'split':'%s.%s_r','middle':{'k':{'$numberLong':'%d'}}}", CHAOS_DB, load, i * (KEYS / FIRST_RANGES)),
             &why) &&
         ok;
  return ok;
}

bool chunks_setup(struct run *run) {
  mongoc_client_t *c = fleet_router_client(&run->fleet, 1);
  bson_error_t why = {0};
  int64_t end = now_ms() + SETUP_MS;
  bool ok = false;
  while (!ok && now_ms() < end) // the routers add the shards just now
    ok = run_command(c, "admin",
                     json("{'enableSharding':'" CHAOS_DB "','primaryShard':'sh%d'}", run->fleet.plan.shards), &why);
  for (int i = 0; ok && i < LOADS * PLACES; i++) ok = shard_collection(c, loads[i / PLACES], (enum place)(i % PLACES));
  bson_t *size =
      json("{'update':'settings','updates':[{'q':{'_id':'chunksize'},'u':{'$set':{'value':1}},'upsert':true}]}");
  ok = ok && run_command(c, "config", size, &why);
  if (!ok) report_violation(&run->report, "the collections could not be made: %s", why.message);
  mongoc_client_destroy(c);
  return ok;
}

// --- during the round ---

static void append_bound(bson_t *to, const char *name, const bson_t *bound) {
  (void)bson_append_document(to, name, -1, bound);
}

static void move(struct worker *w, const char *ns, const struct chunk_list *l, int i, bson_error_t *why) {
  const struct chunk *ch = &l->list[i];
  char to[16];
  bson_t cmd = BSON_INITIALIZER;
  (void)snprintf(to, sizeof to, "sh%d", 1 + rng_below(&w->rng, w->run->fleet.plan.shards));
  if (!strcmp(to, ch->shard))
    (void)snprintf(to, sizeof to, "sh%d", atoi(ch->shard + 2) % w->run->fleet.plan.shards + 1);
  if (rng_chance(&w->rng, 70)) {
    BSON_APPEND_UTF8(&cmd, "moveRange", ns);
    BSON_APPEND_UTF8(&cmd, "toShard", to);
    append_bound(&cmd, "min", ch->min);
    append_bound(&cmd, "max", ch->max);
  } else {
    bson_t bounds;
    BSON_APPEND_UTF8(&cmd, "moveChunk", ns);
    BSON_APPEND_ARRAY_BEGIN(&cmd, "bounds", &bounds);
    append_bound(&bounds, "0", ch->min);
    append_bound(&bounds, "1", ch->max);
    bson_append_array_end(&cmd, &bounds);
    BSON_APPEND_UTF8(&cmd, "to", to);
    BSON_APPEND_BOOL(&cmd, "_waitForDelete", rng_chance(&w->rng, 10));
  }
  bson_t *copy = bson_copy(&cmd);
  bson_destroy(&cmd);
  bool ok = run_command(w->client, "admin", copy, why);
  (void)outcome_of(w, "chunks move", ok, false, why);
}

static void split(struct worker *w, const char *ns, const struct chunk_list *l, int i, bson_error_t *why) {
  const struct chunk *ch = &l->list[i];
  int64_t middle = ch->from / 2 + ch->to / 2 + rng_below(&w->rng, 1000);
  if (middle <= ch->from || middle >= ch->to) return;
  bson_iter_t field;
  if (!bson_iter_init(&field, ch->min) || !bson_iter_next(&field)) return;
  bson_t *cmd =
      json("{'split':'%s','middle':{'%s':{'$numberLong':'%lld'}}}", ns, bson_iter_key(&field), (long long)middle);
  bool ok = run_command(w->client, "admin", cmd, why);
  (void)outcome_of(w, "chunks split", ok, false, why);
}

static void merge(struct worker *w, const char *ns, const struct chunk_list *l, int i, bson_error_t *why) {
  if (i + 1 >= l->n || strcmp(l->list[i].shard, l->list[i + 1].shard) != 0) return;
  bson_t cmd = BSON_INITIALIZER, bounds;
  BSON_APPEND_UTF8(&cmd, "mergeChunks", ns);
  BSON_APPEND_ARRAY_BEGIN(&cmd, "bounds", &bounds);
  append_bound(&bounds, "0", l->list[i].min);
  append_bound(&bounds, "1", l->list[i + 1].max);
  bson_append_array_end(&cmd, &bounds);
  bson_t *copy = bson_copy(&cmd);
  bson_destroy(&cmd);
  bool ok = run_command(w->client, "admin", copy, why);
  (void)outcome_of(w, "chunks merge", ok, false, why);
}

static void switch_balancer(struct worker *w, bson_error_t *why) {
  const char *what = rng_chance(&w->rng, 30) ? "balancerStop" : "balancerStart";
  bool ok = run_command(w->client, "admin", json("{'%s':1,'maxTimeMS':10000}", what), why);
  (void)outcome_of(w, "chunks balancer switch", ok, false, why);
}

void chunks_turn(struct worker *w) {
  char ns[60];
  struct chunk_list l = {0};
  bson_error_t why = {0};
  (void)snprintf(ns, sizeof ns, "%s.%s_%c", CHAOS_DB, loads[rng_below(&w->rng, LOADS)],
                 rng_chance(&w->rng, 50) ? 'h' : 'r');
  int what = rng_below(&w->rng, 100), choice = rng_below(&w->rng, 1000000);
  if (chunk_list_read(w->client, ns, &l, &why) && l.n > 0) {
    int i = choice % l.n;
    if (what < 60 && w->run->fleet.plan.shards > 1)
      move(w, ns, &l, i, &why);
    else if (what < 95)
      (l.n < MANY_CHUNKS && what < 80 ? split : merge)(w, ns, &l, i, &why);
    else
      switch_balancer(w, &why);
  }
  chunk_list_free(&l);
  wait_ms(rng_between(&w->rng, PAUSE_MIN_MS, PAUSE_MAX_MS));
}

// --- after the round ---

static int64_t unfinished(struct run *run, const char *collection) {
  int64_t n = 0;
  for (int set = 1; set < fleet_sets(&run->fleet); set++) {
    struct member_daemon *d = fleet_primary(&run->fleet, set);
    if (!d) return -1;
    mongoc_client_t *c = fleet_direct_client(d, 3000);
    bson_t reply;
    bool ok = command(c, "config", &reply, "{'count':'%s'}", collection);
    n = ok && n >= 0 ? n + reply_i64(&reply, "n") : -1;
    bson_destroy(&reply);
    mongoc_client_destroy(c);
  }
  return n;
}

bool chunks_settle(struct run *run) {
  static const char *const collections[] = {"migrationCoordinators", "rangeDeletions"};
  mongoc_client_t *c = fleet_router_client(&run->fleet, 1);
  bson_error_t why = {0};
  int64_t end = now_ms() + SETTLE_MS, n = 0;
  bool ok = false;
  while (!(ok = run_command(c, "admin", json("{'balancerStop':1}"), &why)) && now_ms() < end) wait_ms(200);
  if (!ok) report_violation(&run->report, "the balancer cannot be stopped: %s", why.message);
  mongoc_client_destroy(c);
  for (int i = 0; i < 2; i++) {
    while ((n = unfinished(run, collections[i])) != 0 && now_ms() < end) {
      fleet_poll(&run->fleet);
      wait_ms(200);
    }
    if (n)
      report_violation(&run->report, "config.%s still has %lld documents at the end", collections[i], (long long)n);
    ok = ok && !n;
  }
  return ok;
}
