// Counters: $inc with retryable writes. A value lies between what had been acknowledged when its read was called and
// what had been tried when it was answered; at the end as well.
#include <stdlib.h>

#include "tests/chaos/client.h"

enum { COUNTERS = 3 }; // in each place

struct counters {
  atomic_llong acknowledged[PLACES][COUNTERS], tried[PLACES][COUNTERS];
};

void counters_setup(struct run *run) {
  run->counters = calloc(1, sizeof *run->counters);
}

static int64_t key_of(int i) {
  return key_number(100 + i);
}

static bool read_counter(struct run *run, mongoc_collection_t *coll, int p, int i, const char *concern,
                         bson_error_t *why) {
  struct reading how = {.concern = concern};
  bson_t *doc;
  long long least = atomic_load(&run->counters->acknowledged[p][i]);
  bool ok = read_one(coll, key_of(i), &how, &doc, why);
  long long most = atomic_load(&run->counters->tried[p][i]);
  int64_t value = doc_number(doc, "n");
  if (ok && (value < least || value > most))
    report_violation(&run->report, "counter %d in %c: %lld was read; %lld were acknowledged before, %lld tried", i,
                     p == PLACE_HASHED ? 'h' : 'r', (long long)value, least, most);
  bson_destroy(doc);
  return ok;
}

void counters_turn(struct worker *w) {
  int p = rng_below(&w->rng, PLACES), i = rng_below(&w->rng, COUNTERS);
  struct counters *cs = w->run->counters;
  mongoc_collection_t *coll = collection_of(w->client, "counter", (enum place)p);
  if (rng_chance(&w->rng, 75)) {
    (void)atomic_fetch_add(&cs->tried[p][i], 1);
    if (update_one(w, coll, "counter increment", key_of(i), "", true, NULL, "{'$inc':{'n':1}}") == OUTCOME_OK)
      (void)atomic_fetch_add(&cs->acknowledged[p][i], 1);
  } else {
    bson_error_t why = {0};
    bool ok = read_counter(w->run, coll, p, i, rng_chance(&w->rng, 50) ? "majority" : "linearizable", &why);
    (void)outcome_of(w, "counter read", ok, false, &why);
  }
  mongoc_collection_destroy(coll);
}

void counters_check(struct run *run) {
  mongoc_client_t *c = fleet_router_client(&run->fleet, 2);
  for (int p = 0; p < PLACES; p++) {
    mongoc_collection_t *coll = collection_of(c, "counter", (enum place)p);
    for (int i = 0; i < COUNTERS; i++) {
      bson_error_t why = {0};
      if (!read_counter(run, coll, p, i, "majority", &why))
        report_violation(&run->report, "final read of counter %d: %s", i, why.message);
    }
    mongoc_collection_destroy(coll);
  }
  mongoc_client_destroy(c);
  free(run->counters);
}
