// A bank in single documents: transfers between the four accounts of one document, in one update each. Whoever reads a
// document, wherever, finds the same total.
#include "tests/chaos/client.h"

enum { BANKS = 4, ACCOUNTS = 4, START_BALANCE = 100, SETUP_TRIES = 100 }; // BANKS: in each place

static const char *const accounts[ACCOUNTS] = {"a", "b", "c", "d"};

static int64_t key_of(int i) {
  return key_number(500 + i);
}

bool bank_setup(struct run *run) {
  mongoc_client_t *c = fleet_router_client(&run->fleet, 1);
  bool all = true;
  for (int n = 0; n < PLACES * BANKS; n++) {
    mongoc_collection_t *coll = collection_of(c, "bank", (enum place)(n % PLACES));
    bson_t *doc = BCON_NEW("_id", BCON_INT64(key_of(n / PLACES)), "k", BCON_INT64(key_of(n / PLACES)), "a",
                           BCON_INT32(START_BALANCE), "b", BCON_INT32(START_BALANCE), "c", BCON_INT32(START_BALANCE),
                           "d", BCON_INT32(START_BALANCE));
    all = mongoc_collection_insert_one(coll, doc, NULL, NULL, NULL) && all; // no fault has begun yet
    bson_destroy(doc);
    mongoc_collection_destroy(coll);
  }
  mongoc_client_destroy(c);
  return all;
}

static bool read_bank(struct run *run, mongoc_collection_t *coll, int i, const struct reading *how, bson_error_t *why) {
  bson_t *doc;
  int64_t total = 0;
  bool ok = read_one(coll, key_of(i), how, &doc, why);
  for (int a = 0; a < ACCOUNTS; a++) total += doc_number(doc, accounts[a]);
  // A secondary may be behind the document's insertion.
  if (ok && total != ACCOUNTS * START_BALANCE && (doc || !how->secondary)) {
    char *text = doc ? bson_as_relaxed_extended_json(doc, NULL) : NULL;
    report_violation(&run->report, "bank %d: the total is not %d: %s", i, ACCOUNTS * START_BALANCE,
                     text ? text : "no document");
    bson_free(text);
  }
  bson_destroy(doc);
  return ok;
}

static void transfer(struct worker *w, mongoc_collection_t *coll, int i) {
  int from = rng_below(&w->rng, ACCOUNTS), to = (from + 1 + rng_below(&w->rng, ACCOUNTS - 1)) % ACCOUNTS;
  int amount = rng_between(&w->rng, 1, 30);
  char enough[40];
  (void)snprintf(enough, sizeof enough, ",'%s':{'$gte':%d}", accounts[from], amount);
  (void)update_one(w, coll, "bank transfer", key_of(i), enough, false, NULL, "{'$inc':{'%s':%d,'%s':%d}}",
                   accounts[from], -amount, accounts[to], amount);
}

void bank_turn(struct worker *w) {
  static const struct reading ways[] = {{.concern = "majority"}, {.concern = "local"}, {.secondary = true}};
  int p = rng_below(&w->rng, PLACES), i = rng_below(&w->rng, BANKS);
  mongoc_collection_t *coll = collection_of(w->client, "bank", (enum place)p);
  if (rng_chance(&w->rng, 60)) {
    transfer(w, coll, i);
  } else {
    bson_error_t why = {0};
    bool ok = read_bank(w->run, coll, i, &ways[rng_below(&w->rng, 3)], &why);
    (void)outcome_of(w, "bank read", ok, false, &why);
  }
  mongoc_collection_destroy(coll);
}

void bank_check(struct run *run) {
  mongoc_client_t *c = fleet_router_client(&run->fleet, 2);
  const struct reading how = {.concern = "majority"};
  for (int n = 0; n < PLACES * BANKS; n++) {
    mongoc_collection_t *coll = collection_of(c, "bank", (enum place)(n % PLACES));
    bson_error_t why = {0};
    if (!read_bank(run, coll, n / PLACES, &how, &why))
      report_violation(&run->report, "final read of bank %d: %s", n / PLACES, why.message);
    mongoc_collection_destroy(coll);
  }
  mongoc_client_destroy(c);
}
