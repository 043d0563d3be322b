// Writers with a memory. See writers.h.
#include "tests/integration/writers.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COUNTERS = 40, MAX_DOCUMENTS = 200000, PAUSE_AFTER_ERROR_MS = 20 };

enum fate { NOT_TRIED, UNKNOWN, INSERTED, DELETED };

struct counter {
  int64_t acknowledged, unknown; // increments
};

struct writer {
  int id;
  const struct process *router;
  atomic_bool *stop;
  pthread_t thread;
  unsigned seed;
  struct counter counters[COUNTERS];
  uint8_t fate[MAX_DOCUMENTS]; // of document number i
  int next;
  atomic_llong acknowledged;
};

struct writers {
  atomic_bool stop;
  int n;
  struct writer *all;
};

static unsigned below(struct writer *w, unsigned n) {
  w->seed = w->seed * 1103515245U + 12345U;
  return (w->seed >> 8) % n;
}

static int key_of_document(const struct writer *w, int i) {
  return w->id * WRITER_KEYS + COUNTERS + i % (WRITER_KEYS - COUNTERS);
}

static bool increment(struct writer *w, mongoc_collection_t *coll) {
  int i = (int)below(w, COUNTERS);
  bson_t *selector = BCON_NEW("customerId", BCON_INT32(w->id * WRITER_KEYS + i));
  bson_t *update =
      BCON_NEW("$inc", "{", "n", BCON_INT64(1), "}", "$setOnInsert", "{", "kind", BCON_UTF8("counter"), "}");
  bson_t *opts = BCON_NEW("upsert", BCON_BOOL(true));
  bson_error_t why;
  bool ok = mongoc_collection_update_one(coll, selector, update, opts, NULL, &why);
  ++*(ok ? &w->counters[i].acknowledged : &w->counters[i].unknown);
  bson_destroy(selector);
  bson_destroy(update);
  bson_destroy(opts);
  return ok;
}

static void name_document(const struct writer *w, int i, char name[32]) {
  (void)snprintf(name, 32, "w%d-%d", w->id, i);
}

static bool insert(struct writer *w, mongoc_collection_t *coll) {
  char name[32];
  int i = w->next;
  if (i == MAX_DOCUMENTS) return true;
  w->next++;
  name_document(w, i, name);
  bson_t *doc =
      BCON_NEW("_id", BCON_UTF8(name), "customerId", BCON_INT32(key_of_document(w, i)), "number", BCON_INT32(i), "pad",
               BCON_UTF8("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"));
  bson_error_t why;
  w->fate[i] = UNKNOWN;
  bool ok = mongoc_collection_insert_one(coll, doc, NULL, NULL, &why);
  if (ok) w->fate[i] = INSERTED;
  bson_destroy(doc);
  return ok;
}

static bool delete (struct writer *w, mongoc_collection_t *coll) {
  char name[32];
  int i = w->next ? (int)below(w, (unsigned)w->next) : 0;
  if (w->fate[i] != INSERTED) return true;
  name_document(w, i, name);
  bson_t *selector = BCON_NEW("_id", BCON_UTF8(name), "customerId", BCON_INT32(key_of_document(w, i))), reply;
  bson_error_t why;
  w->fate[i] = UNKNOWN;
  bool ok = mongoc_collection_delete_one(coll, selector, NULL, &reply, &why);
  // One that was acknowledged must be there to be deleted.
  if (ok && reply_i64(&reply, "deletedCount") != 1)
    (void)fprintf(stderr, "%s was acknowledged and is not there\n", name);
  if (ok && reply_i64(&reply, "deletedCount") == 1) w->fate[i] = DELETED;
  bson_destroy(&reply);
  bson_destroy(selector);
  return ok;
}

static void *run(void *arg) {
  struct writer *w = arg;
  mongoc_client_t *c = client_of(w->router);
  mongoc_collection_t *coll = mongoc_client_get_collection(c, "test", "moving");
  while (!atomic_load(w->stop)) {
    unsigned what = below(w, 10);
    bool ok = what < 5 ? increment(w, coll) : what < 9 ? insert(w, coll) : delete (w, coll);
    if (ok)
      atomic_fetch_add(&w->acknowledged, 1);
    else
      wait_ms(PAUSE_AFTER_ERROR_MS);
  }
  mongoc_collection_destroy(coll);
  mongoc_client_destroy(c);
  return NULL;
}

struct writers *writers_start(const struct process *const *routers, int n) {
  struct writers *w = calloc(1, sizeof *w);
  w->n = n;
  w->all = calloc((size_t)n, sizeof *w->all);
  for (int i = 0; i < n; i++) {
    w->all[i].id = i;
    w->all[i].router = routers[i];
    w->all[i].stop = &w->stop;
    w->all[i].seed = (unsigned)i * 7919U + 1U;
    assert_int_equal(pthread_create(&w->all[i].thread, NULL, run, &w->all[i]), 0);
  }
  return w;
}

void writers_stop(struct writers *w) {
  atomic_store(&w->stop, true);
  for (int i = 0; i < w->n; i++) (void)pthread_join(w->all[i].thread, NULL);
}

int64_t writers_acknowledged(const struct writers *w) {
  int64_t n = 0;
  for (int i = 0; i < w->n; i++) n += atomic_load(&w->all[i].acknowledged);
  return n;
}

// --- verification ---

struct seen {
  int64_t counters[COUNTERS];
  int counter_documents[COUNTERS];
  uint8_t documents[MAX_DOCUMENTS];
};

static int i32(const bson_t *doc, const char *name) {
  bson_iter_t it;
  return bson_iter_init_find(&it, doc, name) ? (int)bson_iter_as_int64(&it) : -1;
}

static void note(struct writers *w, struct seen *seen, const bson_t *doc) {
  int key = i32(doc, "customerId"), id = key / WRITER_KEYS, i = key % WRITER_KEYS;
  assert_in_range(id, 0, w->n - 1);
  if (i < COUNTERS) {
    seen[id].counter_documents[i]++;
    seen[id].counters[i] += i32(doc, "n");
  } else {
    int number = i32(doc, "number");
    assert_in_range(number, 0, w->all[id].next - 1);
    seen[id].documents[number]++;
  }
}

static int verify_writer(const struct writer *w, const struct seen *seen) {
  int wrong = 0;
  for (int i = 0; i < COUNTERS; i++) {
    const struct counter *c = &w->counters[i];
    bool fits = seen->counter_documents[i] <= 1 && seen->counters[i] >= c->acknowledged &&
                seen->counters[i] <= c->acknowledged + c->unknown;
    if (!fits)
      print_error("counter %d of writer %d: %d documents, value %lld, %lld acknowledged, %lld unknown\n", i, w->id,
                  seen->counter_documents[i], (long long)seen->counters[i], (long long)c->acknowledged,
                  (long long)c->unknown);
    wrong += !fits;
  }
  for (int i = 0; i < w->next; i++) {
    int n = seen->documents[i];
    bool fits = w->fate[i] == INSERTED ? n == 1 : w->fate[i] == DELETED ? n == 0 : n <= 1;
    if (!fits) print_error("document w%d-%d: there %d times, fate %d\n", w->id, i, n, w->fate[i]);
    wrong += !fits;
  }
  return wrong;
}

void writers_verify(struct writers *w, mongoc_client_t *router) {
  struct seen *seen = calloc((size_t)w->n, sizeof *seen);
  mongoc_collection_t *coll = mongoc_client_get_collection(router, "test", "moving");
  bson_t all = BSON_INITIALIZER;
  mongoc_cursor_t *cursor = mongoc_collection_find_with_opts(coll, &all, NULL, NULL);
  const bson_t *doc;
  bson_error_t why;
  while (mongoc_cursor_next(cursor, &doc)) note(w, seen, doc);
  if (mongoc_cursor_error(cursor, &why)) fail_msg("reading everything: %s", why.message);
  int wrong = 0;
  for (int i = 0; i < w->n; i++) wrong += verify_writer(&w->all[i], &seen[i]);
  mongoc_cursor_destroy(cursor);
  mongoc_collection_destroy(coll);
  free(seen);
  assert_int_equal(wrong, 0);
}

void writers_free(struct writers *w) {
  free(w->all);
  free(w);
}
