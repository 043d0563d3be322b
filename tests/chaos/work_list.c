// List-append: $push of unique values to a few lists, reads of whole lists.
#include <stdlib.h>

#include "common/base/buf.h"
#include "tests/chaos/check_list.h"
#include "tests/chaos/client.h"

enum { ACTIVE_LISTS = 2, MAX_OPERATIONS = 120 }; // in each place

struct list_key {
  struct history h;
  enum place place;
};

struct lists {
  pthread_mutex_t lock;
  struct list_key **all;
  size_t n, cap;
  struct list_key *active[PLACES][ACTIVE_LISTS];
};

static struct list_key *new_list(struct lists *ls, enum place p) {
  struct list_key *k = calloc(1, sizeof *k);
  k->place = p;
  k->h.key = key_number((int64_t)ls->n);
  ls->all = array_grow(ls->all, &ls->cap, ls->n + 1, sizeof *ls->all);
  return ls->all[ls->n++] = k;
}

void lists_setup(struct run *run) {
  run->lists = calloc(1, sizeof *run->lists);
  (void)pthread_mutex_init(&run->lists->lock, NULL);
  for (int p = 0; p < PLACES; p++)
    for (int i = 0; i < ACTIVE_LISTS; i++) run->lists->active[p][i] = new_list(run->lists, (enum place)p);
}

static struct list_key *choose_list(struct worker *w) {
  struct lists *ls = w->run->lists;
  int p = rng_below(&w->rng, PLACES), i = rng_below(&w->rng, ACTIVE_LISTS);
  (void)pthread_mutex_lock(&ls->lock);
  if (ls->active[p][i]->h.n >= MAX_OPERATIONS) ls->active[p][i] = new_list(ls, (enum place)p);
  struct list_key *k = ls->active[p][i];
  (void)pthread_mutex_unlock(&ls->lock);
  return k;
}

static void note(struct run *run, struct list_key *k, const struct op *op) {
  (void)pthread_mutex_lock(&run->lists->lock);
  history_add(&k->h, op);
  (void)pthread_mutex_unlock(&run->lists->lock);
}

static void take_list(const bson_t *doc, struct op *op) {
  bson_iter_t it, value;
  size_t cap = 0;
  if (!doc || !bson_iter_init_find(&it, doc, "list") || !bson_iter_recurse(&it, &value)) return;
  while (bson_iter_next(&value)) {
    op->list = array_grow(op->list, &cap, op->n_list + 1, sizeof *op->list);
    op->list[op->n_list++] = bson_iter_as_int64(&value);
  }
}

static bool read_list(struct run *run, mongoc_collection_t *coll, struct list_key *k, int worker, const char *concern,
                      bool secondary, bson_error_t *why) {
  struct reading how = {.concern = concern, .secondary = secondary};
  struct op op = {.kind = OP_READ_LIST, .called = now_ns(), .worker = worker, .version = -1};
  op.strict = concern[0] != 'l' || concern[1] == 'i'; // linearizable, majority
  op.strict = op.strict && !secondary;
  bson_t *doc;
  bool ok = read_one(coll, k->h.key, &how, &doc, why);
  op.done = now_ns();
  if (ok) {
    take_list(doc, &op);
    note(run, k, &op);
  }
  bson_destroy(doc);
  return ok;
}

static void append(struct worker *w, mongoc_collection_t *coll, struct list_key *k) {
  struct op op = {.kind = OP_APPEND, .called = now_ns(), .worker = w->id, .value = unique_value(w), .version = -1};
  enum outcome o = update_one(w, coll, "list append", k->h.key, "", true, NULL,
                              "{'$push':{'list':{'$numberLong':'%lld'}}}", (long long)op.value);
  op.done = o == OUTCOME_OK ? now_ns() : NEVER;
  note(w->run, k, &op);
}

void lists_turn(struct worker *w) {
  static const char *const concerns[] = {"majority", "linearizable", "local", "local"};
  struct list_key *k = choose_list(w);
  mongoc_collection_t *coll = collection_of(w->client, "list", k->place);
  bson_error_t why = {0};
  if (rng_chance(&w->rng, 55)) {
    append(w, coll, k);
  } else {
    int which = rng_below(&w->rng, 4);
    bool ok = read_list(w->run, coll, k, w->id, concerns[which], which == 3, &why);
    (void)outcome_of(w, "list read", ok, false, &why);
  }
  mongoc_collection_destroy(coll);
}

static void judge(struct run *run, const struct list_key *k) {
  struct verdict v;
  if (check_list(&k->h, &v) && check_list_cycles(&k->h, &v)) return;
  char name[64];
  (void)snprintf(name, sizeof name, "list-%c-%lld.txt", k->place == PLACE_HASHED ? 'h' : 'r', (long long)k->h.key);
  FILE *f = report_evidence(&run->report, name);
  if (f) {
    history_write(&k->h, f);
    (void)fclose(f);
  }
  report_violation(&run->report, "%s (%s)", v.text, name);
}

void lists_check(struct run *run) {
  struct lists *ls = run->lists;
  mongoc_client_t *c = fleet_router_client(&run->fleet, 1);
  for (size_t i = 0; i < ls->n; i++) {
    mongoc_collection_t *coll = collection_of(c, "list", ls->all[i]->place);
    bson_error_t why = {0};
    if (!read_list(run, coll, ls->all[i], -1, "majority", false, &why))
      report_violation(&run->report, "final read of list %lld: %s", (long long)ls->all[i]->h.key, why.message);
    mongoc_collection_destroy(coll);
    judge(run, ls->all[i]);
    history_free(&ls->all[i]->h);
    free(ls->all[i]);
  }
  mongoc_client_destroy(c);
  (void)pthread_mutex_destroy(&ls->lock);
  free(ls->all);
  free(ls);
}
