// Causally consistent sessions: a worker writes to documents of its own and reads them from secondaries. It finds its
// own acknowledged writes, never fewer than it read before, and never more than it tried.
#include <stdlib.h>

#include "tests/chaos/client.h"

enum { DOCUMENTS = 6, OPERATIONS_A_SESSION = 200 };

struct session_documents {
  mongoc_client_session_t *session;
  int operations;
  // In this session the least that must be seen; ever: the most that can be.
  int64_t least[PLACES][DOCUMENTS], tried[PLACES][DOCUMENTS];
};

static int64_t key_of(const struct worker *w, int i) {
  return key_number(1000 + w->id * DOCUMENTS + i);
}

// A new session knows nothing of what the last one saw.
static bool fresh_session(struct worker *w, struct session_documents *own) {
  if (own->session && ++own->operations < OPERATIONS_A_SESSION) return true;
  if (own->session) mongoc_client_session_destroy(own->session);
  own->session = mongoc_client_start_session(w->client, NULL, NULL);
  own->operations = 0;
  for (int p = 0; p < PLACES; p++)
    for (int i = 0; i < DOCUMENTS; i++) own->least[p][i] = 0;
  return own->session != NULL;
}

static void write_own(struct worker *w, struct session_documents *own, mongoc_collection_t *coll, int p, int i) {
  bson_t *filter = BCON_NEW("_id", BCON_INT64(key_of(w, i)), "k", BCON_INT64(key_of(w, i)));
  bson_t *update = json("{'$inc':{'n':1}}"), *opts = json("{'upsert':true}"), reply;
  bson_error_t why = {0};
  bool ok = mongoc_client_session_append(own->session, opts, &why);
  own->tried[p][i]++;
  ok = mongoc_collection_update_one(coll, filter, update, opts, &reply, &why) && ok;
  // The session's number of acknowledged writes is not known from the start: only that there is one more.
  if (ok) own->least[p][i]++;
  bson_destroy(&reply);
  bson_destroy(opts);
  bson_destroy(update);
  bson_destroy(filter);
  (void)outcome_of(w, "session write", ok, true, &why);
}

static void read_own(struct worker *w, struct session_documents *own, mongoc_collection_t *coll, int p, int i) {
  struct reading how = {.secondary = true, .session = own->session};
  bson_t *doc;
  bson_error_t why = {0};
  bool ok = read_one(coll, key_of(w, i), &how, &doc, &why);
  int64_t value = doc_number(doc, "n");
  if (ok && (value < own->least[p][i] || value > own->tried[p][i]))
    report_violation(&w->run->report,
                     "session of worker %d, key %lld in %c: %lld was read from a secondary, not %lld to %lld", w->id,
                     (long long)key_of(w, i), p == PLACE_HASHED ? 'h' : 'r', (long long)value,
                     (long long)own->least[p][i], (long long)own->tried[p][i]);
  if (ok) own->least[p][i] = value;
  bson_destroy(doc);
  (void)outcome_of(w, "session read secondary", ok, false, &why);
}

void session_turn(struct worker *w) {
  if (!w->own) w->own = calloc(1, sizeof(struct session_documents));
  struct session_documents *own = w->own;
  if (!fresh_session(w, own)) return wait_ms(50);
  int p = rng_below(&w->rng, PLACES), i = rng_below(&w->rng, DOCUMENTS);
  mongoc_collection_t *coll = collection_of(w->client, "session", (enum place)p);
  if (rng_chance(&w->rng, 40))
    write_own(w, own, coll, p, i);
  else
    read_own(w, own, coll, p, i);
  mongoc_collection_destroy(coll);
}

void session_end(struct worker *w) {
  struct session_documents *own = w->own;
  if (own && own->session) mongoc_client_session_destroy(own->session);
  free(own);
}
