// Registers: reads of several concerns, blind writes of unique values, compare-and-set by findAndModify with a filter.
//
// Few keys at a time, so that workers meet on them; a key is given up for a new one after some operations, because the
// search for a linear order grows with the operations that overlap and with those whose outcome is unknown.
#include <stdlib.h>

#include "common/base/buf.h"
#include "tests/chaos/check_register.h"
#include "tests/chaos/client.h"

enum { ACTIVE_KEYS = 2, MAX_OPERATIONS = 100, MAX_UNKNOWN = 8 }; // ACTIVE_KEYS: in each place

struct register_key {
  struct history h;
  enum place place;
  int unknown;
  int64_t last_seen; // for the next compare-and-set
};

struct registers {
  pthread_mutex_t lock;
  struct register_key **all;
  size_t n, cap;
  struct register_key *active[PLACES][ACTIVE_KEYS];
};

static struct register_key *new_key(struct registers *rs, enum place p) {
  struct register_key *k = calloc(1, sizeof *k);
  k->place = p;
  k->h.key = key_number((int64_t)rs->n);
  rs->all = array_grow(rs->all, &rs->cap, rs->n + 1, sizeof *rs->all);
  return rs->all[rs->n++] = k;
}

void registers_setup(struct run *run) {
  run->registers = calloc(1, sizeof *run->registers);
  (void)pthread_mutex_init(&run->registers->lock, NULL);
  for (int p = 0; p < PLACES; p++)
    for (int i = 0; i < ACTIVE_KEYS; i++) run->registers->active[p][i] = new_key(run->registers, (enum place)p);
}

static struct register_key *choose_key(struct worker *w, int64_t *last_seen) {
  struct registers *rs = w->run->registers;
  int p = rng_below(&w->rng, PLACES), i = rng_below(&w->rng, ACTIVE_KEYS);
  (void)pthread_mutex_lock(&rs->lock);
  struct register_key *k = rs->active[p][i];
  if (k->h.n >= MAX_OPERATIONS || k->unknown >= MAX_UNKNOWN) k = rs->active[p][i] = new_key(rs, (enum place)p);
  *last_seen = k->last_seen;
  (void)pthread_mutex_unlock(&rs->lock);
  return k;
}

static void note(struct worker *w, struct register_key *k, struct op *op, enum outcome o) {
  struct registers *rs = w->run->registers;
  op->worker = w->id;
  op->done = o == OUTCOME_OK ? now_ns() : NEVER;
  (void)pthread_mutex_lock(&rs->lock);
  history_add(&k->h, op);
  k->unknown += o != OUTCOME_OK;
  if (o == OUTCOME_OK && op->kind != OP_CAS_MISSED) k->last_seen = op->value;
  (void)pthread_mutex_unlock(&rs->lock);
}

static void read_register(struct worker *w, mongoc_collection_t *coll, struct register_key *k) {
  static const char *const concerns[] = {"majority", "majority", "linearizable", "local"};
  int which = rng_below(&w->rng, 4);
  struct reading how = {.concern = concerns[which]};
  struct op op = {.kind = OP_READ, .called = now_ns(), .strict = which < 3};
  bson_error_t why = {0};
  bson_t *doc;
  bool ok = read_one(coll, k->h.key, &how, &doc, &why);
  op.value = doc_number(doc, "v");
  op.version = doc_number(doc, "n");
  if (ok) note(w, k, &op, OUTCOME_OK);
  (void)outcome_of(w, "register read", ok, false, &why);
  bson_destroy(doc);
}

static void write_register(struct worker *w, mongoc_collection_t *coll, struct register_key *k) {
  struct op op = {.kind = OP_WRITE, .called = now_ns(), .value = unique_value(w), .version = -1};
  enum outcome o = update_one(w, coll, "register write", k->h.key, "", true, NULL,
                              "{'$set':{'v':{'$numberLong':'%lld'}},'$inc':{'n':1}}", (long long)op.value);
  note(w, k, &op, o);
}

static void compare_and_set(struct worker *w, mongoc_collection_t *coll, struct register_key *k, int64_t expected) {
  struct op op = {.kind = OP_CAS, .called = now_ns(), .value = unique_value(w), .expected = expected, .version = -1};
  bson_t *filter = json("{'_id':{'$numberLong':'%lld'},'k':{'$numberLong':'%lld'},'v':{'$numberLong':'%lld'}}",
                        (long long)k->h.key, (long long)k->h.key, (long long)expected);
  bson_t *update = json("{'$set':{'v':{'$numberLong':'%lld'}},'$inc':{'n':1}}", (long long)op.value), reply, before;
  mongoc_find_and_modify_opts_t *opts = mongoc_find_and_modify_opts_new();
  (void)mongoc_find_and_modify_opts_set_update(opts, update);
  bson_error_t why = {0};
  bson_iter_t it;
  bool ok = mongoc_collection_find_and_modify_with_opts(coll, filter, opts, &reply, &why);
  if (ok && bson_iter_init_find(&it, &reply, "value") && BSON_ITER_HOLDS_DOCUMENT(&it)) {
    uint32_t len;
    const uint8_t *data;
    bson_iter_document(&it, &len, &data);
    (void)bson_init_static(&before, data, len);
    op.version = doc_number(&before, "n") + 1;
  } else if (ok) {
    op.kind = OP_CAS_MISSED;
  }
  enum outcome o = outcome_of(w, op.kind == OP_CAS ? "register cas" : "register cas missed", ok, true, &why);
  note(w, k, &op, o);
  mongoc_find_and_modify_opts_destroy(opts);
  bson_destroy(&reply);
  bson_destroy(update);
  bson_destroy(filter);
}

void registers_turn(struct worker *w) {
  int64_t last_seen;
  struct register_key *k = choose_key(w, &last_seen);
  mongoc_collection_t *coll = collection_of(w->client, "register", k->place);
  int what = rng_below(&w->rng, 100);
  if (what < 45)
    read_register(w, coll, k);
  else if (what < 75 || last_seen == REGISTER_ABSENT)
    write_register(w, coll, k);
  else
    compare_and_set(w, coll, k, last_seen);
  mongoc_collection_destroy(coll);
}

// --- the end ---

static void final_read(struct run *run, mongoc_collection_t *coll, struct register_key *k) {
  struct reading how = {.concern = "majority"};
  struct op op = {.kind = OP_READ, .called = now_ns(), .strict = true, .worker = -1};
  bson_error_t why = {0};
  bson_t *doc;
  if (read_one(coll, k->h.key, &how, &doc, &why)) {
    op.value = doc_number(doc, "v");
    op.version = doc_number(doc, "n");
    op.done = now_ns();
    history_add(&k->h, &op);
  } else {
    report_violation(&run->report, "final read of register %lld: %s", (long long)k->h.key, why.message);
  }
  bson_destroy(doc);
}

static void judge(struct run *run, const struct register_key *k) {
  struct verdict linear, versions;
  bool ok = check_register(&k->h, &linear) & check_versions(&k->h, &versions);
  if (*linear.text && linear.ok) report_count(&run->report, "register keys undecided", OUTCOME_UNKNOWN);
  if (ok) return;
  char name[64];
  (void)snprintf(name, sizeof name, "register-%c-%lld.txt", k->place == PLACE_HASHED ? 'h' : 'r', (long long)k->h.key);
  FILE *f = report_evidence(&run->report, name);
  if (f) {
    history_write(&k->h, f);
    (void)fclose(f);
  }
  report_violation(&run->report, "%s; %s (%s)", linear.text, versions.text, name);
}

void registers_check(struct run *run) {
  struct registers *rs = run->registers;
  mongoc_client_t *c = fleet_router_client(&run->fleet, 1);
  for (size_t i = 0; i < rs->n; i++) {
    mongoc_collection_t *coll = collection_of(c, "register", rs->all[i]->place);
    final_read(run, coll, rs->all[i]);
    mongoc_collection_destroy(coll);
    judge(run, rs->all[i]);
    history_free(&rs->all[i]->h);
    free(rs->all[i]);
  }
  mongoc_client_destroy(c);
  (void)pthread_mutex_destroy(&rs->lock);
  free(rs->all);
  free(rs);
}
