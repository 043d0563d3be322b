// Sets: inserts of one or many documents, some deleted again, and scans of everything through the routers while chunks
// move: what was acknowledged before a scan is in it exactly once.
#include <stdlib.h>
#include <string.h>

#include "tests/chaos/client.h"
#include "tests/chaos/items.h"

enum {
  SET_WRITERS = 2,
  MAX_BATCH = 12,
  PERCENT_DELETES = 15,
  SCAN_PAUSE_MS = 300,
  SCAN_BATCH = 500,
  SCAN_MAX_MS = 15000,
};

struct sets {
  struct items items[SET_WRITERS][PLACES];
  atomic_int writers; // that took a number
  // What has been acknowledged last, as sessions know it: a scan of secondaries waits for it.
  pthread_mutex_t lock;
  uint32_t seconds, increment;
  bson_t cluster_time;
};

struct set_writer {
  int number;
  mongoc_client_session_t *session;
};

void sets_setup(struct run *run) {
  run->sets = aligned_alloc(_Alignof(struct sets), sizeof *run->sets);
  memset(run->sets, 0, sizeof *run->sets);
  (void)pthread_mutex_init(&run->sets->lock, NULL);
  bson_init(&run->sets->cluster_time);
  for (int w = 0; w < SET_WRITERS; w++)
    for (int p = 0; p < PLACES; p++) items_init(&run->sets->items[w][p], w);
}

// The key of writer w's item i, and back.
static int64_t key_of(int writer, int i) {
  return key_number((int64_t)writer * MAX_ITEMS + i);
}

static bson_t *make_document(struct worker *w, int writer, int i) {
  char pad[1000];
  size_t n = (size_t)rng_between(&w->rng, 50, 900);
  memset(pad, 'x', n);
  pad[n] = '\0';
  int64_t key = key_of(writer, i);
  return BCON_NEW("_id", BCON_INT64(key), "k", BCON_INT64(key), "w", BCON_INT32(writer), "i", BCON_INT32(i), "pad",
                  BCON_UTF8(pad));
}

// The newest time at which something was acknowledged, for all.
static void remember_time(struct sets *s, const mongoc_client_session_t *session) {
  uint32_t seconds, increment;
  mongoc_client_session_get_operation_time(session, &seconds, &increment);
  const bson_t *cluster_time = mongoc_client_session_get_cluster_time(session);
  (void)pthread_mutex_lock(&s->lock);
  if (cluster_time && (seconds > s->seconds || (seconds == s->seconds && increment > s->increment))) {
    s->seconds = seconds;
    s->increment = increment;
    bson_destroy(&s->cluster_time);
    bson_copy_to(cluster_time, &s->cluster_time);
  }
  (void)pthread_mutex_unlock(&s->lock);
}

static void advance_session(struct sets *s, mongoc_client_session_t *session) {
  (void)pthread_mutex_lock(&s->lock);
  if (s->seconds) {
    mongoc_client_session_advance_cluster_time(session, &s->cluster_time);
    mongoc_client_session_advance_operation_time(session, s->seconds, s->increment);
  }
  (void)pthread_mutex_unlock(&s->lock);
}

static void insert(struct worker *w, struct set_writer *own, mongoc_collection_t *coll, struct items *items) {
  int first = atomic_load(&items->n), n = rng_chance(&w->rng, 60) ? 1 : rng_between(&w->rng, 2, MAX_BATCH);
  bson_t *docs[MAX_BATCH], opts = BSON_INITIALIZER, reply;
  bson_error_t why = {0};
  if (first + n > MAX_ITEMS) return wait_ms(100);
  for (int i = 0; i < n; i++) docs[i] = make_document(w, items->writer, first + i);
  BSON_APPEND_BOOL(&opts, "ordered", rng_chance(&w->rng, 30));
  (void)mongoc_client_session_append(own->session, &opts, NULL);
  atomic_store(&items->n, first + n);
  bool ok = mongoc_collection_insert_many(coll, (const bson_t **)docs, (size_t)n, &opts, &reply, &why);
  int64_t now = now_ns();
  for (int i = 0; i < n; i++) {
    if (ok) atomic_store(&items->list[first + i].inserted, now);
    bson_destroy(docs[i]);
  }
  if (ok) remember_time(w->run->sets, own->session);
  if (why.code == 11000)
    report_violation(&w->run->report, "an insert of new keys was answered with %s: it was applied twice", why.message);
  bson_destroy(&opts);
  bson_destroy(&reply);
  (void)outcome_of(w, n == 1 ? "set insert" : "set insert many", ok, true, &why);
}

static void delete_one(struct worker *w, struct set_writer *own, mongoc_collection_t *coll, struct items *items) {
  int n = atomic_load(&items->n), i = n ? rng_below(&w->rng, n) : 0;
  struct item *it = &items->list[i];
  if (!n || !atomic_load(&it->inserted) || atomic_load(&it->delete_called)) return;
  int64_t key = key_of(items->writer, i);
  bson_t *filter = BCON_NEW("_id", BCON_INT64(key), "k", BCON_INT64(key)), opts = BSON_INITIALIZER, reply;
  bson_error_t why = {0};
  (void)mongoc_client_session_append(own->session, &opts, NULL);
  atomic_store(&it->delete_called, now_ns());
  bool ok = mongoc_collection_delete_one(coll, filter, &opts, &reply, &why);
  if (ok) {
    atomic_store(&it->deleted, now_ns());
    remember_time(w->run->sets, own->session);
  }
  if (ok && doc_number(&reply, "deletedCount") != 1)
    report_violation(&w->run->report, "set: key %lld was acknowledged and the delete of it found %lld documents",
                     (long long)key, (long long)doc_number(&reply, "deletedCount"));
  bson_destroy(filter);
  bson_destroy(&opts);
  bson_destroy(&reply);
  (void)outcome_of(w, "set delete", ok, true, &why);
}

void sets_turn(struct worker *w) {
  struct set_writer *own = w->own;
  if (!own) {
    own = w->own = calloc(1, sizeof *own);
    own->number = atomic_fetch_add(&w->run->sets->writers, 1) % SET_WRITERS;
  }
  if (!own->session) own->session = mongoc_client_start_session(w->client, NULL, NULL);
  if (!own->session) return wait_ms(50);
  int p = rng_below(&w->rng, PLACES);
  struct items *items = &w->run->sets->items[own->number][p];
  mongoc_collection_t *coll = collection_of(w->client, "set", (enum place)p);
  if (rng_chance(&w->rng, PERCENT_DELETES))
    delete_one(w, own, coll, items);
  else
    insert(w, own, coll, items);
  mongoc_collection_destroy(coll);
}

void sets_end_turn(struct worker *w) {
  struct set_writer *own = w->own;
  if (own && own->session) mongoc_client_session_destroy(own->session);
  free(own);
}

// --- scans ---

struct scan {
  uint8_t *counts[SET_WRITERS];
  int64_t from, to;
};

static void scan_free(struct scan *s) {
  for (int w = 0; w < SET_WRITERS; w++) free(s->counts[w]);
}

static void count_document(struct scan *s, const bson_t *doc) {
  int64_t w = doc_number(doc, "w"), i = doc_number(doc, "i");
  if (w < 0 || w >= SET_WRITERS || i < 0 || i >= MAX_ITEMS) return;
  if (s->counts[w][i] < UINT8_MAX) s->counts[w][i]++;
}

static bool scan_all(mongoc_client_t *c, enum place p, mongoc_client_session_t *session, bool secondary, struct scan *s,
                     bson_error_t *why) {
  bson_t filter = BSON_INITIALIZER,
         *opts = json("{'batchSize':%d,'maxTimeMS':%d,'projection':{'w':1,'i':1}}", SCAN_BATCH, SCAN_MAX_MS), concern;
  if (!secondary) {
    BSON_APPEND_DOCUMENT_BEGIN(opts, "readConcern", &concern);
    BSON_APPEND_UTF8(&concern, "level", "majority");
    bson_append_document_end(opts, &concern);
  }
  for (int w = 0; w < SET_WRITERS; w++) s->counts[w] = calloc(MAX_ITEMS, 1);
  if (session) (void)mongoc_client_session_append(session, opts, NULL);
  mongoc_read_prefs_t *prefs = mongoc_read_prefs_new(secondary ? MONGOC_READ_SECONDARY : MONGOC_READ_PRIMARY);
  mongoc_collection_t *coll = collection_of(c, "set", p);
  s->from = now_ns();
  mongoc_cursor_t *cursor = mongoc_collection_find_with_opts(coll, &filter, opts, prefs);
  const bson_t *doc;
  while (mongoc_cursor_next(cursor, &doc)) count_document(s, doc);
  s->to = now_ns();
  bool ok = !mongoc_cursor_error(cursor, why);
  mongoc_cursor_destroy(cursor);
  mongoc_collection_destroy(coll);
  mongoc_read_prefs_destroy(prefs);
  bson_destroy(opts);
  return ok;
}

static void judge_scan(struct run *run, enum place p, const struct scan *s, const char *what) {
  for (int w = 0; w < SET_WRITERS; w++) {
    struct verdict v;
    if (items_check(&run->sets->items[w][p], s->counts[w], MAX_ITEMS, s->from, s->to, &v)) continue;
    report_violation(&run->report, "%s of set_%c, %.0f ms long: %s", what, p == PLACE_HASHED ? 'h' : 'r',
                     (double)(s->to - s->from) / 1e6, v.text);
  }
}

void sets_scan_turn(struct worker *w) {
  bool secondary = w->run->fleet.plan.members > 1 && rng_chance(&w->rng, 50);
  enum place p = (enum place)rng_below(&w->rng, PLACES);
  struct scan s = {0};
  bson_error_t why = {0};
  mongoc_client_session_t *session = mongoc_client_start_session(w->client, NULL, NULL);
  if (secondary && session) advance_session(w->run->sets, session);
  bool ok = session && scan_all(w->client, p, session, secondary, &s, &why);
  if (ok) judge_scan(w->run, p, &s, secondary ? "scan of secondaries" : "scan");
  scan_free(&s);
  if (session) mongoc_client_session_destroy(session);
  (void)outcome_of(w, secondary ? "set scan secondary" : "set scan", ok, false, &why);
  wait_ms(SCAN_PAUSE_MS);
}

void sets_check(struct run *run) {
  for (int router = 0; router < FLEET_ROUTERS; router++) {
    mongoc_client_t *c = fleet_router_client(&run->fleet, 1 << router);
    for (int p = 0; p < PLACES; p++) {
      struct scan s = {0};
      bson_error_t why = {0};
      if (scan_all(c, (enum place)p, NULL, false, &s, &why))
        judge_scan(run, (enum place)p, &s, "final scan");
      else
        report_violation(&run->report, "final scan: %s", why.message);
      scan_free(&s);
    }
    mongoc_client_destroy(c);
  }
  for (int w = 0; w < SET_WRITERS; w++)
    for (int p = 0; p < PLACES; p++) items_free(&run->sets->items[w][p]);
  bson_destroy(&run->sets->cluster_time);
  (void)pthread_mutex_destroy(&run->sets->lock);
  free(run->sets);
}
